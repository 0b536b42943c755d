//! A place to wait for a condition: spin for a while, then sleep; the thread that makes the
//! condition true pays nothing while no thread sleeps.
//!
//! # Protocol
//! Notifier: N1 makes the condition true (its own Release store); N2 `light` fence; N3 reads
//! `armed`; if it is set: N4 takes it down, and if it was still up: N5 `epoch + 1`, N6 futex wake
//! of all.
//!
//! Sleeper: W1 reads `epoch`; W2 sets `armed`; W3 `heavy` fence; W4 looks at the condition; W5
//! futex wait while `epoch` is as read, for a short time only where the fence was not due
//! ([`platform::membarrier`]); again from W1.
//!
//! Where many wait, N6 wakes two, and a sleeper that returns from W5 by a wake (not by the clock,
//! nor because `epoch` changed) wakes two more.
//!
//! # Races
//! *Lost wake.* A (notifier) and B (sleeper). The fence pair N2/W3 makes "A misses W2 at N3 *and* B
//! misses N1 at W4" impossible. If B sees the condition at W4, it does not sleep. If A sees B at
//! N3, it changes `epoch` (N5): either before W5, then the kernel compares and refuses to sleep; or
//! after, then the wake N6 finds B in the kernel.
//!
//! *Disarmed by an older notifier.* A takes down what B has just set (N4 after W2), though A's N5
//! came before B's W1? Not possible: N5 is Release after N4 and W1 Acquire, so a B that read A's
//! epoch sets `armed` after A took it down.
//!
//! *Wake of the wrong round.* A wake may reach a sleeper of a later round: it looks at its
//! condition and sleeps again.
//!
//! *Chain of wakes.* All that sleep at N6 slept before N5, and each wake finds one of them as long
//! as there are any. The kernel tells a thread that it was woken even when a signal or the clock
//! came at the same time, so every sleeper that a wake found passes it on; a sleeper that came
//! later finds another `epoch` at W5. A sleeper that is woken for another one's sake (its own
//! condition does not hold) passes the wake on before it sleeps again.
//!
//! *Many notifiers, one slow sleeper.* The first takes `armed` down; the others find it down until
//! a thread falls asleep again, so a sleeper that is on its way costs one system call and not one
//! for each notification.
//!
//! # Orderings
//! The condition's own Release/Acquire pair carries the data. `epoch`: N5 Release with W1 Acquire,
//! as told above. `armed`: Relaxed, ordered by N2/W3 and by `epoch`.

use platform::futex::{ALL, FutexWait, PrivateFutex};
use platform::membarrier;
use platform::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

/// Microseconds of spinning while others may want the processor: about twice the cost of a bound
/// wake.
pub(crate) const SHORT: u64 = 50;

/// What one look at the condition brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The condition holds.
    Ready,
    /// It does not hold yet, but the look did useful work (ran a task): spinning starts anew.
    Progress,
    /// It does not hold.
    Pending,
}

impl From<bool> for Look {
    fn from(ready: bool) -> Self {
        if ready { Look::Ready } else { Look::Pending }
    }
}

/// An event count with asymmetric fences; see the module head.
#[derive(Debug)]
pub struct WaitPoint {
    /// Changes with every wake that a sleeper may sleep through.
    epoch: PrivateFutex,
    /// 1 when a thread may sleep here since the last wake.
    armed: AtomicU32,
    /// How many a notifier wakes, and how many each of those.
    fan: u32,
}

impl Default for WaitPoint {
    fn default() -> Self {
        Self::new()
    }
}

impl WaitPoint {
    /// A place where no thread waits.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { epoch: PrivateFutex::new(0), armed: AtomicU32::new(0), fan: ALL }
    }

    /// A place where no thread waits.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { epoch: PrivateFutex::new(0), armed: AtomicU32::new(0), fan: ALL }
    }

    /// A place where many may wait for the same: a notifier wakes two of them, each of those two
    /// others, and so on. The kernel wakes all of a futex in a row, 1 to 2 us each, while the
    /// notifier stands in the system call; this way it is free after two.
    pub fn for_many() -> Self {
        Self { fan: 2, ..Self::new() }
    }

    /// Sleeps until `look` says `Ready`, looking at least once before each sleep. No spinning: see
    /// [`spin_policy`](crate::waits::spin_policy) for waits that spin first.
    pub fn sleep_until(&self, mut look: impl FnMut() -> Look) {
        loop {
            // ORDERING: Acquire (W1) - pairs with N5.
            let epoch = self.epoch.word().load(Acquire);
            // ORDERING: Relaxed (W2) - ordered before W4 by the heavy fence W3, after N4 by W1.
            self.armed.store(1, Relaxed);
            let limit = membarrier::heavy_if_due();
            match look() {
                Look::Ready => return,
                Look::Progress => continue,
                Look::Pending => {}
            }
            if self.epoch.wait(epoch, limit) == FutexWait::Woken && self.fan != ALL {
                self.epoch.wake(self.fan);
            }
            // Most often a notifier made the condition true: then there is no need to prepare
            // another sleep.
            if look() == Look::Ready {
                return;
            }
        }
    }

    /// Wakes all threads that sleep here. Call it after the condition was made true. Cost when none
    /// sleeps: one load of a line that is not being written.
    #[inline]
    pub fn notify_all(&self) {
        // ORDERING: light fence (N2) - pairs with W3.
        membarrier::light();
        if self.has_sleepers() {
            self.wake_sleepers();
        }
    }

    /// True when a thread may sleep here. To be asked after [`membarrier::light`], after the
    /// condition's store; lets a master write all its slots first and pay one fence.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        // ORDERING: Relaxed (N3) - ordered after N1 by the light fence N2.
        self.armed.load(Relaxed) != 0
    }

    /// Steps N4 to N6.
    #[cold]
    pub fn wake_sleepers(&self) {
        // ORDERING: Relaxed (N4) - before N5 by its Release. A notifier that finds it down writes
        // nothing: one that only stored 0 again would take the line from the sleeper, and would
        // stand between the sleeper's W2 and its wake.
        if self.armed.compare_exchange(1, 0, Relaxed, Relaxed).is_ok() {
            // ORDERING: Release (N5) - pairs with W1.
            self.epoch.word().fetch_add(1, Release);
            self.epoch.wake(self.fan);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_sleeper_is_woken_by_the_thread_that_makes_its_condition_true() {
        for _ in 0..200 {
            let shared = Arc::new((WaitPoint::new(), AtomicBool::new(false)));
            let sleeper = {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || shared.0.sleep_until(|| shared.1.load(Acquire).into()))
            };
            shared.1.store(true, Release);
            shared.0.notify_all();
            sleeper.join().unwrap();
        }
    }
}
