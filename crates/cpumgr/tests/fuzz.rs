//! The fuzzer of workload files finds a planted defect, and none in what is shipped.

#[path = "../examples/fuzz_workloads/fuzz.rs"]
mod fuzz;

use fuzz::{Came, SEEDS, examine, search};

#[test]
fn the_seeds_run_under_every_policy() {
    for seed in SEEDS {
        for policy in 0..12 {
            assert_eq!(examine(seed, policy, false), Ok(Came::Ran));
        }
    }
}

#[test]
fn a_reader_that_forgets_to_check_is_found() {
    let (text, defect) = search(1, 5_000, true, || true).expect_err("the defect is planted");
    assert!(!text.is_empty() && !defect.is_empty());
    assert!(matches!(examine(&text, 0, false), Ok(Came::Refused)), "the shipped reader refuses it: {text}");
}

#[test]
fn no_defect_is_found_in_some_thousand_files() {
    match search(7, 4_000, false, || true) {
        Ok(ran) => assert!(ran > 200, "only {ran} of them could be simulated: the mutations are too wild"),
        Err((text, defect)) => panic!("{text}\n{defect}"),
    }
}
