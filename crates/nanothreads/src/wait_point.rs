//! A place to wait for a condition: spin for a while, then sleep; whoever makes the condition true pays nothing while
//! nobody sleeps.
//!
//! # Protocol
//! Notifier: N1 makes the condition true (its own Release store); N2 `light` fence; N3 reads `sleepers`; if it is not
//! zero: N4 `epoch + 1`, N5 futex wake of all.
//! Sleeper: W1 reads `epoch`; W2 `sleepers + 1`; W3 `heavy` fence; W4 looks at the condition; W5 futex wait while
//! `epoch` is as read; W6 `sleepers - 1`; again from W1.
//!
//! # Races
//! *Lost wake.* A (notifier) and B (sleeper). The fence pair N2/W3 makes "A misses W2 at N3 *and* B misses N1 at W4"
//! impossible. If B sees the condition at W4, it does not sleep. If A sees B at N3, it changes `epoch` (N4): either
//! before W5, then the kernel compares and refuses to sleep; or after, then the wake N5 finds B in the kernel.
//! *Wake of the wrong round.* A wake may reach a sleeper of a later round: it looks at its condition and sleeps again.
//!
//! # Orderings
//! The condition's own Release/Acquire pair carries the data. `epoch`: N4 Release with W1 Acquire only keeps a woken
//! sleeper from reading an older epoch than the one it was woken by. `sleepers`: Relaxed, ordered by N2/W3.

use platform::futex::{ALL, PrivateFutex};
use platform::membarrier;
use platform::sync::atomic::{AtomicU32, Ordering::{Acquire, Relaxed, Release}};

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
#[derive(Debug, Default)]
pub struct WaitPoint {
    /// Changes with every wake that somebody may sleep through.
    epoch: PrivateFutex,
    /// Threads between W2 and W6.
    sleepers: AtomicU32,
}

impl WaitPoint {
    /// A place where nobody waits.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self { epoch: PrivateFutex::new(0), sleepers: AtomicU32::new(0) }
    }

    /// A place where nobody waits.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self { epoch: PrivateFutex::new(0), sleepers: AtomicU32::new(0) }
    }

    /// Sleeps until `look` says `Ready`, looking at least once before each sleep. No spinning: see
    /// [`patience`](crate::patience) for waits that spin first.
    pub fn sleep_until(&self, mut look: impl FnMut() -> Look) {
        loop {
            // ORDERING: Acquire (W1) - pairs with N4.
            let epoch = self.epoch.word().load(Acquire);
            // ORDERING: Relaxed (W2) - ordered before W4 by the heavy fence W3.
            self.sleepers.fetch_add(1, Relaxed);
            membarrier::heavy();
            let seen = look();
            if seen == Look::Pending {
                let _ = self.epoch.wait(epoch, None);
            }
            // ORDERING: Relaxed (W6) - a notifier that still counts us makes one needless system call.
            self.sleepers.fetch_sub(1, Relaxed);
            if seen == Look::Ready {
                return;
            }
        }
    }

    /// Wakes everybody who sleeps here. Call it after the condition was made true. Cost when nobody sleeps: one load
    /// of a line that nobody writes.
    #[inline]
    pub fn notify_all(&self) {
        membarrier::light();
        if self.has_sleepers() {
            self.wake_sleepers();
        }
    }

    /// True when somebody may sleep here. To be asked after [`membarrier::light`], behind the condition's store; lets a
    /// master write all its slots first and pay one fence.
    #[inline]
    pub fn has_sleepers(&self) -> bool {
        // ORDERING: Relaxed (N3) - ordered behind N1 by the light fence N2.
        self.sleepers.load(Relaxed) != 0
    }

    /// Steps N4 and N5.
    #[cold]
    pub fn wake_sleepers(&self) {
        // ORDERING: Release (N4) - pairs with W1.
        self.epoch.word().fetch_add(1, Release);
        self.epoch.wake(ALL);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_sleeper_is_woken_by_who_makes_its_condition_true() {
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
