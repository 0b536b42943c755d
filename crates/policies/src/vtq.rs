//! `vtq-dss`, variable time quantum: gangs as in `sw-dss`, and turns of such lengths that all
//! applications have equal CPU time.
//!
//! # Rule
//! CPU time (processors x time, divided by weight) is counted for each application. There is a
//! *level*; an application below it has not used up its quantum. A turn ends when the application
//! reaches the level, which on many processors is sooner. Its processors then go to the first
//! fitting application of the repository (the applications outside the gang that are below the
//! level), until the gang ends; then to the running ones. What is still left goes, on credit, to
//! the applications that have received least, a cycle's worth to each. When a gang ends and no
//! application is below the level, the level rises by one cycle's worth: each application has a
//! quantum again, less what it had on credit.
//!
//! A gang is the longest run of neighbours that are below the level and whose requests add up to at
//! most load x P. It ends when the turns of all of its applications have ended, at the latest after
//! the longest quantum.
//!
//! # Decisions
//! - An application that wants no more than an equal share of the processors (by weight; what such
//!   applications do not take counts for the others) takes no turns: it has its whole request all
//!   the time. Turns are for the others, on the processors that remain; `P` below is these.
//! - A cycle's worth is the manager's quantum times the mean request, divided by the load: in a
//!   full gang the application with the mean request has a turn of one quantum at first. All reach
//!   the same level before it rises.
//! - An application that cannot use its part for a while does not save it up: it can lag by one
//!   quantum x P at most.
//! - An application that is below the level when a gang ends goes on in the next one with all that
//!   it asks for, after the first of the next gang and as far as requests fit.
//! - Credit is given in slices, each to the application that has received least by then, so that
//!   none lacks more than one quantum x P. With one slice for as long as the gang lasts, a single
//!   application was ahead by several quanta of the machine, which all others lacked.
//! - An application fits into x processors when its request is at most load x x, the measure of the
//!   gangs. When none fits, the first one takes what is left.
//! - A turn that has begun keeps its processors until it ends, and lasts at least the shortest
//!   quantum. What it then has in excess is deducted from its next quantum.
//! - The manager's quantum ends no turn; turns end by [`Decision::next`].
//! - While all applications fit into one gang none waits, all run under `dss`, and nothing is
//!   counted. Newcomers begin one cycle's worth below the level.
//!
//! # No application starves
//! An application that had much on credit, or whose count jumped, does not run until the level has
//! passed it. When a gang ends, some applications may have been without processors of their own for
//! n x L (n: the number of applications that take turns; L: the longest gang, at least a quantum).
//! One that receives its equal share without any (its master alone on the processors kept for
//! masters) does not wait. The others are forgiven what they have above the level, and come first
//! in the next gang, in the order of how long they have waited. Each gang lasts at most L and
//! serves one of them, and none that comes later stands before them. So whatever requests do, no
//! application waits for more than 2 n x L.

use std::collections::BTreeSet;

use crate::decision::Decision;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::Policy;
use crate::quick::{QuickMap, QuickSet};
use crate::ring::{self, Ring};
use crate::share;
use crate::snapshot::{AppId, AppView, Nanos, Snapshot};
use crate::turn;

/// A turn whose end was planned too early goes on for at least this long.
const PLAN_AGAIN: Nanos = 1_000_000;
/// How many quanta of the machine an application may be ahead by what it had on credit; more is
/// forgiven, so that a count that jumps stops no application for long.
const LEAD: Service = 16;
/// Less than its share by one part in two to this power is its share: time is counted in ticks.
const ROUNDING: u32 = 4;
/// A manager's quantum beyond an hour counts as an hour, which keeps the level within its type for
/// ever.
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
        /// Processors kept for the masters of applications outside their turn, where masters always
        /// run.
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
    /// CPU time between the last two looks.
    received: Nanos,
    /// Until when it had processors of its own, or its share without any, or when it came.
    ran: Nanos,
}

/// An application that runs.
#[derive(Debug, Clone, Copy)]
struct Turn {
    app: AppId,
    /// Its place in the snapshot.
    at: usize,
    processors: u32,
    /// The level when it began: rising does not make turns longer.
    goal: Service,
    began: Nanos,
    ends: Nanos,
}

/// Gangs with equal CPU time. O(n log n).
#[derive(Debug, Clone, Default)]
pub struct VtqDss {
    parameters: VtqParameters,
    ring: Ring,
    /// Looked up, never listed.
    accounts: QuickMap<AppId, Account>,
    level: Service,
    /// By how much the level rose last.
    worth: Service,
    /// Whether applications wait for turns.
    counting: bool,
    turns: Vec<Turn>,
    /// The applications whose turns make the gang last.
    gang: QuickSet<AppId>,
    gang_ends: Nanos,
    /// The applications over which the window passes when the gang ends: they stand first in the
    /// ring.
    window: QuickSet<AppId>,
    /// When the last decision was made, and which applications have processors of their own by it.
    decided: Nanos,
    running: QuickSet<AppId>,
}

impl VtqDss {
    /// Its name in the registry.
    pub const NAME: &'static str = "vtq-dss";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "gangs of neighbours, with turns as long as makes the programs' CPU time equal";

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

    /// Counts what applications received since the last decision; returns how long ago that was.
    fn account(&mut self, snapshot: &Snapshot<'_>) -> Nanos {
        let begin = self.level - self.worth;
        let mut accounts = QuickMap::default();
        accounts.reserve(snapshot.apps.len());
        for app in snapshot.apps {
            let fresh =
                Account { seen: app.cpu_time, service: begin, received: 0, ran: snapshot.now };
            let mut account = self.accounts.get(&app.id).copied().unwrap_or(fresh);
            if snapshot.now > self.decided && self.running.contains(&app.id) {
                account.ran = snapshot.now;
            }
            account.received = app.cpu_time.saturating_sub(account.seen);
            account.service += service(app, account.received);
            account.seen = app.cpu_time;
            accounts.insert(app.id, account);
        }
        self.accounts = accounts;
        let last = std::mem::replace(&mut self.decided, snapshot.now);
        snapshot.now.saturating_sub(last)
    }

    /// An application (of those at the places `turns`, for which there are `processors`) that
    /// received its share outside its turn, as a master may that is alone on the processors kept
    /// for masters, has not waited.
    fn excuse(
        &mut self,
        snapshot: &Snapshot<'_>,
        elapsed: Nanos,
        turns: &[usize],
        processors: u32,
    ) {
        let weight = |i: usize| share::fixed(snapshot.apps[i].weight);
        let weights: u128 = turns.iter().map(|&i| weight(i)).sum();
        let all = u128::from(elapsed) * u128::from(processors);
        for &i in turns.iter().filter(|_| elapsed > 0) {
            let share = all * weight(i);
            if let Some(account) = self.accounts.get_mut(&snapshot.apps[i].id)
                && u128::from(account.received).saturating_mul(weights)
                    >= share - (share >> ROUNDING)
            {
                account.ran = snapshot.now;
            }
        }
    }

    /// Each application (of those at the places `turns`) that has waited too long gets a turn and
    /// leads the ring. True if there is one.
    fn hurry(&mut self, snapshot: &Snapshot<'_>, turns: &[usize]) -> bool {
        let longest = self.parameters.longest.max(self.parameters.shortest).max(snapshot.quantum);
        let patience = longest.saturating_mul(turns.len() as u64);
        let begin = self.level - self.worth;
        let mut late: Vec<(Nanos, (AppId, usize))> = Vec::new();
        for (app, i) in turns.iter().map(|&i| (snapshot.apps[i].id, i)) {
            if let Some(account) = self.accounts.get_mut(&app)
                && snapshot.now.saturating_sub(account.ran) >= patience
            {
                account.service = account.service.min(begin);
                late.push((account.ran, (app, i)));
            }
        }
        // Stable: of those that wait since the same time the first in the ring comes first.
        late.sort_by_key(|(ran, _)| *ran);
        self.ring.lead(&late.iter().map(|(_, it)| *it).collect::<Vec<_>>());
        !late.is_empty()
    }

    /// All applications begin with the same service.
    fn begin(&mut self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32) {
        self.counting = true;
        self.accounts.values_mut().for_each(|account| account.service = 0);
        (self.turns, self.gang, self.window) = Default::default();
        self.level = 0;
        self.raise(snapshot, order, processors, 0);
    }

    /// From now on no application waits for turns.
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

    /// Each application has a quantum again: the level rises to a cycle's worth above `least`, and
    /// above itself.
    fn raise(&mut self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32, least: Service) {
        let wanted: u128 =
            order.iter().map(|&i| u128::from(snapshot.apps[i].wants().min(processors))).sum();
        let weights: u128 = order.iter().map(|&i| share::fixed(snapshot.apps[i].weight)).sum();
        // Each application's part of the cycle is in proportion to its weight; the mean part is the
        // mean request.
        let quantum = snapshot.quantum.clamp(1, LONGEST_QUANTUM);
        let cycle = (f64::from(u32::try_from(wanted).unwrap_or(u32::MAX)) / self.parameters.load)
            .ceil() as u128;
        let cycle = u128::from(quantum) * cycle;
        self.worth = i128::try_from((cycle << share::FIXED_BITS) / weights.max(1))
            .unwrap_or(Service::MAX >> 2)
            .max(1);
        self.level = self.level.max(least) + self.worth;
        let most = quantum.saturating_mul(processors.into());
        for &i in order {
            let app = &snapshot.apps[i];
            let bound = service(app, most).max(self.worth);
            if let Some(account) = self.accounts.get_mut(&app.id) {
                account.service =
                    account.service.clamp(self.level - bound, self.level + LEAD * bound);
            }
        }
    }

    /// How long an application needs on this many processors to reach the level `goal`.
    fn quantum(&self, app: &AppView, goal: Service, processors: u32) -> Nanos {
        let missing = (goal - self.service_of(app.id)).max(0).unsigned_abs();
        let cpu_time = missing.saturating_mul(share::fixed(app.weight)) >> share::FIXED_BITS;
        Nanos::try_from(cpu_time.div_ceil(u128::from(processors.max(1)))).unwrap_or(Nanos::MAX)
    }

    /// Ends the turns that are over.
    fn end_turns(&mut self, now: Nanos, at: &QuickMap<AppId, usize>) {
        let mut turns = std::mem::take(&mut self.turns);
        turns.retain(|turn| {
            at.contains_key(&turn.app) && (now < turn.ends || self.service_of(turn.app) < turn.goal)
        });
        for turn in &mut turns {
            turn.at = at[&turn.app];
        }
        self.turns = turns;
        self.keep_gang();
    }

    /// The next gang. `order` is the ring after the window moved on; not empty.
    fn begin_gang(&mut self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32) {
        let limit = ring::limit(processors, self.parameters.load);
        let least =
            order.iter().map(|&i| self.service_of(snapshot.apps[i].id)).min().unwrap_or(self.level);
        if least >= self.level {
            self.raise(snapshot, order, processors, least);
        }
        // Turns on credit end with the gang.
        let mut unfinished = std::mem::take(&mut self.turns);
        unfinished.retain(|turn| self.service_of(turn.app) < turn.goal);
        self.turns = unfinished;
        let mut members: Vec<usize> = Vec::new();
        let mut is_member = QuickSet::default();
        let mut sum = 0;
        let mut join = |i: usize| {
            let wants = u64::from(snapshot.apps[i].wants());
            let fits =
                members.is_empty() || sum + wants <= limit && members.len() < processors as usize;
            if fits && is_member.insert(i) {
                sum += wants;
                members.push(i);
            }
            fits || is_member.contains(&i)
        };
        (self.window, self.gang) = Default::default();
        let mut is_first = true;
        let mut skipped = Vec::new();
        for &i in order {
            let app = snapshot.apps[i].id;
            // An application that has used up its quantum is passed over, but not by a gang that
            // ends before it in the ring.
            skipped.push(app);
            if self.is_below(app) {
                if !join(i) {
                    break;
                }
                self.window.extend(skipped.drain(..));
                self.gang.insert(app);
                if std::mem::take(&mut is_first) {
                    // Turns that go on come after the first of the gang.
                    for turn in &self.turns {
                        join(turn.at);
                    }
                }
            }
        }
        let before: QuickMap<AppId, Turn> =
            self.turns.iter().map(|turn| (turn.app, *turn)).collect();
        self.turns.clear();
        let mut longest = 0;
        // An application that goes on has all that it asks for, as long as each of the others has
        // one: dss gives small requests less than equal CPU time takes. The others share the rest.
        let (on, fresh): (Vec<usize>, Vec<usize>) =
            members.into_iter().partition(|&i| before.contains_key(&snapshot.apps[i].id));
        let mut left = processors;
        let mut parts = Vec::new();
        for (place, &i) in on.iter().enumerate() {
            let others = u32::try_from(on.len() - place - 1 + fresh.len())
                .expect("a gang fits the processors");
            let part = snapshot.apps[i].wants().min(left - others);
            left -= part;
            parts.push((i, part));
        }
        parts.extend(turn::divide(snapshot, fresh, left));
        for (at, part) in parts {
            let app = &snapshot.apps[at];
            let (goal, began) = before
                .get(&app.id)
                .map_or((self.level, snapshot.now), |turn| (turn.goal, turn.began));
            self.turns.push(Turn { app: app.id, at, processors: part, goal, began, ends: 0 });
            if self.gang.contains(&app.id) {
                longest = longest.max(self.quantum(app, goal, part));
            }
        }
        let shortest = self.parameters.shortest;
        self.gang_ends = snapshot
            .now
            .saturating_add(longest.clamp(shortest, self.parameters.longest.max(shortest)));
    }

    /// An application that wants less gives back. If they now have more than the machine has, they
    /// share anew, and turns for which there is no processor are over.
    fn shrink(&mut self, snapshot: &Snapshot<'_>, processors: u32) {
        for turn in &mut self.turns {
            turn.processors = turn.processors.min(snapshot.apps[turn.at].wants());
        }
        let held: u64 = self.turns.iter().map(|turn| u64::from(turn.processors)).sum();
        if held <= u64::from(processors) {
            return;
        }
        // The application that has waited longest keeps its turn.
        let ran = |app: AppId| self.accounts.get(&app).map_or(0, |account| account.ran);
        self.turns.sort_by_key(|turn| ran(turn.app));
        self.turns.truncate(processors as usize);
        let parts =
            turn::divide(snapshot, self.turns.iter().map(|turn| turn.at).collect(), processors);
        self.turns.sort_by_key(|turn| turn.at);
        for (turn, (_, part)) in self.turns.iter_mut().zip(parts) {
            (turn.processors, turn.ends) = (part, 0);
        }
        self.keep_gang();
    }

    /// The gang is those of it whose turns go on.
    fn keep_gang(&mut self) {
        let running: QuickSet<AppId> = self.turns.iter().map(|turn| turn.app).collect();
        self.gang.retain(|app| running.contains(app));
    }

    /// Hands out what the running ones leave; see the rule.
    fn fill(&mut self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32) {
        let held: u64 = self.turns.iter().map(|turn| u64::from(turn.processors)).sum();
        let mut free = processors - u32::try_from(held).expect("it is at most `processors`");
        let mut runs = vec![false; snapshot.apps.len()];
        self.turns.iter().for_each(|turn| runs[turn.at] = true);
        // The repository begins after the window.
        let (inside, behind): (Vec<usize>, Vec<usize>) =
            order.iter().partition(|&&i| self.window.contains(&snapshot.apps[i].id));
        let repository: Vec<usize> = behind.into_iter().chain(inside).collect();
        for whole in [true, false] {
            for &i in &repository {
                let app = &snapshot.apps[i];
                let fits =
                    !whole || u64::from(app.wants()) <= ring::limit(free, self.parameters.load);
                if free > 0 && !runs[i] && fits && self.is_below(app.id) {
                    runs[i] = true;
                    self.turns.push(self.turn(snapshot, i, &mut free));
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
        let mut credit: Vec<usize> = repository.into_iter().filter(|&i| !runs[i]).collect();
        credit.sort_by_cached_key(|&i| self.service_of(snapshot.apps[i].id));
        for i in credit {
            if free > 0 {
                self.turns.push(self.turn(snapshot, i, &mut free));
            }
        }
    }

    /// A turn of the application at this place on as many of the free processors as it wants.
    fn turn(&self, snapshot: &Snapshot<'_>, at: usize, free: &mut u32) -> Turn {
        let app = &snapshot.apps[at];
        let processors = app.wants().min(*free);
        *free -= processors;
        Turn { app: app.id, at, processors, goal: self.level, began: snapshot.now, ends: 0 }
    }

    /// Plans the ends of turns that have none, or passed it without reaching the level. Returns the
    /// next end.
    fn plan(&mut self, snapshot: &Snapshot<'_>) -> Nanos {
        let now = snapshot.now;
        let mut turns = std::mem::take(&mut self.turns);
        for turn in turns.iter_mut().filter(|turn| turn.ends <= now) {
            let quantum = self.quantum(&snapshot.apps[turn.at], turn.goal, turn.processors);
            turn.ends = if quantum == 0 {
                // On credit, for another cycle's worth: then it is the turn of an application that
                // has received less.
                let app = &snapshot.apps[turn.at];
                let worth =
                    self.quantum(app, self.service_of(app.id) + self.worth, turn.processors);
                self.gang_ends.min(now.saturating_add(worth.max(self.parameters.shortest)))
            } else {
                now.saturating_add(quantum.max(PLAN_AGAIN))
                    .max(turn.began.saturating_add(self.parameters.shortest))
            };
        }
        self.turns = turns;
        self.turns.iter().map(|turn| turn.ends).fold(self.gang_ends, Nanos::min)
    }
}

/// Which applications want no more than their share of the processors (by place in the snapshot),
/// and how many processors remain for the others.
fn always(snapshot: &Snapshot<'_>, order: &[usize], processors: u32) -> (Vec<bool>, u32) {
    let mut always = vec![false; snapshot.apps.len()];
    // What each wants, and its weight, which has 30 bits: products of the two are within 64.
    let claim = |&i: &usize| {
        let weight = u64::try_from(share::fixed(snapshot.apps[i].weight))
            .expect("at most 1000 in fixed point");
        (i, snapshot.apps[i].wants(), weight)
    };
    let mut by_share: Vec<(usize, u32, u64)> = order.iter().map(claim).collect();
    by_share.sort_by(|(_, wants_a, weight_a), (_, wants_b, weight_b)| {
        (u64::from(*wants_a) * weight_b).cmp(&(u64::from(*wants_b) * weight_a))
    });
    let mut left = processors;
    let mut weights: u128 = by_share.iter().map(|(_, _, weight)| u128::from(*weight)).sum();
    for (i, wants, weight) in by_share {
        if u128::from(wants) * weights > u128::from(left) * u128::from(weight) {
            break;
        }
        always[i] = true;
        left -= wants;
        weights -= u128::from(weight);
    }
    (always, left)
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
        let elapsed = self.account(snapshot);
        let limit = ring::limit(snapshot.processors, self.parameters.load);
        let all_fit = ring::gang(snapshot, &order, limit, snapshot.processors) == order.len();
        let processors = if all_fit {
            snapshot.processors
        } else {
            turn::capacity(snapshot, self.parameters.masters)
        };
        if all_fit || processors == 0 {
            self.rest();
            self.running = snapshot.apps.iter().map(|app| app.id).collect();
            let parts = if all_fit {
                turn::divide(snapshot, order.clone(), processors)
            } else {
                Vec::new()
            };
            return turn::decision(snapshot, &parts, order);
        }
        let kept = snapshot.processors - processors;
        let (always, processors) = always(snapshot, &order, processors);
        let passed = order
            .iter()
            .take_while(|&&i| always[i] || self.window.contains(&snapshot.apps[i].id))
            .count();
        let mut turns: Vec<usize> = order.iter().copied().filter(|&i| !always[i]).collect();
        if !self.counting {
            self.begin(snapshot, &turns, processors);
        }
        let begin = self.level - self.worth;
        for &i in order.iter().filter(|&&i| always[i]) {
            if let Some(account) = self.accounts.get_mut(&snapshot.apps[i].id) {
                account.service = begin;
            }
        }
        self.excuse(snapshot, elapsed, &turns, processors + kept);
        let at: QuickMap<AppId, usize> = turns.iter().map(|&i| (snapshot.apps[i].id, i)).collect();
        self.end_turns(snapshot.now, &at);
        let is_over = self.gang.is_empty() || snapshot.now >= self.gang_ends;
        if !is_over {
            self.shrink(snapshot, processors);
        }
        if is_over || self.gang.is_empty() {
            self.ring.pass(passed);
            turns.rotate_left(order[..passed].iter().filter(|&&i| !always[i]).count());
            order.rotate_left(passed);
            if self.hurry(snapshot, &turns) {
                order = self.ring.renew(snapshot);
                turns = order.iter().copied().filter(|&i| !always[i]).collect();
            }
            self.begin_gang(snapshot, &turns, processors);
        }
        self.fill(snapshot, &turns, processors);
        let next = self.plan(snapshot);

        let all_the_time =
            order.iter().filter(|&&i| always[i]).map(|&i| (i, snapshot.apps[i].wants()));
        let in_turn = self.turns.iter().map(|turn| (turn.at, turn.processors));
        let parts: Vec<(usize, u32)> = all_the_time.chain(in_turn).collect();
        let running: BTreeSet<usize> = parts.iter().map(|(i, _)| *i).collect();
        self.running = running.iter().map(|&i| snapshot.apps[i].id).collect();
        let below = |i: &usize| !running.contains(i) && self.is_below(snapshot.apps[*i].id);
        let repository: Vec<usize> = order.iter().copied().filter(below).collect();
        let mut decision =
            turn::decision(snapshot, &parts, repository.into_iter().chain(running.iter().copied()));
        decision.next = Some(next);
        // Gangs last about a quantum each.
        let outside: Vec<usize> = turns.iter().copied().filter(|i| !running.contains(i)).collect();
        let limit = ring::limit(processors, self.parameters.load);
        turn::announce_gangs(&mut decision, snapshot, &outside, (limit, processors.max(1)));
        decision
    }
}
