//! A manager that changes its mind for a living: every grant goes from one processor to all that
//! the program wants and back, for tests of programs under changing grants (`cargo xtask flip`).
//!
//! `cargo run -p cpumgr --example flip_policy -- daemon --policy flip`; `policy flip period=10ms`
//! for another pace.

use std::process::ExitCode;

use policies::{
    Allocation, Decision, Equip, Nanos, Parameter, ParameterError, Policy, Snapshot, Value,
};

/// The time between two grants.
const PERIOD: Nanos = 20_000_000;
const SHORTEST: Nanos = 1_000_000;
const LONGEST: Nanos = 10_000_000_000;

/// All that they want in one period, their masters only in the next one.
struct Flip {
    period: Nanos,
    turns_at: Nanos,
    wide: bool,
    equal: Equip,
}

impl Flip {
    fn new() -> Self {
        Self { period: PERIOD, turns_at: 0, wide: false, equal: Equip::new() }
    }
}

impl Policy for Flip {
    fn name(&self) -> &'static str {
        "flip"
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let turn = snapshot.now >= self.turns_at;
        if turn {
            self.wide = !self.wide;
            self.turns_at = snapshot.now + self.period;
        }
        let mut decision = self.equal.decide(snapshot);
        if !self.wide {
            for allocation in decision.allocations.iter_mut().filter(|it| it.processors > 1) {
                *allocation = Allocation::own(allocation.app, 1);
            }
            decision = Decision::everybody_waits(snapshot, decision.allocations);
        }
        // Masters that share move on every time.
        decision.rotate = turn && decision.allocations.iter().any(|it| it.shared);
        decision.next = (!snapshot.apps.is_empty()).then_some(self.turns_at);
        decision
    }

    fn release(&mut self, snapshot: &Snapshot<'_>, _last: &Decision) -> Decision {
        self.decide(snapshot)
    }

    fn parameters(&self) -> Vec<Parameter> {
        vec![Parameter {
            key: "period",
            value: Value::Time(self.period),
            default: Value::Time(PERIOD),
            lowest: Value::Time(SHORTEST),
            highest: Value::Time(LONGEST),
            description: "the time between two grants",
        }]
    }

    fn configure(&mut self, key: &str, value: &Value) -> Result<(), ParameterError> {
        match (key, value) {
            ("period", Value::Time(period)) if (SHORTEST..=LONGEST).contains(period) => {
                self.period = *period;
                Ok(())
            }
            ("period", _) => {
                let allowed =
                    format!("a time from {} to {}", Value::Time(SHORTEST), Value::Time(LONGEST));
                Err(ParameterError::Value { key: "period", value: *value, allowed })
            }
            _ => Err(ParameterError::unknown(key, &self.parameters())),
        }
    }
}

fn main() -> ExitCode {
    let mut policies = cpumgr::limits::builtin();
    match policies
        .register("flip", "one processor, all, one, all: for tests", || Box::new(Flip::new()))
    {
        Ok(()) => cpumgr::run(policies),
        Err(error) => panic!("{error}"),
    }
}
