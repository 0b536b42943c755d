//! What a policy answers: how many processors each application has, and which ones get what is
//! released.
//!
//! # Invariants
//! These hold for every decision of every policy; [`Decision::check`] tests them.
//! D1  Allocations name each application of the snapshot once, in order of arrival.
//! D2  No application has more than it wants.
//! D3  Processors of their own add up to at most P. While masters share, at least one processor is
//!     left for them. What is [kept free](Decision::reserved) is neither theirs nor the masters'.
//!     The masters of each [circle](Decision::circles) have one at least, and circles no more
//!     together than is left.
//! D4  A shared allocation is exactly one processor, and only exists with `master_always`. With
//!     `master_always` every application has at least one processor, its own or a shared one (as
//!     long as the machine has any). D3 and D4 do not hold for an [`unbound`](Decision::unbound)
//!     decision.
//! D5  The work-list names applications of the snapshot, each at most once, that could use more
//!     than they have.
//!
//! # Not here
//! Which processors: [`placement`](crate::placement).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::snapshot::{AppId, AppView, Cause, Nanos, Snapshot};

/// How many processors one application has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The application.
    pub app: AppId,
    /// Its processors; 0 = it waits.
    pub processors: u32,
    /// Its one processor is shared in turn with other masters (rule 5 of the policies).
    pub shared: bool,
    /// What a master that shares is due, in 65536ths of a processor; of use only relative to other
    /// masters that share. 0 without `shared`.
    #[serde(default)]
    pub part: u32,
    /// Where programs take turns: ends of quanta until this one's turn comes, as far as the policy
    /// can tell now; 0: it has its turn, or there are none. A program outside its turn can wait at
    /// a fork rather than spend the turn in a region that it began alone.
    #[serde(default)]
    pub turn: u32,
    /// With which other masters it shares: a place in [`Decision::circles`]. 0 where there is one
    /// circle.
    #[serde(default)]
    pub circle: u16,
}

/// The part of a processor that stands for all of it, see [`Allocation::part`].
pub const WHOLE: u32 = 1 << 16;

impl Allocation {
    /// Processors of the application's own.
    #[must_use]
    pub fn own(app: AppId, processors: u32) -> Self {
        Self { app, processors, shared: false, part: 0, turn: 0, circle: 0 }
    }

    /// A master alone, on a processor that it shares evenly.
    #[must_use]
    pub fn shared_master(app: AppId) -> Self {
        Self::shared_part(app, WHOLE)
    }

    /// A master alone, on a processor that it shares by this part of one (at least 1).
    #[must_use]
    pub fn shared_part(app: AppId, part: u32) -> Self {
        Self { app, processors: 1, shared: true, part: part.max(1), turn: 0, circle: 0 }
    }

    /// Makes the shared processor its own.
    pub fn own_alone(&mut self) {
        (self.shared, self.part, self.turn, self.circle) = (false, 0, 0, 0);
    }

    /// Whether `view`, the application that has this allocation, could use more.
    ///
    /// A shared processor is less than the one processor that every application asks for.
    #[must_use]
    pub fn wants_more(&self, view: &AppView) -> bool {
        self.shared || self.processors < view.wants()
    }
}

/// The allocations until the next decision.
#[derive(Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Decision {
    /// One for each application of the snapshot, in order of arrival (D1).
    pub allocations: Vec<Allocation>,
    /// The applications that get a processor released before the next decision, the first in the
    /// list first (D5).
    pub work_list: Vec<AppId>,
    /// A new turn begins: masters that share processors move on by one place.
    pub rotate: bool,
    /// Ask again at this time, if no other cause comes earlier (policies with quanta of their own).
    pub next: Option<Nanos>,
    /// No application is bound to processors: the operating system shares them out, and allocations
    /// may add up to more than there are. Only policies that say so in
    /// [`Policy::needs`](crate::Policy::needs) answer this.
    pub unbound: bool,
    /// Processors come in clusters of this many that lie near each other; 0 and 1: one by one.
    pub cluster: u32,
    /// So many of the processors that are no application's own stay free: no master that shares is
    /// there.
    #[serde(default)]
    pub reserved: u32,
    /// Processors of each circle of masters that share among themselves only; a circle without
    /// masters has none. Empty: all that share do so on whatever is no application's own.
    #[serde(default)]
    pub circles: Vec<u32>,
}

impl Clone for Decision {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        copy.clone_from(self);
        copy
    }

    /// Uses the space of its lists again: a manager keeps a copy of each decision.
    fn clone_from(&mut self, other: &Self) {
        let Self { allocations, work_list, rotate, next, unbound, cluster, reserved, circles } =
            other;
        self.allocations.clone_from(allocations);
        self.work_list.clone_from(work_list);
        self.circles.clone_from(circles);
        (self.rotate, self.next, self.unbound, self.cluster) = (*rotate, *next, *unbound, *cluster);
        self.reserved = *reserved;
    }
}

impl Decision {
    /// A decision from its parts. A turn begins when the quantum ended and masters share.
    #[must_use]
    pub fn new(
        snapshot: &Snapshot<'_>,
        allocations: Vec<Allocation>,
        work_list: Vec<AppId>,
    ) -> Self {
        let rotate = snapshot.cause == Cause::Quantum && allocations.iter().any(|a| a.shared);
        Self { allocations, work_list, rotate, ..Self::default() }
    }

    /// A decision in which every application that wants more stands in the work-list: those without
    /// a processor first, then the others, each group in order of arrival. `allocations` are in
    /// order of arrival. O(n).
    #[must_use]
    pub fn everybody_waits(snapshot: &Snapshot<'_>, allocations: Vec<Allocation>) -> Self {
        let waiting = |with_none: bool| {
            let pairs = allocations.iter().zip(snapshot.apps);
            pairs
                .filter(move |(a, view)| a.wants_more(view) && (a.processors == 0) == with_none)
                .map(|(a, _)| a.app)
        };
        let work_list = waiting(true).chain(waiting(false)).collect();
        Self::new(snapshot, allocations, work_list)
    }

    /// This as the answer for a part of the machine of `processors`: what masters that share are
    /// due becomes their part of what is left there, so that answers for several parts can be put
    /// together. O(n).
    #[must_use]
    pub fn due_within(&self, processors: u32) -> Self {
        let own = self.allocations.iter().filter(|it| !it.shared);
        let own: u64 = own.map(|it| u64::from(it.processors)).sum();
        let left = u64::from(processors).saturating_sub(own).max(1);
        let shared = self.allocations.iter().filter(|it| it.shared);
        let sum: u64 = shared.map(|it| u64::from(it.part.max(1))).sum();
        let mut scaled = self.clone();
        for it in scaled.allocations.iter_mut().filter(|it| it.shared) {
            let part = left * u64::from(WHOLE) * u64::from(it.part.max(1)) / sum.max(1);
            let part = u32::try_from(part.min(u64::from(WHOLE))).expect("it is at most `WHOLE`");
            it.part = part.max(1);
        }
        scaled
    }

    /// The allocation of one application. O(n).
    #[must_use]
    pub fn of(&self, app: AppId) -> Option<Allocation> {
        self.allocations.iter().find(|a| a.app == app).copied()
    }

    /// Processors of the machine that no application has, neither as its own nor for shared
    /// masters.
    #[must_use]
    pub fn unallocated(&self, processors: u32) -> u32 {
        let (own, masters) = self.totals();
        let left = u64::from(processors).saturating_sub(own + u64::from(self.reserved));
        // Masters take one processor each, as long as there is one for each, or what their circles
        // have.
        let masters = match self.circles.as_slice() {
            [] => masters,
            circles => circles.iter().map(|circle| u64::from(*circle)).sum(),
        };
        u32::try_from(left - left.min(masters)).expect("it is at most `processors`, a u32")
    }

    /// What this decision becomes when processors are released before the next one: applications
    /// that want less or have left give back, and the work-list takes what is then unallocated. O(n
    /// log n).
    ///
    /// No application outside the work-list gets more than it has: for newcomers and raised
    /// requests ask the policy.
    #[must_use]
    pub fn after_release(&self, snapshot: &Snapshot<'_>) -> Self {
        let held: BTreeMap<AppId, Allocation> =
            self.allocations.iter().map(|a| (a.app, *a)).collect();
        let mut at = BTreeMap::new();
        let mut allocations = Vec::with_capacity(snapshot.apps.len());
        for (i, view) in snapshot.apps.iter().enumerate() {
            let mut allocation = held.get(&view.id).copied().unwrap_or(Allocation::own(view.id, 0));
            allocation.processors = allocation.processors.min(view.wants());
            allocations.push(allocation);
            at.insert(view.id, i);
        }
        let Self { next, unbound, cluster, reserved, .. } = *self;
        let circles = self.circles.clone();
        let mut after =
            Self { allocations, next, unbound, cluster, reserved, circles, ..Self::default() };
        let mut free = after.unallocated(snapshot.processors);
        for app in &self.work_list {
            // An application that left the machine also leaves the work-list.
            let Some(&i) = at.get(app) else { continue };
            let allocation = &mut after.allocations[i];
            if allocation.shared && free > 0 {
                // As long as anything is free no master shares in fact, and the place that it
                // leaves is its own now. A circle keeps its processors for its others.
                free -= u32::from(!self.circles.is_empty());
                allocation.own_alone();
            }
            if !allocation.shared {
                let taken = free.min(snapshot.apps[i].wants() - allocation.processors);
                allocation.processors += taken;
                free -= taken;
            }
            if allocation.wants_more(&snapshot.apps[i]) {
                after.work_list.push(*app);
            }
        }
        after.cap_circles();
        after
    }

    /// Gives circles no more processors than they have masters: to be called when masters of them
    /// share no longer.
    pub fn cap_circles(&mut self) {
        let mut masters = vec![0_u32; self.circles.len()];
        for it in self.allocations.iter().filter(|it| it.shared) {
            masters.get_mut(usize::from(it.circle)).into_iter().for_each(|masters| *masters += 1);
        }
        for (circle, masters) in self.circles.iter_mut().zip(masters) {
            *circle = masters.min(*circle);
        }
    }

    /// Says whether the decision obeys D1-D5 for this snapshot. O(n) for a work-list in order of
    /// arrival, at worst O(n) for each place in it.
    ///
    /// A manager checks the decisions of policies that it does not know.
    ///
    /// # Errors
    /// The first rule that is broken, with the application that breaks it.
    pub fn check(&self, snapshot: &Snapshot<'_>) -> Result<(), BrokenRule> {
        let named = self.allocations.iter().map(|a| a.app);
        if !named.eq(snapshot.apps.iter().map(|view| view.id)) {
            return Err(BrokenRule::List {
                allocations: self.allocations.len(),
                apps: snapshot.apps.len(),
            });
        }
        for (allocation, view) in self.allocations.iter().zip(snapshot.apps) {
            let Allocation { app, processors, shared, .. } = *allocation;
            if processors > view.wants() {
                return Err(BrokenRule::TooMany { app, processors, wants: view.wants() });
            }
            if shared && (processors != 1 || !snapshot.master_always) {
                return Err(BrokenRule::Shared { app, processors });
            }
            if snapshot.master_always && snapshot.processors > 0 && processors == 0 && !self.unbound
            {
                return Err(BrokenRule::NoMaster { app });
            }
        }
        let (own, masters) = self.totals();
        let own = own + u64::from(self.reserved);
        let shared = match self.circles.as_slice() {
            [] => masters.min(1),
            circles => circles.iter().map(|circle| u64::from(*circle)).sum(),
        };
        if own + shared > u64::from(snapshot.processors) && !self.unbound {
            return Err(BrokenRule::Sum { own, masters, processors: snapshot.processors });
        }
        let has_circle = |it: &Allocation| match self.circles.as_slice() {
            [] => it.circle == 0,
            circles => circles.get(usize::from(it.circle)).is_some_and(|circle| *circle > 0),
        };
        if let Some(it) = self.allocations.iter().find(|it| it.shared && !has_circle(it)) {
            return Err(BrokenRule::Circle { app: it.app, circle: it.circle });
        }
        let mut seen =
            vec![false; if self.work_list.is_empty() { 0 } else { self.allocations.len() }];
        // Work-lists are in order of arrival but for a few places: each search begins where the
        // last one ended.
        let mut at = 0;
        for &app in &self.work_list {
            let (before, after) = self.allocations.split_at(at);
            let next = after.iter().chain(before).position(|allocation| allocation.app == app);
            at = next.map_or(at, |next| (at + next) % self.allocations.len());
            let waits = next.is_some() && self.allocations[at].wants_more(&snapshot.apps[at]);
            if !waits || std::mem::replace(&mut seen[at], true) {
                return Err(BrokenRule::WorkList { app });
            }
        }
        Ok(())
    }

    /// Processors owned by one application each, and masters that share.
    fn totals(&self) -> (u64, u64) {
        self.allocations.iter().fold((0, 0), |(own, masters), a| {
            if a.shared { (own, masters + 1) } else { (own + u64::from(a.processors), masters) }
        })
    }
}

/// A rule that a decision breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BrokenRule {
    /// D1.
    #[error(
        "{allocations} allocations do not name the {apps} applications once each in order of arrival"
    )]
    List {
        /// Allocations in the decision.
        allocations: usize,
        /// Applications in the snapshot.
        apps: usize,
    },
    /// D2.
    #[error("{app} has {processors} processors but can use {wants}")]
    TooMany {
        /// The application.
        app: AppId,
        /// Its allocation.
        processors: u32,
        /// What it wants, within its maximum.
        wants: u32,
    },
    /// D3.
    #[error(
        "{own} processors of their own, or kept free, and {masters} sharing masters do not fit on {processors} processors"
    )]
    Sum {
        /// Sum of the allocations that are not shared, and of what is kept free.
        own: u64,
        /// Masters that share.
        masters: u64,
        /// Processors of the machine.
        processors: u32,
    },
    /// D3.
    #[error("{app} shares in circle {circle}, which is not there or has no processor")]
    Circle {
        /// The application.
        app: AppId,
        /// Its circle.
        circle: u16,
    },
    /// D4.
    #[error(
        "{app} shares {processors} processors; a shared allocation is one, and needs master_always"
    )]
    Shared {
        /// The application.
        app: AppId,
        /// Its allocation.
        processors: u32,
    },
    /// D4.
    #[error("{app} has no processor for its master, which master_always promises")]
    NoMaster {
        /// The application.
        app: AppId,
    },
    /// D5.
    #[error("{app} stands in the work-list twice, or is not there or satisfied")]
    WorkList {
        /// The application.
        app: AppId,
    },
}
