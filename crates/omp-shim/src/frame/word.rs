//! One thread-local word: the frame of the region that the calling thread works in. Null on a
//! thread that never came here.
//!
//! On x86-64 the word is addressed in the initial-exec model (two loads, no call): a shared library
//! pays 2-3 ns more for each access in the default model. It costs 8 bytes of the loader's static
//! reserve, so late `dlopen` works.

use super::Frame;

#[cfg(target_arch = "x86_64")]
mod cell {
    use super::Frame;
    use std::arch::{asm, global_asm};

    global_asm!(
        ".pushsection .tbss.nanos_omp_frame,\"awT\",@nobits",
        ".globl nanos_omp_frame",
        ".hidden nanos_omp_frame",
        ".type nanos_omp_frame,@tls_object",
        ".size nanos_omp_frame,8",
        ".p2align 3",
        "nanos_omp_frame:",
        ".zero 8",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn get() -> *const Frame {
        let frame: *const Frame;
        // SAFETY: - reads the thread's own 8-byte word, defined above, through its initial-exec
        // offset.
        unsafe {
            asm!(
                "mov {frame}, qword ptr [rip + nanos_omp_frame@GOTTPOFF]",
                "mov {frame}, qword ptr fs:[{frame}]",
                frame = out(reg) frame,
                options(nostack, preserves_flags, readonly),
            );
        }
        frame
    }

    #[inline(always)]
    pub(super) fn set(frame: *const Frame) {
        // SAFETY: - writes the thread's own 8-byte word, defined above, through its initial-exec
        // offset.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + nanos_omp_frame@GOTTPOFF]",
                "mov qword ptr fs:[{offset}], {frame}",
                offset = out(reg) _,
                frame = in(reg) frame,
                options(nostack, preserves_flags),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod cell {
    use super::Frame;
    use std::cell::Cell;
    use std::ptr;

    thread_local! {
        static FRAME: Cell<*const Frame> = const { Cell::new(ptr::null()) };
    }

    #[inline(always)]
    pub(super) fn get() -> *const Frame {
        FRAME.get()
    }

    #[inline(always)]
    pub(super) fn set(frame: *const Frame) {
        FRAME.set(frame);
    }
}

/// The calling thread's frame, or null.
#[inline(always)]
pub(crate) fn get() -> *const Frame {
    cell::get()
}

/// Makes `frame` the calling thread's; returns the one before.
#[inline(always)]
pub(crate) fn set(frame: *const Frame) -> *const Frame {
    let before = cell::get();
    cell::set(frame);
    before
}
