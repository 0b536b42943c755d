//! Locks: the C and Fortran names of both versions.
//!
//! In the shared library the plain names are OMP_3.0's (owner of a nestable lock: the task) and
//! `nanos_old_*` become OMP_1.0's (owner: the thread); see `abi/versioned_locks.s` beside `src`.

use crate::frame;
use crate::lock::{NestLock, OldNestLock, SimpleLock};
use crate::process::message;
use platform::affinity::current_tid;
use std::ffi::{c_int, c_void};
use std::ptr;

/// `enter` with the number by which a nestable lock knows its owner, the current task.
#[inline(always)]
fn task<R>(lock: &NestLock, enter: fn(&NestLock, usize) -> R) -> R {
    frame::with_current((lock, enter), |frame, (lock, enter)| enter(lock, frame.task().identity()))
}

/// The same for an owner that is a thread.
fn thread<R>(lock: &OldNestLock, enter: fn(&OldNestLock, i32) -> R) -> R {
    enter(lock, current_tid().0)
}

macro_rules! simple_locks {
    ($($init:ident, $destroy:ident, $set:ident, $unset:ident, $test:ident;)*) => {$(
        /// Makes a lock, free.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $init(lock: *mut SimpleLock) {
            // SAFETY: the program's lock variable: 4 aligned bytes, any content.
            unsafe { &*lock }.reset();
        }

        /// Ends the use of a lock. It holds nothing that would have to be freed.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $destroy(_lock: *mut SimpleLock) {}

        /// Takes a lock.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set(lock: *mut SimpleLock) {
            // SAFETY: a lock that was made.
            unsafe { &*lock }.take();
        }

        /// Frees a lock.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $unset(lock: *mut SimpleLock) {
            // SAFETY: a lock that was made.
            unsafe { &*lock }.free();
        }

        /// Takes a lock if it is free; 1 = taken.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $test(lock: *mut SimpleLock) -> c_int {
            // SAFETY: a lock that was made.
            unsafe { &*lock }.try_take().into()
        }
    )*};
}

// Fortran's lock kind has 4 bytes, so all four families are the same lock.
simple_locks! {
    omp_init_lock, omp_destroy_lock, omp_set_lock, omp_unset_lock, omp_test_lock;
    omp_init_lock_, omp_destroy_lock_, omp_set_lock_, omp_unset_lock_, omp_test_lock_;
    nanos_old_omp_init_lock, nanos_old_omp_destroy_lock, nanos_old_omp_set_lock, nanos_old_omp_unset_lock, nanos_old_omp_test_lock;
    nanos_old_omp_init_lock_, nanos_old_omp_destroy_lock_, nanos_old_omp_set_lock_, nanos_old_omp_unset_lock_, nanos_old_omp_test_lock_;
}

macro_rules! init_nest_locks {
    ($($name:ident, $lock:ty;)*) => {$(
        /// Makes a nestable lock, free.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(lock: *mut $lock) {
            // SAFETY: the program's lock variable, of the type's size and alignment.
            unsafe { &*lock }.reset();
        }
    )*};
}

init_nest_locks! {
    omp_init_nest_lock, NestLock;
    nanos_old_omp_init_nest_lock, OldNestLock;
    nanos_old_omp_init_nest_lock_, OldNestLock;
}

macro_rules! nest_locks {
    ($($lock:ty, $owner:ident: $destroy:ident, $set:ident, $unset:ident, $test:ident;)*) => {$(
        /// Ends the use of a nestable lock. It holds nothing that would have to be freed.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $destroy(_lock: *mut $lock) {}

        /// Takes a nestable lock (again).
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $set(lock: *mut $lock) {
            // SAFETY: a lock that was made.
            $owner(unsafe { &*lock }, <$lock>::take);
        }

        /// Takes one `set` back.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $unset(lock: *mut $lock) {
            // SAFETY: a lock that was made.
            unsafe { &*lock }.free();
        }

        /// Takes a nestable lock (again) if that is possible at once; the new depth, or 0.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $test(lock: *mut $lock) -> c_int {
            // SAFETY: a lock that was made.
            $owner(unsafe { &*lock }, <$lock>::try_take)
        }
    )*};
}

nest_locks! {
    NestLock, task: omp_destroy_nest_lock, omp_set_nest_lock, omp_unset_nest_lock, omp_test_nest_lock;
    OldNestLock, thread: nanos_old_omp_destroy_nest_lock, nanos_old_omp_set_nest_lock, nanos_old_omp_unset_nest_lock, nanos_old_omp_test_nest_lock;
    OldNestLock, thread: nanos_old_omp_destroy_nest_lock_, nanos_old_omp_set_nest_lock_, nanos_old_omp_unset_nest_lock_, nanos_old_omp_test_nest_lock_;
}

/// Fortran's nestable lock has 8 bytes: a pointer to the lock.
type Indirect = *mut *mut NestLock;

/// Makes a nestable lock, free.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_init_nest_lock_(place: Indirect) {
    // SAFETY: the program's lock variable: 8 aligned bytes.
    unsafe { place.write(Box::into_raw(Box::default())) };
}

/// Frees a nestable lock's memory.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_destroy_nest_lock_(place: Indirect) {
    // SAFETY: a lock that was made.
    let lock = unsafe { place.replace(ptr::null_mut()) };
    if !lock.is_null() {
        // SAFETY: made by `omp_init_nest_lock_`, not used any more.
        drop(unsafe { Box::from_raw(lock) });
    }
}

/// The lock to which the pointer at `place` points.
///
/// # Safety
/// - `place` holds a lock that was made and not destroyed.
unsafe fn behind<'a>(place: Indirect) -> &'a NestLock {
    // SAFETY: caller's contract.
    match unsafe { (*place).as_ref() } {
        Some(lock) => lock,
        None => message::fatal("a nestable lock is used that was destroyed"),
    }
}

/// Takes a nestable lock (again).
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_set_nest_lock_(place: Indirect) {
    // SAFETY: a lock that was made.
    task(unsafe { behind(place) }, NestLock::take);
}

/// Takes one `set` back.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_unset_nest_lock_(place: Indirect) {
    // SAFETY: a lock that was made.
    unsafe { behind(place) }.free();
}

/// Takes a nestable lock (again) if that is possible at once; the new depth, or 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_test_nest_lock_(place: Indirect) -> c_int {
    // SAFETY: a lock that was made.
    task(unsafe { behind(place) }, NestLock::try_take)
}

/// Places for locks have the sizes that gcc's `omp.h` gives them.
const _: () = assert!(size_of::<*mut c_void>() == 8);
