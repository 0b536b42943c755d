//! What ThreadSanitizer, where it watches the process, is told of this library, which is not
//! instrumented.
//!
//! It knows memory by the C library's functions that hand it out and take it back, and it does not
//! see how the threads of this library hand memory on. So it would report
//! - memory that another thread uses again, which went by an allocator that it does not know: the
//!   library's own closes (`bump`);
//! - memory that another thread frees than the one that had it: it does not look at what the
//!   library frees ([`unwatched`]).
//!
//! What members hand each other in a region is the program's: of that it is told nothing.

/// The address of a function that ThreadSanitizer's run-time library defines; 0 where no file of
/// the process does. Cost: a load.
#[cfg(target_arch = "x86_64")]
macro_rules! address {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: - reads the word that the loader fills in for the symbol.
        unsafe {
            std::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {address}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                address = out(reg) address,
                options(nostack, preserves_flags, pure, readonly),
            );
        }
        address
    }};
}

/// Not looked for.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! address {
    ($name:literal) => {
        0
    };
}

/// True when ThreadSanitizer watches the process.
#[inline]
pub(crate) fn is_there() -> bool {
    address!("__tsan_init") != 0
}

/// Runs `body`, whose accesses ThreadSanitizer does not look at.
#[inline]
pub(crate) fn unwatched(body: impl FnOnce()) {
    if is_there() {
        let begin: usize = address!("__tsan_ignore_thread_begin");
        let end: usize = address!("__tsan_ignore_thread_end");
        call(begin);
        body();
        call(end);
    } else {
        body();
    }
}

/// Calls the function at `address`, one of those that take and return nothing; none at 0.
#[cold]
fn call(address: usize) {
    if address != 0 {
        let place = std::ptr::with_exposed_provenance::<()>(address);
        // SAFETY: - the address of such a function (caller), as the loader found it.
        unsafe { std::mem::transmute::<*const (), extern "C" fn()>(place)() };
    }
}
