//! A test that failed beside the others runs once more, alone.
//!
//! Many tests are about what the kernel does with threads, and on two processors that others use
//! one of thousands fails now and then for what they did. Where it passes alone it counts as
//! skipped for a busy machine, and its name stands in the list at the end (with `--strict` it is a
//! failure). Where it fails again the lane fails. More than [`failures::MOST`] at once are no
//! chance.

use std::process::{Command, Stdio};

use super::count::Count;
use super::tested;
use crate::failures;

/// What a run of `command` (a `cargo test` without arguments for the test programs) found, and the
/// tests of it that passed only when they ran again: they count as passed.
pub(super) fn counted(command: &mut Command) -> anyhow::Result<(Count, Vec<String>)> {
    let (mut count, failed) = tested(command)?;
    if failed.len() as u64 != count.failed || failed.len() > failures::MOST {
        return Ok((count, Vec::new()));
    }
    let mut passed = Vec::new();
    for name in failed {
        println!("\n=== again, alone: {name}");
        match tested(&mut alone(command, &name)) {
            Ok((Count { passed: 1.., failed: 0, .. }, _)) => {
                count.failed -= 1;
                count.passed += 1;
                passed.push(name);
            }
            _ => break,
        }
    }
    Ok((count, passed))
}

/// The command once more, for this test.
fn alone(command: &Command, test: &str) -> Command {
    let mut again = Command::new(command.get_program());
    again.args(command.get_args()).args(["--", "--exact", test]).stdin(Stdio::null());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => again.env(name, value),
            None => again.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        again.current_dir(folder);
    }
    again
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three tests of which `b::c` and `d` fail; alone ($3) `then` is run.
    fn run(then: &str) -> (Count, Vec<String>) {
        let script = format!(
            r#"if [ -n "$3" ]; then {then}; exit; fi
            echo "test a ... ok"
            echo "test b::c ... FAILED"
            echo "test d - should panic ... FAILED"
            echo "test result: FAILED. 1 passed; 2 failed; 0 ignored"
            exit 101"#
        );
        let mut shell = Command::new("sh");
        counted(shell.args(["-c", &script, "cargo test"])).unwrap()
    }

    const PASSES: &str = r#"echo "test $3 ... ok"; echo "test result: ok. 1 passed; 0 failed""#;
    const FAILS: &str =
        r#"echo "test $3 ... FAILED"; echo "test result: FAILED. 0 passed; 1 failed""#;

    #[test]
    fn those_that_pass_alone_are_named_and_count_as_passed() {
        let (count, passed) = run(PASSES);
        assert_eq!((count.passed, count.failed), (3, 0));
        assert_eq!(passed, ["b::c", "d"]);
    }

    #[test]
    fn one_that_fails_again_is_a_failure() {
        let (count, passed) = run(FAILS);
        assert_eq!((count.passed, count.failed, passed), (1, 2, Vec::new()));
        let (count, passed) = run(&format!(r#"if [ $3 = d ]; then {FAILS}; else {PASSES}; fi"#));
        assert_eq!((count.passed, count.failed), (2, 1));
        assert_eq!(passed, ["b::c"]);
    }

    #[test]
    fn one_that_does_not_run_alone_is_a_failure() {
        assert_eq!(run("exit 0").0.failed, 2);
    }

    #[test]
    fn many_failures_or_one_without_a_name_are_no_chance() {
        let many = "for t in a b c d; do echo \"test $t ... FAILED\"; done
            echo \"test result: FAILED. 0 passed; 4 failed\"; exit 101";
        let mut shell = Command::new("sh");
        let (count, passed) = counted(shell.args(["-c", many])).unwrap();
        assert_eq!((count.failed, passed.len()), (4, 0));
        let mut shell = Command::new("sh");
        let unnamed = "echo 'test result: FAILED. 5 passed; 1 failed'; exit 101";
        let (count, passed) = counted(shell.args(["-c", unnamed])).unwrap();
        assert_eq!((count.failed, passed.len()), (1, 0));
    }
}
