//! The queue in the order of what users consumed, over the ends of managers.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::process::{Child, Stdio};

use cpumgr::administration::QueueReport;
use support::{Manager, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// One that waits.
fn submit(manager: &Manager) -> Child {
    let mut command = cpumgr();
    command.arg("submit").arg("--socket").arg(manager.socket()).args(["--", "true"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// What the user of the first that waits consumed, when it is more than `least`.
fn consumed(manager: &Manager, least: u64) -> u64 {
    eventually("the user consumed something", || {
        let report = QueueReport::ask(&manager.socket()).ok()?;
        assert_eq!(report.queue.half_life_ns, Some(86_400_000_000_000));
        let place = report.places.first()?;
        assert_eq!(place.user, Some(nix::unistd::geteuid().as_raw()));
        place.consumed_ns.filter(|consumed| *consumed > least)
    })
}

#[test]
fn what_a_user_consumed_counts_under_the_next_manager() {
    let state = tempfile::tempdir().unwrap();
    let file = state.path().join("history.redb");
    let options = ["--mpl", "0", "--history", file.to_str().unwrap(), "--fair-share", "1d"];
    let mut manager = Manager::start(&options);
    let mut program = manager.program(1, 1);
    program.ask("spinners 1");
    let mut waits = submit(&manager);
    let before = consumed(&manager, 200_000_000);
    let shown = cpumgr().arg("queue").arg("--socket").arg(manager.socket()).output().unwrap();
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    let said = "users that consumed less come first; it counts by half after 24.0h";
    assert!(text.contains(said) && text.contains(" consumed 0.0min"), "{text} {}", errors(&shown));
    for mut gone in [waits, submit(&manager)] {
        gone.kill().unwrap();
        gone.wait().unwrap();
    }
    program.kill();
    eventually("none waits", || {
        QueueReport::ask(&manager.socket()).unwrap().places.is_empty().then_some(())
    });
    manager.signal(nix::libc::SIGTERM);
    assert!(manager.wait().success());
    manager.start_again(&options);
    waits = submit(&manager);
    let after = consumed(&manager, before / 10 * 9);
    assert!(after < 100 * before, "{before} {after}");
    waits.kill().unwrap();
    waits.wait().unwrap();
}
