//! How loom models are explored, and how their twins are refuted, each by the message that it
//! names. For tests.
//!
//! There are two kinds of twins. One is a model with a bug of its own ([`is_refuted`]). The other
//! is a sound model in which accesses of the shipped code order nothing ([`is_needed`]): they are
//! found by the tag in their `// ORDERING:` comment. Both run in a process of their own, because
//! loom's objects panic again while a failed model is unwound.
//!
//! # What loom cannot show
//! It runs stores in the order of the program, so a missing Release is found only where a thread
//! could read too early what was written before it; and nothing comes between a store and a fence
//! that follows it at once.

use crate::sync::weakened::{Weakened, weaken};
use loom::model::Builder;
use std::env;
use std::fs;
use std::process::Command;
use std::sync::Once;

/// What loom says of accesses to plain memory that nothing orders.
pub const RACE: &str = "Causality violation";

/// What loom says when all threads sleep or wait.
pub const DEADLOCK: &str = "deadlock";

/// Set in the process of a twin with a bug of its own.
const PLANTED: &str = "LOOM_PLANTED";

/// Set in the process of a model in which an access orders nothing: file and tag.
const WEAKENED: &str = "LOOM_WEAKENED";

/// Between tags of accesses that are weakened together, each of which is enough.
const TOGETHER: &str = " and ";

/// The most lines that an access takes.
const LINES: usize = 3;

/// Explores all executions of `body` with up to three preemptions.
pub fn explore(body: impl Fn() + Sync + Send + 'static) {
    explore_within(3, body);
}

/// Explores all executions of `body` with up to `preemptions`: fewer than three for a model that is
/// too large.
pub fn explore_within(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    static PLANT: Once = Once::new();
    PLANT.call_once(|| {
        if let Ok(access) = env::var(WEAKENED) {
            let (file, tag) = access.split_once(' ').expect("file and tag");
            weaken(accesses(file, tag));
        }
    });
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// Asserts that loom finds the bug planted in `body`, the model of test `name`, and that what it
/// says first contains `says`.
///
/// # Panics
/// When it does not.
pub fn is_refuted(name: &str, says: &str, body: impl Fn() + Sync + Send + 'static) {
    if env::var_os(PLANTED).is_some() {
        explore(body);
        return;
    }
    assert_fails(name, says, (PLANTED, "1"));
}

/// Asserts that the sound model of test `name` fails once the accesses in `file` of the tested
/// crate that one of `tags` names order nothing, one tag after the other (`"A and B"`: two at once,
/// each of which would be enough), and that what it says first contains what stands beside the tag.
///
/// # Panics
/// When it does not.
pub fn is_needed(name: &str, file: &str, tags: &[(&str, &str)]) {
    for (tag, says) in tags {
        assert_fails(name, says, (WEAKENED, &format!("{file} {tag}")));
    }
}

/// Runs test `name` in a process of its own with `variable` set: it has to fail, and its first
/// panic to contain `says`.
fn assert_fails(name: &str, says: &str, (variable, value): (&str, &str)) {
    let this = || Command::new(env::current_exe().expect("the path of this test"));
    // In its module.
    let list = this().args(["--list", "--format", "terse"]).output().expect("tests can be listed");
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let tests = list.lines().filter_map(|line| line.strip_suffix(": test"));
    let called: Vec<_> = tests.filter(|test| test.rsplit("::").next() == Some(name)).collect();
    let [path] = called[..] else { panic!("one test has to be called {name}: {called:?}") };
    let mut twin = this();
    twin.args([path, "--exact", "--nocapture"]).env(variable, value).env("RUST_BACKTRACE", "0");
    let output = twin.output().expect("this test can be run again");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let twin = format!("{name} ({variable} = {value})");
    assert!(text.contains("running 1 test"), "{twin} was not run:\n{text}");
    assert!(!output.status.success(), "loom did not find the bug planted in {twin}");
    let first = text.split("panicked at ").nth(1).unwrap_or_default();
    assert!(first.contains(says), "{twin} fails, but does not say \"{says}\" first:\n{text}");
}

/// The accesses in `file` whose `// ORDERING:` comments name `tag`.
fn accesses(file: &str, tag: &str) -> Weakened {
    // Tests run in the folder of their crate.
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = |line: &&str| line.starts_with("// ORDERING");
    let names = |line: &str, tag: &str| {
        let what = line
            .strip_prefix("// ORDERING")
            .and_then(|rest| rest.split(" - ").next())
            .unwrap_or_default();
        what.contains(&format!("({tag})")) && what.contains(": ")
    };
    for tag in tag.split(TOGETHER) {
        assert!(lines.iter().any(|line| names(line, tag)), "no access in {file} is tagged ({tag})");
    }
    let is_meant = |line: &str| tag.split(TOGETHER).any(|tag| names(line, tag));
    let behind = |comment: usize| {
        let first = (comment..lines.len())
            .find(|&at| !lines[at].starts_with("//"))
            .expect("code after the comment");
        let last =
            lines[first..].iter().take(LINES).take_while(|line| !begins(line)).count() + first;
        (number(first + 1), number(last))
    };
    let lines: Vec<(u32, u32)> =
        (0..lines.len()).filter(|&at| is_meant(lines[at])).map(behind).collect();
    // Of a crate beside this one, too: places in the source begin at the workspace.
    Weakened { file: file.trim_start_matches("../").to_owned(), lines }
}

fn number(line: usize) -> u32 {
    u32::try_from(line).expect("a line of a source file")
}
