//! Use: which programs have processors that they do not use while others could, and how far they
//! are curbed for that (`ledger::curbing`).
//!
//! # Why
//! A share goes to the program that asks for it. One that sleeps, was stopped, or asks for more
//! than it has work for would keep its share for ever, while others wait and processors idle.
//!
//! # Rule
//! 1. Nothing is measured but while programs want more together than there is, and no program is
//!    curbed but while a *hungry* one could use what is taken. A program is hungry that uses the
//!    processors that it has, the last of them for a part of [`HUNGRY`] at least.
//! 2. What a program uses is the time that its threads ran. For a program that seems to use little,
//!    the time that its threads waited for a processor counts, too: one that strangers keep from
//!    running uses what it has.
//! 3. A program that left a whole processor or more of what it has unused in each of [`WINDOWS`]
//!    windows is curbed to the most that it used, rounded up, and one for growth. A program that
//!    used less than [`ASLEEP`] of a processor sleeps.
//! 4. A curb is taken away as soon as the program uses all that it has, or was busy where it slept,
//!    and when no program was hungry for [`CALM`]. The program takes it away itself by asking anew.
//!    When it uses no more after that it is curbed after one window, and when it does so
//!    [`STRIKES`] times in a row the curb is firm: then its use alone takes it away.
//!
//! A window is [`PERIOD`], or [`SLOW`] where each program uses what it has, and longer where a look
//! takes long: never more than a two-hundredth of the manager's time.
//!
//! # Papers
//! None: the papers' programs were honest, and batch.

use std::collections::BTreeMap;

use crate::ledger::Curb;

/// Nanoseconds on the monotonic clock, or of processors.
type Nanos = u64;

const MS: Nanos = 1_000_000;
/// A window while some program uses less than it has.
pub const PERIOD: Nanos = 100 * MS;
/// A window otherwise: a sign of life is due as often.
pub const SLOW: Nanos = 250 * MS;
/// The number of windows that decide.
pub const WINDOWS: u32 = 3;
/// The part of a processor below which a program sleeps.
pub const ASLEEP: f64 = 0.05;
/// The part of its last processor that a program uses which could use more.
pub const HUNGRY: f64 = 0.2;
/// What is missing where a program uses all that it has: windows are not exact.
const NEARLY: f64 = 0.25;
/// The time for which curbs outlast the last hungry program.
pub const CALM: Nanos = 1_000 * MS;
/// This many wishes in a row that were followed by no use make a curb firm.
pub const STRIKES: u32 = 3;
/// A window is at least this many times as long as a look.
const REST: Nanos = 200;

/// A program, and what the kernel counted of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Processors of its own; 0: it sleeps, or has only what no other program got.
    pub held: u32,
    /// Its one processor is used by others, too.
    pub shared: bool,
    /// The curb in force.
    pub curb: Option<Curb>,
    /// How long its threads ran.
    pub ran: Nanos,
    /// How long they waited for a processor; for programs of which that [is asked](Unused::asks).
    pub waited: Option<Nanos>,
}

/// All programs at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Nanos,
    /// By their numbers.
    pub programs: BTreeMap<u64, Program>,
    /// They want more together than there is.
    pub contended: bool,
    /// What it took to find this out.
    pub cost: Nanos,
}

/// What is known of a program.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// At the last look.
    last: Program,
    /// It seemed to use less than it has: how long its threads wait is to be known.
    doubtful: bool,
    /// Windows in a row in which it used less than it has.
    windows: u32,
    /// What it used in one of them at most, in processors.
    most: f64,
    /// What it is to be curbed to.
    curb: Option<Curb>,
    /// Wishes in a row that were followed by no use.
    strikes: u32,
}

/// Finds what is held and not used.
#[derive(Debug, Default)]
pub struct Unused {
    records: BTreeMap<u64, Record>,
    /// The last look.
    at: Option<Nanos>,
    next: Option<Nanos>,
    /// When a program was hungry last.
    hungry: Nanos,
}

impl Unused {
    /// When to look again; `None` while nothing is measured.
    pub fn next_look(&self) -> Option<Nanos> {
        self.next
    }

    /// Programs want more together than there is: something is to be measured until they do not.
    pub fn begin(&mut self, now: Nanos) {
        self.next = self.next.or(Some(now));
    }

    /// No program is there any more.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Whether the next sample is to say how long the threads of this program waited.
    pub fn asks(&self, program: u64) -> bool {
        self.records.get(&program).is_some_and(|record| record.doubtful)
    }

    /// Takes a sample in; says whose curb is another one now.
    pub fn look(&mut self, sample: Sample) -> Vec<(u64, Option<Curb>)> {
        let passed = self.at.map_or(0, |at| sample.at.saturating_sub(at));
        let before = std::mem::take(&mut self.records);
        let mut is_hungry = false;
        for (id, program) in sample.programs {
            let mut record = before
                .get(&id)
                .copied()
                .unwrap_or(Record { curb: program.curb, ..Record::default() });
            if before.contains_key(&id) && passed > 0 {
                is_hungry |= record.take(&program, passed);
            }
            record.last = program;
            self.records.insert(id, record);
        }
        let is_hungry = is_hungry && sample.contended;
        if is_hungry || self.at.is_none() {
            self.hungry = sample.at;
        }
        let calm = sample.at.saturating_sub(self.hungry) >= CALM;
        if calm && !sample.contended {
            let curbed = self.records.iter().filter(|(_, record)| record.last.curb.is_some());
            let changes = curbed.map(|(id, _)| (*id, None)).collect();
            *self = Self::default();
            return changes;
        }
        let mut changes = Vec::new();
        for (id, record) in &mut self.records {
            if calm {
                record.curb = None;
            } else if record.is_due() && is_hungry {
                record.curb = record.next_curb();
            }
            if record.curb != record.last.curb {
                record.last.curb = record.curb;
                changes.push((*id, record.curb));
            }
        }
        let is_slow = self.records.values().all(|record| !record.doubtful && record.curb.is_none());
        let window = if is_slow && passed > 0 { SLOW } else { PERIOD };
        self.at = Some(sample.at);
        self.next = Some(sample.at + window.max(sample.cost.saturating_mul(REST)));
        changes
    }
}

impl Record {
    /// Takes a window in that ends with what `now` says; true when the program was hungry in it.
    fn take(&mut self, now: &Program, passed: Nanos) -> bool {
        let then = self.last;
        let part = |from: Nanos, to: Nanos| to.saturating_sub(from) as f64 / passed as f64;
        let waited = then.waited.zip(now.waited).map(|(then, now)| part(then, now));
        let used = part(then.ran, now.ran) + waited.unwrap_or(0.0);
        let had = f64::from(then.held);
        let asked = self.curb.is_some() && now.curb.is_none();
        if asked {
            // One window more decides.
            (self.curb, self.windows) = (None, WINDOWS);
            self.strikes += 1;
        }
        let sleeps = self.curb.is_some_and(|curb| curb.processors == 0);
        let uses_all = if sleeps || then.shared { used >= ASLEEP } else { used > had - NEARLY };
        if self.curb.is_some() && uses_all {
            (self.curb, self.windows, self.strikes) = (None, 0, 0);
        }
        // A program that had something else for a part of the window may have used all of that.
        let is_steady = (then.held, then.shared) == (now.held, now.shared);
        let is_less = !sleeps && Self::needs(used) < then.held.max(1);
        // A sleeper that runs at all may wait for the processor that it shares with many.
        self.doubtful = is_less || (sleeps && part(then.ran, now.ran) > 0.0);
        if !is_less {
            (self.windows, self.most) = (0, 0.0);
            if used >= ASLEEP {
                self.strikes = 0;
            }
        } else if waited.is_some() && is_steady && !asked {
            self.most =
                if self.windows.is_multiple_of(WINDOWS) { used } else { self.most.max(used) };
            self.windows += 1;
        }
        self.curb.is_none() && used >= (had - 1.0).max(0.0) + HUNGRY
    }

    /// It used less than it has for long enough.
    fn is_due(&self) -> bool {
        self.windows >= if self.strikes > 0 { WINDOWS + 1 } else { WINDOWS }
    }

    /// What it is curbed to from now on.
    fn next_curb(&mut self) -> Option<Curb> {
        self.windows = 0;
        Some(Curb { processors: Self::needs(self.most), firm: self.strikes >= STRIKES })
    }

    /// Processors for a program that uses `used`: none for one that sleeps.
    fn needs(used: f64) -> u32 {
        // A number of processors: far below what a u32 holds, and a cast saturates.
        if used < ASLEEP { 0 } else { (used.ceil() as u32).saturating_add(1) }
    }
}

#[cfg(test)]
mod tests;
