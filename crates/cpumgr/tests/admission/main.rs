//! Programs that wait to be started, and programs that know nothing of a manager.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod attaching;
mod queueing;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::channel;

use cpumgr::administration::QueueReport;
use platform::affinity::{CpuSet, Tid, affinity, current_tid, set_affinity};
use support::{ANSWERS_WITHIN, Manager, cpumgr, errors, eventually, two_processors};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A process of three threads that knows nothing of a manager: makes one more for each line that it
/// reads.
#[test]
fn acts_as_a_stranger() {
    if std::env::var_os("CPUMGR_TEST_STRANGER").is_none() {
        return;
    }
    let make = || {
        let (say, hear) = channel();
        std::thread::spawn(move || {
            say.send(current_tid()).unwrap();
            loop {
                std::thread::park();
            }
        });
        hear.recv().unwrap()
    };
    let spin = || {
        let (say, hear) = channel();
        std::thread::spawn(move || {
            say.send(current_tid()).unwrap();
            loop {
                std::hint::spin_loop();
            }
        });
        hear.recv().unwrap()
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {} {}", make().0, make().0).unwrap();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        match line.strip_prefix("bind ") {
            None if line == "spin" => writeln!(out, "> {}", spin().0).unwrap(),
            Some(list) => {
                set_affinity(None, &CpuSet::parse_list(list).unwrap()).unwrap();
                writeln!(out, "> {}", current_tid().0).unwrap();
            }
            None => writeln!(out, "> {}", make().0).unwrap(),
        }
    }
}

struct Stranger {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Stranger {
    fn start() -> (Self, Vec<Tid>) {
        Self::start_by(Command::new(std::env::current_exe().unwrap()))
    }

    /// The same with processors of its own, as under `taskset`.
    fn start_on(cpus: &CpuSet) -> (Self, Vec<Tid>) {
        let cpus = cpus.clone();
        // In a thread of its own, since masks are the threads' own and children inherit them.
        let bound = std::thread::spawn(move || {
            set_affinity(None, &cpus).unwrap();
            Self::start()
        });
        bound.join().unwrap()
    }

    /// The same by `cpumgr run` or `submit`.
    fn run(manager: &Manager, verb: &str, options: &[&str]) -> (Self, Vec<Tid>) {
        let mut command = cpumgr();
        command.arg(verb).arg("--socket").arg(manager.socket()).args(options).arg("--");
        command.arg(std::env::current_exe().unwrap()).stderr(Stdio::null());
        Self::start_by(command)
    }

    fn start_by(mut command: Command) -> (Self, Vec<Tid>) {
        command.args(["--exact", "acts_as_a_stranger", "--nocapture", "--test-threads=1"]);
        command.env("CPUMGR_TEST_STRANGER", "1").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut stranger = Self { child, output };
        let mut tids = stranger.answer();
        tids.push(Tid(stranger.pid().cast_signed()));
        (stranger, tids)
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn answer(&mut self) -> Vec<Tid> {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0);
            if let Some((_, numbers)) = line.split_once("> ") {
                return numbers
                    .split_whitespace()
                    .map(|number| Tid(number.parse().unwrap()))
                    .collect();
            }
        }
    }

    fn say(&mut self, line: &str) -> Tid {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.answer()[0]
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

fn say(manager: &Manager, words: &[&str]) -> Output {
    cpumgr().arg(words[0]).arg("--socket").arg(manager.socket()).args(&words[1..]).output().unwrap()
}

fn done(manager: &Manager, words: &[&str]) {
    let output = say(manager, words);
    assert!(output.status.success(), "{words:?}: {}", errors(&output));
}

fn masks(tids: &[Tid]) -> Vec<CpuSet> {
    tids.iter().map(|tid| affinity(Some(*tid)).unwrap()).collect()
}
