//! The fuzzer of workload files finds a planted defect, and none in what is shipped.

#[path = "../examples/fuzz_workloads/fuzz.rs"]
mod fuzz;

use fuzz::{Came, examine, search, seeds};
use policies::{Needs, Registry};

#[test]
fn the_seeds_run_under_every_policy() {
    for seed in seeds() {
        for policy in 0..12 {
            assert_eq!(examine(&seed, policy, false), Ok(Came::Ran), "{seed}");
        }
    }
}

#[test]
fn the_seeds_have_every_parameter_of_every_policy_and_a_pattern_file() {
    let all = seeds().concat();
    let registry = Registry::with_builtin_for(Needs::EVERYTHING);
    for name in registry.names() {
        let policy = registry.create(name).expect("it is listed");
        for parameter in policy.parameters() {
            assert!(all.contains(&format!("\n{} = ", parameter.key)), "{name}: {}", parameter.key);
        }
    }
    assert!(all.contains("{ file = \"requests\" }"));
    // What stands in the file is read: line 2 of it is no number.
    let text =
        seeds().into_iter().find(|seed| seed.contains("requests")).expect("one has a pattern file");
    assert_eq!(examine(&text.replace("#| 4 # both", "#| four"), 0, false), Ok(Came::Refused));
}

#[test]
fn a_reader_that_forgets_to_check_is_found() {
    let (text, defect) = search(1, 5_000, true, || true).expect_err("the defect is planted");
    assert!(!text.is_empty() && !defect.is_empty());
    assert!(
        matches!(examine(&text, 0, false), Ok(Came::Refused)),
        "the shipped reader refuses it: {text}"
    );
}

#[test]
fn no_defect_is_found_in_some_thousand_files() {
    match search(7, 4_000, false, || true) {
        Ok(ran) => {
            assert!(ran > 200, "only {ran} of them could be simulated: the mutations are too wild")
        }
        Err((text, defect)) => panic!("{text}\n{defect}"),
    }
}
