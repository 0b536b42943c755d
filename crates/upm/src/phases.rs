//! Record and replay: pages that different phases of an iteration use from different nodes move
//! before each phase, and back after the last.
//!
//! # Protocol
//! 1. In one iteration, while a source counts, [`Phases::record`] takes the counters at each border
//!    of a phase: phase k lies between record k and record k + 1.
//! 2. [`Phases::compare`] applies the criterion to each phase alone, with the pages where they are
//!    then, and keeps of each phase the most critical ones: the largest ratios.
//! 3. In each later iteration [`Phases::replay`] before phase k moves its pages, and
//!    [`Phases::undo`] after the last one returns every page that was moved to where it was before
//!    the first replay. A page that a phase does not name stays where the phase before has it.
//! 4. The first iterations after `compare` move nothing and are measured; then as many are
//!    measured with migrations, from the first `replay` to the end of `undo`. When the last of
//!    these took no less time, replay turns itself off for good.
//!
//! # Invariants
//! I1  After `undo` each page is where it was before the first replay, or the mover refused to
//!     return it. Such a page keeps its recorded home, and the next `undo` tries again.
//!
//! # Papers
//! P4 section 3.2. The paper measures by hand whether replay is worth it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use crate::counters::Counters;
use crate::criterion::Verdict;
use crate::migrator::Migrator;
use crate::mover::{Home, Mover, Outcome, Step};
use crate::topology::{Node, Topology};

/// How many iterations decide whether replay is worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GainTest {
    /// Iterations without migrations that are measured; as many with. 0: no test.
    pub trials: usize,
}

impl Default for GainTest {
    fn default() -> Self {
        Self { trials: 2 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nothing was compared yet.
    Recording,
    /// Iterations run without migrations.
    Nominal,
    Replaying,
    /// It did not pay.
    Off,
}

/// The phases of an iteration.
#[derive(Clone, Debug)]
pub struct Phases {
    vectors: Vec<Counters>,
    /// For each phase the pages that move before it, and where to.
    plans: Vec<Vec<(usize, Node)>>,
    /// The next phase.
    next: usize,
    /// Where pages that are away were.
    homes: BTreeMap<usize, Node>,
    test: GainTest,
    mode: Mode,
    began: Option<u64>,
    nominal: Vec<u64>,
    /// The last ones.
    replayed: VecDeque<u64>,
}

impl Phases {
    /// Nothing recorded.
    pub fn new(test: GainTest) -> Self {
        Self {
            vectors: Vec::new(),
            plans: Vec::new(),
            next: 0,
            homes: BTreeMap::new(),
            test,
            mode: Mode::Recording,
            began: None,
            nominal: Vec::new(),
            replayed: VecDeque::new(),
        }
    }

    /// A border of phases: the counters are these now.
    pub fn record(&mut self, counters: &Counters) {
        self.vectors.push(counters.clone());
    }

    /// Decides which pages move before which phase, and returns how many moves that is. Fewer than
    /// two records are no phase.
    pub fn compare<T: Topology, M: Mover>(&mut self, migrator: &mut Migrator<T, M>) -> usize {
        let vectors = std::mem::take(&mut self.vectors);
        let critical = migrator.parameters().critical_pages;
        self.plans = vectors
            .windows(2)
            .map(|pair| {
                let (judged, _) = migrator.judged(&pair[1].since(&pair[0]));
                let mut moves: Vec<_> = judged
                    .into_iter()
                    .filter_map(|decision| match decision.verdict {
                        Verdict::Move { to, ratio, references } => {
                            Some((ratio, references, decision.address, decision.pages, to))
                        }
                        Verdict::Stay(_) => None,
                    })
                    .collect();
                moves.sort_by(|one, two| {
                    two.0
                        .total_cmp(&one.0)
                        .then((Reverse(one.1), one.2).cmp(&(Reverse(two.1), two.2)))
                });
                moves.truncate(critical);
                let pages = |(.., pages, to): (_, _, _, std::ops::Range<usize>, Node)| {
                    pages.map(move |page| (page, to))
                };
                moves.into_iter().flat_map(pages).collect()
            })
            .collect();
        self.next = 0;
        self.nominal.clear();
        self.replayed.clear();
        self.mode = if self.planned() == 0 {
            Mode::Off
        } else if self.test.trials == 0 {
            Mode::Replaying
        } else {
            Mode::Nominal
        };
        self.planned()
    }

    /// How many moves all phases have.
    pub fn planned(&self) -> usize {
        self.plans.iter().map(Vec::len).sum()
    }

    /// The pages that move before a phase, counted from 0, the most critical first.
    pub fn plan(&self, phase: usize) -> &[(usize, Node)] {
        self.plans.get(phase).map_or(&[], Vec::as_slice)
    }

    /// Whether `replay` moves pages.
    pub fn is_replaying(&self) -> bool {
        self.mode == Mode::Replaying
    }

    /// Whether replay turned itself off: no page to move, or no gain.
    pub fn is_off(&self) -> bool {
        self.mode == Mode::Off
    }

    /// The next phase begins; returns how many pages moved.
    pub fn replay<T: Topology, M: Mover>(&mut self, migrator: &mut Migrator<T, M>) -> usize {
        if matches!(self.mode, Mode::Recording | Mode::Off) {
            return 0;
        }
        if self.began.is_none() {
            self.began = Some(migrator.now());
        }
        let phase = self.next;
        self.next += 1;
        if self.mode != Mode::Replaying {
            return 0;
        }
        let Some(plan) = self.plans.get(phase) else { return 0 };
        let pages: Vec<usize> = plan.iter().map(|(page, _)| *page).collect();
        let targets: Vec<Node> = plan.iter().map(|(_, to)| *to).collect();
        let (moved, _) = self.shift(migrator, &pages, &targets);
        migrator.statistics.replayed += moved.len();
        moved.len()
    }

    /// The iteration's last phase ended; returns how many pages moved back.
    pub fn undo<T: Topology, M: Mover>(&mut self, migrator: &mut Migrator<T, M>) -> usize {
        self.next = 0;
        let (pages, targets): (Vec<usize>, Vec<Node>) =
            self.homes.iter().map(|(page, home)| (*page, *home)).unzip();
        let (moved, there) = self.shift(migrator, &pages, &targets);
        let home = moved.iter().filter(|(_, is_right)| *is_right).map(|(page, _)| page);
        for page in home.chain(&there) {
            self.homes.remove(page);
        }
        migrator.statistics.undone += moved.len();
        if let Some(began) = self.began.take() {
            let time = migrator.now().saturating_sub(began);
            self.judge(time);
        }
        moved.len()
    }

    /// Moves pages; returns those that moved, with whether to the right node, and those that were
    /// there already. A page that leaves its home for the first time has it recorded.
    fn shift<T: Topology, M: Mover>(
        &mut self,
        migrator: &mut Migrator<T, M>,
        pages: &[usize],
        targets: &[Node],
    ) -> (Vec<(usize, bool)>, Vec<usize>) {
        if pages.is_empty() {
            return (Vec::new(), Vec::new());
        }
        let begin = migrator.now();
        let addresses: Vec<usize> =
            pages.iter().map(|page| migrator.areas.address(*page)).collect();
        let homes = migrator.mover.homes(&addresses);
        let (mut steps, mut origins, mut there) = (Vec::new(), Vec::new(), Vec::new());
        for (((page, to), address), home) in pages.iter().zip(targets).zip(addresses).zip(homes) {
            match home {
                Home::On(from) if from != *to => {
                    steps.push(Step { address, from, to: *to });
                    origins.push((*page, from));
                }
                Home::On(_) => there.push(*page),
                Home::Untouched | Home::Unknown(_) => {}
            }
        }
        let outcomes = migrator.moved(&steps);
        let mut moved = Vec::new();
        for ((page, from), outcome) in origins.into_iter().zip(outcomes) {
            match outcome {
                Outcome::Moved => {
                    self.homes.entry(page).or_insert(from);
                    moved.push((page, true));
                }
                // In `undo` it has still to come home.
                Outcome::Elsewhere(_) => {
                    self.homes.entry(page).or_insert(from);
                    moved.push((page, false));
                }
                Outcome::Refused(refusal) => {
                    *migrator.statistics.phase_refused.entry(refusal).or_default() += 1;
                }
            }
        }
        let time = migrator.now().saturating_sub(begin);
        migrator.statistics.phase_nanoseconds += time;
        (moved, there)
    }

    /// An iteration took this long.
    fn judge(&mut self, time: u64) {
        let trials = self.test.trials;
        match self.mode {
            Mode::Nominal => {
                self.nominal.push(time);
                if self.nominal.len() == trials {
                    self.mode = Mode::Replaying;
                }
            }
            Mode::Replaying if trials > 0 => {
                self.replayed.push_back(time);
                if self.replayed.len() > trials {
                    self.replayed.pop_front();
                }
                let sum = |times: &mut dyn Iterator<Item = &u64>| -> u128 {
                    times.map(|time| u128::from(*time)).sum()
                };
                let is_full = self.replayed.len() == trials;
                let nominal = sum(&mut self.nominal.iter());
                if is_full && sum(&mut self.replayed.iter()) >= nominal {
                    self.mode = Mode::Off;
                }
            }
            Mode::Recording | Mode::Replaying | Mode::Off => {}
        }
    }
}
