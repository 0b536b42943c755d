//! What the simulator is told of a program: what it does alone on this machine. Pure.
//!
//! # Rule
//! - *Set-up*, outside the timed sections, is serial. The timed sections are one parallel phase,
//!   cut into regions of a millisecond or so; a step is one repetition of the program's work.
//! - *Speedup*: the times of one copy with one thread, and of one copy on all processors, managed
//!   and native. On more than two processors Amdahl's law goes through both.
//! - *Memory*: P copies with one thread each take r times as long as one. With a part m of a
//!   thread's time that goes to memory, and a node that serves P / 2 threads of nothing else, r is
//!   1 - m + 2 m^2. What a team on all processors loses by that is taken out of its speedup: the
//!   simulator adds it.
//! - *Refill*: 2 P copies with one thread take x times as long as 2 rounds of P. The kernel changes
//!   between two on each processor, and what x is above 1 is the cold cache at the begin of each
//!   slice.
//! - *Native*: what a copy on all processors takes beyond its processor time / P, its threads
//!   sleep. Other copies may have that time (`busy`). Where they have it no processor sleeps, and
//!   what it costs to wake one falls away: all threads then take as much processor time as one
//!   thread, with what memory costs, and wait for each other no longer than the managed team, whose
//!   processors never sleep in a region (`awake`).
//! - Medians over the repetitions of the mean over the copies, as the cells are.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Context;

use crate::measure::median;
use crate::suite::{Row, Runtime, Scenario};

/// The policy and hold of a daemon that is told nothing.
const POLICY: &str = "dss-ts";
const HOLD: &str = "10ms";
/// The kernel's slice in the simulator, in seconds.
const SLICE: f64 = 0.0028;

/// Under what copies run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Side {
    Managed,
    Native,
}

impl Side {
    pub(super) const ALL: [Side; 2] = [Side::Managed, Side::Native];

    /// In the record.
    pub(super) fn runtime(self) -> Runtime {
        match self {
            Side::Managed => Runtime::Managed,
            Side::Native => Runtime::Passive,
        }
    }

    /// In the simulator.
    pub(super) fn policy(self) -> &'static str {
        match self {
            Side::Managed => POLICY,
            Side::Native => "none",
        }
    }
}

/// Medians, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    turnaround: f64,
    timed: f64,
    processor: f64,
}

/// A program alone.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Alone {
    processors: usize,
    /// Repetitions of its work.
    steps: u32,
    one: Times,
    managed: Times,
    native: Times,
    /// How much longer P copies with one thread take than one.
    crowded: f64,
    /// How much longer 2 P of them take than twice P.
    switched: f64,
}

impl Alone {
    pub(super) fn of(rows: &[Row], program: &str) -> anyhow::Result<Alone> {
        let row = rows.iter().find(|row| row.program == program).context("no row")?;
        let (processors, steps) = (row.processors, row.repeat);
        let times = |runtime: Runtime, copies: usize| {
            let scenario = Scenario::copies(program, copies).name();
            let wanted = |row: &&Row| {
                row.scenario == scenario && row.runtime == runtime && row.is_verified()
            };
            let mut runs: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
            for row in rows.iter().filter(wanted) {
                runs.entry(row.repetition).or_default().push(row);
            }
            // A run in which some copy has no result is none.
            runs.retain(|_, run| run.len() == copies);
            let of = |what: fn(&Row) -> f64| {
                let mean = |run: &Vec<&Row>| {
                    run.iter().map(|row| what(row)).sum::<f64>() / run.len() as f64
                };
                median(&runs.values().map(mean).collect::<Vec<f64>>())
            };
            let times = Times {
                turnaround: of(|row| row.turnaround),
                timed: of(|row| row.timed.unwrap_or(row.turnaround)),
                processor: of(|row| row.processor_time),
            };
            (!runs.is_empty()).then_some(times).with_context(|| {
                format!("the record has no verified run of {scenario} on {}", runtime.name())
            })
        };
        let one = times(Runtime::One, 1)?;
        let full = times(Runtime::One, processors)?;
        let twice = times(Runtime::One, 2 * processors)?;
        let (crowded, switched) = (full.timed / one.timed, twice.timed / full.timed / 2.0);
        let (managed, native) =
            (times(Side::Managed.runtime(), 1)?, times(Side::Native.runtime(), 1)?);
        Ok(Alone { processors, steps, one, managed, native, crowded, switched })
    }

    /// The part of its time that goes to memory.
    fn memory(&self) -> f64 {
        if self.processors < 2 || self.crowded <= 1.0 {
            return 0.0;
        }
        (0.25 * (1.0 + (1.0 + 8.0 * (self.crowded - 1.0)).sqrt())).min(1.0)
    }

    /// What a team on all processors loses to memory, as the simulator has it.
    fn slowed(&self) -> f64 {
        let memory = self.memory();
        1.0 - memory + 2.0 * memory * memory.max(0.5)
    }

    /// A speedup curve by the time on all processors.
    fn curve(&self, all: f64) -> String {
        let (one, processors) = (self.one.timed, self.processors as f64);
        let all = (all / if self.memory() > 0.0 { self.slowed() } else { 1.0 }).max(1e-9);
        let speedup = (one / all).min(4.0 * processors);
        if self.processors < 2 {
            return "\"linear\"".into();
        }
        let serial = (processors / speedup - 1.0) / (processors - 1.0);
        if self.processors > 2 && (0.0..=1.0).contains(&serial) {
            return format!("{{ amdahl = {{ serial = {serial:.9} }} }}");
        }
        format!("{{ speedups = [[1, 1.0], [{}, {speedup:.9}]] }}", self.processors)
    }

    /// A file for `cpumgr simulate`.
    pub(super) fn workload(&self, side: Side, copies: usize) -> String {
        let processors = self.processors;
        let times = if side == Side::Managed { self.managed } else { self.native };
        let setup = (times.turnaround - times.timed).max(1e-6);
        let steps = self.steps.clamp(1, 1_000_000);
        // Regions of a millisecond, as far as there may be so many.
        let each = (self.one.timed * 1e3 / f64::from(steps)).ceil() as u32;
        let regions = steps * each.clamp(1, 1_000_000 / steps);
        let mut text = format!(
            "name = \"{copies} copies\"\n\
             jobs = [{{ program = \"it\", copies = {copies} }}]\n\
             [machine]\nprocessors = {processors}\nbandwidth = {:.3}\n\
             [manager]\npolicy = \"{POLICY}\"\nbase_on_one = true\nhold = \"{HOLD}\"\n\
             [native]\nslice = \"{:.0}ns\"\nswitch = \"0ns\"\n\
             [programs.it]\nrequest = {processors}\nwaiting = \"block\"\n\
             phases = [{{ serial = \"{:.0}ns\" }}, {{ parallel = \"{:.0}ns\", regions = {regions}, \
             steps = {steps} }}]\n\
             memory = {:.9}\nrefill = \"{:.0}ns\"\ncurve = {}\n",
            (processors as f64 / 2.0).max(1.0),
            SLICE * 1e9,
            setup * 1e9,
            self.one.timed * 1e9,
            self.memory(),
            SLICE * (self.switched - 1.0).max(0.0) * 1e9,
            self.curve(self.managed.timed),
        );
        if side == Side::Native {
            let used = (self.native.processor - setup).max(0.0) / processors as f64;
            let busy = used.min(self.one.timed * self.slowed().max(1.0) / processors as f64);
            // Writing to a string cannot fail.
            let _written = writeln!(
                text,
                "[programs.it.native]\ncurve = {}\nbusy = {}\nawake = {}",
                self.curve(self.native.timed),
                self.curve(busy.min(self.native.timed)),
                self.curve(self.managed.timed.min(self.native.timed)),
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(processors: usize, crowded: f64) -> Alone {
        let times = |timed: f64, processor: f64| Times { turnaround: timed, timed, processor };
        Alone {
            processors,
            steps: 3,
            one: times(2.0, 2.0),
            managed: times(1.25, 2.5),
            native: times(1.5, 2.4),
            crowded,
            switched: 1.1,
        }
    }

    #[test]
    fn what_memory_costs_all_processors_is_what_was_measured() {
        for crowded in [1.0, 1.05, 1.25, 1.9] {
            let alone = alone(2, crowded);
            let slowed = if alone.memory() > 0.0 { alone.slowed() } else { 1.0 };
            assert!((slowed - crowded).abs() < 1e-9, "{crowded}: {slowed}");
        }
    }

    #[test]
    fn the_curve_and_memory_together_give_the_time_on_all_processors() {
        // 2 s on one, 1.25 s on two, of which memory is to blame for a quarter.
        let text = alone(2, 1.25).workload(Side::Managed, 3);
        assert!(text.contains("speedups = [[1, 1.0], [2, 2.000000000]]"), "{text}");
        assert!(text.contains("copies = 3") && !text.contains("programs.it.native"), "{text}");
        // Without memory the program itself is.
        let text = alone(2, 0.98).workload(Side::Native, 2);
        assert!(text.contains("[2, 1.600000000]") && text.contains("memory = 0.0"), "{text}");
        // 1.5 s of which its threads are busy for 1.2, and for 1.0 where no processor sleeps.
        assert!(text.contains("curve = { speedups = [[1, 1.0], [2, 1.333333333]] }"), "{text}");
        assert!(text.contains("busy = { speedups = [[1, 1.0], [2, 2.0000"), "{text}");
        // The managed team takes 1.25 s.
        assert!(text.contains("awake = { speedups = [[1, 1.0], [2, 1.6000"), "{text}");
        // A tenth of a slice of 2.8 ms.
        assert!(text.contains("refill = \"280000ns\""), "{text}");
        // Amdahl: 1.6 on four processors.
        assert!(
            alone(4, 1.0).curve(1.25).contains("serial = 0.5"),
            "{}",
            alone(4, 1.0).curve(1.25)
        );
    }
}
