//! `cpumgr status`: what each program asks for and what it has.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arena::client::{ConnectError, Connection};
use arena::message::{FromManager, Narrow, ProgramStatus, QueuedStatus, Status, ToManager};
use platform::affinity::CpuSet;
use policies::sim::Forecast;
use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::administration::{self, QueueReport};
use crate::advice;
use crate::duration;
use crate::libraries::{self, Mounts};
use crate::server::MAX_PROGRAMS;

pub use crate::libraries::Library;

/// How long each part of the answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long the libraries of all programs together are looked for.
const LOOK: Duration = Duration::from_millis(500);

/// A whole report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where it comes from.
    pub socket: String,
    /// The manager.
    #[serde(flatten)]
    pub status: Status,
    /// Its programs in order of arrival.
    pub programs: Vec<ProgramStatus>,
    /// The programs that wait to be started, the next one first.
    pub queue: Vec<QueuedStatus>,
    /// What turns and sharing would make of these programs.
    pub advice: Option<Forecast>,
    /// The OpenMP libraries that each program has mapped, by process: which one was really taken
    /// (D17). What the kernel shows to the process that asks for the report; nothing for processes
    /// of other users, and of those that there was no time for (half a second for all of them: a
    /// program may have 65,530 maps).
    pub loaded: BTreeMap<i32, Vec<Library>>,
}

impl Report {
    /// Asks the manager at `socket`.
    ///
    /// # Errors
    /// When there is none, or what answers is none.
    pub fn ask(socket: &Path) -> Result<Self, ConnectError> {
        let mut report = Self::glance(socket)?;
        let pids = report.programs.iter().map(|program| program.pid);
        let pids = pids.chain(report.status.silent.iter().copied());
        let mounts = Mounts::read();
        let until = Instant::now() + LOOK;
        let of = |pid: i32| (pid, libraries::of_process(pid, &mounts, until));
        report.loaded = pids.map(of).collect();
        report.advice = advice::of(&report.programs, report.status.processor_count);
        Ok(report)
    }

    /// The same without what costs more than the answer: libraries and advice are left out.
    ///
    /// # Errors
    /// As [`Report::ask`].
    pub fn glance(socket: &Path) -> Result<Self, ConnectError> {
        let connection = Connection::open(socket, ANSWER)?;
        let (status, programs) = whole(&connection, socket)?;
        let QueueReport { places: queue, .. } = QueueReport::ask_on(&connection, socket)?;
        let socket = socket.display().to_string();
        let (advice, loaded) = (None, BTreeMap::new());
        Ok(Self { socket, status, programs, queue, advice, loaded })
    }

    /// As a table for people.
    pub fn table(&self) -> String {
        let Status {
            policy,
            quantum_ns,
            grace_ns,
            processors,
            processor_count,
            manager_pid,
            uptime_ns,
            ..
        } = &self.status;
        let plural = if *processor_count == 1 { "" } else { "s" };
        let (quantum, grace) = (Duration::from_nanos(*quantum_ns), Duration::from_nanos(*grace_ns));
        let mut text = format!(
            "manager {manager_pid} at {}, up {}\n\
             policy {policy}, quantum {}, grace {}, {processor_count} processor{plural}: \
             {processors}\n",
            self.socket,
            age(*uptime_ns),
            duration::show(quantum),
            duration::show(grace),
        );
        if let Some(Narrow { processors, of, why, .. }) = &self.status.narrow {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "manages {processors} of {of}: {why}");
        }
        if !self.status.kept.is_empty() {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "kept of its starter: {}", self.status.kept.join(", "));
        }
        if !self.status.unkept.is_empty() {
            let unkept = self.status.unkept.join("; ");
            // Writing to a string cannot fail.
            let _written = writeln!(text, "lost if it is killed: {unkept}");
        }
        if let Some(level) = self.status.level {
            // Writing to a string cannot fail.
            let _written = match level {
                1 => writeln!(text, "at most 1 program runs at once"),
                _ => writeln!(text, "at most {level} programs run at once"),
            };
        }
        if let Some(failure) = &self.status.policy_failure {
            // Writing to a string cannot fail.
            let _written = writeln!(
                text,
                "{policy} stands in: {failure}; `cpumgr policy NAME` sets another one"
            );
        }
        if !self.status.left.is_empty() {
            // Writing to a string cannot fail.
            let _written =
                writeln!(text, "left to other processes, which run there: {}", self.status.left);
        }
        if !self.status.drained.is_empty() {
            // Writing to a string cannot fail.
            let _written = writeln!(
                text,
                "drained: {}; `cpumgr undrain` gives them back",
                self.status.drained
            );
        }
        if let Some(fences) = &self.status.fences {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "fences below {fences}");
        }
        if self.programs.is_empty() {
            text.push_str("no programs\n");
        } else {
            text.push_str(&table_of(&self.programs));
        }
        if let Some(advice) = &self.advice {
            text.push_str(&advice::line(advice));
        }
        for program in &self.programs {
            if let Some(why) = self.why_not_more(program) {
                // Writing to a string cannot fail.
                let _written = writeln!(
                    text,
                    "{} asks for {} and has {}: {why}",
                    program.pid, program.request, program.granted
                );
            }
        }
        for program in &self.programs {
            if let Some(within) = &program.within {
                // Writing to a string cannot fail.
                let _written = writeln!(
                    text,
                    "{} stays on processors {within} (OMP_PLACES, taskset, a cpuset, an attached \
                     parent)",
                    program.pid
                );
            }
        }
        for program in &self.programs {
            if let Some(fence) = &program.fence {
                // Writing to a string cannot fail.
                let _written = writeln!(
                    text,
                    "{} is fenced in, on processors {}: it bound itself to what was taken from it \
                     ({fence})",
                    program.pid, program.cpus
                );
            }
        }
        for (pid, libraries) in &self.loaded {
            if let Some(said) = says(self.status.silent.contains(pid), libraries) {
                let reason = self.status.reasons.iter().find(|(of, _)| of == pid);
                let reason = reason.map_or_else(String::new, |(_, reason)| format!("; {reason}"));
                // Writing to a string cannot fail.
                let _written = writeln!(text, "{pid} {said}{reason}");
            }
        }
        if !self.queue.is_empty() {
            text.push_str("waiting to be started:\n");
            self.queue.iter().for_each(|place| text.push_str(&administration::place_text(place)));
        }
        text
    }

    /// Why a program has fewer processors than it asks for.
    pub(crate) fn why_not_more(&self, program: &ProgramStatus) -> Option<String> {
        let Status { processor_count, processors, left, drained, .. } = &self.status;
        if program.granted >= program.request {
            return None;
        }
        let others = self.programs.len() - 1;
        let plural = if others == 1 { "" } else { "s" };
        Some(match (program.within.as_ref(), others) {
            (Some(within), _) if program.granted >= program.max => format!("it stays on {within}"),
            _ if program.granted >= *processor_count => {
                format!("there are no others than {processors}")
            }
            _ if program.granted >= program.max => {
                format!("it can use no more than {} here", program.max)
            }
            _ if !drained.is_empty() && program.granted + count(drained) >= *processor_count => {
                format!("{drained} is drained")
            }
            (_, 0) if !left.is_empty() => {
                format!("{left} is left to other processes, which run there")
            }
            (_, 0) => format!("policy {} gives it no more now", self.status.policy),
            _ if program.shared => format!("it takes turns, beside {others} other program{plural}"),
            _ => format!(
                "{others} other program{plural} {} a share",
                if others == 1 { "has" } else { "have" }
            ),
        })
    }
}

/// How many processors a list names.
fn count(list: &str) -> u32 {
    let set = CpuSet::parse_list(list).unwrap_or_default();
    u32::try_from(set.len()).unwrap_or(u32::MAX)
}

/// The column of the classes.
const CLASS: &str = "CLASS";

/// Programs as rows.
pub(crate) fn table_of(programs: &[ProgramStatus]) -> String {
    let header = [
        "PID", "NAME", "REQUEST", "GRANTED", "CPUS", "SHARED", "SQUEEZED", "WEIGHT", CLASS,
        "LIBRARY", "VPS", "AGE",
    ];
    let rows: Vec<_> =
        std::iter::once(header.map(String::from)).chain(programs.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    // Where a site has no classes they take no room.
    let has_classes = programs.iter().any(|program| program.class.is_some());
    let is_shown = |column: usize| header[column] != CLASS || has_classes;
    let widths: Vec<(usize, usize)> =
        (0..header.len()).filter(|it| is_shown(*it)).map(|it| (it, width(it))).collect();
    let line = |row: &[String; 12]| {
        let cells = widths.iter().map(|(column, width)| {
            let cell = &row[*column];
            format!("{cell}{}", " ".repeat(width - cell.width() + 2))
        });
        cells.collect::<String>().trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// What a manager says of itself, without its programs.
///
/// # Errors
/// As [`Report::ask`].
pub fn of_manager(socket: &Path) -> Result<Status, ConnectError> {
    head(&Connection::open(socket, ANSWER)?, socket)
}

/// One connection for many questions.
#[derive(Debug)]
pub(crate) struct Watcher {
    connection: Connection,
    socket: PathBuf,
}

impl Watcher {
    /// At the manager at `socket`.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn open(socket: &Path) -> Result<Self, ConnectError> {
        Ok(Self { connection: Connection::open(socket, ANSWER)?, socket: socket.to_owned() })
    }

    /// The programs that are there now.
    ///
    /// # Errors
    /// As [`Report::ask`]; then this connection is of no more use.
    pub(crate) fn programs(&self) -> Result<Vec<ProgramStatus>, ConnectError> {
        whole(&self.connection, &self.socket).map(|(_, programs)| programs)
    }
}

/// The manager and its programs.
fn whole(
    connection: &Connection,
    socket: &Path,
) -> Result<(Status, Vec<ProgramStatus>), ConnectError> {
    let status = head(connection, socket)?;
    let count = status.program_count as usize;
    if count > MAX_PROGRAMS {
        let what = format!("it claims {count} programs, the most is {MAX_PROGRAMS}");
        return Err(connection.broken(what));
    }
    let mut programs = Vec::new();
    while programs.len() < count {
        match connection.receive()?.0 {
            FromManager::Programs(part) if !part.programs.is_empty() => {
                programs.extend(part.programs)
            }
            other => {
                return Err(connection.broken(format!("its report goes on with {other:?}")));
            }
        }
    }
    Ok((status, programs))
}

/// The beginning of a report; the parts that follow it are the caller's.
fn head(connection: &Connection, socket: &Path) -> Result<Status, ConnectError> {
    connection.send(&ToManager::Status)?;
    match connection.receive()?.0 {
        FromManager::Status(status) => Ok(*status),
        FromManager::Refused(refused) => {
            Err(ConnectError::Refused { path: socket.to_owned(), refused })
        }
        other => {
            Err(connection.broken(format!("it answered a question for its status with {other:?}")))
        }
    }
}

/// Which library a process takes its OpenMP from: in a process that speaks to the manager it is
/// ours, and others that are mapped as well (those that wheels carry) are not used; `None` when
/// there is nothing to say.
fn says(silent: bool, libraries: &[Library]) -> Option<String> {
    let (ours, others): (Vec<_>, Vec<_>) = libraries.iter().partition(|library| library.ours);
    let names =
        |all: &[&Library]| all.iter().map(|it| it.path.clone()).collect::<Vec<_>>().join(" and ");
    match (silent, ours.is_empty(), others.is_empty()) {
        (true, true, true) => Some("was started by run and uses no OpenMP library (yet)".into()),
        (true, false, true) => Some(format!("has {} and no parallel region yet", names(&ours))),
        (true, true, false) => Some(format!("is not managed: it uses {}", names(&others))),
        (true, false, false) => Some(format!(
            "is not managed (yet): it has {} and also {}",
            names(&ours),
            names(&others)
        )),
        (false, _, true) if ours.is_empty() => None,
        (false, _, true) => Some(format!("uses {}", names(&ours))),
        (false, true, false) => Some(format!("uses {}", names(&others))),
        (false, false, false) => {
            Some(format!("uses {}; mapped and not used: {}", names(&ours), names(&others)))
        }
    }
}

fn row(program: &ProgramStatus) -> [String; 12] {
    let text = |text: &str| {
        if text.is_empty() { String::from("-") } else { text.to_owned() }
    };
    [
        program.pid.to_string(),
        text(&program.name),
        program.request.to_string(),
        program.granted.to_string(),
        program.cpus.clone(),
        if program.shared { "yes" } else { "no" }.into(),
        program.preempted.to_string(),
        program.weight.to_string(),
        text(program.class.as_deref().unwrap_or_default()),
        // It does not speak to the manager: its threads are bound from outside.
        if program.attached { "(attached)".into() } else { text(&program.library) },
        program.vps.to_string(),
        age(program.age_ns),
    ]
}

/// A time as people say it.
pub(crate) fn age(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{}ms", ns / 1_000_000),
        1..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of a manager with some of everything.
    pub(crate) fn of_a_manager() -> Status {
        Status {
            manager_pid: 7,
            uptime_ns: 5_000_000,
            policy: "dss-ts".into(),
            policy_failure: None,
            parameters: std::collections::BTreeMap::new(),
            quantum_ns: 100_000_000,
            grace_ns: 2_000_000,
            waiting: 1,
            processors: "0-1".into(),
            processor_count: 2,
            left: String::new(),
            drained: String::new(),
            trace: None,
            trace_fault: None,
            program_count: 1,
            silent: vec![44],
            fences: Some("/sys/fs/cgroup/cpumgr".into()),
            level: Some(3),
            narrow: None,
            kept: Vec::new(),
            unkept: Vec::new(),
            reasons: vec![(44, "not attached: no".into())],
        }
    }

    #[test]
    fn a_report_is_a_table() {
        let program = ProgramStatus {
            pid: 42,
            name: "cg".into(),
            library: String::new(),
            request: 2,
            max: 2,
            granted: 1,
            cpus: "1".into(),
            within: Some("1,3".into()),
            shared: true,
            dedicated: false,
            fixed_team: false,
            attached: false,
            vps: 2,
            asked: 0,
            preempted: 1,
            squeezes: 3,
            fence: Some("nanos-program-7-1".into()),
            speedup: Some((1.5, 2)),
            class: None,
            min: None,
            bound: None,
            weight: 1.0,
            age_ns: 61_000_000_000,
        };
        let status = of_a_manager();
        let library = |path: &str, ours: bool| Library { path: path.into(), ours };
        let loaded = BTreeMap::from([
            (42, vec![library("/a/libgomp.so.1", true), library("/w/libgomp-1.so", false)]),
            (43, Vec::new()),
            (44, vec![library("/w/libgomp-1.so", false)]),
        ]);
        let static_one = ProgramStatus {
            pid: 51,
            name: "计算".into(),
            attached: true,
            request: 3,
            within: None,
            shared: false,
            preempted: 0,
            fence: None,
            class: None,
            weight: 2.5,
            ..program.clone()
        };
        let place = QueuedStatus {
            id: 9,
            pid: 60,
            label: "ft".into(),
            request: 2,
            waits_ns: 3_000_000_000,
            after: Vec::new(),
            within_ns: None,
            processors: None,
            limit_ns: None,
            begins_in_ns: None,
            user: None,
            consumed_ns: None,
            never_begins: None,
        };
        let programs = vec![program, static_one];
        let mut report = Report {
            socket: "/s".into(),
            status,
            programs,
            queue: vec![place],
            advice: None,
            loaded,
        };
        assert_eq!(
            report.table(),
            "manager 7 at /s, up 5ms\n\
             policy dss-ts, quantum 100ms, grace 2ms, 2 processors: 0-1\n\
             at most 3 programs run at once\n\
             fences below /sys/fs/cgroup/cpumgr\n\
             PID  NAME  REQUEST  GRANTED  CPUS  SHARED  SQUEEZED  WEIGHT  LIBRARY     VPS  AGE\n\
             42   cg    2        1        1     yes     1         1       -           2    1m01s\n\
             51   计算  3        1        1     no      0         2.5     (attached)  2    1m01s\n\
             42 asks for 2 and has 1: it takes turns, beside 1 other program\n\
             51 asks for 3 and has 1: 1 other program has a share\n\
             42 stays on processors 1,3 (OMP_PLACES, taskset, a cpuset, an attached parent)\n\
             42 is fenced in, on processors 1: it bound itself to what was taken from it \
             (nanos-program-7-1)\n\
             42 uses /a/libgomp.so.1; mapped and not used: /w/libgomp-1.so\n\
             44 is not managed: it uses /w/libgomp-1.so; not attached: no\n\
             waiting to be started:\n     9  pid 60       waits 3s  ft\n"
        );
        report.programs[1].class = Some("night".into());
        let table = table_of(&report.programs);
        let ends: Vec<&str> =
            table.lines().map(|line| line.split_once("WEIGHT").map_or(line, |it| it.1)).collect();
        assert_eq!(ends[0], "  CLASS  LIBRARY     VPS  AGE");
        assert!(ends[1].ends_with("  1       -      -           2    1m01s"), "{table}");
        assert!(ends[2].ends_with("  2.5     night  (attached)  2    1m01s"), "{table}");
        report.programs.clear();
        assert!(report.table().contains("no programs\n42 uses /a/libgomp.so.1;"));
        report.status.grace_ns = 900_000;
        let (processors, of, why) =
            ("0".into(), "0-1".into(), "started inside cpuset /x by process 5".into());
        report.status.narrow = Some(Narrow { processors, count: 1, of, why });
        report.status.kept = vec!["niceness 19".into()];
        report.status.unkept = vec!["a number: no room".into()];
        let text = report.table();
        assert!(
            text.contains("grace 900us,") && text.contains("kept of its starter: niceness 19\n"),
            "{text}"
        );
        assert!(
            text.contains("\nmanages 0 of 0-1: started inside cpuset /x by process 5\n"),
            "{text}"
        );
    }
}
