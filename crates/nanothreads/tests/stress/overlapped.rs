//! Several regions of one master open at once: forked one after the other, joined in any order, or
//! at the end.

use crate::random::{Random, fold, mix};
use crate::slots::Slots;
use crate::step::{Budget, Step, work};
use nanothreads::papers::Dispatch;
use nanothreads::{Member, Team};

/// When a construct is joined.
#[derive(Clone, Copy, Debug)]
enum Join {
    /// At once.
    Now,
    /// When all are forked, the youngest first.
    Later,
    /// By the end of the overlap.
    Never,
}

/// One construct. Its members write a slot each, and member 0's neighbour, or member 0 of a team of
/// one, runs a step.
#[derive(Debug)]
struct Construct {
    seed: u64,
    join: Join,
    inner: Option<Step>,
}

#[derive(Debug)]
pub(crate) struct Overlapped {
    size: usize,
    dispatch: Dispatch,
    constructs: Vec<Construct>,
    /// What the master does between the last fork and the first join.
    between: Box<Step>,
}

impl Overlapped {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let size = (1 + random.below(5)).min(budget.threads);
        let dispatch = random.pick(&[Dispatch::Lines, Dispatch::Broadcast]);
        let inside = budget.inside(size + 1);
        let constructs = (0..1 + random.below(9)).map(|_| Construct {
            seed: random.next(),
            join: random.pick(&[Join::Now, Join::Later, Join::Later, Join::Never]),
            inner: random.once_in(6).then(|| Step::random(random, inside)),
        });
        let constructs = constructs.collect();
        Self { size, dispatch, constructs, between: Box::new(Step::random(random, inside)) }
    }

    pub(crate) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.constructs
            .iter()
            .filter_map(|construct| construct.inner.as_ref())
            .chain([&*self.between])
    }

    /// The member that runs the step of a construct.
    fn runner(&self) -> usize {
        1 % self.size
    }

    pub(crate) fn expected(&self) -> u64 {
        let of = |construct: &Construct| {
            let inner = construct.inner.as_ref().map_or(0, Step::expected);
            let value = |id: usize| mix(construct.seed ^ id as u64);
            fold((0..self.size).map(|id| {
                if id == self.runner() { value(id).wrapping_add(inner) } else { value(id) }
            }))
        };
        fold(self.constructs.iter().map(of).chain([self.between.expected()]))
    }

    pub(crate) fn run(&self) -> u64 {
        let team =
            Team::exact(self.size).expect("the system has threads").dispatched(self.dispatch);
        let values: Vec<Slots> = self.constructs.iter().map(|_| Slots::new(self.size)).collect();
        let between = team.overlap(|o| {
            let mut later = Vec::new();
            for (construct, values) in self.constructs.iter().zip(&values) {
                let pending = o.fork(move |member: Member| {
                    let id = member.id as usize;
                    values.add(id, work(construct.seed ^ id as u64));
                    if let Some(step) = construct.inner.as_ref().filter(|_| id == self.runner()) {
                        values.add(id, step.run());
                    }
                });
                match construct.join {
                    Join::Now => {
                        pending.join();
                        assert!(
                            values.values().all(|value| value != 0),
                            "joined before all were done"
                        );
                    }
                    Join::Later => later.push(pending),
                    Join::Never => drop(pending),
                }
            }
            let between = self.between.run();
            later.into_iter().rev().for_each(nanothreads::papers::Pending::join);
            between
        });
        fold(values.iter().map(|values| fold(values.values())).chain([between]))
    }
}
