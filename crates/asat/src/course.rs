//! The controller with what the default version knows beyond its counts: when a test with one
//! thread more is due, and how far the kernel's count of runnable threads is believed. Time is an
//! argument: no clock, no system call.
//!
//! # Protocol
//! 1. [`Course::evaluate`] takes the verdict of an evaluation, as [`Controller::evaluate`].
//! 2. Where that wants a test with one thread more, [`Course::is_due`] says whether it is time for
//!    one: [`DIP_INTERVAL`] after the last one, or at once where the kernel's count of runnable
//!    threads has *room* for one thread more, which says within one interval that another program
//!    has ended. The count is read only while [`Course::believes`] says so.
//! 3. [`Course::attempted`] takes what came of the test. Where the share of tests is spent, and the
//!    count had room twice in sequence, the thread is added on *trial*: it is wrong when threads
//!    are dropped within [`TRIAL`] evaluations.
//! 4. After a trial that was wrong, and after a bad test for which the count had room, it is not
//!    believed for [`DISBELIEF`], twice as long after each further one, at most [`DIP_INTERVAL`]; a
//!    good test ends that. A bad test that was held because it was time says nothing against it.
//!
//! The published algorithm has none of that: each wish of the controller is due.
//!
//! # Invariants
//! - I1: a number of threads changes as the controller's invariants say.
//! - I2: one thread more comes only from an evaluation at which the controller wishes a test.
//! - I3: between two trials that are wrong [`DISBELIEF`] passes at least.
//!
//! # Papers
//! Ours; the rules of P3 are the controller's.

use crate::controller::{Controller, Step, Verdict};
use crate::timetable::{Pulse, nanoseconds};
use std::time::Duration;

/// The time between two dips of the default version, where nothing speaks for an earlier one.
pub(crate) const DIP_INTERVAL: Duration = Duration::from_secs(1);

/// The count of runnable threads is not believed for so long, in nanoseconds, after it was wrong
/// once.
const DISBELIEF: u64 = 200_000_000;

/// Evaluations after a thread was added on trial in which it may turn out to be wrong.
const TRIAL: u32 = 3;

/// Evaluations in sequence at which there has to be room for a trial.
const ROOMS: u32 = 2;

/// What came of the wish to test one thread more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A test was held.
    Tested(Verdict),
    /// No test can be held: another master's regions are in the way, or a worker is missing. The
    /// next evaluation is the test.
    Untestable,
    /// A test would cost more than tests may.
    TooDear,
}

/// See the module head. Times are nanoseconds since any moment, and do not go back.
///
/// ```
/// use asat::{Attempt, Controller, Counts, Course, Rules, Step, Verdict};
///
/// let rules = Rules { counts: Counts::Reset, bad_trigger: 1, good_trigger: 1, several: false };
/// let mut course = Course::paced(Controller::new(rules, 3, 4), 0, None);
/// // The first test is due at once, the next one a second later, or where there is room, if the
/// // count that says so was not wrong before.
/// assert_eq!(course.evaluate(Verdict::Good, 0), Step::Dip(4));
/// assert!(course.is_due(true, 0));
/// assert!(!course.attempted(Attempt::Tested(Verdict::Bad { missing: 1 }), 0));
/// assert!(!course.is_due(false, 999_999_999) && course.is_due(false, 1_000_000_000));
/// assert!(!course.believes(199_999_999) && course.is_due(true, 200_000_000));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    controller: Controller,
    /// `None`: each wish is due.
    pace: Option<Pace>,
}

/// What the default version keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    /// The time between two dips that nothing speaks for, and when the next one is due.
    dips: Pulse,
    dip_due: u64,
    /// The count of runnable threads is believed from then on.
    disbelieved_until: u64,
    disbelief: u64,
    /// Evaluations in sequence at which it had room; not 0 in a test: that is why it is held.
    rooms: u32,
    /// Evaluations that are left of a trial.
    trial: u32,
}

impl Course {
    /// Of the published algorithm.
    pub fn published(controller: Controller) -> Self {
        Self { controller, pace: None }
    }

    /// Of the default version, from `now` on; `seed` begins the sequence by which times between
    /// dips differ, `None`: they are equal.
    pub fn paced(controller: Controller, now: u64, seed: Option<u64>) -> Self {
        let pace = Pace {
            dips: Pulse::new(nanoseconds(DIP_INTERVAL), seed),
            dip_due: now,
            disbelieved_until: now,
            disbelief: DISBELIEF,
            rooms: 0,
            trial: 0,
        };
        Self { controller, pace: Some(pace) }
    }

    /// Threads, and the most of them.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// [`Controller::set_most`].
    pub fn set_most(&mut self, most: usize) {
        self.controller.set_most(most);
    }

    /// What was seen of the threads that there are, at `now`. After [`Step::Dip`] the caller asks
    /// [`Course::is_due`].
    pub fn evaluate(&mut self, verdict: Verdict, now: u64) -> Step {
        let step = self.controller.evaluate(verdict);
        if let Some(pace) = &mut self.pace {
            if verdict != Verdict::Good {
                pace.rooms = 0;
            }
            let is_on_trial = pace.trial > 0;
            pace.trial = pace.trial.saturating_sub(1);
            if is_on_trial && matches!(step, Step::Drop(_)) {
                pace.trial = 0;
                pace.disbelieve(now);
            }
        }
        step
    }

    /// True where the kernel's count of runnable threads is worth a look.
    pub fn believes(&self, now: u64) -> bool {
        self.pace.is_some_and(|pace| now >= pace.disbelieved_until)
    }

    /// True when it is time for the test that the controller wishes. `has_room`: the count of
    /// runnable threads, which is believed, leaves a processor for one thread more. If it is,
    /// [`Course::attempted`] follows.
    pub fn is_due(&mut self, has_room: bool, now: u64) -> bool {
        let has_room = has_room && self.believes(now);
        let Some(pace) = &mut self.pace else { return true };
        pace.rooms = if has_room { pace.rooms.saturating_add(1) } else { 0 };
        has_room || now >= pace.dip_due
    }

    /// What came of the test. True when there is one thread more.
    pub fn attempted(&mut self, attempt: Attempt, now: u64) -> bool {
        let verdict = match (attempt, &mut self.pace) {
            (Attempt::Tested(verdict), Some(pace)) => {
                if verdict == Verdict::Good {
                    pace.disbelief = DISBELIEF;
                }
                verdict
            }
            (Attempt::Tested(verdict), None) => verdict,
            (Attempt::Untestable, _) => Verdict::Good,
            (Attempt::TooDear, Some(pace)) if pace.rooms >= ROOMS => {
                pace.trial = TRIAL;
                Verdict::Good
            }
            (Attempt::TooDear, _) => return false,
        };
        if let Some(pace) = &mut self.pace {
            pace.dip_due = now.saturating_add(pace.dips.next());
            if verdict == Verdict::Good {
                pace.rooms = 0;
            } else if pace.rooms > 0 {
                pace.disbelieve(now);
            }
        }
        let before = self.controller.threads();
        self.controller.dipped(verdict);
        self.controller.threads() > before
    }
}

impl Pace {
    /// The kernel's count had room, and a thread more was bad.
    fn disbelieve(&mut self, now: u64) {
        self.disbelieved_until = now.saturating_add(self.disbelief);
        self.disbelief = (self.disbelief * 2).min(nanoseconds(DIP_INTERVAL));
    }
}
