//! Storage for each thread: a value for each thread that asks, made when it first does.

mod buckets;

use buckets::Buckets;
use std::cell::RefMut;
use std::fmt;

/// A value for each thread that uses it, made by `make` at its first use there (a thread that
/// begins after another one has ended may go on with that one's value). After the region its owner
/// reads, changes or takes them all. A thread has its value also in thread-local destructors.
///
/// Access takes no lock and shares no cache line: each value has lines of its own, and while a
/// closure of [`PerThread::with`] runs nothing else can reach it.
///
/// ```
/// use nanothreads::{PerThread, par_for};
/// let histograms = PerThread::new(|| [0_u32; 10]);
/// par_for(0..1_000).run_with(&histograms, |own, i| own[i % 10] += 1);
/// let sum = histograms.into_values().fold([0; 10], |mut sum, own| {
///     sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
///     sum
/// });
/// assert_eq!(sum, [100; 10]);
/// ```
///
/// A `with` is a few loads and a check, some nanoseconds, and keeps the compiler from making vector
/// code of the loop around it. [`ParFor::run_with`](crate::ParFor::run_with) calls it once for each
/// chunk; the fastest is a table of the chunk's own in
/// [`ParFor::reduce_chunks`](crate::ParFor::reduce_chunks). Elsewhere it is called where it is
/// needed:
///
/// ```
/// use nanothreads::{PerThread, par_for};
/// let found = PerThread::new(Vec::new);
/// par_for(0..1_000).run(|i| {
///     if i % 100 == 7 {
///         found.with(|own| own.push(i));
///     }
/// });
/// assert_eq!(found.into_values().map(|own| own.len()).sum::<usize>(), 10);
/// ```
///
/// The values travel to the thread that reads them:
/// ```compile_fail,E0277
/// let values = nanothreads::PerThread::new(|| std::rc::Rc::new(1));
/// nanothreads::broadcast(|_| values.with(|own| drop(own.clone())));
/// ```
/// and what is borrowed from one does not leave the closure:
/// ```compile_fail,E0521
/// let values = nanothreads::PerThread::new(|| 1);
/// let mut kept: Option<&mut i32> = None;
/// values.with(|own| kept = Some(own));
/// ```
pub struct PerThread<T: Send, F = fn() -> T> {
    buckets: Buckets<T>,
    make: F,
}

impl<T: Send + fmt::Debug, F> fmt::Debug for PerThread<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Other threads may be using theirs: their values cannot be shown.
        f.debug_struct("PerThread").field("own", &self.buckets.own()).finish_non_exhaustive()
    }
}

impl<T: Send + Default> Default for PerThread<T> {
    fn default() -> Self {
        Self::new(T::default)
    }
}

impl<T: Send, F: Fn() -> T> PerThread<T, F> {
    /// Storage without values yet; `make` makes each.
    pub fn new(make: F) -> Self {
        Self { buckets: Buckets::new(), make }
    }

    /// Runs `body` with the calling thread's value. Cost: a few loads; the first time on a thread
    /// one allocation.
    ///
    /// # Panics
    /// When a `with` of the same storage is open on this thread: `body` calls it again, or a
    /// nano-thread waits inside its `body` and another one runs on its thread meanwhile.
    /// [`PerThread::try_with`] tells instead.
    #[inline]
    #[track_caller]
    pub fn with<R>(&self, body: impl FnOnce(&mut T) -> R) -> R {
        match self.try_with(body) {
            Some(result) => result,
            None => refuse(),
        }
    }

    /// As [`PerThread::with`]; `None`, without a call of `body`, when the value is in use on this
    /// thread.
    ///
    /// ```
    /// let buffers = nanothreads::PerThread::new(String::new);
    /// buffers.with(|own| {
    ///     own.push('a');
    ///     assert!(buffers.try_with(|again| again.push('b')).is_none());
    /// });
    /// ```
    #[inline]
    pub fn try_with<R>(&self, body: impl FnOnce(&mut T) -> R) -> Option<R> {
        let place = match self.buckets.own() {
            Some(place) => place,
            None => {
                // Outside the storage: `make` may call this again, or let other nano-threads run
                // that do.
                let value = (self.make)();
                self.buckets.keep(value)
            }
        };
        let value: Option<RefMut<'_, T>> = place.try_borrow_mut().ok();
        value.map(|mut value| body(&mut value))
    }
}

impl<T: Send, F> PerThread<T, F> {
    /// The values that were made, in no particular order. In a child of `fork` without those that
    /// other threads of its parent were using when it was forked: they may be half written.
    ///
    /// ```
    /// let mut counts = nanothreads::PerThread::new(|| 0);
    /// for _ in 0..2 {
    ///     nanothreads::par_for(0..50).run(|_| counts.with(|own| *own += 1));
    ///     let sum: i32 = counts.values_mut().map(|own| std::mem::take(own)).sum();
    ///     assert_eq!(sum, 50);
    /// }
    /// ```
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.buckets.values_mut()
    }

    /// The same, to keep.
    pub fn into_values(mut self) -> impl Iterator<Item = T> {
        self.buckets.take().into_iter()
    }

    /// How many values were made.
    pub fn count(&mut self) -> usize {
        self.values_mut().count()
    }
}

/// Panics where a value is in use.
#[cold]
#[track_caller]
pub(crate) fn refuse() -> ! {
    panic!("PerThread::with inside another one of the same storage, on the same thread")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::OnceLock;

    #[test]
    fn each_thread_has_a_value_of_its_own_on_lines_of_its_own() {
        let values = PerThread::new(Vec::new);
        let all_live = std::sync::Barrier::new(3);
        let places: Vec<usize> = std::thread::scope(|s| {
            let threads = [1, 2, 3].map(|id| {
                let (values, all_live) = (&values, &all_live);
                s.spawn(move || {
                    all_live.wait();
                    values.with(|own| own.push(id));
                    values.with(|own| own.push(id + 10));
                    let place = values.with(|own: &mut Vec<i32>| std::ptr::from_ref(own).addr());
                    all_live.wait();
                    place
                })
            });
            threads.map(|thread| thread.join().expect("the thread does not panic")).to_vec()
        });
        for (i, place) in places.iter().enumerate() {
            assert!(places[..i].iter().all(|other| place.abs_diff(*other) >= 128));
        }
        let mut values: Vec<_> = values.into_values().collect();
        values.sort();
        assert_eq!(values, [[1, 11], [2, 12], [3, 13]]);
    }

    #[test]
    fn threads_that_come_one_after_the_other_use_few_values() {
        let values = std::sync::Arc::new(PerThread::new(|| 0));
        for _ in 0..500 {
            let values = std::sync::Arc::clone(&values);
            // Not a scoped thread: the join of that one does not wait for the thread's end.
            std::thread::spawn(move || values.with(|own| *own += 1))
                .join()
                .expect("the thread does not panic");
        }
        let mut values = std::sync::Arc::into_inner(values).expect("the threads have ended");
        assert!(
            values.count() < 100,
            "{} values: other tests' threads come and go, too, but not so many",
            values.count()
        );
        assert_eq!(values.into_values().sum::<i32>(), 500);
    }

    #[test]
    fn a_value_in_use_is_refused_and_usable_afterwards_also_after_a_panic() {
        let mut values: PerThread<u32> = PerThread::default();
        values.with(|own| {
            *own = 1;
            assert_eq!(values.try_with(|_| ()), None);
            let inner = catch_unwind(AssertUnwindSafe(|| values.with(|_| ())));
            assert!(
                inner
                    .expect_err("refused")
                    .downcast_ref::<&str>()
                    .is_some_and(|text| text.contains("PerThread::with"))
            );
        });
        let panicking = catch_unwind(AssertUnwindSafe(|| {
            values.with(|own| {
                *own += 1;
                panic!("planted");
            })
        }));
        assert!(panicking.is_err());
        assert_eq!(values.with(|own| *own), 2);
        assert_eq!(values.count(), 1);
    }

    /// Makes its value, at the first call by a value that another call makes inside.
    fn reentrant(values: &OnceLock<PerThread<u32>>, inner: impl FnOnce(&PerThread<u32>)) -> u32 {
        thread_local! {
            static MADE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
        }
        let number = MADE.replace(MADE.get() + 1);
        if number == 0 {
            inner(values.get().expect("made by the test"));
        }
        number
    }

    #[test]
    fn a_value_is_made_outside_the_storage_which_its_make_may_use() {
        static VALUES: OnceLock<PerThread<u32>> = OnceLock::new();
        let values = VALUES.get_or_init(|| {
            PerThread::new(|| {
                reentrant(&VALUES, |values| {
                    // The thread's value is not in use yet: it is made here, and stays.
                    values.with(|own| *own += 10);
                    assert_eq!(values.try_with(|own| *own), Some(11));
                })
            })
        });
        assert_eq!(values.with(|own| *own), 11, "the one that was used first");
    }

    #[test]
    fn a_make_that_panics_leaves_no_value_and_the_next_use_makes_one() {
        let calls = std::cell::Cell::new(0);
        let mut values = PerThread::new(|| {
            calls.set(calls.get() + 1);
            assert!(calls.get() > 1, "planted");
            7
        });
        assert!(catch_unwind(AssertUnwindSafe(|| values.with(|_| ()))).is_err());
        assert_eq!(values.with(|own| *own), 7);
        assert_eq!((values.count(), calls.get()), (1, 2));
    }
}
