//! The moves that a decision brings: which programs get other processors, and what their cold
//! caches cost them.

use std::collections::BTreeMap;

use super::super::instance::{Instance, NEVER, Place};
use super::Engine;
use crate::placement::Machine;
use crate::snapshot::{AppId, Nanos};

/// What a processor costs that lies under a cache of which the program has another processor,
/// against a far one.
const NEAR: f64 = 0.25;

impl Engine<'_> {
    /// Programs learn when their turns come.
    pub(super) fn announce_turns(&mut self) {
        let quantum = self.workload.manager.quantum.0;
        let ends = if self.quantum_ends == NEVER { self.now + quantum } else { self.quantum_ends };
        for (instance, it) in self.running.iter_mut().zip(&self.decision.allocations) {
            let quanta = u64::from(it.turn).saturating_sub(1);
            let comes = ends.saturating_add(quantum.saturating_mul(quanta));
            instance.recess.comes = (it.turn > 0).then_some(comes);
        }
    }

    /// Programs are to have what was decided.
    pub(super) fn follow(&mut self) {
        self.targets = self.placement.place(&self.machine, &self.decision);
        self.settle();
    }

    /// Programs get what was decided, but for processors that others keep because they are too
    /// young to be taken. Those follow when their hold is over.
    pub(super) fn settle(&mut self) {
        let placed = self.kept_from(self.targets.clone());
        let holds = self.workload.manager.hold.0 > 0;
        let mut sharers: BTreeMap<u32, u32> = BTreeMap::new();
        for ((_, cpus), allocation) in placed.iter().zip(&self.decision.allocations) {
            if allocation.shared {
                cpus.iter().for_each(|&cpu| *sharers.entry(cpu).or_insert(0) += 1);
            }
        }
        for ((instance, (_, cpus)), allocation) in
            self.running.iter_mut().zip(placed).zip(&self.decision.allocations)
        {
            if instance.allocated != allocation.processors {
                self.outcome.reallocations += 1;
                instance.allocated = allocation.processors;
            }
            if self.decision.unbound {
                (instance.place, instance.cpus) = (Place::Unbound, Vec::new());
                continue;
            }
            let refill = instance.program.refill.ns();
            let cold = coldness(&self.machine, &self.used_by, instance, &cpus);
            let moved =
                instance.was_on.iter().zip(&cpus).filter(|(before, now)| before != now).count();
            self.outcome.migrations += moved as u64;
            let stall = (refill * cold).round() as Nanos;
            if stall > 0 {
                instance.stalled_until = instance.stalled_until.max(self.now + stall);
            }
            for (vp, &cpu) in cpus.iter().enumerate() {
                if holds && !instance.cpus.contains(&cpu) {
                    self.since.insert(cpu, self.now);
                }
                self.used_by.insert(cpu, instance.id);
                match instance.was_on.get_mut(vp) {
                    Some(slot) => *slot = cpu,
                    None => instance.was_on.push(cpu),
                }
            }
            let shared = sharers.get(cpus.first().unwrap_or(&u32::MAX)).copied().unwrap_or(0);
            instance.place = match (allocation.shared, cpus.len()) {
                (_, 0) => Place::Nowhere,
                // How many of them use it is found when speeds are computed.
                (true, 1) if shared > 0 => Place::Shared(1.0 / f64::from(shared)),
                _ => Place::Own,
            };
            instance.cpus = cpus;
        }
    }

    /// The targets, but for processors whose hold is not over: the programs that have them alone
    /// keep them, as far as they want them, and those that are to have them wait.
    fn kept_from(&mut self, mut targets: Vec<(AppId, Vec<u32>)>) -> Vec<(AppId, Vec<u32>)> {
        self.hold_ends = NEVER;
        let hold = self.workload.manager.hold.0;
        if hold == 0 || self.decision.unbound {
            return targets;
        }
        let mut kept: Vec<(usize, u32)> = Vec::new();
        for (at, instance) in self.running.iter().enumerate() {
            let Place::Own = instance.place else { continue };
            let mut room = (instance.view().wants() as usize).saturating_sub(targets[at].1.len());
            for &cpu in instance.cpus.iter().filter(|cpu| !targets[at].1.contains(cpu)) {
                let ends = self.since.get(&cpu).map_or(0, |since| since + hold);
                let is_wanted = targets.iter().any(|(_, cpus)| cpus.contains(&cpu));
                if ends > self.now && is_wanted && room > 0 {
                    room -= 1;
                    kept.push((at, cpu));
                    self.hold_ends = self.hold_ends.min(ends);
                }
            }
        }
        for (_, cpu) in &kept {
            targets.iter_mut().for_each(|(_, cpus)| cpus.retain(|it| it != cpu));
        }
        for (at, cpu) in kept {
            targets[at].1.push(cpu);
        }
        targets
    }
}

/// How much of its refill time a program pays when it moves from what it has to `cpus`; 0 to 1.
fn coldness(
    machine: &Machine,
    used_by: &BTreeMap<u32, AppId>,
    instance: &Instance<'_>,
    cpus: &[u32],
) -> f64 {
    if instance.was_on.is_empty()
        || instance.program.refill.0 == 0
        || instance.cpus == cpus
        || cpus.is_empty()
    {
        return 0.0;
    }
    let cache = |id: u32| machine.cpus.get(id as usize).map(|cpu| cpu.llc);
    let fresh = |cpu: &&u32| used_by.get(cpu) != Some(&instance.id);
    let mut warm: Vec<u32> =
        cpus.iter().filter(|cpu| !fresh(cpu)).filter_map(|&cpu| cache(cpu)).collect();
    warm.sort_unstable();
    let cost = |cpu: &u32| match cache(*cpu) {
        Some(llc) if warm.binary_search(&llc).is_ok() => NEAR,
        _ => 1.0,
    };
    let gained = cpus.iter().filter(fresh).map(cost).fold(0.0, f64::max);
    let lost = instance.cpus.iter().filter(|cpu| !cpus.contains(cpu)).count();
    let lost = lost as f64 / (instance.cpus.len() as f64).max(1.0);
    gained.max(lost)
}
