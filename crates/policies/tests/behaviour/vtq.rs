//! `vtq-dss`: equal CPU time, whatever the requests.

use policies::{AppId, AppView, Cause, Decision, Nanos, Policy, Snapshot, Value};
use proptest::prelude::*;

use crate::support::{create, numbers, requests};

const MS: Nanos = 1_000_000;
const QUANTUM: Nanos = 100 * MS;

/// A manager with a clock of its own that keeps time exactly and asks when the policy says so.
struct Run {
    policy: Box<dyn Policy>,
    apps: Vec<AppView>,
    processors: u32,
    masters: bool,
    now: Nanos,
    decision: Decision,
}

impl Run {
    fn new(apps: Vec<AppView>, processors: u32, masters: bool) -> Self {
        let mut run = Self {
            policy: create("vtq-dss"),
            apps,
            processors,
            masters,
            now: 0,
            decision: Decision::default(),
        };
        run.decide(Cause::Arrival);
        run
    }

    fn decide(&mut self, cause: Cause) {
        let snapshot = Snapshot {
            now: self.now,
            quantum: QUANTUM,
            processors: self.processors,
            apps: &self.apps,
            cause,
            master_always: self.masters,
        };
        let decision = self.policy.decide(&snapshot);
        assert_eq!(decision.check(&snapshot), Ok(()));
        assert!(
            decision.next.is_none_or(|next| next > self.now),
            "the policy asks for a time that has passed"
        );
        for (before, after) in self.apps.iter_mut().zip(&decision.allocations) {
            before.allocated = after.processors;
        }
        self.decision = decision;
    }

    /// Time passes up to the next timer.
    fn step(&mut self) {
        let next = self.decision.next.expect("a program waits, so that turns end");
        self.pass(next - self.now);
        self.decide(Cause::Timer);
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        let sharing = self.decision.allocations.iter().filter(|a| a.shared).count() as u64;
        let own: u32 =
            self.decision.allocations.iter().filter(|a| !a.shared).map(|a| a.processors).sum();
        let left = u64::from(self.processors - own);
        for (app, allocation) in self.apps.iter_mut().zip(&self.decision.allocations) {
            // Masters share what is left evenly.
            let received = if allocation.shared {
                time * left.min(sharing) / sharing
            } else {
                time * u64::from(allocation.processors)
            };
            app.cpu_time += received;
        }
    }

    /// Runs for `number` cycles: in each, the application with the mean request has a quantum.
    fn cycles(&mut self, number: u64) {
        let wanted: u64 =
            self.apps.iter().map(|app| u64::from(app.request.min(self.processors))).sum();
        let cycle = QUANTUM * wanted / u64::from(self.processors);
        while self.now < number * cycle {
            self.step();
        }
    }

    /// Largest minus smallest CPU time, relative to the mean.
    fn spread(&self) -> f64 {
        let times = self.apps.iter().map(|app| app.cpu_time);
        let mean = times.clone().sum::<Nanos>() as f64 / self.apps.len() as f64;
        (times.clone().max().expect("not empty") - times.min().expect("not empty")) as f64 / mean
    }
}

/// Requests of which none is below an equal share of the machine, with a load beyond 1.5.
fn saturated() -> impl Strategy<Value = (Vec<u32>, u32)> {
    (4..65_u32, 3..24_u32)
        .prop_flat_map(|(p, n)| {
            let share = p.div_ceil(n) + 1;
            (prop::collection::vec(share..=p.max(share), n as usize), Just(p))
        })
        .prop_filter("the load is beyond 1.5", |(sizes, p)| 2 * sizes.iter().sum::<u32>() > 3 * p)
}

/// Notes the applications that had processors of their own until now, or the only master without,
/// on a processor for itself, which is an equal share where there are no more processors than
/// applications.
fn note(last: &mut [Nanos], had: &Decision, processors: u32, now: Nanos) {
    let sharing = had.allocations.iter().filter(|it| it.shared).count();
    let is_a_share = sharing == 1 && processors as usize <= had.allocations.len();
    for (last, allocation) in last.iter_mut().zip(&had.allocations) {
        if if allocation.shared { is_a_share } else { allocation.processors > 0 } {
            *last = now;
        }
    }
}

#[test]
fn a_master_that_has_its_share_alone_outside_its_turns_is_not_ahead_of_others() {
    // The third one's master has the processor that is kept while the others have one each.
    let most = most_lag(&[1, 1, 3], 3, true, 800);
    assert!(most < 0.6, "{most} quanta of the machine");
}

#[test]
fn an_application_on_more_processors_has_a_shorter_turn() {
    // P = 12, load 1.5. Equal shares are 3, so that the first takes no turns: 2 all the time. 10
    // remain for requests of 4, 10, 10: 15 at most in a gang. A cycle's worth: 24 / 3 / 1.5 x 100
    // ms = 533 ms and a third of CPU time. Gang {2, 3}: 14. dss on 10: 1 each, 8 remain by 4 : 10:
    // 2.29 : 5.71, down 2, 5, the one left to the larger remainder: 3 and 7. The third has 533.3 ms
    // after 76.2 ms, the second after 177.8.
    let mut run = Run::new(requests(&[2, 4, 10, 10]), 12, false);
    assert_eq!(numbers(&run.decision), [2, 3, 7, 0]);
    assert_eq!(run.decision.next.map(|next| next / 100_000), Some(761));
    assert_eq!(
        run.decision.work_list,
        [AppId(4), AppId(2), AppId(3)],
        "the repository, then the gang"
    );
    // The first of the repository (10 <= 1.5 x 7) takes the 7, for 76.2 ms, and is at the level
    // before the gang ends.
    run.step();
    assert_eq!(numbers(&run.decision), [2, 3, 0, 7]);
    assert_eq!(run.decision.next.map(|next| next / 100_000), Some(1523));
    // Only the second is below the level; it takes what it wants of the 7, 1; the other 6 go to the
    // fourth, on credit (it and the third have received the same; the ring begins after the window,
    // at the fourth).
    run.step();
    assert_eq!(numbers(&run.decision), [2, 4, 0, 6]);
    let times: Vec<Nanos> = run.apps.iter().map(|app| app.cpu_time / MS).collect();
    assert_eq!(times, [304, 457, 533, 533]);
}

#[test]
fn a_program_that_leaves_a_gang_makes_room_for_the_repository_until_the_gang_ends() {
    let mut run = Run::new(requests(&[4, 4, 4]), 4, false);
    // Load at most 6: {1}; a cycle's worth is 4 / 1.5, rounded up for three of them: 12 / 1.5 = 8,
    // 266.7 ms: 66.7 on 4.
    assert_eq!(
        (numbers(&run.decision), run.decision.next.map(|next| next / MS)),
        (vec![4, 0, 0], Some(66))
    );
    run.pass(30 * MS);
    run.apps.remove(0);
    run.decide(Cause::Exit);
    assert_eq!(numbers(&run.decision), [4, 0]);
    // The manager's own quantum ends no turn.
    run.pass(10 * MS);
    run.decide(Cause::Quantum);
    assert_eq!(numbers(&run.decision), [4, 0]);
}

#[test]
fn without_waiting_there_are_no_turns() {
    let run = Run::new(requests(&[6, 6]), 8, true);
    assert_eq!((numbers(&run.decision), run.decision.next), (vec![4, 4], None));
}

/// What the policy promises at most: twice the number of applications times the longest gang (500
/// ms as it stands).
fn longest_wait(apps: &[AppView]) -> Nanos {
    2 * apps.len() as u64 * 500 * MS
}

#[test]
fn a_count_that_jumps_keeps_none_waiting_beyond_the_bound() {
    let mut run = Run::new(requests(&[4, 4, 4]), 4, false);
    run.step();
    // What the operating system counts for the first one leaps by 100 seconds.
    run.apps[0].cpu_time += 100_000 * MS;
    let mut last = run.now;
    while run.now < 20_000 * MS {
        run.step();
        assert!(run.now - last <= longest_wait(&run.apps), "it waits since {last} at {}", run.now);
        if run.decision.allocations[0].processors > 0 {
            last = run.now;
        }
    }
}

/// How far any application lagged at the end of any of these steps, in quanta of the whole machine:
/// an application is due an equal share of what all received, as far as its request goes.
fn most_lag(sizes: &[u32], processors: u32, masters: bool, steps: usize) -> f64 {
    let mut run = Run::new(requests(sizes), processors, masters);
    let mut due = vec![0.0_f64; sizes.len()];
    let mut most = 0.0_f64;
    for _ in 0..steps {
        let (now, before): (Nanos, Vec<Nanos>) =
            (run.now, run.apps.iter().map(|app| app.cpu_time).collect());
        run.step();
        let time = (run.now - now) as f64;
        let received: f64 =
            run.apps.iter().zip(&before).map(|(app, before)| (app.cpu_time - before) as f64).sum();
        let (mut low, mut high) = (0.0, time * f64::from(processors));
        for _ in 0..50 {
            let level = (low + high) / 2.0;
            let sum: f64 = sizes.iter().map(|&r| level.min(time * f64::from(r))).sum();
            if sum < received { low = level } else { high = level }
        }
        for ((due, &size), app) in due.iter_mut().zip(sizes).zip(&run.apps) {
            *due += high.min(time * f64::from(size));
            most = most.max(*due - app.cpu_time as f64);
        }
    }
    most / (QUANTUM * u64::from(processors)) as f64
}

#[test]
fn long_gangs_of_small_requests_put_no_program_ahead_by_more_than_a_quantum() {
    // A request of 1 makes its gang last for 500 ms. Were all the other processors one
    // application's for that long, others would lag by 2.4 quanta of the machine in the end; the
    // share of each is just below one processor.
    let sizes = [1, 9, 26, 29, 33, 26, 35, 38, 34, 6, 26, 25, 33, 8, 30, 22, 26, 26, 29, 32, 31, 5];
    // Requests of one to twelve times the equal share, one of them just above it; in gangs of one
    // on two processors.
    let just_above = [32, 8, 6, 1, 33, 20, 12, 27, 7, 31, 32, 27];
    let narrow = [18, 14, 4, 33, 28, 8, 5, 4, 20, 29, 37, 4, 31, 26, 10, 38, 6];
    for (sizes, processors, masters) in
        [(&sizes[..], 22, true), (&just_above, 12, true), (&narrow, 2, false)]
    {
        let most = most_lag(sizes, processors, masters, 800);
        assert!(most < 0.8, "{most} quanta of the machine with {sizes:?} on {processors}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Over 100 cycles the spread is below 10 %.
    #[test]
    fn saturated_applications_receive_the_same_over_100_cycles((sizes, processors) in saturated(), masters in any::<bool>()) {
        // With masters the machine is smaller by one; then every request has to be a share of the
        // rest still.
        prop_assume!(!masters || processors > 4);
        let mut run = Run::new(requests(&sizes), processors, masters);
        run.cycles(100);
        prop_assert!(run.spread() < 0.1, "spread {} of {sizes:?} on {processors}", run.spread());
    }

    /// Requests that change at random: each application has processors of its own again within the
    /// bound.
    #[test]
    fn no_program_starves_when_requests_change(
        sizes in prop::collection::vec(1..40_u32, 2..14),
        processors in 2..24_u32,
        masters in any::<bool>(),
        short_gangs in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1..40_u32, 0..120_u64), 300),
    ) {
        let mut run = Run::new(requests(&sizes), processors, masters);
        let mut bound = longest_wait(&run.apps);
        if short_gangs {
            // Then a quantum of 100 ms counts.
            run.policy.configure("longest", &Value::Time(20 * MS)).expect("it is a time");
            bound /= 5;
        }
        let mut last = vec![0; sizes.len()];
        for (who, request, after) in changes {
            let change = run.now + after * MS;
            while let Some(next) = run.decision.next.filter(|next| *next < change) {
                run.pass(next - run.now);
                let had = run.decision.clone();
                note(&mut last, &had, processors, run.now);
                run.decide(Cause::Timer);
            }
            run.pass(change - run.now);
            let had = run.decision.clone();
            note(&mut last, &had, processors, run.now);
            who.get_mut(&mut run.apps).request = request;
            run.decide(Cause::Request);
            for (app, last) in run.apps.iter().zip(&last) {
                prop_assert!(run.now - last <= bound, "{} waits since {last} at {} ({bound})", app.id, run.now);
            }
        }
    }

    /// Any requests: no application lacks more than a quantum of the machine.
    #[test]
    fn no_program_lags_by_more_than_one_quantum_of_the_machine(
        sizes in prop::collection::vec(1..40_u32, 2..24),
        processors in 2..64_u32,
        masters in any::<bool>(),
    ) {
        // Else all fit into one gang, and nothing is counted. No `prop_assume`: of many cases it
        // refuses more than a run may.
        if 2 * sizes.iter().sum::<u32>() <= 3 * processors && sizes.len() as u32 <= processors {
            return Ok(());
        }
        let most = most_lag(&sizes, processors, masters, 800);
        prop_assert!(most <= 1.0, "{most} quanta of the machine");
    }
}
