//! What a trace says, as spans of time: which program had which processors from when to when.

use std::collections::BTreeMap;

use policies::sim::{Activity, Interval, Timeline, Track};
use serde::Deserialize;

/// The highest processor number that is believed.
const MOST: u32 = 1 << 16;

/// A line of a trace, as far as it is heeded.
#[derive(Debug, Deserialize)]
struct Line {
    t_ns: u64,
    event: String,
    pid: i32,
    #[serde(default)]
    name: String,
    #[serde(default)]
    cpus: Vec<u32>,
    #[serde(default)]
    shared: bool,
}

/// A program had these processors from `begin` to `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) cpus: Vec<u32>,
    pub(super) shared: bool,
}

/// An execution of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Execution {
    pub(super) pid: i32,
    pub(super) name: String,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Without gaps, but where it had none.
    pub(super) spans: Vec<Span>,
}

/// All of a trace; times begin at its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spans {
    /// The managed processors: one more than the highest number.
    pub(super) processors: u32,
    pub(super) end: u64,
    /// In order of begin.
    pub(super) executions: Vec<Execution>,
}

impl Spans {
    /// Reads a trace.
    ///
    /// # Errors
    /// The line that is none of a trace, and why.
    pub(super) fn read(text: &str) -> Result<Self, (usize, String)> {
        let mut spans = Self { processors: 1, end: 0, executions: Vec::new() };
        let mut open: BTreeMap<i32, usize> = BTreeMap::new();
        let mut first = None;
        for (at, text) in text.lines().enumerate() {
            let wrong = |what: String| (at + 1, format!("no line of a trace: {what}"));
            let line: Line =
                serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
            if let Some(cpu) = line.cpus.iter().find(|cpu| **cpu >= MOST) {
                return Err(wrong(format!("processor {cpu}")));
            }
            let now = line.t_ns.saturating_sub(*first.get_or_insert(line.t_ns)).max(spans.end);
            spans.end = now;
            let most = line.cpus.iter().max().map_or(0, |cpu| cpu + 1);
            spans.processors = spans.processors.max(most);
            match line.event.as_str() {
                "arrival" | "allocation" => {
                    let place = *open.entry(line.pid).or_insert_with(|| {
                        spans.executions.push(Execution {
                            pid: line.pid,
                            name: line.name.clone(),
                            begin: now,
                            end: now,
                            spans: Vec::new(),
                        });
                        spans.executions.len() - 1
                    });
                    if line.event == "allocation" {
                        spans.executions[place].change(now, line.cpus, line.shared);
                    }
                }
                "exit" => {
                    if let Some(place) = open.remove(&line.pid) {
                        spans.executions[place].close(now);
                    }
                }
                "start" | "stop" | "continued" => {}
                other => return Err(wrong(format!("an event {other:?}"))),
            }
        }
        for place in open.into_values() {
            spans.executions[place].close(spans.end);
        }
        if first.is_none() {
            return Err((1, "the trace is empty".into()));
        }
        Ok(spans)
    }

    /// The same for Paraver: a thread for each processor that a program ever had at once.
    pub(super) fn timeline(&self) -> Timeline {
        let lived = self.executions.iter().filter(|it| it.end > it.begin);
        let tracks = lived.map(|it| {
            let threads = it.spans.iter().map(|span| span.cpus.len()).max().unwrap_or(0).max(1);
            Track {
                name: format!("{} ({})", it.name, it.pid),
                program: it.name.clone(),
                started: it.begin,
                ended: it.end,
                virtual_processors: (0..threads).map(|thread| it.intervals(thread)).collect(),
            }
        });
        Timeline { processors: self.processors, end: self.end, tracks: tracks.collect() }
    }
}

impl Execution {
    fn change(&mut self, now: u64, cpus: Vec<u32>, shared: bool) {
        self.close(now);
        self.spans.push(Span { begin: now, end: now, cpus, shared });
    }

    /// The last span reaches to here.
    fn close(&mut self, now: u64) {
        self.end = now;
        if let Some(span) = self.spans.last_mut() {
            span.end = now;
        }
        self.spans.retain(|span| span.end > span.begin);
    }

    /// What one thread does, without a gap.
    fn intervals(&self, thread: usize) -> Vec<Interval> {
        let mut all: Vec<Interval> = Vec::new();
        let mut add = |begin: u64, end: u64, cpu: Option<u32>, activity| {
            if begin == end {
                return;
            }
            match all.last_mut() {
                Some(last) if (last.cpu, last.activity) == (cpu, activity) => last.end = end,
                _ => all.push(Interval { begin, end, cpu, activity }),
            }
        };
        let mut reached = self.begin;
        for span in &self.spans {
            add(reached, span.begin, None, Activity::Absent);
            let activity = if span.shared { Activity::Sharing } else { Activity::Running };
            match span.cpus.get(thread) {
                Some(cpu) => add(span.begin, span.end, Some(*cpu), activity),
                None => add(span.begin, span.end, None, Activity::Absent),
            }
            reached = span.end;
        }
        add(reached, self.end, None, Activity::Absent);
        all
    }
}
