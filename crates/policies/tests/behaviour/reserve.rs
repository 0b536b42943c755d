//! A foreign policy, from the examples: short, sound, and of use against masters that share.

#[allow(dead_code, unreachable_pub, reason = "it is a program of its own, too")]
#[path = "../../examples/reserve.rs"]
mod example;

use example::Reserve;
use policies::sim::{Job, MachineSpec, Options, Program, Span, Workload, simulate};
use policies::{AppId, AppView, Cause, DEFAULT_POLICY, Policy, Registry, Value};

use crate::support::snapshot;

#[test]
fn a_policy_of_ones_own_takes_forty_lines_at_most() {
    let text = include_str!("../../examples/reserve.rs");
    let policy = text.split("fn main").next().expect("there is a first part");
    let code = policy.lines().filter(|line| !line.is_empty() && !line.starts_with("//!"));
    let lines = code.count();
    assert!((20..=40).contains(&lines), "{lines}");
}

#[test]
fn its_decisions_obey_the_rules() {
    let mut policy = Reserve::default();
    for processors in 0..9 {
        for (quick, others) in (0..6).flat_map(|quick| (0..12).map(move |others| (quick, others))) {
            let mut apps: Vec<AppView> = (0..quick + others)
                .map(|i| AppView::new(AppId(i), 1 + u32::try_from(i).expect("small") % 5))
                .collect();
            apps.iter_mut()
                .filter(|app| app.id.0 < quick)
                .for_each(|app| app.program = Some(AppView::number_of("editor")));
            for cause in [Cause::Arrival, Cause::Quantum] {
                let snapshot = snapshot(&apps, processors, cause, true);
                assert_eq!(policy.decide(&snapshot).check(&snapshot), Ok(()), "{snapshot:?}");
            }
        }
    }
}

#[test]
fn a_reserve_holds_against_masters_that_share() {
    let mut registry = Registry::with_builtin();
    registry.register("reserve", "", || Box::<Reserve>::default()).expect("the name is free");
    let program = Program::new(2, Span::from_ms(100));
    let programs = ["editor", "hog"].map(|name| (name.to_owned(), program.clone()));
    let jobs = vec![Job::new("hog", 8, 1), Job::new("editor", 1, 1)];
    let workload = Workload::new(MachineSpec::flat(4), programs.into(), jobs);
    let answer = |policy: &str| {
        let outcome = simulate(&workload, &registry, &Options::policy(policy)).expect("it ends");
        outcome.executions.iter().find(|it| it.program == "editor").expect("it ran").response()
    };
    // One of four processors is the editor's: 100 ms of work. Shared by nine: some 200.
    assert_eq!(answer("reserve"), 100_000_000);
    assert!(answer(DEFAULT_POLICY) > 180_000_000);
}

#[test]
fn its_parameters_are_changed_as_those_of_others() {
    let mut policy = Reserve::default();
    policy.configure("percent", &Value::Whole(50)).expect("it is in range");
    assert!(policy.configure("percent", &Value::Whole(91)).is_err());
    assert_eq!(policy.parameters()[0].value, Value::Whole(50));
}

#[test]
fn it_conforms() {
    let found = policies::conformance::check(|| Box::<Reserve>::default());
    assert!(found.is_ok(), "{found:?}");
}
