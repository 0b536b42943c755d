//! Requests, holdings and the manager's decisions, without clock, input or output.
//!
//! # Protocol
//! 1. Programs arrive, ask and leave: the ledger writes it down.
//! 2. [`Ledger::decide`]: the policy says how many, the placement says which: that is the *target*.
//! 3. The target is *settled*: it becomes what programs hold, except for processors that are too
//!    young to be taken (rule M4). Those follow when their time is over: [`Ledger::next_deadline`],
//!    [`Ledger::tick`].
//!
//! # Invariants
//! - L1 Every program holds at least one processor.
//! - L2 A processor that is not shared is held by one program, with two exceptions. The first is a
//!   program that would hold nothing because its processor is still too young to be taken from
//!   another one: it shares that processor until then. The second is a program of which all
//!   processors on which it can run belong to programs that can run nowhere else either
//!   (`placement`, guests).
//!   `min(10 ms, quantum / 4)` after its grant, unless the program asks for less.
//! - L4 Under a decision that binds nothing (`none`) L2 and L3 are void: every program holds all
//!   processors.
//! - L5 What a program in a serial phase held before, and no other program gets, stays in its
//!   holding: its next region finds it there. It does not count as received.
//! - L6 A program that stays on some processors (D14) holds no others. What it cannot have because
//!   of that goes to other programs that want it (`fitting`).
//! - L7 A processor that is left to others belongs to no program once its hold is over, except
//!   where L1 or L6 would make programs share because of that (`leaving`). One that was drained
//!   belongs to none but a program that can run nowhere else.
//! - L8 The decision in force names the programs in the order of the books. Newcomers come after
//!   all of them and have no target yet.
//! - L9 A program that sleeps (`curbing`) has no processor of its own except what no other program
//!   gets. The processor that it shares is another program's as if the sleeping program were not
//!   there, which is one more exception from L2.
//!
//! Masters always run here: a program must be told that it lost a processor, and it is its master
//! that hears this (L1). Policies without that (`master_always = false`, the papers' gang
//! experiments) are for the simulator.
//!
//! # Not here
//! Telling the programs: `server`. How many: crate `policies`.

use std::collections::BTreeMap;

use policies::{
    Admission, AppId, AppView, Cause, Class, Decision, Machine, Nanos, Parameter, Placement, Smt,
    Snapshot, Speedups, Value, Waiting,
};

use crate::guarded::{ConfigureError, Guarded};

mod classes;
mod curbing;
mod entry;
mod fitting;
mod leaving;
mod reports;
mod resting;
mod settling;
mod turns;
mod users;

pub use curbing::Allotted;
use entry::Entry;
pub use entry::{Curb, Holding};
pub use settling::MAX_HOLD;
pub use users::Maker;
use users::Users;

/// The manager's books.
pub struct Ledger {
    machine: Machine,
    /// What is left to others than programs (`foreign`), most willingly the first.
    left: Vec<u32>,
    /// What programs shall leave whatever that costs them.
    drained: Vec<u32>,
    /// The machine without what is left to others, as far as that can be.
    available: Machine,
    quantum: Nanos,
    policy: Guarded,
    users: Users,
    /// What classes may have, by name.
    classes: BTreeMap<String, Class>,
    placement: Placement,
    speedups: Speedups,
    /// In order of arrival.
    entries: Vec<Entry>,
    /// What the policy said last.
    decided: Decision,
    /// The same, as far as it could be placed.
    decision: Decision,
    accounted_until: Nanos,
    turn_ends: Option<Nanos>,
    hold_ends: Option<Nanos>,
    /// The decision in force is one of [`Policy::release`]: the end of the quantum asks for another
    /// one.
    is_passing: bool,
    /// By the decision in force programs take turns.
    takes_turns: bool,
    /// Programs of the manager before this one are on their way back.
    is_returning: bool,
    /// What the last settlement followed from, besides the decision.
    settled: resting::Settled,
    /// Kept for its space.
    views: Vec<AppView>,
}

impl Ledger {
    /// Books without programs. `machine` has at least one processor.
    pub fn new(machine: Machine, quantum: Nanos, policy: impl Into<Guarded>) -> Self {
        assert!(!machine.cpus.is_empty(), "the caller refuses an empty machine");
        Self {
            available: machine.clone(),
            machine,
            left: Vec::new(),
            drained: Vec::new(),
            quantum,
            policy: policy.into(),
            users: Users::default(),
            classes: BTreeMap::new(),
            placement: Placement::new(),
            speedups: Speedups::new(),
            entries: Vec::new(),
            decided: Decision::default(),
            decision: Decision::default(),
            accounted_until: 0,
            turn_ends: None,
            hold_ends: None,
            is_passing: false,
            takes_turns: false,
            is_returning: false,
            settled: resting::Settled::default(),
            views: Vec::new(),
        }
    }

    /// A program comes. It holds nothing until the next [`Ledger::decide`].
    pub fn arrive(&mut self, app: AppId, request: u32, max: u32) {
        debug_assert!(
            self.entries.iter().all(|entry| entry.id != app),
            "identities are given once"
        );
        self.entries.push(Entry {
            id: app,
            user: 0,
            arrival: None,
            program: None,
            class: None,
            request,
            max,
            there: self.processors(),
            lowest: 1,
            min: 1,
            weight: 1.0,
            serial: false,
            idle: 0,
            kept: None,
            curb: None,
            speedup: None,
            kept_as: None,
            holding: Holding::default(),
            since: Vec::new(),
            target: Vec::new(),
            cpu_time: 0,
            missed: 0,
            is_new: true,
        });
    }

    /// A program that [arrived](Ledger::arrive) held these processors under another manager: it
    /// gets them again if no other program holds them.
    pub fn held_before(&mut self, app: AppId, cpus: &[u32]) {
        let managed: Vec<u32> = cpus
            .iter()
            .copied()
            .filter(|id| self.machine.cpus.iter().any(|cpu| cpu.id == *id))
            .collect();
        self.placement.remember_newcomer(app, &managed);
    }

    /// Whether programs of the manager before this one are on their way back. As long as they are,
    /// no processor is too young to be taken (M4): the first that came back has what the others
    /// held.
    pub fn set_returning(&mut self, is_returning: bool) {
        self.is_returning = is_returning;
    }

    /// A program says below how many processors it gains nothing; true when that is new.
    pub fn set_lowest(&mut self, app: AppId, lowest: u32) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else {
            return false;
        };
        std::mem::replace(&mut entry.lowest, lowest) != lowest
    }

    /// A user says how many processors a program of its own is to have before others of its class
    /// and user have more than theirs.
    pub fn set_min(&mut self, app: AppId, min: u32) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) {
            entry.min = min.max(1);
        }
    }

    /// The same of a program that is there, and that can use `max` at most from now on.
    pub fn set_bounds(&mut self, app: AppId, min: u32, max: u32) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) {
            (entry.min, entry.max) = (min.max(1), max.max(1));
        }
    }

    /// The share of a program relative to others, within the range of policies; true when that is
    /// new.
    pub fn set_weight(&mut self, app: AppId, weight: f64) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else {
            return false;
        };
        // Set and never computed: equal is equal.
        std::mem::replace(&mut entry.weight, weight).to_bits() != weight.to_bits()
    }

    /// The share of a program relative to others.
    pub fn weight(&self, app: AppId) -> Option<f64> {
        self.entries.iter().find(|entry| entry.id == app).map(|entry| entry.weight)
    }

    /// In which order hardware threads are filled from now on; programs keep the processors they
    /// hold.
    pub fn set_smt(&mut self, smt: Smt) {
        self.placement.set_smt(smt);
    }

    /// A program gives back processors that it holds, and keeps its request. The first program in
    /// the work-list has them at once. A processor that the program does not hold is not its to
    /// give. It keeps its last one.
    pub fn release(&mut self, app: AppId, cpus: &[u32], now: Nanos) -> Vec<AppId> {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else {
            return Vec::new();
        };
        let given: Vec<u32> =
            entry.holding.cpus.iter().copied().filter(|cpu| cpus.contains(cpu)).collect();
        if given.is_empty() || entry.holding.shared || entry.holding.unbound.is_some() {
            return Vec::new();
        }
        let left = entry.holding.cpus.len().saturating_sub(given.len());
        entry.kept = Some(u32::try_from(left.max(1)).expect("processors have 32-bit numbers"));
        self.placement.give_back(app, &given);
        self.redecide(now, Cause::Release)
    }

    /// The program that held `cpu` passed it to program `to`, without asking (domain mode). Returns
    /// `None`, and changes nothing, where no program holds `cpu` alone, where it is the holder's
    /// last one, or where `to` is not the first besides the holder to have what is released.
    pub fn pass(&mut self, to: AppId, cpu: u32, now: Nanos) -> Option<Vec<AppId>> {
        let holder = self
            .entries
            .iter()
            .find(|entry| entry.holding.cpus.contains(&cpu) && entry.id != to)?;
        let may = holder.holding.cpus.len() > 1
            && !holder.holding.shared
            && self.placement.may_use(to, cpu);
        let holder = holder.id;
        let first = self.first_waiting().map(|(app, _)| app).find(|app| *app != holder);
        if !may || first != Some(to) {
            return None;
        }
        Some(self.release(holder, &[cpu], now))
    }

    /// The programs that are to have processors that are released, whichever they are, in order,
    /// and how many each could use beyond what it has.
    pub fn first_waiting(&self) -> impl Iterator<Item = (AppId, u32)> + '_ {
        let anywhere =
            self.decision.work_list.iter().filter(|app| !self.placement.is_confined(**app));
        // Passing crosses classes.
        let anywhere = anywhere.filter(|_| !self.has_classes());
        anywhere.filter_map(|app| {
            let entry = self.entries.iter().find(|entry| entry.id == *app)?;
            let held = if entry.holding.shared { 0 } else { entry.holding.cpus.len() };
            let held = u32::try_from(held).expect("processors have 32-bit numbers");
            Some((*app, entry.wants().saturating_sub(held)))
        })
    }

    /// A program wants all of its request again; true when it had given something back.
    pub fn resume(&mut self, app: AppId) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.id == app);
        let Some(entry) = entry.filter(|entry| entry.kept.is_some()) else {
            return false;
        };
        entry.kept = None;
        entry.lift_curb();
        true
    }

    /// Another quantum is in force from now on: a turn that has begun ends at the latest one new
    /// quantum from now.
    pub fn set_quantum(&mut self, quantum: Nanos, now: Nanos) {
        self.quantum = quantum;
        self.turn_ends = self.turn_ends.map(|end| end.min(now + quantum));
    }

    /// Another policy decides from now on. It knows nothing of what was before; what programs hold
    /// stays as far as it says so.
    pub fn set_policy(&mut self, policy: impl Into<Guarded>) {
        self.policy = self.in_classes(policy.into());
        self.forget_policies();
        if self.policy.needs().unbound {
            self.forget_curbs();
        }
    }

    /// Which policy does not decide any more, since it panicked; for the programs of any user.
    pub fn policy_failure(&self) -> Option<&str> {
        self.policy.failure().or_else(|| self.other_policies().find_map(Guarded::failure))
    }

    /// The same, once for each policy.
    pub fn new_policy_failure(&mut self) -> Option<&str> {
        let own = self.policy.new_failure().is_some();
        let others = self.other_policies_mut().filter_map(Guarded::new_failure).count();
        self.policy_failure().filter(|_| own || others > 0)
    }

    /// Whether the policy in force decides by reported speedups.
    pub fn wants_reports(&self) -> bool {
        self.policy.needs().reports
    }

    /// Changes a parameter of the policy in force.
    ///
    /// # Errors
    /// When there is none of this name or it cannot have this value, or the policy panics.
    pub fn configure(&mut self, key: &str, value: &Value) -> Result<(), ConfigureError> {
        self.policy.configure(key, value)?;
        self.other_policies_mut().try_for_each(|policy| policy.configure(key, value))
    }

    /// The parameters of the policy in force.
    pub fn parameters(&self) -> Vec<Parameter> {
        self.policy.parameters()
    }

    /// How many of the waiting programs may start, by the policy's advice. `started` run without
    /// being registered.
    pub fn admission(&mut self, now: Nanos, started: &[AppView], queue: &[Waiting]) -> Admission {
        let views: Vec<AppView> =
            self.entries.iter().map(Entry::view).chain(started.iter().copied()).collect();
        let (quantum, processors) = (self.quantum, self.available());
        let snapshot = Snapshot {
            now,
            quantum,
            processors,
            apps: &views,
            cause: Cause::Arrival,
            master_always: true,
        };
        self.policy.admission(&snapshot, queue)
    }

    /// A program leaves; what it held is free for the next decision. False: it was not there.
    pub fn leave(&mut self, app: AppId) -> bool {
        let Some(at) = self.entries.iter().position(|entry| entry.id == app) else {
            return false;
        };
        if let Some((name, region)) =
            self.entries.remove(at).kept_as.filter(|(_, region)| *region != entry::REMEMBERED)
        {
            self.speedups.forget_region(&name, region);
        }
        // L8. `decided` still names it: what it had is released (M6).
        self.decision.allocations.retain(|allocation| allocation.app != app);
        true
    }

    /// A program asks; true when that is new.
    pub fn ask(&mut self, app: AppId, request: u32) -> bool {
        let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) else {
            return false;
        };
        let before = std::mem::replace(&mut entry.request, request);
        if before < request {
            entry.lift_curb();
        }
        before != request
    }

    /// Whether a program asks for little because it is in a serial phase: what it holds stays where
    /// it is then, as long as no other program gets it (L5).
    pub fn set_serial(&mut self, app: AppId, serial: bool) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) {
            entry.serial = serial;
        }
    }

    /// Asks the policy, places, and settles. Returns the programs that hold something else now.
    pub fn decide(&mut self, now: Nanos, cause: Cause) -> Vec<AppId> {
        self.redecide(now, cause)
    }

    fn redecide(&mut self, now: Nanos, cause: Cause) -> Vec<AppId> {
        self.account(now);
        self.make_available();
        for entry in self.entries.iter_mut().filter(|entry| entry.arrival.is_none()) {
            entry.arrival = Some(now);
        }
        let mut views = std::mem::take(&mut self.views);
        views.clear();
        views.extend(self.awake().map(Entry::view));
        self.cap_users(&mut views);
        let changes = self.redecide_for(&views, now, cause);
        self.views = views;
        changes
    }

    fn redecide_for(&mut self, views: &[AppView], now: Nanos, cause: Cause) -> Vec<AppId> {
        // The work-list of the last decision, without waiting for the next one (M6). Newcomers are
        // in no decision yet.
        self.is_passing =
            cause == Cause::Release && self.decided_on_all(views) && self.has_same_processors();
        let decision = self.ask_policies(views, now, cause);
        if self.rests(cause, &decision) {
            (self.decided.next, self.decision.next) = (decision.next, decision.next);
            self.plan_turns(now, cause);
            return Vec::new();
        }
        self.decided.clone_from(&decision);
        self.decision = decision;
        self.name_sleepers();
        self.place_for_users();
        self.fit(views);
        self.note_turns();
        self.plan_turns(now, cause);
        self.settle(now)
    }

    /// Makes the decision in force targets, or another one about the same programs.
    fn place(&mut self, decision: Option<&Decision>) {
        let mut entries = self.entries.iter_mut();
        self.placement.place_each(
            &self.available,
            decision.unwrap_or(&self.decision),
            |app, cpus| {
                let Some(entry) = entries.next() else { return };
                debug_assert_eq!(entry.id, app, "L8");
                entry.target.clear();
                entry.target.extend_from_slice(cpus);
            },
        );
    }

    /// Does what is due at `now`: the end of a quantum, of a policy's own time, of a hold.
    pub fn tick(&mut self, now: Nanos) -> Vec<AppId> {
        let due = |time: Option<Nanos>| time.is_some_and(|time| time <= now);
        if due(self.turn_ends) {
            self.decide(now, Cause::Quantum)
        } else if due(self.decision.next) {
            self.decide(now, Cause::Timer)
        } else if due(self.hold_ends) {
            self.account(now);
            self.settle(now)
        } else {
            Vec::new()
        }
    }

    /// When [`Ledger::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Nanos> {
        [self.turn_ends, self.decision.next, self.hold_ends].into_iter().flatten().min()
    }

    /// What a program holds.
    pub fn holding(&self, app: AppId) -> Option<&Holding> {
        self.entries.iter().find(|entry| entry.id == app).map(|entry| &entry.holding)
    }

    /// A program holds processors alone.
    pub fn anybody_has_own(&self) -> bool {
        self.entries.iter().any(|entry| !entry.holding.shared && entry.holding.unbound.is_none())
    }

    /// What a program asked for, within its maximum.
    pub fn request(&self, app: AppId) -> Option<u32> {
        self.entries
            .iter()
            .find(|entry| entry.id == app)
            .map(|entry| entry.request.min(entry.max).max(1))
    }

    /// How many programs could use more than they have.
    pub fn waiting(&self) -> usize {
        self.decision.work_list.len()
    }

    /// The number of managed processors.
    pub fn processors(&self) -> u32 {
        u32::try_from(self.machine.cpus.len()).expect("processors have 32-bit numbers")
    }

    /// The quantum in force.
    pub fn quantum(&self) -> Nanos {
        self.quantum
    }

    /// The policy's name.
    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    /// The policy that was asked for, whether or not it panicked since, and its parameters as they
    /// were set last.
    pub fn policy_asked_for(&self) -> (&'static str, Vec<Parameter>) {
        self.policy.asked_for()
    }

    /// A quantum runs while masters share or a program waits for more, and its end may change
    /// something: the policy would answer something else, or a turn moves a program. Otherwise
    /// nothing changes by itself, and a manager that wakes for nothing is what all its programs
    /// cost while they compute.
    fn plan_turns(&mut self, now: Nanos, cause: Cause) {
        let waiting = !self.decision.work_list.is_empty()
            || self.decision.allocations.iter().any(|a| a.shared);
        let is_timeless =
            self.policy.is_timeless() && self.other_policies().all(Guarded::is_timeless);
        let may_change = self.is_passing || !is_timeless || self.is_moved_by_turns();
        self.turn_ends = match self.turn_ends {
            _ if !waiting || !may_change => None,
            Some(end) if cause != Cause::Quantum => Some(end),
            // A turn that began late does not shorten the next one.
            _ => Some(now + self.quantum),
        };
    }

    /// Processor time that a program received until `now`, and what it wanted besides.
    pub fn received(&mut self, app: AppId, now: Nanos) -> Option<(Nanos, Nanos)> {
        self.account(now);
        let entry = self.entries.iter().find(|entry| entry.id == app)?;
        Some((entry.cpu_time, entry.missed))
    }

    /// The same of all programs, without what they waited for, and whose they are.
    pub fn received_by_all(&mut self, now: Nanos) -> impl Iterator<Item = (AppId, u32, Nanos)> {
        self.account(now);
        self.entries.iter().map(|entry| (entry.id, entry.user, entry.cpu_time))
    }

    /// Adds the time since the last accounting to what programs received: a shared processor counts
    /// in parts.
    fn account(&mut self, now: Nanos) {
        let passed = now.saturating_sub(self.accounted_until);
        self.accounted_until = self.accounted_until.max(now);
        // A processor has one user, unless a program shares it (L2).
        if self.entries.iter().all(|entry| !entry.holding.shared) {
            for entry in &mut self.entries {
                let received = passed.saturating_mul(entry.used().len() as u64);
                entry.receive(received, passed);
            }
            return;
        }
        let mut users: Vec<u64> = Vec::new();
        for cpu in self.entries.iter().flat_map(Entry::used).map(|cpu| *cpu as usize) {
            if users.len() <= cpu {
                users.resize(cpu + 1, 0);
            }
            users[cpu] += 1;
        }
        for entry in &mut self.entries {
            let of = |cpu: &u32| passed / users.get(*cpu as usize).copied().unwrap_or(1);
            let received: Nanos = entry.used().iter().map(of).sum();
            entry.receive(received, passed);
        }
    }
}

#[cfg(test)]
mod tests;
