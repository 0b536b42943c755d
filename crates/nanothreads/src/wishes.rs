//! How many processors the program asks for from moment to moment, and what it gives back (D7, M2, M6).
//!
//! # Rules
//! A VP that looks in vain before it sleeps *lowers* the program's wish:
//! - W1 Where another program wants processors, it gives its own back ([`Asks::release`]) after [`SHORT`] without work: the
//!   manager passes it on at once, or, in a domain, the program itself does (`managed/air.rs`).
//! - W2 Where nobody does, the VP of seat 1 takes the request down to the masters after [`SERIAL`] without work: a program that
//!   comes later finds processors that nobody uses. They stay in the grant until somebody comes ([`Asks::request_one_for_now`]).
//!
//! Who spins as long before it sleeps lowers at once. Who does not (passive waiting, a team that is too large) is told for how
//! long to sleep ([`Wishes::lower`]'s answer), and lowers when it comes back by the clock: once in an idle phase.
//!
//! The master's next fork (or a VP that finds work after all) lets it *rise*: it asks for all again, and where somebody came and
//! went meanwhile the fork waits until it has as many as before, at most [`ANSWER`].
//!
//! # Invariants
//! - W-I1 When nobody is amid something, what was asked last is what the state says: lowering, rising and asking change the state
//!   and speak to the manager under one lock.
//! - W-I2 When a VP has found work after it lowered, the wish is not down by its doing.
//!
//! # Races
//! A (a VP) lowers while B (the master) forks and does not see it: the region's work is in A's line before B looks whether A
//! sleeps, and A looks at its line after it has lowered, so that A finds the work, and rises itself. *Two requests.* A lowers to
//! 1 while B rises to 2: without the lock around the request A's 1 could arrive behind B's 2, and the state would say that
//! nothing fell: nobody would ever ask for 2 again.
//!
//! # Orderings
//! `down`: Relaxed. B's look may miss it; A's own look comes after it in program order. The numbers are under the lock.

use crate::patience::SHORT;
use crate::sizer::Lease;
use platform::affinity::CpuId;
use platform::sync::atomic::{AtomicBool, Ordering::Relaxed};
use platform::sync::{Mutex, MutexGuard};
use std::fmt;
use std::sync::PoisonError;

/// Microseconds without work that make a serial phase.
pub const SERIAL: u64 = 1_000;
/// The most microseconds that a fork waits for processors that it gave up: what a manager with nothing else to do takes, a few
/// times over.
pub const ANSWER: u64 = 200;

/// What is said to the manager.
pub trait Asks {
    /// The program wants so many.
    fn request(&self, processors: u32);
    /// One is enough in a serial phase; it keeps those that nobody else wants.
    fn request_one_for_now(&self);
    /// It has no use for this one now.
    fn release(&self, cpu: CpuId);
    /// It wants all that it released.
    fn resume(&self);
    /// The processor that the manager means for virtual processor `seat`, if it has one.
    fn cpu_of(&self, seat: usize) -> Option<CpuId>;
    /// How many it has.
    fn granted(&self) -> u32;
    /// Waits for `processors` after they were requested, for a moment ([`ANSWER`]).
    fn await_grant(&self, processors: u32);
}

/// See the module head.
pub struct Wishes {
    down: AtomicBool,
    state: Mutex<State>,
}

impl fmt::Debug for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wishes").field("are_down", &self.are_down()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    /// What the masters want.
    wanted: u32,
    /// Processors were given back (W1).
    gave_back: bool,
    /// The request is down to the masters (W2).
    fell: bool,
    /// What was granted when it fell: more is not to be had in a moment, however much is wanted.
    had: u32,
}

impl Default for Wishes {
    fn default() -> Self {
        Self::new()
    }
}

impl Wishes {
    /// Nothing is wanted, and nothing was given back.
    pub fn new() -> Self {
        Self { down: AtomicBool::new(false), state: Mutex::new(State::default()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when the wish is lower than what the masters want. Cost: a load of a line that is written when that changes.
    #[inline]
    pub fn are_down(&self) -> bool {
        // ORDERING: Relaxed - see the module head.
        self.down.load(Relaxed)
    }

    /// The masters want so many.
    pub fn ask(&self, manager: &impl Asks, wanted: usize) {
        let mut state = self.state();
        state.wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        state.fell = false;
        manager.request(state.wanted);
    }

    /// W1, W2: the VP of `seat` has found no work for `idle` microseconds. Returns the microseconds after which it should say so
    /// again; `None`: no more in this idle phase.
    pub fn lower(&self, manager: &impl Asks, seat: usize, lease: Lease, idle: u64) -> Option<u64> {
        // Only what is its own: a seat beyond the grant has nothing to give.
        let (due, own) = match lease {
            Lease::Wanted => (SHORT, Some(manager.cpu_of(seat)?)),
            Lease::Dedicated if seat == 1 => (SERIAL, None),
            Lease::Dedicated | Lease::Unmanaged => return None,
        };
        if idle < due {
            return Some(due - idle);
        }
        let mut state = self.state();
        if let Some(cpu) = own {
            state.gave_back = true;
            // ORDERING: Relaxed, both - see the module head.
            self.down.store(true, Relaxed);
            manager.release(cpu);
        } else if state.wanted > 1 {
            state.fell = true;
            state.had = manager.granted();
            self.down.store(true, Relaxed);
            manager.request_one_for_now();
        }
        None
    }

    /// All that the masters want again, for a region that could use `expected`.
    #[cold]
    pub fn rise(&self, manager: &impl Asks, expected: usize) {
        let mut state = self.state();
        // ORDERING: Relaxed - see the module head.
        self.down.store(false, Relaxed);
        if std::mem::take(&mut state.gave_back) {
            manager.resume();
        }
        if !std::mem::take(&mut state.fell) {
            return;
        }
        manager.request(state.wanted);
        let expected = state.wanted.min(state.had).min(u32::try_from(expected).unwrap_or(u32::MAX));
        drop(state);
        manager.await_grant(expected);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Notes what it is told; seats 0 and 1 have processors 0 and 1.
    #[derive(Default)]
    struct Notes(RefCell<Vec<String>>);

    impl Notes {
        fn take(&self) -> Vec<String> {
            self.0.take()
        }
    }

    impl Asks for Notes {
        fn request(&self, processors: u32) {
            self.0.borrow_mut().push(format!("request {processors}"));
        }
        fn request_one_for_now(&self) {
            self.0.borrow_mut().push("request one".into());
        }
        fn release(&self, cpu: CpuId) {
            self.0.borrow_mut().push(format!("release {cpu}"));
        }
        fn resume(&self) {
            self.0.borrow_mut().push("resume".into());
        }
        fn cpu_of(&self, seat: usize) -> Option<CpuId> {
            [CpuId(0), CpuId(1)].get(seat).copied()
        }
        fn granted(&self) -> u32 {
            3
        }
        fn await_grant(&self, processors: u32) {
            self.0.borrow_mut().push(format!("wait for {processors}"));
        }
    }

    #[test]
    fn a_request_falls_by_seat_one_after_a_serial_phase_and_rises_once() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 4);
        assert_eq!(wishes.lower(&notes, 2, Lease::Dedicated, 5 * SERIAL), None);
        assert_eq!(wishes.lower(&notes, 1, Lease::Dedicated, SERIAL - 300), Some(300), "to be asked again");
        assert!(!wishes.are_down());
        assert_eq!(notes.take(), ["request 4"]);
        assert_eq!(wishes.lower(&notes, 1, Lease::Dedicated, SERIAL), None);
        assert!(wishes.are_down());
        wishes.rise(&notes, 2);
        assert!(!wishes.are_down());
        wishes.rise(&notes, 2);
        assert_eq!(notes.take(), ["request one", "request 4", "wait for 2"], "it waits for what it can use");
    }

    #[test]
    fn a_fork_does_not_wait_for_more_than_the_program_had() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 8);
        assert_eq!(wishes.lower(&notes, 1, Lease::Dedicated, SERIAL), None);
        wishes.rise(&notes, 8);
        assert_eq!(notes.take(), ["request 8", "request one", "request 8", "wait for 3"]);
    }

    #[test]
    fn a_program_that_wants_one_processor_has_nothing_to_lower() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 1);
        assert_eq!(wishes.lower(&notes, 1, Lease::Dedicated, SERIAL), None);
        assert!(!wishes.are_down());
        assert_eq!(notes.take(), ["request 1"]);
    }

    #[test]
    fn a_processor_that_others_want_is_given_back_after_a_short_while_by_who_has_one() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 2);
        notes.take();
        assert_eq!(wishes.lower(&notes, 1, Lease::Wanted, 0), Some(SHORT));
        assert_eq!(wishes.lower(&notes, 7, Lease::Wanted, 0), None);
        assert!(!wishes.are_down(), "a seat beyond the grant gives nothing");
        assert_eq!(wishes.lower(&notes, 1, Lease::Wanted, SHORT), None);
        assert!(wishes.are_down());
        wishes.rise(&notes, 2);
        assert_eq!(notes.take(), ["release 1", "resume"], "nothing to wait for: somebody has it");
    }

    #[test]
    fn nothing_is_lowered_without_a_manager() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        assert_eq!(wishes.lower(&notes, 1, Lease::Unmanaged, 5 * SERIAL), None);
        assert!(!wishes.are_down() && notes.take().is_empty());
    }
}
