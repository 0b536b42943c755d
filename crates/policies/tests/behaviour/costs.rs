//! The simulator: what hardware, holds, the work-list, rigid teams and other runtimes cost.

use policies::sim::{
    Curve, Interval, Job, MachineSpec, Native, NativeCode, Outcome, Pattern, Phase, Program, Span,
    Waits, Workload,
};

use crate::simulator::{MS, ends, later, program, run, workload};

#[test]
fn a_rigid_program_keeps_its_team_and_asks_for_it_as_its_minimum() {
    // 4 processors for two teams of 4: each thread has half a processor, whatever the regions.
    let rigid = Program { rigid: true, ..program(4, 400, 400) };
    let work = workload(4, &[("a", rigid)], vec![Job::new("a", 2, 1)]);
    // The first one's minimum is met, as far as the master of the other leaves it: 3 of 4, 133 ms.
    // The second has 1 of 4 meanwhile and then all: 133 x 1/4 done, 367 ms / 4 more.
    assert_eq!(ends(&run(&work, "dss")), [133, 200]);
    let mut holds = work;
    holds.manager.keep_minima = true;
    let outcome = run(&holds, "dss");
    assert_eq!(ends(&outcome), [100, 200], "one after the other: minima hold");
    assert_eq!(outcome.executions[1].started, 100 * MS);
}

#[test]
fn hardware_threads_far_memory_and_a_full_node_take_their_time() {
    let timed = |machine: MachineSpec, program: Program| {
        let mut work = workload(4, &[("a", program)], vec![Job::new("a", 1, 1)]);
        work.machine = machine;
        run(&work, "equip").makespan() / MS
    };
    let flat = MachineSpec::flat(4);
    assert_eq!(timed(flat.clone(), program(4, 400, 1)), 100);
    // Two cores of two threads, each pair 1.6 times one.
    let smt = MachineSpec { per_core: 2, smt_gain: 1.6, ..flat.clone() };
    assert_eq!(timed(smt, program(4, 400, 1)), 125);
    // Half of the time is memory, and half of that of another node, three times as slow: 0.5 + 0.5
    // x 2.
    let memory = Program { memory: 0.5, ..program(4, 400, 1) };
    let numa = MachineSpec { per_node: Some(2), remote: 3.0, ..flat.clone() };
    assert_eq!(timed(numa, memory.clone()), 150);
    // Four threads ask for two, and the node has one: 0.5 + 0.5 x 2.
    let narrow = MachineSpec { bandwidth: Some(1.0), ..flat };
    assert_eq!(timed(narrow, memory), 150);
}

/// Four fast processors after four that do half as much.
fn hybrid(programs: &[(&str, Program)], jobs: Vec<Job>) -> Workload {
    let mut work = workload(8, programs, jobs);
    work.machine.speeds = vec![(4, 0.5), (4, 1.0)];
    work
}

#[test]
fn programs_end_earlier_on_a_hybrid_machine_whose_fast_processors_go_out_first() {
    let response = |work: &Workload, policy: &str| {
        let outcome = run(work, policy);
        let sum: u64 = outcome.executions.iter().map(|it| it.response()).sum();
        sum / outcome.executions.len() as u64 / MS
    };
    let both = |mut work: Workload, policy: &str| {
        let aware = response(&work, policy);
        work.manager.fast_first = false;
        (aware, response(&work, policy))
    };
    // One that asks for half of the machine: 400 ms of work on four, or four of half the speed.
    let one = hybrid(&[("a", program(4, 400, 10))], vec![Job::new("a", 1, 1)]);
    assert_eq!(both(one, "dss"), (100, 200));
    // The load of a desktop: programs of one to four processors come now and then.
    let dynamic = |request, ms| Program { dynamic: true, ..program(request, ms, 50) };
    let programs = [("a", program(4, 400, 50)), ("b", dynamic(2, 150)), ("c", program(1, 100, 1))];
    let jobs = || {
        let every = |name, ms, begin| {
            later(Job { every: Span::from_ms(ms), ..Job::new(name, 20, 1) }, begin)
        };
        vec![every("a", 310, 0), every("b", 170, 20), every("c", 130, 50)]
    };
    for policy in ["dss", "dss-ts", "equip", "fair"] {
        let (aware, blind) = both(hybrid(&programs, jobs()), policy);
        assert!(aware * 10 < blind * 9, "{policy}: {aware} and {blind} ms");
    }
}

#[test]
fn programs_that_come_together_and_take_work_in_pieces_end_together_on_a_hybrid_machine() {
    // 600 ms each. Two fast and two slow ones each: 3 at a time. One after the other's rest: the
    // second would have four slow ones until the first ends.
    let dynamic = Program { dynamic: true, ..program(4, 600, 100) };
    let work = hybrid(&[("a", dynamic.clone())], vec![Job::new("a", 2, 1)]);
    assert_eq!(ends(&run(&work, "dss")), [200, 200]);
    // In equal parts, the slowest thread says when a region ends.
    let fixed = Program { dynamic: false, ..dynamic };
    let work = hybrid(&[("a", fixed)], vec![Job::new("a", 2, 1)]);
    assert_eq!(ends(&run(&work, "dss")), [300, 300]);
}

#[test]
fn what_is_given_back_goes_to_the_work_list_as_in_the_daemon() {
    // equip on 8: a asks for 4, b for 8; each has 4. In a's serial phase (100 ms) 3 of its 4 are
    // free, and b has them until a takes them back; a new decision of equip gives b no more than 4.
    let phases = vec![Phase::serial(Span::from_ms(90)), Phase::parallel(Span::from_ms(4), 1)];
    let a = Program { pattern: Pattern::Alternate, phases, iterations: 2, ..program(4, 1, 1) };
    let mut work = workload(
        8,
        &[("a", a), ("b", program(8, 700, 700))],
        vec![Job::new("a", 1, 1), Job::new("b", 1, 1)],
    );
    // The first phase of a is serial from the beginning, and the first decision gives b 4. From 91
    // ms on, in the second serial phase, b has 7 by the work-list, until the quantum ends at 100.
    let by_list = run(&work, "equip");
    work.manager.work_list = false;
    let decided = run(&work, "equip");
    let end = |outcome: &Outcome| ends(outcome)[1];
    assert!(end(&by_list) < end(&decided), "{} and {}", end(&by_list), end(&decided));
}

#[test]
fn a_processor_that_was_just_given_stays_for_its_hold() {
    // a has all 4 from 0 on. b comes at 2 ms: with a hold of 10 ms nothing is taken before 10.
    let mut work = workload(
        4,
        &[("a", program(4, 80, 80)), ("b", program(4, 40, 40))],
        vec![Job::new("a", 1, 1), later(Job::new("b", 1, 1), 2)],
    );
    let at = |work: &Workload| {
        let outcome = run(work, "equip");
        let tracks = outcome.timeline.expect("it was asked for").tracks;
        let b = tracks.iter().find(|track| track.program == "b").expect("it ran");
        let first =
            |list: &Vec<Interval>| list.iter().find(|it| it.cpu.is_some()).map(|it| it.begin / MS);
        b.virtual_processors.iter().filter_map(first).min().expect("it had a processor")
    };
    assert_eq!(at(&work), 2);
    work.manager.hold = Span::from_ms(10);
    assert_eq!(at(&work), 10);
}

#[test]
fn a_run_with_noise_is_the_same_each_time() {
    let a = Program { iterations: 50, ..program(32, 80, 8) };
    let mut work = workload(32, &[("a", a)], vec![Job::new("a", 1, 1)]);
    let exact = run(&work, "pdpa");
    work.manager.noise = 0.5;
    let noisy = run(&work, "pdpa");
    assert!(exact.reports.0 > 0 && noisy.reports.0 > 0);
    assert_eq!(noisy, run(&work, "pdpa"));
}

#[test]
fn a_runtime_that_looks_at_the_load_makes_its_teams_smaller() {
    // Two teams of 8 on 8 processors. After a second each has looked: 4 threads. Then each region
    // takes 2 ms on 4 of its own.
    let mut work = workload(8, &[("a", program(8, 80_000, 10_000))], vec![Job::new("a", 2, 1)]);
    work.native = Native { slice: Span::from_ms(30), patience: Span::from_ms(1000), ..work.native };
    let fixed = run(&work, "none").makespan();
    work.native.adapts = Some(Span::from_ms(1000));
    let adaptive = run(&work, "none").makespan();
    assert!(adaptive < 22_000 * MS && fixed > 40_000 * MS, "{adaptive} and {fixed}");
}

#[test]
fn copies_use_processors_that_another_runtime_leaves_idle() {
    // Busy for 1 s and idle for 3, alone on 4. Two copies with long regions meet now and then; they
    // need less than twice the time, and no less than one alone.
    let code = NativeCode {
        work: 1.0,
        curve: Curve::Speedups(vec![(1, 1.0), (4, 1.0)]),
        busy: Some(Curve::Linear),
        awake: None,
    };
    let a = Program { native: Some(code), ..program(4, 4_000, 4) };
    let with = |copies: u32| {
        let work = workload(4, &[("a", a.clone())], vec![Job::new("a", copies, 1)]);
        let outcome = run(&work, "none");
        (outcome.makespan() / MS, outcome.cpu_time())
    };
    assert_eq!(with(1), (4_000, 4_000 * MS));
    let (two, _) = with(2);
    assert!((4_100..6_000).contains(&two), "{two}");
    // Under a manager it is the program's own code.
    let work = workload(4, &[("a", a.clone())], vec![Job::new("a", 1, 1)]);
    assert_eq!(run(&work, "dss").makespan(), 1_000 * MS);
}

#[test]
fn a_copy_does_not_wait_for_processors_that_another_copy_keeps_awake() {
    // As above: busy for 1 s of 4 alone. Of the other 3 it waits for sleeping processors for 2, and
    // for all.
    let with = |copies: u32, awake: f64| {
        let code = NativeCode {
            work: 1.0,
            curve: Curve::Speedups(vec![(1, 1.0), (4, 1.0)]),
            busy: Some(Curve::Linear),
            awake: Some(Curve::Speedups(vec![(1, 1.0), (4, awake)])),
        };
        let a = Program { native: Some(code), waiting: Waits::Block, ..program(4, 4_000, 4) };
        let mut work = workload(4, &[("a", a)], vec![Job::new("a", copies, 1)]);
        work.native.switch = Span::default();
        run(&work, "none").makespan() / MS
    };
    assert_eq!((with(1, 2.0), with(1, 4.0)), (4_000, 4_000), "alone it does");
    // Three keep all processors awake: they take their work together, and where each has a pause
    // of 1 s that remains, less than that more.
    let (some, all) = (with(3, 2.0), with(3, 4.0));
    assert_eq!(all, 3_000);
    assert!((3_001..4_000).contains(&some), "{some}");
    // Without that each of them waits as long as alone.
    assert!(with(3, 1.0) > 4_500, "{}", with(3, 1.0));
}

#[test]
fn masters_that_share_processors_from_the_beginning_feel_the_memory_that_they_ask_for() {
    // Two threads of nothing but memory ask for two, and the node has one. Four masters on two
    // processors are two threads.
    let memory = Program { memory: 1.0, ..program(2, 400, 4) };
    let with = |copies: u32| {
        let mut work = workload(2, &[("a", memory.clone())], vec![Job::new("a", copies, 1)]);
        work.machine.bandwidth = Some(1.0);
        run(&work, "dss-ts").makespan() / MS
    };
    assert_eq!((with(2), with(4)), (800, 1_600));
}
