//! `vtq-dss`, variable time quantum: gangs as in `sw-dss`, and turns as long as makes everybody's CPU time equal.
//!
//! # Rule
//! CPU time (processors x time, divided by weight) is counted for each application. There is a *level*; who is below it
//! has not used up its quantum. A turn ends when the application reaches the level: on many processors that is sooner.
//! Its processors then go to the first fitting application of the repository, which are those outside the gang that are
//! below the level, until the gang ends; then to the running ones. When processors are left that nobody below the level
//! can use, the level rises by one cycle's worth, and everybody has a quantum again.
//!
//! A gang is the longest run of neighbours that are below the level and whose requests add up to at most load x P. It
//! ends when the turns of all of its applications have ended, at the latest after the longest quantum.
//!
//! # Decisions
//! - A cycle's worth is the manager's quantum times the mean request: the application with the mean request has a turn
//!   of about one quantum at first. It is at most one quantum x P, and so is what one application can lack against
//!   another that wants no less: all saturated ones reach the same level before it rises.
//! - Who cannot use its part (a small request, a dip) does not save it up: one quantum x P is the most that it can be
//!   behind, or ahead.
//! - Who is below the level when a gang ends, goes on in the next one, behind the first of the next gang and as far as
//!   requests fit: so an application with a small request runs nearly always.
//! - An application fits into x processors when its request is at most load x x, the measure of the gangs. When none
//!   fits, the first one takes what is left.
//! - A turn that has begun keeps its processors until it ends, and lasts at least the shortest quantum; what it then
//!   has too much is missing in its next quantum.
//! - The manager's quantum ends no turn; turns end by [`Decision::next`].
//! - While all fit into one gang nobody waits, all run under `dss`, and nothing is counted. Newcomers begin one cycle's
//!   worth below the level.

use std::collections::{BTreeMap, BTreeSet};

use crate::decision::Decision;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::ring::{self, Ring};
use crate::share;
use crate::snapshot::{AppId, AppView, Nanos, Snapshot};
use crate::turn;

/// A turn whose end was planned too early goes on at least for so long.
const PLAN_AGAIN: Nanos = 1_000_000;
/// A manager's quantum beyond an hour counts as an hour, which keeps the level within its type for ever.
const LONGEST_QUANTUM: Nanos = 3_600_000_000_000;

parameters! {
    /// Parameters of `vtq-dss`.
    pub struct VtqParameters {
        /// The requests in a gang are at most this times the number of processors.
        "load" load: f64 = 1.5, 1.0 => 64.0;
        /// No turn is shorter, but that of an application that leaves.
        "shortest" shortest: Nanos = 10_000_000, 1_000_000 => 1_000_000_000;
        /// A gang ends after this time (or after the shortest turn, if that is longer).
        "longest" longest: Nanos = 500_000_000, 1_000_000 => 60_000_000_000;
        /// Processors kept for the masters of applications outside their turn, where masters always run.
        "masters" masters: u32 = 1, 1 => 1024;
    }
}

/// CPU time divided by weight, on a scale of its own.
type Service = i128;

/// What an application has received.
#[derive(Debug, Clone, Copy)]
struct Account {
    /// Its CPU time when it was last looked at.
    seen: Nanos,
    service: Service,
}

/// An application that runs.
#[derive(Debug, Clone, Copy)]
struct Turn {
    app: AppId,
    /// Its place in the snapshot.
    at: usize,
    processors: u32,
    began: Nanos,
    ends: Nanos,
}

/// Gangs with equal CPU time. O(n log n).
#[derive(Debug, Clone, Default)]
pub struct VtqDss {
    parameters: VtqParameters,
    ring: Ring,
    accounts: BTreeMap<AppId, Account>,
    level: Service,
    /// By how much the level rose last.
    worth: Service,
    /// Whether somebody waits for turns.
    counting: bool,
    turns: Vec<Turn>,
    /// Whose turns make the gang last.
    gang: BTreeSet<AppId>,
    gang_ends: Nanos,
    /// Over whom the window passes when the gang ends: they stand first in the ring.
    window: BTreeSet<AppId>,
}

impl VtqDss {
    /// Its name in the registry.
    pub const NAME: &'static str = "vtq-dss";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str = "gangs of neighbours, with turns as long as makes everybody's CPU time equal";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: VtqParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, ..Self::default() })
    }

    /// Counts what applications received since the last decision.
    fn account(&mut self, snapshot: &Snapshot<'_>) {
        let begin = self.level - self.worth;
        let mut accounts = BTreeMap::new();
        for app in snapshot.apps {
            let mut account =
                self.accounts.get(&app.id).copied().unwrap_or(Account { seen: app.cpu_time, service: begin });
            account.service += service(app, app.cpu_time.saturating_sub(account.seen));
            account.seen = app.cpu_time;
            accounts.insert(app.id, account);
        }
        self.accounts = accounts;
    }

    /// Everybody begins with the same.
    fn begin(&mut self, snapshot: &Snapshot<'_>) {
        self.counting = true;
        self.accounts.values_mut().for_each(|account| account.service = 0);
        (self.turns, self.gang, self.window) = Default::default();
        self.level = 0;
        self.raise(snapshot, 0);
    }

    /// Nobody waits for turns.
    fn rest(&mut self) {
        self.counting = false;
        (self.turns, self.gang, self.window) = Default::default();
    }

    fn service_of(&self, app: AppId) -> Service {
        self.accounts.get(&app).map_or(self.level, |account| account.service)
    }

    fn is_below(&self, app: AppId) -> bool {
        self.service_of(app) < self.level
    }

    /// Everybody has a quantum again: the level rises to a cycle's worth above `least`, and above itself.
    fn raise(&mut self, snapshot: &Snapshot<'_>, least: Service) {
        let most = u64::from(snapshot.processors);
        let wanted: u128 = snapshot.apps.iter().map(|app| u128::from(u64::from(app.wants()).min(most))).sum();
        let weights: u128 = snapshot.apps.iter().map(|app| share::fixed(app.weight)).sum();
        // Each application's part of the cycle is in proportion to its weight; the mean part is the mean request.
        let cycle = u128::from(snapshot.quantum.clamp(1, LONGEST_QUANTUM)) * wanted;
        self.worth = i128::try_from((cycle << share::FIXED_BITS) / weights.max(1)).unwrap_or(Service::MAX >> 2).max(1);
        self.level = self.level.max(least) + self.worth;
        let most = snapshot.quantum.saturating_mul(most);
        for app in snapshot.apps {
            let bound = service(app, most).max(self.worth);
            if let Some(account) = self.accounts.get_mut(&app.id) {
                account.service = account.service.clamp(self.level - bound, self.level + bound);
            }
        }
        for turn in &mut self.turns {
            turn.ends = 0;
        }
    }

    /// How long an application needs to the level on so many processors.
    fn quantum(&self, app: &AppView, processors: u32) -> Nanos {
        let missing = (self.level - self.service_of(app.id)).max(0).unsigned_abs();
        let cpu_time = missing.saturating_mul(share::fixed(app.weight)) >> share::FIXED_BITS;
        Nanos::try_from(cpu_time.div_ceil(u128::from(processors.max(1)))).unwrap_or(Nanos::MAX)
    }

    /// Ends the turns that are over.
    fn end_turns(&mut self, now: Nanos, at: &BTreeMap<AppId, usize>) {
        let mut turns = std::mem::take(&mut self.turns);
        turns.retain(|turn| at.contains_key(&turn.app) && (now < turn.ends || self.is_below(turn.app)));
        for turn in &mut turns {
            turn.at = at[&turn.app];
        }
        self.turns = turns;
        let running: BTreeSet<AppId> = self.turns.iter().map(|turn| turn.app).collect();
        self.gang.retain(|app| running.contains(app));
    }

    /// The next gang. `order` is the ring after the window moved on; not empty.
    fn begin_gang(&mut self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32) {
        let limit = ring::limit(snapshot.processors, self.parameters.load);
        let least = order.iter().map(|&i| self.service_of(snapshot.apps[i].id)).min().unwrap_or(self.level);
        if least >= self.level {
            self.raise(snapshot, least);
        }
        let mut members: Vec<usize> = Vec::new();
        let mut is_member = BTreeSet::new();
        let mut sum = 0;
        let mut join = |i: usize| {
            let wants = u64::from(snapshot.apps[i].wants());
            let fits = members.is_empty() || sum + wants <= limit && members.len() < processors as usize;
            if fits && is_member.insert(i) {
                sum += wants;
                members.push(i);
            }
            fits || is_member.contains(&i)
        };
        (self.window, self.gang) = Default::default();
        let mut is_first = true;
        for &i in order {
            let app = snapshot.apps[i].id;
            if self.is_below(app) {
                if !join(i) {
                    break;
                }
                self.gang.insert(app);
                if std::mem::take(&mut is_first) {
                    // Turns that go on come behind the first of the gang.
                    for turn in self.turns.iter().filter(|turn| self.is_below(turn.app)) {
                        join(turn.at);
                    }
                }
            }
            self.window.insert(app);
        }
        let began: BTreeMap<AppId, Nanos> = self.turns.iter().map(|turn| (turn.app, turn.began)).collect();
        self.turns.clear();
        let mut longest = 0;
        for (at, part) in turn::divide(snapshot, members, processors) {
            let app = &snapshot.apps[at];
            let began = began.get(&app.id).copied().unwrap_or(snapshot.now);
            self.turns.push(Turn { app: app.id, at, processors: part, began, ends: 0 });
            if self.gang.contains(&app.id) {
                longest = longest.max(self.quantum(app, part));
            }
        }
        let shortest = self.parameters.shortest;
        self.gang_ends =
            snapshot.now.saturating_add(longest.clamp(shortest, self.parameters.longest.max(shortest)));
    }

    /// Hands out what the running ones leave; see the rule.
    fn fill(&mut self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32) {
        // Who wants less gives back; who has more than the machine has now shares anew.
        for turn in &mut self.turns {
            turn.processors = turn.processors.min(snapshot.apps[turn.at].wants());
        }
        let mut held: u64 = self.turns.iter().map(|turn| u64::from(turn.processors)).sum();
        if held > u64::from(processors) {
            self.turns.truncate(processors as usize);
            let parts = turn::divide(snapshot, self.turns.iter().map(|turn| turn.at).collect(), processors);
            self.turns.sort_by_key(|turn| turn.at);
            for (turn, (_, part)) in self.turns.iter_mut().zip(parts) {
                (turn.processors, turn.ends) = (part, 0);
            }
            held = self.turns.iter().map(|turn| u64::from(turn.processors)).sum();
        }
        let mut free = processors - u32::try_from(held).expect("it is at most `processors`");
        let mut runs = vec![false; snapshot.apps.len()];
        self.turns.iter().for_each(|turn| runs[turn.at] = true);
        // The repository begins behind the window.
        let (inside, behind): (Vec<usize>, Vec<usize>) =
            order.iter().partition(|&&i| self.window.contains(&snapshot.apps[i].id));
        let repository: Vec<usize> = behind.into_iter().chain(inside).collect();
        while free > 0 {
            for whole in [true, false] {
                for &i in &repository {
                    let app = &snapshot.apps[i];
                    let fits = !whole || u64::from(app.wants()) <= ring::limit(free, self.parameters.load);
                    if free > 0 && !runs[i] && fits && self.is_below(app.id) {
                        let part = app.wants().min(free);
                        free -= part;
                        runs[i] = true;
                        self.turns.push(Turn { app: app.id, at: i, processors: part, began: snapshot.now, ends: 0 });
                    }
                }
            }
            for turn in &mut self.turns {
                let more = free.min(snapshot.apps[turn.at].wants() - turn.processors);
                if more > 0 {
                    free -= more;
                    (turn.processors, turn.ends) = (turn.processors + more, 0);
                }
            }
            let waiting = repository.iter().filter(|&&i| !runs[i]).map(|&i| self.service_of(snapshot.apps[i].id));
            match waiting.min() {
                Some(least) if free > 0 => self.raise(snapshot, least),
                _ => break,
            }
        }
    }

    /// Plans the ends of turns that have none, or passed it without reaching the level. Returns the next end.
    fn plan(&mut self, snapshot: &Snapshot<'_>) -> Nanos {
        let now = snapshot.now;
        let mut turns = std::mem::take(&mut self.turns);
        for turn in turns.iter_mut().filter(|turn| turn.ends <= now) {
            let quantum = self.quantum(&snapshot.apps[turn.at], turn.processors).max(PLAN_AGAIN);
            turn.ends = now.saturating_add(quantum).max(turn.began.saturating_add(self.parameters.shortest));
        }
        self.turns = turns;
        self.turns.iter().map(|turn| turn.ends).fold(self.gang_ends, Nanos::min)
    }
}

/// CPU time as service.
fn service(app: &AppView, cpu_time: Nanos) -> Service {
    let service = (u128::from(cpu_time) << share::FIXED_BITS) / share::fixed(app.weight);
    i128::try_from(service).expect("a u64 shifted by 20 is far below an i128")
}

impl Policy for VtqDss {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let mut order = self.ring.renew(snapshot);
        self.account(snapshot);
        let limit = ring::limit(snapshot.processors, self.parameters.load);
        let all_fit = ring::gang(snapshot, &order, limit, snapshot.processors) == order.len();
        let processors =
            if all_fit { snapshot.processors } else { turn::capacity(snapshot, self.parameters.masters) };
        if all_fit || processors == 0 {
            self.rest();
            let parts = if all_fit { turn::divide(snapshot, order.clone(), processors) } else { Vec::new() };
            return turn::decision(snapshot, &parts, order);
        }
        if !self.counting {
            self.begin(snapshot);
        }
        let at: BTreeMap<AppId, usize> = order.iter().map(|&i| (snapshot.apps[i].id, i)).collect();
        self.end_turns(snapshot.now, &at);
        if self.gang.is_empty() || snapshot.now >= self.gang_ends {
            let passed = order.iter().take_while(|&&i| self.window.contains(&snapshot.apps[i].id)).count();
            self.ring.pass(passed);
            order.rotate_left(passed);
            self.begin_gang(snapshot, &order, processors);
        }
        self.fill(snapshot, &order, processors);
        let next = self.plan(snapshot);

        let parts: Vec<(usize, u32)> = self.turns.iter().map(|turn| (turn.at, turn.processors)).collect();
        let running: BTreeSet<usize> = parts.iter().map(|(i, _)| *i).collect();
        let below = |i: &usize| !running.contains(i) && self.is_below(snapshot.apps[*i].id);
        let repository: Vec<usize> = order.iter().copied().filter(below).collect();
        let mut decision = turn::decision(snapshot, &parts, repository.into_iter().chain(running.iter().copied()));
        decision.next = Some(next);
        decision
    }
}
