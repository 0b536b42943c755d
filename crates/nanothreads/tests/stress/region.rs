//! Regions: teams of an exact size with barriers, and broadcasts on what is granted.

use crate::random::{Random, fold, mix};
use crate::slots::Slots;
use crate::step::{Budget, Step, work};
use engine::Dispatch;
use engine::{Barrier, Member, Team};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// A team of exactly `size` threads. Each runs a part of its own; then all of them compute rounds
/// of a stencil.
#[derive(Debug)]
pub(crate) struct Region {
    size: usize,
    /// Times that the same team is forked.
    times: usize,
    /// Member i runs part i modulo their number.
    parts: Vec<Step>,
    /// Barriers.
    rounds: usize,
    /// How the work is supplied, anew each time.
    dispatches: Vec<Dispatch>,
}

impl Region {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let size = match random.below(16) {
            0 => 64,
            1..4 => 1 + random.below(16),
            _ => 1 + random.below(4),
        };
        let size = size.min(budget.threads);
        let parts: Vec<_> =
            (0..random.below(4)).map(|_| Step::random(random, budget.inside(size))).collect();
        let times = if parts.is_empty() { 1 + random.below(20) } else { 1 };
        let rounds = random.below(if size > 8 { 3 } else { 9 });
        let dispatches =
            (0..3).map(|_| random.pick(&[Dispatch::Lines, Dispatch::Broadcast])).collect();
        Self { size, times, parts, rounds, dispatches }
    }

    pub(crate) fn parts(&self) -> &[Step] {
        &self.parts
    }

    /// What member `id`'s cell holds after a round in which it and its neighbour had `own` and
    /// `other`.
    fn stencil(own: u64, other: u64, round: usize) -> u64 {
        mix(own ^ other.rotate_left(7) ^ round as u64)
    }

    pub(crate) fn expected(&self) -> u64 {
        let values: Vec<u64> = self.parts.iter().map(Step::expected).collect();
        let part = |id: usize| if values.is_empty() { 0 } else { values[id % values.len()] };
        let mut cells: Vec<u64> = (0..self.size).map(|id| mix(id as u64)).collect();
        for round in 0..self.rounds {
            let last = cells.clone();
            for id in 0..self.size {
                cells[id] = Self::stencil(last[id], last[(id + 1) % self.size], round);
            }
        }
        let once = fold((0..self.size).map(|id| cells[id].wrapping_add(part(id))));
        fold((0..self.times).map(|_| once))
    }

    pub(crate) fn run(&self) -> u64 {
        let barrier = Barrier::new(self.size);
        let once = |time: usize| {
            let team =
                Team::reserve(self.size).dispatched(self.dispatches[time % self.dispatches.len()]);
            assert_eq!(team.size(), self.size);
            let (cells, parts) =
                ([Slots::new(self.size), Slots::new(self.size)], Slots::new(self.size));
            run_on(&team, |member| {
                let id = member.id as usize;
                cells[0].set(id, mix(id as u64));
                if !self.parts.is_empty() {
                    parts.add(id, self.parts[id % self.parts.len()].run());
                }
                if self.rounds > 0 {
                    barrier.wait(id);
                }
                for round in 0..self.rounds {
                    let (from, to) = (&cells[round % 2], &cells[(round + 1) % 2]);
                    to.set(id, Self::stencil(from.get(id), from.get((id + 1) % self.size), round));
                    barrier.wait(id);
                }
            });
            fold(
                cells[self.rounds % 2]
                    .values()
                    .zip(parts.values())
                    .map(|(cell, part)| cell.wrapping_add(part)),
            )
        };
        fold((0..self.times).map(once))
    }
}

/// Runs `body` on the members of `team`; the first panic reaches the caller after the join.
fn run_on<F: Fn(Member) + Sync>(team: &Team, body: F) {
    type Payload = Box<dyn std::any::Any + Send>;
    /// # Safety
    /// - `data` points to the pair below, which outlives the call.
    unsafe fn call<F: Fn(Member) + Sync>(data: *const (), member: Member) {
        // SAFETY: - `run_on` passes its own pair, which outlives the join.
        let (body, panic) = unsafe { &*data.cast::<(F, Mutex<Option<Payload>>)>() };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| body(member))) {
            panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
        }
    }
    let shared = (body, Mutex::new(None::<Payload>));
    // SAFETY: - `call::<F>` takes that pair; `F: Sync`; it does not unwind.
    unsafe { team.run(call::<F>, std::ptr::from_ref(&shared).cast()) };
    if let Some(payload) = shared.1.into_inner().unwrap_or_else(PoisonError::into_inner) {
        resume_unwind(payload);
    }
}

/// A broadcast whose members, however many, deal `length` pieces of work round robin; each runs
/// `part`, too.
#[derive(Debug)]
pub(crate) struct Share {
    length: usize,
    seed: u64,
    part: Box<Step>,
}

impl Share {
    pub(crate) fn random(random: &mut Random, budget: Budget) -> Self {
        let (length, seed) = (random.below(40), random.next());
        Self { length, seed, part: Box::new(Step::random(random, budget.inside(8))) }
    }

    pub(crate) fn part(&self) -> &Step {
        &self.part
    }

    pub(crate) fn expected(&self) -> u64 {
        fold((0..self.length).map(|i| mix(self.seed ^ i as u64)).chain([self.part.expected()]))
    }

    pub(crate) fn run(&self) -> u64 {
        let values = Slots::new(self.length);
        // One for each member that there may be: all come to the same.
        let parts = Slots::new(Budget::WHOLE.threads.max(engine::processors()));
        let members = Slots::new(1);
        nanothreads::broadcast(|member| {
            let (id, size) = (member.id as usize, member.size as usize);
            (id..self.length).step_by(size).for_each(|i| values.add(i, work(self.seed ^ i as u64)));
            parts.add(id, self.part.run());
            if id == 0 {
                members.set(0, size as u64);
            }
        });
        let part = parts.get(0);
        let found: Vec<u64> = parts.values().take(members.get(0) as usize).collect();
        assert!(found.iter().all(|&other| other == part), "members differ: {found:?} of {self:#?}");
        fold(values.values().chain([part]))
    }
}
