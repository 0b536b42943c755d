//! Placements in which every application is at home: those of a request for a processor that the
//! application had before, and of most quanta.
//!
//! # Rule
//! Steps 1 and 2 of the placement place every application, and leave nothing to do for the others,
//! when three conditions hold: no application shares or stays inside a set; neither applications
//! nor processors came or left; and each virtual processor can be where it ran last, since its
//! application holds that processor or was the last one there. So no map of what is free and of
//! what is near is made. With the cold caches of a manager that slept for some milliseconds that
//! took 18 of the 42 us from a ring to the grant.

use super::{Machine, Placement};
use crate::decision::Decision;
use crate::snapshot::AppId;

/// Processors of a machine that are looked at in this way.
const MOST: usize = 1024;

impl Placement {
    /// Does what [`Placement::place_each`] does, when every application is at home. False, and
    /// nothing has changed, otherwise. O(P), without allocations.
    pub(super) fn place_at_home(
        &mut self,
        machine: &Machine,
        decision: &Decision,
        mut put: impl FnMut(AppId, &[u32]),
    ) -> bool {
        if self.find_everybody_at_home(machine, decision).is_none() {
            return false;
        }
        let Self { topology, tenants, .. } = self;
        for (at, allocation) in decision.allocations.iter().enumerate() {
            let tenant = &mut tenants.list[at];
            tenant.held = allocation.processors as usize;
            for id in tenant.held() {
                let cpu = topology.index_of(*id).expect("it was found before");
                tenants.last[cpu] = at;
            }
            put(tenant.app, tenant.held());
        }
        self.circles.clear();
        self.guests.clear();
        true
    }

    /// `None`: some application is not at home.
    fn find_everybody_at_home(&self, machine: &Machine, decision: &Decision) -> Option<()> {
        let Self { topology, tenants, .. } = self;
        let many = topology.cpus.len() > MOST || tenants.list.len() != decision.allocations.len();
        if decision.unbound || tenants.confined > 0 || many || !topology.is_of(machine) {
            return None;
        }
        let mut taken = [0_u64; MOST / 64];
        for (at, allocation) in decision.allocations.iter().enumerate() {
            let tenant = &tenants.list[at];
            if tenant.app != allocation.app || allocation.shared {
                return None;
            }
            let slots = tenant.slots.get(..allocation.processors as usize)?;
            for (slot, id) in slots.iter().enumerate() {
                let cpu = topology.index_of(*id)?;
                if slot >= tenant.held && tenants.last[cpu] != at {
                    return None;
                }
                let (word, bit) = (&mut taken[cpu / 64], 1 << (cpu % 64));
                if *word & bit != 0 {
                    return None;
                }
                *word |= bit;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::MachineCpu;
    use super::*;
    use crate::decision::Allocation;

    fn decision(numbers: &[Option<(bool, u32)>]) -> Decision {
        let named =
            numbers.iter().zip(0..).filter_map(|(number, app)| Some((AppId(app), (*number)?)));
        let allocations = named.map(|(app, (shared, processors))| match shared {
            true => Allocation::shared_master(app),
            false => Allocation::own(app, processors),
        });
        Decision { allocations: allocations.collect(), ..Decision::default() }
    }

    fn at_home(
        placement: &mut Placement,
        machine: &Machine,
        decision: &Decision,
    ) -> Option<Vec<(AppId, Vec<u32>)>> {
        let mut placed = Vec::new();
        placement
            .place_at_home(machine, decision, |app, cpus| placed.push((app, cpus.to_vec())))
            .then_some(placed)
    }

    fn machine(ids: impl Iterator<Item = u32>) -> Machine {
        Machine::new(ids.map(|id| MachineCpu { id, core: id / 2, llc: id / 4, node: 0 }).collect())
    }

    #[test]
    fn growing_back_to_the_old_place_is_at_home_and_finding_another_there_is_not() {
        let machine = machine(0..4);
        let mut placement = Placement::new();
        let numbers = |first, second| decision(&[Some((false, first)), Some((false, second))]);
        assert_eq!(at_home(&mut placement, &machine, &numbers(3, 1)), None, "newcomers");
        let begin = placement.place(&machine, &numbers(3, 1));
        assert_eq!(at_home(&mut placement, &machine, &numbers(3, 1)), Some(begin.clone()));
        assert!(at_home(&mut placement, &machine, &numbers(1, 1)).is_some());
        assert_eq!(at_home(&mut placement, &machine, &numbers(3, 1)), Some(begin));
        assert_eq!(
            at_home(&mut placement, &machine, &numbers(4, 0)),
            None,
            "it never had the fourth"
        );
        placement.place(&machine, &numbers(1, 3));
        assert_eq!(
            at_home(&mut placement, &machine, &numbers(3, 1)),
            None,
            "the other one was there since"
        );
    }

    proptest! {
        #[test]
        fn at_home_is_where_the_steps_find_each_program(
            steps in prop::collection::vec(
                (
                    prop::collection::vec(prop::option::weighted(0.9, (prop::bool::weighted(0.1), 0_u32..5)), 3),
                    prop::option::weighted(0.1, 0_u32..6),
                    prop::bool::ANY,
                ),
                1..30,
            ),
        ) {
            let mut placement = Placement::new();
            let mut all = Vec::new();
            for (numbers, missing, again) in steps {
                let decision = match all.last() {
                    // Often the same once more, or what was two steps ago, as programs do.
                    Some(_) if again => Decision::clone(&all[all.len().saturating_sub(2)]),
                    _ => decision(&numbers),
                };
                let machine = machine((0..6).filter(|id| Some(*id) != missing));
                let (mut quick, mut slow) = (placement.clone(), placement);
                let mut answer = Vec::new();
                slow.place_in_steps(&machine, &decision, |app, cpus: &[u32]| {
                    answer.push((app, cpus.to_vec()));
                });
                if let Some(placed) = at_home(&mut quick, &machine, &decision) {
                    prop_assert_eq!(&placed, &answer);
                    prop_assert_eq!(&quick, &slow);
                }
                placement = slow;
                all.push(decision);
            }
        }
    }
}
