//! Whether a policy keeps the rules: a test for its author to run.
//!
//! ```
//! use policies::{DssTs, conformance};
//!
//! let found = conformance::check(|| Box::new(DssTs::new())).expect("it keeps the rules");
//! assert!(found.decisions > 1000);
//! ```
//!
//! # Rules
//! - C1 A decision obeys D1 to D5 ([`decision`](crate::decision)), whatever the snapshot: fields out
//!   of range, no processor, no application, more applications than processors.
//! - C2 Two objects that were told the same decide the same.
//! - C3 When nothing changed, and no quantum and no timer ended, the allocations stay.
//! - C4 A release obeys D1 to D5, gives to applications of the work-list only, and takes from none
//!   what it still wants.
//! - C5 No more programs are admitted than wait.
//! - C6 Each parameter takes its lowest, default and highest value and then has it; a parameter
//!   that is not there is refused.
//! - C7 A policy that says that it is timeless decides the same at the end of a quantum in which
//!   nothing changed.
//! - C8 It does not panic.
//!
//! Machines and events are random, by a fixed rule: the same policy gets the same answer each time.
//!
//! # Not here
//! Whether the policy is any good. That its programs get on with it says a simulation
//! ([`sim`](crate::sim)).

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::admission::Waiting;
use crate::decision::{Allocation, Decision};
use crate::parameter::Value;
use crate::policy::Policy;
use crate::snapshot::{AppId, AppView, Cause, Nanos, Snapshot, Speedup};

/// Machines that are made up.
const RUNS: u64 = 48;
/// Events on each.
const EVENTS: u32 = 80;
const QUANTUM: Nanos = 100_000_000;
/// A key that no policy has.
const NO_KEY: &str = "no such parameter";

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Conduct {
    /// Decisions, releases among them.
    pub decisions: u64,
    /// Of them those with an application that had no processor of its own, and others had some: in
    /// turns, or because there were too few.
    pub with_waiting: u64,
}

/// A rule that the policy broke.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("policy {policy} breaks {rule} on made-up machine {run}, event {event}: {what}")]
#[non_exhaustive]
pub struct Violation {
    /// The policy.
    pub policy: String,
    /// Which rule, as `C1`.
    pub rule: &'static str,
    /// On which machine.
    pub run: u64,
    /// At which event.
    pub event: u32,
    /// What it did.
    pub what: String,
}

/// Tries the policy that `make` makes, always a new object in the same state. Some thousand
/// decisions, mostly of some ten applications: milliseconds for a policy that is quick.
///
/// # Errors
/// The first rule that it broke.
pub fn check(make: impl Fn() -> Box<dyn Policy>) -> Result<Conduct, Violation> {
    let mut conduct = Conduct::default();
    for run in 0..RUNS {
        let mut event = 0;
        // What a policy does in a panic is of no interest: it is thrown away.
        let tried =
            catch_unwind(AssertUnwindSafe(|| try_one(&make, run, &mut event, &mut conduct)));
        let broken = match tried {
            Ok(Ok(())) => continue,
            Ok(Err(broken)) => broken,
            Err(panic) => ("C8", message(&*panic)),
        };
        let policy = catch_unwind(AssertUnwindSafe(|| make().name())).unwrap_or("?").to_owned();
        return Err(Violation { policy, rule: broken.0, run, event, what: broken.1 });
    }
    Ok(conduct)
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("a panic: {}", words.unwrap_or("without words"))
}

type Broken = (&'static str, String);

/// Numbers by a fixed rule (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(bound.into())).expect("it is below a u32")
    }

    /// Mostly a sensible number, now and then none or the most.
    fn count(&mut self) -> u32 {
        match self.below(16) {
            0 => 0,
            1 => u32::MAX,
            2..=4 => self.small(200),
            _ => 1 + self.small(16),
        }
    }

    fn weight(&mut self) -> f64 {
        match self.below(12) {
            0 => [f64::NAN, f64::INFINITY, -1.0, 0.0][self.below(4) as usize],
            1..=4 => 1.0,
            _ => (1 + self.below(1000)) as f64 / 100.0,
        }
    }
}

/// A machine with its applications, as a manager has them.
struct World {
    apps: Vec<AppView>,
    processors: u32,
    masters: bool,
    arrivals: u64,
    now: Nanos,
}

impl World {
    fn snapshot(&self, cause: Cause) -> Snapshot<'_> {
        Snapshot {
            now: self.now,
            quantum: QUANTUM,
            processors: self.processors,
            apps: &self.apps,
            cause,
            master_always: self.masters,
        }
    }

    fn pass(&mut self, time: Nanos) {
        self.now += time;
        for app in &mut self.apps {
            app.cpu_time = app.cpu_time.saturating_add(u64::from(app.allocated) * time);
        }
    }

    fn follow(&mut self, decision: &Decision) {
        for (app, allocation) in self.apps.iter_mut().zip(&decision.allocations) {
            app.allocated = allocation.processors;
        }
    }

    fn newcomer(&mut self, dice: &mut Dice) {
        self.arrivals += 1;
        let names = ["editor", "solver", "render"];
        let number = |word: &str| Some(AppView::number_of(word));
        self.apps.push(AppView {
            min: if dice.below(3) == 0 { dice.count() } else { 1 },
            max: if dice.below(3) == 0 { dice.count() } else { u32::MAX },
            weight: dice.weight(),
            program: number(names[dice.below(3) as usize]).filter(|_| dice.below(4) > 0),
            label: number(names[dice.below(3) as usize]).filter(|_| dice.below(2) > 0),
            class: number(names[dice.below(3) as usize]).filter(|_| dice.below(3) > 0),
            user: dice.small(3),
            arrival: self.now,
            ..AppView::new(AppId(self.arrivals), dice.count())
        });
    }

    /// Something happens. Says why a decision follows.
    fn happen(&mut self, dice: &mut Dice) -> Cause {
        let kind = dice.below(20);
        self.pass(if kind < 6 { QUANTUM } else { 1_000_000 + dice.below(3_000_000) });
        let at = dice.below(self.apps.len().max(1) as u64) as usize;
        let now = self.now;
        match (kind, self.apps.get_mut(at)) {
            (0..=5, _) => Cause::Quantum,
            (6..=10, _) | (_, None) => {
                self.newcomer(dice);
                Cause::Arrival
            }
            (11..=12, _) => {
                self.apps.remove(at);
                Cause::Exit
            }
            (13..=14, Some(app)) => {
                app.request = dice.count();
                Cause::Request
            }
            (15..=17, Some(app)) => {
                let processors = app.allocated.saturating_add(1).saturating_sub(dice.small(3));
                let efficiency = (1 + dice.below(120)) as f64 / 100.0;
                let speedup = if dice.below(10) == 0 { f64::NAN } else { efficiency };
                let speedup = speedup * f64::from(processors);
                app.speedup = Some(Speedup { processors, speedup, at: now });
                Cause::Speedup
            }
            (18, Some(app)) => {
                (app.min, app.max, app.weight) = (dice.count(), dice.count(), dice.weight());
                Cause::Administration
            }
            _ => {
                match dice.below(4) {
                    0 => self.masters = !self.masters,
                    _ => self.processors = dice.small(40),
                }
                Cause::Administration
            }
        }
    }
}

fn try_one(
    make: &impl Fn() -> Box<dyn Policy>,
    run: u64,
    event: &mut u32,
    conduct: &mut Conduct,
) -> Result<(), Broken> {
    let mut dice = Dice(run.wrapping_mul(0x0005_deec_e66d));
    let (mut policy, mut twin) = (make(), make());
    if run == 0 {
        parameters_obey(&mut *make())?;
    }
    let processors = [0, 1, 2, 4, 8, 16, 39][(run % 7) as usize];
    let masters = !run.is_multiple_of(3);
    let mut world = World { apps: Vec::new(), processors, masters, arrivals: 0, now: 0 };
    while *event < EVENTS {
        *event += 1;
        let cause = world.happen(&mut dice);
        let snapshot = world.snapshot(cause);
        let decision = policy.decide(&snapshot);
        conduct.decisions += 1;
        decision.check(&snapshot).map_err(|rule| ("C1", format!("{rule}; {snapshot:?}")))?;
        let again = twin.decide(&snapshot);
        if again != decision {
            return Err(("C2", format!("{decision:?}, and {again:?}; {snapshot:?}")));
        }
        let waits = |it: &Allocation| it.shared || it.processors == 0;
        conduct.with_waiting += u64::from(decision.allocations.iter().any(waits));
        world.follow(&decision);

        // Nothing changed but what they have.
        let snapshot = world.snapshot(Cause::Request);
        let ended = |decision: &Decision| decision.next.is_some_and(|next| next <= world.now);
        if !ended(&decision) {
            let still = policy.decide(&snapshot);
            conduct.decisions += 1;
            if still.allocations != decision.allocations || still != twin.decide(&snapshot) {
                let what = format!("{:?} became {:?}", decision.allocations, still.allocations);
                return Err(("C3", format!("{what}; {snapshot:?}")));
            }
            timeless_obeys(&mut *policy, &mut *twin, &world, &still, conduct)?;
        }
        if dice.below(3) == 0 {
            let (last, twins) = (policy.decide(&snapshot), twin.decide(&snapshot));
            if last != twins {
                return Err(("C2", format!("{last:?}, and {twins:?}; {snapshot:?}")));
            }
            world.follow(&last);
            release_obeys([&mut *policy, &mut *twin], &mut world, &last, &mut dice, conduct)?;
        }
        admission_obeys([&mut *policy, &mut *twin], &world, &mut dice)?;
    }
    *event = 0;
    Ok(())
}

/// C7. Both objects are asked, so that they stay twins.
fn timeless_obeys(
    policy: &mut dyn Policy,
    twin: &mut dyn Policy,
    world: &World,
    last: &Decision,
    conduct: &mut Conduct,
) -> Result<(), Broken> {
    if !world.masters || !policy.is_timeless() {
        return Ok(());
    }
    let snapshot = world.snapshot(Cause::Quantum);
    let then = policy.decide(&snapshot);
    let _same = twin.decide(&snapshot);
    conduct.decisions += 1;
    if then.allocations == last.allocations {
        return Ok(());
    }
    Err(("C7", format!("{:?} became {:?}; {snapshot:?}", last.allocations, then.allocations)))
}

/// C4: some applications leave, and some want less.
fn release_obeys(
    [policy, twin]: [&mut dyn Policy; 2],
    world: &mut World,
    last: &Decision,
    dice: &mut Dice,
    conduct: &mut Conduct,
) -> Result<(), Broken> {
    world.apps.retain(|_| dice.below(8) > 0);
    for app in &mut world.apps {
        if dice.below(2) == 0 {
            app.request = app.wants() / 2;
        }
    }
    let snapshot = world.snapshot(Cause::Release);
    let after = policy.release(&snapshot, last);
    conduct.decisions += 1;
    after.check(&snapshot).map_err(|rule| ("C4", format!("{rule}; {snapshot:?}")))?;
    if after != twin.release(&snapshot, last) {
        return Err(("C2", format!("two answers to a release; {snapshot:?}")));
    }
    for (allocation, app) in after.allocations.iter().zip(&world.apps) {
        let before = last.of(app.id).map_or(0, |it| it.processors);
        let listed = last.work_list.contains(&app.id);
        if allocation.processors > before && !listed {
            return Err((
                "C4",
                format!(
                    "{} had {before}, is not in the work-list and has {}; {snapshot:?}",
                    app.id, allocation.processors
                ),
            ));
        }
        if allocation.processors < before.min(app.wants()) {
            return Err((
                "C4",
                format!(
                    "{} had {before}, wants {} and has {}; {snapshot:?}",
                    app.id,
                    app.wants(),
                    allocation.processors
                ),
            ));
        }
    }
    world.follow(&after);
    Ok(())
}

/// C5.
fn admission_obeys(
    [policy, twin]: [&mut dyn Policy; 2],
    world: &World,
    dice: &mut Dice,
) -> Result<(), Broken> {
    let queue: Vec<Waiting> = (0..dice.below(5))
        .map(|i| Waiting {
            id: AppId(1_000_000 + i),
            request: dice.count(),
            since: world.now.saturating_sub(dice.below(100_000_000_000)),
        })
        .collect();
    let snapshot = world.snapshot(Cause::Arrival);
    let answer = policy.admission(&snapshot, &queue);
    if answer != twin.admission(&snapshot, &queue) {
        return Err(("C2", format!("two answers to the queue {queue:?}; {snapshot:?}")));
    }
    if answer.admit as usize > queue.len() {
        let what = format!("it admits {} of {}; {snapshot:?}", answer.admit, queue.len());
        return Err(("C5", what));
    }
    Ok(())
}

/// C6.
fn parameters_obey(policy: &mut dyn Policy) -> Result<(), Broken> {
    for parameter in policy.parameters() {
        for value in [&parameter.lowest, &parameter.highest, &parameter.default] {
            let key = parameter.key;
            if let Err(error) = policy.configure(key, value) {
                return Err((
                    "C6",
                    format!("{key} = {value}, which it lists, is refused: {error}"),
                ));
            }
            let now = policy.parameters().into_iter().find(|it| it.key == key);
            if now.is_none_or(|it| it.value != *value) {
                return Err(("C6", format!("{key} was set to {value} and has not that value")));
            }
        }
    }
    if policy.configure(NO_KEY, &Value::Whole(1)).is_ok() {
        return Err(("C6", format!("a parameter called {NO_KEY:?} was set")));
    }
    Ok(())
}
