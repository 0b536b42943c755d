//! How the outermost masters of one program share its processors (D6).
//!
//! # Rules
//! - Masters count as processors: each that runs *holds* one, inside regions and outside.
//! - A fork takes from what all others do not hold, in one exchange: with n processors, of which
//!   the others hold k, it has at most n - k threads, and at least the master itself. What it took
//!   beyond the master is free again after the join.
//! - A team of exact size is counted, not limited.
//! - A master that sleeps (waits for threads that it started, for input, for the next job of a
//!   pool) holds nothing: a thread that forks, or falls asleep, looks at most every [`LOOK`]
//!   microseconds which of the other masters outside regions used their processor time since.
//!
//! While there is only one master, nothing of this is done: its forks are loads.
//!
//! # Protocol
//! `held` of a master, and `busy`, the sum: a thread that changes a `held` does it by an exchange
//! of that word, and then adds the change to `busy`. The owner: enrolls (1), forks (S1: 0, S2: what
//! it took), joins (1), ends (0). Any thread that looks: S3 from 1 to 0 of a master that sleeps, S4
//! from 0 to 1 of one that runs.
//!
//! # Invariants
//! - S-I1 When no thread is between two steps, `busy` is the sum of all `held`.
//! - S-I2 What the forks of masters that were counted took, and no exact team, is at most the
//!   program's processors, or the number of these masters where that is more.
//!
//! # Races
//! *A fork and a look.* A (a master that slept) forks: S1 finds 1. B has found it asleep, and
//! exchanges 1 for 0 (S3): that fails, because A's 1 is gone. Or B was first: S1 finds 0, and A
//! takes nothing off the sum, from which B has taken it.
//!
//! *A fork and a look that finds it awake.* Between A's S1 and S2 B exchanges 0 for 1 (S4) and adds
//! 1; S2 finds that 1 and takes it off again. With stores in the place of the exchanges the sum
//! would be wrong for ever.
//!
//! *The second master comes while the first one's region is open.* That region is not counted, its
//! master is: until it forks again there may be more threads than processors.
//!
//! # Orderings
//! Relaxed, all: the words deal processors; they publish nothing.
//!
//! # Papers
//! P2 section 2.2 (M1: what is granted, less what the program has under way). There one master
//! forks outermost regions.

use platform::affinity::Tid;
use platform::clock::monotonic_ns;
use platform::scheduling::{processor_of_ready, processor_time};
use platform::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use platform::sync::{Mutex, MutexGuard};
use std::fmt;
use std::sync::{Arc, PoisonError};

/// Microseconds between two looks at which masters run.
pub(crate) const LOOK: u64 = 1_000;
/// A master that used less than one in `PART` of the time between two looks, and does not wait for
/// a processor, sleeps.
const PART: u64 = 8;

/// What one master holds. On lines of its own: its master writes there at each fork.
#[repr(align(128))]
pub(crate) struct Share {
    held: AtomicUsize,
    /// None in models, which say themselves which masters run.
    tid: Option<Tid>,
    /// The last look, under the lock of the list: processor time used, and when that was; ns.
    used: AtomicU64,
    looked: AtomicU64,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("held", &self.held()).finish_non_exhaustive()
    }
}

impl Share {
    /// Processors that it holds.
    pub(crate) fn held(&self) -> usize {
        // ORDERING: Relaxed - see the module head.
        self.held.load(Relaxed)
    }
}

/// See the module head.
pub(crate) struct Shares {
    busy: AtomicUsize,
    all: Mutex<Vec<Arc<Share>>>,
    /// The last look at any master; ns.
    looked: AtomicU64,
}

impl Default for Shares {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Shares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shares").field("busy", &self.busy()).finish_non_exhaustive()
    }
}

impl Shares {
    /// No masters.
    pub(crate) fn new() -> Self {
        Self { busy: AtomicUsize::new(0), all: Mutex::new(Vec::new()), looked: AtomicU64::new(0) }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<Share>>> {
        // The list is whole at every point where a panic could leave it.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Processors that all masters hold.
    pub(crate) fn busy(&self) -> usize {
        // ORDERING: Relaxed - see the module head.
        self.busy.load(Relaxed)
    }

    /// A master comes: the calling thread, or one of a model.
    pub(crate) fn enroll(&self, tid: Option<Tid>) -> Arc<Share> {
        let used = tid.and_then(processor_time).unwrap_or_default();
        let share = Arc::new(Share {
            held: AtomicUsize::new(1),
            tid,
            used: AtomicU64::new(nanoseconds(used)),
            looked: AtomicU64::new(monotonic_ns()),
        });
        // ORDERING: Relaxed - see the module head.
        self.busy.fetch_add(1, Relaxed);
        self.all().push(Arc::clone(&share));
        share
    }

    /// It ends.
    pub(crate) fn dismiss(&self, share: &Arc<Share>) {
        self.all().retain(|other| !Arc::ptr_eq(other, share));
        self.set(share, 0);
    }

    /// It forks, and could use `wanted` of `limit` processors. Returns how many it has now. Cost:
    /// three read-modify-writes, one of them of a line that all masters write.
    pub(crate) fn take(&self, share: &Share, wanted: usize, limit: usize) -> usize {
        // ORDERING: Relaxed, all (S1, S2) - see the module head.
        let before = share.held.swap(0, Relaxed);
        let mut taken = 1;
        let deal = |busy: usize| {
            let others = busy.wrapping_sub(before);
            taken = wanted.min(limit.saturating_sub(others)).max(1);
            Some(others.wrapping_add(taken))
        };
        // It never fails.
        let _ = self.busy.fetch_update(Relaxed, Relaxed, deal);
        let found = share.held.swap(taken, Relaxed);
        if found != 0 {
            self.busy.fetch_sub(found, Relaxed);
        }
        taken
    }

    /// It holds `now` whatever there is: an exact team's size, or itself alone. Returns the sum
    /// over all masters.
    pub(crate) fn set(&self, share: &Share, now: usize) -> usize {
        // ORDERING: Relaxed, both - see the module head.
        let change = now.wrapping_sub(share.held.swap(now, Relaxed));
        self.busy.fetch_add(change, Relaxed).wrapping_add(change)
    }

    /// S3, S4: a look saw whether the master of `share` runs. One that is in a region of several
    /// threads stays counted.
    pub(crate) fn saw(&self, share: &Share, runs: bool) {
        // ORDERING: Relaxed, all (S3, S4) - see the module head.
        let (from, to) = if runs { (0, 1) } else { (1, 0) };
        if share.held.compare_exchange(from, to, Relaxed, Relaxed).is_ok() {
            let change = usize::wrapping_sub(to, from);
            self.busy.fetch_add(change, Relaxed);
        }
    }

    /// Looks which masters, but the one that looks, run, unless there was a look lately. Cost: a
    /// reading of the clock; a system call for each master in a look.
    pub(crate) fn look_around(&self, own: Option<&Share>) {
        let now = monotonic_ns();
        // ORDERING: Relaxed, all - numbers for the next thread that looks; of two that look at once
        // one goes on.
        let last = self.looked.load(Relaxed);
        if now.saturating_sub(last) < LOOK * 1_000
            || self.looked.compare_exchange(last, now, Relaxed, Relaxed).is_err()
        {
            return;
        }
        // Held while a master comes or ends: at the next look.
        let Ok(all) = self.all.try_lock() else { return };
        for share in all.iter().filter(|share| own.is_none_or(|own| !std::ptr::eq(&***share, own)))
        {
            // One that has just ended leaves by itself.
            let Some((tid, used)) = share.tid.and_then(|tid| Some((tid, processor_time(tid)?)))
            else {
                continue;
            };
            let (used, now) = (nanoseconds(used), monotonic_ns());
            let elapsed = now.saturating_sub(share.looked.load(Relaxed));
            if elapsed < LOOK * 1_000 {
                continue;
            }
            share.looked.store(now, Relaxed);
            let ran = used.saturating_sub(share.used.swap(used, Relaxed));
            // A master that had no processor may want one: the dearer look, once for one that falls
            // asleep.
            let runs =
                ran >= elapsed / PART || (share.held() > 0 && processor_of_ready(tid).is_some());
            self.saw(share, runs);
        }
    }
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use platform::affinity::current_tid;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn forks_share_what_there_is_and_masters_count() {
        let shares = Shares::default();
        let [a, b, c] = [0; 3].map(|_| shares.enroll(None));
        assert_eq!(shares.take(&a, 8, 8), 6);
        assert_eq!((shares.take(&b, 8, 8), shares.take(&c, 8, 8)), (1, 1));
        assert_eq!(shares.busy(), 8);
        shares.set(&a, 1);
        assert_eq!((shares.take(&b, 4, 8), shares.take(&c, 8, 8)), (4, 3));
        assert_eq!(shares.take(&b, 2, 8), 2, "what it had is its own to take");
        for limit in [1, 2] {
            assert_eq!([&a, &b, &c].map(|share| shares.take(share, 8, limit)), [1, 1, 1]);
        }
        shares.dismiss(&a);
        shares.dismiss(&b);
        assert_eq!(shares.take(&c, 8, 2), 2);
        shares.dismiss(&c);
        assert_eq!(shares.busy(), 0);
    }

    #[test]
    fn exact_teams_are_counted_and_not_limited() {
        let shares = Shares::default();
        let [a, b] = [0; 2].map(|_| shares.enroll(None));
        assert_eq!(shares.set(&a, 16), 17);
        assert_eq!(shares.take(&b, 8, 8), 1);
        assert_eq!(shares.busy(), 17);
    }

    #[test]
    fn a_master_that_sleeps_holds_nothing_until_it_runs_or_forks() {
        let shares = Shares::default();
        let [a, b] = [0; 2].map(|_| shares.enroll(None));
        shares.saw(&b, false);
        shares.saw(&b, false);
        assert_eq!((shares.busy(), shares.take(&a, 2, 2)), (1, 2));
        shares.saw(&a, false);
        assert_eq!(a.held(), 2, "a master in a region is counted");
        shares.saw(&b, true);
        assert_eq!((b.held(), shares.busy()), (1, 3));
        shares.saw(&b, false);
        assert_eq!(shares.take(&b, 2, 2), 1);
        assert_eq!(shares.busy(), 3);
    }

    /// Ends a thread that runs until then.
    struct Over<'a>(&'a AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn a_look_tells_threads_that_run_from_those_that_sleep() {
        let shares = Shares::default();
        let own = shares.enroll(Some(current_tid()));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let is_over = &is_over;
            // Also where the test fails: the scope waits for the thread.
            let over = Over(is_over);
            let (tid, other) = std::sync::mpsc::channel();
            let (wake, sleep) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                tid.send(current_tid()).expect("it is waited for");
                sleep.recv().expect("it is woken");
                // However seldom the looks come: until one has seen it.
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let other = shares.enroll(Some(other.recv().expect("it runs")));
            let comes_to = |held: usize| {
                let begin = Instant::now();
                while other.held() != held && begin.elapsed() < Duration::from_secs(20) {
                    shares.look_around(Some(&own));
                    std::thread::yield_now();
                }
                assert_eq!(other.held(), held);
            };
            comes_to(0);
            wake.send(()).expect("it sleeps");
            comes_to(1);
            drop(over);
        });
    }
}

#[cfg(all(test, loom))]
mod model;
