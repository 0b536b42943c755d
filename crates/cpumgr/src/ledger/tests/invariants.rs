//! The invariants under random events.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Arrive { request: u32, max: u32, user: u32, within: Option<BTreeSet<u32>> },
    Leave { which: usize },
    Ask { which: usize, request: u32 },
    Curb { which: usize, curb: Option<Curb> },
    LeaveToOthers { cpus: Vec<u32> },
    Wait { ns: Nanos },
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        (
            0..9_u32,
            0..9_u32,
            0..6_u32,
            prop::option::weighted(0.4, prop::collection::btree_set(0..6_u32, 1..4))
        )
            .prop_map(
                // Half of the users are one.
                |(request, max, user, within)| Event::Arrive {
                    request,
                    max,
                    user: user.saturating_sub(3),
                    within
                }
            ),
        any::<usize>().prop_map(|which| Event::Leave { which }),
        (any::<usize>(), 0..9_u32).prop_map(|(which, request)| Event::Ask { which, request }),
        (any::<usize>(), prop::option::of((0..4_u32, any::<bool>()))).prop_map(|(which, curb)| {
            Event::Curb { which, curb: curb.map(|(processors, firm)| Curb { processors, firm }) }
        }),
        prop::collection::vec(0..6_u32, 0..4).prop_map(|cpus| Event::LeaveToOthers { cpus }),
        (0..30 * MS).prop_map(|ns| Event::Wait { ns }),
    ]
}

/// L1, L2, L6 and L7, and that no program has more than it wants.
pub(super) fn check(ledger: &Ledger) {
    let mut owner: BTreeMap<u32, AppId> = BTreeMap::new();
    for entry in &ledger.entries {
        let holding = &entry.holding;
        assert!(!holding.cpus.is_empty(), "L1: {} holds nothing", entry.id);
        assert!(
            entry.used().len() as u32 <= entry.view().wants(),
            "{} has more than it wants",
            entry.id
        );
        assert!(!entry.sleeps() || entry.used().is_empty(), "L9: {} has a processor", entry.id);
        assert!(
            !entry.sleeps() || !ledger.decision.work_list.contains(&entry.id),
            "L9: {} waits",
            entry.id
        );
        assert!(!(holding.shared && (holding.dedicated || holding.cpus.len() != 1)));
        let set: BTreeSet<u32> = holding.cpus.iter().copied().collect();
        assert_eq!(set.len(), holding.cpus.len(), "a processor twice");
        let inside = set.iter().all(|cpu| ledger.placement.may_use(entry.id, *cpu));
        assert!(inside || holding.unbound.is_some(), "L6: {} is on {set:?}", entry.id);
        let since = since(entry);
        let is_young = |cpu: u32| since[&cpu] + ledger.hold() > ledger.accounted_until;
        let stays = ledger.left_to_others().find(|cpu| set.contains(cpu) && !is_young(*cpu));
        assert_eq!(stays, None, "L7: {} is on {set:?}", entry.id);
        for cpu in set.into_iter().filter(|_| !holding.shared) {
            assert_eq!(owner.insert(cpu, entry.id), None, "L2: processor {cpu} has two owners");
        }
    }
}

fn since(entry: &Entry) -> BTreeMap<u32, Nanos> {
    assert_eq!(entry.since.len(), entry.holding.cpus.len());
    entry.holding.cpus.iter().copied().zip(entry.since.iter().copied()).collect()
}

/// Users take turns with the whole machine (`batch`), and one of them has a confined program.
#[test]
fn a_program_that_is_confined_to_a_processor_of_another_user_shares_it_and_takes_none_twice() {
    let mut ledger = ledger(2, "batch");
    for (id, user, within) in [(1, 0, None), (2, 1, Some([0])), (3, 2, None), (4, 0, None)] {
        ledger.arrive(AppId(id), 0, 0);
        ledger.set_user(AppId(id), user);
        if let Some(within) = within {
            ledger.confine(AppId(id), &within.into_iter().collect());
        }
        ledger.decide(0, Cause::Arrival);
        check(&ledger);
    }
}

proptest! {
    #[test]
    fn the_invariants_hold_whatever_happens(
        cpus in 1..6_u32,
        policy in prop::sample::select(Registry::with_builtin().names()),
        events in prop::collection::vec(events(), 1..60),
    ) {
        let mut ledger = ledger(cpus, policy);
        let mut now = 0;
        let mut next = 0;
        for event in events {
            let held: BTreeMap<AppId, (Holding, BTreeMap<u32, Nanos>)> =
                ledger.entries.iter().map(|entry| (entry.id, (entry.holding.clone(), since(entry)))).collect();
            let pick = |which: usize| ledger.entries.get(which % ledger.entries.len().max(1)).map(|entry| entry.id);
            let cause = match event {
                Event::Arrive { request, max, user, within } => {
                    next += 1;
                    ledger.arrive(AppId(next), request, max);
                    ledger.set_user(AppId(next), user);
                    if let Some(within) = within {
                        ledger.confine(AppId(next), &within);
                    }
                    Some(Cause::Arrival)
                }
                Event::Leave { which } => pick(which).filter(|app| ledger.leave(*app)).map(|_| Cause::Exit),
                Event::Ask { which, request } => {
                    pick(which).filter(|app| ledger.ask(*app, request)).map(|_| Cause::Request)
                }
                Event::Curb { which, curb } => {
                    pick(which).filter(|app| ledger.curb(*app, curb)).map(|_| Cause::Request)
                }
                Event::LeaveToOthers { cpus } => ledger.leave_to_others(cpus).then_some(Cause::Administration),
                Event::Wait { ns } => {
                    now += ns;
                    None
                }
            };
            match cause {
                Some(cause) => ledger.decide(now, cause),
                None => ledger.tick(now),
            };
            check(&ledger);
            prop_assert!(ledger.is_settled_as_the_long_way_does(now));
            // L3: a young processor of its own was kept, unless its program wants less now or
            //     shares (L2).
            for entry in &ledger.entries {
                let Some((before, since)) = held.get(&entry.id) else { continue };
                let lost: Vec<u32> =
                    before.cpus.iter().filter(|cpu| !entry.holding.cpus.contains(cpu)).copied().collect();
                let young = lost.iter().any(|cpu| since[cpu] + ledger.hold() > now);
                if !before.shared && young {
                    prop_assert_eq!(entry.used().len() as u32, entry.wants(), "L3: {}", entry.id);
                }
            }
        }
    }
}
