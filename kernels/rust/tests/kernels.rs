//! Each kernel as its users run it: class S on both runtimes with several thread numbers, and its
//! exit codes.

use std::process::{Command, ExitCode, Output};

use clap::Parser;
use nanothreads_kernels::loops::Loops;
use nanothreads_kernels::options::Options;
use nanothreads_kernels::program::{self, Kernel};
use nanothreads_kernels::report::Report;

const PROGRAMS: &[(&str, &str)] = &[
    ("ep", env!("CARGO_BIN_EXE_ep")),
    ("cg", env!("CARGO_BIN_EXE_cg")),
    ("is", env!("CARGO_BIN_EXE_is")),
    ("mg", env!("CARGO_BIN_EXE_mg")),
    ("ft", env!("CARGO_BIN_EXE_ft")),
    ("bt", env!("CARGO_BIN_EXE_bt")),
];

fn run(program: &str, threads: &str, arguments: &str) -> Output {
    Command::new(program)
        .args(arguments.split_whitespace())
        .env("OMP_NUM_THREADS", threads)
        .env("RAYON_NUM_THREADS", threads)
        .output()
        .expect("the program was built, so that it starts")
}

#[test]
fn every_kernel_verifies_on_both_runtimes_with_any_number_of_threads() {
    for (name, program) in PROGRAMS {
        for runtime in ["nanothreads", "rayon"] {
            for threads in ["1", "2", "3", "4"] {
                let output = run(program, threads, &format!("--quiet --json --runtime {runtime}"));
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{name}, {runtime}, {threads}: {errors}");
                let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(line["kernel"], *name);
                assert_eq!(line["language"], "rust");
                assert_eq!(line["class"], "S");
                // nanothreads may have fewer while other programs take its processors.
                let (seen, asked) = (line["threads"].as_u64().unwrap(), threads.parse().unwrap());
                assert!(seen >= 1 && seen <= asked, "{name}, {runtime}, {threads}: {seen}");
                assert!(seen == asked || runtime == "nanothreads", "{name}, {threads}: {seen}");
                assert_eq!(line["repetitions"], 1);
                assert_eq!(line["verified"], true);
                assert!(line["seconds"][0].as_f64().unwrap() > 0.0);
                assert!(!line["checks"].as_array().unwrap().is_empty());
            }
        }
    }
}

#[test]
fn what_a_kernel_does_not_know_has_exit_code_2() {
    for (name, program) in PROGRAMS {
        for wrong in ["--class Z", "--unknown", "--repeat 0", "--seconds 1 --repeat 1"] {
            assert_eq!(run(program, "1", wrong).status.code(), Some(2), "{name} {wrong}");
        }
        assert_eq!(run(program, "none", "").status.code(), Some(2), "{name}");
    }
}

#[test]
fn a_result_that_cannot_be_written_has_exit_code_1_and_says_so() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for (name, program) in PROGRAMS {
        let mut command = Command::new(program);
        let output = command.arg("--json").stdout(full.try_clone().unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {said}");
        assert!(said.starts_with(&format!("{name}: the result could not be written")), "{said}");
    }
}

/// A kernel whose second repetition is wrong.
struct Wrong;

impl Kernel for Wrong {
    fn run<L: Loops>(loops: &L, options: &Options) -> Report {
        let mut report = Report::begin("wrong", options, loops.threads(), 1, 1.0);
        let mut repetitions = 0;
        while report.again() {
            repetitions += 1;
            let sum = loops.reduce(0..100, 0, |part| part.sum::<usize>(), |a, b| a + b);
            report.time(|| ());
            let expected = if repetitions == 2 { 4951 } else { 4950 };
            report.checks().equal("sum", sum as i64, expected);
        }
        assert!(repetitions <= 2, "it went on after a failed check");
        report
    }
}

#[test]
fn a_wrong_result_ends_the_repetitions_and_has_exit_code_1() {
    for runtime in ["nanothreads", "rayon"] {
        let code = |repeat| {
            let words = ["wrong", "--quiet", "--runtime", runtime, "--repeat", repeat];
            program::execute::<Wrong>(&Options::parse_from(words))
        };
        assert_eq!(code("1"), ExitCode::SUCCESS);
        assert_eq!(code("3"), ExitCode::FAILURE);
    }
}
