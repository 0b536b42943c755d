//! `cpumgr list`, `show` and `cpus`: parts of a report, for people and for programs.

use std::collections::BTreeMap;
use std::fmt::Write;

use arena::message::ProgramStatus;
use platform::affinity::{CpuId, CpuSet};
use platform::topology::Topology;
use serde::Serialize;

use crate::cli::{CpusArgs, ShowArgs, StatusArgs};
use crate::error::Error;
use crate::escape::printable;
use crate::libraries::Library;
use crate::output::print;
use crate::status::{self, Report};
use crate::style::Style;
use crate::{json, socket};

mod seats;

pub use seats::Seat;

/// `cpumgr list`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct List {
    /// The programs in order of arrival.
    pub programs: Vec<ProgramStatus>,
}

/// `cpumgr show`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// The program.
    pub program: ProgramStatus,
    /// Why it has fewer processors than it asks for.
    pub why_not_more: Option<String>,
    /// The OpenMP libraries that it has mapped.
    pub libraries: Vec<Library>,
    /// Its threads, each with the processor that it ran on last.
    pub threads: Vec<Seat>,
}

/// `cpumgr cpus`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processors {
    /// The managed processors.
    pub processors: Vec<Processor>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Processor {
    /// Its number.
    pub cpu: u32,
    /// What is done with it.
    pub state: Use,
    /// The class of speed of its core: 0 is that of the fastest ones of the machine.
    pub speed: u32,
    /// The processes of the programs that have it.
    pub programs: Vec<i32>,
    /// Threads of managed programs that ran on it last.
    pub threads: Vec<Seat>,
}

/// What is done with a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// No program has it.
    Free,
    /// One program has it.
    Own,
    /// Several programs take turns on it.
    Shared,
    /// It is left to processes that are not managed.
    Left,
    /// It was drained.
    Drained,
}

impl Use {
    fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Own => "own",
            Self::Shared => "shared",
            Self::Left => "left",
            Self::Drained => "drained",
        }
    }
}

/// `cpumgr list`.
///
/// # Errors
/// When there is no manager.
pub fn list(args: &StatusArgs) -> Result<(), Error> {
    let report = Report::ask(&socket::to_ask(args.socket.as_deref())?)?;
    let list = List { programs: report.programs };
    if args.json {
        return print(&json::line("list", &list)?);
    }
    let table = status::table_of(&list.programs);
    show_table(&table)
}

/// A table whose first line is its head.
fn show_table(table: &str) -> Result<(), Error> {
    let style = Style::of_output();
    let lines = table.lines().enumerate().map(|(at, line)| match at {
        0 => style.head(&printable(line)) + "\n",
        _ => printable(line) + "\n",
    });
    print(&lines.collect::<String>())
}

/// `cpumgr show`.
///
/// # Errors
/// When there is no manager, no such program, or several of that name.
pub fn show(args: &ShowArgs) -> Result<(), Error> {
    let report = Report::ask(&socket::to_ask(args.socket.as_deref())?)?;
    let program = find(&report.programs, &args.program)?.clone();
    let shown = Shown {
        why_not_more: report.why_not_more(&program),
        libraries: report.loaded.get(&program.pid).cloned().unwrap_or_default(),
        threads: seats::of_process(program.pid),
        program,
    };
    if args.json {
        return print(&json::line("show", &shown)?);
    }
    print(&shown.text().lines().map(|line| printable(line) + "\n").collect::<String>())
}

/// The program of this process, or of this name.
fn find<'a>(programs: &'a [ProgramStatus], word: &str) -> Result<&'a ProgramStatus, Error> {
    let by_pid = word.parse::<i32>().ok().and_then(|pid| programs.iter().find(|it| it.pid == pid));
    if let Some(program) = by_pid {
        return Ok(program);
    }
    let named: Vec<&ProgramStatus> = programs.iter().filter(|it| it.name == word).collect();
    match named.as_slice() {
        [program] => Ok(program),
        [] => Err(Error::Usage(format!(
            "{word} is no program of this manager that you may see; `cpumgr list` names them"
        ))),
        several => {
            let pids: Vec<String> = several.iter().map(|it| it.pid.to_string()).collect();
            Err(Error::Usage(format!(
                "{} programs are called {word}; name one by its process: {}",
                several.len(),
                pids.join(", ")
            )))
        }
    }
}

impl Shown {
    fn text(&self) -> String {
        let it = &self.program;
        let yes = |flag: bool| if flag { "yes" } else { "no" };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            let _written = writeln!(text, "{key:<12} {value}");
        };
        line("process", &it.pid);
        line("name", &it.name);
        line("asks for", &format_args!("{} (at most {})", it.request, it.max));
        line("has", &it.granted);
        line("processors", &it.cpus);
        line("shared", &yes(it.shared));
        line("dedicated", &yes(it.dedicated));
        line("fixed team", &yes(it.fixed_team));
        line("attached", &yes(it.attached));
        line("class", &it.class.as_deref().unwrap_or("none"));
        if let Some(min) = it.min {
            line("at least", &min);
        }
        if let Some(bound) = it.bound {
            line("at most", &bound);
        }
        line("weight", &it.weight);
        line("squeezed", &format_args!("{} now, {} in all", it.preempted, it.squeezes));
        line("for", &status::age(it.age_ns));
        if let Some(within) = &it.within {
            line("stays on", within);
        }
        if let Some(fence) = &it.fence {
            line("fence", fence);
        }
        if let Some((speedup, on)) = it.speedup {
            line("speedup", &format_args!("{speedup:.2} on {on}"));
        }
        if let Some(why) = &self.why_not_more {
            line("why not more", why);
        }
        for library in &self.libraries {
            let whose = if library.ours { "ours" } else { "not ours" };
            line("library", &format_args!("{} ({whose})", library.path));
        }
        for thread in &self.threads {
            line("thread", &format_args!("{} on {} ({})", thread.tid, thread.cpu, thread.name));
        }
        text
    }
}

/// `cpumgr cpus`.
///
/// # Errors
/// When there is no manager, or it manages none of the processors that are named.
pub fn cpus(args: &CpusArgs) -> Result<(), Error> {
    let report = Report::ask(&socket::to_ask(args.socket.as_deref())?)?;
    let set = |text: &str| CpuSet::parse_list(text).unwrap_or_default();
    let managed = set(&report.status.processors);
    let asked = args.list.clone().unwrap_or_else(|| managed.clone());
    let chosen = managed.intersection(&asked);
    if chosen.is_empty() && !asked.is_empty() {
        return Err(Error::Usage(format!(
            "none of the processors {asked} is managed; those are {managed}"
        )));
    }
    let mut seats: BTreeMap<u32, Vec<Seat>> = BTreeMap::new();
    for seat in report.programs.iter().flat_map(|it| seats::of_process(it.pid)) {
        seats.entry(seat.cpu).or_default().push(seat);
    }
    // It is this machine's manager. Where nothing can be read all are alike.
    let topology = Topology::read().ok();
    let (left, drained) = (set(&report.status.left), set(&report.status.drained));
    let all = chosen.iter().map(|cpu| {
        let has = |it: &&ProgramStatus| set(&it.cpus).contains(cpu);
        let programs: Vec<i32> = report.programs.iter().filter(has).map(|it| it.pid).collect();
        let state = state(cpu, &programs, &left, &drained);
        let threads = seats.remove(&cpu.0).unwrap_or_default();
        let speed = topology.as_ref().and_then(|it| it.speed_of(cpu)).unwrap_or(0);
        Processor { cpu: cpu.0, state, speed, programs, threads }
    });
    let processors = Processors { processors: all.collect() };
    if args.json {
        return print(&json::line("cpus", &processors)?);
    }
    show_table(&processors.table(&report.programs))
}

fn state(cpu: CpuId, programs: &[i32], left: &CpuSet, drained: &CpuSet) -> Use {
    match programs.len() {
        0 if drained.contains(cpu) => Use::Drained,
        0 if left.contains(cpu) => Use::Left,
        0 => Use::Free,
        1 => Use::Own,
        _ => Use::Shared,
    }
}

/// A class of speed: `fast`, `slow`, and on machines with more classes `slow 2` and so on.
fn speed_word(class: u32) -> String {
    match class {
        0 => "fast".to_owned(),
        1 => "slow".to_owned(),
        _ => format!("slow {class}"),
    }
}

impl Processors {
    fn table(&self, programs: &[ProgramStatus]) -> String {
        // Said where it makes a difference.
        let is_hybrid = self.processors.iter().any(|it| it.speed > 0);
        let speed = |word: &str| if is_hybrid { format!("{word:<8} ") } else { String::new() };
        let head = speed("SPEED");
        let mut text = format!("CPU   STATE    {head}PROGRAM                   THREADS THERE\n");
        for processor in &self.processors {
            let name = |pid: &i32| {
                let program = programs.iter().find(|it| it.pid == *pid);
                program.map_or_else(|| pid.to_string(), |it| format!("{pid} {}", it.name))
            };
            let names: Vec<String> = processor.programs.iter().map(name).collect();
            let names = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
            let threads: Vec<String> =
                processor.threads.iter().map(|it| format!("{} {}", it.tid, it.name)).collect();
            let (cpu, state) = (processor.cpu, processor.state.word());
            let speed = speed(&speed_word(processor.speed));
            let threads = threads.join(", ");
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{cpu:<5} {state:<8} {speed}{names:<25} {threads}");
        }
        text.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
    }
}

#[cfg(test)]
mod tests;
