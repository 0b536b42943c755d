//! Settling: the target becomes what programs hold, but for processors that are too young to be taken (M4).
//!
//! # Rule
//! A processor that the target takes from a living program before its hold is over stays with it until then
//! ([`Ledger::next_deadline`]), unless that program wants less. Who is to have it waits; who would hold nothing
//! meanwhile shares it (L2).

use std::collections::{BTreeMap, BTreeSet};

use policies::{AppId, AppView, Nanos};

use super::{Change, Holding, Ledger};

/// The longest time for which a processor is not taken (M4).
pub const MAX_HOLD: Nanos = 10_000_000;

impl Ledger {
    /// No processor stays with its holder for its youth only.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.hold_ends.is_none()
    }

    /// For how long a processor is not taken after its grant (M4).
    pub(super) fn hold(&self) -> Nanos {
        MAX_HOLD.min(self.quantum / 4)
    }

    /// Makes the target what programs hold, as far as rule M4 lets it.
    pub(super) fn settle(&mut self, now: Nanos) -> Vec<Change> {
        self.note_settled();
        if self.decision.unbound {
            return self.settle_unbound(now);
        }
        let sharers: BTreeSet<AppId> = self.decision.allocations.iter().filter(|a| a.shared).map(|a| a.app).collect();
        let kept = self.kept(now, &sharers);
        self.hold_ends = kept.values().flat_map(|kept| kept.values()).copied().min();
        let keeper: BTreeSet<u32> = kept.values().flat_map(|kept| kept.keys()).copied().collect();
        let given: BTreeSet<u32> = self.target.values().flatten().chain(&keeper).copied().collect();
        let unsatisfied: BTreeSet<AppId> = self.unsatisfied();

        let mut changes = Vec::new();
        for entry in &mut self.entries {
            let target = self.target.get(&entry.id).map_or(&[][..], Vec::as_slice);
            let kept = kept.get(&entry.id);
            // Who keeps processors of its own for a while shares none yet.
            let waits_to_share = kept.is_some() && sharers.contains(&entry.id);
            let room = (entry.view().wants() as usize).saturating_sub(kept.map_or(0, BTreeMap::len));
            let mut cpus: Vec<u32> = Vec::new();
            // What it holds already has a place first, so that a program that is full with kept processors loses none of
            // them to a new one. The order is the placement's: processor i is for virtual processor i.
            let free = || target.iter().filter(|cpu| !waits_to_share && !keeper.contains(cpu));
            let is_held = |cpu: &u32| entry.since.contains_key(cpu);
            let held = free().filter(|cpu| is_held(cpu)).count().min(room);
            let (mut old, mut new) = (held, room - held);
            for cpu in free() {
                let left = if is_held(cpu) { &mut old } else { &mut new };
                if *left > 0 {
                    *left -= 1;
                    cpus.push(*cpu);
                }
            }
            cpus.extend(kept.into_iter().flat_map(BTreeMap::keys));
            let mut shared = sharers.contains(&entry.id) && !waits_to_share;
            entry.idle = 0;
            if entry.serial && !shared && !entry.holding.shared {
                let own = cpus.len();
                let is_there = |cpu: &u32| self.available.cpus.iter().any(|it| it.id == *cpu);
                cpus.extend(entry.holding.cpus.iter().filter(|cpu| !given.contains(cpu) && is_there(cpu)));
                entry.idle = cpus.len() - own;
            }
            if cpus.is_empty() {
                // L1: on the processor that it is going to have, or on any when the policy gives it none.
                cpus.push(target.first().copied().unwrap_or(self.available.cpus[0].id));
                shared = true;
            }
            let others_wait = unsatisfied.len() > usize::from(unsatisfied.contains(&entry.id));
            changes
                .extend(entry.hold(now, Holding { cpus, shared, dedicated: !shared && !others_wait, unbound: None }));
        }
        changes
    }

    /// Nobody is bound: everybody may run everywhere, on as many processors as the policy says.
    fn settle_unbound(&mut self, now: Nanos) -> Vec<Change> {
        self.hold_ends = None;
        self.entries.iter_mut().for_each(|entry| entry.idle = 0);
        let cpus: Vec<u32> = self.available.cpus.iter().map(|cpu| cpu.id).collect();
        let alone = self.entries.len() == 1;
        let entries = self.entries.iter_mut().zip(&self.decision.allocations);
        let changes = entries.filter_map(|(entry, allocation)| {
            let (cpus, unbound) = (cpus.clone(), Some(allocation.processors));
            entry.hold(now, Holding { cpus, shared: !alone, dedicated: alone, unbound })
        });
        changes.collect()
    }

    /// Processors that the target takes away too early, and when each hold ends (L3). A shared processor replaces none
    /// of a program's own.
    fn kept(&self, now: Nanos, sharers: &BTreeSet<AppId>) -> BTreeMap<AppId, BTreeMap<u32, Nanos>> {
        let mut all = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| !entry.holding.shared) {
            let target = self.target.get(&entry.id).filter(|_| !sharers.contains(&entry.id));
            let target = target.map_or(&[][..], Vec::as_slice);
            // Whoever asks for less gives back at once.
            let stay = entry.holding.cpus.iter().filter(|cpu| target.contains(cpu)).count();
            let room = (entry.view().wants() as usize).saturating_sub(stay);
            let young = entry.holding.cpus.iter().filter(|cpu| !target.contains(cpu)).filter_map(|cpu| {
                let end = entry.since.get(cpu)? + self.hold();
                (end > now).then_some((*cpu, end))
            });
            let kept: BTreeMap<u32, Nanos> = young.take(room).collect();
            if !kept.is_empty() {
                all.insert(entry.id, kept);
            }
        }
        all
    }

    /// Programs that could use more than the decision gives them.
    fn unsatisfied(&self) -> BTreeSet<AppId> {
        let views: BTreeMap<AppId, AppView> = self.entries.iter().map(|entry| (entry.id, entry.view())).collect();
        let wanting = |a: &&policies::Allocation| views.get(&a.app).is_some_and(|view| a.wants_more(view));
        self.decision.allocations.iter().filter(wanting).map(|a| a.app).collect()
    }
}
