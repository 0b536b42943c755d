//! Locks of the library in the process of a program: the standard library's, whose waits do not
//! change the program's `errno`.
//!
//! A thread that finds a lock taken asks the kernel to sleep while the lock's word is what it saw;
//! when the lock was released meanwhile, the kernel answers `EAGAIN`, and the standard library
//! leaves that in `errno`. A region may stand between a program's failing call and its look at
//! `errno`.

use crate::aside::SavedErrno;
use std::sync::{self, LockResult, MutexGuard, OnceLock, PoisonError, TryLockError};

/// As [`std::sync::Mutex`], and at the same cost where no thread waits; the thread's `errno` stays
/// what it was.
#[derive(Debug, Default)]
pub struct Mutex<T>(sync::Mutex<T>);

impl<T> Mutex<T> {
    /// One that protects `value`.
    pub const fn new(value: T) -> Self {
        Self(sync::Mutex::new(value))
    }

    /// Waits until no other thread has it.
    ///
    /// # Errors
    /// A thread panicked while it had the lock, which the error gives all the same.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Err(poisoned),
            Err(TryLockError::WouldBlock) => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> LockResult<MutexGuard<'_, T>> {
        let _kept = SavedErrno::now();
        #[expect(clippy::disallowed_methods, reason = "this is where errno is kept")]
        self.0.lock()
    }

    /// Does not wait.
    ///
    /// # Errors
    /// Another thread has it; or one panicked while it had the lock, which the error gives all the
    /// same.
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError<MutexGuard<'_, T>>> {
        self.0.try_lock()
    }

    /// The value, which no other thread knows.
    ///
    /// # Errors
    /// A thread panicked while it had the lock, which the error gives all the same.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.0.get_mut()
    }

    /// The value.
    ///
    /// # Errors
    /// A thread panicked while it had the lock, which the error gives all the same.
    pub fn into_inner(self) -> Result<T, PoisonError<T>> {
        self.0.into_inner()
    }
}

/// As [`OnceLock`]; the thread's `errno` stays what it was, whatever the initialisation does.
#[derive(Debug, Default)]
pub struct Once<T>(OnceLock<T>);

impl<T> Once<T> {
    /// One that has no value yet.
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The value, if it has one.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        self.0.get()
    }

    /// The value, if it has one, and none is left.
    pub fn take(&mut self) -> Option<T> {
        self.0.take()
    }

    /// Gives it `value` if it has none.
    ///
    /// # Errors
    /// `value`, where it has one.
    pub fn set(&self, value: T) -> Result<(), T> {
        let _kept = SavedErrno::now();
        self.0.set(value)
    }

    /// The value, which one thread makes; the others wait for that.
    #[inline]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get().unwrap_or_else(|| self.make(make))
    }

    #[cold]
    fn make(&self, make: impl FnOnce() -> T) -> &T {
        let _kept = SavedErrno::now();
        #[expect(clippy::disallowed_methods, reason = "this is where errno is kept")]
        self.0.get_or_init(make)
    }
}

#[cfg(test)]
mod tests {
    use super::{Mutex, Once};
    use nix::errno::Errno;
    use std::thread;

    const ROUNDS: usize = 20_000;

    #[test]
    fn a_thread_that_waits_for_a_lock_has_the_errno_of_before() {
        let sum = Mutex::new(0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    Errno::EDOM.set();
                    for _ in 0..ROUNDS {
                        *sum.lock().expect("no thread panics") += 1;
                        assert_eq!(Errno::last(), Errno::EDOM);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner().expect("no thread panicked"), 4 * ROUNDS);
    }

    #[test]
    fn a_thread_that_waits_for_a_first_value_has_the_errno_of_before() {
        for round in 0..200 {
            let value = Once::new();
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        Errno::EDOM.set();
                        let make = || {
                            Errno::EAGAIN.set();
                            round
                        };
                        assert_eq!(*value.get_or_init(make), round);
                        assert_eq!(Errno::last(), Errno::EDOM);
                    });
                }
            });
        }
    }
}
