//! `turnaround`: turns, widths and admission worked out by hand, and what it makes of copies.

use std::collections::BTreeMap;

use policies::sim::{
    Curve, Job, MachineSpec, Options, Outcome, Pattern, Phase, Program, Span, Workload, simulate,
};
use policies::{
    AppId, AppView, Cause, Decision, Nanos, Policy, Snapshot, Speedup, Turnaround,
    TurnaroundParameters, Value, Waiting,
};
use proptest::prelude::*;

use crate::support::{all, numbers, requests};

const MS: Nanos = 1_000_000;
const TURN: Nanos = 200 * MS;

/// A manager that asks when the policy wishes, and when something happens.
struct Run {
    policy: Turnaround,
    apps: Vec<AppView>,
    processors: u32,
    masters: bool,
    now: Nanos,
    decision: Decision,
}

impl Run {
    fn new(requests_: &[u32], processors: u32, masters: bool) -> Self {
        let policy = Turnaround::new();
        let apps = requests(requests_);
        let mut run =
            Self { policy, apps, processors, masters, now: 0, decision: Decision::default() };
        run.decide(Cause::Arrival);
        run
    }

    fn decide(&mut self, cause: Cause) -> Vec<u32> {
        let snapshot = Snapshot {
            now: self.now,
            quantum: 100 * MS,
            processors: self.processors,
            apps: &self.apps,
            cause,
            master_always: self.masters,
        };
        self.decision = self.policy.decide(&snapshot);
        assert_eq!(self.decision.check(&snapshot), Ok(()));
        numbers(&self.decision)
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        for (app, allocation) in self.apps.iter_mut().zip(&self.decision.allocations) {
            if !allocation.shared {
                app.cpu_time += time * u64::from(allocation.processors);
            }
            app.allocated = allocation.processors;
        }
    }

    /// Until the policy wants to be asked.
    fn turn(&mut self) -> Vec<u32> {
        let next = self.decision.next.expect("an application waits");
        self.pass(next - self.now);
        self.decide(Cause::Timer)
    }

    fn come(&mut self, id: u64, request: u32) -> Vec<u32> {
        self.apps.push(AppView::new(AppId(id), request));
        self.decide(Cause::Arrival)
    }

    fn leave(&mut self, id: u64) -> Vec<u32> {
        self.apps.retain(|app| app.id != AppId(id));
        self.decide(Cause::Exit)
    }

    fn app(&mut self, id: u64) -> &mut AppView {
        self.apps.iter_mut().find(|app| app.id == AppId(id)).expect("it runs")
    }

    fn report(&mut self, id: u64, processors: u32, speedup: f64) -> Vec<u32> {
        self.now += 1;
        let at = self.now;
        self.app(id).speedup = Some(Speedup { processors, speedup, at });
        self.decide(Cause::Speedup)
    }
}

#[test]
fn newcomers_have_a_turn_each_and_then_the_first_one_runs_to_its_end() {
    let mut run = Run::new(&[8, 8, 8], 8, false);
    assert_eq!(numbers(&run.decision), [8, 0, 0]);
    assert_eq!(run.turn(), [0, 8, 0]);
    assert_eq!(run.now, TURN);
    assert_eq!(run.turn(), [0, 0, 8]);
    for _ in 0..20 {
        assert_eq!(run.turn(), [8, 0, 0]);
    }
    assert_eq!(run.leave(1), [8, 0]);
    // It goes on although another one may be asked for earlier, and a newcomer waits for a turn.
    assert_eq!(run.come(4, 8), [8, 0, 0]);
    assert_eq!(run.turn(), [0, 0, 8]);
    assert_eq!(run.turn(), [8, 0, 0]);
}

#[test]
fn masters_outside_their_turn_share_a_processor() {
    let run = Run::new(&[8, 8, 8], 8, true);
    assert_eq!(numbers(&run.decision), [7, 1, 1]);
    assert!(run.decision.allocations[1].shared && run.decision.allocations[2].shared);
    assert_eq!(numbers(&Run::new(&[4, 4], 8, true).decision), [4, 4], "all fits");
    assert_eq!(numbers(&Run::new(&[4, 4], 1, true).decision), [1, 1]);
}

#[test]
fn what_does_not_scale_shares_space_beside_the_turns() {
    let mut run = Run::new(&[64, 64, 64, 64], 64, false);
    assert_eq!(numbers(&run.decision), [64, 0, 0, 0]);
    // S(64) = 4: f = (16 - 1) / 63 = 0.238; 1 + (1 / 0.7 - 1) / f = 2.8.
    assert_eq!(run.report(1, 64, 4.0), [2, 62, 0, 0]);
    assert_eq!(run.policy.width(AppId(1)), Some(2));
    // Efficient on 8, by measurement: it is that wide, and a later bad one does not change it.
    assert_eq!(run.report(1, 8, 6.0), [8, 56, 0, 0]);
    assert_eq!(run.report(1, 64, 4.0), [8, 56, 0, 0]);
    // Beside scaling ones it has its part of the machine all the time.
    run.turn();
    run.turn();
    assert_eq!(numbers(&run.decision)[0], 8);
    // It is good there after all.
    assert_eq!(run.report(1, 64, 60.0)[0] % 64, 0);
    assert_eq!(run.policy.width(AppId(1)), None);
}

#[test]
fn programs_that_do_not_scale_have_equal_parts_of_what_is_theirs() {
    let mut run = Run::new(&[64, 64, 64, 64], 64, false);
    for id in 1..=3 {
        // 0.6 on 60: f = (1 / 0.6 - 1) / 59; width 38.9: more than half of the machine is wide.
        run.report(id, 60, 36.0);
    }
    assert_eq!(numbers(&run.decision), [38, 26, 0, 0]);
    for id in 1..=3 {
        // f = (1 / 0.45 - 1) / 39 = 0.0313; width 14.7.
        run.report(id, 40, 18.0);
    }
    // Three of four: at most 48 for the three, 14 each; the rest is the fourth's.
    assert_eq!(numbers(&run.decision), [14, 14, 14, 22]);
    // Nothing else is there: what is left goes beyond widths.
    assert_eq!(run.leave(4).iter().sum::<u32>(), 64);
}

#[test]
fn a_serial_phase_holds_no_processors() {
    let mut run = Run::new(&[8, 8, 8], 8, false);
    run.app(1).request = 1;
    assert_eq!(run.decide(Cause::Release), [1, 7, 0]);
    run.app(1).request = 8;
    assert_eq!(run.decide(Cause::Request), [8, 0, 0], "it kept its place");
}

#[test]
fn a_team_that_cannot_shrink_is_passed_over_while_others_can_use_what_is_left() {
    let mut run = Run::new(&[5, 8, 8], 8, false);
    run.app(2).min = 8;
    assert_eq!(run.decide(Cause::Administration), [5, 0, 3]);
    // Alone with it, it has what there is.
    assert_eq!(run.leave(3), [5, 3]);
}

#[test]
fn a_program_that_ends_first_by_experience_comes_first() {
    let mut run = Run::new(&[8, 8], 8, false);
    // Five programs ended after 0.4 s of CPU time.
    for id in 10..15 {
        run.come(id, 8);
        while run.decision.of(AppId(id)).is_none_or(|it| it.processors == 0) {
            run.turn();
        }
        run.pass(50 * MS);
        run.leave(id);
    }
    // The first two have gone on for long; a newcomer comes before them, and they are not cut short
    // for each other: as long as one is ahead by less than twice it goes on.
    for _ in 0..50 {
        run.turn();
    }
    assert_eq!(run.decision.allocations.iter().map(|it| it.processors).max(), Some(8));
    run.come(20, 8);
    assert_eq!(run.turn(), [0, 0, 8]);
    run.policy.configure("history", &Value::Whole(0)).expect("it is in range");
    // Foreground-background among programs: the newcomer has received least.
    run.apps.iter_mut().for_each(|app| app.program = Some(u64::from(app.id == AppId(20))));
    let least = run.apps[..2].iter().map(|app| app.cpu_time).min().expect("two");
    let mut turns = 0;
    while run.turn() == [0, 0, 8] {
        turns += 1;
        assert!(turns < 1000);
    }
    assert!(run.apps[2].cpu_time > least, "{} {least}", run.apps[2].cpu_time);
}

#[test]
fn a_program_that_scales_is_started_alone_and_others_wait_for_it() {
    let waiting = |number: u64| -> Vec<Waiting> {
        (0..number).map(|i| Waiting { id: AppId(100 + i), request: 8, since: 0 }).collect()
    };
    let mut run = Run::new(&[], 8, true);
    let ask = |run: &mut Run, queue: &[Waiting]| {
        let apps = run.apps.clone();
        let snapshot = Snapshot {
            now: run.now,
            quantum: 100 * MS,
            processors: 8,
            apps: &apps,
            cause: Cause::Arrival,
            master_always: true,
        };
        run.policy.admission(&snapshot, queue)
    };
    assert_eq!(ask(&mut run, &waiting(3)).admit, 1);
    assert_eq!(run.come(1, 8), [8]);
    let answer = ask(&mut run, &waiting(2));
    assert_eq!((answer.admit, answer.next), (0, Some(TURN)));
    // It does not scale: there is room for another one.
    run.report(1, 8, 2.0);
    assert_eq!(ask(&mut run, &waiting(2)).admit, 1);
    run.report(1, 8, 7.0);
    assert_eq!(ask(&mut run, &waiting(2)).admit, 0);
    run.pass(60_000 * MS);
    assert_eq!(ask(&mut run, &waiting(2)).admit, 2, "both have waited for too long");
    run.policy.configure("hold-back", &Value::Switch(false)).expect("it is a switch");
    assert_eq!(ask(&mut run, &waiting(7)).admit, 7);
}

#[test]
fn a_long_program_does_not_hold_short_ones_back_once_that_is_known() {
    let mut run = Run::new(&[8], 8, true);
    run.pass(10 * MS);
    run.leave(1);
    run.come(2, 8);
    let queue = [Waiting { id: AppId(9), request: 8, since: 0 }];
    let mut admitted = Vec::new();
    for _ in 0..4 {
        let apps = run.apps.clone();
        let snapshot = Snapshot {
            now: run.now,
            quantum: 100 * MS,
            processors: 8,
            apps: &apps,
            cause: Cause::Timer,
            master_always: true,
        };
        admitted.push(run.policy.admission(&snapshot, &queue).admit);
        run.pass(TURN);
        run.decide(Cause::Quantum);
    }
    assert_eq!(admitted, [0, 1, 1, 1]);
}

proptest! {
    /// Through any arrivals no application waits longer for processors of its own than
    /// `longest-wait`, and a turn for each that is there.
    #[test]
    fn no_application_waits_for_ever(
        processors in 1..6_u32,
        events in prop::collection::vec((0..3_u8, 1..7_u32), 1..300),
        history in prop::sample::select(vec![0_u32, 64]),
    ) {
        let longest_wait = 2_000 * MS;
        let parameters =
            TurnaroundParameters { longest_wait, history, ..TurnaroundParameters::default() };
        let mut run = Run::new(&[3, 3], processors, false);
        run.policy = Turnaround::with(parameters).expect("it is in range");
        let mut ran: BTreeMap<AppId, Nanos> = BTreeMap::new();
        let mut id = 10;
        let mut most = 2;
        for (what, request) in events {
            match what {
                0 if run.apps.len() < 12 => {
                    id += 1;
                    run.come(id, request);
                }
                1 if run.apps.len() > 2 => {
                    let last = run.apps[run.apps.len() - 1].id.0;
                    run.leave(last);
                }
                _ => {}
            }
            run.decide(Cause::Request);
            most = most.max(run.apps.len() as u64);
            for (app, it) in run.apps.iter().zip(&run.decision.allocations) {
                let last = ran.entry(app.id).or_insert(run.now);
                if it.processors > 0 {
                    *last = run.now;
                }
                prop_assert!(run.now - *last <= longest_wait + (most + 1) * TURN, "{}", app.id);
            }
            if run.decision.next.is_some() {
                run.turn();
            } else {
                run.pass(TURN);
            }
        }
    }
}

/// Copies of a program of 10 s alone on the machine, in regions of 1 ms there.
fn copies(processors: u32, program: Program, copies: u32) -> Workload {
    let programs = BTreeMap::from([("a".to_owned(), program)]);
    let mut workload =
        Workload::new(MachineSpec::flat(processors), programs, vec![Job::new("a", copies, 1)]);
    workload.manager.base_on_one = true;
    workload
}

fn scaling(processors: u32) -> Program {
    let work = Span::from_ms(10_000 * u64::from(processors));
    Program {
        phases: vec![Phase { steps: Some(100), ..Phase::parallel(work, 10_000) }],
        refill: Span::from_ms(2),
        ..Program::new(processors, work)
    }
}

fn run(workload: &Workload, policy: &str) -> Outcome {
    simulate(workload, &all(), &Options::policy(policy)).expect("it can be simulated")
}

#[test]
fn four_equal_copies_end_after_two_thirds_of_the_time_of_sharing() {
    for processors in [2, 8, 64] {
        // Held back until their turn; and all started, where masters need not run.
        for started in [false, true] {
            let mut workload = copies(processors, scaling(processors), 4);
            if started {
                let settings = BTreeMap::from([("hold-back".to_owned(), Value::Switch(false))]);
                workload.parameters.insert("turnaround".to_owned(), settings);
                workload.manager.master_always = false;
            }
            let outcome = run(&workload, "turnaround");
            let mean = outcome.response() / 40.0;
            let makespan = outcome.makespan() as f64 / 40e9;
            assert!(mean <= 0.65, "{mean} of the ideal on {processors}, started: {started}");
            assert!((0.999..1.03).contains(&makespan), "{makespan} on {processors}");
        }
    }
}

#[test]
fn short_programs_end_first_although_they_came_last_and_nothing_is_known() {
    let program = |seconds: u64| Program {
        phases: vec![Phase::parallel(Span::from_ms(8_000 * seconds), 1000)],
        ..Program::new(8, Span::from_ms(1))
    };
    let programs =
        BTreeMap::from([("long".to_owned(), program(30)), ("short".to_owned(), program(3))]);
    let jobs = vec![Job::new("long", 2, 1), Job::new("short", 6, 1)];
    let mut workload = Workload::new(MachineSpec::flat(8), programs, jobs);
    workload.manager.master_always = false;
    let settings = BTreeMap::from([("hold-back".to_owned(), Value::Switch(false))]);
    workload.parameters.insert("turnaround".to_owned(), settings);
    let (turns, shares) = (run(&workload, "turnaround"), run(&workload, "dss"));
    assert!(turns.executions[..6].iter().all(|it| it.program == "short"), "{turns:?}");
    assert!(turns.response() < 0.8 * shares.response(), "{}", turns.response());
    assert_eq!(turns.makespan(), 78_000 * MS);
}

#[test]
fn copies_that_do_not_scale_are_not_slower_than_sharing() {
    let curve = Curve::Speedups(vec![(1, 1.0), (4, 3.2), (64, 4.0)]);
    let program = Program { curve, ..scaling(64) };
    let workload = copies(64, program, 4);
    let (turns, shares) = (run(&workload, "turnaround"), run(&workload, "dss-ts"));
    assert!(
        turns.response() < shares.response() * 1.1,
        "{} {}",
        turns.response(),
        shares.response()
    );
}

#[test]
fn serial_phases_leave_the_machine_to_the_others() {
    let phases = vec![Phase::serial(Span::from_ms(100)), Phase::parallel(Span::from_ms(800), 100)];
    let program = Program {
        iterations: 20,
        phases,
        pattern: Pattern::Alternate,
        ..Program::new(8, Span::from_ms(1))
    };
    let mut workload = copies(8, program, 4);
    workload.manager.master_always = false;
    let settings = BTreeMap::from([("hold-back".to_owned(), Value::Switch(false))]);
    workload.parameters.insert("turnaround".to_owned(), settings);
    let outcome = run(&workload, "turnaround");
    // Each is 4 s alone, 72 s of work in all: 16 s one after the other, 9 s at best.
    assert!(outcome.makespan() < 12_000 * MS, "{}", outcome.makespan());
    assert!(outcome.response() < 8.0, "{}", outcome.response());
}
