//! `turnaround`: programs that scale have the whole machine in turns, so that the first ones end
//! early; those that do not scale share space beside them.
//!
//! # Why
//! K equal programs that share all the time end together, after K times the time of one alone. One
//! after the other on the whole machine they end after 1, 2, ... K times that time: the mean is
//! (K + 1) / 2K of it, and the last one ends as early as before. That holds as far as they scale.
//!
//! # Rule
//! 1. *Width.* An application is as wide as the largest number of processors that it uses with
//!    `min-efficiency`, by its reports: the number of a good report, or what Amdahl's law says of a
//!    bad one. One that reports nothing is taken to scale. It is *narrow* when its width, or the
//!    largest request that it ever made, is at most half of the machine.
//! 2. *Space.* Narrow applications run beside the others all the time, up to their width, on a part
//!    of the machine as large as their part of the number of applications.
//! 3. *Turns.* The others stand in an order. The first has the rest up to its width, the next what
//!    that leaves, and so on. What is left then goes beyond widths, in equal parts.
//! 4. *Order.* An application that has had no whole turn yet (a newcomer) comes first, in order of
//!    arrival; then the one that is expected to end first. An application that has had no processor
//!    of its own for `longest-wait` comes before all others, for one turn.
//! 5. *Turn.* The order is made anew after `turn`, and when an application comes or leaves; those
//!    that run stay in front until the turn ends.
//!
//! # Expected ends
//! No program says how much work it has left. The policy remembers the CPU time of the last
//! `history` applications that ended, and expects of an execution of the same program that has
//! received a as much as those needed beyond a. Of a program of which no execution ended, all are
//! expected to need the same, twice what the one that is furthest has received: equal copies run
//! one after the other, and among programs those come first that have received least
//! (foreground-background). An application that has had more than one turn gives way only when
//! another one is expected to need less than `lead` of what it needs.
//!
//! # Decisions
//! - An application in a serial phase wants one processor and has one; the others go to the next in
//!   the order until it wants them again. It keeps its place.
//! - A program with a team of a fixed size (its minimum) is passed over while fewer than that are
//!   left, as long as another one can use them.
//! - Where masters always run, those outside their turn share `masters` processors. On two
//!   processors that is half of the machine: programs that were *submitted* are better held back.
//!
//! # Level
//! [`Policy::admission`] holds programs back while those that run can use the machine: it admits
//! one when nothing runs, when a third of what it asks for is left by the widths of those that run,
//! when those are expected to need longer than it (by `lead`), and when it has waited for
//! `longest-wait`.
//!
//! # Papers
//! P2's batch and multiprogramming level, and its measured speedups. The order is Kleinrock's
//! foreground-background ("Queueing Systems", volume 2, 1976) with the shortest expected remaining
//! time where something is known.

mod account;

use std::collections::{BTreeMap, BTreeSet};

use crate::admission::{Admission, Waiting};
use crate::decision::Decision;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::{Needs, Policy};
use crate::share::{self, Claim};
use crate::snapshot::{AppId, AppView, Cause, Nanos, Snapshot};
use crate::turn;
use account::{Account, History, by_weight};

parameters! {
    /// Parameters of `turnaround`.
    pub struct TurnaroundParameters {
        /// The shortest time for which applications that have their turn keep it: many times what
        /// the caches need to be filled.
        "turn" turn: Nanos = 200_000_000, 1_000_000 => 3_600_000_000_000;
        /// An allocation with less efficiency than this is wider than the application.
        "min-efficiency" min_efficiency: f64 = 0.7, 0.0 => 1.0;
        /// Another application takes over when it is expected to need less than this part of what
        /// the one that runs still needs.
        "lead" lead: f64 = 0.5, 0.0 => 1.0;
        /// How many applications that ended are remembered.
        "history" history: u32 = 64, 0 => 1024;
        /// An application has its turn after this time at the latest, and is admitted.
        "longest-wait" longest_wait: Nanos = 60_000_000_000, 1_000_000 => 86_400_000_000_000;
        /// Processors kept for the masters of applications that wait, where masters always run.
        "masters" masters: u32 = 1, 1 => 1024;
        /// Whether applications that were submitted are held back while those that run can use the
        /// machine.
        "hold-back" hold_back: bool = true, false => true;
    }
}

/// Turns for those that scale, space for the others. O(n (log n + `history`)).
#[derive(Debug, Clone, Default)]
pub struct Turnaround {
    parameters: TurnaroundParameters,
    accounts: BTreeMap<AppId, Account>,
    history: History,
    /// The applications in the order of their turns.
    order: Vec<AppId>,
    /// Those that had processors of their own by the last decision.
    running: BTreeSet<AppId>,
    /// Those of them whose turn it is: those that are not narrow, or all.
    holders: BTreeSet<AppId>,
    turn_ends: Nanos,
    seen: Nanos,
}

impl Turnaround {
    /// Its name in the registry.
    pub const NAME: &'static str = "turnaround";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "short programs first, the whole machine in turns, by reported speedups";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: TurnaroundParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, ..Self::default() })
    }

    /// The most processors that an application uses efficiently; `None` while nothing else than
    /// "all" is known.
    #[must_use]
    pub fn width(&self, app: AppId) -> Option<u32> {
        let width = self.accounts.get(&app)?.width(self.parameters.min_efficiency);
        Some(width).filter(|width| *width < u32::MAX)
    }

    /// Follows all that happened since the last decision. Returns whether applications came or
    /// left.
    fn account(&mut self, snapshot: &Snapshot<'_>) -> bool {
        self.history.limit(self.parameters.history);
        let passed = snapshot.now.saturating_sub(self.seen);
        self.seen = snapshot.now;
        let mut before = std::mem::take(&mut self.accounts);
        let mut changed = false;
        for app in snapshot.apps {
            let mut account = before.remove(&app.id).unwrap_or_else(|| {
                changed = true;
                Account::new(snapshot.now)
            });
            if passed > 0 && self.running.contains(&app.id) {
                account.ran = snapshot.now;
            }
            account.follow(app, self.parameters.min_efficiency);
            self.accounts.insert(app.id, account);
        }
        changed |= !before.is_empty();
        // A program that is not shown because it sleeps has not ended.
        if matches!(snapshot.cause, Cause::Exit | Cause::Arrival | Cause::Administration) {
            for account in before.values() {
                let since = passed.saturating_mul(account.had.into());
                let service = account.service.saturating_add(since);
                self.history.note(account, service, self.parameters.history);
            }
        }
        self.history.see(self.accounts.values());
        changed
    }

    /// The CPU time that an application is expected to need, relative to its weight.
    fn remaining(&self, app: &AppView) -> u128 {
        by_weight(self.history.remaining(app.program, app.cpu_time), app)
    }

    /// Applications in the order of their turns, as places in the snapshot.
    fn order(&mut self, snapshot: &Snapshot<'_>, changed: bool) -> Vec<usize> {
        let at: BTreeMap<AppId, usize> =
            snapshot.apps.iter().enumerate().map(|(i, app)| (app.id, i)).collect();
        let kept = self.order.iter().filter_map(|app| at.get(app).copied());
        let has_holder = self.holders.iter().any(|app| at.contains_key(app));
        let over = snapshot.now >= self.turn_ends;
        if !over && !changed {
            return kept.collect();
        }
        let mut order: Vec<usize> = Vec::with_capacity(at.len());
        if over {
            for app in &self.running {
                if let Some(account) = self.accounts.get_mut(app) {
                    account.had_more = account.had_turn;
                    account.had_turn = true;
                }
            }
        } else {
            order.extend(kept.filter(|&i| self.running.contains(&snapshot.apps[i].id)));
        }
        if over || !has_holder {
            self.turn_ends = snapshot.now.saturating_add(self.parameters.turn);
        }
        let pinned: BTreeSet<usize> = order.iter().copied().collect();
        // An identity that comes twice stands at its last place.
        let others = at.values().copied().filter(|i| !pinned.contains(i));
        let mut others: Vec<(u8, u128, usize)> =
            others.map(|i| self.rank(snapshot, &snapshot.apps[i], i)).collect();
        others.sort_unstable();
        order.extend(others.into_iter().map(|(_, _, i)| i));
        self.order = order.iter().map(|&i| snapshot.apps[i].id).collect();
        order
    }

    /// The least comes first.
    fn rank(&self, snapshot: &Snapshot<'_>, app: &AppView, at: usize) -> (u8, u128, usize) {
        let Some(account) = self.accounts.get(&app.id) else { return (1, 0, at) };
        let runs = self.running.contains(&app.id);
        if !runs && snapshot.now.saturating_sub(account.ran) >= self.parameters.longest_wait {
            return (0, account.ran.into(), at);
        }
        if !account.had_turn {
            return (1, 0, at);
        }
        let remaining = self.remaining(app);
        // Far below 2^53 thousandths: exact enough for a comparison of guesses.
        let lead = (self.parameters.lead * 1000.0) as u128;
        let goes_on = runs && account.had_more;
        let remaining = if goes_on { remaining / 1000 * lead } else { remaining };
        (2, remaining, at)
    }

    /// The applications that have processors of their own, as places in the snapshot and numbers,
    /// with `processors` for them.
    fn fill(&self, snapshot: &Snapshot<'_>, order: &[usize], processors: u32) -> Vec<(usize, u32)> {
        let cut = self.parameters.min_efficiency;
        let known = |i: usize| self.accounts.get(&snapshot.apps[i].id);
        let width =
            |i: usize| known(i).map_or(u32::MAX, |it| it.width(cut)).min(snapshot.apps[i].wants());
        // One processor has no part for each kind.
        let is_narrow = |i: usize| {
            processors > 1
                && known(i).is_some_and(|account| account.is_narrow(snapshot.processors, cut))
        };
        let (narrow, wide): (Vec<usize>, Vec<usize>) = order.iter().partition(|&&i| is_narrow(i));
        let mut parts = vec![0_u32; snapshot.apps.len()];
        let mut left = processors;
        let share = if wide.is_empty() {
            u64::from(processors)
        } else {
            let part = (u64::from(processors) * narrow.len() as u64).div_ceil(order.len() as u64);
            part.min(u64::from(processors).saturating_sub(1))
        };
        let beside: Vec<usize> =
            narrow.iter().copied().take(usize::try_from(share).unwrap_or(usize::MAX)).collect();
        let claims: Vec<Claim> =
            beside.iter().map(|&i| Claim { key: 1, floor: 0, room: width(i) }).collect();
        for (&i, part) in beside.iter().zip(share::divide(share, &claims)) {
            parts[i] = part;
            left -= part;
        }
        // A team that cannot shrink waits while another one can use what is left.
        let mut give = |i: usize, most: u32, least: u32| {
            let part = left.min(most.saturating_sub(parts[i]));
            if parts[i] + part >= least {
                parts[i] += part;
                left -= part;
            }
        };
        let all = || wide.iter().chain(&narrow).copied();
        wide.iter().for_each(|&i| give(i, width(i), snapshot.apps[i].floor().min(processors)));
        all().for_each(|i| give(i, width(i), 0));
        let more = |i: usize| snapshot.apps[i].wants() - parts[i];
        let claims: Vec<Claim> = all().map(|i| Claim { key: 1, floor: 0, room: more(i) }).collect();
        for (i, part) in all().zip(share::divide(left.into(), &claims)) {
            parts[i] += part;
        }
        all().map(|i| (i, parts[i])).filter(|(_, part)| *part > 0).collect()
    }

    /// Processors that an application that runs can use efficiently.
    fn used(&self, app: &AppView) -> u64 {
        let cut = self.parameters.min_efficiency;
        let known = self.accounts.get(&app.id);
        known.map_or(app.wants(), |it| it.width(cut).min(it.peak.max(app.wants()))).into()
    }
}

impl Policy for Turnaround {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn needs(&self) -> Needs {
        Needs { reports: true, ..Needs::NOTHING }
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let changed = self.account(snapshot);
        let order = self.order(snapshot, changed);
        let mut parts = self.fill(snapshot, &order, snapshot.processors);
        if parts.len() < snapshot.apps.len() {
            parts = self.fill(snapshot, &order, turn::capacity(snapshot, self.parameters.masters));
        }
        self.accounts.values_mut().for_each(|account| account.had = 0);
        (self.running, self.holders) = (BTreeSet::new(), BTreeSet::new());
        for &(i, part) in &parts {
            let app = snapshot.apps[i].id;
            self.running.insert(app);
            let Some(account) = self.accounts.get_mut(&app) else { continue };
            account.had = part;
            if !account.is_narrow(snapshot.processors, self.parameters.min_efficiency) {
                self.holders.insert(app);
            }
        }
        if self.holders.is_empty() {
            self.holders.clone_from(&self.running);
        }
        let mut decision = turn::decision(snapshot, &parts, order);
        decision.next = Some(self.turn_ends).filter(|_| !decision.work_list.is_empty());
        decision
    }

    fn admission(&mut self, snapshot: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
        if !self.parameters.hold_back {
            return Admission::everybody(queue);
        }
        let mut used: u64 = snapshot.apps.iter().map(|app| self.used(app)).sum();
        let mut idle = snapshot.apps.is_empty();
        // Those that run are expected to need longer than a newcomer.
        let fresh = self.history.mean();
        let is_long = |app: &AppView| {
            let account = self.accounts.get(&app.id);
            account.is_some_and(|account| account.had_turn)
                && fresh.is_some_and(|fresh| {
                    let remaining = self.history.remaining(app.program, app.cpu_time);
                    (fresh as f64) < remaining as f64 * self.parameters.lead
                })
        };
        let mut short_first = snapshot.apps.iter().all(is_long);
        let mut admit = 0;
        for waiting in queue {
            let wants = u64::from(waiting.request.clamp(1, snapshot.processors.max(1)));
            let free = u64::from(snapshot.processors).saturating_sub(used);
            let waited = snapshot.now.saturating_sub(waiting.since);
            let patient = waited < self.parameters.longest_wait;
            if !idle && !short_first && free * 3 < wants && patient {
                break;
            }
            (idle, short_first) = (false, false);
            used += wants;
            admit += 1;
        }
        let next = queue.get(admit as usize).map(|first| {
            let patience = first.since.saturating_add(self.parameters.longest_wait);
            patience.min(snapshot.now.saturating_add(self.parameters.turn))
        });
        let level = u32::try_from(snapshot.apps.len()).unwrap_or(u32::MAX).saturating_add(admit);
        Admission { admit, level: Some(level), next }
    }
}
