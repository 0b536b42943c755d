//! `pdpa`, performance-driven processor allocation: as many processors as an application uses
//! efficiently.
//!
//! # Rule
//! Each application begins with a base number of processors and reports the speedup on them. While
//! it is efficient it gets a step more, while it is not it gets a step less, until its allocation
//! is found; see [`diagram`]. A found allocation stays, also while its own request or those of
//! others swing. When processors become free, a step more is tried.
//!
//! # Decisions
//! - The papers' step is the same for each allocation. Here one upwards is as large as `growth`
//!   times the allocation, if that is more: from 4 to 64 processors in 4 reports and not in 30. A
//!   step that was too large is taken back, to the last allocation that was good.
//! - Efficiency is speedup / processors; equal to the minimum is good. That the speedup on the base
//!   is the base unless it was measured on one processor, is the reporter's business.
//! - A report counts once, when it was made on the present allocation and after it was given. That
//!   the application asks for less by then does not matter: a program tells of a parallel part when
//!   that has ended, and its request has fallen for the serial part. So it is judged by the largest
//!   request that it made. Speedups that are no positive number are no reports.
//! - Processors of an application whose request dipped stay reserved for it: no other application
//!   gets them, so that it has them back at once.
//! - What is free goes to applications that have less than their base, in order of arrival; then to
//!   steps, most efficient first; then to tests, unless an application that waits for admission may
//!   come and has room.
//! - A test takes one of three tries; an application has three again when another one leaves,
//!   processors are added, or its own request exceeds all earlier ones. An application that went
//!   back a step tries again only when more is free than at that time.
//! - Where masters always run and nothing is free, newcomers have one processor of the largest
//!   allocations, which return when processors become free. More applications than processors: all
//!   masters share all processors.
//! - Weights play no part. Minima do: an application begins with its minimum, if that is more than
//!   the base, and its search ends there downwards. Where nothing is free the largest allocations
//!   give way to minima, in order of arrival, as to the processor of a newcomer's master.
//!
//! # Level
//! [`Policy::admission`] admits up to `level` applications; unless that is set, as many as have
//! their base together, P / base. Beyond that it admits one at a time,
//! while all that run have found their allocation and a base is free, up to `max-level`; the level
//! falls again when an application that was efficient found nothing free, and to `level` when that
//! is changed. An application that has waited for `max-wait` is admitted in any case. One that asks
//! for no more than the base has nothing to search, and is waited for by none. One that has
//! done nothing for [`SILENCE`] (it does not report, or has not registered) is taken as it is: it
//! keeps no other application from idle processors.

mod diagram;

use std::collections::BTreeMap;

use crate::admission::{Admission, Waiting};
use crate::decision::{Allocation, Decision};
use crate::dss;
use crate::parameter::{ParameterError, configurable, parameters};
use crate::policy::{Needs, Policy};
use crate::share::{self, Claim};
use crate::snapshot::{AppId, AppView, Nanos, Snapshot};
pub use diagram::PdpaState;
use diagram::{Step, Verdict, react};

/// How many steps an application tries when processors become free.
const TRIES: u32 = 3;
/// An application whose allocation has not moved for this long, and that has not reported
/// meanwhile, is not waited for. The runtime of this project reports earlier, once its program has
/// come to its loop: a base of half a second is measured after 5 s.
const SILENCE: Nanos = 10_000_000_000;

parameters! {
    /// Parameters of `pdpa`.
    pub struct PdpaParameters {
        /// Processors of an application that has not reported yet.
        "base" base: u32 = 4, 1 => 1024;
        /// Processors by which an allocation grows or shrinks.
        "step" step: u32 = 2, 1 => 1024;
        /// A step upwards is at least this part of the allocation.
        "growth" growth: f64 = 1.0, 0.0 => 1.0;
        /// An allocation with less efficiency than this is too large.
        "min-efficiency" min_efficiency: f64 = 0.7, 0.0 => 1.0;
        /// An allocation grows only with at least this efficiency (and the minimum).
        "high-efficiency" high_efficiency: f64 = 0.0, 0.0 => 1.0;
        /// This many applications are admitted in any case; 0: processors / base.
        "level" level: u32 = 0, 0 => 65_536;
        /// No more applications than this are admitted to idle processors (or `level`, if that is
        /// more).
        "max-level" max_level: u32 = 1024, 1 => 65_536;
        /// An application that has waited for this long is admitted in any case.
        "max-wait" max_wait: Nanos = 60_000_000_000, 0 => 86_400_000_000_000;
    }
}

impl PdpaParameters {
    /// By how much an allocation of this many grows.
    fn step_from(&self, allocation: u32) -> u32 {
        // At most the allocation itself: the cast is exact to within rounding down.
        self.step.max((f64::from(allocation) * self.growth) as u32)
    }
}

/// The search for the allocation of one application.
#[derive(Debug, Clone)]
struct Search {
    state: PdpaState,
    /// What it has while it asks for at least this much and the machine is not short.
    target: u32,
    /// What it had by the last decision in which it asked for as much as its target.
    served: u32,
    /// Since when `served` is what it is, and `target`.
    since: Nanos,
    moved: Nanos,
    /// When the last report that counted was made.
    reported: Option<Nanos>,
    /// The last allocation that was good, and the speedup on it.
    good: u32,
    good_speedup: f64,
    efficiency: f64,
    tries: u32,
    /// It tries a step more only when more processors than this are free.
    unless_free: u32,
    /// The largest request so far.
    peak: u32,
}

impl Search {
    fn new() -> Self {
        Self {
            state: PdpaState::NoReference,
            target: 0,
            served: 0,
            since: 0,
            moved: 0,
            reported: None,
            good: 1,
            good_speedup: 0.0,
            efficiency: 0.0,
            tries: TRIES,
            unless_free: 0,
            peak: 0,
        }
    }

    /// The speedup of a report that counts.
    fn report(&self, app: &AppView) -> Option<(f64, Nanos)> {
        let report = app.speedup?;
        let on_this =
            report.processors == self.target && self.served == self.target && self.target > 0;
        let fresh = report.at > self.since && self.reported.is_none_or(|last| report.at > last);
        let sound = report.speedup.is_finite() && report.speedup > 0.0;
        (on_this && fresh && sound).then_some((report.speedup, report.at))
    }

    /// By how much it grows.
    fn step(&self, parameters: &PdpaParameters) -> u32 {
        parameters.step_from(self.target)
    }

    /// The most that it has use for, also while its request dips.
    fn most(&self, app: &AppView) -> u32 {
        self.peak.min(app.max).max(1)
    }

    /// It looks for no other allocation: its request is no more than an application begins with.
    fn has_nothing_to_search(&self, app: &AppView, parameters: &PdpaParameters) -> bool {
        self.state == PdpaState::NoReference && self.most(app) <= parameters.base.max(app.floor())
    }

    /// Follows a report. True when it wishes for a step more.
    fn follow(
        &mut self,
        app: &AppView,
        (speedup, at): (f64, Nanos),
        parameters: &PdpaParameters,
    ) -> Step {
        self.reported = Some(at);
        self.efficiency = speedup / f64::from(self.target);
        let efficient = self.efficiency >= parameters.min_efficiency;
        let verdict = Verdict {
            efficient,
            may_grow: efficient && self.efficiency >= parameters.high_efficiency,
            grew: speedup > self.good_speedup,
            below_request: self.target < self.most(app),
            at_least: self.target <= app.floor(),
        };
        let (state, step) = react(self.state, verdict);
        match step {
            Step::Keep | Step::Up => (self.good, self.good_speedup) = (self.target, speedup),
            Step::Down => {
                self.target = self.target.saturating_sub(parameters.step).max(app.floor());
            }
            Step::Back => self.target = self.good.max(app.floor()),
        }
        self.state = state;
        step
    }

    /// The most that it may have in its state.
    fn bound(&self, app: &AppView, parameters: &PdpaParameters) -> u32 {
        match self.state {
            PdpaState::NoReference => parameters.base.max(app.floor()).min(app.wants()),
            PdpaState::Testing => {
                let step = parameters.step_from(self.good);
                self.good.saturating_add(step).min(app.wants())
            }
            PdpaState::Increasing | PdpaState::Decreasing | PdpaState::Stable => self.target,
        }
        .max(self.target)
    }
}

/// Performance-driven allocation. O(n log n).
#[derive(Debug, Clone, Default)]
pub struct Pdpa {
    parameters: PdpaParameters,
    searches: BTreeMap<AppId, Search>,
    processors: u32,
    /// The multiprogramming level, and from which first level it was raised.
    level: u32,
    level_for: u32,
    /// Applications that run and have not been in a snapshot for a decision, and since when that is
    /// known.
    unregistered: BTreeMap<AppId, Nanos>,
    /// How many applications waited for admission when the manager last asked.
    waiting: usize,
}

impl Pdpa {
    /// Its name in the registry.
    pub const NAME: &'static str = "pdpa";
    /// What it does, in a line.
    pub const DESCRIPTION: &'static str =
        "as many processors as applications use efficiently, by reported speedups";

    /// The policy with the default parameters.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The policy with these parameters.
    ///
    /// # Errors
    /// The first parameter that is out of range.
    pub fn with(parameters: PdpaParameters) -> Result<Self, ParameterError> {
        parameters.check()?;
        Ok(Self { parameters, ..Self::default() })
    }

    /// Where the search for an application's allocation stands.
    #[must_use]
    pub fn state(&self, app: AppId) -> Option<PdpaState> {
        self.searches.get(&app).map(|search| search.state)
    }

    /// Searches in order of arrival; forgets applications that left.
    fn searches(&mut self, snapshot: &Snapshot<'_>) -> Vec<Search> {
        let known = self.searches.len();
        let mut stayed = 0;
        let mut list: Vec<Search> = Vec::with_capacity(snapshot.apps.len());
        for app in snapshot.apps {
            let search = self.searches.remove(&app.id);
            stayed += usize::from(search.is_some());
            list.push(search.unwrap_or_else(Search::new));
        }
        let room_came = stayed < known || snapshot.processors > self.processors;
        self.processors = snapshot.processors;
        for (search, app) in list.iter_mut().zip(snapshot.apps) {
            if room_came || app.wants() > search.peak {
                search.tries = TRIES;
            }
            search.peak = search.peak.max(app.wants());
        }
        list
    }

    /// What is not reserved.
    fn free(&self, searches: &[Search]) -> u32 {
        let reserved: u64 = searches.iter().map(|search| u64::from(search.target)).sum();
        u32::try_from(u64::from(self.processors).saturating_sub(reserved))
            .expect("it is at most `processors`")
    }

    /// Hands out what is free; see the rule. `up` wish for a step, `back` have just gone back one.
    fn hand_out(
        &mut self,
        snapshot: &Snapshot<'_>,
        searches: &mut [Search],
        up: &[usize],
        back: &[usize],
    ) {
        if snapshot.master_always && !snapshot.is_crowded() {
            // Its master runs, and its minimum; the largest allocations give way.
            let floors = dss::floors(snapshot.apps, snapshot.processors);
            for (search, floor) in searches.iter_mut().zip(floors) {
                if floor > 1 {
                    search.target = search.target.max(floor);
                }
            }
        }
        let mut free = self.free(searches);
        for phase in [PdpaState::NoReference, PdpaState::Testing] {
            for (search, app) in
                searches.iter_mut().zip(snapshot.apps).filter(|(search, _)| search.state == phase)
            {
                let more = free.min(search.bound(app, &self.parameters) - search.target);
                free -= more;
                search.target += more;
                if search.target == 0 && snapshot.master_always {
                    // Its master runs; the largest allocations give way.
                    search.target = 1;
                }
            }
            if phase == PdpaState::NoReference {
                self.step_up(snapshot, searches, up, &mut free);
            }
        }

        let came = snapshot.apps.len() as u64;
        let admits = self.waiting > 0 && came < u64::from(self.most());
        if !(admits && free >= self.parameters.base.min(snapshot.processors)) {
            let may = |i: &usize| {
                let search = &searches[*i];
                let room = search.target < snapshot.apps[*i].wants() && search.target > 0;
                let tries = search.tries > 0 && free > search.unless_free && !back.contains(i);
                search.state == PdpaState::Stable && room && tries
            };
            let mut testers: Vec<usize> = (0..searches.len()).filter(may).collect();
            testers.sort_by(|&i, &j| searches[j].efficiency.total_cmp(&searches[i].efficiency));
            for i in testers {
                let search = &mut searches[i];
                let step = search.step(&self.parameters);
                let more = free.min(step).min(snapshot.apps[i].wants() - search.target);
                if more > 0 {
                    (search.state, search.good) = (PdpaState::Testing, search.target);
                    search.target += more;
                    search.tries -= 1;
                    free -= more;
                }
            }
        }
        for &i in back {
            searches[i].unless_free = free;
        }
        for search in searches {
            search.unless_free = search.unless_free.min(free);
        }
    }

    /// Steps of the applications that were efficient, most efficient first; one that finds nothing
    /// free is stable.
    fn step_up(
        &mut self,
        snapshot: &Snapshot<'_>,
        searches: &mut [Search],
        up: &[usize],
        free: &mut u32,
    ) {
        let mut up = up.to_vec();
        up.sort_by(|&i, &j| searches[j].efficiency.total_cmp(&searches[i].efficiency));
        let mut in_vain = false;
        for i in up {
            let search = &mut searches[i];
            let most = search.most(&snapshot.apps[i]);
            let more =
                (*free).min(search.step(&self.parameters)).min(most.saturating_sub(search.target));
            *free -= more;
            search.target += more;
            if more == 0 {
                search.state = PdpaState::Stable;
                in_vain = true;
            }
        }
        let level = self.level();
        if in_vain {
            self.level = self.first_level().max(level - 1);
        }
    }

    /// The level at first.
    fn first_level(&self) -> u32 {
        match self.parameters.level {
            0 => (self.processors / self.parameters.base).max(1),
            level => level,
        }
    }

    /// The most applications that idle processors bring.
    fn most(&self) -> u32 {
        self.parameters.max_level.max(self.first_level())
    }

    /// The level now, within what the parameters say now; at least 1.
    fn level(&mut self) -> u32 {
        let first = self.first_level();
        if self.level_for != first {
            (self.level, self.level_for) = (first, first);
        }
        self.level = self.level.min(self.most());
        self.level
    }

    /// When every application that still searches will have been silent for too long; 0 when none
    /// searches. Also learns which applications have not registered.
    fn settled_at(&mut self, snapshot: &Snapshot<'_>) -> Nanos {
        let mut unregistered = BTreeMap::new();
        let mut settled_at = 0;
        for app in snapshot.apps {
            let since = match self.searches.get(&app.id) {
                Some(search) if search.state == PdpaState::Stable => continue,
                Some(search) if search.has_nothing_to_search(app, &self.parameters) => continue,
                Some(search) => search.moved.max(search.reported.unwrap_or(0)),
                None if app.wants() == 1 => continue,
                None => {
                    let since = self.unregistered.get(&app.id).copied().unwrap_or(snapshot.now);
                    unregistered.insert(app.id, since);
                    since
                }
            };
            settled_at = settled_at.max(since.saturating_add(SILENCE));
        }
        self.unregistered = unregistered;
        settled_at
    }

    /// What each has now: its target, as far as it asks for it and the machine has it.
    fn allocations(&self, snapshot: &Snapshot<'_>, searches: &[Search]) -> Vec<Allocation> {
        if snapshot.is_crowded() && snapshot.master_always {
            return dss::crowd(snapshot);
        }
        let floors = if snapshot.master_always {
            dss::floors(snapshot.apps, snapshot.processors)
        } else {
            vec![0; searches.len()]
        };
        let claim = |((search, app), floor): ((&Search, &AppView), u32)| {
            let room = search.target.min(app.wants());
            Claim { key: 1, floor: if floor > 1 { floor } else { 0 }, room }
        };
        let claims: Vec<Claim> =
            searches.iter().zip(snapshot.apps).zip(floors).map(claim).collect();
        // When they fit these are the rooms; otherwise the largest are cut to one level.
        let parts = share::divide(snapshot.processors.into(), &claims);
        snapshot.apps.iter().zip(parts).map(|(app, part)| Allocation::own(app.id, part)).collect()
    }
}

impl Policy for Pdpa {
    configurable!();

    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn needs(&self) -> Needs {
        Needs { reports: true, ..Needs::NOTHING }
    }

    fn decide(&mut self, snapshot: &Snapshot<'_>) -> Decision {
        let mut searches = self.searches(snapshot);
        let before: Vec<u32> = searches.iter().map(|search| search.target).collect();
        let (mut up, mut back) = (Vec::new(), Vec::new());
        for (i, (search, app)) in searches.iter_mut().zip(snapshot.apps).enumerate() {
            if let Some(report) = search.report(app) {
                match search.follow(app, report, &self.parameters) {
                    Step::Up => up.push(i),
                    Step::Back => back.push(i),
                    Step::Keep | Step::Down => {}
                }
            }
        }
        self.hand_out(snapshot, &mut searches, &up, &back);
        let allocations = self.allocations(snapshot, &searches);
        let pairs = searches.iter_mut().zip(snapshot.apps);
        for (((search, app), allocation), before) in pairs.zip(&allocations).zip(before) {
            if search.target != before {
                search.moved = snapshot.now;
            }
            // A request that dips says nothing about the allocation, which is kept for it.
            let dips = !allocation.shared && app.wants() < search.target;
            let served = if allocation.shared { 0 } else { allocation.processors };
            if served != search.served && !dips {
                (search.served, search.since) = (served, snapshot.now);
            }
        }
        let (parameters, list, given) = (&self.parameters, &searches, &allocations);
        let wishes = |state: PdpaState| {
            let all = list.iter().zip(snapshot.apps).zip(given);
            all.filter(move |((search, app), allocation)| {
                let below =
                    allocation.shared || allocation.processors < search.bound(app, parameters);
                search.state == state && below && allocation.wants_more(app)
            })
        };
        let list = wishes(PdpaState::NoReference).chain(wishes(PdpaState::Testing));
        let mut list: Vec<&Allocation> = list.map(|(_, allocation)| allocation).collect();
        list.sort_by_key(|allocation| allocation.processors > 0);
        let work_list = list.into_iter().map(|allocation| allocation.app).collect();
        let decision = Decision::new(snapshot, allocations, work_list);
        self.searches = snapshot.apps.iter().map(|app| app.id).zip(searches).collect();
        decision
    }

    /// Only an application that was admitted below its base, or that tests, takes what is released,
    /// and no more than its base or test allows. What is reserved for an application whose request
    /// dipped is not released.
    fn release(&mut self, snapshot: &Snapshot<'_>, last: &Decision) -> Decision {
        let held: BTreeMap<AppId, Allocation> =
            last.allocations.iter().map(|a| (a.app, *a)).collect();
        let mut allocations = Vec::with_capacity(snapshot.apps.len());
        let mut at = BTreeMap::new();
        let mut reserved = 0_u64;
        for (i, app) in snapshot.apps.iter().enumerate() {
            let before = held.get(&app.id).copied().unwrap_or(Allocation::own(app.id, 0));
            let now = Allocation { processors: before.processors.min(app.wants()), ..before };
            let target = self.searches.get(&app.id).map_or(0, |search| search.target);
            reserved += u64::from(target.max(now.processors));
            at.insert(app.id, i);
            allocations.push(now);
        }
        let mut free = u64::from(snapshot.processors).saturating_sub(reserved);
        let mut work_list = Vec::new();
        for app in &last.work_list {
            let Some(&i) = at.get(app) else { continue };
            let (view, allocation) = (&snapshot.apps[i], &mut allocations[i]);
            let bound =
                self.searches.get(app).map_or(0, |search| search.bound(view, &self.parameters));
            if !allocation.shared {
                let room = u64::from(bound.min(view.wants()).saturating_sub(allocation.processors));
                let taken = room.min(free);
                free -= taken;
                allocation.processors +=
                    u32::try_from(taken).expect("it is at most what it wants, a u32");
            }
            if allocation.wants_more(view) {
                work_list.push(*app);
            }
        }
        let mut after = Decision::new(snapshot, allocations, work_list);
        after.rotate = false;
        after
    }

    fn admission(&mut self, snapshot: &Snapshot<'_>, queue: &[Waiting]) -> Admission {
        let running = u32::try_from(snapshot.apps.len()).unwrap_or(u32::MAX);
        let most_at_first = self.parameters.base;
        let base = |request: u32| most_at_first.min(request.max(1));
        let mut reserved: u64 = 0;
        for app in snapshot.apps {
            let search = self.searches.get(&app.id);
            reserved += u64::from(search.map_or(base(app.wants()), |search| search.target));
        }
        self.processors = snapshot.processors;
        let mut settled_at = self.settled_at(snapshot);
        let (mut level, most) = (self.level(), self.most());
        let mut admit = 0;
        for waiting in queue {
            let free = u64::from(snapshot.processors).saturating_sub(reserved);
            let now = running.saturating_add(admit);
            let settled = settled_at <= snapshot.now;
            let idle = settled && now < most && free >= u64::from(base(waiting.request));
            if idle && now >= level {
                level = now + 1;
            }
            let patient = snapshot.now.saturating_sub(waiting.since) < self.parameters.max_wait;
            if now >= level && patient {
                break;
            }
            // The next one waits until this one has found its allocation, unless the level allows
            // it.
            if waiting.request > self.parameters.base {
                settled_at = snapshot.now.saturating_add(SILENCE);
            }
            reserved += u64::from(base(waiting.request));
            admit += 1;
        }
        self.level = level;
        self.waiting = queue.len() - admit as usize;
        let next = |first: &Waiting| {
            let patient = first.since.saturating_add(self.parameters.max_wait);
            if settled_at > snapshot.now { patient.min(settled_at) } else { patient }
        };
        Admission { admit, level: Some(level), next: queue.get(admit as usize).map(next) }
    }
}
