//! A workload: a machine, a manager, programs, and when they come.
//!
//! The form of a workload file; reading files is the business of `cpumgr simulate`.
//! [`Workload::check`] names what cannot be simulated by its place, `jobs[2].program`, so that the
//! reader of the file can say the line.
//!
//! # Invariants
//! W1  What is checked ends: work, copies and repetitions are bounded, so that no file makes the
//!     simulator run for ever or without memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::native::Native;
use super::pairs::pairs;
use super::program::{MOST_PROCESSORS, Program};
use super::span::Span;
use crate::classes::{Class, Classes};
use crate::parameter::{self, Settings};
use crate::placement::{Machine, MachineCpu, Smt};
use crate::policy::Policy;
use crate::registry::{DEFAULT_POLICY, Registry};

/// The most classes, as in a manager's configuration.
const MOST_CLASSES: usize = 1000;

/// The most programs at once.
const MAX_LEVEL: u32 = 65_536;
/// The most executions of all jobs together.
const MOST_EXECUTIONS: u64 = 100_000;
/// The most phases of all executions together.
const MOST_PHASES: u64 = 20_000_000;

/// What is simulated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Its name in reports.
    pub name: String,
    /// Where it comes from, what is assumed.
    #[serde(default)]
    pub about: String,
    /// The machine.
    pub machine: MachineSpec,
    /// How the processors are shared out.
    #[serde(default)]
    pub manager: ManagerSpec,
    /// What happens under the policy `none`.
    #[serde(default)]
    pub native: Native,
    /// Parameters of policies, by the policy's name.
    #[serde(default)]
    pub parameters: BTreeMap<String, Settings>,
    /// Classes of programs, by name: each has the policy inside, and its part of the machine.
    #[serde(default)]
    pub classes: BTreeMap<String, Class>,
    /// The programs by name.
    pub programs: BTreeMap<String, Program>,
    /// Which programs run, and when.
    pub jobs: Vec<Job>,
    /// Policies that take over while programs run.
    #[serde(default)]
    pub switches: Vec<Switch>,
}

/// A regular machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineSpec {
    /// Logical processors.
    pub processors: u32,
    /// Processors that share a core.
    #[serde(default = "one")]
    pub per_core: u32,
    /// Processors that share a last-level cache; all, if it is left out.
    #[serde(default)]
    pub per_cache: Option<u32>,
    /// Processors of a memory node; all, if it is left out.
    #[serde(default)]
    pub per_node: Option<u32>,
    /// What two busy hardware threads of a core do together, relative to one; each further thread
    /// adds as much as the second.
    #[serde(default = "usual_gain")]
    pub smt_gain: f64,
    /// How much longer memory of another node takes than that of the own one.
    #[serde(default = "no_factor")]
    pub remote: f64,
    /// How many threads that do nothing but read and write keep the memory of a node busy. None: no
    /// number of threads does.
    #[serde(default)]
    pub bandwidth: Option<f64>,
    /// How fast processors are, in order of their numbers, as how many and how fast: `[[4, 1.0],
    /// [8, 0.55]]`. 1 is the speed for which lengths of phases are given. Empty: all have it.
    #[serde(default, deserialize_with = "pairs")]
    pub speeds: Vec<(u32, f64)>,
}

fn usual_gain() -> f64 {
    1.3
}

fn no_factor() -> f64 {
    1.0
}

fn one() -> u32 {
    1
}

impl MachineSpec {
    /// A machine of `processors` processors under one cache.
    #[must_use]
    pub fn flat(processors: u32) -> Self {
        Self {
            processors,
            per_core: 1,
            per_cache: None,
            per_node: None,
            smt_gain: usual_gain(),
            remote: no_factor(),
            bandwidth: None,
            speeds: Vec::new(),
        }
    }

    /// Its processors.
    #[must_use]
    pub fn machine(&self) -> Machine {
        let per_cache = self.per_cache.unwrap_or(self.processors).max(1);
        let per_node = self.per_node.unwrap_or(self.processors).max(1);
        let cpu = |id| MachineCpu {
            id,
            core: id / self.per_core.max(1),
            llc: id / per_cache,
            node: id / per_node,
        };
        let mut machine = Machine::new((0..self.processors).map(cpu).collect());
        let speeds = self.speed_of_each();
        let mut known: Vec<f64> = speeds.clone();
        known.sort_unstable_by(|a, b| b.total_cmp(a));
        known.dedup();
        for (id, speed) in (0..self.processors).zip(speeds) {
            let class = known.iter().take_while(|known| **known > speed).count();
            machine.speeds.set(id, u32::try_from(class).unwrap_or(u32::MAX));
        }
        machine
    }

    /// The speed of each processor; empty: 1.
    pub(super) fn speed_of_each(&self) -> Vec<f64> {
        let run = |(number, speed): &(u32, f64)| std::iter::repeat_n(*speed, *number as usize);
        self.speeds.iter().flat_map(run).take(self.processors as usize).collect()
    }

    fn check_speeds(&self) -> Result<(), Fault> {
        let per_core = self.per_core.max(1);
        let numbers = || self.speeds.iter().map(|(number, _)| u64::from(*number));
        let sum: u64 = numbers().sum();
        if !self.speeds.is_empty() && sum != u64::from(self.processors) {
            let message = format!("of {sum} processors; it is of all {}", self.processors);
            return Err(Fault::at("speeds", message));
        }
        // The last core may have fewer.
        let mut from = 0;
        for number in numbers() {
            from += number;
            let is_cut =
                !from.is_multiple_of(per_core.into()) && from != u64::from(self.processors);
            if number == 0 || is_cut {
                let message = format!(
                    "of {number} processors; it is 1 or more, and a multiple of {per_core}, a core"
                );
                return Err(Fault::at("speeds", message));
            }
        }
        match self.speeds.iter().find(|(_, speed)| !(0.05..=1.0).contains(speed)) {
            Some((_, speed)) => Err(Fault::at("speeds", format!("{speed}; it is from 0.05 to 1"))),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), Fault> {
        if !(1..=MOST_PROCESSORS).contains(&self.processors) {
            let message = format!("{}; it is from 1 to {MOST_PROCESSORS}", self.processors);
            return Err(Fault::at("processors", message));
        }
        let nested =
            [("per_core", 1, Some(self.per_core)), ("per_cache", self.per_core, self.per_cache)];
        let nodes = ("per_node", self.per_cache.unwrap_or(self.per_core), self.per_node);
        for (at, inner, outer) in nested.into_iter().chain([nodes]) {
            if outer.is_some_and(|outer| outer == 0 || !outer.is_multiple_of(inner)) {
                let message = format!(
                    "{}; it is a multiple of {inner}, what is inside it",
                    outer.unwrap_or(0)
                );
                return Err(Fault::at(at, message));
            }
        }
        for (at, factor, lowest, highest) in [
            ("smt_gain", Some(self.smt_gain), 0.5, 8.0),
            ("remote", Some(self.remote), 1.0, 100.0),
            ("bandwidth", self.bandwidth, 0.01, 4096.0),
        ] {
            if let Some(factor) = factor.filter(|it| !(lowest..=highest).contains(it)) {
                let message = format!("{factor}; it is from {lowest} to {highest}");
                return Err(Fault::at(at, message));
            }
        }
        self.check_speeds()
    }
}

/// How the processors are shared out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ManagerSpec {
    /// The policy.
    pub policy: String,
    /// The time between regular decisions.
    pub quantum: Span,
    /// How many programs run at once; the others wait. For a policy with a parameter `level` it is
    /// that, and the policy decides.
    pub level: Option<u32>,
    /// Whether every program that runs keeps its master running.
    pub master_always: bool,
    /// Whether programs' times on one processor are known before their first report, as those that
    /// the daemon's programs measure; else the first number of processors is believed to be used
    /// well.
    pub base_on_one: bool,
    /// In which order the hardware threads of a core are filled.
    pub smt: Smt,
    /// Whether fast processors go out before slow ones; else nothing is known of speeds.
    pub fast_first: bool,
    /// Whether processors that programs give back go to the work-list of the last decision, as in
    /// the daemon, until a quantum ends or something else happens; else there is a new decision.
    pub work_list: bool,
    /// For how long a processor is not taken from a program after it was given, unless the program
    /// wants less: 10ms in the daemon, or a quarter of the quantum.
    pub hold: Span,
    /// How far the times that programs report may be off, as a part of them: each is by a number
    /// between these ends, made by a fixed rule.
    pub noise: f64,
    /// Whether a program waits in the queue until its minimum fits beside those of the programs
    /// that run.
    pub keep_minima: bool,
}

impl Default for ManagerSpec {
    fn default() -> Self {
        Self {
            policy: DEFAULT_POLICY.to_owned(),
            quantum: Span::from_ms(100),
            level: None,
            master_always: true,
            base_on_one: false,
            smt: Smt::Spread,
            fast_first: true,
            work_list: true,
            hold: Span(0),
            noise: 0.0,
            keep_minima: false,
        }
    }
}

/// A program that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Which.
    pub program: String,
    /// When its first copy comes.
    #[serde(default)]
    pub arrival: Span,
    /// How many copies there are.
    #[serde(default = "one")]
    pub copies: u32,
    /// The time between two copies.
    #[serde(default)]
    pub every: Span,
    /// How often each copy runs, one execution after the other.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// No repetition begins after this time.
    #[serde(default)]
    pub until: Option<Span>,
}

impl Job {
    /// `copies` copies at the beginning, each repeated `repetitions` times.
    #[must_use]
    pub fn new(program: &str, copies: u32, repetitions: u32) -> Self {
        Self {
            program: program.to_owned(),
            arrival: Span(0),
            copies,
            every: Span(0),
            repetitions,
            until: None,
        }
    }
}

/// Another policy takes over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switch {
    /// When.
    pub at: Span,
    /// Which.
    pub policy: String,
}

/// A workload that cannot be simulated, and where the fault is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {message}")]
pub struct Fault {
    /// The place in the workload, as `programs.swim.phases[0]`.
    pub at: String,
    /// What there is and what is allowed.
    pub message: String,
}

impl Fault {
    /// A fault at this place.
    #[must_use]
    pub fn at(at: &str, message: impl fmt::Display) -> Self {
        Self { at: at.to_owned(), message: message.to_string() }
    }

    fn within(self, outer: &str) -> Self {
        Self { at: format!("{outer}.{}", self.at), ..self }
    }
}

impl Workload {
    /// A workload of these programs and jobs, with the default manager.
    #[must_use]
    pub fn new(machine: MachineSpec, programs: BTreeMap<String, Program>, jobs: Vec<Job>) -> Self {
        Self {
            name: "workload".to_owned(),
            about: String::new(),
            machine,
            manager: ManagerSpec::default(),
            native: Native::default(),
            parameters: BTreeMap::new(),
            classes: BTreeMap::new(),
            programs,
            jobs,
            switches: Vec::new(),
        }
    }

    /// Says whether it can be simulated with the policies of `registry`.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self, registry: &Registry) -> Result<(), Fault> {
        self.machine.check().map_err(|fault| fault.within("machine"))?;
        let quantum = self.manager.quantum;
        if !(Span::from_ms(1)..=Span::from_ms(10_000)).contains(&quantum) {
            return Err(Fault::at("manager.quantum", format!("{quantum}; it is from 1ms to 10s")));
        }
        if self.manager.hold > Span::from_ms(1_000) {
            let message = format!("{}; it is at most 1s", self.manager.hold);
            return Err(Fault::at("manager.hold", message));
        }
        if !(0.0..=0.9).contains(&self.manager.noise) {
            let message = format!("{}; it is from 0 to 0.9", self.manager.noise);
            return Err(Fault::at("manager.noise", message));
        }
        // The range of every policy's own parameter of this name.
        if let Some(level) = self.manager.level.filter(|level| !(1..=MAX_LEVEL).contains(level)) {
            return Err(Fault::at(
                "manager.level",
                format!("{level} programs at once; it is from 1 to {MAX_LEVEL}"),
            ));
        }
        self.policy(registry, &self.manager.policy).map_err(|fault| match fault.at.as_str() {
            "policy" => fault.within("manager"),
            _ => fault,
        })?;
        for name in self.parameters.keys() {
            self.policy(registry, name).map_err(|fault| match fault.at.as_str() {
                "policy" => Fault::at(&format!("parameters.{name}"), fault.message),
                _ => fault,
            })?;
        }
        for (i, switch) in self.switches.iter().enumerate() {
            self.policy(registry, &switch.policy).map_err(|fault| match fault.at.as_str() {
                "policy" => fault.within(&format!("switches[{i}]")),
                _ => fault,
            })?;
        }
        self.native.check().map_err(|(at, message)| Fault::at(at, message).within("native"))?;
        if self.classes.len() > MOST_CLASSES {
            let message = format!("{} of them; at most {MOST_CLASSES}", self.classes.len());
            return Err(Fault::at("classes", message));
        }
        for (name, class) in &self.classes {
            class.check().map_err(|message| Fault::at(&format!("classes.{name}"), message))?;
        }
        for (name, program) in &self.programs {
            if let Some(class) = program.class.as_ref().filter(|it| !self.classes.contains_key(*it))
            {
                let known: Vec<&str> = self.classes.keys().map(String::as_str).collect();
                let message =
                    format!("no class is called {class:?}; there are: {}", known.join(", "));
                return Err(Fault::at(&format!("programs.{name}.class"), message));
            }
            program.check().map_err(|fault| fault.within(&format!("programs.{name}")))?;
        }
        self.check_jobs()
    }

    fn check_jobs(&self) -> Result<(), Fault> {
        if self.jobs.is_empty() {
            return Err(Fault::at("jobs", "no program runs; there is one job or more"));
        }
        let (mut executions, mut phases) = (0_u64, 0_u64);
        for (i, job) in self.jobs.iter().enumerate() {
            let at = |field: &str| format!("jobs[{i}].{field}");
            let Some(program) = self.programs.get(&job.program) else {
                let known: Vec<&str> = self.programs.keys().map(String::as_str).collect();
                let message = format!(
                    "no program is called {:?}; there are: {}",
                    job.program,
                    known.join(", ")
                );
                return Err(Fault::at(&at("program"), message));
            };
            for (field, number) in [("copies", job.copies), ("repetitions", job.repetitions)] {
                if number == 0 {
                    return Err(Fault::at(&at(field), "0; it is 1 or more"));
                }
            }
            for (field, time) in [("arrival", job.arrival), ("every", job.every)] {
                if time > Span::from_ms(10_000_000) {
                    return Err(Fault::at(&at(field), format!("{time}; it is at most 10000s")));
                }
            }
            let times = u64::from(job.copies) * u64::from(job.repetitions);
            executions = executions.saturating_add(times);
            phases = phases.saturating_add(times.saturating_mul(program.steps()));
            if executions > MOST_EXECUTIONS || phases > MOST_PHASES {
                let message = format!(
                    "with this one there are {executions} executions of {phases} phases; there may be \
                     {MOST_EXECUTIONS} of {MOST_PHASES}"
                );
                return Err(Fault::at(&at("copies"), message));
            }
        }
        Ok(())
    }

    /// The policy called `name` with the parameters of this workload.
    ///
    /// # Errors
    /// There is none, or a parameter cannot be set so.
    pub(super) fn policy(&self, registry: &Registry, name: &str) -> Result<Box<dyn Policy>, Fault> {
        let mut policy = registry.create(name).map_err(|error| Fault::at("policy", error))?;
        if !self.classes.is_empty() {
            let (registry, name) = (registry.clone(), name.to_owned());
            let make = move || registry.create(&name).expect("it was created a moment ago");
            policy = Box::new(Classes::new(&self.classes, make));
        }
        let mut settings = self.parameters.get(name).cloned().unwrap_or_default();
        if let (Some(level), true) = (self.manager.level, has_level(&*policy)) {
            settings.entry("level".to_owned()).or_insert(parameter::Value::Whole(level.into()));
        }
        parameter::apply(&mut *policy, &settings).map_err(|error| {
            use parameter::ParameterError as Error;
            let place = match &error {
                Error::Unknown { key, .. } => format!("parameters.{name}.{key}"),
                Error::Value { key, .. } => format!("parameters.{name}.{key}"),
            };
            Fault::at(&place, error)
        })?;
        Ok(policy)
    }
}

/// Whether the policy decides itself how many programs run at once.
pub(super) fn has_level(policy: &dyn Policy) -> bool {
    policy.parameters().iter().any(|parameter| parameter.key == "level")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameter::Value;
    use crate::policy::Needs;

    fn workload() -> Workload {
        let programs = BTreeMap::from([("a".to_owned(), Program::new(4, Span::from_ms(10)))]);
        Workload::new(MachineSpec::flat(8), programs, vec![Job::new("a", 2, 1)])
    }

    fn fault(change: impl FnOnce(&mut Workload)) -> String {
        let mut workload = workload();
        change(&mut workload);
        let registry = Registry::with_builtin_for(Needs::EVERYTHING);
        workload.check(&registry).expect_err("it cannot be simulated").to_string()
    }

    #[test]
    fn faults_are_told_with_their_place_and_what_is_allowed() {
        assert_eq!(workload().check(&Registry::with_builtin_for(Needs::EVERYTHING)), Ok(()));
        for (text, starts, has) in
            [
                (fault(|w| w.machine.processors = 0), "machine.processors: 0", "1 to 4096"),
                (
                    fault(|w| (w.machine.per_core, w.machine.per_cache) = (2, Some(3))),
                    "machine.per_cache: 3",
                    "multiple of 2",
                ),
                (fault(|w| w.machine.per_core = 0), "machine.per_core: 0", "multiple of 1"),
                (fault(|w| w.manager.policy = "just".into()), "manager.policy: ", "dss-ts"),
                (
                    fault(|w| {
                        w.classes = (0..1001).map(|i| (i.to_string(), Class::default())).collect();
                    }),
                    "classes: 1001",
                    "at most 1000",
                ),
                (fault(|w| w.manager.level = Some(0)), "manager.level: ", "from 1 to 65536"),
                (fault(|w| w.manager.level = Some(u32::MAX)), "manager.level: ", "from 1 to 65536"),
                (fault(|w| w.manager.quantum = Span(5)), "manager.quantum: 5ns", "1ms to 10s"),
                (fault(|w| w.native.coincidence = f64::NAN), "native.coincidence: ", "0 to 10"),
                (fault(|w| w.jobs.clear()), "jobs: ", "one job"),
                (fault(|w| w.jobs[0].program = "b".into()), "jobs[0].program: ", "there are: a"),
                (fault(|w| w.jobs[0].copies = 0), "jobs[0].copies: ", "1 or more"),
                (
                    fault(|w| w.machine.speeds = vec![(1, 1.0), (u32::MAX, 0.5)]),
                    "machine.speeds: ",
                    "it is of all",
                ),
                (fault(|w| w.jobs[0].copies = u32::MAX), "jobs[0].copies: ", "there may be"),
                (
                    fault(|w| w.switches = vec![Switch { at: Span(1), policy: "x".into() }]),
                    "switches[0].policy: ",
                    "equip",
                ),
                (
                    fault(|w| {
                        drop(w.parameters.insert(
                            "pdpa".into(),
                            Settings::from([("base".into(), Value::Whole(0))]),
                        ))
                    }),
                    "parameters.pdpa.base: ",
                    "from 1 to 1024",
                ),
                (
                    fault(|w| drop(w.parameters.insert("x".into(), Settings::new()))),
                    "parameters.x: ",
                    "equip",
                ),
                (
                    fault(|w| w.programs.get_mut("a").expect("it is there").request = 0),
                    "programs.a.request: ",
                    "from 1",
                ),
            ]
        {
            assert!(text.starts_with(starts) && text.contains(has), "{text}");
        }
    }
}
