//! The event loop: time goes from one event to the next, and the manager decides at each.
//!
//! # Protocol
//! At each time at which something happens: (1) programs do what is due: phases end, requests
//! change, executions end and the next repetition comes; (2) another policy takes over, if one is
//! to; (3) programs are admitted, as far as they may start; (4) the policy is asked once for the
//! most important thing that happened, and again with [`Cause::Quantum`] when a quantum ended, so
//! that no turn is lost; (5) the placement moves virtual processors; (6) all speeds are computed
//! anew.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::hardware::Hardware;
use super::instance::{Instance, NEVER, Start};
use super::outcome::{Execution, Outcome};
use super::timeline::Timeline;
use super::workload::{Fault, Workload, has_level};
use crate::admission::Waiting;
use crate::decision::{BrokenRule, Decision};
use crate::placement::{Machine, Placement, Speeds};
use crate::policy::Policy;
use crate::registry::Registry;
use crate::snapshot::{AppId, AppView, Cause, Nanos, Snapshot};
use crate::speedups::{Sample, Speedups};

mod moves;
mod speeds;

/// After this many decisions in a row without progress of any program, the policy lets all starve.
const MOST_IDLE: u32 = 10_000;

/// At most this much processor time, and work, is counted in all: sums stay within their type (292
/// years).
const LONGEST: Nanos = Nanos::MAX / 2;

/// How to simulate.
#[derive(Debug, Clone)]
pub struct Options {
    /// The policy, if it is not the workload's own.
    pub policy: Option<String>,
    /// Whether to write down which program runs where, and when.
    pub timeline: bool,
    /// More events than this are an error.
    pub most_events: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { policy: None, timeline: false, most_events: 50_000_000 }
    }
}

impl Options {
    /// With this policy.
    #[must_use]
    pub fn policy(name: &str) -> Self {
        Self { policy: Some(name.to_owned()), ..Self::default() }
    }
}

/// Why there is no outcome.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The workload cannot be simulated.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The policy broke a rule.
    #[error("policy {policy} breaks a rule at {at} ns: {rule}")]
    Broken {
        /// The policy.
        policy: String,
        /// The broken rule, with the application that breaks it.
        rule: BrokenRule,
        /// When.
        at: Nanos,
    },
    /// No program makes progress.
    #[error("policy {policy} lets {program} and all others wait for ever at {at} ns")]
    Stuck {
        /// The policy.
        policy: String,
        /// The first of those that wait.
        program: String,
        /// Since when.
        at: Nanos,
    },
    /// It is too much to be counted.
    #[error(
        "more than {LONGEST} ns of processor time at {at} ns, and the workload has not ended; make it shorter"
    )]
    TooMuch {
        /// When.
        at: Nanos,
    },
    /// It takes too long.
    #[error(
        "{events} events and the workload has not ended; make it shorter or its quantum longer"
    )]
    TooLong {
        /// How many.
        events: u64,
    },
}

/// A program that comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Nanos,
    /// Order among those that come at once.
    order: u64,
    job: usize,
    copy: u32,
    repetition: u32,
}

/// Simulates a workload to its end.
///
/// # Errors
/// When it cannot be simulated, or the policy breaks a rule.
pub fn simulate(
    workload: &Workload,
    registry: &Registry,
    options: &Options,
) -> Result<Outcome, SimError> {
    workload.check(registry)?;
    let name = options.policy.as_deref().unwrap_or(&workload.manager.policy);
    let policy = workload.policy(registry, name)?;
    Engine::new(workload, registry, policy, options).run()
}

struct Engine<'w> {
    workload: &'w Workload,
    registry: &'w Registry,
    options: &'w Options,
    machine: Machine,
    policy: Box<dyn Policy>,
    placement: Placement,
    decision: Decision,
    speedups: Speedups,
    now: Nanos,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    order: u64,
    waiting: VecDeque<(AppId, Arrival)>,
    running: Vec<Instance<'w>>,
    switches: VecDeque<(Nanos, &'w str)>,
    quantum_ends: Nanos,
    timer: Nanos,
    admission: Nanos,
    next_id: u64,
    hardware: Hardware,
    /// Where programs are to be by the last decision; what is too young to be taken follows later.
    targets: Vec<(AppId, Vec<u32>)>,
    /// Since when a program has each processor.
    since: BTreeMap<u32, Nanos>,
    /// When the next processor may be taken that a target waits for.
    hold_ends: Nanos,
    /// The application that ran last on each processor.
    used_by: BTreeMap<u32, AppId>,
    outcome: Outcome,
    /// Of all executions that have ended.
    cpu_time: Nanos,
    idle: u32,
}

impl<'w> Engine<'w> {
    fn new(
        workload: &'w Workload,
        registry: &'w Registry,
        policy: Box<dyn Policy>,
        options: &'w Options,
    ) -> Self {
        let outcome = Outcome {
            workload: workload.name.clone(),
            policy: policy.name().to_owned(),
            processors: workload.machine.processors,
            executions: Vec::new(),
            work: 0,
            decisions: 0,
            reallocations: 0,
            migrations: 0,
            reports: (0, 0),
            timeline: options.timeline.then(|| Timeline {
                processors: workload.machine.processors,
                ..Timeline::default()
            }),
        };
        let mut switches: Vec<(Nanos, &str)> =
            workload.switches.iter().map(|switch| (switch.at.0, switch.policy.as_str())).collect();
        switches.sort_by_key(|(at, _)| *at);
        let mut machine = workload.machine.machine();
        if !workload.manager.fast_first {
            machine.speeds = Speeds::default();
        }
        let mut engine = Self {
            workload,
            registry,
            options,
            machine,
            policy,
            placement: Placement::with_smt(workload.manager.smt),
            decision: Decision::default(),
            speedups: Speedups::new(),
            now: 0,
            arrivals: BinaryHeap::new(),
            order: 0,
            waiting: VecDeque::new(),
            running: Vec::new(),
            switches: switches.into(),
            quantum_ends: NEVER,
            timer: NEVER,
            admission: NEVER,
            next_id: 0,
            hardware: Hardware::new(&workload.machine),
            targets: Vec::new(),
            since: BTreeMap::new(),
            hold_ends: NEVER,
            used_by: BTreeMap::new(),
            outcome,
            cpu_time: 0,
            idle: 0,
        };
        let mut copies: BTreeMap<&str, u32> = BTreeMap::new();
        for (index, job) in workload.jobs.iter().enumerate() {
            for i in 0..job.copies {
                let copy = copies.entry(&job.program).or_insert(0);
                let at = job.arrival.0 + job.every.0 * u64::from(i);
                engine.arrive(Arrival { at, order: 0, job: index, copy: *copy, repetition: 0 });
                *copy += 1;
            }
        }
        engine
    }

    fn arrive(&mut self, arrival: Arrival) {
        self.order += 1;
        self.arrivals.push(Reverse(Arrival { order: self.order, ..arrival }));
    }

    fn run(mut self) -> Result<Outcome, SimError> {
        let mut events = 0;
        loop {
            let next = self.next();
            if self.running.is_empty() && self.waiting.is_empty() && self.arrivals.is_empty() {
                break;
            }
            if next == NEVER {
                return Err(self.stuck());
            }
            for instance in &mut self.running {
                instance.advance(self.now, next);
            }
            self.now = next;
            self.step()?;
            if self.outcome.work.max(self.cpu_time) > LONGEST {
                return Err(SimError::TooMuch { at: self.now });
            }
            events += 1;
            if events > self.options.most_events {
                return Err(SimError::TooLong { events });
            }
        }
        Ok(self.outcome)
    }

    fn next(&self) -> Nanos {
        let own = self.running.iter().map(Instance::next).min().unwrap_or(NEVER);
        let arrival = self.arrivals.peek().map_or(NEVER, |Reverse(arrival)| arrival.at);
        let switch = self.switches.front().map_or(NEVER, |(at, _)| *at);
        let timers = self.quantum_ends.min(self.timer).min(self.admission).min(self.hold_ends);
        own.min(arrival).min(switch).min(timers).max(self.now)
    }

    /// All that happens now.
    fn step(&mut self) -> Result<(), SimError> {
        let mut cause = self.programs();
        let mut more = |other: Cause| {
            if cause.is_none_or(|cause| rank(other) < rank(cause)) {
                cause = Some(other);
            }
        };
        while let Some(Reverse(arrival)) =
            self.arrivals.peek().copied().filter(|Reverse(a)| a.at <= self.now)
        {
            self.arrivals.pop();
            self.next_id += 1;
            self.waiting.push_back((AppId(self.next_id), arrival));
        }
        if let Some((_, name)) = self.switches.front().copied().filter(|(at, _)| *at <= self.now) {
            self.switches.pop_front();
            self.policy = self.workload.policy(self.registry, name)?;
            (self.timer, self.admission) = (NEVER, NEVER);
            more(Cause::Administration);
        }
        if self.timer <= self.now {
            more(Cause::Timer);
        }
        if self.admission <= self.now {
            self.admission = NEVER;
        }
        if self.admit() {
            more(Cause::Arrival);
        }
        let quantum = self.quantum_ends <= self.now;
        if let Some(cause) = cause {
            self.decide(cause)?;
        }
        if self.running.is_empty() {
            self.quantum_ends = NEVER;
        } else if quantum || self.quantum_ends == NEVER {
            self.quantum_ends = self.now + self.workload.manager.quantum.0;
            if quantum {
                self.decide(Cause::Quantum)?;
            }
        }
        if self.hold_ends <= self.now {
            self.settle();
        }
        self.plan();
        if self.running.is_empty() && !self.waiting.is_empty() && self.admission == NEVER {
            return Err(self.stuck());
        }
        let starved = !self.running.is_empty() && !self.running.iter().any(Instance::moves);
        self.idle = if starved { self.idle + 1 } else { 0 };
        if self.idle > MOST_IDLE { Err(self.stuck()) } else { Ok(()) }
    }

    fn stuck(&self) -> SimError {
        let waiting = self
            .waiting
            .front()
            .map(|(_, arrival)| self.workload.jobs[arrival.job].program.as_str());
        let program =
            self.running.first().map(|instance| instance.name).or(waiting).unwrap_or_default();
        SimError::Stuck {
            policy: self.policy.name().to_owned(),
            program: program.to_owned(),
            at: self.now,
        }
    }

    /// What programs do now. Returns why to decide.
    fn programs(&mut self) -> Option<Cause> {
        let reports = self.policy.needs().reports;
        let patience = self.workload.native.patience.0;
        let mut cause: Option<Cause> = None;
        let mut more = |other: Cause| {
            if cause.is_none_or(|cause| rank(other) < rank(cause)) {
                cause = Some(other);
            }
        };
        let mut at = 0;
        while at < self.running.len() {
            let instance = &mut self.running[at];
            let happened = instance.happen(self.now, patience);
            if let Some((processors, time)) = happened.sample.filter(|_| reports && !happened.ended)
            {
                let off = wobble(self.outcome.reports.0, self.workload.manager.noise);
                let time = ((time as f64 * off).round() as Nanos).max(1);
                let sample = Sample { region: 0, processors, time, at: self.now };
                let machine = self.workload.machine.processors;
                if self.workload.manager.base_on_one
                    && self.speedups.recall(instance.name, 0, 1).is_none()
                {
                    let alone = time as f64 * instance.program.curve.at(processors);
                    let base = Sample { processors: 1, time: alone.round() as Nanos, ..sample };
                    // One that is not believed leaves the first report as the base.
                    let _refused = self.speedups.sample(instance.name, base, machine);
                }
                self.outcome.reports.0 += 1;
                match self.speedups.sample(instance.name, sample, machine) {
                    Ok(speedup) => {
                        instance.speedup = Some(speedup);
                        more(Cause::Speedup);
                    }
                    Err(_) => self.outcome.reports.1 += 1,
                }
            }
            if happened.raised {
                more(Cause::Request);
            }
            if happened.lowered {
                more(Cause::Release);
            }
            if happened.ended {
                more(Cause::Exit);
                let ended = self.running.remove(at);
                self.end(&ended);
            } else {
                at += 1;
            }
        }
        cause
    }

    fn end(&mut self, instance: &Instance<'_>) {
        let job = &self.workload.jobs[instance.job];
        let cpu_time = instance.cpu_time.round() as Nanos;
        // Both casts saturate; beyond `LONGEST` the step is an error.
        self.outcome.work = self.outcome.work.saturating_add(instance.work.round() as Nanos);
        self.cpu_time = self.cpu_time.saturating_add(cpu_time);
        self.outcome.executions.push(Execution {
            program: instance.name.to_owned(),
            copy: instance.copy,
            repetition: instance.repetition,
            arrival: instance.arrival,
            started: instance.started,
            ended: self.now,
            cpu_time,
            dedicated: instance.program.dedicated(self.workload.machine.processors).round()
                as Nanos,
        });
        if let Some(timeline) = &mut self.outcome.timeline {
            timeline.close(instance.track, self.now);
        }
        let repetition = instance.repetition + 1;
        if repetition < job.repetitions && job.until.is_none_or(|until| self.now < until.0) {
            self.arrive(Arrival {
                at: self.now,
                order: 0,
                job: instance.job,
                copy: instance.copy,
                repetition,
            });
        }
    }

    /// Admits the programs that may start. True when one did.
    fn admit(&mut self) -> bool {
        let mut admitted = false;
        // A policy that raises the level one at a time may answer more when it is asked again.
        while !self.waiting.is_empty() {
            let views = self.views();
            let queue: Vec<Waiting> =
                self.waiting.iter().map(|(id, arrival)| self.as_waiting(*id, arrival)).collect();
            let answer = self.policy.admission(&self.snapshot(&views, Cause::Arrival), &queue);
            let room = match self.workload.manager.level {
                Some(level) if !has_level(&*self.policy) => {
                    (level as usize).saturating_sub(self.running.len())
                }
                _ => usize::MAX,
            };
            self.admission = answer.next.filter(|next| *next > self.now).unwrap_or(NEVER);
            let number = (answer.admit as usize).min(room).min(queue.len());
            let number = number.min(self.with_minima(number));
            if number == 0 {
                break;
            }
            for _ in 0..number {
                if let Some((id, arrival)) = self.waiting.pop_front() {
                    self.start(id, arrival);
                }
            }
            admitted = true;
        }
        if self.waiting.is_empty() {
            self.admission = NEVER;
        }
        admitted
    }

    /// How many of the first `number` in the queue have their minimum beside those of the programs
    /// that run. One program alone always has.
    fn with_minima(&self, number: usize) -> usize {
        if !self.workload.manager.keep_minima {
            return number;
        }
        let mut sum: u64 = self.running.iter().map(|it| u64::from(it.view().floor())).sum();
        let fits = |(place, (_, arrival)): &(usize, &(AppId, Arrival))| {
            let program = &self.workload.programs[&self.workload.jobs[arrival.job].program];
            let request = program.request_in(0, 0);
            sum += u64::from(program.least(request).min(program.max.unwrap_or(u32::MAX)));
            let is_alone = *place == 0 && self.running.is_empty();
            is_alone || sum <= u64::from(self.workload.machine.processors)
        };
        self.waiting.iter().enumerate().take(number).take_while(fits).count()
    }

    fn as_waiting(&self, id: AppId, arrival: &Arrival) -> Waiting {
        let program = &self.workload.programs[&self.workload.jobs[arrival.job].program];
        Waiting { id, request: program.request_in(0, 0), since: arrival.at }
    }

    fn start(&mut self, id: AppId, arrival: Arrival) {
        let job = &self.workload.jobs[arrival.job];
        let (name, program) = self
            .workload
            .programs
            .get_key_value(&job.program)
            .expect("the workload was checked: every job has one");
        let Arrival { at, job, copy, repetition, .. } = arrival;
        let start = Start { id, name, program, job, copy, repetition, arrival: at };
        let mut instance = Instance::new(start, self.now, self.workload.native.patience.0);
        if let Some(timeline) = &mut self.outcome.timeline {
            let track = format!("{name}.{copy}.{repetition}");
            instance.track = timeline.open(track, name, self.now, program.peak());
        }
        self.running.push(instance);
    }

    fn views(&self) -> Vec<AppView> {
        self.running.iter().map(Instance::view).collect()
    }

    fn snapshot<'a>(&self, apps: &'a [AppView], cause: Cause) -> Snapshot<'a> {
        Snapshot {
            now: self.now,
            quantum: self.workload.manager.quantum.0,
            processors: self.workload.machine.processors,
            apps,
            cause,
            master_always: self.workload.manager.master_always,
        }
    }

    fn decide(&mut self, cause: Cause) -> Result<(), SimError> {
        let views = self.views();
        let snapshot = self.snapshot(&views, cause);
        let known = self.decision.allocations.iter().map(|it| it.app);
        let passes = cause == Cause::Release
            && self.workload.manager.work_list
            && known.eq(views.iter().map(|view| view.id));
        let decision = if passes {
            self.policy.release(&snapshot, &self.decision)
        } else {
            self.policy.decide(&snapshot)
        };
        self.outcome.decisions += 1;
        decision.check(&snapshot).map_err(|rule| SimError::Broken {
            policy: self.policy.name().to_owned(),
            rule,
            at: self.now,
        })?;
        self.timer = decision.next.map_or(NEVER, |next| next.max(self.now + 1));
        // The same decision again moves no application, but for turns (P3 of the placement).
        let moves = decision.rotate || decision.allocations != self.decision.allocations;
        let moves = moves || decision.unbound != self.decision.unbound;
        self.decision = decision;
        self.announce_turns();
        if moves {
            self.follow();
        }
        Ok(())
    }
}

/// What matters most when several things happen at once.
fn rank(cause: Cause) -> u32 {
    match cause {
        Cause::Administration => 0,
        Cause::Arrival => 1,
        Cause::Exit => 2,
        Cause::Request => 3,
        Cause::Release => 4,
        Cause::Speedup => 5,
        Cause::Timer => 6,
        Cause::Quantum => 7,
    }
}

/// The factor by which report number `at` is off: within 1 - `noise` and 1 + `noise`, by a fixed
/// rule (splitmix64).
fn wobble(at: u64, noise: f64) -> f64 {
    let mut z = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let part = ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
    1.0 + noise * (2.0 * part - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_off_by_as_much_as_the_noise_on_both_sides() {
        let all: Vec<f64> = (0..1000).map(|at| wobble(at, 0.25)).collect();
        assert!(all.iter().all(|it| (0.75..=1.25).contains(it)));
        let mean = all.iter().sum::<f64>() / 1000.0;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
        assert!(all.iter().any(|it| *it < 0.8) && all.iter().any(|it| *it > 1.2));
        assert_eq!(wobble(7, 0.0).to_bits(), 1.0_f64.to_bits());
    }
}
