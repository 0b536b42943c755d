//! Graphs of tasks whose dependences make every schedule come to what the order of their creation
//! comes to.

use crate::outside;
use crate::random::{Random, fold, mix};
use crate::slots::Slots;
use crate::step::{Budget, Step, work};
use nanothreads::{Access, Scope, TaskRef, scope};

/// What the creator does, in order.
#[derive(Debug)]
enum Action {
    Spawn(Plan),
    Wait,
    Yield,
}

/// A task.
#[derive(Debug)]
struct Plan {
    seed: u64,
    /// Cells that it uses, each once.
    accesses: Vec<(usize, Access)>,
    /// Older tasks that it comes after.
    after: Vec<usize>,
    priority: i32,
    inner: Inner,
}

/// What a task does besides its own work.
#[derive(Debug)]
enum Inner {
    Nothing,
    Yield,
    /// Tasks of its own, in a group.
    Graph(Graph),
    /// A step: regions and loops on a nano-thread.
    Step(Box<Step>),
    /// Waits for a task that is spawned from outside: by a thread that the engine does not know, or
    /// by a spawner.
    Suspend {
        foreign: bool,
    },
}

/// Tasks of one creator on cells of their own.
#[derive(Debug)]
pub(crate) struct Graph {
    cells: usize,
    actions: Vec<Action>,
    tasks: usize,
}

impl Graph {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let (cells, inside) = (1 + random.below(5), Budget { forks: false, ..budget.inside(8) });
        let (mut actions, mut tasks) = (Vec::new(), 0);
        let most = if random.once_in(4) { 80 } else { 12 };
        for _ in 0..random.below(most) {
            actions.push(match random.below(12) {
                0 => Action::Wait,
                1 => Action::Yield,
                _ => {
                    tasks += 1;
                    Action::Spawn(Plan::random(random, inside, cells, tasks - 1))
                }
            });
        }
        Self { cells, actions, tasks }
    }

    pub(crate) fn count(&self) -> usize {
        let plans = self.plans().map(|plan| match &plan.inner {
            Inner::Graph(graph) => graph.count(),
            Inner::Step(step) => step.count(),
            _ => 0,
        });
        self.tasks + plans.sum::<usize>()
    }

    fn plans(&self) -> impl Iterator<Item = &Plan> {
        self.actions.iter().filter_map(|action| match action {
            Action::Spawn(plan) => Some(plan),
            _ => None,
        })
    }

    pub(crate) fn expected(&self) -> u64 {
        let (cells, results) = (Slots::new(self.cells), Slots::new(self.tasks));
        for (number, plan) in self.plans().enumerate() {
            let inner = match &plan.inner {
                Inner::Nothing | Inner::Yield => 0,
                Inner::Graph(graph) => graph.expected(),
                Inner::Step(step) => step.expected(),
                Inner::Suspend { .. } => mix(plan.seed + 1),
            };
            plan.act(&cells, &results, number, inner);
        }
        fold(cells.values().chain(results.values()))
    }

    pub(crate) fn run(&self) -> u64 {
        let (cells, results) = (Slots::new(self.cells), Slots::new(self.tasks));
        scope(|s| self.create(s, &cells, &results));
        fold(cells.values().chain(results.values()))
    }

    fn run_in_group(&self, s: &Scope<'_>) -> u64 {
        let (cells, results) = (Slots::new(self.cells), Slots::new(self.tasks));
        s.group(|s| self.create(s, &cells, &results));
        fold(cells.values().chain(results.values()))
    }

    fn create<'s>(&'s self, s: &Scope<'s>, cells: &'s Slots, results: &'s Slots) {
        let mut tasks: Vec<TaskRef> = Vec::new();
        for action in &self.actions {
            match action {
                Action::Wait => s.wait(),
                Action::Yield => s.yield_now(),
                Action::Spawn(plan) => {
                    let number = tasks.len();
                    let task = s.task().priority(plan.priority);
                    let task =
                        plan.after.iter().fold(task, |task, &older| task.depends_on(&tasks[older]));
                    let uses = plan.accesses.iter();
                    let task = uses
                        .fold(task, |task, &(cell, access)| task.accesses(access, cells.key(cell)));
                    tasks.push(task.spawn(move |s| {
                        let inner = plan.inner.run(s, plan.seed);
                        plan.act(cells, results, number, inner);
                    }));
                }
            }
        }
    }
}

impl Plan {
    fn random(random: &mut Random, inside: Budget, cells: usize, older: usize) -> Self {
        let kinds = [
            Access::Read,
            Access::Read,
            Access::Write,
            Access::Write,
            Access::Exclude,
            Access::Share,
        ];
        let mut accesses: Vec<(usize, Access)> = Vec::new();
        for _ in 0..random.below(4) {
            let (cell, access) = (random.below(cells), random.pick(&kinds));
            if accesses.iter().all(|&(other, _)| other != cell) {
                accesses.push((cell, access));
            }
        }
        let after = (0..random.below(4)).filter(|_| older > 0).map(|_| random.below(older.max(1)));
        let after = after.collect();
        let inner = match random.below(24) {
            0..3 => Inner::Yield,
            3..5 if inside.depth > 0 => Inner::Graph(Graph::random(random, inside)),
            5 if inside.depth > 0 => Inner::Step(Box::new(Step::random(random, inside))),
            6 => Inner::Suspend { foreign: random.once_in(4) },
            _ => Inner::Nothing,
        };
        let priority = if random.once_in(4) { random.below(5) as i32 - 2 } else { 0 };
        Self { seed: random.next() >> 1, accesses, after, priority, inner }
    }

    /// The task's work on the cells; what it comes to.
    fn act(&self, cells: &Slots, results: &Slots, number: usize, inner: u64) {
        let read = self
            .accesses
            .iter()
            .filter(|(_, access)| matches!(access, Access::Read | Access::Write));
        let older = self.after.iter().map(|&older| results.get(older));
        let input =
            fold(older.chain(read.map(|&(cell, _)| cells.get(cell))).chain([self.seed, inner]));
        let value = work(input);
        for &(cell, access) in &self.accesses {
            match access {
                Access::Read => {}
                Access::Write => cells.set(cell, value),
                Access::Exclude => cells.add(cell, mix(self.seed)),
                Access::Share => cells.add_at_once(cell, mix(self.seed)),
                _ => unreachable!("a kind that is never chosen"),
            }
        }
        results.add(number, value);
    }
}

impl Inner {
    fn run(&self, s: &Scope<'_>, seed: u64) -> u64 {
        match self {
            Inner::Nothing => 0,
            Inner::Yield => {
                s.yield_now();
                0
            }
            Inner::Graph(graph) => graph.run_in_group(s),
            Inner::Step(step) => step.run(),
            Inner::Suspend { foreign } => {
                let value = Slots::new(1);
                if *foreign {
                    outside::scope(|threads| {
                        s.suspend(|completion| {
                            threads.spawn(|| {
                                value.set(0, work(seed + 1));
                                completion.complete();
                            });
                        });
                    });
                } else {
                    s.group(|s| {
                        let (spawner, value) = (s.spawner(), &value);
                        spawner.spawn(move |_| value.set(0, work(seed + 1)));
                    });
                }
                value.get(0)
            }
        }
    }
}
