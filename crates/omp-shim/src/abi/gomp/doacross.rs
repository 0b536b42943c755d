//! Loop nests with cross-iteration dependences.

use super::general::{Extras, enter_with, first_chunk, schedule};
use crate::construct::Plan;
use crate::frame::{self, Frame};
use crate::schedule::{Kind, Schedule, Space};
use crate::worksharing::doacross;
use std::ffi::{c_long, c_uint, c_void};
use std::slice;

/// Enters a loop nest with cross-iteration dependences.
///
/// # Safety
/// - `counts` points to `depth` trip counts; the other pointers are null or the compiled code's.
unsafe fn begin_doacross(
    (depth, counts): (c_uint, *const u64),
    schedule: impl FnOnce(&Frame) -> Schedule,
    extras: Extras,
    start: *mut u64,
    end: *mut u64,
) -> bool {
    let frame = frame::current();
    // SAFETY: caller's contract.
    let counts = unsafe { slice::from_raw_parts(counts, depth as usize) };
    let outer = counts.first().copied().unwrap_or(0);
    let schedule = schedule(frame);
    let plan = || Plan::new(Space::unsigned(true, 0, outer, 1), schedule);
    // SAFETY: caller's contract.
    unsafe {
        enter_with(frame, plan, extras, Some((counts, schedule)));
        first_chunk(frame, start, end)
    }
}

const NO_EXTRAS: Extras = Extras { reductions: std::ptr::null_mut(), memory: std::ptr::null_mut() };

macro_rules! start_doacross {
    ($name:ident, $kind:expr) => {
        /// Enters a loop nest with cross-iteration dependences and this schedule.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            depth: c_uint,
            counts: *mut u64,
            chunk: u64,
            istart: *mut u64,
            iend: *mut u64,
        ) -> bool {
            // SAFETY: the compiled code's pointers.
            unsafe {
                begin_doacross(
                    (depth, counts),
                    |_| Schedule::new($kind, chunk),
                    NO_EXTRAS,
                    istart,
                    iend,
                )
            }
        }
    };
}

start_doacross!(GOMP_loop_doacross_static_start, Kind::Static);
start_doacross!(GOMP_loop_doacross_dynamic_start, Kind::Dynamic);
start_doacross!(GOMP_loop_doacross_guided_start, Kind::Guided);
start_doacross!(GOMP_loop_ull_doacross_static_start, Kind::Static);
start_doacross!(GOMP_loop_ull_doacross_dynamic_start, Kind::Dynamic);
start_doacross!(GOMP_loop_ull_doacross_guided_start, Kind::Guided);

macro_rules! start_doacross_other {
    ($runtime:ident, $general:ident) => {
        /// Enters a loop nest with cross-iteration dependences and the schedule of the control
        /// variable.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $runtime(
            depth: c_uint,
            counts: *mut u64,
            istart: *mut u64,
            iend: *mut u64,
        ) -> bool {
            // SAFETY: the compiled code's pointers.
            unsafe {
                begin_doacross(
                    (depth, counts),
                    |frame| frame.icvs().schedule,
                    NO_EXTRAS,
                    istart,
                    iend,
                )
            }
        }

        /// Enters a loop nest with cross-iteration dependences and extras.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $general(
            depth: c_uint,
            counts: *mut u64,
            sched: c_long,
            chunk: u64,
            istart: *mut u64,
            iend: *mut u64,
            reductions: *mut usize,
            memory: *mut *mut c_void,
        ) -> bool {
            let extras = Extras { reductions, memory };
            // SAFETY: the compiled code's pointers.
            unsafe {
                begin_doacross(
                    (depth, counts),
                    |frame| schedule(frame, sched, chunk),
                    extras,
                    istart,
                    iend,
                )
            }
        }
    };
}

start_doacross_other!(GOMP_loop_doacross_runtime_start, GOMP_loop_doacross_start);
start_doacross_other!(GOMP_loop_ull_doacross_runtime_start, GOMP_loop_ull_doacross_start);

/// `ordered depend(source)`: the iteration whose numbers `vector` holds is done.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_doacross_post(vector: *mut u64) {
    frame::with_current(vector, |frame, vector| {
        // SAFETY: the compiled code passes one number for each loop of the nest.
        doacross::post(frame, |k| unsafe { vector.add(k).read() });
    });
}

/// The same for unsigned loops.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_doacross_ull_post(vector: *mut u64) {
    // SAFETY: the same contract.
    unsafe { GOMP_doacross_post(vector) };
}

/// Numbers that a variadic call passes in registers.
#[cfg(target_arch = "x86_64")]
const REGISTERS: usize = 6;
#[cfg(target_arch = "aarch64")]
const REGISTERS: usize = 8;

/// `ordered depend(sink: ...)` with the numbers spilled from the registers and the stack.
///
/// # Safety
/// - `registers` points to [`REGISTERS`] words, `stack` to the words that did not fit there.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
unsafe extern "C" fn doacross_wait(registers: *const u64, stack: *const u64) {
    frame::with_current((registers, stack), |frame, (registers, stack)| {
        // SAFETY: the compiled code passes one number for each loop of the nest.
        doacross::wait(frame, |k| unsafe {
            if k < REGISTERS { *registers.add(k) } else { *stack.add(k - REGISTERS) }
        });
    });
}

#[cfg(target_arch = "x86_64")]
macro_rules! doacross_wait {
    ($name:ident) => {
        /// `ordered depend(sink: ...)`: variadic, one number for each loop of the nest.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 56",
                ".cfi_adjust_cfa_offset 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                "lea rsi, [rsp + 64]",
                "call {wait}",
                "add rsp, 56",
                ".cfi_adjust_cfa_offset -56",
                "ret",
                ".cfi_endproc",
                wait = sym doacross_wait,
            )
        }
    };
}

#[cfg(target_arch = "aarch64")]
macro_rules! doacross_wait {
    ($name:ident) => {
        /// `ordered depend(sink: ...)`: variadic, one number for each loop of the nest.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-80]!",
                ".cfi_def_cfa_offset 80",
                ".cfi_offset x29, -80",
                ".cfi_offset x30, -72",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "add x0, sp, #16",
                "add x1, sp, #80",
                "bl {wait}",
                "ldp x29, x30, [sp], #80",
                ".cfi_restore x29",
                ".cfi_restore x30",
                ".cfi_def_cfa_offset 0",
                "ret",
                ".cfi_endproc",
                wait = sym doacross_wait,
            )
        }
    };
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
doacross_wait!(GOMP_doacross_wait);
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
doacross_wait!(GOMP_doacross_ull_wait);
