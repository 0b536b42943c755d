//! Settling: the target becomes what programs hold, but for processors that are too young to be
//! taken (M4).
//!
//! # Rule
//! A processor that the target takes from a living program before its hold is over stays with that
//! program until then ([`Ledger::next_deadline`]), unless that program wants less. The program that
//! is to have the processor waits. If it would hold nothing meanwhile, it is on an idle processor,
//! if there is one, or shares the processor that it waits for (L2).
//!
//! After a manager's end its programs come back to the next one, one after the other, and the first
//! has the whole machine until the second is there. What it has so is not held for it: every other
//! program would share a processor until then, and lost no processor by a decision of a policy
//! ([`Ledger::set_returning`]).

use std::collections::BTreeMap;

use policies::{AppId, Nanos};

use super::Ledger;
use super::entry::{Entry, Holding};

/// The longest time for which a processor is not taken (M4).
pub const MAX_HOLD: Nanos = 10_000_000;

/// A processor that stays with its holder although the target takes it away.
#[derive(Debug)]
struct Kept {
    /// Whose, by its place in the books.
    by: usize,
    cpu: u32,
    /// When its hold is over.
    ends: Nanos,
}

impl Ledger {
    /// No processor stays with its holder for its youth only.
    #[cfg(test)]
    pub(crate) fn is_settled(&self) -> bool {
        self.hold_ends.is_none()
    }

    /// What was settled is what the long way finds, whichever way it was settled.
    #[cfg(test)]
    pub(crate) fn is_settled_as_the_long_way_does(&mut self, now: Nanos) -> bool {
        let kept = self.kept(now);
        self.decision.unbound || self.settle_around(&kept, now).is_empty()
    }

    /// For how long a processor is not taken after its grant (M4).
    pub(super) fn hold(&self) -> Nanos {
        MAX_HOLD.min(self.quantum / 4)
    }

    /// Makes the target what programs hold, as far as rule M4 lets it.
    pub(super) fn settle(&mut self, now: Nanos) -> Vec<AppId> {
        self.note_settled();
        if self.decision.unbound {
            return self.settle_unbound(now);
        }
        let kept = self.kept(now);
        self.hold_ends = kept.iter().map(|kept| kept.ends).min();
        if kept.is_empty()
            && self.entries.iter().all(Entry::can_have_its_target)
            && !self.anybody_shares()
        {
            self.settle_on_target(now)
        } else {
            self.settle_around(&kept, now)
        }
    }

    /// Every program gets its target: the result of `settle_around` when nothing is kept and no
    /// program shares, without asking for each processor. Most settlements are of this kind, and a
    /// manager that slept for some milliseconds pays for each line of code that it runs.
    fn settle_on_target(&mut self, now: Nanos) -> Vec<AppId> {
        let unsatisfied = self.unsatisfied().count();
        let mut changes = Vec::with_capacity(self.entries.len());
        for (entry, allocation) in self.entries.iter_mut().zip(&self.decision.allocations) {
            let others_wait = unsatisfied > usize::from(entry.wants() > allocation.processors);
            entry.idle = 0;
            changes.extend(entry.hold_target(now, !others_wait));
        }
        changes
    }

    /// Every program gets its target but for what others keep, and what is idle in its serial
    /// phase.
    fn settle_around(&mut self, kept: &[Kept], now: Nanos) -> Vec<AppId> {
        let keeper = sorted(kept.iter().map(|kept| kept.cpu));
        // Read only for programs that keep what no other program gets.
        let is_serial = self.entries.iter().any(Entry::keeps_what_is_idle);
        let targets = self.entries.iter().flat_map(|entry| &entry.target).chain(&keeper).copied();
        let given = sorted(targets.filter(|_| is_serial));

        let mut holdings: Vec<(Vec<u32>, bool)> = Vec::with_capacity(self.entries.len());
        let mut kept = kept;
        for at in 0..self.entries.len() {
            let shares = self.shares(at);
            let entry = &mut self.entries[at];
            let own;
            (own, kept) = kept.split_at(kept.partition_point(|kept| kept.by <= at));
            // A program that keeps processors of its own for a while shares none yet.
            let waits_to_share = !own.is_empty() && shares;
            let room = (entry.wants() as usize).saturating_sub(own.len());
            let mut cpus: Vec<u32> = Vec::new();
            // What it holds already has a place first, so that a program that is full with kept
            // processors loses none of them to a new one. The order is the placement's: processor i
            // is for virtual processor i.
            let is_free = |cpu: &&u32| !waits_to_share && keeper.binary_search(cpu).is_err();
            let is_held = |cpu: &u32| entry.holding.cpus.contains(cpu);
            let held =
                entry.target.iter().filter(is_free).filter(|cpu| is_held(cpu)).count().min(room);
            let (mut old, mut new) = (held, room - held);
            for cpu in entry.target.iter().filter(is_free) {
                let left = if is_held(cpu) { &mut old } else { &mut new };
                if *left > 0 {
                    *left -= 1;
                    cpus.push(*cpu);
                }
            }
            cpus.extend(own.iter().map(|kept| kept.cpu));
            let shared = shares && !waits_to_share;
            entry.idle = 0;
            if entry.keeps_what_is_idle() && !shared && !entry.holding.shared {
                let used = cpus.len();
                let is_there = |cpu: &u32| self.available.cpus.iter().any(|it| it.id == *cpu);
                let idle = entry
                    .holding
                    .cpus
                    .iter()
                    .filter(|cpu| given.binary_search(cpu).is_err() && is_there(cpu));
                cpus.extend(idle);
                entry.idle = cpus.len() - used;
            }
            holdings.push((cpus, shared));
        }
        self.shelter(&mut holdings);

        let unsatisfied: Vec<usize> = self.unsatisfied().collect();
        let mut changes = Vec::new();
        for (at, (cpus, shared)) in holdings.into_iter().enumerate() {
            let others_wait =
                unsatisfied.len() > usize::from(unsatisfied.binary_search(&at).is_ok());
            let holding =
                Holding { cpus, shared, dedicated: !shared && !others_wait, unbound: None };
            changes.extend(self.entries[at].hold(now, holding));
        }
        changes
    }

    /// L1: a program that would hold nothing is, until the next settlement, on a processor that is
    /// idle until then, else on the one that it is going to have, or on any that it may use when
    /// the policy gives it none. A program that sleeps stays where it is, or else goes where the
    /// fewest are, and counts as using nothing of that processor.
    fn shelter(&mut self, holdings: &mut [(Vec<u32>, bool)]) {
        if holdings.iter().all(|(cpus, _)| !cpus.is_empty()) {
            return;
        }
        let mut users: BTreeMap<u32, usize> =
            self.available.cpus.iter().map(|cpu| (cpu.id, 0)).collect();
        holdings
            .iter()
            .flat_map(|(cpus, _)| cpus)
            .for_each(|cpu| *users.entry(*cpu).or_default() += 1);
        for (holding, entry) in
            holdings.iter_mut().zip(&mut self.entries).filter(|(it, _)| it.0.is_empty())
        {
            let may_use = |cpu: &u32| self.placement.may_use(entry.id, *cpu);
            let there: Vec<u32> =
                self.available.cpus.iter().map(|cpu| cpu.id).filter(may_use).collect();
            let is_idle = |cpu: &u32| users.get(cpu).is_none_or(|users| *users == 0);
            let own = entry.target.first().copied();
            let stays = entry
                .holding
                .cpus
                .first()
                .copied()
                .filter(|cpu| entry.sleeps() && there.contains(cpu));
            let idle = || own.filter(is_idle).or_else(|| there.iter().copied().find(is_idle));
            let fewest =
                || there.iter().copied().min_by_key(|cpu| users.get(cpu).copied().unwrap_or(0));
            let cpu =
                stays.or_else(idle).or(own).or_else(fewest).unwrap_or(self.available.cpus[0].id);
            *users.entry(cpu).or_default() += 1;
            entry.idle = usize::from(entry.sleeps());
            *holding = (vec![cpu], true);
        }
    }

    /// No program is bound: each may run everywhere, on as many processors as the policy says.
    fn settle_unbound(&mut self, now: Nanos) -> Vec<AppId> {
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

    /// Processors that the target takes away too early, by their holders in order (L3). A shared
    /// processor replaces none of a program's own.
    fn kept(&self, now: Nanos) -> Vec<Kept> {
        let mut all = Vec::new();
        if self.is_returning {
            return all;
        }
        for (by, entry) in
            self.entries.iter().enumerate().filter(|(_, entry)| !entry.holding.shared)
        {
            let target = if self.shares(by) { &[][..] } else { &entry.target[..] };
            let held = &entry.holding.cpus;
            if target.starts_with(held) {
                continue;
            }
            // A program that asks for less gives back at once.
            let stay = held.iter().filter(|cpu| target.contains(cpu)).count();
            let room = (entry.wants() as usize).saturating_sub(stay);
            let lost = held.iter().zip(&entry.since).filter(|(cpu, _)| !target.contains(cpu));
            let young = lost.map(|(cpu, since)| Kept { by, cpu: *cpu, ends: since + self.hold() });
            all.extend(young.filter(|kept| kept.ends > now).take(room));
        }
        all
    }

    /// The policy lets the program at this place share a processor.
    fn shares(&self, at: usize) -> bool {
        self.decision.allocations.get(at).is_some_and(|allocation| allocation.shared)
    }

    fn anybody_shares(&self) -> bool {
        self.decision.allocations.iter().any(|allocation| allocation.shared)
    }

    /// Programs that could use more than the decision gives them, by their places in order.
    fn unsatisfied(&self) -> impl Iterator<Item = usize> + '_ {
        let both = self.entries.iter().zip(&self.decision.allocations).enumerate();
        both.filter(|(_, (entry, it))| it.shared || it.processors < entry.wants()).map(|(at, _)| at)
    }
}

impl Entry {
    /// It keeps in its holding what it does not use and no other program gets (L5).
    fn keeps_what_is_idle(&self) -> bool {
        self.serial || self.curb.is_some()
    }

    /// It is given something, all of which it can use, and nothing beyond that stays with it (L1,
    /// L5).
    fn can_have_its_target(&self) -> bool {
        !self.keeps_what_is_idle()
            && !self.target.is_empty()
            && self.target.len() <= self.wants() as usize
    }
}

/// These processors, each once, in order.
fn sorted(cpus: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut cpus: Vec<u32> = cpus.collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

#[cfg(test)]
mod tests {
    use policies::{AppId, Cause};

    use super::super::tests::{MS, cpus, ledger};

    #[test]
    fn a_program_that_waits_for_a_young_processor_is_on_an_idle_one_meanwhile() {
        let mut ledger = ledger(3, "dss");
        for (app, request) in [(1, 1), (2, 2)] {
            ledger.arrive(AppId(app), request, 3);
        }
        ledger.decide(0, Cause::Arrival);
        assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), (vec![0], vec![1, 2]));
        ledger.arrive(AppId(3), 1, 3);
        ledger.decide(MS, Cause::Arrival);
        assert_eq!((cpus(&ledger, 2), cpus(&ledger, 3)), (vec![1, 2], vec![2]), "nothing is idle");
        // The second one is to have processor 0 for processor 2, which is too young to be taken
        // from it.
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
