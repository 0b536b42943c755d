//! A foreign policy by which programs take turns: what the crate's own ones are made of is there
//! for it, too.

use policies::ring::Ring;
use policies::{AppView, Cause, Decision, Policy, Snapshot, crowd, turn};

use crate::support::{requests, snapshot};

/// Two programs at a time.
#[derive(Debug, Default)]
struct Pairs {
    ring: Ring,
    running: usize,
}

impl Policy for Pairs {
    fn name(&self) -> &'static str {
        "pairs"
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        self.ring.pass(if snapshot.cause == Cause::Quantum { self.running } else { 0 });
        let order = self.ring.renew(snapshot);
        let together = 2.min(snapshot.processors as usize);
        let processors = match order.len() <= together {
            true => snapshot.processors,
            false => turn::capacity(snapshot, 1),
        };
        self.running = together.min(order.len()).min(processors as usize);
        let (inside, outside) = order.split_at(self.running);
        let parts = turn::divide(snapshot, inside.to_vec(), processors);
        let work_list = inside.iter().chain(outside).copied();
        let mut decision = turn::decision(snapshot, &parts, work_list);
        let quanta = (2..).map(|place| place / 2);
        turn::announce(&mut decision, outside.iter().copied().zip(quanta));
        decision
    }
}

#[test]
fn a_policy_of_ones_own_takes_turns_with_what_others_take_turns_with() {
    let apps = requests(&[4, 4, 4, 4]);
    let mut policy = Pairs::default();
    let mut decide = |cause| {
        let decision = policy.decide(&snapshot(&apps, 5, cause, true));
        let of = |it: &policies::Allocation| (!it.shared).then_some(it.processors);
        decision.allocations.iter().map(of).collect::<Vec<_>>()
    };
    let (first, second) = ([Some(2), Some(2), None, None], [None, None, Some(2), Some(2)]);
    assert_eq!(decide(Cause::Arrival), first);
    assert_eq!(decide(Cause::Quantum), second);
    assert_eq!(decide(Cause::Request), second, "a turn passes on at the end of a quantum only");
    assert_eq!(decide(Cause::Quantum), first);
}

#[test]
fn it_conforms() {
    let found = policies::conformance::check(|| Box::<Pairs>::default());
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn what_is_due_less_than_a_processor_shares_by_its_weight() {
    let weighted = |(app, weight)| AppView { weight, ..app };
    let apps: Vec<AppView> =
        requests(&[1, 1, 1]).into_iter().zip([4.0, 1.0, 1.0]).map(weighted).collect();
    let parts = crowd::by_weight(&snapshot(&apps, 2, Cause::Arrival, true), |_| 1);
    let parts = parts.expect("weights differ");
    assert_eq!(parts.iter().map(|it| it.shared).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(parts[1].part, parts[2].part);
    let equal = crowd::one_each(&snapshot(&apps, 2, Cause::Arrival, false), 0..3);
    assert_eq!(equal.iter().map(|it| it.processors).collect::<Vec<_>>(), [1, 1, 0]);
}
