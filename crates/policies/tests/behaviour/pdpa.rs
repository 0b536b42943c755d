//! `pdpa`: walks through its diagram worked out by hand, and admission.

use policies::{
    AppId, AppView, Cause, Decision, Nanos, Pdpa, PdpaParameters, PdpaState, Policy, Snapshot,
    Speedup, Value, Waiting,
};
use proptest::prelude::*;

use crate::support::{numbers, requests};

/// A manager that asks once per tick of its clock.
struct Run {
    policy: Pdpa,
    apps: Vec<AppView>,
    processors: u32,
    now: Nanos,
    decision: Decision,
}

impl Run {
    fn new(requests_: &[u32], processors: u32) -> Self {
        // By the papers' steps of 2.
        let parameters = PdpaParameters { growth: 0.0, ..PdpaParameters::default() };
        let mut run = Self {
            policy: Pdpa::with(parameters).expect("they are in range"),
            apps: requests(requests_),
            processors,
            now: 0,
            decision: Decision::default(),
        };
        run.decide(Cause::Arrival);
        run
    }

    fn snapshot<'a>(
        apps: &'a [AppView],
        processors: u32,
        now: Nanos,
        cause: Cause,
    ) -> Snapshot<'a> {
        Snapshot { now, quantum: 100_000_000, processors, apps, cause, master_always: true }
    }

    fn decide(&mut self, cause: Cause) -> Vec<u32> {
        self.now += 10;
        let snapshot = Self::snapshot(&self.apps, self.processors, self.now, cause);
        self.decision = self.policy.decide(&snapshot);
        assert_eq!(self.decision.check(&snapshot), Ok(()));
        numbers(&self.decision)
    }

    /// Application `id` reports this speedup on what it has.
    fn report(&mut self, id: u64, speedup: f64) -> Vec<u32> {
        self.now += 1;
        let at = self.now;
        let processors = self.decision.of(AppId(id)).expect("it runs").processors;
        let app = self.app(id);
        app.speedup = Some(Speedup { processors, speedup, at });
        self.decide(Cause::Speedup)
    }

    fn app(&mut self, id: u64) -> &mut AppView {
        self.apps.iter_mut().find(|app| app.id == AppId(id)).expect("it runs")
    }

    fn request(&mut self, id: u64, request: u32) -> Vec<u32> {
        self.app(id).request = request;
        self.decide(Cause::Request)
    }

    fn state(&self, id: u64) -> PdpaState {
        self.policy.state(AppId(id)).expect("it runs")
    }
}

#[test]
fn an_efficient_application_grows_until_it_is_not() {
    let mut run = Run::new(&[16], 32);
    assert_eq!((numbers(&run.decision), run.state(1)), (vec![4], PdpaState::NoReference));
    // 4 on 4: efficiency 1.
    assert_eq!((run.report(1, 4.0), run.state(1)), (vec![6], PdpaState::Increasing));
    // 5.6 on 6: 0.93, and it grew.
    assert_eq!((run.report(1, 5.6), run.state(1)), (vec![8], PdpaState::Increasing));
    // 5.6 = 0.7 x 8 is good, equal to the minimum, but did not grow: back to 6. There are free
    // processors all the time, and they are no more than when it went back.
    assert_eq!((run.report(1, 5.6), run.state(1)), (vec![6], PdpaState::Stable));
    assert_eq!((run.decide(Cause::Quantum), run.state(1)), (vec![6], PdpaState::Stable));
}

#[test]
fn an_inefficient_application_shrinks_until_it_is_good() {
    let mut run = Run::new(&[16], 32);
    // 2 on 4: 0.5.
    assert_eq!((run.report(1, 2.0), run.state(1)), (vec![2], PdpaState::Decreasing));
    // 1.3 on 2: 0.65, still bad: not below 1.
    assert_eq!((run.report(1, 1.3), run.state(1)), (vec![1], PdpaState::Decreasing));
    // 0.5 on 1 is bad, too, but there is nothing less; 31 are free, so that a step more is tried:
    // 3.
    assert_eq!((run.report(1, 0.5), run.state(1)), (vec![3], PdpaState::Testing));
    // Bad: back.
    assert_eq!((run.report(1, 1.0), run.state(1)), (vec![1], PdpaState::Stable));
}

#[test]
fn growth_ends_at_the_request_and_where_nothing_is_free() {
    let mut run = Run::new(&[5, 16], 10);
    assert_eq!(numbers(&run.decision), [4, 4]);
    // Both wish for 2 and 2 are free: the first asks for one more only, the second has the other.
    run.now += 1;
    for id in [1, 2] {
        let at = run.now;
        run.app(id).speedup = Some(Speedup { processors: 4, speedup: 4.0, at });
    }
    assert_eq!(run.decide(Cause::Speedup), [5, 5]);
    assert_eq!((run.state(1), run.state(2)), (PdpaState::Increasing, PdpaState::Increasing));
    // The first is at its request, the second finds nothing free.
    assert_eq!((run.report(1, 5.0), run.state(1)), (vec![5, 5], PdpaState::Stable));
    assert_eq!((run.report(2, 5.0), run.state(2)), (vec![5, 5], PdpaState::Stable));
    // The first leaves: 5 are free, and the second tries 7; kept; 9; kept; 10 (all); kept: three
    // tries.
    run.apps.remove(0);
    for (speedup, expected) in [(7.0, 7), (9.0, 9)] {
        assert_eq!((run.decide(Cause::Exit), run.state(2)), (vec![expected], PdpaState::Testing));
        run.report(2, speedup);
    }
    assert_eq!((numbers(&run.decision), run.state(2)), (vec![10], PdpaState::Testing));
    assert_eq!((run.report(2, 9.5), run.state(2)), (vec![10], PdpaState::Stable));
}

#[test]
fn wishes_beyond_what_is_free_are_served_by_efficiency_then_arrival() {
    let mut run = Run::new(&[16, 16, 16], 14);
    assert_eq!(numbers(&run.decision), [4, 4, 4]);
    run.now += 1;
    for (id, speedup) in [(1, 3.2), (2, 3.6), (3, 3.6)] {
        let at = run.now;
        run.app(id).speedup = Some(Speedup { processors: 4, speedup, at });
    }
    // 2 free: 0.9 comes before 0.8, and the second before the third.
    assert_eq!(run.decide(Cause::Speedup), [4, 6, 4]);
    assert_eq!((run.state(1), run.state(3)), (PdpaState::Stable, PdpaState::Stable));
}

#[test]
fn a_report_counts_once_and_only_on_the_present_allocation() {
    let mut run = Run::new(&[16], 32);
    assert_eq!(run.report(1, 4.0), [6]);
    // The same report again, and a new one about 4 processors, change nothing; nor do numbers that
    // are no speedup.
    assert_eq!(run.decide(Cause::Speedup), [6]);
    for (processors, speedup) in [(4, 4.0), (6, f64::NAN), (6, -1.0), (6, f64::INFINITY), (6, 0.0)]
    {
        run.now += 1;
        let at = run.now;
        run.app(1).speedup = Some(Speedup { processors, speedup, at });
        assert_eq!(
            (run.decide(Cause::Speedup), run.state(1)),
            (vec![6], PdpaState::Increasing),
            "{speedup}"
        );
    }
    assert_eq!(run.report(1, 6.0), [8]);
}

#[test]
fn a_stable_allocation_survives_dips_of_its_own_request_and_those_of_others() {
    let mut run = Run::new(&[16, 16], 12);
    // 4 and 4; the second is bad on 4, fine on 2. The first grows to 6, is bad there, and goes back
    // to 4.
    run.report(2, 2.0);
    run.report(2, 1.9);
    assert_eq!(run.report(1, 4.0)[0], 6);
    run.report(1, 3.0);
    let stable = numbers(&run.decision);
    assert_eq!((stable[0], run.state(1)), (4, PdpaState::Stable));
    // A serial phase of the first: its processors stay reserved, no other application moves; then
    // they are back at once.
    let during = run.request(1, 1);
    assert_eq!(during, [1, stable[1]]);
    assert_eq!(run.request(1, 16), stable);
    // Released in mid-quantum, they go to no other application either.
    let last = run.decision.clone();
    run.app(1).request = 1;
    let snapshot = Run::snapshot(&run.apps, run.processors, run.now, Cause::Release);
    let after = run.policy.clone().release(&snapshot, &last);
    assert_eq!(after.allocations[0].processors, 1);
    assert!(
        after.allocations[1].processors <= stable[1].max(4),
        "no more than a test allows: {after:?}"
    );
}

#[test]
fn a_newcomer_on_a_full_machine_has_one_processor_of_the_largest() {
    let mut run = Run::new(&[4, 4], 8);
    assert_eq!(numbers(&run.decision), [4, 4]);
    run.apps.push(AppView::new(AppId(3), 8));
    // 9 wanted of 8: cut to the level 4, 3, 1.
    assert_eq!(run.decide(Cause::Arrival), [4, 3, 1]);
    assert_eq!(
        run.decision.work_list,
        [AppId(2), AppId(3)],
        "a program below its base may take what is released"
    );
    // The first leaves: the second has its own back, and the newcomer its base, 4 in all.
    run.apps.remove(0);
    assert_eq!(run.decide(Cause::Exit), [4, 4]);
}

#[test]
fn idle_processors_that_no_program_can_use_admit_another_application() {
    let parameters = PdpaParameters { level: 2, max_wait: 1_000, ..PdpaParameters::default() };
    let mut run = Run::new(&[8, 8], 16);
    run.policy = Pdpa::with(parameters).expect("they are in range");
    run.decide(Cause::Arrival);
    let queue = |now: Nanos| [8, 9].map(|id| Waiting { id: AppId(id), request: 8, since: now });
    let asked = run.now;
    let admission = |run: &mut Run, now: Nanos| {
        let snapshot = Run::snapshot(&run.apps, run.processors, now, Cause::Arrival);
        let answer = run.policy.admission(&snapshot, &queue(asked));
        (answer.admit, answer.level, answer.next)
    };
    // Two run, the level is 2, and they have not found their allocations: none is admitted yet; the
    // first waits 1000 at most.
    assert_eq!(admission(&mut run, asked), (0, Some(2), Some(asked + 1_000)));
    // Both are inefficient on 4 and stable on 2: 12 of 16 idle. One is admitted; the next waits
    // until this one is stable.
    for speedup in [2.0, 1.5] {
        run.report(1, speedup);
        run.report(2, speedup);
    }
    let now = run.now;
    assert_eq!(admission(&mut run, now), (1, Some(3), Some(asked + 1_000)));
    // An application that has waited long enough comes in any case.
    assert_eq!(admission(&mut run, asked + 1_000), (2, Some(3), None));
}

#[test]
fn the_level_falls_when_an_efficient_application_finds_nothing_free() {
    let parameters = PdpaParameters { level: 1, ..PdpaParameters::default() };
    let mut run = Run::new(&[4], 8);
    run.policy = Pdpa::with(parameters).expect("they are in range");
    run.decide(Cause::Arrival);
    run.report(1, 4.0);
    let level = |run: &mut Run, queue: &[Waiting]| {
        let snapshot = Run::snapshot(&run.apps, run.processors, run.now, Cause::Arrival);
        run.policy.admission(&snapshot, queue).level
    };
    let waiting = Waiting { id: AppId(2), request: 8, since: run.now };
    assert_eq!(level(&mut run, &[waiting]), Some(2));
    run.apps.push(AppView::new(AppId(2), 8));
    assert_eq!(run.decide(Cause::Arrival), [4, 4]);
    // It would use more: the level is back at 1, so that none follows the one that leaves first.
    assert_eq!(run.report(2, 4.0), [4, 4]);
    assert_eq!(level(&mut run, &[]), Some(1));
}

#[test]
fn high_efficiency_keeps_the_merely_good_from_growing() {
    let parameters = PdpaParameters { high_efficiency: 0.9, ..PdpaParameters::default() };
    let mut run = Run::new(&[16, 16], 8);
    run.policy = Pdpa::with(parameters).expect("they are in range");
    run.decide(Cause::Arrival);
    // 0.8: good, but not good enough to grow.
    assert_eq!((run.report(1, 3.2), run.state(1)), (vec![4, 4], PdpaState::Stable));
}

#[test]
fn an_allocation_doubles_as_long_as_it_is_efficient() {
    let mut run = Run::new(&[64], 64);
    run.policy.configure("growth", &Value::Number(1.0)).expect("it is in range");
    for (speedup, next) in [(4.0, 8), (8.0, 16), (16.0, 32), (16.0, 16)] {
        assert_eq!(run.report(1, speedup), [next]);
    }
}

#[test]
fn the_level_begins_where_each_has_its_base() {
    let mut run = Run::new(&[32, 32], 64);
    let queue: Vec<Waiting> =
        (8..40).map(|id| Waiting { id: AppId(id), request: 32, since: run.now }).collect();
    let snapshot = Run::snapshot(&run.apps, run.processors, run.now, Cause::Arrival);
    let answer = run.policy.admission(&snapshot, &queue);
    assert_eq!((answer.admit, answer.level), (14, Some(16)), "16 x 4 = 64");
}

#[test]
fn one_that_has_nothing_to_search_is_waited_for_by_none() {
    // Sequential programs: 16 begin, and 48 processors idle.
    let mut run = Run::new(&[1; 16], 64);
    let queue: Vec<Waiting> =
        (100..140).map(|id| Waiting { id: AppId(id), request: 1, since: run.now }).collect();
    let snapshot = Run::snapshot(&run.apps, run.processors, run.now, Cause::Arrival);
    assert_eq!(run.policy.admission(&snapshot, &queue).admit, 40);
}

#[test]
fn a_report_counts_that_comes_when_the_request_has_fallen() {
    let mut run = Run::new(&[16], 64);
    let mut expected = 4;
    while expected < 16 {
        let processors = run.decision.of(AppId(1)).expect("it runs").processors;
        assert_eq!(processors, expected);
        // The parallel part has ended: its time and the smaller request come together.
        run.now += 1;
        let at = run.now;
        let app = run.app(1);
        app.speedup = Some(Speedup { processors, speedup: f64::from(processors), at });
        app.request = 1;
        assert_eq!(run.decide(Cause::Request), [1]);
        assert_eq!(run.decide(Cause::Quantum), [1], "a decision falls into the serial part");
        expected += 2;
        assert_eq!(run.request(1, 16), [expected]);
    }
    assert_eq!(run.state(1), PdpaState::Increasing);
}

#[test]
fn a_level_that_is_lowered_holds_from_then_on() {
    let mut run = Run::new(&[8, 8], 64);
    run.policy.configure("level", &Value::Whole(4)).expect("it is in range");
    let queue: Vec<Waiting> =
        (8..16).map(|id| Waiting { id: AppId(id), request: 8, since: run.now }).collect();
    // Inefficient on 4, and good on 2.
    let settle = |run: &mut Run, id: u64| {
        run.report(id, 2.0);
        run.report(id, 1.9);
    };
    let admission = |run: &mut Run| {
        let snapshot = Run::snapshot(&run.apps, run.processors, run.now, Cause::Arrival);
        let answer = run.policy.admission(&snapshot, &queue);
        (answer.admit, answer.level)
    };
    // Two run, and two come. As long as those search, none is admitted beyond the level; when they
    // are stable, one at a time.
    assert_eq!(admission(&mut run), (2, Some(4)));
    settle(&mut run, 1);
    settle(&mut run, 2);
    run.apps.extend([3, 4].map(|id| AppView::new(AppId(id), 8)));
    run.decide(Cause::Arrival);
    settle(&mut run, 3);
    settle(&mut run, 4);
    assert_eq!(admission(&mut run), (1, Some(5)));
    // Lowered while four run: none comes before three of them have left; nor is what was raised
    // before remembered.
    for (key, value) in [("level", 2), ("max-level", 2)] {
        run.policy.configure(key, &Value::Whole(value)).expect("it is in range");
    }
    assert_eq!(admission(&mut run), (0, Some(2)));
    run.apps.truncate(1);
    run.decide(Cause::Exit);
    assert_eq!(admission(&mut run), (1, Some(2)));
    // Beyond it idle processors bring others again, as far as that is allowed.
    run.policy.configure("max-level", &Value::Whole(3)).expect("it is in range");
    run.apps.push(AppView::new(AppId(8), 8));
    run.decide(Cause::Arrival);
    settle(&mut run, 8);
    assert_eq!(admission(&mut run), (1, Some(3)));
    run.policy.configure("max-level", &Value::Whole(1)).expect("it is in range");
    assert_eq!(admission(&mut run), (0, Some(2)), "what was raised falls with the bound");
}

#[test]
fn a_program_that_does_not_report_keeps_none_from_idle_processors_for_long() {
    const SECOND: Nanos = 1_000_000_000;
    let parameters = PdpaParameters { level: 2, ..PdpaParameters::default() };
    let mut run = Run::new(&[4, 16], 32);
    run.policy = Pdpa::with(parameters).expect("they are in range");
    run.decide(Cause::Arrival);
    let began = run.now;
    run.report(1, 4.0);
    assert_eq!((run.state(1), run.state(2)), (PdpaState::Stable, PdpaState::NoReference));
    let queue = [8, 9].map(|id| Waiting { id: AppId(id), request: 8, since: began });
    let admission = |run: &mut Run, now: Nanos| {
        let snapshot = Run::snapshot(&run.apps, run.processors, now, Cause::Arrival);
        let answer = run.policy.admission(&snapshot, &queue);
        (answer.admit, answer.level, answer.next.map(|next| next - began))
    };
    // The second may report yet; whether its request swings says nothing of that.
    assert_eq!(admission(&mut run, began + SECOND), (0, Some(2), Some(10 * SECOND)));
    run.now = began + 9 * SECOND;
    run.request(2, 1);
    run.request(2, 16);
    let now = run.now;
    assert_eq!(admission(&mut run, now), (0, Some(2), Some(10 * SECOND)));
    // It does not. One comes; it never registers, so that the next one waits as long again.
    assert_eq!(admission(&mut run, began + 10 * SECOND), (1, Some(3), Some(20 * SECOND)));
    run.apps.push(AppView::new(AppId(8), 8));
    assert_eq!(admission(&mut run, began + 11 * SECOND), (0, Some(3), Some(21 * SECOND)));
    assert_eq!(admission(&mut run, began + 21 * SECOND), (1, Some(4), Some(31 * SECOND)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// First come, first served. No application waits longer than `max-wait`; beyond the highest
    /// level only those come that have waited for that long.
    #[test]
    fn admission_keeps_to_its_bounds_whatever_happens(
        processors in 1..40_u32,
        level in 1..6_u32,
        max_level in 1..8_u32,
        steps in prop::collection::vec((0..6_u8, 1..20_u32, 0.0..1.3_f64, 0..4_000_000_000_u64), 1..120),
    ) {
        let max_wait = 15_000_000_000;
        let parameters = PdpaParameters { level, max_level, max_wait, ..PdpaParameters::default() };
        let mut run = Run::new(&[], processors);
        run.policy = Pdpa::with(parameters).expect("they are in range");
        let mut queue: Vec<Waiting> = Vec::new();
        let mut came = 0;
        for (what, number, efficiency, passes) in steps {
            run.now += passes;
            let one = run.apps.get(number as usize % run.apps.len().max(1)).map(|app| app.id.0);
            match (what, one) {
                (0 | 1, _) => {
                    came += 1;
                    queue.push(Waiting { id: AppId(came), request: number, since: run.now });
                }
                (2, Some(id)) => {
                    run.apps.retain(|app| app.id != AppId(id));
                    run.decide(Cause::Exit);
                }
                (3, Some(id)) => drop(run.request(id, number)),
                // An application in the queue goes away.
                (4, _) if !queue.is_empty() => {
                    queue.remove(number as usize % queue.len());
                }
                (_, Some(id)) => {
                    let has = run.decision.of(AppId(id)).expect("it runs").processors;
                    run.report(id, efficiency * f64::from(has));
                }
                _ => {}
            }
            let (now, running) = (run.now, run.apps.len());
            let answer = run.policy.admission(&Run::snapshot(&run.apps, processors, now, Cause::Arrival), &queue);
            let admitted = answer.admit as usize;
            prop_assert!(admitted <= queue.len());
            let most = level.max(max_level) as usize;
            let late = |waiting: &Waiting| now - waiting.since >= max_wait;
            prop_assert!(queue[..admitted].iter().enumerate().all(|(i, it)| running + i < most || late(it)), "{answer:?}");
            prop_assert!(!queue[admitted..].iter().any(late), "{answer:?} leaves a program waiting for too long");
            prop_assert!(answer.level.is_some_and(|now| (level..=level.max(max_level)).contains(&now)), "{answer:?}");
            let asked_again = answer.next.is_some_and(|next| now < next && next <= queue[admitted].since + max_wait);
            prop_assert!(if admitted == queue.len() { answer.next.is_none() } else { asked_again }, "{answer:?}");
            run.apps.extend(queue.drain(..admitted).map(|it| AppView::new(it.id, it.request)));
            if admitted > 0 {
                run.decide(Cause::Arrival);
            }
        }
    }
}
