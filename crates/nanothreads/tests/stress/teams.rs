//! Kept teams with what their members do together, and groups of a team.

use crate::random::{Random, fold, mix};
use crate::slots::Slots;
use crate::step::{Budget, Step, work};
use nanothreads::{Team, TeamMember, groups};

/// How many threads a kept team has.
#[derive(Clone, Copy, Debug)]
enum Size {
    Exact(usize),
    AtMost(usize),
    Available,
}

/// Regions of a kept team. Each has rounds of: a single, a value from one to all, a turn for each,
/// blocks.
#[derive(Debug)]
pub(crate) struct Kept {
    size: Size,
    regions: usize,
    rounds: usize,
    length: usize,
    seed: u64,
    /// Runs under the team's limit.
    installed: Box<Step>,
}

impl Kept {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let size = match random.below(4) {
            0 => Size::Available,
            1 => Size::AtMost(1 + random.below(8)),
            _ => Size::Exact(
                (1 + random.below(if budget.threads > 32 { 24 } else { 5 })).min(budget.threads),
            ),
        };
        let installed = Box::new(Step::random(random, budget.inside(4)));
        let (regions, rounds, length) = (1 + random.below(4), random.below(4), random.below(100));
        Self { size, regions, rounds, length, seed: random.next(), installed }
    }

    pub(crate) fn installed(&self) -> &Step {
        &self.installed
    }

    fn value(&self, i: usize) -> u64 {
        mix(self.seed ^ i as u64)
    }

    pub(crate) fn expected(&self) -> u64 {
        let once = fold((0..self.rounds).map(|round| self.value(round)));
        let turns = match self.size {
            Size::Exact(size) => fold((0..self.rounds).flat_map(|_| 0..size as u64)),
            Size::AtMost(_) | Size::Available => 0,
        };
        let blocks = fold((0..self.length).map(|i| self.value(i).wrapping_mul(self.rounds as u64)));
        fold([
            fold([once, turns, blocks]).wrapping_mul(self.regions as u64),
            self.installed.expected(),
        ])
    }

    pub(crate) fn run(&self) -> u64 {
        let team = match self.size {
            Size::Exact(size) => Team::exact(size),
            Size::AtMost(size) => Team::at_most(size),
            Size::Available => Ok(Team::available()),
        };
        let team = team.expect("sizes are not 0, and the system has threads");
        let mut sum = 0_u64;
        for _ in 0..self.regions {
            sum = sum.wrapping_add(self.region(&team));
        }
        fold([sum, team.install(|| self.installed.run())])
    }

    fn region(&self, team: &Team) -> u64 {
        let (shared, blocks) = (Slots::new(2), Slots::new(self.length));
        shared.set(0, 1);
        shared.set(1, 1);
        let member = |member: &TeamMember<'_>| {
            for round in 0..self.rounds {
                member
                    .block(0..self.length)
                    .for_each(|i| blocks.add(i, work(self.seed ^ i as u64)));
                let value = member.single_for_all(|| {
                    let value = self.value(round);
                    shared.set(0, add(shared.get(0), value));
                    value
                });
                assert_eq!(value, self.value(round));
                if matches!(self.size, Size::Exact(_)) {
                    member.ordered(|| shared.set(1, add(shared.get(1), member.id() as u64)));
                }
            }
            member.barrier();
            if let Some(sum) = member.single(|| shared.get(0)) {
                assert_eq!(sum, fold((0..self.rounds).map(|round| self.value(round))));
            }
        };
        team.run(member);
        let turns = if matches!(self.size, Size::Exact(_)) { shared.get(1) } else { 0 };
        fold([shared.get(0), turns, fold(blocks.values())])
    }
}

/// One step of [`fold`].
fn add(sum: u64, value: u64) -> u64 {
    mix(sum ^ value).wrapping_add(sum)
}

/// How the processors are divided.
#[derive(Debug)]
enum Division {
    Weights(Vec<usize>),
    Equal(usize),
    Cache,
    Node,
}

/// Groups, each of which runs a step; where their number depends on the machine, all run the same.
#[derive(Debug)]
pub(crate) struct Divided {
    division: Division,
    parts: Vec<Step>,
}

impl Divided {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let count = 1 + random.below(4);
        let division = match random.below(6) {
            0 => Division::Cache,
            1 => Division::Node,
            2 | 3 => Division::Equal(count),
            _ => Division::Weights((0..count).map(|_| 1 + random.below(5)).collect()),
        };
        let parts = match division {
            Division::Cache | Division::Node => 1,
            Division::Weights(_) | Division::Equal(_) => count,
        };
        let inside = budget.inside(count.max(2));
        Self { division, parts: (0..parts).map(|_| Step::random(random, inside)).collect() }
    }

    pub(crate) fn parts(&self) -> &[Step] {
        &self.parts
    }

    pub(crate) fn expected(&self) -> u64 {
        fold(self.parts.iter().map(Step::expected))
    }

    pub(crate) fn run(&self) -> u64 {
        let groups = match &self.division {
            Division::Weights(weights) => groups().weights(weights),
            Division::Equal(count) => groups().equal(*count),
            Division::Cache => groups().by_cache(),
            Division::Node => groups().by_node(),
        };
        let values = groups.map(|group| self.parts[group.index() % self.parts.len()].run());
        assert!(values.len() >= self.parts.len());
        assert!(
            values.iter().enumerate().all(|(i, value)| *value == values[i % self.parts.len()]),
            "{self:#?}"
        );
        fold(values.into_iter().take(self.parts.len()))
    }
}
