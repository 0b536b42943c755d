//! A step of a program: what there is, how it is chosen, what it comes to.

use crate::faults::Fault;
use crate::loops::Loop;
use crate::outside;
use crate::overlapped::Overlapped;
use crate::process;
use crate::random::{Random, fold, mix};
use crate::recursion::Recursion;
use crate::region::{Region, Share};
use crate::sizer;
use crate::slots::Slots;
use crate::tasks::Graph;
use crate::teams::{Divided, Kept};
use std::time::{Duration, Instant};

/// What a part of a program may still use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Steps inside steps.
    pub(crate) depth: u32,
    /// Threads of exact teams and masters that may run at once.
    pub(crate) threads: usize,
    /// Processes may be forked here: not on the stack of a nano-thread.
    pub(crate) forks: bool,
}

impl Budget {
    pub(crate) const WHOLE: Self = Self { depth: 4, threads: 64, forks: true };

    /// For one of `parts` that run at once.
    pub(crate) fn inside(self, parts: usize) -> Self {
        Self { depth: self.depth.saturating_sub(1), threads: (self.threads / parts).max(1), ..self }
    }
}

#[derive(Debug)]
pub(crate) enum Step {
    /// Work of its own; see [`work`].
    Work(u64),
    Sequence(Vec<Step>),
    Region(Region),
    /// A broadcast: any number of members share the work.
    Share(Share),
    Join(Box<(Step, Step)>),
    Sections(Vec<Step>),
    Loop(Loop),
    Recursion(Recursion),
    Kept(Kept),
    Overlapped(Overlapped),
    Groups(Divided),
    Tasks(Graph),
    /// Threads that the engine did not create, each an outermost master.
    Masters(Vec<Step>),
    Fault(Fault),
    /// The number of processors, whether they are bound, the lease.
    Resize(usize, bool, u32),
    /// A child process that runs the step.
    Fork(Box<Step>),
}

impl Step {
    /// A whole program.
    pub(crate) fn program(random: &mut Random, budget: Budget) -> Self {
        let steps = 1 + random.below(6);
        Self::Sequence((0..steps).map(|_| Self::random(random, budget)).collect())
    }

    /// One step of any kind that the budget allows.
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        if budget.depth == 0 {
            return Self::Work(random.next());
        }
        match random.below(100) {
            0..10 => Self::Work(random.next()),
            10..18 => Self::several(random, budget, 1, Self::Sequence),
            18..36 => Self::Region(Region::random(random, budget)),
            36..42 => Self::Share(Share::random(random, budget)),
            42..48 => {
                let inside = budget.inside(2);
                Self::Join(Box::new((Self::random(random, inside), Self::random(random, inside))))
            }
            48..52 => Self::several(random, budget, 4, Self::Sections),
            52..64 => Self::Loop(Loop::random(random, budget)),
            64..68 => Self::Recursion(Recursion::random(random, budget)),
            68..71 => Self::Kept(Kept::random(random, budget)),
            71..73 => Self::Overlapped(Overlapped::random(random, budget)),
            73..76 => Self::Groups(Divided::random(random, budget)),
            76..84 => Self::Tasks(Graph::random(random, budget)),
            84..88 => Self::several(random, budget, 4, Self::Masters),
            88..93 => Self::Fault(Fault::random(random)),
            93..99 => {
                let limit = random.pick(&[1, 2, 2, 3, 4, 4, 5, 8, 16]);
                Self::Resize(limit, random.once_in(3), random.next() as u32)
            }
            _ if budget.forks && process::FORKS => {
                let inside = Budget { depth: budget.depth.min(2), threads: 4, forks: false };
                Self::Fork(Box::new(Self::random(random, inside)))
            }
            _ => Self::Work(random.next()),
        }
    }

    fn several(
        random: &mut Random,
        budget: Budget,
        parts: usize,
        of: fn(Vec<Step>) -> Self,
    ) -> Self {
        let inside = budget.inside(parts);
        of((0..1 + random.below(4)).map(|_| Self::random(random, inside)).collect())
    }

    /// Steps of the tree.
    pub(crate) fn count(&self) -> usize {
        let inside = match self {
            Self::Sequence(steps) | Self::Sections(steps) | Self::Masters(steps) => {
                steps.iter().map(Self::count).sum()
            }
            Self::Region(region) => region.parts().iter().map(Self::count).sum(),
            Self::Join(halves) => halves.0.count() + halves.1.count(),
            Self::Share(share) => share.part().count(),
            Self::Loop(the_loop) => the_loop.inner().map_or(0, Self::count),
            Self::Fork(step) => step.count(),
            Self::Recursion(recursion) => recursion.inner().map_or(0, Self::count),
            Self::Kept(team) => team.installed().count(),
            Self::Overlapped(overlap) => overlap.steps().map(Self::count).sum(),
            Self::Groups(groups) => groups.parts().iter().map(Self::count).sum(),
            Self::Tasks(graph) => graph.count(),
            Self::Work(_) | Self::Fault(_) | Self::Resize(..) => 0,
        };
        1 + inside
    }

    /// The oracle: the step's value, by one thread.
    pub(crate) fn expected(&self) -> u64 {
        match self {
            Self::Work(seed) => mix(*seed),
            Self::Sequence(steps) | Self::Sections(steps) | Self::Masters(steps) => {
                fold(steps.iter().map(Self::expected))
            }
            Self::Region(region) => region.expected(),
            Self::Share(share) => share.expected(),
            Self::Join(halves) => fold([halves.0.expected(), halves.1.expected()]),
            Self::Loop(the_loop) => the_loop.expected(),
            Self::Recursion(recursion) => recursion.expected(),
            Self::Kept(team) => team.expected(),
            Self::Overlapped(overlap) => overlap.expected(),
            Self::Groups(groups) => groups.expected(),
            Self::Tasks(graph) => graph.expected(),
            Self::Fault(fault) => fault.expected(),
            Self::Resize(..) => 0,
            Self::Fork(step) => step.expected(),
        }
    }

    /// The step's value, by the engine.
    pub(crate) fn run(&self) -> u64 {
        match self {
            Self::Work(seed) => work(*seed),
            Self::Sequence(steps) => fold(steps.iter().map(Self::run)),
            Self::Region(region) => region.run(),
            Self::Share(share) => share.run(),
            Self::Join(halves) => {
                let (first, second) = nanothreads::join(|| halves.0.run(), || halves.1.run());
                fold([first, second])
            }
            Self::Sections(steps) => run_sections(steps),
            Self::Loop(the_loop) => the_loop.run(),
            Self::Recursion(recursion) => recursion.run(),
            Self::Kept(team) => team.run(),
            Self::Overlapped(overlap) => overlap.run(),
            Self::Groups(groups) => groups.run(),
            Self::Tasks(graph) => graph.run(),
            Self::Masters(steps) => run_masters(steps),
            Self::Fault(fault) => fault.run(),
            Self::Resize(limit, bound, lease) => {
                sizer::resize(*limit, *bound, *lease);
                0
            }
            Self::Fork(step) => process::in_child(step),
        }
    }
}

fn run_sections(steps: &[Step]) -> u64 {
    let values = Slots::new(steps.len());
    let mut sections = nanothreads::sections();
    for (index, step) in steps.iter().enumerate() {
        let values = &values;
        sections = sections.add(move || values.add(index, step.run()));
    }
    sections.run();
    fold(values.values())
}

fn run_masters(steps: &[Step]) -> u64 {
    let values = Slots::new(steps.len());
    outside::scope(|threads| {
        for (index, step) in steps.iter().enumerate() {
            let values = &values;
            threads.spawn(move || values.add(index, step.run()));
        }
    });
    fold(values.values())
}

/// Takes a moment that depends on the seed: mostly none, now and then longer than any thread spins,
/// or a yield, so that others overtake, sleep, and are woken.
pub(crate) fn work(seed: u64) -> u64 {
    match seed >> 20 & 0xff {
        0 => {
            let (start, moment) = (Instant::now(), Duration::from_micros(seed >> 30 & 0x1ff));
            while start.elapsed() < moment {
                std::hint::spin_loop();
            }
        }
        1..8 => std::thread::yield_now(),
        length @ 8..64 => (0..length).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
    mix(seed)
}
