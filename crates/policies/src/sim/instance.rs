//! One execution of a program while it runs: where it is in its work, how fast it goes, when
//! something happens next.

use super::native::{Load, Native, Spell, Team};
use super::program::{Bottleneck, Phase, Program, Waits};
use super::recess::{Recess, Times};
use super::timeline::{Activity, Timeline};
use crate::snapshot::{AppId, AppView, Nanos, Speedup};

/// That never happens.
pub(super) const NEVER: Nanos = Nanos::MAX;
/// Parts of a region that count as nothing: rounding of times to ns.
const ALMOST: f64 = 1e-6;

/// Where it runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Place {
    /// It has no processor.
    Nowhere,
    /// On processors of its own.
    Own,
    /// Its master has this part of a processor.
    Shared(f64),
    /// Wherever the kernel runs it.
    Unbound,
}

/// With how many processors the parallel phases of this iteration ran.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sampled {
    Nothing,
    Team(u32),
    Mixed,
}

/// What an instance did at an event.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Happened {
    /// Its request rose.
    pub(super) raised: bool,
    /// Its request fell.
    pub(super) lowered: bool,
    /// It ended.
    pub(super) ended: bool,
    /// The processors on which an iteration's parallel phases ran, and the time that they took.
    pub(super) sample: Option<(u32, Nanos)>,
}

/// A program that runs.
pub(super) struct Instance<'w> {
    pub(super) id: AppId,
    pub(super) name: &'w str,
    pub(super) program: &'w Program,
    /// Job, copy over all jobs of the program, and repetition.
    pub(super) job: usize,
    pub(super) copy: u32,
    pub(super) repetition: u32,
    pub(super) arrival: Nanos,
    pub(super) started: Nanos,
    pub(super) request: u32,
    pub(super) allocated: u32,
    pub(super) speedup: Option<Speedup>,
    pub(super) place: Place,
    /// By virtual processor.
    pub(super) cpus: Vec<u32>,
    /// Where each virtual processor ran last.
    pub(super) was_on: Vec<u32>,
    pub(super) stalled_until: Nanos,
    pub(super) recess: Recess,
    pub(super) track: usize,
    /// Nodes of its memory: those on which it ran first.
    pub(super) homes: Vec<u32>,
    /// Threads of its teams under the kernel.
    active: u32,
    /// When its runtime looks at the load again.
    looks_at: Nanos,
    /// The part of the time in which its threads are runnable under the kernel.
    presence: f64,
    iteration: u32,
    phase: usize,
    /// Steps of the phase that are done.
    step: u32,
    /// Work of the phase, or of the step, that is left, ns on one processor.
    left: f64,
    /// Threads of the region; 0 before the first one.
    team: u32,
    phase_began: Nanos,
    /// Work per time, now.
    rate: f64,
    /// Processors that it occupies, now.
    width: f64,
    ends: Nanos,
    boundary: Nanos,
    spins_until: Nanos,
    pub(super) cpu_time: f64,
    pub(super) work: f64,
    parallel_time: Nanos,
    sampled: Sampled,
}

/// What to make an instance of.
pub(super) struct Start<'w> {
    pub(super) id: AppId,
    pub(super) name: &'w str,
    pub(super) program: &'w Program,
    pub(super) job: usize,
    pub(super) copy: u32,
    pub(super) repetition: u32,
    pub(super) arrival: Nanos,
}

impl<'w> Instance<'w> {
    /// An execution that starts now, without a processor.
    pub(super) fn new(start: Start<'w>, now: Nanos, patience: Nanos) -> Self {
        let Start { id, name, program, job, copy, repetition, arrival } = start;
        let mut instance = Self {
            id,
            name,
            program,
            job,
            copy,
            repetition,
            arrival,
            started: now,
            request: program.request_in(0, 0),
            allocated: 0,
            speedup: None,
            place: Place::Nowhere,
            cpus: Vec::new(),
            was_on: Vec::new(),
            stalled_until: 0,
            recess: Recess::default(),
            track: 0,
            homes: Vec::new(),
            active: u32::MAX,
            looks_at: NEVER,
            presence: 1.0,
            iteration: 0,
            phase: 0,
            step: 0,
            left: 0.0,
            team: 0,
            phase_began: now,
            rate: 0.0,
            width: 0.0,
            ends: NEVER,
            boundary: NEVER,
            spins_until: 0,
            cpu_time: 0.0,
            work: 0.0,
            parallel_time: 0,
            sampled: Sampled::Nothing,
        };
        instance.begin_phase(now, patience);
        instance
    }

    /// As a policy sees it.
    pub(super) fn view(&self) -> AppView {
        AppView {
            id: self.id,
            request: self.request,
            min: self.program.least(self.request),
            max: self.program.max.unwrap_or(u32::MAX),
            weight: self.program.weight,
            allocated: self.allocated,
            // Below 2^53 for any simulation that ends.
            cpu_time: self.cpu_time as Nanos,
            speedup: self.speedup,
            program: Some(AppView::number_of(
                self.program.execution_of.as_deref().unwrap_or(self.name),
            )),
            label: self.program.label.as_deref().map(AppView::number_of),
            class: self.program.class.as_deref().map(AppView::number_of),
            user: 0,
            arrival: self.arrival,
        }
    }

    fn now_in(&self) -> &Phase {
        &self.program.phases[self.phase]
    }

    /// The work of the phase, or of one of its steps.
    fn whole(&self) -> f64 {
        self.now_in().work() / f64::from(self.now_in().steps())
    }

    fn begin_phase(&mut self, now: Nanos, patience: Nanos) {
        self.left = self.whole();
        self.phase_began = now;
        if self.now_in().is_parallel() {
            self.team = self.target();
        } else if self.program.waiting == Waits::Spin {
            self.spins_until = now.saturating_add(patience);
        }
    }

    /// The size of its next team.
    fn target(&self) -> u32 {
        match self.place {
            Place::Nowhere => self.team,
            Place::Own | Place::Shared(_) if self.program.rigid => self.request,
            Place::Own => u32::try_from(self.cpus.len()).unwrap_or(u32::MAX),
            Place::Shared(_) => 1,
            Place::Unbound => self.active.min(self.request),
        }
    }

    /// Threads that the kernel has to run while nothing is bound.
    pub(super) fn runnable(&self, now: Nanos) -> u32 {
        match (self.place, self.now_in().is_parallel()) {
            (Place::Unbound, true) => self.team.max(1),
            (Place::Unbound, false) if self.team > 1 && now < self.spins_until => self.team,
            (Place::Unbound, false) => 1,
            _ => 0,
        }
    }

    /// Time passes from `now` to `then`; nothing happens in between.
    pub(super) fn advance(&mut self, now: Nanos, then: Nanos) {
        let time = (then - now) as f64;
        if then == now {
            return;
        }
        let done = (self.rate * time).min(self.left);
        self.left -= done;
        self.work += done;
        self.cpu_time += self.width * time;
        if self.now_in().is_parallel() {
            self.parallel_time += then - now;
            let whole = match self.place {
                Place::Own => self.team as usize <= self.cpus.len() && now >= self.stalled_until,
                Place::Unbound => true,
                Place::Nowhere | Place::Shared(_) => false,
            };
            self.sampled = match self.sampled {
                Sampled::Nothing if whole => Sampled::Team(self.team),
                Sampled::Team(team) if whole && team == self.team => self.sampled,
                _ => Sampled::Mixed,
            };
        }
    }

    /// Whether something of its own happens at this time.
    pub(super) fn next(&self) -> Nanos {
        let stall = if self.stalled_until > 0 { self.stalled_until } else { NEVER };
        let spin = if self.place == Place::Unbound && self.spins_until > 0 {
            self.spins_until
        } else {
            NEVER
        };
        let looks_at = if self.place == Place::Unbound { self.looks_at } else { NEVER };
        let recess = self.recess.until().unwrap_or(NEVER);
        self.ends.min(self.boundary).min(stall).min(spin).min(looks_at).min(recess)
    }

    /// Does what is due now.
    pub(super) fn happen(&mut self, now: Nanos, patience: Nanos) -> Happened {
        let mut happened = Happened::default();
        if self.stalled_until <= now {
            self.stalled_until = 0;
        }
        if self.spins_until <= now {
            self.spins_until = 0;
        }
        if self.boundary <= now {
            self.team = self.target();
        }
        if self.ends > now {
            return happened;
        }
        // What rounding to ns left over is done.
        self.work += self.left;
        self.left = 0.0;
        self.step += 1;
        if self.now_in().steps() > 1 {
            happened.sample = self.sample();
        }
        if self.step < self.now_in().steps() {
            self.begin_phase(now, patience);
            return happened;
        }
        self.step = 0;
        self.phase += 1;
        if self.phase == self.program.phases.len() {
            happened.sample = self.sample().or(happened.sample);
            self.phase = 0;
            self.iteration += 1;
            if self.iteration == self.program.iterations {
                self.ends = NEVER;
                happened.ended = true;
                return happened;
            }
        }
        let request = self.program.request_in(self.iteration, self.phase);
        happened.raised = request > self.request;
        happened.lowered = request < self.request;
        self.request = request;
        self.begin_phase(now, patience);
        happened
    }

    /// Time of the parallel part that ends now, if it ran with one team.
    fn sample(&mut self) -> Option<(u32, Nanos)> {
        let (sampled, time) = (self.sampled, self.parallel_time);
        (self.sampled, self.parallel_time) = (Sampled::Nothing, 0);
        match sampled {
            Sampled::Team(team) if time > 0 => Some((team, time)),
            _ => None,
        }
    }

    /// Regions of the phase that have begun or ended, but for the one that begins now.
    fn regions_begun(&self) -> f64 {
        ((self.whole() - self.left) / self.now_in().region_work() + ALMOST).floor()
    }

    /// Where a region begins now, the team takes the size that it can have, or the master waits for
    /// its turn. Before [`Instance::plan`], and before the load is known, for all.
    pub(super) fn settle(&mut self, now: Nanos, quantum: Nanos) {
        let (work, region) = (self.whole(), self.now_in().region_work());
        let into = (work - self.left) - self.regions_begun() * region;
        let begins = self.now_in().is_parallel() && into < ALMOST * region;
        if begins {
            self.team = self.target();
        }
        match self.place {
            Place::Shared(part) if begins => {
                let of = |team: u32| region / self.program.curve.at(team);
                let (team, most) = (self.team.max(1), self.view().wants());
                let times = Times { alone: of(team) * f64::from(team) / part, in_turn: of(most) };
                self.recess.at_fork(now, quantum, times);
            }
            Place::Shared(_) => {}
            Place::Own | Place::Nowhere | Place::Unbound => self.recess.has_turn(),
        }
    }

    /// Its master waits for its turn.
    pub(super) fn waits_for_turn(&self) -> bool {
        self.recess.until().is_some()
    }

    /// What it does next under the kernel, alone.
    fn alone(&self, busy: u32) -> Spell {
        let amount = self.next_amount();
        let threads = if self.now_in().is_parallel() { self.team.max(1) } else { 1 };
        match &self.program.native {
            Some(code) => code.alone(amount, threads),
            None if self.now_in().is_parallel() => {
                Spell::without_pause(amount / self.speed(threads, busy))
            }
            None => Spell::without_pause(amount),
        }
    }

    /// The work of a region, or what is left of a serial phase.
    fn next_amount(&self) -> f64 {
        if self.now_in().is_parallel() { self.now_in().region_work() } else { self.left.max(1.0) }
    }

    fn as_team(&self) -> Team {
        Team {
            threads: if self.now_in().is_parallel() { self.team.max(1) } else { 1 },
            blocks: self.program.waiting == Waits::Block,
            refill: self.program.refill.ns(),
        }
    }

    /// For which part of the time its threads are runnable under the kernel.
    pub(super) fn present(&self, native: &Native, load: Load, busy: u32) -> f64 {
        let alone = self.alone(busy);
        let pauses = alone.pauses(load.others);
        if pauses <= 0.0 {
            return 1.0;
        }
        let time = native.region(self.as_team(), alone.runs, load.all);
        time / (time + pauses)
    }

    /// The same, as found for all programs together.
    pub(super) fn set_presence(&mut self, presence: f64) {
        self.presence = presence;
    }

    /// Its runtime looks at the load: so many runnable threads per processor.
    pub(super) fn look(&mut self, now: Nanos, native: &Native, load: f64) {
        let Some(every) = native.adapts.filter(|_| self.place == Place::Unbound) else { return };
        if self.looks_at == NEVER {
            self.looks_at = now.saturating_add(every.0);
        }
        if self.looks_at <= now && load > 0.0 {
            let before = f64::from(self.active.min(self.request));
            // At most the request: the cast is exact.
            self.active = (before / load).round().clamp(1.0, f64::from(self.request)) as u32;
            self.looks_at = now.saturating_add(every.0);
        }
    }

    /// The processors on which its threads work.
    pub(super) fn works_on(&self) -> &[u32] {
        let threads = match (self.place, self.now_in().is_parallel()) {
            (Place::Own, true) => self.team.max(1) as usize,
            (Place::Shared(_), _) if self.waits_for_turn() => 0,
            (Place::Own | Place::Shared(_), _) => 1,
            (Place::Nowhere | Place::Unbound, _) => 0,
        };
        &self.cpus[..threads.min(self.cpus.len())]
    }

    /// Processors that it keeps busy.
    pub(super) fn busy(&self, now: Nanos) -> f64 {
        let team = if self.now_in().is_parallel() { self.team.max(1) } else { 1 };
        match self.place {
            Place::Nowhere => 0.0,
            Place::Own => f64::from(team).min(self.cpus.len() as f64),
            Place::Shared(_) if self.waits_for_turn() => 0.0,
            Place::Shared(part) => part,
            Place::Unbound => f64::from(self.runnable(now)),
        }
    }

    /// The speed of a team on processors of its own while `busy` processors work in the whole
    /// machine.
    fn speed(&self, team: u32, busy: u32) -> f64 {
        match self.program.bottleneck {
            Bottleneck::Program => self.program.curve.at(team),
            Bottleneck::Machine => {
                let busy = busy.max(team).max(1);
                f64::from(team) * self.program.curve.at(busy) / f64::from(busy)
            }
        }
    }

    /// How fast it goes from now on, and when something happens next. `load` is that under the
    /// kernel; `busy`: processors that work, of all programs; `hardware`: its speed on the
    /// processors that it has, relative to near memory and whole cores.
    pub(super) fn plan(
        &mut self,
        now: Nanos,
        native: &Native,
        load: Load,
        busy: u32,
        hardware: f64,
    ) {
        let is_parallel = self.now_in().is_parallel();
        let (work, region) = (self.whole(), self.now_in().region_work());
        let begun = self.regions_begun();
        let team = self.team.max(1);
        let speedup = if is_parallel { self.speed(team, busy) } else { 1.0 };
        let processors = u32::try_from(self.cpus.len()).unwrap_or(u32::MAX);
        (self.rate, self.width) = match self.place {
            Place::Nowhere => (0.0, 0.0),
            Place::Own if now < self.stalled_until => (0.0, f64::from(processors)),
            Place::Own if !is_parallel => (1.0, f64::from(processors)),
            Place::Own => {
                let part = f64::from(processors.min(team)) / f64::from(team);
                (speedup * part, f64::from(processors))
            }
            Place::Shared(_) if self.waits_for_turn() => (0.0, 0.0),
            Place::Shared(part) if now < self.stalled_until => (0.0, part),
            Place::Shared(part) if !is_parallel => (part, part),
            Place::Shared(part) => (speedup / f64::from(team) * part, part),
            Place::Unbound => {
                let alone = self.alone(busy);
                let time =
                    native.region(self.as_team(), alone.runs, load.all) + alone.pauses(load.others);
                let width = f64::from(self.runnable(now)) / load.all.max(1.0) * self.presence;
                (self.next_amount() / time, width)
            }
        };
        self.rate *= hardware;
        let after = |work: f64, rate: f64| {
            if rate > 0.0 {
                now.saturating_add(((work / rate).ceil() as Nanos).max(1))
            } else {
                NEVER
            }
        };
        self.ends = after(self.left, self.rate);
        let next = (begun + 1.0) * region;
        let waits = matches!(self.place, Place::Shared(_)) && self.recess.may_begin();
        let changes =
            is_parallel && (self.team != self.target() || waits) && next < work * (1.0 - ALMOST);
        self.boundary = if changes { after(next - (work - self.left), self.rate) } else { NEVER };
    }

    /// Whether it makes progress.
    pub(super) fn moves(&self) -> bool {
        self.rate > 0.0 || self.stalled_until > 0 || self.waits_for_turn()
    }

    /// Writes down what each virtual processor does from now on.
    pub(super) fn note(&self, now: Nanos, timeline: &mut Timeline) {
        let is_parallel = self.now_in().is_parallel();
        for vp in 0..timeline.tracks[self.track].virtual_processors.len() {
            let works = if is_parallel { vp < self.team.max(1) as usize } else { vp == 0 };
            let cpu = self.cpus.get(vp).copied();
            let (cpu, activity) = match self.place {
                Place::Own if cpu.is_some() => {
                    let refills = now < self.stalled_until;
                    let working = if works { Activity::Running } else { Activity::Idle };
                    (cpu, if refills { Activity::Refilling } else { working })
                }
                Place::Shared(_) if cpu.is_some() && !self.waits_for_turn() => {
                    (cpu, Activity::Sharing)
                }
                Place::Unbound if vp < self.runnable(now) as usize => (None, Activity::TimeShared),
                _ => (None, Activity::Absent),
            };
            timeline.note(self.track, vp, now, cpu, activity);
        }
    }
}
