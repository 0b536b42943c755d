//! The state of the algorithm, and its transitions: no clock, no system call.
//!
//! # Protocol
//! 1. An *evaluation* tells what was seen of the threads that the program has now: all of them ran,
//!    or some were missing ([`Controller::evaluate`]).
//! 2. Bad: the bad count grows, the good count is 0. At the trigger, with more than one thread, one
//!    thread fewer (or as many fewer as were missing, by an option: at most half of them).
//! 3. Good: the other way round. At the trigger, with less than the most, the controller asks for
//!    one test with one thread more, the *dip* of a toe into the water. Only where that is good,
//!    too ([`Controller::dipped`]), there is one thread more.
//!
//! An evaluation may be *doubtful*: threads were missing, but that may have passed. Alone it
//! changes nothing; a second one in sequence is bad.
//!
//! [`Counts::Kept`] leaves the counts as they are after a change, as the paper prints it: one more
//! bad evaluation takes the next thread at once, and once it was good long enough each evaluation
//! dips. [`Counts::Reset`] begins anew after each change.
//!
//! # Invariants
//! - I1: 1 <= threads <= most.
//! - I2: an evaluation changes the threads by one at most, where several are not dropped at once.
//! - I3: one of the counts is 0.
//! - I4: in a *round*, as many evaluations as both triggers together, the number of threads turns
//!   from more to less or back once at most, whatever the verdicts are. With [`Counts::Reset`] it
//!   then goes forth and back by one thread at most.
//!
//! # Papers
//! P3 section 3. Its pseudo code compares the wrong way round where it dips; its text is followed.

/// What becomes of the counts when the number of threads changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counts {
    /// They stay, as printed in the paper.
    Kept,
    /// They begin at 0.
    #[default]
    Reset,
}

/// When the controller acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// After a change.
    pub counts: Counts,
    /// Bad evaluations in sequence that take a thread; 0 counts as 1.
    pub bad_trigger: u32,
    /// Good evaluations in sequence after which it dips; 0 counts as 1.
    pub good_trigger: u32,
    /// As many threads are dropped at once as were missing, at most half of them.
    pub several: bool,
}

/// What was seen of a number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All ran.
    Good,
    /// So many had no processor, at least one.
    Bad {
        /// Threads without a processor; 0 counts as 1.
        missing: usize,
    },
    /// So many had none for a short time.
    Doubtful {
        /// As above.
        missing: usize,
    },
}

/// What an evaluation led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Stay,
    /// There are so many threads fewer.
    Drop(usize),
    /// A test of so many threads is due, one more than there are; its verdict goes to
    /// [`Controller::dipped`].
    Dip(usize),
}

/// See the module head.
///
/// ```
/// use asat::{Controller, Counts, Rules, Step, Verdict};
///
/// let rules = Rules { counts: Counts::Reset, bad_trigger: 1, good_trigger: 2, several: false };
/// let mut controller = Controller::new(rules, 4, 4);
/// assert_eq!(controller.evaluate(Verdict::Bad { missing: 1 }), Step::Drop(1));
/// assert_eq!(controller.evaluate(Verdict::Good), Step::Stay);
/// assert_eq!(controller.evaluate(Verdict::Good), Step::Dip(4));
/// controller.dipped(Verdict::Good);
/// assert_eq!(controller.threads(), 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    rules: Rules,
    threads: usize,
    most: usize,
    bad: u32,
    good: u32,
    /// The last evaluation was doubtful, and is not counted.
    is_in_doubt: bool,
}

impl Controller {
    /// Begins with `threads`, of at most `most`; what is out of bounds is taken for the nearest
    /// bound, and 0 of the most for 1.
    pub fn new(rules: Rules, threads: usize, most: usize) -> Self {
        let most = most.max(1);
        Self { rules, threads: threads.clamp(1, most), most, bad: 0, good: 0, is_in_doubt: false }
    }

    /// Threads that the program is to have now.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// The most that it may have.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Bad and good evaluations in sequence, as they count.
    pub fn counts(&self) -> (u32, u32) {
        (self.bad, self.good)
    }

    /// True when the last evaluation was doubtful, and is not counted yet.
    pub fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// The most is another number from now on. A program that has the most keeps it, since what
    /// was added was never seen to be missing; one that has fewer goes on from there.
    pub fn set_most(&mut self, most: usize) {
        let (most, had_all) = (most.max(1), self.threads == self.most);
        self.threads = if had_all { most } else { self.threads.min(most) };
        self.most = most;
    }

    /// What was seen of the threads that there are.
    pub fn evaluate(&mut self, verdict: Verdict) -> Step {
        let doubted = std::mem::take(&mut self.is_in_doubt);
        match verdict {
            Verdict::Doubtful { .. } if !doubted => {
                self.is_in_doubt = true;
                Step::Stay
            }
            Verdict::Bad { missing } | Verdict::Doubtful { missing } => {
                (self.bad, self.good) = (self.bad.saturating_add(1), 0);
                if self.bad < self.rules.bad_trigger.max(1) || self.threads == 1 {
                    return Step::Stay;
                }
                let fewer = if self.rules.several { missing.clamp(1, self.threads / 2) } else { 1 };
                self.become_of(self.threads - fewer);
                Step::Drop(fewer)
            }
            Verdict::Good => {
                (self.bad, self.good) = (0, self.good.saturating_add(1));
                if self.good < self.rules.good_trigger.max(1) || self.threads == self.most {
                    return Step::Stay;
                }
                Step::Dip(self.threads + 1)
            }
        }
    }

    /// What was seen in the test that [`Step::Dip`] asked for. A bad one changes nothing: it says
    /// nothing of the threads that there are.
    pub fn dipped(&mut self, verdict: Verdict) {
        if verdict == Verdict::Good && self.threads < self.most {
            self.become_of(self.threads + 1);
        }
    }

    fn become_of(&mut self, threads: usize) {
        self.threads = threads;
        if self.rules.counts == Counts::Reset {
            (self.bad, self.good) = (0, 0);
        }
    }
}
