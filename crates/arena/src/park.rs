//! The park word of a virtual processor: one futex word in shared memory on which it sleeps, and by
//! which any thread that has something for it wakes it: the manager's, or a sibling of its program.
//!
//! # Protocol
//! The sleeper: (1) [`ParkWord::prepare`]; (2) looks at what it waits for; (3) there:
//! [`ParkWord::cancel`], otherwise [`ParkWord::sleep`], and again from (1).
//! The waker: (a) writes what the sleeper waits for; (b) [`ParkWord::wake`].
//!
//! # Invariants
//! - P1 No wake is lost: of (1) before (2) and (a) before (b), each side's second step sees the
//!   other's first (`park.prepare`, `park.wake`). Both fence in full, because the waker may be
//!   another process, which the sleeper's membarrier does not reach (D8).
//! - P2 A wake costs a system call only when a thread is, or is about to be, asleep.
//! - P3 A word that holds anything else than the two states (a hostile or broken program wrote it)
//!   is never slept on for longer than the caller's timeout, and never makes the waker wait.

use std::time::Duration;

use platform::futex::{FutexWait, SharedFutex};
use platform::sync::atomic::{Ordering, fence};

/// No thread sleeps here. All zeros, as a fresh area is.
const AWAKE: u32 = 0;
/// A thread sleeps here, or is about to.
const PARKED: u32 = 1;

/// A futex word that several processes map.
#[derive(Debug, Default)]
#[cfg_attr(not(loom), repr(transparent))]
pub struct ParkWord {
    futex: SharedFutex,
}

impl ParkWord {
    /// Step 1 of the sleeper.
    pub fn prepare(&self) {
        // ORDERING: Relaxed - ordered by the fence.
        self.futex.word().store(PARKED, Ordering::Relaxed);
        // ORDERING(park.prepare): SeqCst fence between "I sleep" and the look at what I wait for;
        // pairs with
        // ORDERING(park.wake). A (sleeper) stores PARKED and finds nothing; B (waker) stores and
        // finds AWAKE: without a full fence on each side both may be, and A sleeps on.
        fence(Ordering::SeqCst);
    }

    /// The sleeper does not sleep after all. True: a waker woke it meanwhile.
    pub fn cancel(&self) -> bool {
        // ORDERING(park.woken): Acquire - what the waker wrote before it woke us; pairs with the
        // swap in `wake`.
        self.futex.word().swap(AWAKE, Ordering::Acquire) == AWAKE
    }

    /// Sleeps until a waker wakes it, at most `timeout` (`None`: no model and no caller waits for
    /// ever, but a loom model has no time). True: it was woken. False: the time is over, or the
    /// sleep ended for no reason (a signal; the system call of a wake that an earlier sleep did not
    /// wait for): the protocol looks again in any case.
    pub fn sleep(&self, timeout: Option<Duration>) -> bool {
        // Woken, timed out, interrupted, or no sleep at all: the word says which it was.
        let _how: FutexWait = self.futex.wait(PARKED, timeout);
        self.cancel()
    }

    /// Step b of a waker. True: there was a sleeper.
    pub fn wake(&self) -> bool {
        // ORDERING(park.wake): SeqCst fence between what the sleeper waits for and the look whether
        // it sleeps; pairs with ORDERING(park.prepare).
        fence(Ordering::SeqCst);
        // ORDERING: Relaxed - ordered by the fence.
        if self.futex.word().load(Ordering::Relaxed) != PARKED {
            return false;
        }
        // ORDERING(park.woken): Release - what the waker wrote; pairs with `cancel`. A swap, so
        // that of two wakers one makes the system call.
        if self.futex.word().swap(AWAKE, Ordering::Release) != PARKED {
            return false;
        }
        self.futex.wake(1);
        true
    }

    /// Whether a thread sleeps here or is about to. For reports.
    pub fn is_parked(&self) -> bool {
        // ORDERING: Relaxed - a report.
        self.futex.word().load(Ordering::Relaxed) == PARKED
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    #[test]
    fn a_word_without_sleepers_wakes_no_thread() {
        let word = ParkWord::default();
        assert!(!word.wake());
        word.prepare();
        assert!(word.is_parked());
        assert!(!word.cancel(), "no thread woke it");
        assert!(!word.wake());
    }

    #[test]
    fn a_wake_between_the_look_and_the_sleep_is_not_lost() {
        let word = ParkWord::default();
        word.prepare();
        assert!(word.wake());
        assert!(word.sleep(Some(Duration::from_secs(3600))), "it does not sleep at all");
    }

    #[test]
    fn a_sleeper_that_no_thread_wakes_comes_back_by_itself() {
        let word = ParkWord::default();
        word.prepare();
        assert!(!word.sleep(Some(Duration::from_millis(1))));
        assert!(!word.is_parked());
    }

    #[test]
    fn threads_that_hand_a_turn_to_each_other_never_sleep_through_it() {
        const LOST: Duration = Duration::from_secs(60);
        let words = Arc::new([ParkWord::default(), ParkWord::default()]);
        let turns = Arc::new([AtomicBool::new(true), AtomicBool::new(false)]);
        let player = |me: usize| {
            let (words, turns) = (Arc::clone(&words), Arc::clone(&turns));
            std::thread::spawn(move || {
                for _ in 0..2_000 {
                    loop {
                        words[me].prepare();
                        if turns[me].swap(false, Ordering::Relaxed) {
                            words[me].cancel();
                            break;
                        }
                        let begin = Instant::now();
                        let was_woken = words[me].sleep(Some(LOST));
                        assert!(was_woken || begin.elapsed() < LOST, "a wake was lost");
                    }
                    turns[1 - me].store(true, Ordering::Relaxed);
                    words[1 - me].wake();
                }
            })
        };
        let players = [player(0), player(1)];
        for player in players {
            player.join().unwrap();
        }
    }
}
