//! How fast each program goes, given where all of them are.

use std::collections::BTreeMap;

use super::super::hardware::Working;
use super::super::instance::{Instance, Place};
use super::super::native::Load;
use super::Engine;

/// How often presences are computed anew until they agree with each other.
const ROUNDS: u32 = 64;
/// A change of presence that is none.
const AGREED: f64 = 1e-9;

impl Engine<'_> {
    /// Computes all speeds anew.
    pub(super) fn plan(&mut self) {
        let now = self.now;
        self.share_out();
        let quantum = self.workload.manager.quantum.0;
        for instance in &mut self.running {
            instance.settle(now, quantum);
            if instance.homes.is_empty() && matches!(instance.place, Place::Own | Place::Shared(_))
            {
                let mut homes: Vec<u32> =
                    instance.cpus.iter().map(|cpu| self.hardware.node(*cpu)).collect();
                homes.sort_unstable();
                homes.dedup();
                instance.homes = homes;
            }
        }
        self.share_out();
        let busy: f64 = self.running.iter().map(|instance| instance.busy(now)).sum();
        let busy = (busy.round() as u32).min(self.workload.machine.processors);
        let loads = self.loads(busy);
        let working = |it: &Instance<'_>| it.runnable(now);
        let unbound: Vec<u32> = self.running.iter().map(working).collect();
        let programs: Vec<Working<'_>> = self
            .running
            .iter()
            .zip(unbound)
            .map(|(instance, unbound)| Working {
                cpus: instance.works_on(),
                part: if let Place::Shared(part) = instance.place { part } else { 1.0 },
                unbound,
                dynamic: instance.program.dynamic,
                memory: instance.program.memory,
                homes: &instance.homes,
            })
            .collect();
        let speeds = self.hardware.speeds(&programs);
        let native = &self.workload.native;
        for (at, instance) in self.running.iter_mut().enumerate() {
            let hardware = speeds.as_ref().map_or(1.0, |speeds| speeds[at]);
            instance.look(now, native, loads[at].all);
            instance.plan(now, native, loads[at], busy, hardware);
            if let Some(timeline) = &mut self.outcome.timeline {
                instance.note(now, timeline);
            }
        }
    }

    /// Masters that share a processor have equal parts of it, but for those that wait for their
    /// turn: these use nothing. The kernel gives slices in turn, each with a cold cache.
    fn share_out(&mut self) {
        let mut users: BTreeMap<u32, u32> = BTreeMap::new();
        let shares = |it: &&Instance<'_>| matches!(it.place, Place::Shared(_));
        for instance in self.running.iter().filter(shares).filter(|it| !it.waits_for_turn()) {
            instance.cpus.iter().for_each(|cpu| *users.entry(*cpu).or_insert(0) += 1);
        }
        let slice = self.workload.native.slice.ns();
        for instance in &mut self.running {
            let Place::Shared(_) = instance.place else { continue };
            let there = instance.cpus.first().and_then(|cpu| users.get(cpu)).copied().unwrap_or(0);
            // One that waits would be one more.
            let sharers = there + u32::from(instance.waits_for_turn());
            let refill = instance.program.refill.ns();
            let refilled = if sharers > 1 { 1.0 + refill / slice } else { 1.0 };
            instance.place = Place::Shared(1.0 / f64::from(sharers.max(1)) / refilled);
        }
    }

    /// Runnable threads per processor while those of each program are. A program that leaves
    /// processors idle meets the others' threads only as often as they are there: its presence, and
    /// theirs, follow from each other and are computed in turn, from the shortest times on.
    fn loads(&mut self, busy: u32) -> Vec<Load> {
        let now = self.now;
        let threads: Vec<f64> =
            self.running.iter().map(|instance| f64::from(instance.runnable(now))).collect();
        let processors = f64::from(self.workload.machine.processors);
        let all: f64 = threads.iter().sum();
        let mut presences = vec![1.0; threads.len()];
        let of = |others: f64, own: f64| {
            let others = others.max(0.0) / processors;
            Load { all: others + own / processors, others }
        };
        let mut loads: Vec<Load> = threads.iter().map(|own| of(all - own, *own)).collect();
        if self.running.iter().any(|instance| instance.program.native.is_some()) && all > 0.0 {
            presences = self
                .running
                .iter()
                .map(|instance| instance.present(&self.workload.native, of(0.0, 0.0), busy))
                .collect();
            for _ in 0..ROUNDS {
                let all: f64 = threads.iter().zip(&presences).map(|(n, there)| n * there).sum();
                let mut change = 0.0_f64;
                for (at, load) in loads.iter_mut().enumerate() {
                    *load = of(all - threads[at] * presences[at], threads[at]);
                }
                for (at, instance) in self.running.iter().enumerate() {
                    let present = instance.present(&self.workload.native, loads[at], busy);
                    change = change.max((present - presences[at]).abs());
                    presences[at] = present;
                }
                if change < AGREED {
                    break;
                }
            }
        }
        for (instance, presence) in self.running.iter_mut().zip(presences) {
            instance.set_presence(presence);
        }
        loads
    }
}
