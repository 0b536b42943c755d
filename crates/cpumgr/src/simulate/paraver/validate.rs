//! A strict reader of Paraver traces of state records, written from the form and not from the
//! writer.

use std::collections::{BTreeMap, BTreeSet};

use super::Trace;

/// A trace that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {message}")]
pub struct TraceError {
    /// Which of the three: `prv`, `pcf` or `row`.
    pub file: &'static str,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// What the records add up to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// The end of the trace, ns.
    pub end: u64,
    /// Thread time by state, ns.
    pub by_state: BTreeMap<u32, u64>,
    /// By application: first begin and last end.
    pub by_application: BTreeMap<usize, (u64, u64)>,
}

/// What the header says.
struct Header {
    end: u64,
    processors: u32,
    /// Threads of each application.
    threads: Vec<usize>,
}

/// States in which a thread has its processor alone, by the names in the `.pcf`.
const EXCLUSIVE: [&str; 3] = ["Idle", "Running", "Cache refill"];

/// Checks the three files against the form and against each other.
///
/// # Errors
/// The first line that is wrong.
pub fn validate(trace: &Trace) -> Result<Totals, TraceError> {
    let states = states(&trace.pcf)?;
    let mut lines = trace.prv.lines().enumerate();
    let first = lines.next().map_or("", |(_, line)| line);
    let header = header(first).map_err(|message| TraceError { file: "prv", line: 1, message })?;
    row(&trace.row, &header)?;

    let mut totals = Totals { end: header.end, ..Totals::default() };
    // Per thread: where it began and where its records reach to.
    let mut reached: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    let mut busy_until: BTreeMap<u32, u64> = BTreeMap::new();
    let mut before = 0;
    for (index, line) in lines {
        let wrong = |message: String| TraceError { file: "prv", line: index + 1, message };
        let record = Record::parse(line).map_err(wrong)?;
        let Record { cpu, application, thread, begin, end, state } = record;
        if cpu > header.processors {
            return Err(wrong(format!("processor {cpu} of {}", header.processors)));
        }
        let Some(&threads) = application.checked_sub(1).and_then(|at| header.threads.get(at))
        else {
            return Err(wrong(format!("application {application} of {}", header.threads.len())));
        };
        if !(1..=threads).contains(&thread) {
            return Err(wrong(format!("thread {thread} of {threads}")));
        }
        let Some(name) = states.get(&state) else {
            return Err(wrong(format!("state {state} has no name in the pcf")));
        };
        if begin >= end || end > header.end {
            return Err(wrong(format!("no length: {begin} to {end} in a trace of {}", header.end)));
        }
        if begin < before {
            return Err(wrong(format!("out of order: {begin} after {before}")));
        }
        before = begin;
        let (_, reach) = reached.entry((application, thread)).or_insert((begin, begin));
        if *reach != begin {
            return Err(wrong(format!(
                "thread {thread} of application {application} has a gap: {reach} to {begin}"
            )));
        }
        *reach = end;
        let exclusive = EXCLUSIVE.contains(&name.as_str());
        if exclusive && cpu == 0 {
            return Err(wrong(format!("{name} on no processor")));
        }
        if exclusive {
            let until = busy_until.entry(cpu).or_insert(0);
            if *until > begin {
                return Err(wrong(format!(
                    "two threads on processor {cpu}: one until {until}, one from {begin}"
                )));
            }
            *until = end;
        }
        *totals.by_state.entry(state).or_insert(0) += end - begin;
        let span = totals.by_application.entry(application).or_insert((begin, end));
        *span = (span.0.min(begin), span.1.max(end));
    }
    let last = trace.prv.lines().count();
    for (application, threads) in (1..).zip(&header.threads) {
        let span = totals.by_application.get(&application).copied();
        for thread in 1..=*threads {
            if reached.get(&(application, thread)).copied() != span || span.is_none() {
                let message = format!(
                    "thread {thread} of application {application} does not last as long as the \
                     others"
                );
                return Err(TraceError { file: "prv", line: last, message });
            }
        }
    }
    Ok(totals)
}

struct Record {
    cpu: u32,
    application: usize,
    thread: usize,
    begin: u64,
    end: u64,
    state: u32,
}

impl Record {
    fn parse(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split(':').collect();
        let &[kind, cpu, application, task, thread, begin, end, state] = fields.as_slice() else {
            return Err(format!("{} fields; a state record has 8", fields.len()));
        };
        if kind != "1" {
            return Err(format!("a record of kind {kind}; this trace has states (1) only"));
        }
        if number(task)? != 1 {
            return Err(format!("task {task} of 1"));
        }
        Ok(Self {
            cpu: narrow(cpu)?,
            application: narrow(application)?,
            thread: narrow(thread)?,
            begin: number(begin)?,
            end: number(end)?,
            state: narrow(state)?,
        })
    }
}

/// Digits only: no sign, no blank, no leading zero.
fn number(text: &str) -> Result<u64, String> {
    let plain = !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_digit())
        && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).ok_or_else(|| format!("{text:?} is no number"))
}

fn narrow<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    T::try_from(number(text)?).map_err(|_| format!("{text:?} is too large a number"))
}

/// `#Paraver (dd/mm/yy at hh:mm):END_ns:1(CPUS):APPLICATIONS:1(THREADS:1):...`
fn header(line: &str) -> Result<Header, String> {
    let what = || format!("no header: {:?}", line.chars().take(60).collect::<String>());
    let rest = line.strip_prefix("#Paraver (").ok_or_else(what)?;
    // The date has a colon of its own.
    let (date, rest) = rest.split_once("):").ok_or_else(what)?;
    let (day, time) = date.split_once(" at ").ok_or_else(what)?;
    let digits = |text: &str, by: char, parts: usize| {
        text.split(by).count() == parts && text.split(by).all(|part| part.parse::<u32>().is_ok())
    };
    if !digits(day, '/', 3) || !digits(time, ':', 2) {
        return Err(what());
    }
    let (end, rest) = rest.split_once("_ns:").ok_or_else(what)?;
    let (processors, rest) =
        rest.strip_prefix("1(").and_then(|rest| rest.split_once("):")).ok_or_else(what)?;
    let mut parts = rest.splitn(2, ':');
    let applications: usize = narrow(parts.next().unwrap_or_default())?;
    let mut rest = parts.next().unwrap_or_default();
    let mut threads = Vec::new();
    for application in 1..=applications {
        let (list, after) = rest
            .split_once(')')
            .ok_or_else(|| format!("header without application {application}"))?;
        let count = list.strip_prefix("1(").and_then(|list| list.strip_suffix(":1"));
        threads.push(narrow(
            count.ok_or_else(|| format!("header: application {application} is {list:?}"))?,
        )?);
        rest = after.strip_prefix(':').unwrap_or(after);
    }
    if !rest.is_empty() {
        return Err(format!("header: {rest:?} after the last application"));
    }
    Ok(Header { end: number(end)?, processors: narrow(processors)?, threads })
}

/// States and their names; each has a colour.
fn states(pcf: &str) -> Result<BTreeMap<u32, String>, TraceError> {
    let (mut names, mut colours) = (BTreeMap::new(), BTreeSet::new());
    let mut section = "";
    for (index, line) in pcf.lines().enumerate() {
        let wrong = |message: String| TraceError { file: "pcf", line: index + 1, message };
        let Some((first, rest)) = line.split_once(' ') else {
            section = if line.is_empty() { "" } else { line };
            continue;
        };
        match section {
            "STATES" => {
                let state = narrow(first).map_err(wrong)?;
                if names.insert(state, rest.trim().to_owned()).is_some() {
                    return Err(wrong(format!("state {state} has two names")));
                }
            }
            "STATES_COLOR" => {
                colours.insert(narrow::<u32>(first).map_err(wrong)?);
                let inner = rest.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                let parts: Vec<Result<u8, _>> =
                    inner.unwrap_or("").split(',').map(str::parse).collect();
                if parts.len() != 3 || parts.iter().any(Result::is_err) {
                    return Err(wrong(format!("{rest:?} is no colour")));
                }
            }
            _ => {}
        }
    }
    if let Some(state) = names
        .keys()
        .copied()
        .chain(colours.iter().copied())
        .find(|state| !(names.contains_key(state) && colours.contains(state)))
    {
        let message = format!("state {state} has no name or no colour");
        return Err(TraceError { file: "pcf", line: pcf.lines().count(), message });
    }
    Ok(names)
}

/// Each level has as many names as it says, and as the header says.
fn row(row: &str, header: &Header) -> Result<(), TraceError> {
    let threads = header.threads.iter().sum::<usize>();
    let applications = header.threads.len();
    let expected = [
        ("CPU", header.processors as usize),
        ("NODE", 1),
        ("APPL", applications),
        ("TASK", applications),
        ("THREAD", threads),
    ];
    let mut lines = row.lines().enumerate().peekable();
    for (level, size) in expected {
        while lines.next_if(|(_, line)| line.is_empty()).is_some() {}
        let (index, line) = lines.next().unwrap_or((row.lines().count(), ""));
        let wrong = |message: String| TraceError { file: "row", line: index + 1, message };
        if line != format!("LEVEL {level} SIZE {size}") {
            return Err(wrong(format!("{line:?} where LEVEL {level} SIZE {size} stands")));
        }
        for _ in 0..size {
            if lines.next().is_none_or(|(_, name)| name.is_empty()) {
                return Err(wrong(format!("fewer than {size} names of level {level}")));
            }
        }
    }
    match lines.find(|(_, line)| !line.is_empty()) {
        Some((index, line)) => Err(TraceError {
            file: "row",
            line: index + 1,
            message: format!("{line:?} after the last name"),
        }),
        None => Ok(()),
    }
}
