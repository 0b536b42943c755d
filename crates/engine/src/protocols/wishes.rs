//! How many processors the program asks for from moment to moment, and what it gives back (D7, M2,
//! M6).
//!
//! # Rules
//! A worker that looks in vain before it sleeps *lowers* the program's wish:
//! - W1 Where another program wants processors, it gives its own back ([`Asks::release`]) after
//!   [`SHORT`] without work: the manager passes it on at once, or, in a domain, the program itself
//!   does (`manager/domain.rs`).
//! - W2 Where no other program does, the worker of seat 1 takes the request down to the masters
//!   after [`SERIAL`] without work: a program that comes later finds unused processors. They stay
//!   in the grant until a program comes that wants them ([`Asks::request_for_now`]).
//! - W3 Where another program wants processors, the worker of seat 1 takes the request down after
//!   [`SERIAL`] as well, and looks again each [`AGAIN`] whether the master has forked since: a
//!   master that forked a region of one thread, for which no worker was woken, asked for all again,
//!   and no worker would give back what comes for that.
//! - W4 With several masters no worker has a processor of its own to give. Any worker takes the
//!   request down to what the masters hold now ([`shares`](crate::protocols::shares)), after
//!   [`SERIAL`] without a fork; where a master forked, it looks again each [`AGAIN`].
//!
//! A worker that spins as long before it sleeps lowers at once. A worker that does not (passive
//! waiting, a team that is too large) is told for how long to sleep ([`Wishes::lower`]'s answer),
//! and lowers when it comes back by the clock: once in an idle phase.
//!
//! The master's next fork (or a worker that finds work after all) lets it *rise*: it asks for all
//! again, and where another program came and went meanwhile the fork waits until it has as many as
//! before, at most [`ANSWER`].
//!
//! # Invariants
//! - W-I1 When no thread is between two steps, what was asked last is what the state says:
//!   lowering, rising and asking change the state and speak to the manager under one lock.
//! - W-I2 When a worker has found work after it lowered, the wish is not down by its doing.
//!
//! # Races
//! *Fork unseen.* A (a worker) lowers while B (the master) forks and does not see it: the region's
//! work is in A's line before B looks whether A sleeps, and A looks at its line after it has
//! lowered, so that A finds the work, and rises itself.
//!
//! *Two requests.* A lowers to 1 while B rises to 2: without the lock around the request A's 1
//! could arrive after B's 2, and the state would say that nothing fell: no thread would ever ask
//! for 2 again.
//!
//! # Orderings
//! `down`: Relaxed. B's look may miss it; A's own look comes after it in program order. The numbers
//! are under the lock.

use crate::protocols::wait_point::SHORT;
use crate::sizer::Lease;
use platform::affinity::CpuId;
use platform::sync::atomic::{AtomicBool, Ordering::Relaxed};
use platform::sync::{Mutex, MutexGuard};
use std::fmt;
use std::sync::PoisonError;

/// Microseconds without work that make a serial phase.
pub(crate) const SERIAL: u64 = 1_000;
/// Microseconds between two looks for one, where others want processors.
pub(crate) const AGAIN: u64 = 100_000;
/// The most microseconds that a fork waits for processors that it gave up: what a manager with
/// nothing else to do takes, a few times over.
pub(crate) const ANSWER: u64 = 200;

/// What is said to the manager.
pub(crate) trait Asks {
    /// The program wants `processors`.
    fn request(&self, processors: u32);
    /// `processors` are enough in a serial phase; it keeps those that no other program wants.
    fn request_for_now(&self, processors: u32);
    /// It has no use for this one now.
    fn release(&self, cpu: CpuId);
    /// It wants all that it released.
    fn resume(&self);
    /// The processor that the manager means for worker `seat`, if it has one.
    fn cpu_of(&self, seat: usize) -> Option<CpuId>;
    /// How many it has.
    fn granted(&self) -> u32;
    /// Waits for `processors` after they were requested, for a moment ([`ANSWER`]).
    fn await_grant(&self, processors: u32);
}

/// See the module head.
pub(crate) struct Wishes {
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
    /// The request is down to the masters (W2 to W4), and to how many that is.
    fell: bool,
    fell_to: u32,
    /// Forks at the last look (W3, W4).
    forks: u32,
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
    pub(crate) fn new() -> Self {
        Self { down: AtomicBool::new(false), state: Mutex::new(State::default()) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when the wish is lower than what the masters want. Cost: a load of a line that is
    /// written when that changes.
    #[inline]
    pub(crate) fn are_down(&self) -> bool {
        // ORDERING: Relaxed - see the module head.
        self.down.load(Relaxed)
    }

    /// The masters want `wanted` processors.
    pub(crate) fn ask(&self, manager: &impl Asks, wanted: usize) {
        let mut state = self.state();
        state.wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        state.fell = false;
        manager.request(state.wanted);
    }

    /// W1 to W3: the worker of `seat` has found no work for `idle` microseconds, and the master has
    /// forked `forks` regions. Returns the microseconds after which it should say so again; `None`:
    /// no more in this idle phase.
    pub(crate) fn lower(
        &self,
        manager: &impl Asks,
        seat: usize,
        lease: Lease,
        idle: u64,
        forks: u32,
    ) -> Option<u64> {
        match lease {
            Lease::Wanted => self.lower_for_others(manager, seat, idle, forks),
            Lease::Dedicated if seat == 1 && idle < SERIAL => Some(SERIAL - idle),
            Lease::Dedicated if seat == 1 => {
                let mut state = self.state();
                self.fall(manager, &mut state, 1, manager.granted());
                None
            }
            Lease::Dedicated | Lease::Unmanaged => None,
        }
    }

    /// W1, W3.
    fn lower_for_others(
        &self,
        manager: &impl Asks,
        seat: usize,
        idle: u64,
        forks: u32,
    ) -> Option<u64> {
        // Only what is its own: a seat beyond the grant has nothing to give.
        let own = manager.cpu_of(seat);
        if own.is_none() && seat != 1 {
            return None;
        }
        if idle < SHORT {
            return Some(SHORT - idle);
        }
        let mut state = self.state();
        if let Some(cpu) = own {
            state.gave_back = true;
            // ORDERING: Relaxed - see the module head.
            self.down.store(true, Relaxed);
            manager.release(cpu);
        }
        if seat != 1 {
            return None;
        }
        let is_serial = std::mem::replace(&mut state.forks, forks) == forks;
        if idle < SERIAL {
            return Some(SERIAL - idle);
        }
        if is_serial && !state.fell {
            // What other programs have then cannot come back in a moment: 0 may be waited for.
            self.fall(manager, &mut state, 1, 0);
        }
        Some(AGAIN)
    }

    /// W4: a worker has found no work for `idle` microseconds, the masters hold `busy` processors,
    /// and have forked `forks` regions. Returns as [`Wishes::lower`].
    pub(crate) fn lower_beside_others(
        &self,
        manager: &impl Asks,
        lease: Lease,
        idle: u64,
        forks: u32,
        busy: usize,
    ) -> Option<u64> {
        if lease == Lease::Unmanaged {
            return None;
        }
        let mut state = self.state();
        let is_serial = std::mem::replace(&mut state.forks, forks) == forks;
        if idle < SERIAL {
            return Some(SERIAL - idle);
        }
        let busy = u32::try_from(busy).unwrap_or(u32::MAX).max(1);
        let before = if state.fell { state.fell_to } else { u32::MAX };
        if is_serial && busy < before {
            let had = if lease == Lease::Dedicated { manager.granted() } else { 0 };
            self.fall(manager, &mut state, busy, had);
        }
        // Those that run now may sleep soon.
        (!state.fell || state.fell_to > 1).then_some(AGAIN)
    }

    /// `processors` are enough for now. `had`: what may be waited for when they are not any more.
    fn fall(&self, manager: &impl Asks, state: &mut State, processors: u32, had: u32) {
        if state.wanted > processors {
            (state.fell, state.fell_to) = (true, processors);
            state.had = had;
            // ORDERING: Relaxed - see the module head.
            self.down.store(true, Relaxed);
            manager.request_for_now(processors);
        }
    }

    /// All that the masters want again, for a region that could use `expected`.
    #[cold]
    pub(crate) fn rise(&self, manager: &impl Asks, expected: usize) {
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
        fn request_for_now(&self, processors: u32) {
            self.0.borrow_mut().push(format!("request {processors} for now"));
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
        assert_eq!(wishes.lower(&notes, 2, Lease::Dedicated, 5 * SERIAL, 1), None);
        assert_eq!(
            wishes.lower(&notes, 1, Lease::Dedicated, SERIAL - 300, 1),
            Some(300),
            "to be asked again"
        );
        assert!(!wishes.are_down());
        assert_eq!(notes.take(), ["request 4"]);
        assert_eq!(wishes.lower(&notes, 1, Lease::Dedicated, SERIAL, 1), None);
        assert!(wishes.are_down());
        wishes.rise(&notes, 2);
        assert!(!wishes.are_down());
        wishes.rise(&notes, 2);
        assert_eq!(
            notes.take(),
            ["request 1 for now", "request 4", "wait for 2"],
            "it waits for what it can use"
        );
    }

    #[test]
    fn a_fork_does_not_wait_for_more_than_the_program_had() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 8);
        assert_eq!(wishes.lower(&notes, 1, Lease::Dedicated, SERIAL, 1), None);
        wishes.rise(&notes, 8);
        assert_eq!(notes.take(), ["request 8", "request 1 for now", "request 8", "wait for 3"]);
    }

    #[test]
    fn a_program_that_wants_one_processor_has_nothing_to_lower() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 1);
        assert_eq!(wishes.lower(&notes, 1, Lease::Dedicated, SERIAL, 1), None);
        assert!(!wishes.are_down());
        assert_eq!(notes.take(), ["request 1"]);
    }

    #[test]
    fn a_processor_that_others_want_is_given_back_after_a_short_while_by_its_holder() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 2);
        notes.take();
        assert_eq!(wishes.lower(&notes, 1, Lease::Wanted, 0, 1), Some(SHORT));
        assert_eq!(wishes.lower(&notes, 7, Lease::Wanted, 0, 1), None);
        assert!(!wishes.are_down(), "a seat beyond the grant gives nothing");
        assert_eq!(
            wishes.lower(&notes, 1, Lease::Wanted, SHORT, 1),
            Some(SERIAL - SHORT),
            "a look whether that lasts"
        );
        assert!(wishes.are_down());
        wishes.rise(&notes, 2);
        assert_eq!(
            notes.take(),
            ["release 1", "resume"],
            "nothing to wait for: another master has it"
        );
    }

    #[test]
    fn a_serial_phase_is_found_also_where_others_want_processors_and_again_after_a_fork_of_one_thread()
     {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 2);
        assert_eq!(wishes.lower(&notes, 1, Lease::Wanted, SHORT, 5), Some(SERIAL - SHORT));
        assert_eq!(
            wishes.lower(&notes, 1, Lease::Wanted, SERIAL, 9),
            Some(AGAIN),
            "it has forked since"
        );
        notes.take();
        assert_eq!(wishes.lower(&notes, 1, Lease::Wanted, SERIAL + AGAIN, 9), Some(AGAIN));
        assert_eq!(notes.take(), ["release 1", "request 1 for now"]);
        wishes.rise(&notes, 1);
        assert_eq!(notes.take(), ["resume", "request 2", "wait for 0"]);
        assert_eq!(wishes.lower(&notes, 1, Lease::Wanted, SERIAL + 2 * AGAIN, 10), Some(AGAIN));
        assert_eq!(notes.take(), ["release 1"]);
        assert_eq!(wishes.lower(&notes, 1, Lease::Wanted, SERIAL + 3 * AGAIN, 10), Some(AGAIN));
        assert_eq!(notes.take(), ["release 1", "request 1 for now"]);
    }

    #[test]
    fn several_masters_ask_for_what_they_hold_when_none_forks() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        wishes.ask(&notes, 8);
        assert_eq!(
            wishes.lower_beside_others(&notes, Lease::Wanted, SHORT, 5, 2),
            Some(SERIAL - SHORT)
        );
        assert_eq!(
            wishes.lower_beside_others(&notes, Lease::Wanted, SERIAL, 9, 2),
            Some(AGAIN),
            "another master forked"
        );
        let lower =
            |lease, busy| wishes.lower_beside_others(&notes, lease, SERIAL + AGAIN, 9, busy);
        assert_eq!(
            [lower(Lease::Wanted, 2), lower(Lease::Wanted, 3)],
            [Some(AGAIN); 2],
            "one of them may sleep soon"
        );
        assert_eq!([lower(Lease::Wanted, 0), lower(Lease::Wanted, 0)], [None; 2]);
        wishes.rise(&notes, 8);
        assert_eq!(
            notes.take(),
            ["request 8", "request 2 for now", "request 1 for now", "request 8", "wait for 0"]
        );
        assert_eq!(lower(Lease::Dedicated, 8), Some(AGAIN), "all are in use");
        assert!(!wishes.are_down() && notes.take().is_empty());
    }

    #[test]
    fn nothing_is_lowered_without_a_manager() {
        let (wishes, notes) = (Wishes::new(), Notes::default());
        assert_eq!(wishes.lower(&notes, 1, Lease::Unmanaged, 5 * SERIAL, 1), None);
        assert!(!wishes.are_down() && notes.take().is_empty());
    }
}

#[cfg(all(test, loom))]
mod model;
