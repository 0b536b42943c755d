//! Mutual exclusion on words in the program's memory: simple locks, nestable locks, named critical
//! regions.
//!
//! # Protocol of a simple lock
//! 0 = free, 1 = taken, 2 = taken and a thread may sleep. Taking a free lock and freeing one
//! without sleepers cost one read-modify-write each. A waiter spins while the word says 1, as long
//! as the engine's rules let it and for at most [`SPIN`], then sets it to 2 and sleeps. It looks
//! less and less often: each look takes the line from the holder, which writes it twice.
//!
//! # Orderings
//! Taking is Acquire, freeing is Release: what one holder did is seen by the next.

#[cfg(not(loom))]
use crate::settings::settings;
#[cfg(not(loom))]
use platform::clock::Ticks;
use platform::futex::PrivateFutex;
use platform::sync::HandCell;
use platform::sync::atomic::{
    AtomicI32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const CONTENDED: u32 = 2;

/// Microseconds that a waiter spins at most: to sleep and to be woken takes its processor, and the
/// holder's, about as long.
const SPIN: u64 = 50;
/// Pauses between two looks, at most: about 0.4 us, and never more than it has waited.
const MOST_PAUSES: u32 = 16;
/// Times that a waiter hands its processor over in a team that is larger than its processors.
const HAND_OVERS: u32 = 3;

/// A lock of one word (`omp_lock_t`, 4 bytes).
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(transparent))]
pub(crate) struct SimpleLock(PrivateFutex);

impl SimpleLock {
    /// A free lock.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(PrivateFutex::new(FREE))
    }

    /// Frees the lock, whatever it is: initialisation.
    pub(crate) fn reset(&self) {
        // ORDERING: Relaxed - no thread uses the lock yet.
        self.0.word().store(FREE, Relaxed);
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        // ORDERING: Acquire (L1) - pairs with L3.
        self.0.word().compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok()
    }

    /// Takes the lock, waiting as long as it takes.
    #[inline]
    pub(crate) fn take(&self) {
        if !self.try_take() {
            self.take_contended();
        }
    }

    #[cold]
    fn take_contended(&self) {
        if self.take_soon() {
            return;
        }
        // ORDERING: Acquire (L2) - pairs with L3.
        while self.0.word().swap(CONTENDED, Acquire) != FREE {
            // Every outcome asks to look again.
            let _ = self.0.wait(CONTENDED, None);
        }
    }

    /// Models have no time: one look more.
    #[cfg(loom)]
    fn take_soon(&self) -> bool {
        self.try_take()
    }

    /// Takes the lock if it is free before the rules have the waiter sleep.
    #[cfg(not(loom))]
    fn take_soon(&self) -> bool {
        let word = self.0.word();
        let limit = settings().host.spin_limit().min(SPIN);
        let ticks = Ticks::about_us(limit);
        let (mut begin, mut pauses, mut offers) = (None, 1, 0);
        loop {
            // ORDERING: Relaxed - only a look; `try_take` acquires.
            match word.load(Relaxed) {
                FREE if self.try_take() => return true,
                // A thread sleeps already: spinning would jump the queue for nothing.
                CONTENDED => return false,
                _ if limit == 0 && offers == HAND_OVERS => return false,
                // Most likely the holder comes after this thread in the kernel's queue.
                _ if limit == 0 => {
                    offers += 1;
                    std::thread::yield_now();
                }
                _ if pauses < MOST_PAUSES => {
                    (0..pauses).for_each(|_| platform::sync::pause());
                    pauses *= 2;
                }
                _ => {
                    if begin.get_or_insert_with(Ticks::now).elapsed_ticks() >= ticks {
                        return false;
                    }
                    (0..pauses).for_each(|_| platform::sync::pause());
                }
            }
        }
    }

    /// Frees the lock.
    #[inline]
    pub(crate) fn free(&self) {
        // ORDERING: Release (L3) - pairs with L1 and L2.
        if self.0.word().swap(FREE, Release) == CONTENDED {
            self.0.wake(1);
        }
    }
}

/// A lock that its owner may take again (`omp_nest_lock_t`, 16 bytes). Owners are numbers that are
/// not 0: addresses of tasks, or thread ids for the old version.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct NestLock {
    lock: SimpleLock,
    /// Times that the owner took it. Owner only.
    depth: HandCell<i32>,
    owner: AtomicUsize,
}

// SAFETY: - `depth` is touched only by the thread that holds `lock`.
unsafe impl Sync for NestLock {}

impl NestLock {
    /// Frees the lock, whatever it is: initialisation.
    pub(crate) fn reset(&self) {
        self.lock.reset();
        // ORDERING: Relaxed - no thread uses the lock yet.
        self.owner.store(0, Relaxed);
    }

    fn deepen(&self) -> i32 {
        // SAFETY: - the caller holds the lock.
        unsafe {
            self.depth.with_mut(|depth| {
                *depth += 1;
                *depth
            })
        }
    }

    fn own(&self, owner: usize) -> i32 {
        // ORDERING: Relaxed - only the owner itself can read its own number here.
        self.owner.store(owner, Relaxed);
        // SAFETY: - the caller has just taken the lock.
        unsafe { self.depth.with_mut(|depth| *depth = 1) };
        1
    }

    /// Takes the lock (again).
    #[inline]
    pub(crate) fn take(&self, owner: usize) {
        // ORDERING: Relaxed - see `own`.
        if self.owner.load(Relaxed) == owner {
            self.deepen();
        } else if self.lock.try_take() {
            self.own(owner);
        } else {
            self.take_contended(owner);
        }
    }

    #[cold]
    #[inline(never)]
    fn take_contended(&self, owner: usize) {
        self.lock.take_contended();
        self.own(owner);
    }

    /// Takes the lock (again) if that is possible at once; returns how often it is taken then, or
    /// 0.
    #[inline]
    pub(crate) fn try_take(&self, owner: usize) -> i32 {
        // ORDERING: Relaxed - see `own`.
        if self.owner.load(Relaxed) == owner {
            self.deepen()
        } else if self.lock.try_take() {
            self.own(owner)
        } else {
            0
        }
    }

    /// Takes one `take` back.
    #[inline]
    pub(crate) fn free(&self) {
        // SAFETY: - the caller holds the lock (OpenMP's rule for unsetting).
        let depth = unsafe {
            self.depth.with_mut(|depth| {
                *depth -= 1;
                *depth
            })
        };
        if depth == 0 {
            // ORDERING: Relaxed - the lock's Release publishes it.
            self.owner.store(0, Relaxed);
            self.lock.free();
        }
    }
}

/// A nestable lock of OpenMP 2.5 (8 bytes): owned by a thread.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct OldNestLock {
    /// Thread id of the owner; 0: none.
    owner: AtomicI32,
    /// The lock itself in the low bits, how often the owner took it in the others.
    word: PrivateFutex,
}

#[cfg(not(loom))]
const _: () = assert!(
    size_of::<SimpleLock>() == 4 && size_of::<NestLock>() == 16 && size_of::<OldNestLock>() == 8
);

/// The two low bits of `OldNestLock::word` are a simple lock; the rest counts.
const OLD_DEPTH: u32 = 4;
const OLD_STATE: u32 = OLD_DEPTH - 1;

impl OldNestLock {
    /// Frees the lock, whatever it is: initialisation.
    pub(crate) fn reset(&self) {
        // ORDERING: Relaxed - no thread uses the lock yet.
        self.owner.store(0, Relaxed);
        self.word.word().store(FREE, Relaxed);
    }

    /// Takes the lock (again) if that is possible at once; returns how often it is taken then, or
    /// 0.
    pub(crate) fn try_take(&self, thread: i32) -> i32 {
        let word = self.word.word();
        // ORDERING: Relaxed - only the owner itself can read its own id.
        if self.owner.load(Relaxed) == thread {
            // ORDERING: Relaxed - the depth is the owner's.
            let before = word.fetch_add(OLD_DEPTH, Relaxed);
            return (before / OLD_DEPTH + 1).cast_signed();
        }
        // ORDERING: Acquire (N1) - pairs with N2.
        if word.compare_exchange(FREE, OLD_DEPTH | TAKEN, Acquire, Relaxed).is_ok() {
            self.owner.store(thread, Relaxed);
            return 1;
        }
        0
    }

    /// Takes the lock (again).
    pub(crate) fn take(&self, thread: i32) {
        let word = self.word.word();
        while self.try_take(thread) == 0 {
            // ORDERING: Relaxed - only a look.
            let seen = word.load(Relaxed);
            if seen == FREE {
                continue;
            }
            let contended = (seen & !OLD_STATE) | CONTENDED;
            // ORDERING: Relaxed - `try_take` acquires.
            if seen == contended || word.compare_exchange(seen, contended, Relaxed, Relaxed).is_ok()
            {
                let _ = self.word.wait(contended, None);
            }
        }
    }

    /// Takes one `take` back.
    pub(crate) fn free(&self) {
        let word = self.word.word();
        // ORDERING: Relaxed - the owner's own depth.
        if word.load(Relaxed) / OLD_DEPTH > 1 {
            word.fetch_sub(OLD_DEPTH, Relaxed);
            return;
        }
        self.owner.store(0, Relaxed);
        // ORDERING: Release (N2) - pairs with N1.
        if word.swap(FREE, Release) & OLD_STATE == CONTENDED {
            // All: the ones that stay asleep would not be known to the next owner.
            self.word.wake(platform::futex::ALL);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;
    use std::thread;

    /// Four threads count without atomics-by-increment under a lock; returns the count.
    fn count_under(locked: impl Fn(&dyn Fn()) + Send + Sync + 'static) -> u64 {
        let count = Arc::new(AtomicU64::new(0));
        let locked = Arc::new(locked);
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (count, locked) = (Arc::clone(&count), Arc::clone(&locked));
                thread::spawn(move || {
                    for _ in 0..5_000 {
                        // Load and store apart: only exclusion makes the sum right.
                        locked(&|| count.store(count.load(Relaxed) + 1, Relaxed));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("it does not panic"));
        count.load(Relaxed)
    }

    #[test]
    fn a_simple_lock_excludes() {
        let lock = SimpleLock::new();
        let counted = count_under(move |work| {
            lock.take();
            work();
            lock.free();
        });
        assert_eq!(counted, 20_000);
    }

    #[test]
    fn a_nestable_lock_excludes_others_and_admits_its_owner_again() {
        thread_local! { static ME: u8 = const { 0 } }
        let me = || ME.with(|me| std::ptr::from_ref(me).addr());
        let lock = NestLock::default();
        let counted = count_under(move |work| {
            lock.take(me());
            assert_eq!(lock.try_take(me()), 2);
            work();
            lock.free();
            lock.free();
        });
        assert_eq!(counted, 20_000);
    }

    #[test]
    fn an_old_nestable_lock_excludes_others_and_admits_its_owner_again() {
        let me = || platform::affinity::current_tid().0;
        let lock = OldNestLock::default();
        let counted = count_under(move |work| {
            lock.take(me());
            assert_eq!(lock.try_take(me()), 2);
            work();
            lock.free();
            lock.free();
        });
        assert_eq!(counted, 20_000);
    }

    #[test]
    fn trying_a_taken_lock_fails_at_once() {
        let lock = SimpleLock::new();
        assert!(lock.try_take());
        assert!(!lock.try_take());
        lock.free();
        assert!(lock.try_take());
        let nest = NestLock::default();
        assert_eq!(nest.try_take(1), 1);
        assert_eq!(nest.try_take(2), 0);
        assert_eq!(nest.try_take(1), 2);
        nest.free();
        nest.free();
        assert_eq!(nest.try_take(2), 1);
    }
}
