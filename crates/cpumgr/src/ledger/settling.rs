//! Settling: the target becomes what programs hold, but for processors that are too young to be taken (M4).
//!
//! # Rule
//! A processor that the target takes from a living program before its hold is over stays with it until then
//! ([`Ledger::next_deadline`]), unless that program wants less. Who is to have it waits; who would hold nothing
//! meanwhile is on an idle processor, if there is one, or shares it (L2).

use std::collections::{BTreeMap, BTreeSet};

use policies::{AppId, Nanos};

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
        // Asked for by programs in a serial phase only.
        let is_serial = self.entries.iter().any(|entry| entry.serial);
        let given = self.target.values().flatten().chain(&keeper).filter(|_| is_serial);
        let given: BTreeSet<u32> = given.copied().collect();
        let unsatisfied: BTreeSet<AppId> = self.unsatisfied();

        let mut holdings: Vec<(Vec<u32>, bool)> = Vec::with_capacity(self.entries.len());
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
            let shared = sharers.contains(&entry.id) && !waits_to_share;
            entry.idle = 0;
            if entry.serial && !shared && !entry.holding.shared {
                let own = cpus.len();
                let is_there = |cpu: &u32| self.available.cpus.iter().any(|it| it.id == *cpu);
                cpus.extend(entry.holding.cpus.iter().filter(|cpu| !given.contains(cpu) && is_there(cpu)));
                entry.idle = cpus.len() - own;
            }
            holdings.push((cpus, shared));
        }
        self.shelter(&mut holdings);

        let mut changes = Vec::new();
        for (entry, (cpus, shared)) in self.entries.iter_mut().zip(holdings) {
            let others_wait = unsatisfied.len() > usize::from(unsatisfied.contains(&entry.id));
            changes
                .extend(entry.hold(now, Holding { cpus, shared, dedicated: !shared && !others_wait, unbound: None }));
        }
        changes
    }

    /// L1: who would hold nothing is, until the next settlement, on a processor that is idle until then, else on the one that
    /// it is going to have, or on any when the policy gives it none.
    fn shelter(&self, holdings: &mut [(Vec<u32>, bool)]) {
        for at in 0..holdings.len() {
            if !holdings[at].0.is_empty() {
                continue;
            }
            let app = self.entries[at].id;
            let is_idle = |cpu: &u32| !holdings.iter().any(|(cpus, _)| cpus.contains(cpu));
            let there = self.available.cpus.iter().map(|cpu| cpu.id);
            let mut idle = there.filter(|cpu| self.placement.may_use(app, *cpu)).filter(is_idle);
            let own = self.target.get(&app).and_then(|target| target.first()).copied();
            let cpu = own.filter(is_idle).or_else(|| idle.next()).or(own).unwrap_or(self.available.cpus[0].id);
            holdings[at] = (vec![cpu], true);
        }
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
        // Both are in order of arrival; who left since is in one of them only.
        let mut entries = self.entries.as_slice();
        let wanting = self.decision.allocations.iter().filter(|a| {
            let Some(at) = entries.iter().position(|entry| entry.id == a.app) else { return false };
            let view = entries[at].view();
            entries = &entries[at + 1..];
            a.wants_more(&view)
        });
        wanting.map(|a| a.app).collect()
    }
}

#[cfg(test)]
mod tests {
    use policies::{AppId, Cause};

    use super::super::tests::{MS, cpus, ledger};

    #[test]
    fn who_waits_for_a_young_processor_is_on_an_idle_one_meanwhile() {
        let mut ledger = ledger(3, "dss");
        for (app, request) in [(1, 1), (2, 2)] {
            ledger.arrive(AppId(app), request, 3);
        }
        ledger.decide(0, Cause::Arrival);
        assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), (vec![0], vec![1, 2]));
        ledger.arrive(AppId(3), 1, 3);
        ledger.decide(MS, Cause::Arrival);
        assert_eq!((cpus(&ledger, 2), cpus(&ledger, 3)), (vec![1, 2], vec![2]), "nothing is idle");
        // The second one is to have processor 0 for processor 2, which is too young to be taken from it.
        ledger.leave(AppId(1));
        ledger.decide(2 * MS, Cause::Exit);
        assert_eq!((cpus(&ledger, 2), cpus(&ledger, 3)), (vec![1, 2], vec![0]));
        // Not its own: it gives way as soon as the hold is over.
        assert!(ledger.holding(AppId(3)).unwrap().shared);
        let over = ledger.next_deadline().unwrap();
        ledger.tick(over);
        assert_eq!((over, cpus(&ledger, 2), cpus(&ledger, 3)), (10 * MS, vec![0, 1], vec![2]));
        assert!(!ledger.holding(AppId(3)).unwrap().shared);
    }
}
