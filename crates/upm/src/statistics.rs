//! What the engine did, and why: numbers for each call, and the reason of each decision.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use platform::SysError;

use crate::criterion::{Stay, Verdict};
use crate::mover::{Outcome, Refusal};
use crate::topology::Node;

/// Why the engine is off.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Off {
    /// One node has memory.
    OneNode,
    /// No source can count.
    NoSource(String),
    /// No page should move any more.
    Settled,
    /// Every page that should have moved was refused.
    Refused,
    /// No page moved, and of some the mover cannot tell where they are: the system's error number,
    /// 0 where it gave none.
    Unreadable(i32),
}

impl fmt::Display for Off {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneNode => write!(f, "one node has memory, so no page can be nearer"),
            Self::NoSource(why) => write!(f, "no references can be counted: {why}"),
            Self::Settled => write!(f, "no page should move any more"),
            Self::Refused => write!(f, "every page that should have moved was refused"),
            Self::Unreadable(errno) => {
                write!(f, "the system does not say where the pages are")?;
                match errno {
                    0 => Ok(()),
                    errno => write!(f, ": {}", SysError::new("move_pages", *errno)),
                }
            }
        }
    }
}

/// One decision: of a page, or of pages that are decided together.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The pages' numbers.
    pub pages: Range<usize>,
    /// The address of the first one.
    pub address: usize,
    /// Where it was, or most of them were.
    pub home: Option<Node>,
    /// The references that it was decided by, for each node.
    pub counts: Vec<u64>,
    /// What the rule said.
    pub verdict: Verdict,
    /// What became of the pages that were to move, in order.
    pub outcomes: Vec<Outcome>,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.address)?;
        if self.pages.len() > 1 {
            write!(f, " ({} pages)", self.pages.len())?;
        }
        match self.home {
            Some(home) => write!(f, " on node {home}, counters {:?}: ", self.counts)?,
            None => write!(f, " on no node, counters {:?}: ", self.counts)?,
        }
        match self.verdict {
            Verdict::Stay(stay) => write!(f, "stays: {}", stay.reason()),
            Verdict::Move { to, ratio, .. } => {
                write!(f, "to node {to}, ratio {ratio:.1}: ")?;
                let refused = self.outcomes.iter().find_map(|outcome| match outcome {
                    Outcome::Refused(refusal) => Some(*refusal),
                    _ => None,
                });
                let other = self.outcomes.iter().find_map(|outcome| match outcome {
                    Outcome::Elsewhere(node) => Some(*node),
                    _ => None,
                });
                match (refused, other) {
                    (Some(refusal), _) => write!(f, "refused: {}", refusal.reason()),
                    (None, Some(node)) => write!(f, "it was full; on node {node}"),
                    (None, None) => write!(f, "moved"),
                }
            }
        }
    }
}

/// A source of references that was tried, and not taken or not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declined {
    /// Its name.
    pub source: &'static str,
    /// Why, in plain words.
    pub why: String,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.source, self.why)
    }
}

/// One call of the iterative engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Pages that were looked at.
    pub pages: usize,
    /// Pages that moved to where they should be.
    pub moved: usize,
    /// Pages that moved to another node, since theirs was full.
    pub elsewhere: usize,
    /// Pages that should have moved, and stayed.
    pub refused: BTreeMap<Refusal, usize>,
    /// Pages that were to stay, by reason.
    pub stayed: BTreeMap<Stay, usize>,
    /// Nanoseconds that it took, with the migrations.
    pub nanoseconds: u64,
}

impl Call {
    /// Pages that are elsewhere now.
    pub fn migrations(&self) -> usize {
        self.moved + self.elsewhere
    }

    /// Pages that should have moved and stayed.
    pub fn refusals(&self) -> usize {
        self.refused.values().sum()
    }

    pub(crate) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Moved => self.moved += 1,
            Outcome::Elsewhere(_) => self.elsewhere += 1,
            Outcome::Refused(refusal) => *self.refused.entry(refusal).or_default() += 1,
        }
    }
}

/// What was done since the beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// What counted the references.
    pub source: Option<&'static str>,
    /// The sources that were tried before it, and why they were not taken.
    pub declined: Vec<Declined>,
    /// Pages of all hot areas.
    pub pages: usize,
    /// Those of them that had no memory policy and were given one until the engine ends: the
    /// kernel's balancing leaves them alone.
    pub kept: usize,
    /// Those that were refused one: where the kernel balances, it may move them, too.
    pub exposed: usize,
    /// The calls of the iterative engine while it was on.
    pub calls: Vec<Call>,
    /// Frozen pages.
    pub frozen: usize,
    /// Pages that were moved before phases.
    pub replayed: usize,
    /// Pages that were moved back.
    pub undone: usize,
    /// Pages that could not be moved before a phase, or back, by reason.
    pub phase_refused: BTreeMap<Refusal, usize>,
    /// Nanoseconds of these migrations.
    pub phase_nanoseconds: u64,
    /// How often the engine was turned on again.
    pub rearmed: usize,
    /// Why the engine is off.
    pub off: Option<Off>,
    /// The decisions of the last call that had any, for those that moved or should have, or all of
    /// them: the call that ends the engine has none.
    pub decisions: Vec<Decision>,
    /// Which call that was, counted from 1; 0: none.
    pub decided_by: usize,
}

impl Statistics {
    /// Pages that all calls moved.
    pub fn migrations(&self) -> usize {
        self.calls.iter().map(Call::migrations).sum()
    }

    /// The share of the migrations that the first call made, from 0 to 1; `None` without any.
    pub fn share_of_first(&self) -> Option<f64> {
        let all = self.migrations();
        #[expect(clippy::cast_precision_loss, reason = "machines have fewer than 2^53 pages")]
        let share = |first: usize| first as f64 / all as f64;
        (all > 0).then(|| share(self.calls.first().map_or(0, Call::migrations)))
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let calls = self.calls.len();
        write!(
            f,
            "upm: {} hot pages, {} migrations in {calls} calls",
            self.pages,
            self.migrations()
        )?;
        if let Some(share) = self.share_of_first() {
            write!(f, ", {:.0} % in the first", 100.0 * share)?;
        }
        if self.frozen > 0 {
            write!(f, ", {} frozen", self.frozen)?;
        }
        if self.rearmed > 0 {
            write!(f, ", turned on again {} times", self.rearmed)?;
        }
        if let Some(source) = self.source {
            write!(f, ", counted by {source}")?;
        }
        writeln!(f)?;
        for declined in &self.declined {
            writeln!(f, "  not counted by {declined}")?;
        }
        if self.kept > 0 {
            writeln!(f, "  {} pages were given a policy, for the kernel to leave them", self.kept)?;
        }
        if self.exposed > 0 {
            writeln!(
                f,
                "  {} pages were refused a policy: the kernel may move them",
                self.exposed
            )?;
        }
        for (number, call) in self.calls.iter().enumerate() {
            let micros = call.nanoseconds / 1000;
            writeln!(
                f,
                "  call {}: {} pages, {} moved, {} moved elsewhere, {} refused, {micros} us",
                number + 1,
                call.pages,
                call.moved,
                call.elsewhere,
                call.refusals()
            )?;
            for (refusal, pages) in &call.refused {
                writeln!(f, "    refused {pages}: {}", refusal.reason())?;
            }
            for (stay, pages) in &call.stayed {
                writeln!(f, "    stayed {pages}: {}", stay.reason())?;
            }
        }
        if self.replayed > 0 || self.undone > 0 {
            let micros = self.phase_nanoseconds / 1000;
            writeln!(
                f,
                "  phases: {} replayed, {} undone, {micros} us",
                self.replayed, self.undone
            )?;
        }
        for (refusal, pages) in &self.phase_refused {
            writeln!(f, "    refused {pages}: {}", refusal.reason())?;
        }
        if let Some(off) = &self.off {
            writeln!(f, "  off: {off}")?;
        }
        if !self.decisions.is_empty() {
            writeln!(f, "  decisions of call {}:", self.decided_by)?;
        }
        for decision in &self.decisions {
            writeln!(f, "  {decision}")?;
        }
        Ok(())
    }
}
