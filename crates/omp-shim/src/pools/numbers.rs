//! The numbers under which the jobs of a library's calls run. The library has a buffer for each, so
//! no two jobs that run at the same time have the same one.
//!
//! # Protocol
//! 1. A call takes as many numbers as it has jobs, one after the other ([`JobNumbers::take`]).
//!    While there are not so many free ones, it sleeps: those of other threads' calls come back.
//! 2. After the call they are free again, and threads that sleep look.
//!
//! A number above the first 64 is taken with all others: calls that wide run one at a time.
//!
//! # Races
//! A (a call that ends) frees numbers and then looks for sleepers; B (one that waits) says that it
//! sleeps and then looks for numbers: one of them sees the other.

use platform::futex::PrivateFutex;
use std::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, SeqCst},
};

/// See the module head.
#[derive(Debug)]
pub(super) struct JobNumbers {
    /// A bit for each.
    taken: AtomicU64,
    /// How many there are: buffers of the library.
    count: AtomicUsize,
    sleepers: AtomicU32,
    /// Changes when some are freed while there are sleepers.
    freed: PrivateFutex,
}

/// Numbers of a call, until this is dropped.
#[derive(Debug)]
pub(super) struct Taken<'a> {
    numbers: &'a JobNumbers,
    bits: u64,
    /// The first; the others follow.
    pub(super) first: usize,
}

impl JobNumbers {
    /// The library has `count`.
    pub(super) const fn new(count: usize) -> Self {
        Self {
            taken: AtomicU64::new(0),
            count: AtomicUsize::new(count),
            sleepers: AtomicU32::new(0),
            freed: PrivateFutex::new(0),
        }
    }

    /// Takes numbers for `jobs`, which the library has buffers for. Cost where no other call is
    /// under way: two exchanges, with the drop.
    pub(super) fn take(&self, jobs: usize) -> Taken<'_> {
        // ORDERING: Relaxed, both - the library decided, on this thread, that it has so many.
        if self.count.load(Relaxed) < jobs {
            self.count.fetch_max(jobs, Relaxed);
        }
        self.try_to_take(jobs).unwrap_or_else(|| self.wait(jobs))
    }

    fn try_to_take(&self, jobs: usize) -> Option<Taken<'_>> {
        // ORDERING: Relaxed - as in `take`.
        let count = self.count.load(Relaxed);
        // ORDERING: SeqCst - see Races.
        let mut taken = self.taken.load(SeqCst);
        loop {
            let (first, bits) = free(taken, count, jobs)?;
            // ORDERING: Acquire in SeqCst - the call that had the buffers is done with them.
            match self.taken.compare_exchange_weak(taken, taken | bits, SeqCst, SeqCst) {
                Ok(_) => return Some(Taken { numbers: self, bits, first }),
                Err(now) => taken = now,
            }
        }
    }

    #[cold]
    fn wait(&self, jobs: usize) -> Taken<'_> {
        // ORDERING: SeqCst - see Races.
        self.sleepers.fetch_add(1, SeqCst);
        loop {
            // ORDERING: Acquire - a change after this ends the sleep below.
            let seen = self.freed.word().load(Acquire);
            if let Some(taken) = self.try_to_take(jobs) {
                // ORDERING: Relaxed - one that is counted for too long costs a wake.
                self.sleepers.fetch_sub(1, Relaxed);
                return taken;
            }
            let _ = self.freed.wait(seen, None);
        }
    }

    /// Whether a call is under way.
    pub(super) fn are_taken(&self) -> bool {
        // ORDERING: SeqCst - see `libraries::before_fork`; what the jobs wrote is over.
        self.taken.load(SeqCst) != 0
    }

    /// In the child of a fork, which has none of the threads that have numbers.
    pub(super) fn forget(&self) {
        // ORDERING: Relaxed, both - the only thread.
        self.taken.store(0, Relaxed);
        self.sleepers.store(0, Relaxed);
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let numbers = self.numbers;
        // ORDERING: SeqCst, both - see Races; what the jobs wrote to the buffers is over.
        numbers.taken.fetch_and(!self.bits, SeqCst);
        if numbers.sleepers.load(SeqCst) > 0 {
            // ORDERING: Acquire and more come with the system call that follows.
            numbers.freed.word().fetch_add(1, SeqCst);
            numbers.freed.wake(u32::MAX >> 1);
        }
    }
}

/// Where `jobs` of `count` numbers are free, one after the other, and their bits. Pure.
fn free(taken: u64, count: usize, jobs: usize) -> Option<(usize, u64)> {
    if jobs > 64 {
        return (taken == 0).then_some((0, u64::MAX));
    }
    let bits = if jobs == 64 { u64::MAX } else { (1 << jobs) - 1 };
    (0..=count.min(64).checked_sub(jobs)?)
        .map(|first| (first, bits << first))
        .find(|(_, bits)| taken & bits == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn numbers_are_the_first_that_are_free_in_a_row() {
        assert_eq!(free(0, 4, 2), Some((0, 0b11)));
        assert_eq!(free(0b1, 4, 2), Some((1, 0b110)));
        assert_eq!(free(0b101, 4, 2), None);
        assert_eq!(free(0, 2, 3), None);
        assert_eq!(free(0, 64, 64), Some((0, u64::MAX)));
        assert_eq!(free(0, 200, 100), Some((0, u64::MAX)));
        assert_eq!(free(1, 200, 100), None);
        assert_eq!(free(u64::MAX >> 1, 200, 1), Some((63, 1 << 63)));
    }

    #[test]
    fn a_library_that_has_more_threads_by_now_has_more_numbers() {
        let numbers = JobNumbers::new(2);
        let all = numbers.take(4);
        assert_eq!(all.first, 0);
        assert!(numbers.try_to_take(1).is_none());
        numbers.forget();
        assert!(numbers.try_to_take(1).is_some());
    }

    #[test]
    fn no_number_is_used_twice_at_once_and_no_call_waits_for_ever() {
        let numbers = JobNumbers::new(3);
        let used = [const { AtomicBool::new(false) }; 3];
        thread::scope(|scope| {
            for caller in 0..6 {
                let (numbers, used) = (&numbers, &used);
                scope.spawn(move || {
                    for round in 0..3000 {
                        let jobs = 1 + (caller + round) % 3;
                        let taken = numbers.take(jobs);
                        let own = &used[taken.first..taken.first + jobs];
                        assert!(own.iter().all(|it| !it.swap(true, Relaxed)));
                        if round % 16 == 0 {
                            thread::yield_now();
                        }
                        own.iter().for_each(|it| it.store(false, Relaxed));
                    }
                });
            }
        });
        assert_eq!(numbers.taken.into_inner(), 0);
    }
}
