//! Users: they share first, then the policy divides what each of them has among its programs.
//!
//! # Rule
//! With programs of one user nothing of this happens. With programs of several users, each user has
//! processors by max-min: as many as its programs want together, or an equal part of what the other
//! users leave, whatever the number of its programs. A program that sleeps (`curbing`) wants none.
//! A user with a cap wants no more than that, also where it is alone; what it leaves is others' or
//! idle. Under a policy that binds nothing a cap is a number of threads and binds none.
//! Each user's programs have a policy object of their own, with the same parameters, which sees
//! only that number of processors and only that user's programs. Masters that share, share with
//! those of their user only. Processors that no user's policy gives out go to the work-list in
//! turns of the users.
//!
//! Where a site has classes they share before users (`classes`).
//!
//! With more users than processors no policy is asked: all masters share. Users with many programs
//! are then apart from those with few, as far as that goes, and each quantum those with equally
//! many meet others.
//!
//! # Not here
//! Which programs may come at all: `server::places`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::PoisonError;

use policies::{Allocation, AppId, AppView, Cause, Decision, Equip, Nanos, Policy, Snapshot};

use super::Ledger;
use super::classes::UserWeights;
use crate::guarded::Guarded;

/// Makes a policy by its name.
pub type Maker = fn(&str) -> Option<Box<dyn Policy>>;

/// Users of the programs in the books.
#[derive(Default)]
pub(super) struct Users {
    /// For whose programs the policy of the ledger decides.
    first: Option<u32>,
    /// The policies for those of others.
    others: BTreeMap<u32, Guarded>,
    maker: Option<Maker>,
    /// Shares of users relative to others; 1 of those that are not here.
    weights: BTreeMap<u32, f64>,
    /// The same, for policies inside classes.
    pub(super) among: UserWeights,
    /// The most processors of users; of those that are not here: all.
    caps: BTreeMap<u32, u32>,
    /// Processors of each user by the last decision, in order of arrival; none where one user has
    /// all.
    shares: Vec<(u32, u32)>,
    /// When each policy wants to be asked again.
    next: BTreeMap<u32, Nanos>,
    /// Turns that ended.
    turn: usize,
    /// The end of a turn moves a program.
    moves: bool,
}

impl Users {
    /// A policy of this name.
    pub(super) fn make(&self, name: &str) -> Option<Guarded> {
        let made = Guarded::make(|| self.maker()(name).ok_or("there is no such policy"));
        made.inspect_err(|why| tracing::warn!(why, name, "the policy is not made")).ok()
    }

    /// What makes policies.
    pub(super) fn maker(&self) -> Maker {
        self.maker.unwrap_or(|_| None)
    }

    /// The most processors of users.
    pub(super) fn caps(&self) -> &BTreeMap<u32, u32> {
        &self.caps
    }
}

impl Ledger {
    /// How policies for the programs of a second user are made. Without that equal shares are used
    /// there.
    pub fn set_maker(&mut self, maker: Maker) {
        self.users.maker = Some(maker);
    }

    /// The shares of users relative to others; 1 of those that are not named.
    pub fn set_user_weights(&mut self, weights: BTreeMap<u32, f64>) {
        weights.clone_into(&mut self.users.among.lock().unwrap_or_else(PoisonError::into_inner));
        self.users.weights = weights;
    }

    /// The most processors that the programs of users have together, at least one; those that are
    /// not named have no bound.
    pub fn set_user_caps(&mut self, caps: BTreeMap<u32, u32>) {
        self.users.caps = caps;
    }

    /// Whose program this is.
    pub fn set_user(&mut self, app: AppId, user: u32) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.id == app) {
            entry.user = user;
        }
    }

    /// The policies of all users are of this kind from now on.
    pub(super) fn forget_policies(&mut self) {
        self.users.others.clear();
        self.users.next.clear();
    }

    /// The other users' policies, which have the parameters of the first one.
    pub(super) fn other_policies(&self) -> impl Iterator<Item = &Guarded> {
        self.users.others.values()
    }

    /// The same, to change them.
    pub(super) fn other_policies_mut(&mut self) -> impl Iterator<Item = &mut Guarded> {
        self.users.others.values_mut()
    }

    /// The end of a turn moves a program.
    pub(super) fn is_moved_by_turns(&self) -> bool {
        self.users.moves || self.placement.is_moved_by_turns()
    }

    /// What the policies say.
    pub(super) fn ask_policies(&mut self, views: &[AppView], now: Nanos, cause: Cause) -> Decision {
        let before = std::mem::take(&mut self.users.shares);
        let snapshot = Snapshot {
            now,
            quantum: self.quantum,
            processors: self.available(),
            apps: views,
            cause,
            master_always: true,
        };
        if self.has_classes() || !self.has_several_users() {
            let last = Some(&self.decided).filter(|_| self.is_passing && before.is_empty());
            return ask(&mut self.policy, &snapshot, last);
        }
        let users: Vec<u32> = self.awake().map(|entry| entry.user).collect();
        let wishes = users.iter().copied().zip(views);
        let shares = shares(snapshot.processors, &self.users.weights, &self.users.caps, wishes);
        self.users.shares.clone_from(&shares);
        if shares.len() > snapshot.processors as usize {
            let allocations = views.iter().map(|view| Allocation::shared_master(view.id)).collect();
            return Decision::everybody_waits(&snapshot, allocations);
        }
        let mut answers = Vec::new();
        for share in shares {
            let (user, processors) = share;
            let own: Vec<AppView> =
                users.iter().zip(views).filter(|it| *it.0 == user).map(|it| *it.1).collect();
            let is_due = self.users.next.get(&user).is_some_and(|next| *next <= now);
            let cause = if cause == Cause::Timer && !is_due { Cause::Request } else { cause };
            let snapshot = Snapshot { processors, apps: &own, cause, ..snapshot };
            let last =
                (self.is_passing && before.contains(&share)).then(|| part(&self.decided, &own));
            let policy = match self.users.others.get_mut(&user) {
                Some(policy) => policy,
                None => &mut self.policy,
            };
            let answer = ask(policy, &snapshot, last.as_ref());
            match answer.next {
                Some(next) => self.users.next.insert(user, next),
                None => self.users.next.remove(&user),
            };
            answers.push((user, answer));
        }
        whole(&users, answers)
    }

    /// Whether users share: programs of several are here, each of which has a policy then, or one
    /// has a cap.
    fn has_several_users(&mut self) -> bool {
        let users = &mut self.users;
        let mut present: Vec<u32> = Vec::new();
        for entry in &self.entries {
            if !present.contains(&entry.user) {
                present.push(entry.user);
            }
        }
        // The user whose program came first, of those with programs here, has the ledger's own
        // policy.
        if users.first.is_none_or(|first| !present.contains(&first)) {
            users.first = present.first().copied();
            if let Some(policy) = users.first.and_then(|first| users.others.remove(&first)) {
                self.policy = policy;
            }
        }
        users.others.retain(|user, _| present.contains(user));
        users.next.retain(|user, _| present.contains(user));
        for user in present.iter().filter(|user| Some(**user) != users.first) {
            let made = || {
                let maker = users.maker?;
                let made =
                    Guarded::make(|| maker(self.policy.name()).ok_or("there is no such policy"));
                let mut policy = made
                    .inspect_err(|why| tracing::warn!(why, "equal shares for another user"))
                    .ok()?;
                for parameter in self.policy.parameters() {
                    if let Err(error) = policy.configure(parameter.key, &parameter.value) {
                        tracing::warn!(%error, "a parameter is not the same for all users");
                    }
                }
                Some(policy)
            };
            if !users.others.contains_key(user) {
                users
                    .others
                    .insert(*user, made().unwrap_or_else(|| Guarded::new(Box::new(Equip::new()))));
            }
        }
        present.len() > 1 || present.iter().any(|user| users.caps.contains_key(user))
    }

    /// Makes the decision targets where several users are: masters that share are placed here.
    pub(super) fn place_for_users(&mut self) {
        self.users.moves = false;
        if self.users.shares.is_empty() || self.decision.unbound {
            return self.place(None);
        }
        let mut own = self.decision.clone();
        let mut masters: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, allocation) in own.allocations.iter_mut().enumerate().filter(|(_, it)| it.shared) {
            *allocation = Allocation::own(allocation.app, 0);
            masters.entry(self.entries[at].user).or_default().push(at);
        }
        self.place(Some(&own));
        let free = self.available.cpus.iter().map(|cpu| cpu.id);
        let mut free: Vec<u32> =
            free.filter(|id| self.entries.iter().all(|entry| !entry.target.contains(id))).collect();
        if self.decision.rotate {
            self.users.turn = self.users.turn.wrapping_add(1);
        }
        let is_crowded = self.users.shares.len() > self.available.cpus.len();
        let circles =
            if is_crowded { self.meet(&masters, &free) } else { self.part(&masters, &mut free) };
        for (members, cpus) in circles.iter().filter(|(_, cpus)| !cpus.is_empty()) {
            let uneven = members.len() % cpus.len() != 0;
            self.users.moves |= uneven;
            let turn = if uneven { self.users.turn % members.len() } else { 0 };
            for (place, at) in members.iter().enumerate() {
                let place = (place + turn) % members.len();
                let cpu = cpus[place * cpus.len() / members.len()];
                let entry = &mut self.entries[*at];
                let may_use = |cpu: &u32| self.placement.may_use(entry.id, *cpu);
                let cpu = Some(cpu).filter(may_use).or_else(|| cpus.iter().copied().find(may_use));
                entry.target.extend(cpu);
            }
        }
        self.users.moves |= is_crowded;
    }

    /// The masters of each user that share, and the processors for them.
    fn part(
        &self,
        masters: &BTreeMap<u32, Vec<usize>>,
        free: &mut Vec<u32>,
    ) -> Vec<(Vec<usize>, Vec<u32>)> {
        let mut circles = Vec::new();
        // What a cap leaves each of them beyond what it has.
        let mut rooms: Vec<usize> = Vec::new();
        for (user, share) in &self.users.shares {
            let Some(members) = masters.get(user) else { continue };
            let both = self.entries.iter().zip(&self.decision.allocations);
            let own: u32 = both
                .filter(|(entry, it)| entry.user == *user && !it.shared)
                .map(|(_, it)| it.processors)
                .sum();
            let number = (share.saturating_sub(own).max(1) as usize).min(members.len());
            // Where they are now comes first.
            let is_theirs =
                |cpu: &u32| members.iter().any(|at| self.entries[*at].holding.cpus.contains(cpu));
            free.sort_by_key(|cpu| (!is_theirs(cpu), *cpu));
            let cpus: Vec<u32> = free.drain(..number.min(free.len())).collect();
            let cap = self.users.caps.get(user).map_or(usize::MAX, |cap| *cap as usize);
            rooms.push(cap.saturating_sub(own as usize + cpus.len()));
            circles.push((members.clone(), cpus));
        }
        // What policies leave is for masters, as long as one of them shares.
        for cpu in free.drain(..) {
            let both = circles.iter_mut().zip(&mut rooms);
            let able =
                both.filter(|((members, cpus), room)| cpus.len() < members.len() && **room > 0);
            let fullest = able.max_by_key(|((members, cpus), _)| members.len() / cpus.len().max(1));
            if let Some(((_, cpus), room)) = fullest {
                cpus.push(cpu);
                *room -= 1;
            }
        }
        circles
    }

    /// All masters, a circle for each processor that is free. The user with most of them comes
    /// first, where the fewest are; a program that stays on other processors than that goes where
    /// the fewest are of its own.
    fn meet(
        &self,
        masters: &BTreeMap<u32, Vec<usize>>,
        free: &[u32],
    ) -> Vec<(Vec<usize>, Vec<u32>)> {
        let mut circles: Vec<(Vec<usize>, Vec<u32>)> =
            free.iter().map(|cpu| (Vec::new(), vec![*cpu])).collect();
        let mut users: VecDeque<&Vec<usize>> = masters.values().collect();
        users.rotate_left(self.users.turn.checked_rem(users.len()).unwrap_or(0));
        // Stable: those with equally many stay in the order of this turn.
        users.make_contiguous().sort_by_key(|members| std::cmp::Reverse(members.len()));
        let may_use = |at: usize, cpu: u32| self.placement.may_use(self.entries[at].id, cpu);
        for members in users {
            let fewest = (0..circles.len()).min_by_key(|circle| circles[*circle].0.len());
            for &at in members {
                let there = |circle: &usize| may_use(at, circles[*circle].1[0]);
                let own = || (0..circles.len()).filter(there).min_by_key(|it| circles[*it].0.len());
                if let Some(circle) = fewest.filter(there).or_else(own) {
                    circles[circle].0.push(at);
                }
            }
        }
        circles
    }
}

/// What a policy says, if that is possible; from the `last` decision after a release.
fn ask(policy: &mut Guarded, snapshot: &Snapshot<'_>, last: Option<&Decision>) -> Decision {
    let decision = match last {
        Some(last) => policy.release(snapshot, last),
        None => policy.decide(snapshot),
    };
    match decision.check(snapshot) {
        Ok(()) => decision,
        Err(rule) => {
            tracing::error!(policy = policy.name(), %rule, "the policy broke a rule; equal shares \
                                                            are used instead");
            Equip::new().decide(snapshot)
        }
    }
}

/// Processors of each user, in order of arrival: max-min by what their programs want together, in
/// proportion to their weights, at least one.
pub(super) fn shares<'a>(
    processors: u32,
    weights: &BTreeMap<u32, f64>,
    caps: &BTreeMap<u32, u32>,
    wishes: impl Iterator<Item = (u32, &'a AppView)>,
) -> Vec<(u32, u32)> {
    let mut wanted: Vec<(u32, u32)> = Vec::new();
    for (user, view) in wishes {
        let wants = view.wants();
        match wanted.iter_mut().find(|it| it.0 == user) {
            Some((_, sum)) => *sum = sum.saturating_add(wants),
            None => wanted.push((user, wants)),
        }
    }
    for (user, sum) in &mut wanted {
        *sum = caps.get(user).map_or(*sum, |cap| (*cap).max(1).min(*sum));
    }
    // The user that wants least of its part has that first; what it leaves is the others'.
    let weight = |at: usize| weights.get(&wanted[at].0).copied().unwrap_or(1.0);
    let mut order: Vec<(usize, f64)> = (0..wanted.len()).map(|at| (at, weight(at))).collect();
    order.sort_by(|(one, its), (other, others)| {
        let want = |at: usize, weight: f64| f64::from(wanted[at].1) / weight;
        want(*one, *its).total_cmp(&want(*other, *others))
    });
    let mut left = processors;
    for place in 0..order.len() {
        let (at, weight) = order[place];
        let together: f64 = order[place..].iter().map(|(_, weight)| weight).sum();
        // At most what is left: a cast is exact.
        let part = (f64::from(left) * weight / together).ceil() as u32;
        let part = wanted[at].1.min(part.min(left)).max(1);
        wanted[at].1 = part;
        left = left.saturating_sub(part);
    }
    wanted
}

/// What a decision says of these.
fn part(decision: &Decision, views: &[AppView]) -> Decision {
    let is_own = |app: &AppId| views.iter().any(|view| view.id == *app);
    let mut part = decision.clone();
    part.allocations.retain(|allocation| is_own(&allocation.app));
    part.work_list.retain(is_own);
    part
}

/// One decision of those about each user's programs. `users` are those of all programs in order.
pub(super) fn whole(users: &[u32], answers: Vec<(u32, Decision)>) -> Decision {
    let mut whole = Decision::default();
    let mut waiting: Vec<_> = Vec::new();
    let mut allocations = BTreeMap::new();
    for (user, answer) in answers {
        whole.rotate |= answer.rotate;
        whole.unbound |= answer.unbound;
        whole.cluster = whole.cluster.max(answer.cluster);
        whole.reserved += answer.reserved;
        whole.next = whole.next.into_iter().chain(answer.next).min();
        waiting.push(answer.work_list.into_iter());
        allocations.insert(user, answer.allocations.into_iter());
    }
    let next = users.iter().filter_map(|user| allocations.get_mut(user)?.next());
    whole.allocations.extend(next);
    while !waiting.is_empty() {
        waiting.retain_mut(|list| list.next().map(|app| whole.work_list.push(app)).is_some());
    }
    whole
}

#[cfg(test)]
mod tests;
