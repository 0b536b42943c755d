//! Teams of programs (D4): those that follow a grant, and those that keep their size. Caps of
//! users.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Output, Stdio};

use support::{Compiled, Manager, cpumgr, errors, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn on(manager: &Manager, words: &[&str]) -> Output {
    cpumgr().args(words).arg("--socket").arg(manager.socket()).output().unwrap()
}

fn said(manager: &Manager, words: &[&str]) -> String {
    let output = on(manager, words);
    assert!(output.status.success(), "{words:?}: {}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_is_said_of_teams_reaches_the_program_and_the_next_manager() {
    let mut manager = Manager::start(&["--policy", "equip"]);
    let mut program = manager.program(1, 1);
    let pid = program.pid().to_string();
    assert_eq!(said(&manager, &["set", "team", &pid]), "malleable\n");
    said(&manager, &["set", "team", &pid, "fixed"]);
    eventually("it is told", || (program.ask("team") == "true").then_some(()));
    assert_eq!(said(&manager, &["set", "team", &pid]), "fixed\n");
    // What the program says of itself does not stand above that.
    program.ask("request 1");
    assert!(manager.status().programs[0].fixed_team);
    eventually("it is written down", || {
        let kept = std::fs::read_to_string(manager.dir.path().join("app.sock.settings"));
        kept.is_ok_and(|kept| kept.contains("\"team\":true")).then_some(())
    });
    manager.kill();
    manager.start_again(&["--policy", "equip"]);
    eventually("it is back with its teams", || {
        manager.status().programs.iter().any(|it| it.fixed_team).then_some(())
    });
    assert_eq!(program.ask("team"), "true");
    said(&manager, &["set", "team", &pid, "malleable"]);
    eventually("it is told", || (program.ask("team") == "false").then_some(()));
    let none = on(&manager, &["set", "team", "1", "malleable"]);
    assert_eq!(none.status.code(), Some(6));
    assert!(errors(&none).contains("cpumgr status"), "{}", errors(&none));
}

#[test]
fn a_fixed_team_keeps_its_size_beside_another_program_and_a_malleable_one_does_not() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--policy", "equip", "--cpus", &cpus]);
    let Some(compiled) = Compiled::new(&manager, "sizes") else { return };
    let start = |team: &str| {
        let mut command = cpumgr();
        command.args(["run", "--team", team, "--socket"]).arg(manager.socket()).arg("--lib");
        command.arg(&compiled.shim).args(["--", "taskset", "-c", &cpus]).arg(&compiled.program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        (child, output)
    };
    for (team, beside) in [("malleable", 1), ("fixed", 2)] {
        let (mut child, mut output) = start(team);
        let mut ask = || {
            let input = child.stdin.as_mut().unwrap();
            input.write_all(b"?").unwrap();
            let mut line = String::new();
            assert!(output.read_line(&mut line).unwrap() > 0, "{team}: it ended");
            line.trim().parse::<u32>().unwrap()
        };
        eventually("it has both", || (ask() == 2).then_some(()));
        let mut other = manager.program(2, 2);
        other.ask("spinners 2");
        // Both of them, where it was found out that the first one sleeps (`unused`).
        other.until("the other one has its own", |seen| !seen.shared && seen.processors >= 1);
        let pid = manager
            .status()
            .programs
            .iter()
            .map(|it| it.pid)
            .min_by_key(|pid| u32::from(pid.unsigned_abs() == other.pid()));
        let pid = pid.unwrap().to_string();
        eventually("its teams are of this size", || (ask() == beside).then_some(()));
        assert!((0..50).all(|_| ask() == beside), "{team}");
        // Live.
        for (team, size) in [("malleable", 1), ("fixed", 2), ("malleable", 1)] {
            said(&manager, &["set", "team", &pid, team]);
            eventually("its teams follow what was said", || (ask() == size).then_some(()));
        }
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_users_cap_holds_also_where_it_is_alone_and_is_changed_live() {
    let Some(cpus) = two_processors() else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("cpumgr.toml");
    let user = nix::unistd::geteuid().as_raw();
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(&format!("cpus = \"{cpus}\"\npolicy = \"equip\"\n[users.{user}]\nprocessors = 1\n"));
    let manager = Manager::start(&["--config", file.to_str().unwrap()]);
    let mut program = manager.program(2, 2);
    program.until("it has its user's", |seen| seen.processors == 1);
    write(&format!("cpus = \"{cpus}\"\npolicy = \"equip\"\n"));
    said(&manager, &["reload"]);
    program.until("it has both", |seen| seen.processors == 2);
    write(&format!("[users.{user}]\nprocessors = 0\n"));
    let refused = on(&manager, &["reload"]);
    assert!(errors(&refused).contains("at least 1"), "{}", errors(&refused));
}
