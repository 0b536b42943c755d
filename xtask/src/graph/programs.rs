//! How many test programs a crate has: each is linked by itself, which is most of the time that a
//! build of the tests takes.

/// Crates that are limited.
const LIMITS: [(&str, usize); 1] = [("nanothreads", 15)];

/// What is wrong with `tests` test programs in crate `name`.
pub(super) fn fault(name: &str, tests: usize) -> Option<String> {
    let (_, most) = *LIMITS.iter().find(|(limited, _)| *limited == name)?;
    let remedy = "add a module to one of them: `own_process!()` gives it a process of its own";
    (tests > most).then(|| format!("{name}: {tests} test programs, more than {most}; {remedy}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_test_programs_than_allowed_are_a_fault() {
        assert_eq!((fault("nanothreads", 15), fault("another", 99)), (None, None));
        assert!(fault("nanothreads", 16).unwrap().contains("16 test programs, more than 15"));
    }
}
