//! The runner of these programs: what it takes for a test that ended well, and that nothing
//! outlives its limit.

use crate::process::{again, is_again, is_well, name_of, output_of, output_within, passed_on};
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

#[test]
fn a_test_is_well_when_its_process_says_so_and_ends_as_it_says() {
    let well = "running 2 tests\ntest m::a ... ok\ntest m::b ... ok\n\ntest result: ok. 2 passed; \
                0 failed";
    let failed = "running 2 tests\ntest m::a ... ok\ntest m::b ... FAILED\n\ntest result: FAILED. \
                  1 passed; 1 failed";
    let died = "running 2 tests\ntest m::a ... ok\n";
    assert!(is_well("m::a", 2, true, well) && is_well("m::a", 0, true, well));
    assert!(!is_well("m::a", 3, true, well), "one did not run");
    assert!(!is_well("m::a", 2, true, died), "it left without a verdict");
    assert!(is_well("m::a", 2, false, failed) && !is_well("m::b", 2, false, failed));
    assert!(!is_well("m::a", 2, false, well), "a sanitizer's report");
    assert!(!is_well("m::a", 2, false, died), "a crash");
}

#[test]
fn arguments_that_say_how_tests_run_are_passed_on_and_those_that_say_which_are_not() {
    let given = [
        "m::a",
        "--skip",
        "b",
        "--nocapture",
        "--test-threads",
        "3",
        "--exact",
        "--test-threads=1",
    ];
    let expected = ["--nocapture", "--test-threads=3", "--test-threads=1"];
    assert_eq!(passed_on(given.into_iter().map(str::to_owned)), expected);
}

#[test]
fn a_test_that_fails_in_its_process_has_failed() {
    let test = name_of(&|| ());
    if is_again(test) {
        panic!("planted");
    }
    let output = output_of(again(test));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && !is_well(test, 1, false, &text), "{text}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("planted"));
}

#[test]
fn a_process_that_hangs_is_killed_with_what_it_started_and_reported() {
    let test = name_of(&|| ());
    if is_again(test) {
        // It has the descriptors, too: a wait for their end is a wait for it.
        let _ = std::process::Command::new("sleep").arg("1000").status();
        loop {
            std::thread::park();
        }
    }
    let output = output_within(again(test), Duration::from_millis(300));
    assert_eq!(output.status.signal(), Some(libc::SIGKILL));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("it hangs"), "{said}");
}
