//! Classes: their parts of the machine, what they keep free, and their order.

use std::collections::BTreeMap;

use policies::classes::{Demand, minima};
use policies::sim::{Job, MachineSpec, Options, Program, Span, Workload, simulate};
use policies::{
    AppId, AppView, Cause, Class, Classes, Decision, DssTs, Placement, Policy, conformance,
};

use crate::support::{all, create, machine, snapshot};

fn classes(list: &[(&str, Class)]) -> Classes {
    let by_name: BTreeMap<String, Class> =
        list.iter().map(|(name, class)| ((*name).to_owned(), class.clone())).collect();
    Classes::new(&by_name, || Box::new(DssTs::new()))
}

/// Programs with these classes ("" is none) and requests.
fn apps(list: &[(&str, u32)]) -> Vec<AppView> {
    let app = |(id, (class, request)): (u64, &(&str, u32))| AppView {
        class: Some(AppView::number_of(class)).filter(|_| !class.is_empty()),
        ..AppView::new(AppId(id), *request)
    };
    (1..).zip(list).map(app).collect()
}

fn decide(policy: &mut Classes, apps: &[AppView], processors: u32) -> Decision {
    let snapshot = snapshot(apps, processors, Cause::Arrival, true);
    let decision = policy.decide(&snapshot);
    assert_eq!(decision.check(&snapshot), Ok(()));
    decision
}

fn numbers(decision: &Decision) -> Vec<u32> {
    decision.allocations.iter().map(|it| it.processors).collect()
}

#[test]
fn minimum_maximum_weight_and_priority_bound_what_a_class_has() {
    let usual = Class::default();
    let two = |first: Class, second: Class| {
        let mut policy = classes(&[("a", first), ("b", second)]);
        numbers(&decide(&mut policy, &apps(&[("a", 16), ("b", 16)]), 16))
    };
    assert_eq!(two(usual.clone(), usual.clone()), [8, 8]);
    assert_eq!(two(Class { weight: 3.0, ..usual.clone() }, usual.clone()), [12, 4]);
    assert_eq!(two(Class { max: 5, ..usual.clone() }, usual.clone()), [5, 11]);
    assert_eq!(two(Class { min: 11, ..usual.clone() }, usual.clone()), [11, 5]);
    // A higher priority leaves the other its minimum, and its master.
    assert_eq!(two(Class { priority: 1, ..usual.clone() }, usual.clone()), [15, 1]);
    let kept = Class { min: 6, ..usual.clone() };
    assert_eq!(two(Class { priority: 1, ..usual.clone() }, kept), [10, 6]);
    assert_eq!(two(Class { priority: 1, max: 4, ..usual.clone() }, usual), [4, 12]);
}

#[test]
fn masters_of_more_programs_than_a_class_may_have_processors_share_no_others() {
    let night = || Class { max: 3, ..Class::default() };
    let used = |classes_of: &[(&str, Class)], list: &[(&str, u32)]| {
        let mut policy = classes(classes_of);
        let decision = decide(&mut policy, &apps(list), 8);
        let placed = Placement::new().place(&machine(1, 1, 8, 1), &decision);
        let mut cpus: Vec<u32> = placed.into_iter().flat_map(|(_, cpus)| cpus).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus.len()
    };
    for programs in [1, 3, 4, 7, 20] {
        let list = vec![("night", 8); programs];
        assert_eq!(used(&[("night", night())], &list), 3, "{programs} programs");
    }
    let both = [("a", Class { max: 2, ..Class::default() }), ("b", night())];
    let list = [vec![("a", 8); 9], vec![("b", 8); 9]].concat();
    assert_eq!(used(&both, &list), 5);
    // Those of no class have no maximum, and take what is left.
    let list = [vec![("night", 8); 4], vec![("", 8); 9]].concat();
    assert_eq!(used(&[("night", night())], &list), 8);
}

#[test]
fn programs_of_no_class_are_a_class_of_their_own() {
    let mut policy = classes(&[("a", Class { weight: 3.0, ..Class::default() })]);
    let decision = decide(&mut policy, &apps(&[("", 16), ("a", 16), ("unheard-of", 16)]), 16);
    assert_eq!(numbers(&decision), [2, 12, 2]);
}

#[test]
fn a_minimum_is_lent_out_and_a_reserve_is_not() {
    let minimum = Class { min: 4, ..Class::default() };
    let reserve = Class { reserve: true, ..minimum.clone() };
    let programs = apps(&[("", 16), ("quick", 1)]);
    for (class, others, free) in [(minimum, 15, 0), (reserve, 12, 3)] {
        let mut policy = classes(&[("quick", class)]);
        let decision = decide(&mut policy, &programs, 16);
        assert_eq!((numbers(&decision)[0], decision.unallocated(16)), (others, 0));
        assert_eq!(decision.reserved, free);
        // What is released does not go beyond it either.
        let mut fewer = programs.clone();
        fewer[0].request = 8;
        let snapshot = snapshot(&fewer, 16, Cause::Release, true);
        let after = policy.release(&snapshot, &decision);
        assert_eq!((after.check(&snapshot), after.reserved), (Ok(()), free));
    }
}

#[test]
fn classes_are_served_by_priority_weight_and_number_and_never_by_name() {
    let kept = |priority, weight| Class { min: 2, max: 2, reserve: true, priority, weight };
    assert!(AppView::number_of("zeta") < AppView::number_of("alpha"));
    // Of `alpha` priority and weight; then what each has.
    for (of_alpha, zeta_has, alpha_has) in [
        ((0, 1.0), 2, 1),
        ((1, 1.0), 1, 2),
        ((-1, 1.0), 2, 1),
        ((0, 3.0), 1, 2),
        ((0, 0.5), 2, 1),
        ((-1, 3.0), 2, 1),
    ] {
        // As a file may have them.
        let table = [("zeta", kept(0, 1.0)), ("alpha", kept(of_alpha.0, of_alpha.1))];
        let no_class = Class::default();
        let demands = |inhabited| {
            let named = |(name, class)| (Some(AppView::number_of(name)), class);
            let all = table.iter().map(|(name, class)| (*name, class)).map(named);
            let demand = |(number, class): (Option<u64>, _)| {
                let inhabited = inhabited || number.is_none();
                Demand { number, class, inhabited, wants: if inhabited { 16 } else { 0 } }
            };
            all.chain([(None, &no_class)]).map(demand).collect::<Vec<_>>()
        };
        let floors = Some(vec![zeta_has, alpha_has, 1]);
        // One of four is for the program of no class, whether or not the others have programs.
        let policy = || classes(&table);
        assert_eq!(minima(4, true, &demands(false)), floors);
        assert_eq!(decide(&mut policy(), &apps(&[("", 16)]), 4).reserved, 3);
        assert_eq!(minima(4, true, &demands(true)), floors);
        let list = [("", 16), ("zeta", 16), ("alpha", 16)];
        assert_eq!(numbers(&decide(&mut policy(), &apps(&list), 4)), [1, zeta_has, alpha_has]);
        assert_eq!(minima(2, true, &demands(true)), None, "more classes than processors");
    }
}

#[test]
fn no_master_that_shares_is_on_a_reserve() {
    let reserve = Class { min: 2, reserve: true, ..Class::default() };
    let mut policy = classes(&[("quick", reserve)]);
    let machine = machine(1, 1, 8, 1);
    let mut placement = Placement::new();
    let hogs = apps(&[("", 4); 20]);
    let mut used = std::collections::BTreeSet::new();
    for cause in [Cause::Arrival, Cause::Quantum, Cause::Quantum] {
        let decision = policy.decide(&snapshot(&hogs, 8, cause, true));
        let placed = placement.place(&machine, &decision);
        used.extend(placed.into_iter().flat_map(|(_, cpus)| cpus));
    }
    assert_eq!(used.len(), 6, "{used:?}");
    // The first quick program has a processor of its own at once, and one stays free.
    let mut more = hogs;
    more.push(AppView { id: AppId(99), ..apps(&[("quick", 1)])[0] });
    let decision = policy.decide(&snapshot(&more, 8, Cause::Arrival, true));
    let placed = placement.place(&machine, &decision);
    let (quick, hogs) = placed.split_last().expect("there are programs");
    let shared: std::collections::BTreeSet<u32> =
        hogs.iter().flat_map(|(_, cpus)| cpus.iter().copied()).collect();
    assert!(quick.1.len() == 1 && !shared.contains(&quick.1[0]), "{quick:?} {shared:?}");
    assert_eq!(shared.len(), 6);
    assert_eq!(decision.reserved, 1);
}

/// How many processors a class is on in a turn at most, and its part of all over some turns, with
/// programs `list`.
fn used_by_class(
    policy: &mut Classes,
    list: &[(&str, u32)],
    processors: u32,
) -> BTreeMap<String, (usize, f64)> {
    let programs = apps(list);
    let machine = machine(1, 1, processors, 1);
    let mut placement = Placement::new();
    let mut used: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    const TURNS: u32 = 60;
    for turn in 0..TURNS {
        let cause = if turn == 0 { Cause::Arrival } else { Cause::Quantum };
        let snapshot = snapshot(&programs, processors, cause, true);
        let decision = policy.decide(&snapshot);
        assert_eq!(decision.check(&snapshot), Ok(()));
        let placed = placement.place(&machine, &decision);
        let mut users: BTreeMap<u32, f64> = BTreeMap::new();
        let all = placed.iter().flat_map(|(_, cpus)| cpus);
        all.for_each(|cpu| *users.entry(*cpu).or_default() += 1.0);
        let mut now: BTreeMap<&str, std::collections::BTreeSet<u32>> = BTreeMap::new();
        for ((name, _), (_, cpus)) in list.iter().zip(&placed) {
            now.entry(name).or_default().extend(cpus);
            let (_, sum) = used.entry((*name).to_owned()).or_default();
            *sum += cpus.iter().map(|cpu| 1.0 / users[cpu]).sum::<f64>() / f64::from(TURNS);
        }
        for (name, cpus) in now {
            let (most, _) = used.entry(name.to_owned()).or_default();
            *most = cpus.len().max(*most);
        }
    }
    used
}

#[test]
fn masters_that_share_stay_on_what_their_class_has_whatever_policy_is_inside() {
    let four = Class { weight: 4.0, ..Class::default() };
    let by_name = [("a", Class::default()), ("b", four), ("c", Class::default())];
    let mut list = vec![("a", 12); 20];
    list.extend(vec![("b", 12); 13]);
    list.extend(vec![("c", 12); 5]);
    for name in ["dss-ts", "equip", "gang", "vtq-dss", "rr"] {
        let classes = by_name.clone().map(|(name, class)| (name.to_owned(), class)).into();
        let mut policy = Classes::new(&classes, move || create(name));
        let used = used_by_class(&mut policy, &list, 12);
        let parts: Vec<f64> = used.values().map(|it| it.1).collect();
        assert_eq!(parts.len(), 3);
        for (part, due) in parts.iter().zip([2.0, 8.0, 2.0]) {
            assert!((part - due).abs() < 0.05, "{name}: {parts:?}");
        }
        assert!(used["a"].0 == 2 && used["c"].0 == 2, "{name}: {used:?}");
    }
}

#[test]
fn masters_of_a_class_with_a_maximum_share_no_more_than_that() {
    let small = Class { max: 3, ..Class::default() };
    let mut policy = classes(&[("small", small), ("large", Class::default())]);
    let mut list = vec![("small", 8); 20];
    list.extend(vec![("large", 8); 20]);
    let used = used_by_class(&mut policy, &list, 16);
    assert_eq!((used["small"].0, used["large"].0), (3, 13));
}

#[test]
fn weights_of_classes_hold_among_masters_that_share() {
    let heavy = Class { weight: 3.0, ..Class::default() };
    let mut policy = classes(&[("heavy", heavy), ("light", Class::default())]);
    let mut list = vec![("heavy", 4); 20];
    list.extend(vec![("light", 4); 40]);
    let programs = apps(&list);
    let decision = decide(&mut policy, &programs, 8);
    assert_eq!(decision.circles, [0, 2, 6], "by the numbers of the classes");
    let parts = |range: std::ops::Range<usize>| {
        decision.allocations[range].iter().map(|it| u64::from(it.part)).sum::<u64>() as f64
    };
    let ratio = parts(0..20) / parts(20..60);
    assert!((ratio - 3.0).abs() < 0.01, "{ratio}");
    // More classes than processors: one processor, and the same proportion.
    let decision = decide(&mut policy, &programs, 1);
    let parts = |range: std::ops::Range<usize>| {
        decision.allocations[range].iter().map(|it| u64::from(it.part)).sum::<u64>() as f64
    };
    let ratio = parts(0..20) / parts(20..60);
    assert!((ratio - 3.0).abs() < 0.05, "{ratio}");
}

#[test]
fn every_policy_conforms_inside_classes() {
    for name in all().names() {
        let by_name: BTreeMap<String, Class> = [
            ("editor", Class { min: 3, reserve: true, priority: 2, ..Class::default() }),
            ("solver", Class { max: 9, weight: 4.0, ..Class::default() }),
            ("render", Class { min: 2, priority: -1, ..Class::default() }),
        ]
        .map(|(name, class)| (name.to_owned(), class))
        .into();
        let made = || -> Box<dyn Policy> {
            let name = name.to_owned();
            Box::new(Classes::new(&by_name, move || create(&name)))
        };
        conformance::check(made).unwrap_or_else(|violation| panic!("{name}: {violation}"));
    }
}

#[test]
fn a_quick_program_answers_at_once_among_many_in_the_simulator() {
    let quick = Program { class: Some("quick".to_owned()), ..Program::new(1, Span::from_ms(50)) };
    let hog = Program::new(4, Span::from_ms(4_000));
    let programs = [("quick", quick), ("hog", hog)].map(|(name, it)| (name.to_owned(), it)).into();
    let late = Job { arrival: Span::from_ms(500), ..Job::new("quick", 1, 1) };
    let mut work =
        Workload::new(MachineSpec::flat(4), programs, vec![Job::new("hog", 12, 1), late]);
    work.classes.insert("quick".to_owned(), Class::default());
    let answer = |work: &Workload| {
        let outcome = simulate(work, &all(), &Options::policy("dss-ts")).expect("it ends");
        let mut quick = outcome.executions.iter().filter(|it| it.program == "quick");
        quick.next().expect("it ran").response() / 1_000_000
    };
    assert_eq!(answer(&work), 50, "a class has a processor for its masters");
    let unclassed = Workload {
        programs: work
            .programs
            .iter()
            .map(|(name, it)| (name.clone(), Program { class: None, ..it.clone() }))
            .collect(),
        ..work.clone()
    };
    assert!(answer(&unclassed) > 100);
    work.programs.get_mut("quick").expect("it is there").class = Some("swift".to_owned());
    let fault = work.check(&all()).expect_err("there is no such class").to_string();
    assert_eq!(fault, "programs.quick.class: no class is called \"swift\"; there are: quick");
}
