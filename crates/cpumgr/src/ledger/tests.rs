//! Tests of the ledger: arrivals, holds, turns, and the invariants under random events.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use policies::{MachineCpu, Registry};
use proptest::prelude::*;

pub(super) const MS: Nanos = 1_000_000;

fn machine(cpus: u32) -> Machine {
    Machine::new((0..cpus).map(|id| MachineCpu { id, core: id, llc: 0, node: 0 }).collect())
}

pub(super) fn ledger(cpus: u32, policy: &str) -> Ledger {
    Ledger::new(machine(cpus), 100 * MS, Registry::with_builtin().create(policy).unwrap())
}

pub(super) fn cpus(ledger: &Ledger, app: u64) -> Vec<u32> {
    let mut cpus = ledger.holding(AppId(app)).unwrap().cpus.clone();
    cpus.sort_unstable();
    cpus
}

#[test]
fn a_program_alone_gets_what_it_asks_for_and_is_dedicated() {
    let mut ledger = ledger(4, "dss-ts");
    ledger.arrive(AppId(1), 3, 8);
    let changes = ledger.decide(0, Cause::Arrival);
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].holding.cpus.len(), 3);
    assert!(changes[0].holding.dedicated && !changes[0].holding.shared);
    assert_eq!(ledger.next_deadline(), None, "nothing changes by itself");
}

#[test]
fn a_weighted_program_has_its_share() {
    let mut ledger = ledger(8, "dss");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 8, 8);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (4, 4));
    assert!(ledger.set_weight(AppId(1), 3.0) && !ledger.set_weight(AppId(1), 3.0) && !ledger.set_weight(AppId(9), 3.0));
    ledger.decide(MAX_HOLD, Cause::Administration);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (6, 2));
    assert_eq!((ledger.weight(AppId(1)), ledger.weight(AppId(2))), (Some(3.0), Some(1.0)));
}

#[test]
fn hardware_threads_are_packed_when_that_is_asked_for() {
    let cores = |id: u32| MachineCpu { id, core: id / 2, llc: 0, node: 0 };
    let machine = Machine::new((0..8).map(cores).collect());
    for (smt, has) in [(Smt::Spread, [0, 2]), (Smt::Pack, [0, 1])] {
        let mut ledger = Ledger::new(machine.clone(), 100 * MS, Registry::with_builtin().create("equip").unwrap());
        ledger.set_smt(smt);
        ledger.arrive(AppId(1), 2, 2);
        ledger.decide(0, Cause::Arrival);
        assert_eq!(cpus(&ledger, 1), has);
    }
}

#[test]
fn a_program_that_wants_more_than_the_machine_is_dedicated_when_alone() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 9, 9);
    let changes = ledger.decide(0, Cause::Arrival);
    assert!(changes[0].holding.dedicated);
}

#[test]
fn an_arrival_takes_old_processors_at_once() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    ledger.arrive(AppId(2), 2, 2);
    let changes = ledger.decide(50 * MS, Cause::Arrival);
    assert_eq!(changes.len(), 2);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (1, 1));
    assert_ne!(cpus(&ledger, 1), cpus(&ledger, 2));
    assert!(changes.iter().all(|change| !change.holding.shared && !change.holding.dedicated));
}

#[test]
fn a_processor_that_is_passed_goes_to_the_first_who_waits_besides_the_giver() {
    let mut ledger = ledger(4, "dss-ts");
    ledger.arrive(AppId(1), 4, 4);
    ledger.arrive(AppId(2), 4, 4);
    ledger.decide(0, Cause::Arrival);
    ledger.decide(50 * MS, Cause::Quantum);
    let (given, kept) = (cpus(&ledger, 1)[0], cpus(&ledger, 1)[1]);
    assert!(ledger.pass(AppId(1), given, 51 * MS).is_none(), "nobody passes to himself");
    assert!(ledger.pass(AppId(7), given, 51 * MS).is_none(), "nobody of that name waits");
    assert!(ledger.pass(AppId(2), 9, 51 * MS).is_none(), "nobody has that processor");
    assert!(ledger.pass(AppId(2), given, 51 * MS).is_some_and(|changes| changes.len() == 2));
    assert_eq!(cpus(&ledger, 1), [kept]);
    assert!(cpus(&ledger, 2).contains(&given) && cpus(&ledger, 2).len() == 3);
    assert!(ledger.pass(AppId(2), kept, 52 * MS).is_none(), "the last one is nobody's to give");
    // As after a release: it wants all again when it says so.
    assert!(ledger.resume(AppId(1)));
    ledger.decide(80 * MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1).len(), 2);
}

#[test]
fn a_young_processor_is_taken_when_its_hold_ends() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    ledger.arrive(AppId(2), 2, 2);
    ledger.decide(3 * MS, Cause::Arrival);
    // M4: the first keeps both for 10 ms, the second's master runs beside it (L1, L2).
    assert_eq!(cpus(&ledger, 1), [0, 1]);
    assert!(ledger.holding(AppId(2)).unwrap().shared);
    assert_eq!(ledger.next_deadline(), Some(10 * MS));
    assert!(ledger.tick(9 * MS).is_empty());
    assert_eq!(ledger.tick(10 * MS).len(), 2);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (1, 1));
    assert!(!ledger.holding(AppId(2)).unwrap().shared);
}

#[test]
fn a_crowd_does_not_take_young_processors_either() {
    let mut ledger = ledger(4, "dss-ts");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    let before = (cpus(&ledger, 1), cpus(&ledger, 2));
    for app in 3..=5 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(MS, Cause::Arrival);
    // Five programs on four processors: masters are going to share, but not before the two had their time.
    assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), before);
    for app in 1..=5 {
        assert_eq!(ledger.holding(AppId(app)).unwrap().shared, app > 2, "{app}");
    }
    ledger.tick(10 * MS);
    for app in 1..=5 {
        assert!(ledger.holding(AppId(app)).unwrap().shared, "{app}");
    }
}

#[test]
fn a_short_quantum_has_a_short_hold() {
    let mut ledger = Ledger::new(machine(2), 8 * MS, Registry::with_builtin().create("dss-ts").unwrap());
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    ledger.arrive(AppId(2), 2, 2);
    ledger.decide(MS, Cause::Arrival);
    assert_eq!(ledger.next_deadline(), Some(2 * MS));
}

#[test]
fn a_program_that_asks_for_less_gives_back_at_once() {
    let mut ledger = ledger(2, "dss-ts");
    ledger.arrive(AppId(1), 2, 2);
    ledger.decide(0, Cause::Arrival);
    assert!(ledger.ask(AppId(1), 1));
    ledger.decide(MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1).len(), 1);
    assert_eq!(ledger.next_deadline(), None);
}

#[test]
fn a_program_in_a_serial_phase_keeps_what_nobody_else_gets() {
    let mut ledger = ledger(4, "equip");
    ledger.arrive(AppId(1), 4, 4);
    ledger.decide(0, Cause::Arrival);
    let held = cpus(&ledger, 1);
    ledger.set_serial(AppId(1), true);
    ledger.ask(AppId(1), 1);
    assert_eq!(ledger.decide(20 * MS, Cause::Request), []);
    // Another one comes: it gets what it wants of them, at once.
    ledger.arrive(AppId(2), 2, 2);
    ledger.decide(50 * MS, Cause::Arrival);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (2, 2));
    assert_eq!(cpus(&ledger, 1)[0], held[0]);
    // Four for 20 ms, then one.
    assert_eq!(ledger.entries[0].cpu_time, 4 * 20 * MS + 30 * MS);
    // Its region comes: what is left is there.
    ledger.set_serial(AppId(1), false);
    ledger.ask(AppId(1), 4);
    let before = cpus(&ledger, 1);
    ledger.decide(51 * MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1), before);
    // A phase that asks for less for good gives back at once.
    ledger.ask(AppId(1), 1);
    ledger.decide(52 * MS, Cause::Request);
    assert_eq!(cpus(&ledger, 1).len(), 1);
}

#[test]
fn what_is_given_back_goes_to_who_waits_and_only_that() {
    let mut ledger = ledger(6, "dss");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 6, 6);
    }
    ledger.decide(0, Cause::Arrival);
    let held = ledger.holding(AppId(1)).unwrap().cpus.clone();
    assert_eq!((held.len(), ledger.waiting()), (3, 2));
    // The middle one, and one that it does not hold.
    let foreign = cpus(&ledger, 2)[0];
    let changes = ledger.release(AppId(1), &[held[1], foreign], 50 * MS);
    assert_eq!(changes.len(), 2);
    assert_eq!(ledger.holding(AppId(1)).unwrap().cpus, [held[0], held[2]], "the others stay in their order");
    assert!(cpus(&ledger, 2).contains(&held[1]) && cpus(&ledger, 2).len() == 4);
    assert_eq!(ledger.request(AppId(1)), Some(6));
    // The same again is nothing new, at the quantum neither.
    assert!(ledger.release(AppId(1), &[held[1]], 51 * MS).is_empty());
    assert_eq!(ledger.tick(200 * MS), []);
    assert!(ledger.resume(AppId(1)) && !ledger.resume(AppId(1)));
    ledger.decide(250 * MS, Cause::Request);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (3, 3));
}

#[test]
fn the_last_processor_is_not_given_back() {
    let mut ledger = ledger(4, "dss-ts");
    ledger.arrive(AppId(1), 3, 3);
    ledger.decide(0, Cause::Arrival);
    let held = cpus(&ledger, 1);
    ledger.release(AppId(1), &held, MS);
    assert_eq!(cpus(&ledger, 1).len(), 1);
}

#[test]
fn a_program_of_another_manager_keeps_what_it_held_if_nobody_has_it() {
    let mut ledger = ledger(6, "equip");
    ledger.arrive(AppId(1), 2, 2);
    ledger.held_before(AppId(1), &[5, 3, 99, 5]);
    ledger.decide(0, Cause::Arrival);
    assert_eq!(ledger.holding(AppId(1)).unwrap().cpus, [5, 3]);
    ledger.arrive(AppId(2), 2, 2);
    ledger.held_before(AppId(2), &[3, 0]);
    ledger.decide(50 * MS, Cause::Arrival);
    assert_eq!(ledger.holding(AppId(1)).unwrap().cpus, [5, 3], "who says so first has it");
    assert!(cpus(&ledger, 2).contains(&0));
}

#[test]
fn a_policy_that_comes_later_decides_from_then_on() {
    let mut ledger = ledger(4, "equip");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 4, 4);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!((cpus(&ledger, 1).len(), cpus(&ledger, 2).len()), (2, 2));
    ledger.set_policy(Registry::with_builtin().create("batch").unwrap());
    ledger.configure("masters", &Value::Whole(2)).unwrap();
    assert!(ledger.configure("colour", &Value::Switch(true)).is_err());
    ledger.decide(50 * MS, Cause::Administration);
    assert_eq!(ledger.policy(), "batch");
    assert_eq!(ledger.parameters().iter().find(|it| it.key == "masters").unwrap().value, Value::Whole(2));
}

#[test]
fn a_shorter_quantum_ends_a_turn_that_has_begun() {
    let mut ledger = ledger(2, "dss-ts");
    for app in 1..=3 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!(ledger.next_deadline(), Some(100 * MS));
    ledger.set_quantum(8 * MS, 20 * MS);
    assert_eq!(ledger.next_deadline(), Some(28 * MS));
}

#[test]
fn reported_times_become_a_speedup_that_is_smoothed() {
    let mut ledger = ledger(4, "equip");
    ledger.arrive(AppId(1), 4, 4);
    ledger.report(AppId(1), "cg", &[(1, 1_600), (2, 1_000)], MS).unwrap();
    assert_eq!(ledger.speedup(AppId(1)).unwrap().speedup, 1.6);
    ledger.report(AppId(1), "cg", &[(1, 1_000), (2, 1_000)], 2 * MS).unwrap();
    let known = ledger.speedup(AppId(1)).unwrap();
    assert_eq!((known.processors, known.speedup, known.at), (2, 1.3, 2 * MS));
    assert!(ledger.report(AppId(1), "cg", &[(5, 10)], 3 * MS).is_err(), "the machine has four");
    assert_eq!(ledger.speedup(AppId(1)).unwrap().speedup, 1.3);
    // The next execution of the same program begins with what is known.
    assert!(ledger.leave(AppId(1)));
    ledger.arrive(AppId(2), 4, 4);
    ledger.report(AppId(2), "cg", &[(2, 1_000)], 4 * MS).unwrap();
    assert_eq!(ledger.speedup(AppId(2)).unwrap().speedup, 1.3);
}

#[test]
fn what_is_given_back_before_a_newcomer_is_decided_upon_breaks_no_rule() {
    let mut ledger = ledger(4, "batch");
    ledger.arrive(AppId(1), 4, 4);
    ledger.decide(0, Cause::Arrival);
    assert_eq!(cpus(&ledger, 1), [0, 1, 2, 3]);
    // In one pass: another one registers, and the first gives a processor back.
    ledger.arrive(AppId(2), 4, 4);
    ledger.release(AppId(1), &[3], 200 * MS);
    // By the rule of batch, and not by equal shares, which take the place of decisions that break a rule.
    assert_eq!((cpus(&ledger, 1), cpus(&ledger, 2)), (vec![0, 1, 2], vec![3]));
}

#[test]
fn programs_of_one_name_that_run_at_once_are_measured_each_by_itself() {
    let mut ledger = ledger(4, "equip");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 4, 4);
    }
    // The second has ten times as much to do: together with the first it would be impossibly fast on two processors.
    for turn in 1..4 {
        ledger.report(AppId(1), "cg", &[(1, 1_000), (2, 500)], turn * MS).unwrap();
        ledger.report(AppId(2), "cg", &[(1, 10_000), (2, 8_000)], turn * MS).unwrap();
    }
    let speedup = |ledger: &Ledger, app: u64| ledger.speedup(AppId(app)).unwrap().speedup;
    assert_eq!((speedup(&ledger, 1), speedup(&ledger, 2)), (2.0, 1.25));
    // What is remembered is what the first one measured, whoever leaves first.
    assert!(ledger.leave(AppId(2)) && ledger.leave(AppId(1)));
    ledger.arrive(AppId(3), 4, 4);
    ledger.report(AppId(3), "cg", &[(2, 500)], 5 * MS).unwrap();
    assert_eq!(speedup(&ledger, 3), 2.0);
}

#[test]
fn nothing_is_decided_upon_a_report_of_which_a_part_is_refused() {
    let mut ledger = ledger(4, "equip");
    ledger.arrive(AppId(1), 4, 4);
    // Five times as fast on two processors.
    assert!(ledger.report(AppId(1), "cg", &[(1, 1_000), (2, 200)], MS).is_err());
    assert_eq!(ledger.speedup(AppId(1)), None);
}

#[test]
fn what_a_dead_program_held_goes_to_the_others_at_once() {
    let mut ledger = ledger(2, "dss-ts");
    for app in [1, 2] {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    assert!(ledger.leave(AppId(1)) && !ledger.leave(AppId(1)));
    let changes = ledger.decide(MS, Cause::Exit);
    assert_eq!((changes.len(), cpus(&ledger, 2)), (1, vec![0, 1]));
    assert!(changes[0].holding.dedicated);
}

#[test]
fn three_programs_on_two_processors_get_the_same_over_three_quanta() {
    let mut ledger = ledger(2, "dss-ts");
    for app in 1..=3 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    let mut now = 0;
    for _ in 0..30 {
        let deadline = ledger.next_deadline().unwrap();
        assert_eq!(deadline, now + 100 * MS, "a turn each quantum");
        now = deadline;
        assert!(!ledger.tick(now).is_empty(), "the turn moves somebody");
    }
    ledger.account(now);
    let times: Vec<Nanos> = ledger.entries.iter().map(|entry| entry.cpu_time).collect();
    assert_eq!(times.iter().sum::<Nanos>(), 2 * now);
    assert!(times.iter().all(|time| time.abs_diff(2 * now / 3) <= MS), "{times:?}");
}

/// Who has processors of its own, and how many.
fn owners(ledger: &Ledger) -> Vec<(u64, usize)> {
    let own = ledger.entries.iter().filter(|entry| !entry.holding.shared);
    own.map(|entry| (entry.id.0, entry.holding.cpus.len())).collect()
}

/// Four programs on 8 processors change from `equip` to this policy in mid-quantum; then one line per turn, taken in
/// its middle, when rule M4 keeps nothing back any more.
fn turns_after_equip(policy: &str, request: u32) -> Vec<Vec<u64>> {
    let mut ledger = ledger(8, "equip");
    for app in 1..=4 {
        ledger.arrive(AppId(app), request, request);
    }
    ledger.decide(0, Cause::Arrival);
    assert_eq!(owners(&ledger), [(1, 2), (2, 2), (3, 2), (4, 2)]);
    // The first turn is what is left of the quantum: 5 ms. What it hands out is young when the second one begins.
    ledger.set_policy(Registry::with_builtin().create(policy).unwrap());
    ledger.decide(95 * MS, Cause::Administration);
    let mut turns = Vec::new();
    let mut now = 95 * MS;
    while turns.len() < 9 {
        let next = ledger.next_deadline().unwrap();
        if next - now > 50 * MS {
            let own = owners(&ledger);
            assert_eq!(own.iter().map(|(_, number)| number).sum::<usize>(), 7, "all but the masters' one: {own:?}");
            turns.push(own.into_iter().map(|(app, _)| app).collect());
        }
        now = next;
        ledger.tick(now);
        check(&ledger);
    }
    turns
}

#[test]
fn windows_slide_in_order_from_the_second_turn_on() {
    // 1.5 x 8 = 12: two requests of 5 are 10, three are 15. The turn of (1, 2) was the short one.
    let gangs = turns_after_equip("sw-dss", 5);
    assert!(gangs.chunks_exact(2).all(|pair| *pair == [[3, 4], [1, 2]]), "{gangs:?}");
    let windows = turns_after_equip("ssw-dss", 5);
    assert!(windows.chunks_exact(4).all(|round| *round == [[2, 3], [3, 4], [1, 4], [1, 2]]), "{windows:?}");
    // Three requests of 4 are 12, no more than 1.5 times the machine, although the masters of others have one of it.
    let windows = turns_after_equip("ssw-dss", 4);
    assert!(windows.chunks_exact(4).all(|round| *round == [[2, 3, 4], [1, 3, 4], [1, 2, 4], [1, 2, 3]]), "{windows:?}");
}

#[test]
fn without_programs_there_is_no_deadline() {
    let mut ledger = ledger(2, "dss-ts");
    for app in 1..=3 {
        ledger.arrive(AppId(app), 2, 2);
    }
    ledger.decide(0, Cause::Arrival);
    for app in 1..=3 {
        ledger.leave(AppId(app));
    }
    assert!(ledger.decide(MS, Cause::Exit).is_empty());
    assert_eq!(ledger.next_deadline(), None);
}

#[derive(Clone, Debug)]
enum Event {
    Arrive { request: u32, max: u32, within: Option<BTreeSet<u32>> },
    Leave { which: usize },
    Ask { which: usize, request: u32 },
    LeaveToOthers { cpus: Vec<u32> },
    Wait { ns: Nanos },
}

fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        (0..9_u32, 0..9_u32, prop::option::weighted(0.4, prop::collection::btree_set(0..6_u32, 1..4)))
            .prop_map(|(request, max, within)| Event::Arrive { request, max, within }),
        any::<usize>().prop_map(|which| Event::Leave { which }),
        (any::<usize>(), 0..9_u32).prop_map(|(which, request)| Event::Ask { which, request }),
        prop::collection::vec(0..6_u32, 0..4).prop_map(|cpus| Event::LeaveToOthers { cpus }),
        (0..30 * MS).prop_map(|ns| Event::Wait { ns }),
    ]
}

/// L1, L2, L6 and L7, and that nobody has more than it wants.
fn check(ledger: &Ledger) {
    let mut owner: BTreeMap<u32, AppId> = BTreeMap::new();
    for entry in &ledger.entries {
        let holding = &entry.holding;
        assert!(!holding.cpus.is_empty(), "L1: {} holds nothing", entry.id);
        assert!(holding.cpus.len() as u32 <= entry.view().wants(), "{} has more than it wants", entry.id);
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
                Event::Arrive { request, max, within } => {
                    next += 1;
                    ledger.arrive(AppId(next), request, max);
                    if let Some(within) = within {
                        ledger.confine(AppId(next), &within);
                    }
                    Some(Cause::Arrival)
                }
                Event::Leave { which } => pick(which).filter(|app| ledger.leave(*app)).map(|_| Cause::Exit),
                Event::Ask { which, request } => {
                    pick(which).filter(|app| ledger.ask(*app, request)).map(|_| Cause::Request)
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
            // L3: a young processor of its own was kept, unless its program wants less now or shares (L2).
            for entry in &ledger.entries {
                let Some((before, since)) = held.get(&entry.id) else { continue };
                let lost: Vec<u32> =
                    before.cpus.iter().filter(|cpu| !entry.holding.cpus.contains(cpu)).copied().collect();
                let young = lost.iter().any(|cpu| since[cpu] + ledger.hold() > now);
                if !before.shared && young {
                    prop_assert_eq!(entry.holding.cpus.len() as u32, entry.view().wants(), "L3: {}", entry.id);
                }
            }
        }
    }
}
