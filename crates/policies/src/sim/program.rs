//! What a simulated program does: phases of work, how they speed up, and how many processors it
//! asks for meanwhile.
//!
//! # Invariants
//! G1  A checked program has work to do, and asks for 1 to [`MOST_PROCESSORS`] processors at any
//!     time.

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::native::NativeCode;
use super::span::Span;
use super::workload::Fault;
use crate::snapshot::{MAX_WEIGHT, MIN_WEIGHT};

/// The largest machine and request of a simulation.
pub const MOST_PROCESSORS: u32 = 4096;
/// The most regions of one phase, and phases of one program.
const MOST_REGIONS: u32 = 1_000_000;

/// A program: its phases, all of them once per iteration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Processors that it asks for at most; the size of its team without a manager.
    pub request: u32,
    /// What it asks for when.
    #[serde(default)]
    pub pattern: Pattern,
    /// How often it runs its phases.
    #[serde(default = "one")]
    pub iterations: u32,
    /// What it does in an iteration.
    pub phases: Vec<Phase>,
    /// How its parallel phases speed up.
    #[serde(default)]
    pub curve: Curve,
    /// What holds its parallel phases back when the curve is below linear.
    #[serde(default)]
    pub bottleneck: Bottleneck,
    /// What its threads do while they wait for each other.
    #[serde(default)]
    pub waiting: Waits,
    /// How long a processor runs with a cold cache after another program used it: the cost of
    /// losing a processor.
    #[serde(default)]
    pub refill: Span,
    /// The fewest processors that it should have.
    #[serde(default = "one")]
    pub min: u32,
    /// The most processors that it may have.
    #[serde(default)]
    pub max: Option<u32>,
    /// Its share relative to others.
    #[serde(default = "usual_weight")]
    pub weight: f64,
    /// The name under which policies learn of it, where that is not its own: programs of one name
    /// are taken for executions of one.
    #[serde(default)]
    pub execution_of: Option<String>,
    /// What policies learn of it besides its name: what it was started for.
    #[serde(default)]
    pub label: Option<String>,
    /// The class that it is in, of those of the workload.
    #[serde(default)]
    pub class: Option<String>,
    /// Its team is never smaller than its request: with fewer processors, threads wait for each
    /// other's processors. Its request is also its minimum.
    #[serde(default)]
    pub rigid: bool,
    /// The threads of its team take their work piece by piece, so that a region ends when all of it
    /// is done; else each has an equal part, and a region ends when the slowest has done its own.
    #[serde(default)]
    pub dynamic: bool,
    /// The part of a thread's time that goes to memory where that is near and free, 0 to 1: what
    /// [`MachineSpec::remote`](super::MachineSpec::remote) and
    /// [`MachineSpec::bandwidth`](super::MachineSpec::bandwidth) make longer.
    #[serde(default)]
    pub memory: f64,
    /// The program as another compiler and runtime made it, which runs under the policy `none`.
    #[serde(default)]
    pub native: Option<NativeCode>,
}

fn one() -> u32 {
    1
}

fn usual_weight() -> f64 {
    1.0
}

/// A part of an iteration: exactly one of `serial` and `parallel`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Phase {
    /// A serial part of this length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<Span>,
    /// A parallel part; its length on one processor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallel: Option<Span>,
    /// Into how many regions the parallel part is cut. A team changes its size, and its threads
    /// wait for each other, between regions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regions: Option<u32>,
    /// Of how many iterations of the program's own outer loop (time steps) the parallel part
    /// consists; its times are reported one by one. A divisor of `regions`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
}

impl Phase {
    /// A serial part.
    #[must_use]
    pub fn serial(length: Span) -> Self {
        Self { serial: Some(length), ..Self::default() }
    }

    /// A parallel part of `regions` regions.
    #[must_use]
    pub fn parallel(work: Span, regions: u32) -> Self {
        Self { parallel: Some(work), regions: Some(regions), ..Self::default() }
    }

    /// Its work in ns on one processor.
    pub(super) fn work(&self) -> f64 {
        self.parallel.or(self.serial).unwrap_or_default().ns()
    }

    /// Of how many parts it consists that are reported one by one.
    pub(super) fn steps(&self) -> u32 {
        self.steps.unwrap_or(1).max(1)
    }

    pub(super) fn is_parallel(&self) -> bool {
        self.parallel.is_some()
    }

    /// The work of one region in ns on one processor.
    pub(super) fn region_work(&self) -> f64 {
        self.work() / f64::from(self.regions.unwrap_or(1).max(1))
    }
}

/// What a program asks for when.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[non_exhaustive]
pub enum Pattern {
    /// Its `request` all the time.
    #[default]
    Constant,
    /// 2, 4, ... `request`, `request`, ... 4, 2: one step per iteration, then from the beginning
    /// (EPD).
    Diamond,
    /// 1 in serial phases and its `request` in parallel ones (ltomcatv).
    Alternate,
    /// These, one per iteration, then from the beginning.
    List(Vec<u32>),
    /// A file of numbers, one a line, which the reader of the workload replaces by a `List`. It
    /// cannot be simulated as it stands.
    File(String),
}

/// What holds a parallel phase back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// The program itself: its speedup depends on the size of its team.
    #[default]
    Program,
    /// The machine, as a memory bus: the curve is that of a program that keeps p processors busy,
    /// and on p busy processors, whosever they are, each of them is worth S(p) / p.
    Machine,
}

/// What threads do while they wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Waits {
    /// They spin.
    #[default]
    Spin,
    /// They sleep.
    Block,
}

impl Program {
    /// A program that asks for `request` processors in one parallel phase of `work`; linear, one
    /// region.
    #[must_use]
    pub fn new(request: u32, work: Span) -> Self {
        Self {
            request,
            pattern: Pattern::Constant,
            iterations: 1,
            phases: vec![Phase::parallel(work, 1)],
            curve: Curve::Linear,
            bottleneck: Bottleneck::Program,
            waiting: Waits::Spin,
            refill: Span::default(),
            min: 1,
            max: None,
            weight: 1.0,
            execution_of: None,
            label: None,
            class: None,
            rigid: false,
            dynamic: false,
            memory: 0.0,
            native: None,
        }
    }

    /// Says whether it can be simulated.
    ///
    /// # Errors
    /// The first fault, with the place in the program.
    pub fn check(&self) -> Result<(), Fault> {
        let processors = |at: &str, number: u32| match number {
            1..=MOST_PROCESSORS => Ok(()),
            _ => Err(Fault::at(
                at,
                format!("{number} processors; it is from 1 to {MOST_PROCESSORS}"),
            )),
        };
        processors("request", self.request)?;
        processors("min", self.min)?;
        if let Some(max) = self.max {
            processors("max", max)?;
            if max < self.min {
                return Err(Fault::at("max", format!("{max} is less than min, {}", self.min)));
            }
        }
        if !(1..=MOST_REGIONS).contains(&self.iterations) {
            return Err(Fault::at(
                "iterations",
                format!("{}; it is from 1 to {MOST_REGIONS}", self.iterations),
            ));
        }
        if !(MIN_WEIGHT..=MAX_WEIGHT).contains(&self.weight) {
            return Err(Fault::at(
                "weight",
                format!("{}; it is from {MIN_WEIGHT} to {MAX_WEIGHT}", self.weight),
            ));
        }
        match &self.pattern {
            Pattern::List(list) if list.is_empty() => {
                return Err(Fault::at(
                    "pattern",
                    "an empty list; it has one number or more".to_owned(),
                ));
            }
            Pattern::List(list) => {
                list.iter().try_for_each(|&number| processors("pattern", number))?
            }
            Pattern::File(file) => {
                return Err(Fault::at("pattern", format!("the file {file:?} has not been read")));
            }
            Pattern::Constant | Pattern::Diamond | Pattern::Alternate => {}
        }
        self.curve.check().map_err(|message| Fault::at("curve", message))?;
        if !(0.0..=1.0).contains(&self.memory) {
            return Err(Fault::at("memory", format!("{}; it is from 0 to 1", self.memory)));
        }
        if let Some(native) = &self.native {
            native.check().map_err(|(at, message)| Fault::at(&format!("native.{at}"), message))?;
        }
        if self.rigid && self.max.is_some_and(|max| max < self.peak()) {
            let message = "less than the request of a rigid program, which is its minimum";
            return Err(Fault::at("max", message));
        }
        if self.refill > Span::from_ms(60_000) {
            return Err(Fault::at("refill", format!("{}; it is at most 60s", self.refill)));
        }
        if self.phases.is_empty() || self.phases.len() > 1000 {
            return Err(Fault::at(
                "phases",
                format!("{} phases; there are 1 to 1000", self.phases.len()),
            ));
        }
        if self.steps() > u64::from(MOST_REGIONS) {
            let message = format!(
                "{} phases and steps in all; there are at most {MOST_REGIONS}",
                self.steps()
            );
            return Err(Fault::at("iterations", message));
        }
        for (i, phase) in self.phases.iter().enumerate() {
            check_phase(phase).map_err(|message| Fault::at(&format!("phases[{i}]"), message))?;
        }
        Ok(())
    }

    /// Phases, and steps of phases, of an execution.
    pub(super) fn steps(&self) -> u64 {
        u64::from(self.iterations)
            * self.phases.iter().map(|phase| u64::from(phase.steps())).sum::<u64>()
    }

    /// How many processors it asks for in this phase of this iteration.
    pub(super) fn request_in(&self, iteration: u32, phase: usize) -> u32 {
        match &self.pattern {
            Pattern::Alternate if !self.phases[phase].is_parallel() => 1,
            Pattern::Constant | Pattern::Alternate | Pattern::File(_) => self.request,
            Pattern::Diamond => {
                let steps = self.request.div_ceil(2);
                let step = iteration % (2 * steps);
                let rank = if step < steps { step + 1 } else { 2 * steps - step };
                (2 * rank).min(self.request)
            }
            Pattern::List(list) => list[iteration as usize % list.len()],
        }
    }

    /// The fewest processors that it should have while it asks for `request`.
    pub(super) fn least(&self, request: u32) -> u32 {
        if self.rigid { self.min.max(request) } else { self.min }
    }

    /// The largest request that it ever makes.
    pub(super) fn peak(&self) -> u32 {
        match &self.pattern {
            Pattern::List(list) => list.iter().copied().max().unwrap_or(1),
            _ => self.request,
        }
    }

    /// Its time in ns with all that it asks for on a machine of its own.
    pub(super) fn dedicated(&self, processors: u32) -> f64 {
        let most = processors.min(self.max.unwrap_or(u32::MAX));
        let mut time = 0.0;
        for iteration in 0..self.iterations {
            for (at, phase) in self.phases.iter().enumerate() {
                let speedup = match phase.is_parallel() {
                    true => self.curve.at(self.request_in(iteration, at).min(most)),
                    false => 1.0,
                };
                time += phase.work() / speedup;
            }
        }
        time
    }
}

fn check_phase(phase: &Phase) -> Result<(), String> {
    let length = match (phase.serial, phase.parallel) {
        (Some(serial), None) if phase.regions.or(phase.steps).is_none() => serial,
        (None, Some(parallel)) => parallel,
        (Some(_), None) => {
            return Err(
                "`regions` or `steps` in a serial phase; they belong to `parallel`".to_owned()
            );
        }
        _ => return Err("a phase has exactly one of `serial` and `parallel`".to_owned()),
    };
    if !(Span::from_us(1)..=Span::from_ms(100_000_000)).contains(&length) {
        return Err(format!("a phase of {length}; it is from 1us to 100000s"));
    }
    let regions = phase.regions.unwrap_or(1);
    if !(1..=MOST_REGIONS).contains(&regions) {
        return Err(format!("{regions} regions; there are 1 to {MOST_REGIONS}"));
    }
    match phase.steps {
        Some(steps) if steps == 0 || !regions.is_multiple_of(steps) => {
            Err(format!("{steps} steps of {regions} regions; it is a divisor of them"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epd_climbs_to_its_maximum_and_back() {
        let epd = Program { pattern: Pattern::Diamond, ..Program::new(8, Span::from_ms(1)) };
        let requests: Vec<u32> = (0..10).map(|i| epd.request_in(i, 0)).collect();
        assert_eq!(requests, [2, 4, 6, 8, 8, 6, 4, 2, 2, 4]);
        let odd = Program { pattern: Pattern::Diamond, ..Program::new(5, Span::from_ms(1)) };
        assert_eq!((0..6).map(|i| odd.request_in(i, 0)).collect::<Vec<_>>(), [2, 4, 5, 5, 4, 2]);
    }

    #[test]
    fn ltomcatv_alternates_and_a_list_comes_round() {
        let phases = vec![Phase::serial(Span::from_ms(1)), Phase::parallel(Span::from_ms(9), 3)];
        let ltomcatv =
            Program { pattern: Pattern::Alternate, phases, ..Program::new(32, Span::from_ms(1)) };
        assert_eq!((ltomcatv.request_in(0, 0), ltomcatv.request_in(0, 1)), (1, 32));
        let list =
            Program { pattern: Pattern::List(vec![3, 1]), ..Program::new(8, Span::from_ms(1)) };
        assert_eq!((0..3).map(|i| list.request_in(i, 0)).collect::<Vec<_>>(), [3, 1, 3]);
        // 1 ms + 9 ms / 4 on 4 processors.
        assert!((ltomcatv.dedicated(4) - 3.25e6).abs() < 1.0);
    }

    #[test]
    fn what_cannot_be_simulated_is_named_with_its_place() {
        let good = Program::new(4, Span::from_ms(1));
        assert_eq!(good.check(), Ok(()));
        let phases = |phase: Phase| Program { phases: vec![phase], ..good.clone() };
        let both = Phase {
            serial: Some(Span(1000)),
            parallel: Some(Span(1000)),
            regions: None,
            steps: None,
        };
        for (bad, at, text) in [
            (Program { request: 0, ..good.clone() }, "request", "1 to 4096"),
            (Program { max: Some(2), min: 3, ..good.clone() }, "max", "less than min"),
            (Program { iterations: 0, ..good.clone() }, "iterations", "from 1"),
            (Program { weight: f64::NAN, ..good.clone() }, "weight", "0.001 to 1000"),
            (Program { pattern: Pattern::List(vec![2, 0]), ..good.clone() }, "pattern", "from 1"),
            (Program { pattern: Pattern::List(vec![]), ..good.clone() }, "pattern", "empty"),
            (
                Program { pattern: Pattern::File("x".into()), ..good.clone() },
                "pattern",
                "not been read",
            ),
            (Program { phases: vec![], ..good.clone() }, "phases", "1 to 1000"),
            (phases(both), "phases[0]", "exactly one"),
            (phases(Phase::default()), "phases[0]", "exactly one"),
            (phases(Phase::serial(Span(0))), "phases[0]", "1us"),
            (phases(Phase::parallel(Span(1000), 0)), "phases[0]", "regions"),
            (
                phases(Phase { regions: Some(2), ..Phase::serial(Span(1000)) }),
                "phases[0]",
                "belong to",
            ),
            (
                phases(Phase { steps: Some(2), ..Phase::parallel(Span(1000), 3) }),
                "phases[0]",
                "divisor",
            ),
        ] {
            let fault = bad.check().expect_err("it cannot be simulated");
            assert!(fault.at == at && fault.message.contains(text), "{fault}");
        }
    }
}
