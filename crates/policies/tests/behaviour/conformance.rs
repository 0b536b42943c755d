//! The test for authors of policies: it passes what keeps the rules and names what does not.

use policies::conformance::{Conduct, Violation, check};
use policies::{
    Admission, Allocation, Cause, Decision, DssTs, Parameter, ParameterError, Policy, Snapshot,
    Value, Waiting,
};

use crate::support::{all, create};

#[test]
fn every_policy_of_the_crate_conforms() {
    for name in all().names() {
        let conduct = check(|| create(name)).unwrap_or_else(|violation| panic!("{violation}"));
        let waiting = if name == "none" { 0 } else { 100 };
        assert!(conduct.decisions > 5000 && conduct.with_waiting >= waiting, "{name}: {conduct:?}");
    }
}

/// `dss-ts` with one fault.
struct Faulty {
    inner: DssTs,
    fault: Fault,
    /// Counts decisions, or quanta.
    asked: u64,
    /// Which object of its kind it is.
    object: u64,
    level: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    TooMany,
    TwoMinds,
    Restless,
    Hurries,
    Grabs,
    AdmitsAnyone,
    Forgets,
    Panics,
}

impl Policy for Faulty {
    fn name(&self) -> &'static str {
        "faulty"
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let turns = self.fault != Fault::Hurries || snapshot.cause == Cause::Quantum;
        self.asked += u64::from(turns);
        let mut decision = self.inner.decide(snapshot);
        let takes_one = match self.fault {
            Fault::TwoMinds => self.object.is_multiple_of(2),
            Fault::Restless | Fault::Hurries => self.asked.is_multiple_of(2),
            Fault::Panics => {
                assert!(snapshot.apps.len() < 9, "nine is too many");
                false
            }
            _ => false,
        };
        if takes_one {
            let large = decision.allocations.iter_mut().find(|it| it.processors > 1);
            large.into_iter().for_each(|it| it.processors -= 1);
            decision = Decision::everybody_waits(snapshot, decision.allocations);
        }
        if self.fault == Fault::TooMany
            && let Some(Allocation { processors, .. }) = decision.allocations.last_mut()
        {
            *processors += 1;
        }
        decision
    }

    fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        if self.fault == Fault::Grabs {
            self.decide(snapshot)
        } else {
            last.after_release(snapshot)
        }
    }

    fn admission(&mut self, _: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
        let mut answer = Admission::everybody(queue);
        answer.admit += u32::from(self.fault == Fault::AdmitsAnyone);
        answer
    }

    fn is_timeless(&self) -> bool {
        self.fault == Fault::Hurries
    }

    fn parameters(&self) -> Vec<Parameter> {
        let [value, lowest, highest] = [self.level, 0, 9].map(Value::Whole);
        let description = "a number";
        vec![Parameter { key: "level", value, default: lowest, lowest, highest, description }]
    }

    fn configure(&mut self, key: &str, value: &Value) -> Result<(), ParameterError> {
        match (key, value) {
            ("level", Value::Whole(level)) => {
                self.level = if self.fault == Fault::Forgets { 0 } else { *level };
                Ok(())
            }
            _ => Err(ParameterError::unknown(key, &self.parameters())),
        }
    }
}

fn try_fault(fault: Fault) -> Result<Conduct, Violation> {
    let object = std::cell::Cell::new(0);
    check(|| {
        object.set(object.get() + 1);
        let (object, inner) = (object.get(), DssTs::new());
        Box::new(Faulty { inner, fault, asked: 0, object, level: 0 })
    })
}

#[test]
fn each_fault_is_named_by_its_rule() {
    for (fault, rule, has) in [
        (Fault::TooMany, "C1", "processors"),
        (Fault::TwoMinds, "C2", "and"),
        (Fault::Restless, "C3", "became"),
        (Fault::Hurries, "C7", "became"),
        (Fault::Grabs, "C4", "has"),
        (Fault::AdmitsAnyone, "C5", "admits"),
        (Fault::Forgets, "C6", "level"),
        (Fault::Panics, "C8", "nine is too many"),
    ] {
        let violation = try_fault(fault).expect_err("it has a fault");
        assert_eq!(violation.rule, rule, "{violation}");
        let text = violation.to_string();
        assert!(text.contains("policy faulty breaks") && text.contains(has), "{text}");
        assert_eq!(try_fault(fault), Err(violation), "the same fault each time");
    }
}
