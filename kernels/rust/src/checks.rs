//! The checks of one repetition: value, expected value, relative error, and whether it passed.

/// One check.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What was checked.
    pub name: String,
    /// What came out.
    pub value: f64,
    /// What had to come out.
    pub expected: f64,
    /// The relative error; the difference itself where 0 is expected.
    pub error: f64,
    /// The largest error that passes.
    pub tolerance: f64,
}

impl Check {
    /// False also for what is not a number.
    pub fn passed(&self) -> bool {
        self.error <= self.tolerance
    }
}

/// The checks of a repetition.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    list: Vec<Check>,
}

impl Checks {
    /// |value - expected| / |expected| must be at most `tolerance` (the difference itself where 0
    /// is expected).
    pub fn close(&mut self, name: impl Into<String>, value: f64, expected: f64, tolerance: f64) {
        let difference = (value - expected).abs();
        let error = if expected == 0.0 { difference } else { difference / expected.abs() };
        self.list.push(Check { name: name.into(), value, expected, error, tolerance });
    }

    /// The value must be the expected one. Both below 2^53.
    pub fn equal(&mut self, name: impl Into<String>, value: i64, expected: i64) {
        self.close(name, value as f64, expected as f64, 0.0);
    }

    /// True when there is at least one check and every one passed.
    pub fn passed(&self) -> bool {
        !self.list.is_empty() && self.list.iter().all(Check::passed)
    }

    /// All of them, in their order.
    pub fn list(&self) -> &[Check] {
        &self.list
    }

    /// The first one with the largest error; what is not a number is larger than all others.
    pub fn worst(&self) -> Option<&Check> {
        let is_larger = |a: f64, b: f64| a > b || (a.is_nan() && !b.is_nan());
        self.list.iter().reduce(|a, b| if is_larger(b.error, a.error) { b } else { a })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(value: f64, expected: f64) -> bool {
        let mut checks = Checks::default();
        checks.close("it", value, expected, 1e-8);
        checks.passed()
    }

    #[test]
    fn only_what_is_near_passes() {
        assert!(passes(-5.0 * (1.0 + 9e-9), -5.0) && passes(9e-9, 0.0));
        assert!(!passes(-5.0 * (1.0 + 2e-8), -5.0) && !passes(2e-8, 0.0));
        assert!(!passes(f64::NAN, 1.0) && !passes(f64::INFINITY, 1.0));
    }

    #[test]
    fn nothing_checked_is_no_success_and_one_failure_fails_all() {
        let mut checks = Checks::default();
        assert!(!checks.passed());
        checks.equal("a", 3, 3);
        assert!(checks.passed());
        checks.equal("b", 3, 4);
        checks.equal("c", 5, 5);
        assert!(!checks.passed());
        assert_eq!(checks.worst().map(|it| it.name.as_str()), Some("b"));
    }

    #[test]
    fn what_is_no_number_is_the_worst() {
        let mut checks = Checks::default();
        checks.close("a", 1e9, 1.0, 1e-8);
        checks.close("b", f64::NAN, 1.0, 1e-8);
        checks.close("c", 1e10, 1.0, 1e-8);
        assert_eq!(checks.worst().map(|it| it.name.as_str()), Some("b"));
    }
}
