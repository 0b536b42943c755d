//! What outlives a manager that is killed: its settings, its queue, and the programs that count as
//! running.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};

use cpumgr::administration::QueueReport;
use support::{EndManagers, Manager, cpumgr, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn done(manager: &Manager, words: &[&str]) {
    let output = cpumgr()
        .arg(words[0])
        .arg("--socket")
        .arg(manager.socket())
        .args(&words[1..])
        .output()
        .unwrap();
    assert!(output.status.success(), "{words:?}: {}", support::errors(&output));
}

/// Waits until what the next manager is going to know says this.
fn kept(manager: &Manager, what: &str) {
    let path = manager.dir.path().join("app.sock.settings");
    eventually(what, || {
        fs::read_to_string(&path).is_ok_and(|text| text.contains(what)).then_some(())
    });
}

#[test]
fn settings_outlive_a_kill_but_not_an_end() {
    let mut manager = Manager::start(&["--quantum", "50ms"]);
    let mut program = manager.program(1, 1);
    let pid = program.pid().to_string();
    for words in [
        &["set", "grace", "5ms"][..],
        &["policy", "pdpa", "step=4"],
        &["mpl", "3"],
        &["set", "weight", &pid, "2.5"],
    ] {
        done(&manager, words);
    }
    kept(&manager, r#""thousandths":2500"#);
    let level = |manager: &Manager| QueueReport::ask(&manager.socket()).unwrap().queue.level;
    let now = |manager: &Manager| {
        let status = manager.status().status;
        let step = status.parameters.get("step").cloned().unwrap_or_default();
        (
            status.policy,
            step,
            status.quantum_ns / 1_000_000,
            status.grace_ns / 1_000_000,
            level(manager),
        )
    };
    let usual = ("dss-ts".to_owned(), String::new(), 100, 2, None);

    manager.kill();
    manager.start_again(&[]);
    assert_eq!(now(&manager), ("pdpa".into(), "4".into(), 50, 5, Some(3)));
    program.until("it is there again", |seen| seen.alive);
    let weight = eventually("it is registered again", || {
        manager.status().programs.first().map(|it| it.weight)
    });
    assert_eq!(weight.to_bits(), 2.5_f64.to_bits());

    // The next one says something else.
    manager.kill();
    manager.start_again(&["--quantum", "30ms", "--mpl", "any", "--policy", "equip"]);
    assert_eq!(now(&manager), ("equip".into(), String::new(), 30, 5, None));

    // An intended end forgets.
    manager.signal(nix::libc::SIGTERM);
    assert!(manager.wait().success());
    manager.start_again(&[]);
    assert_eq!(now(&manager), usual);

    // What is no file of a manager is no reason not to begin.
    kept(&manager, "dss-ts");
    manager.kill();
    fs::write(manager.dir.path().join("app.sock.settings"), "\u{0}precious").unwrap();
    manager.start_again(&[]);
    assert_eq!(now(&manager), usual);
    let log = manager.log();
    assert_eq!(log.matches("cannot be read, and is left out").count(), 1, "said once: {log}");
}

/// A job that says that it runs, and ends when it is told to.
struct Job {
    child: Child,
    may_end: File,
}

impl Job {
    fn submit(socket: &Path, dir: &Path, name: usize) -> Self {
        let fifo = dir.join(format!("end{name}"));
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // For both ways: opening waits for no other process.
        let may_end = File::options().read(true).write(true).open(&fifo).unwrap();
        let mut command = cpumgr();
        command.arg("submit").arg("--socket").arg(socket).arg("--").args(["sh", "-c"]);
        let script =
            format!("echo {name} >> '{0}/order'; read word < '{0}/end{name}'", dir.display());
        let child = command.arg(script).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { child, may_end }
    }

    fn end(&mut self) {
        std::io::Write::write_all(&mut self.may_end, b"now\n").unwrap();
        assert!(eventually("a job ends", || self.child.try_wait().unwrap()).success());
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

#[test]
fn a_change_that_cannot_be_written_down_is_in_force_and_told() {
    let manager = Manager::start(&[]);
    // Nothing can be written there.
    let blocks = manager.dir.path().join("app.sock.settings.new");
    eventually("no writing has begun", || fs::create_dir(&blocks).ok());
    let set = || {
        let output = cpumgr().args(["mpl", "1", "--socket"]).arg(manager.socket()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "it is in force all the same");
        String::from_utf8(output.stderr).unwrap()
    };
    let said = eventually("a later change says so", || Some(set()).filter(|it| !it.is_empty()));
    assert!(said.contains("in force, but lost if manager"), "{said}");
    assert!(said.contains("Is a directory"), "{said}");
    // What is not written among settings alone says so, too.
    let mut sleeps = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = sleeps.id().to_string();
    let output = cpumgr().args(["attach", &pid, "--socket"]).arg(manager.socket()).output();
    let said = support::errors(&output.unwrap());
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
    assert!(said.contains("in force, but lost if manager"), "{said}");
    let table = manager.status().table();
    assert!(table.contains("\nlost if it is killed: what this one was told: Is a dir"), "{table}");
    fs::remove_dir(&blocks).unwrap();
    eventually("it is written down", || Some(set()).filter(String::is_empty));
    assert_eq!(manager.status().status.unkept, Vec::<String>::new());
}

#[test]
fn a_queue_does_not_burst_open_when_its_manager_is_killed() {
    a_queue_stays_in_order_after(Manager::kill);
}

#[test]
fn a_queue_does_not_burst_open_when_its_manager_is_stopped() {
    a_queue_stays_in_order_after(|manager| done(manager, &["stop"]));
}

fn a_queue_stays_in_order_after(end: fn(&mut Manager)) {
    let mut manager = Manager::start(&["--mpl", "1"]);
    let (socket, dir) = (manager.socket(), manager.dir.path().to_owned());
    let _ends = EndManagers(&dir);
    let order = || fs::read_to_string(dir.join("order")).unwrap_or_default().replace('\n', "");
    let waiting = |number: usize| {
        eventually("they wait", || {
            let report = QueueReport::ask(&socket).ok()?;
            (report.places.len() == number).then_some(report)
        })
    };
    let mut jobs = vec![Job::submit(&socket, &dir, 0)];
    eventually("the first one runs", || (order() == "0").then_some(()));
    for name in 1..5 {
        jobs.push(Job::submit(&socket, &dir, name));
        waiting(name);
    }
    let pids: Vec<u32> = jobs[1..].iter().map(|job| job.child.id()).collect();
    kept(&manager, &format!("\"waiting\":[{{\"pid\":{}", pids[0]));
    kept(&manager, &format!("{{\"pid\":{},", pids[3]));
    end(&mut manager);

    // The programs that wait start the next manager themselves.
    let report = waiting(4);
    assert_eq!(
        report.places.iter().map(|it| it.pid.unsigned_abs()).collect::<Vec<_>>(),
        pids,
        "first come, first served"
    );
    assert_eq!((report.queue.level, report.queue.running), (Some(1), 1));
    assert_eq!(order(), "0", "no program starts because a manager has ended");
    for (at, job) in jobs.iter_mut().enumerate() {
        eventually("the next one runs", || (order().len() == at + 1).then_some(()));
        job.end();
    }
    assert_eq!(order(), "01234");
}
