//! What a simulation found: each execution, and the measures of the whole.

use std::collections::BTreeMap;

use serde::Serialize;

use super::timeline::Timeline;
use crate::snapshot::Nanos;

/// One execution of one program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Execution {
    /// Which program.
    pub program: String,
    /// Which copy of it, from 0 in the order of jobs.
    pub copy: u32,
    /// How often this copy ran before.
    pub repetition: u32,
    /// When it came.
    pub arrival: Nanos,
    /// When it was admitted.
    pub started: Nanos,
    /// When it ended.
    pub ended: Nanos,
    /// Processor time that it had, working or not.
    pub cpu_time: Nanos,
    /// How long it would have taken on the machine alone.
    pub dedicated: Nanos,
}

impl Execution {
    /// From its arrival to its end.
    #[must_use]
    pub fn response(&self) -> Nanos {
        self.ended - self.arrival
    }

    /// From its start to its end.
    #[must_use]
    pub fn execution(&self) -> Nanos {
        self.ended - self.started
    }
}

/// The executions of one program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProgramSummary {
    /// Its name.
    pub program: String,
    /// How many there were.
    pub executions: usize,
    /// Mean response time, s.
    pub response: f64,
    /// Mean execution time (from admission), s.
    pub execution: f64,
    /// The longest response time, s.
    pub longest: f64,
    /// Mean processors: CPU time by execution time.
    pub processors: f64,
    /// Its time alone, s.
    pub dedicated: f64,
}

/// The outcome of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The workload's name.
    pub workload: String,
    /// The policy at the beginning.
    pub policy: String,
    /// Processors of the machine.
    pub processors: u32,
    /// Every execution, in order of end.
    pub executions: Vec<Execution>,
    /// Work done, in time on one processor.
    pub work: Nanos,
    /// How often the policy was asked.
    pub decisions: u64,
    /// How often a decision changed the number of processors of a program.
    pub reallocations: u64,
    /// How often a virtual processor went on elsewhere; those that the kernel moves under `none`
    /// are not counted.
    pub migrations: u64,
    /// Times that were reported, and those of them that were not believed.
    pub reports: (u64, u64),
    /// Which program ran where, and when, if it was asked for.
    pub timeline: Option<Timeline>,
}

fn seconds(time: f64) -> f64 {
    time / 1e9
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut number) = (0.0, 0.0);
    for value in values {
        sum += value;
        number += 1.0;
    }
    if number > 0.0 { sum / number } else { 0.0 }
}

fn nearest_rank(mut times: Vec<Nanos>, part: f64) -> f64 {
    times.sort_unstable();
    // At most the number of executions: the cast is exact, and saturates.
    let rank = (part * times.len() as f64).ceil() as usize;
    times.get(rank.clamp(1, times.len().max(1)) - 1).map_or(0.0, |time| seconds(*time as f64))
}

impl Outcome {
    /// From the first arrival to the last end.
    #[must_use]
    pub fn makespan(&self) -> Nanos {
        let first = self.executions.iter().map(|e| e.arrival).min().unwrap_or(0);
        self.executions.iter().map(|e| e.ended).max().unwrap_or(0) - first
    }

    /// Mean response time in s.
    #[must_use]
    pub fn response(&self) -> f64 {
        seconds(mean(self.executions.iter().map(|e| e.response() as f64)))
    }

    /// The response time in s within which this part of the executions, 0 to 1, have ended: the
    /// nearest one that was, 0 without executions.
    #[must_use]
    pub fn response_within(&self, part: f64) -> f64 {
        nearest_rank(self.executions.iter().map(Execution::response).collect(), part)
    }

    /// The same for the time in s from arrival to start.
    #[must_use]
    pub fn wait_within(&self, part: f64) -> f64 {
        nearest_rank(self.executions.iter().map(|e| e.started - e.arrival).collect(), part)
    }

    /// Processor time that programs had.
    #[must_use]
    pub fn cpu_time(&self) -> Nanos {
        self.executions.iter().map(|e| e.cpu_time).sum()
    }

    /// The part of the machine's time that programs had, working or not.
    #[must_use]
    pub fn utilisation(&self) -> f64 {
        let all = self.makespan() as f64 * f64::from(self.processors);
        if all > 0.0 { self.cpu_time() as f64 / all } else { 0.0 }
    }

    /// Work done per processor time that programs had.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        let cpu_time = self.cpu_time() as f64;
        if cpu_time > 0.0 { self.work as f64 / cpu_time } else { 0.0 }
    }

    /// Mean of response time by time alone.
    #[must_use]
    pub fn slowdown(&self) -> f64 {
        mean(self.executions.iter().map(|e| e.response() as f64 / (e.dedicated as f64).max(1.0)))
    }

    /// Jain's index of the executions' progress (time alone by response time): 1 when all are
    /// slowed down alike, 1/n when one of n has everything.
    #[must_use]
    pub fn fairness(&self) -> f64 {
        let progress =
            || self.executions.iter().map(|e| e.dedicated as f64 / (e.response() as f64).max(1.0));
        let (sum, squares): (f64, f64) = (progress().sum(), progress().map(|x| x * x).sum());
        if squares > 0.0 { sum * sum / (squares * self.executions.len() as f64) } else { 1.0 }
    }

    /// Program by program, in order of name.
    #[must_use]
    pub fn programs(&self) -> Vec<ProgramSummary> {
        let mut by_name: BTreeMap<&str, Vec<&Execution>> = BTreeMap::new();
        for execution in &self.executions {
            by_name.entry(&execution.program).or_default().push(execution);
        }
        let summary = |(name, list): (&str, Vec<&Execution>)| {
            let of = |f: fn(&Execution) -> Nanos| seconds(mean(list.iter().map(|e| f(e) as f64)));
            let (cpu_time, execution) = (of(|e| e.cpu_time), of(Execution::execution));
            ProgramSummary {
                program: name.to_owned(),
                executions: list.len(),
                response: of(Execution::response),
                execution,
                longest: seconds(list.iter().map(|e| e.response()).max().unwrap_or(0) as f64),
                processors: if execution > 0.0 { cpu_time / execution } else { 0.0 },
                dedicated: of(|e| e.dedicated),
            }
        };
        by_name.into_iter().map(summary).collect()
    }
}
