//! Values that tasks with dependences use without a lock.

use std::cell::UnsafeCell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// A value that is shared by tasks whose dependences keep them apart: readers beside each other, a
/// writer alone. That it is so is checked at each access (one atomic operation, no task ever
/// waits): a forgotten dependence is a panic that says so, never a race.
///
/// ```
/// use nanothreads::DataCell;
/// let cells: Vec<DataCell<u64>> = (0..10).map(|_| DataCell::new(1)).collect();
/// nanothreads::scope(|s| {
///     for i in 1..10 {
///         let (before, this) = (&cells[i - 1], &cells[i]);
///         s.task().reads(before).writes(this).spawn(|_| *this.write() += *before.read());
///     }
/// });
/// assert_eq!(*cells[9].read(), 10);
/// ```
pub struct DataCell<T> {
    /// Readers inside, or [`WRITER`].
    users: AtomicU32,
    value: UnsafeCell<T>,
}

/// A writer is inside.
const WRITER: u32 = u32::MAX;
/// More readers than this are refused: the next ones could be taken for a writer.
const MOST_READERS: u32 = WRITER / 2;

// SAFETY: - `users` lets in many readers, which needs `T: Sync`, or one writer on any thread, which
// needs `T: Send`.
unsafe impl<T: Send + Sync> Sync for DataCell<T> {}

impl<T> DataCell<T> {
    /// A cell that holds `value`.
    pub const fn new(value: T) -> Self {
        Self { users: AtomicU32::new(0), value: UnsafeCell::new(value) }
    }

    /// Looks at the value.
    ///
    /// # Panics
    /// If a task changes it at the same time: no dependence orders the two.
    #[track_caller]
    pub fn read(&self) -> Reading<'_, T> {
        // ORDERING: Acquire - pairs with the Release of the writer's end.
        let entered = self
            .users
            .fetch_update(Acquire, Relaxed, |users| (users < MOST_READERS).then(|| users + 1));
        assert!(
            entered.is_ok(),
            "DataCell::read: another task changes the value now; name it by .reads(..) here and \
             .writes(..) there, on tasks of the same handle"
        );
        Reading(self)
    }

    /// Changes the value.
    ///
    /// # Panics
    /// If another task uses it at the same time: no dependence orders the two.
    #[track_caller]
    pub fn write(&self) -> Writing<'_, T> {
        // ORDERING: Acquire - pairs with the Release of the last user's end.
        let entered = self.users.compare_exchange(0, WRITER, Acquire, Relaxed);
        assert!(
            entered.is_ok(),
            "DataCell::write: another task uses the value now; name it by .writes(..) here and \
             .reads(..) or .writes(..) there, on tasks of the same handle"
        );
        Writing(self)
    }

    /// The value, by the cell's only owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The value.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: Default> Default for DataCell<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> fmt::Debug for DataCell<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataCell").finish_non_exhaustive()
    }
}

/// A look at a [`DataCell`].
#[derive(Debug)]
#[must_use = "the access ends when this is dropped"]
pub struct Reading<'a, T>(&'a DataCell<T>);

impl<T> Deref for Reading<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: - `users` counts us as a reader: no writer is inside.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for Reading<'_, T> {
    fn drop(&mut self) {
        // ORDERING: Release - pairs with the next writer's Acquire.
        self.0.users.fetch_sub(1, Release);
    }
}

/// A change of a [`DataCell`].
#[derive(Debug)]
#[must_use = "the access ends when this is dropped"]
pub struct Writing<'a, T>(&'a DataCell<T>);

impl<T> Deref for Writing<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: - `users` says that we are the only user.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Writing<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: - as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Writing<'_, T> {
    fn drop(&mut self) {
        // ORDERING: Release - pairs with the next user's Acquire.
        self.0.users.store(0, Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn readers_stand_beside_each_other_and_a_writer_alone() {
        fn refusal(access: impl FnOnce()) -> String {
            let payload =
                catch_unwind(AssertUnwindSafe(access)).expect_err("the access is refused");
            payload.downcast_ref::<&str>().map(ToString::to_string).expect("the panic has a text")
        }

        let cell = DataCell::new(1);
        {
            let (a, b) = (cell.read(), cell.read());
            assert_eq!(*a + *b, 2);
            assert!(
                refusal(|| *cell.write() = 5)
                    .starts_with("DataCell::write: another task uses the value now")
            );
        }
        {
            let mut writing = cell.write();
            *writing = 7;
            assert!(
                refusal(|| drop(cell.read()))
                    .starts_with("DataCell::read: another task changes the value now")
            );
            assert!(
                refusal(|| *cell.write() = 5)
                    .starts_with("DataCell::write: another task uses the value now")
            );
        }
        // A guard that is never dropped: refused for ever, but not unsound.
        std::mem::forget(cell.write());
        assert!(
            refusal(|| drop(cell.read()))
                .starts_with("DataCell::read: another task changes the value now")
        );
        assert_eq!(cell.into_inner(), 7);
    }
}
