//! The simulator: small scenarios worked out by hand, and what holds for any workload and policy.

use std::collections::BTreeMap;

use policies::sim::{
    Activity, Curve, Job, MachineSpec, Native, Options, Outcome, Pattern, Phase, Program, SimError,
    Span, Switch, Timeline, Waits, Workload, simulate,
};
use policies::{AppView, Decision, Nanos, Policy, Registry, Smt, Snapshot, Value};
use proptest::prelude::*;

use crate::support::all;

pub(crate) const MS: Nanos = 1_000_000;

pub(crate) fn workload(processors: u32, programs: &[(&str, Program)], jobs: Vec<Job>) -> Workload {
    let programs =
        programs.iter().map(|(name, program)| ((*name).to_owned(), program.clone())).collect();
    Workload::new(MachineSpec::flat(processors), programs, jobs)
}

pub(crate) fn run(workload: &Workload, policy: &str) -> Outcome {
    simulate(workload, &all(), &Options { timeline: true, ..Options::policy(policy) })
        .expect("it can be simulated")
}

/// When each execution ended, in ms, in order of program and copy.
pub(crate) fn ends(outcome: &Outcome) -> Vec<Nanos> {
    let mut list: Vec<_> = outcome
        .executions
        .iter()
        .map(|e| (&e.program, e.copy, e.repetition, e.ended / MS))
        .collect();
    list.sort();
    list.into_iter().map(|(.., ended)| ended).collect()
}

pub(crate) fn later(job: Job, ms: u64) -> Job {
    Job { arrival: Span::from_ms(ms), ..job }
}

/// A program of `ms` ms of work in `regions` regions.
pub(crate) fn program(request: u32, ms: u64, regions: u32) -> Program {
    Program {
        phases: vec![Phase::parallel(Span::from_ms(ms), regions)],
        ..Program::new(request, Span(1000))
    }
}

#[test]
fn a_team_shrinks_at_once_and_grows_at_the_end_of_its_region() {
    // 8 processors, 8 s of work each. a runs alone on 8 for 0.5 s: 4 s done. Then b comes, and
    // equip gives 4 each. a is within its only region: 8 threads on 4 processors go at half their
    // speed, 4, so that a ends at 0.5 + 4 / 4 = 1.5 s. b has done 4 x 1 = 4 s by then, and has 8
    // processors from then on.
    for (regions, b_ends) in [
        // One region: the team of 4 goes on at 4: 1.5 + 4 / 4.
        (1, 2500),
        // Regions of 2 s: 4 s done is the end of one, so that 8 run at once: 1.5 + 4 / 8.
        (4, 2000),
        // Two of 4 s are that, too; regions of 8 / 3 s end at 5.33 s: 1.333 / 4 = 0.333 s more with
        // 4, then 2.667 / 8.
        (2, 2000),
        (3, 2166),
    ] {
        let programs = [("a", program(8, 8_000, 1)), ("b", program(8, 8_000, regions))];
        let outcome = run(
            &workload(8, &programs, vec![Job::new("a", 1, 1), later(Job::new("b", 1, 1), 500)]),
            "equip",
        );
        assert_eq!(ends(&outcome), [1500, b_ends], "{regions} regions");
        // a: 8 x 0.5 + 4 x 1; b: 4 x 1 + 8 x the rest.
        assert_eq!(outcome.executions[0].cpu_time, 8_000 * MS);
        assert_eq!(outcome.work, 16_000 * MS);
    }
}

#[test]
fn serial_phases_and_speedup_curves_take_their_time() {
    // Three iterations of 100 ms serial and 900 ms at Amdahl with a quarter serial: S(3) = 1 / (1/4
    // + 1/4) = 2. 550 ms.
    let phases = vec![Phase::serial(Span::from_ms(100)), Phase::parallel(Span::from_ms(900), 10)];
    let amdahl = Program {
        iterations: 3,
        phases,
        curve: Curve::Amdahl { serial: 0.25 },
        ..program(3, 1, 1)
    };
    let outcome = run(&workload(4, &[("a", amdahl)], vec![Job::new("a", 1, 2)]), "dss");
    assert_eq!(ends(&outcome), [1650, 3300], "a repetition begins when the one before ends");
    assert_eq!(outcome.executions[0].dedicated, 1650 * MS);
    // Three processors all the time, whatever for: half of each parallel ms and two of three in
    // serial ones are lost.
    assert_eq!(outcome.executions[0].cpu_time, 3 * 1650 * MS);
    assert!((outcome.efficiency() - 3000.0 / 4950.0).abs() < 1e-9);
    assert!((outcome.utilisation() - 0.75).abs() < 1e-9);
}

#[test]
fn a_program_that_asks_for_one_processor_in_serial_phases_leaves_the_others_to_others() {
    // 4 processors. a: 100 ms serial, then 400 ms on 4; b: 700 ms on 4. In the serial phase dss
    // gives a 1 and b 3: b has done 300 ms. Then 2 each: a needs 200 ms; b has done 700 by then and
    // ends, too.
    let phases = vec![Phase::serial(Span::from_ms(100)), Phase::parallel(Span::from_ms(400), 400)];
    let a = Program { pattern: Pattern::Alternate, phases, ..program(4, 1, 1) };
    let work = workload(
        4,
        &[("a", a), ("b", program(4, 700, 700))],
        vec![Job::new("a", 1, 1), Job::new("b", 1, 1)],
    );
    let outcome = run(&work, "dss");
    assert_eq!(ends(&outcome), [300, 300]);
    // To begin with: 2. The request of a rises: 2.
    assert_eq!(outcome.reallocations, 4);
    // b's third processor goes to a, which so far has one: no other program moves.
    assert_eq!(outcome.migrations, 0);
}

#[test]
fn masters_that_share_get_the_same() {
    // Three programs of 1 s on 2 processors: each has 2/3 of one, in turns of 100 ms, for 1.5 s.
    let work = workload(2, &[("a", program(4, 1_000, 1_000))], vec![Job::new("a", 3, 1)]);
    let outcome = run(&work, "dss-ts");
    let last = *ends(&outcome).last().expect("three ran");
    assert!((1450..=1550).contains(&last), "{:?}", ends(&outcome));
    assert!(ends(&outcome)[0] >= 1300, "{:?}", ends(&outcome));
    assert!(outcome.fairness() > 0.99);
}

#[test]
fn losing_processors_costs_a_cold_cache() {
    // As in the first test, with regions of 1 ms and a refill of 100 ms. b comes at 500 ms: a loses
    // half of its processors and pays 50 ms; then 4 s at 4: 500 + 50 + 1000. b never ran before and
    // pays nothing; it has done 4.2 s at 1550, takes over 4 processors that a used, under the cache
    // that it uses already: a quarter of 100 ms. Then 3.8 s on 8: 1550 + 25 + 475.
    let cold = Program { refill: Span::from_ms(100), ..program(8, 8_000, 8_000) };
    let jobs = vec![Job::new("a", 1, 1), later(Job::new("b", 1, 1), 500)];
    let outcome = run(&workload(8, &[("a", cold.clone()), ("b", cold)], jobs), "equip");
    assert_eq!(ends(&outcome), [1550, 2050]);
}

#[test]
fn the_kernel_shares_fairly_among_long_regions_and_lets_short_ones_wait() {
    // Two teams of 4 on 4: k = 2. One region of 2 s alone: 4 s. (Then the second, alone.)
    let native = Native {
        slice: Span::from_ms(10),
        coincidence: 0.0,
        patience: Span::from_ms(1000),
        switch: Span(0),
        adapts: None,
    };
    let with = |program: Program| {
        let mut work = workload(4, &[("a", program)], vec![Job::new("a", 2, 1)]);
        work.native = native.clone();
        ends(&run(&work, "none"))
    };
    assert_eq!(with(program(4, 8_000, 1)), [4000, 4000]);
    // 2000 regions of 1 ms: w = 10 x 4/5 = 8 ms: 9 ms each.
    assert_eq!(with(program(4, 8_000, 2_000)), [18_000, 18_000]);
    // Teams that block: 2 x 1 ms.
    assert_eq!(with(Program { waiting: Waits::Block, ..program(4, 8_000, 2_000) }), [4000, 4000]);
}

#[test]
fn hardware_threads_are_filled_as_the_workload_says() {
    // Four cores of two: a program of two threads has two cores, or both threads of one.
    let taken = |smt: Smt| {
        let mut work = workload(8, &[("a", program(2, 80, 1))], vec![Job::new("a", 1, 1)]);
        (work.machine.per_core, work.machine.per_cache, work.manager.smt) = (2, Some(8), smt);
        let tracks = run(&work, "equip").timeline.expect("it was asked for").tracks;
        let mut cpus: Vec<u32> = tracks[0]
            .virtual_processors
            .iter()
            .flatten()
            .filter_map(|interval| interval.cpu)
            .collect();
        cpus.sort_unstable();
        cpus
    };
    assert_eq!((taken(Smt::Spread), taken(Smt::Pack)), (vec![0, 2], vec![0, 1]));
}

#[test]
fn waiters_that_block_leave_serial_phases_alone() {
    // Two teams of 4 on 4, ten times 4 ms on one processor (a region of 1 ms on 4) and then 1 s in
    // which one thread works and three wait. Waiters that block are not runnable there: no team has
    // to share, 10 x 1 s, and the regions take 2 ms each where both have one. Waiters that spin
    // make it 8 threads on 4 processors all the time: twice as long.
    let phases = vec![Phase::parallel(Span::from_ms(4), 1), Phase::serial(Span::from_ms(1000))];
    let native = Native {
        slice: Span::from_ms(10),
        coincidence: 0.0,
        patience: Span::from_ms(1_000_000),
        switch: Span(0),
        adapts: None,
    };
    let with = |waiting: Waits| {
        let team = Program { phases: phases.clone(), iterations: 10, waiting, ..program(4, 1, 1) };
        let mut work = workload(4, &[("a", team)], vec![Job::new("a", 2, 1)]);
        work.native = native.clone();
        ends(&run(&work, "none"))
    };
    assert_eq!(with(Waits::Block), [10_020, 10_020]);
    let spinning = with(Waits::Spin);
    assert!(spinning.iter().all(|&end| end >= 20_000), "{spinning:?}");
}

#[test]
fn another_policy_takes_over_in_mid_run() {
    // batch runs a alone on 8; from 200 ms on equip gives 4 each: a has 1.6 of 4 s done and ends
    // 0.6 s later; b, which had its master on the processor that batch keeps for that... with all 8
    // taken nothing is kept, so without masters: b has done 2.4 s at 800 ms and needs 1.6 s on 8.
    let mut work = workload(8, &[("a", program(8, 4_000, 4_000))], vec![Job::new("a", 2, 1)]);
    work.manager.master_always = false;
    work.switches = vec![Switch { at: Span::from_ms(200), policy: "equip".into() }];
    let outcome = run(&work, "batch");
    assert_eq!(ends(&outcome), [800, 1000]);
    assert_eq!(outcome.executions[0].started, 0);
}

#[test]
fn the_level_holds_programs_back_in_order_of_arrival() {
    let mut work = workload(4, &[("a", program(4, 400, 1))], vec![Job::new("a", 3, 1)]);
    work.manager.level = Some(1);
    for policy in ["dss", "none"] {
        let outcome = run(&work, policy);
        assert_eq!(ends(&outcome), [100, 200, 300], "{policy}");
        assert_eq!(outcome.executions[2].started, 200 * MS);
        assert_eq!(outcome.executions[2].response(), 300 * MS);
    }
}

#[test]
fn pdpa_finds_how_many_processors_pay() {
    // Alone on 32 with S = 1, 2, .. 8, then flat: reports 4 / 4, 6 / 6, 8 / 8, then 8 on 10: 0.8,
    // which did not grow.
    let flat = Curve::Downey { parallelism: 8.0, variance: 0.0 };
    let a = Program { iterations: 100, curve: flat, ..program(32, 80, 1) };
    let mut work = workload(32, &[("a", a)], vec![Job::new("a", 1, 1)]);
    let steps = BTreeMap::from([("growth".to_owned(), Value::Number(0.0))]);
    work.parameters.insert("pdpa".to_owned(), steps);
    let outcome = run(&work, "pdpa");
    // Iterations of 20, 13.3, 10, 10 ms, then 96 of 10 ms on 8.
    assert_eq!(ends(&outcome), [20 + 13 + 98 * 10]);
    assert_eq!(outcome.reports, (99, 0), "the last iteration ends the program");
    let mean = outcome.executions[0].cpu_time as f64 / outcome.makespan() as f64;
    assert!((7.8..8.1).contains(&mean), "{mean}");
}

#[test]
fn pdpa_admits_another_program_to_processors_that_no_program_can_use() {
    // Level 1 on 16. Each of the three scales to 4 and no further (4 reported as 4, then 4 on 6:
    // back to 4, stable), so that 12 idle, and the next is admitted although the level is 1; and
    // the third after it. Without that they would run one after the other, 2 s each.
    let flat = Curve::Downey { parallelism: 4.0, variance: 0.0 };
    let a = Program { iterations: 20, curve: flat, ..program(16, 400, 1) };
    let mut work = workload(16, &[("a", a)], vec![Job::new("a", 3, 1)]);
    work.manager.level = Some(1);
    let outcome = run(&work, "pdpa");
    let mut starts: Vec<Nanos> = outcome.executions.iter().map(|e| e.started / MS).collect();
    starts.sort_unstable();
    // The first is stable by the decision after two iterations of 100 ms; which programs may start
    // is asked before a decision, at the next event, the end of the third iteration: the second
    // program starts. The third program starts in the same way after that.
    assert_eq!(starts, [0, 300, 600]);
    assert_eq!(outcome.makespan(), 2_600 * MS);
    // Policies without a level of their own hold to it.
    assert!(run(&work, "dss").makespan() >= 3 * 2_000 * MS);
}

#[test]
fn vtq_gives_saturated_programs_the_same_cpu_time() {
    // 16 processors, requests of 8 to 16 (equal shares are 3.2), the same work, linear: programs
    // that get the same CPU time end at the same time. sw-dss gives the large ones more.
    let programs =
        [8, 12, 16, 10, 9].map(|request| (format!("p{request}"), program(request, 40_000, 40_000)));
    let jobs = programs.iter().map(|(name, _)| Job::new(name, 1, 1)).collect();
    let programs: Vec<(&str, Program)> =
        programs.iter().map(|(name, program)| (name.as_str(), program.clone())).collect();
    let mut work = workload(16, &programs, jobs);
    work.manager.master_always = false;
    let spread = |policy: &str| {
        let ends = ends(&run(&work, policy));
        let (least, most) =
            (ends.iter().min().expect("five ran"), ends.iter().max().expect("five ran"));
        (most - least) as f64 / *most as f64
    };
    let (vtq, sw) = (spread("vtq-dss"), spread("sw-dss"));
    assert!(vtq < 0.1 && vtq < sw, "{vtq} under vtq-dss, {sw} under sw-dss");
}

/// A policy that gives nothing to any program.
struct Miser;

impl Policy for Miser {
    fn name(&self) -> &'static str {
        "miser"
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let nothing = |app: &AppView| policies::Allocation::own(app.id, 0);
        Decision::everybody_waits(snapshot, snapshot.apps.iter().map(nothing).collect())
    }
}

#[test]
fn a_policy_that_starves_or_breaks_a_rule_is_named() {
    let mut registry = Registry::with_builtin();
    registry.register("miser", "", || Box::new(Miser)).expect("the name is free");
    let mut work = workload(4, &[("a", program(4, 400, 1))], vec![Job::new("a", 1, 1)]);
    let error =
        simulate(&work, &registry, &Options::policy("miser")).expect_err("its master does not run");
    assert!(
        matches!(error, SimError::Broken { .. }) && error.to_string().contains("miser"),
        "{error}"
    );
    work.manager.master_always = false;
    let error = simulate(&work, &registry, &Options::policy("miser")).expect_err("no program runs");
    assert!(
        error.to_string().contains("policy miser lets a and all others wait for ever"),
        "{error}"
    );
    let few = Options { most_events: 1, ..Options::policy("equip") };
    work.jobs[0].repetitions = 5;
    assert!(matches!(simulate(&work, &registry, &few), Err(SimError::TooLong { .. })));
}

#[test]
fn more_than_can_be_counted_is_refused_and_not_wrapped() {
    // 4096 processors, four times as fast each: 100 000 s of work take 6.1 s, and 93 000 times as
    // much is 9.3e18 ns.
    let curve = Curve::Speedups(vec![(1, 1.0), (4096, 16_384.0)]);
    let huge = Program { curve, iterations: 93_000, ..program(4096, 100_000_000, 1) };
    let mut work = workload(4096, &[("a", huge)], vec![Job::new("a", 1, 1)]);
    work.manager.quantum = Span::from_ms(10_000);
    let error =
        simulate(&work, &all(), &Options::policy("equip")).expect_err("it is more than 292 years");
    assert!(
        error.to_string().contains("make it shorter") && matches!(error, SimError::TooMuch { .. }),
        "{error}"
    );
}

fn any_program() -> impl Strategy<Value = Program> {
    let phase = prop_oneof![
        (1..50_u64).prop_map(|ms| Phase::serial(Span::from_ms(ms))),
        (1..2_000_u64, 1..50_u32)
            .prop_map(|(ms, regions)| Phase::parallel(Span::from_ms(ms), regions)),
    ];
    let pattern = prop_oneof![
        Just(Pattern::Constant),
        Just(Pattern::Diamond),
        Just(Pattern::Alternate),
        prop::collection::vec(1..20_u32, 1..5).prop_map(Pattern::List),
    ];
    let curve = prop_oneof![
        Just(Curve::Linear),
        (0.0..0.5).prop_map(|serial| Curve::Amdahl { serial }),
        (1.0..20.0, 0.0..3.0)
            .prop_map(|(parallelism, variance)| Curve::Downey { parallelism, variance }),
        Just(Curve::Times(vec![(1, 10.0), (2, 4.0), (6, 3.0), (12, 3.5)])),
    ];
    let waits = prop_oneof![Just(Waits::Spin), Just(Waits::Block)];
    (1..24_u32, 1..8_u32, prop::collection::vec(phase, 1..4), pattern, curve, waits, 0..5_000_u64)
        .prop_map(|(request, iterations, phases, pattern, curve, waiting, refill)| Program {
            iterations,
            phases,
            pattern,
            curve,
            waiting,
            refill: Span::from_us(refill),
            ..Program::new(request, Span(1000))
        })
}

fn any_workload() -> impl Strategy<Value = Workload> {
    let programs = prop::collection::vec(any_program(), 1..4);
    let jobs = prop::collection::vec(
        (any::<prop::sample::Index>(), 0..3_000_u64, 1..4_u32, 1..3_u32),
        1..5,
    );
    (1..24_u32, programs, jobs, any::<bool>(), prop::option::of(1..5_u32)).prop_map(
        |(processors, programs, jobs, master_always, level)| {
            let names: Vec<String> = (0..programs.len()).map(|i| format!("p{i}")).collect();
            let jobs = jobs.into_iter().map(|(i, arrival, copies, repetitions)| Job {
                arrival: Span::from_ms(arrival),
                ..Job::new(i.get::<String>(&names), copies, repetitions)
            });
            let jobs = jobs.collect();
            let programs: BTreeMap<String, Program> = names.iter().cloned().zip(programs).collect();
            let mut workload = Workload::new(
                MachineSpec { per_cache: Some(4), ..MachineSpec::flat(processors) },
                programs,
                jobs,
            );
            workload.manager.master_always = master_always;
            workload.manager.level = level;
            workload
        },
    )
}

/// L1 and L2.
fn sound(timeline: &Timeline) -> Result<(), TestCaseError> {
    let mut by_cpu: BTreeMap<u32, Vec<(Nanos, Nanos)>> = BTreeMap::new();
    for track in &timeline.tracks {
        for list in &track.virtual_processors {
            let mut at = track.started;
            for interval in list {
                prop_assert_eq!(interval.begin, at, "a gap or an overlap in {}", track.name);
                prop_assert!(interval.end > interval.begin);
                at = interval.end;
                let placed = !matches!(interval.activity, Activity::Absent | Activity::TimeShared);
                prop_assert_eq!(placed, interval.cpu.is_some());
                if let Some(cpu) = interval.cpu.filter(|_| interval.activity.is_exclusive()) {
                    by_cpu.entry(cpu).or_default().push((interval.begin, interval.end));
                }
            }
            prop_assert_eq!(at, track.ended);
        }
    }
    for (cpu, mut list) in by_cpu {
        list.sort_unstable();
        prop_assert!(list.is_sorted_by(|a, b| a.1 <= b.0), "two on processor {cpu}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// X1 to X3 for every policy: every program ends, all work is done, no more time is handed out
    /// than there is.
    #[test]
    fn any_workload_ends_under_any_policy_and_twice_alike(workload in any_workload()) {
        let expected: f64 = workload.jobs.iter().map(|job| {
            let program = &workload.programs[&job.program];
            let phases = program.phases.iter().map(|p| p.parallel.or(p.serial).map_or(0.0, |span| span.0 as f64));
            f64::from(job.copies * job.repetitions * program.iterations) * phases.sum::<f64>()
        }).sum();
        for name in all().names() {
            let outcome = run(&workload, name);
            prop_assert_eq!(&outcome, &run(&workload, name), "{}", name);
            let executions: u32 = workload.jobs.iter().map(|job| job.copies * job.repetitions).sum();
            prop_assert_eq!(outcome.executions.len(), executions as usize);
            prop_assert!((outcome.work as f64 / expected - 1.0).abs() < 1e-6, "{name}: {} of {expected}", outcome.work);
            // Each execution's time is rounded to a ns: half of one too much at most.
            let all = outcome.makespan() * u64::from(outcome.processors);
            prop_assert!(outcome.cpu_time() <= all + u64::from(executions), "{name}: {} of {all}", outcome.cpu_time());
            prop_assert!((0.0..=1.0 + 1e-9).contains(&outcome.fairness()));
            for execution in &outcome.executions {
                prop_assert!(execution.arrival <= execution.started && execution.started < execution.ended);
            }
            sound(outcome.timeline.as_ref().expect("it was asked for"))?;
        }
    }
}
