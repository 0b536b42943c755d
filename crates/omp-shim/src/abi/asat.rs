//! The call of automatic self-allocating threads, for programs whose threads are their own. Not
//! OpenMP's: it stands in a version node of ours. `include/asat.h` is made of this file
//! (`tests/header.rs`).

use crate::settings::settings;
use std::ffi::c_int;

/// How many threads, from 1 to most, the next parallel part of the program is to have; less than 1
/// counts as 1. To be called before each such part, while the program's own threads have nothing to
/// do. Mostly it returns at once. Once in ASAT_EVAL_TIME it finds out what the machine can run now:
/// the default version, for which that time is a second where less is set, in some milliseconds;
/// the variants paper and reset, which take the time as it is set, by one barrier. Either spends at
/// most one part in a hundred of the time on it: after a test that took long, since others had the
/// processors, the number stays for a hundred times as long. The first call starts the threads that
/// it needs for that; they sleep between tests. Any thread may call; where it is another one than
/// before, it may get such threads of its own. Inside a parallel region of this library, and beside
/// those of other threads, nothing is found out; a first call inside one answers 1. A mask of
/// processors that is changed counts at the next of these times. A program that found a manager at
/// its start is told what that grants. libnanos_asat.so without libgomp.so.1 of this library in the
/// process or beside it answers most.
#[unsafe(no_mangle)]
extern "C" fn asat_adjust_threads(most: c_int) -> c_int {
    let most = usize::try_from(most).unwrap_or(1);
    let settings = settings();
    let threads = settings.host.adjust_threads(most, || settings.environment.asat.clone());
    c_int::try_from(threads).unwrap_or(c_int::MAX)
}

/// The same for Fortran: integer function asat_adjust_threads(most), both of the default kind.
#[unsafe(no_mangle)]
unsafe extern "C" fn asat_adjust_threads_(most: *const c_int) -> c_int {
    // SAFETY: - Fortran passes the address of an integer.
    asat_adjust_threads(unsafe { *most })
}
