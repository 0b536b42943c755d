//! What to expect of turns and of sharing: the programs of a moment, simulated under both.
//!
//! # Model
//! Each program is taken to have the same work left, on one processor, whatever it did before:
//! nothing says more. Programs of one name are executions of the same program. The speedup of each
//! follows Amdahl's law through what it measured, or is linear where it measured nothing. It takes
//! [`TURNS`] turns with the whole machine.

use std::collections::BTreeMap;

use super::curve::Curve;
use super::engine::{Options, SimError, simulate};
use super::program::{MOST_PROCESSORS, Phase, Program};
use super::span::Span;
use super::workload::{Job, MachineSpec, Workload};
use crate::parameter::Value;
use crate::policy::{Needs, Policy};
use crate::registry::{DEFAULT_POLICY, Registry};
use crate::turnaround::Turnaround;

/// More programs than this are not simulated: the answer is to be there at once.
pub const MOST_FORECAST: usize = 32;
/// The time of a program alone on the machine, in turns of the policy.
const TURNS: u64 = 20;
/// One turn wins by more than this, or sharing does: it moves less.
const CLEAR: f64 = 0.95;

/// What is known of a program.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The name of the program; those of one name are executions of the same.
    pub name: String,
    /// Processors that it wants.
    pub request: u32,
    /// The speedup that it measured last, and on how many processors.
    pub speedup: Option<(f64, u32)>,
}

impl Seen {
    /// How it is taken to speed up; `None`: nothing was measured on more than one processor.
    fn curve(&self) -> Option<Curve> {
        let (speedup, on) = self.speedup.filter(|(speedup, on)| *on > 1 && *speedup > 0.0)?;
        let serial = (f64::from(on) / speedup - 1.0) / (f64::from(on) - 1.0);
        Some(Curve::Amdahl {
            serial: if serial.is_finite() { serial.clamp(0.0, 1.0) } else { 0.0 },
        })
    }
}

/// Mean turnarounds, in units of the mean time of a program alone on the machine.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Forecast {
    /// How many programs there are.
    pub programs: u32,
    /// Of how many a speedup is known.
    pub measured: u32,
    /// Under the policy that a manager has unless told otherwise.
    pub sharing: f64,
    /// In turns (`turnaround`), with the masters of waiting programs running.
    pub turns: f64,
    /// In turns, each program started when its turn comes.
    pub submitted: f64,
}

impl Forecast {
    /// Turns are clearly better.
    #[must_use]
    pub fn prefers_turns(&self) -> bool {
        self.turns < CLEAR * self.sharing
    }

    /// Turns are clearly better for programs that are held back until their turn.
    #[must_use]
    pub fn prefers_submission(&self) -> bool {
        self.submitted < CLEAR * self.sharing
    }
}

/// What these programs may expect of `processors` processors. None where there is nothing to choose
/// (they all fit, or there is one) or more than [`MOST_FORECAST`] programs.
///
/// # Errors
/// What the simulator refuses.
pub fn forecast(seen: &[Seen], processors: u32) -> Result<Option<Forecast>, SimError> {
    let processors = processors.min(MOST_PROCESSORS);
    let request = |it: &Seen| it.request.clamp(1, processors.max(1));
    let wanted: u64 = seen.iter().map(|it| u64::from(request(it))).sum();
    if processors == 0 || !(2..=MOST_FORECAST).contains(&seen.len()) || wanted <= processors.into()
    {
        return Ok(None);
    }
    let turn = Turnaround::new().parameters().into_iter().find(|it| it.key == "turn");
    let turn = match turn.map(|it| it.value) {
        Some(Value::Time(turn)) => turn,
        _ => 1,
    };
    let work = Span(turn * TURNS * u64::from(processors));
    let program = |it: &Seen| Program {
        phases: vec![Phase { steps: Some(100), ..Phase::parallel(work, 1000) }],
        curve: it.curve().unwrap_or_default(),
        execution_of: Some(it.name.clone()),
        ..Program::new(request(it), work)
    };
    let programs: BTreeMap<String, Program> =
        seen.iter().enumerate().map(|(i, it)| (format!("{i:02}"), program(it))).collect();
    let jobs = programs.keys().map(|name| Job::new(name, 1, 1)).collect();
    let mut workload = Workload::new(MachineSpec::flat(processors), programs, jobs);
    workload.manager.base_on_one = true;
    let registry = Registry::with_builtin_for(Needs::EVERYTHING);
    let mean = |workload: &Workload, policy: &str| {
        let outcome = simulate(workload, &registry, &Options::policy(policy))?;
        let alone: f64 = outcome.executions.iter().map(|it| it.dedicated as f64).sum();
        let took: f64 = outcome.executions.iter().map(|it| it.response() as f64).sum();
        Ok::<f64, SimError>(took / alone.max(1.0))
    };
    let sharing = mean(&workload, DEFAULT_POLICY)?;
    let submitted = mean(&workload, Turnaround::NAME)?;
    let started = BTreeMap::from([("hold-back".to_owned(), Value::Switch(false))]);
    workload.parameters.insert(Turnaround::NAME.to_owned(), started);
    let turns = mean(&workload, Turnaround::NAME)?;
    let measured = seen.iter().filter(|it| it.curve().is_some()).count();
    Ok(Some(Forecast {
        programs: seen.len() as u32,
        measured: measured as u32,
        sharing,
        turns,
        submitted,
    }))
}
