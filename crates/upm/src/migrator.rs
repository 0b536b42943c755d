//! The iterative engine: after an iteration of the program's outer loop it moves the pages for
//! which the criterion says so, and turns itself off when there are none.
//!
//! # Protocol
//! 1. The program adds its hot areas, and runs an iteration while a source counts.
//! 2. [`Migrator::migrate`] looks at all pages with the counters of that iteration. Pages that are
//!    decided together (those of a huge page) have the sum of their counters, and the home of most
//!    of them.
//! 3. A call that moved a page has the next iteration counted. The first one that moved none turns
//!    the engine off: from then on a call does nothing.
//! 4. [`Migrator::rearm`] turns it on again, for a program whose threads went to other nodes. What
//!    was frozen is free again: other nodes use the pages now.
//!
//! # Invariants
//! I1  The engine ends: a page moves at most `nodes - 1` times in consecutive calls (`history`),
//!     and a call in which no page moves is the last one.
//! I2  Every page of every call is counted once: as moved, refused, or stayed.

use std::ops::Range;

use crate::area::{AreaError, AreaId, Areas};
use crate::counters::Counters;
use crate::criterion::{Criterion, Judge, Stay, Verdict};
use crate::history::History;
use crate::mover::{Home, Mover, Outcome, Refusal, Step};
use crate::statistics::{Call, Decision, Off, Statistics};
use crate::topology::{Node, Topology};

/// What the engine may be told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parameters {
    /// When a page moves.
    pub criterion: Criterion,
    /// How many pages are moved before a phase (`UPM_CRITICAL_PAGES`).
    pub critical_pages: usize,
    /// Keep the decisions of pages that stay, too.
    pub keep_all_decisions: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { criterion: Criterion::SAMPLED, critical_pages: 20, keep_all_decisions: false }
    }
}

/// The engine on a topology and a mover.
pub struct Migrator<T, M> {
    topology: T,
    pub(crate) mover: M,
    pub(crate) areas: Areas,
    judge: Judge,
    parameters: Parameters,
    history: History,
    pub(crate) statistics: Statistics,
    clock: Box<dyn FnMut() -> u64 + Send>,
    /// Pages that had too few references in the last call, ascending.
    undecided: Vec<Range<usize>>,
}

impl<T: Topology, M: Mover> Migrator<T, M> {
    /// An engine without areas, for pages of `page` bytes. It is off where one node has memory.
    pub fn new(topology: T, mover: M, parameters: Parameters, page: usize) -> Self {
        let judge = Judge::new(parameters.criterion, &topology);
        let off = (topology.homes() < 2).then_some(Off::OneNode);
        Self {
            topology,
            mover,
            areas: Areas::new(page),
            judge,
            parameters,
            history: History::default(),
            statistics: Statistics { off, ..Statistics::default() },
            clock: Box::new(platform::clock::monotonic_ns),
            undecided: Vec::new(),
        }
    }

    /// Another clock, in nanoseconds.
    #[must_use]
    pub fn with_clock(mut self, clock: impl FnMut() -> u64 + Send + 'static) -> Self {
        self.clock = Box::new(clock);
        self
    }

    /// Adds a hot area (`memrefcnt`).
    ///
    /// # Errors
    /// See [`AreaError`].
    pub fn add(&mut self, begin: usize, length: usize) -> Result<AreaId, AreaError> {
        let area = self.areas.add(begin, length)?;
        self.statistics.pages = self.areas.pages();
        Ok(area)
    }

    /// The hot areas.
    pub fn areas(&self) -> &Areas {
        &self.areas
    }

    /// Decides `unit` pages of an area together, by their addresses.
    pub fn set_unit(&mut self, area: AreaId, unit: usize) {
        self.areas.set_unit(area, unit);
    }

    /// The topology.
    pub fn topology(&self) -> &T {
        &self.topology
    }

    /// The mover.
    pub fn mover(&mut self) -> &mut M {
        &mut self.mover
    }

    /// The parameters.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// The criterion from now on: another source may count in another way.
    pub fn set_criterion(&mut self, criterion: Criterion) {
        self.parameters.criterion = criterion;
        self.judge = Judge::new(criterion, &self.topology);
    }

    /// Whether a page had some references in the last call, and too few: more may decide.
    pub fn is_undecided(&self, page: usize) -> bool {
        let after = self.undecided.partition_point(|pages| pages.start <= page);
        after.checked_sub(1).is_some_and(|index| self.undecided[index].contains(&page))
    }

    /// What was done.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Whether a call would look at pages: the next iteration is worth counting.
    pub fn is_on(&self) -> bool {
        self.statistics.off.is_none()
    }

    /// Turns the engine off for a reason.
    pub fn turn_off(&mut self, off: Off) {
        self.statistics.off.get_or_insert(off);
    }

    /// Turns the engine on again, with nothing frozen. Where pages cannot move at all it stays off.
    pub fn rearm(&mut self) {
        if !matches!(self.statistics.off, Some(Off::OneNode | Off::NoSource(_))) {
            self.statistics.off = None;
            self.statistics.rearmed += 1;
            self.history.clear();
            self.statistics.frozen = 0;
        }
    }

    /// One call: moves what should move by these counters, of the iteration before. Returns how
    /// many pages moved (`num_migrations`); 0 turns the engine off.
    pub fn migrate(&mut self, counters: &Counters) -> usize {
        if !self.is_on() {
            return 0;
        }
        let begin = (self.clock)();
        let mut call = Call { pages: self.areas.pages(), ..Call::default() };
        let (mut decisions, homes) = self.decide(counters);
        let mut steps = Vec::new();
        let mut movers: Vec<(usize, usize, Node)> = Vec::new();
        for (index, decision) in decisions.iter().enumerate() {
            let Verdict::Move { to, .. } = decision.verdict else {
                let Verdict::Stay(stay) = decision.verdict else { continue };
                *call.stayed.entry(stay).or_default() += decision.pages.len();
                continue;
            };
            for page in decision.pages.clone() {
                match homes[page] {
                    Home::On(from) if from != to => {
                        steps.push(Step { address: self.areas.address(page), from, to });
                        movers.push((index, page, from));
                    }
                    Home::On(_) => *call.stayed.entry(Stay::BestIsHome).or_default() += 1,
                    Home::Untouched => *call.stayed.entry(Stay::Untouched).or_default() += 1,
                    Home::Unknown(_) => *call.stayed.entry(Stay::Unknown).or_default() += 1,
                }
            }
        }
        let outcomes = self.moved(&steps);
        for ((index, page, from), outcome) in movers.into_iter().zip(outcomes) {
            call.count(outcome);
            if !matches!(outcome, Outcome::Refused(_)) {
                self.history.note_move(page, from);
            }
            decisions[index].outcomes.push(outcome);
        }
        let too_few =
            decisions.iter().filter(|decision| decision.verdict == Verdict::Stay(Stay::BelowFloor));
        self.undecided = too_few.map(|decision| decision.pages.clone()).collect();
        if !self.parameters.keep_all_decisions {
            decisions.retain(|decision| matches!(decision.verdict, Verdict::Move { .. }));
        }
        let (migrations, refusals) = (call.migrations(), call.refusals());
        let errno = homes.iter().find_map(|home| match home {
            Home::Unknown(errno) => Some(*errno),
            _ => None,
        });
        let unreadable = errno.filter(|_| call.stayed.contains_key(&Stay::Unknown));
        call.nanoseconds = (self.clock)().saturating_sub(begin);
        let statistics = &mut self.statistics;
        statistics.calls.push(call);
        if !decisions.is_empty() {
            (statistics.decisions, statistics.decided_by) = (decisions, statistics.calls.len());
        }
        statistics.frozen = self.history.frozen();
        if migrations == 0 {
            statistics.off = Some(match (refusals, unreadable) {
                (0, None) => Off::Settled,
                (0, Some(errno)) => Off::Unreadable(errno),
                _ => Off::Refused,
            });
        }
        migrations
    }

    /// What the rule says of each unit, with freezing; and where the pages are.
    fn decide(&mut self, counters: &Counters) -> (Vec<Decision>, Vec<Home>) {
        self.history.begin_call(self.areas.pages());
        let (mut decisions, homes) = self.judged(counters);
        for decision in &mut decisions {
            if let Verdict::Move { to, .. } = decision.verdict
                // All of them are asked: each keeps its own past.
                && decision.pages.clone().filter(|page| self.history.freezes(*page, to)).count() > 0
            {
                decision.verdict = Verdict::Stay(Stay::Frozen);
            }
        }
        (decisions, homes)
    }

    /// What the criterion says of each unit, where it is now; and where the pages are.
    pub(crate) fn judged(&mut self, counters: &Counters) -> (Vec<Decision>, Vec<Home>) {
        let homes = self.homes(0..self.areas.pages());
        let known = counters.pages();
        let mut sums = Vec::new();
        let judged = self.areas.units().map(|pages| {
            let counted = pages.start.min(known)..pages.end.min(known);
            counters.sum(counted, &mut sums);
            sums.resize(self.topology.nodes(), 0);
            let home = majority(&homes[pages.clone()]);
            let verdict = match home {
                Ok(home) => self.judge.judge(&sums, home),
                Err(stay) => Verdict::Stay(stay),
            };
            let address = self.areas.address(pages.start);
            let (home, counts, outcomes) = (home.ok(), sums.clone(), Vec::new());
            Decision { pages, address, home, counts, verdict, outcomes }
        });
        let judged = judged.collect();
        (judged, homes)
    }

    pub(crate) fn homes(&mut self, pages: Range<usize>) -> Vec<Home> {
        let addresses: Vec<usize> = pages.map(|page| self.areas.address(page)).collect();
        let homes = self.mover.homes(&addresses);
        assert_eq!(homes.len(), addresses.len(), "a mover tells one home for each page");
        homes
    }

    /// Moves, with one outcome for each step whatever the mover does.
    pub(crate) fn moved(&mut self, steps: &[Step]) -> Vec<Outcome> {
        if steps.is_empty() {
            return Vec::new();
        }
        let mut outcomes = self.mover.migrate(steps);
        outcomes.resize(steps.len(), Outcome::Refused(Refusal::Other(0)));
        outcomes
    }

    pub(crate) fn now(&mut self) -> u64 {
        (self.clock)()
    }
}

/// The node of most of them; equal ones: the lowest.
fn majority(homes: &[Home]) -> Result<Node, Stay> {
    let mut counts = [0usize; crate::topology::MOST_NODES];
    let mut none = Stay::Untouched;
    for home in homes {
        match home {
            Home::On(node) => counts[node.index()] += 1,
            Home::Untouched => {}
            Home::Unknown(_) => none = Stay::Unknown,
        }
    }
    let best = (0..counts.len()).max_by_key(|node| (counts[*node], std::cmp::Reverse(*node)));
    best.filter(|best| counts[*best] > 0).map(Node::at).ok_or(none)
}
