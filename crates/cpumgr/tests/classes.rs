//! Classes of a site: what they may have holds, follows the configuration while programs run, and
//! outlives the manager.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;

use support::{Manager, cpumgr, errors, eventually, two_processors};

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

/// A configuration whose classes a test writes.
struct Site {
    dir: tempfile::TempDir,
    cpus: String,
}

impl Site {
    fn new(classes: &str) -> Option<Self> {
        let site = Self { dir: tempfile::tempdir().unwrap(), cpus: two_processors()? };
        site.write(classes);
        Some(site)
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("cpumgr.toml")
    }

    fn write(&self, classes: &str) {
        let text = format!("cpus = \"{}\"\npolicy = \"equip\"\n{classes}", self.cpus);
        std::fs::write(self.file(), text).unwrap();
    }

    fn manager(&self) -> Manager {
        Manager::start(&["--config", self.file().to_str().unwrap()])
    }
}

const ALL_ARE_SMALL: &str = "[classes.small]\nmax = 1\n[classes.large]\nopen = true\n\
                             [[class-rules]]\nclass = \"small\"\nname = \"*\"\n";

#[test]
fn a_maximum_holds_follows_the_configuration_and_a_choice_outlives_the_manager() {
    let Some(site) = Site::new(ALL_ARE_SMALL) else { return };
    let mut manager = site.manager();
    let mut program = manager.program(2, 2);
    let pid = program.pid().to_string();
    program.until("it has its class's", |seen| seen.processors == 1);
    assert_eq!(said(&manager, &["set", "class", &pid]), "small\n");
    assert!(said(&manager, &["show", &pid]).contains("small"));
    let table = said(&manager, &["list"]);
    assert!(table.lines().next().unwrap().contains("CLASS") && table.contains("small"), "{table}");
    assert_eq!(manager.status().programs[0].class.as_deref(), Some("small"));
    // Live: another table, another class, and none.
    site.write(&ALL_ARE_SMALL.replace("max = 1", "max = 2"));
    said(&manager, &["reload"]);
    program.until("it has both", |seen| seen.processors == 2);
    site.write(ALL_ARE_SMALL);
    said(&manager, &["reload"]);
    program.until("it has one again", |seen| seen.processors == 1);
    said(&manager, &["set", "class", &pid, "large"]);
    program.until("it has both in another class", |seen| seen.processors == 2);
    eventually("it is written down", || {
        let kept = std::fs::read_to_string(manager.dir.path().join("app.sock.settings"));
        kept.is_ok_and(|kept| kept.contains("\"class\":\"large\"")).then_some(())
    });
    manager.kill();
    manager.start_again(&["--config", site.file().to_str().unwrap()]);
    eventually("it is back in its class", || {
        let programs = manager.status().programs;
        programs.iter().any(|it| it.class.as_deref() == Some("large")).then_some(())
    });
    said(&manager, &["set", "class", &pid, "auto"]);
    program.until("it has what the rules say", |seen| seen.processors == 1);
    let none = on(&manager, &["set", "class", &pid, "huge"]);
    assert!(errors(&none).contains("large, small"), "{}", errors(&none));
    site.write("[classes.small]\nmin = 3\nmax = 1\n");
    let refused = errors(&on(&manager, &["reload"]));
    assert!(refused.contains("cpumgr.toml:3:") && refused.contains("minimum"), "{refused}");
}

#[test]
fn bounds_of_a_program_are_changed_while_it_runs_and_outlive_the_manager() {
    let Some(cpus) = two_processors() else { return };
    let mut manager = Manager::start(&["--cpus", &cpus, "--policy", "equip"]);
    let mut program = manager.program(2, 2);
    let pid = program.pid().to_string();
    program.until("it has both", |seen| seen.processors == 2);
    let in_force = |manager: &Manager| {
        ["min", "max"].map(|what| said(manager, &["set", what, &pid]).trim().to_owned())
    };
    assert_eq!(in_force(&manager), ["1", "any"]);
    said(&manager, &["set", "max", &pid, "1"]);
    program.until("it has its maximum", |seen| seen.processors == 1);
    let shown = said(&manager, &["show", &pid]);
    assert!(shown.lines().any(|it| it.split_whitespace().eq(["at", "most", "1"])), "{shown}");
    let refused = on(&manager, &["set", "min", &pid, "2"]);
    assert_eq!(refused.status.code(), Some(6), "{}", errors(&refused));
    assert!(errors(&refused).contains("not from 2 to 1"), "{}", errors(&refused));
    eventually("it is written down", || {
        let kept = std::fs::read_to_string(manager.dir.path().join("app.sock.settings"));
        kept.is_ok_and(|kept| kept.contains("\"bounds\":[null,1]")).then_some(())
    });
    manager.kill();
    manager.start_again(&["--cpus", &cpus, "--policy", "equip"]);
    program.until("another manager has it", |seen| seen.alive);
    assert_eq!((in_force(&manager), program.seen().processors), (["1", "1"].map(String::from), 1));
    said(&manager, &["set", "max", &pid, "any"]);
    program.until("it has both again", |seen| seen.processors == 2);
    said(&manager, &["set", "min", &pid, "2"]);
    assert_eq!(in_force(&manager), ["2", "any"]);
    let other = on(&manager, &["set", "max", "1", "1"]);
    assert!(!other.status.success() && errors(&other).contains("no program"), "{}", errors(&other));
}

#[test]
fn masters_that_share_stay_off_a_reserve_until_its_class_comes() {
    let Some(site) = Site::new("[classes.urgent]\nmin = 1\nreserve = true\npriority = 5\n") else {
        return;
    };
    let manager = site.manager();
    let mut programs: Vec<_> = (0..3).map(|_| manager.program(1, 1)).collect();
    eventually("all share one processor", || {
        let used: BTreeSet<String> =
            manager.status().programs.into_iter().map(|it| it.cpus).collect();
        (manager.status().programs.len() == 3 && used.len() == 1).then_some(())
    });
    let pid = programs[0].pid().to_string();
    said(&manager, &["set", "class", &pid, "urgent"]);
    programs[0].until("it has the reserve alone", |seen| !seen.shared && seen.processors == 1);
    eventually("the others share the other one", || {
        let programs = manager.status().programs;
        let others = programs.iter().filter(|it| it.class.is_none());
        let used: BTreeSet<&str> = others.map(|it| it.cpus.as_str()).collect();
        (used.len() == 1).then_some(())
    });
}

#[test]
fn a_program_is_not_started_in_a_class_that_is_not_there() {
    let Some(site) = Site::new(ALL_ARE_SMALL) else { return };
    let manager = site.manager();
    let mark = site.dir.path().join("mark");
    let run = |words: &[&str]| {
        let mut command = cpumgr();
        command.args(["run", "--socket"]).arg(manager.socket()).args(words);
        command.args(["--", "touch"]).arg(&mark).output().unwrap()
    };
    let refused = run(&["--class", "huge"]);
    assert!(!refused.status.success() && !mark.exists());
    assert!(errors(&refused).contains("there are: large, small"), "{}", errors(&refused));
    let refused = run(&["--min", "2", "--max", "1"]);
    assert!(!refused.status.success() && !mark.exists());
    let taken = run(&["--class", "large", "--label", "night", "--min", "1", "--max", "2"]);
    assert!(taken.status.success() && mark.exists(), "{}", errors(&taken));
    let mut command = cpumgr();
    let first = site.cpus.split([',', '-']).next().unwrap();
    command.args(["run", "--socket"]).arg(manager.socket()).args(["--cpus", first, "--"]);
    let said = command.args(["grep", "Cpus_allowed_list", "/proc/self/status"]).output().unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.split_whitespace().last(), Some(first));
}

#[test]
fn a_job_that_its_class_is_too_small_for_since_a_reload_says_so_in_the_queue_and_once_in_the_log() {
    let wide = |max: u32| format!("mpl = 0\n[classes.wide]\nmax = {max}\nopen = true\n");
    let Some(site) = Site::new(&wide(2)) else { return };
    let manager = site.manager();
    let mut job = cpumgr();
    job.args(["submit", "--procs", "2", "--class", "wide", "--socket"]).arg(manager.socket());
    let job = job.args(["--", "true"]).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let queue = || said(&manager, &["queue"]);
    eventually("it waits", || queue().contains("needs 2 processors").then_some(()));
    assert!(!queue().contains("never begins"), "{}", queue());
    site.write(&wide(1));
    // Twice: the log says it once.
    said(&manager, &["reload"]);
    said(&manager, &["reload"]);
    let line = "needs 2 processors, never begins as things are: it has at most 1, for the programs \
                of class wide have so many together (its max)";
    assert!(queue().contains(line), "{}", queue());
    let log = manager.log();
    assert_eq!(log.matches("a job that waits never begins").count(), 1, "{log}");
    site.write(&wide(2));
    said(&manager, &["reload"]);
    assert!(!queue().contains("never begins"), "{}", queue());
    let queued = queue();
    let id = queued.lines().nth(1).and_then(|line| line.split_whitespace().next()).unwrap();
    said(&manager, &["cancel", id]);
    assert_eq!(job.wait_with_output().unwrap().status.code(), Some(7));
}
