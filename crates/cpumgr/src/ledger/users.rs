//! Users: they share first, then the policy divides what each of them has among its programs.
//!
//! # Rule
//! With programs of one user nothing of this happens. With programs of several users, each user has
//! processors by max-min: as many as its programs want together, or an equal part of what the other
//! users leave, whatever the number of its programs. A program that sleeps (`curbing`) wants none.
//! Each user's programs have a policy object of their own, with the same parameters, which sees
//! only that number of processors and only that user's programs. Masters that share, share with
//! those of their user only. Processors that no user's policy gives out go to the work-list in
//! turns of the users.
//!
//! With more users than processors no policy is asked: all masters share. Users with many programs
//! are then apart from those with few, as far as that goes, and each quantum those with equally
//! many meet others.
//!
//! # Not here
//! Which programs may come at all: `server::places`.

use std::collections::{BTreeMap, VecDeque};

use policies::{Allocation, AppId, AppView, Cause, Decision, Equip, Nanos, Policy, Snapshot};

use super::Ledger;
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

impl Ledger {
    /// How policies for the programs of a second user are made. Without that equal shares are used
    /// there.
    pub fn set_maker(&mut self, maker: Maker) {
        self.users.maker = Some(maker);
    }

    /// The shares of users relative to others; 1 of those that are not named.
    pub fn set_user_weights(&mut self, weights: BTreeMap<u32, f64>) {
        self.users.weights = weights;
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
        if !self.has_several_users() {
            let last = Some(&self.decided).filter(|_| self.is_passing && before.is_empty());
            return ask(&mut self.policy, &snapshot, last);
        }
        let users: Vec<u32> = self.awake().map(|entry| entry.user).collect();
        let wishes = users.iter().copied().zip(views);
        let shares = shares(snapshot.processors, &self.users.weights, wishes);
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

    /// Whether programs of several users are here; each of these has a policy then.
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
        present.len() > 1
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
        for (user, share) in &self.users.shares {
            let Some(members) = masters.get(user) else { continue };
            let both = self.entries.iter().zip(&self.decision.allocations);
            let own = both
                .filter(|(entry, it)| entry.user == *user && !it.shared)
                .map(|(_, it)| it.processors)
                .sum();
            let number = (share.saturating_sub(own).max(1) as usize).min(members.len());
            // Where they are now comes first.
            let is_theirs =
                |cpu: &u32| members.iter().any(|at| self.entries[*at].holding.cpus.contains(cpu));
            free.sort_by_key(|cpu| (!is_theirs(cpu), *cpu));
            circles.push((
                members.clone(),
                free.drain(..number.min(free.len())).collect::<Vec<u32>>(),
            ));
        }
        // What policies leave is for masters, as long as one of them shares.
        for cpu in free.drain(..) {
            let fullest = circles.iter_mut().filter(|(members, cpus)| cpus.len() < members.len());
            if let Some((_, cpus)) =
                fullest.max_by_key(|(members, cpus)| members.len() / cpus.len().max(1))
            {
                cpus.push(cpu);
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
            tracing::error!(policy = policy.name(), %rule, "the policy broke a rule; equal shares are used instead");
            Equip::new().decide(snapshot)
        }
    }
}

/// Processors of each user, in order of arrival: max-min by what their programs want together, in
/// proportion to their weights, at least one.
fn shares<'a>(
    processors: u32,
    weights: &BTreeMap<u32, f64>,
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
fn whole(users: &[u32], answers: Vec<(u32, Decision)>) -> Decision {
    let mut whole = Decision::default();
    let mut waiting: Vec<_> = Vec::new();
    let mut allocations = BTreeMap::new();
    for (user, answer) in answers {
        whole.rotate |= answer.rotate;
        whole.unbound |= answer.unbound;
        whole.cluster = whole.cluster.max(answer.cluster);
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
mod tests {
    use policies::{AppId, Cause};

    use super::super::tests::{MS, cpus, ledger};
    use super::super::{Curb, Guarded, Ledger, MAX_HOLD};

    const POLICIES: [&str; 11] = [
        "dss-ts", "dss", "fair", "equip", "cluster", "batch", "sw-dss", "ssw-dss", "vtq-dss",
        "gang", "rr",
    ];

    /// Programs of users 1, 2, ..., of each the number given, that want all processors. Program
    /// `100 * user + i` is user `user`'s.
    fn books(processors: u32, policy: &str, programs: &[u64]) -> Ledger {
        let mut ledger = ledger(processors, policy);
        for (user, number) in (1..).zip(programs) {
            for i in 0..*number {
                come(&mut ledger, 100 * user + i, processors);
            }
        }
        ledger.decide(0, Cause::Arrival);
        settle(&mut ledger, 50 * MS);
        ledger
    }

    fn come(ledger: &mut Ledger, app: u64, request: u32) {
        ledger.arrive(AppId(app), request, request);
        ledger.set_user(AppId(app), u32::try_from(app / 100).unwrap());
    }

    fn settle(ledger: &mut Ledger, until: u64) {
        while let Some(next) = ledger.next_deadline().filter(|next| *next <= until) {
            ledger.tick(next);
        }
        ledger.tick(until);
    }

    /// Processor time of a user's programs, in processors, over `quanta` quanta.
    fn received(ledger: &mut Ledger, users: u64, quanta: u64) -> Vec<f64> {
        ledger.account(50 * MS);
        let time = |ledger: &Ledger, user: u64| {
            let own = ledger.entries.iter().filter(|entry| u64::from(entry.user) == user);
            own.map(|entry| entry.cpu_time).sum::<u64>()
        };
        let before: Vec<u64> = (1..=users).map(|user| time(ledger, user)).collect();
        let end = (50 + 100 * quanta) * MS;
        settle(ledger, end);
        ledger.account(end);
        let passed = (quanta * 100 * MS) as f64;
        (1..=users)
            .zip(before)
            .map(|(user, before)| (time(ledger, user) - before) as f64 / passed)
            .collect()
    }

    #[test]
    fn any_number_of_programs_of_one_user_leaves_another_its_half() {
        for policy in POLICIES {
            let mut ledger = books(2, policy, &[20, 1]);
            let theirs = ledger.holding(AppId(200)).unwrap();
            assert_eq!((theirs.cpus.len(), theirs.shared), (1, false), "{policy}");
            let received = received(&mut ledger, 2, 20);
            assert!((0.99..1.01).contains(&received[1]), "{policy}: {received:?}");
        }
        let mut ledger = books(8, "dss-ts", &[90, 1]);
        assert_eq!(cpus(&ledger, 200).len(), 4);
        let received = received(&mut ledger, 2, 3);
        assert!((3.99..4.01).contains(&received[0]), "{received:?}");
    }

    #[test]
    fn users_share_by_their_weights_and_what_one_does_not_want_is_the_others() {
        let mut ledger = books(8, "equip", &[2, 3]);
        ledger.set_user_weights(std::collections::BTreeMap::from([(2, 3.0)]));
        ledger.decide(60 * MS, Cause::Administration);
        let sum = |ledger: &Ledger, apps: &[u64]| {
            apps.iter().map(|app| cpus(ledger, *app).len()).sum::<usize>()
        };
        settle(&mut ledger, 200 * MS);
        assert_eq!((sum(&ledger, &[100, 101]), sum(&ledger, &[200, 201, 202])), (2, 6));
        ledger.set_user_weights(std::collections::BTreeMap::from([(1, 3.0)]));
        ledger.decide(260 * MS, Cause::Administration);
        settle(&mut ledger, 400 * MS);
        assert_eq!(sum(&ledger, &[100, 101]), 6);
        let theirs: std::collections::BTreeSet<u32> =
            [200, 201, 202].into_iter().flat_map(|app| cpus(&ledger, app)).collect();
        assert_eq!(theirs.len(), 2, "three programs share what their user has");
    }

    #[test]
    fn a_quantum_runs_for_the_policy_of_any_user() {
        let mut ledger = books(8, "equip", &[2, 3]);
        assert_eq!(ledger.next_deadline(), None);
        for policy in ledger.other_policies_mut() {
            *policy = Guarded::new(crate::guarded::tests::Panics::at("drop", 0));
        }
        ledger.decide(60 * MS, Cause::Request);
        assert_eq!(ledger.next_deadline(), Some(160 * MS));
    }

    #[test]
    fn each_user_is_served_by_the_policy() {
        // Equal shares of five and three: one of the five is left.
        let equal = books(8, "equip", &[2, 3]);
        let held = |app| cpus(&equal, app).len();
        assert_eq!([100, 101, 200, 201, 202].map(held), [2, 2, 1, 1, 1]);
        // Whole requests of four each.
        let mut ledger = ledger(8, "batch");
        for app in [100, 101, 200, 201] {
            come(&mut ledger, app, 3);
        }
        ledger.decide(0, Cause::Arrival);
        let held = |app| ledger.holding(AppId(app)).map(|it| (it.cpus.len(), it.shared)).unwrap();
        assert_eq!([100, 101, 200, 201].map(held), [(3, false), (1, true), (3, false), (1, true)]);
        let apart = cpus(&ledger, 101) != cpus(&ledger, 201);
        assert!(apart, "masters share with those of their user only");
    }

    #[test]
    fn what_one_user_does_not_want_is_the_others() {
        let mut ledger = ledger(8, "dss");
        for (app, request) in [(100, 1), (101, 1), (200, 8), (300, 8)] {
            come(&mut ledger, app, request);
        }
        ledger.decide(0, Cause::Arrival);
        assert_eq!([100, 101, 200, 300].map(|app| cpus(&ledger, app).len()), [1, 1, 3, 3]);
        // A program that sleeps wants nothing.
        ledger.curb(AppId(200), Some(Curb { processors: 0, firm: false }));
        ledger.decide(MAX_HOLD, Cause::Request);
        assert_eq!(cpus(&ledger, 300).len(), 6);
        ledger.curb(AppId(200), None);
        ledger.leave(AppId(300));
        ledger.decide(2 * MAX_HOLD, Cause::Exit);
        assert_eq!(cpus(&ledger, 200).len(), 6);
    }

    #[test]
    fn three_users_of_two_processors_get_the_same_and_many_programs_bring_nothing() {
        for policy in POLICIES {
            let received = received(&mut books(2, policy, &[1, 1, 1]), 3, 30);
            assert!(received.iter().all(|it| (0.63..0.7).contains(it)), "{policy}: {received:?}");
            // Those with one program have half a processor each; the one with twenty is by itself.
            let received = super::tests::received(&mut books(2, policy, &[20, 1, 1]), 3, 30);
            assert!(received[1] > 0.45 && received[2] > 0.45, "{policy}: {received:?}");
        }
    }

    #[test]
    fn with_programs_of_one_user_it_is_as_if_there_were_no_users() {
        for policy in POLICIES {
            let mut known = books(4, policy, &[3]);
            let mut unknown = ledger(4, policy);
            (100..103).for_each(|app| unknown.arrive(AppId(app), 4, 4));
            unknown.decide(0, Cause::Arrival);
            settle(&mut unknown, 50 * MS);
            for now in (1..20).map(|turn| turn * 60 * MS) {
                settle(&mut known, now);
                settle(&mut unknown, now);
                for app in 100..103 {
                    assert_eq!(known.holding(AppId(app)), unknown.holding(AppId(app)), "{policy}");
                }
                assert_eq!(known.next_deadline(), unknown.next_deadline());
            }
        }
    }

    #[test]
    fn a_user_that_stays_keeps_its_policy_when_the_first_one_leaves() {
        let mut ledger = books(4, "dss", &[1, 2]);
        assert_eq!(ledger.users.others.len(), 1);
        ledger.leave(AppId(100));
        ledger.decide(60 * MS, Cause::Exit);
        assert!(
            ledger.users.others.is_empty()
                && ledger.users.first == Some(2)
                && ledger.users.shares.is_empty()
        );
        settle(&mut ledger, 100 * MS);
        assert_eq!((cpus(&ledger, 200).len(), cpus(&ledger, 201).len()), (2, 2));
    }

    #[test]
    fn what_is_released_goes_to_waiting_programs_of_the_same_user_and_then_to_others() {
        let mut ledger = books(8, "dss", &[2, 1]);
        let held = |ledger: &Ledger| [100, 101, 200].map(|app| cpus(ledger, app).len());
        assert_eq!(held(&ledger), [2, 2, 4]);
        let given = cpus(&ledger, 100)[1];
        ledger.release(AppId(100), &[given], 60 * MS);
        assert_eq!(held(&ledger), [1, 3, 4]);
        let given = cpus(&ledger, 101);
        ledger.release(AppId(101), &given[1..], 80 * MS);
        assert_eq!(held(&ledger), [1, 1, 6]);
        assert!(ledger.resume(AppId(100)) && ledger.resume(AppId(101)));
        ledger.decide(100 * MS, Cause::Request);
        settle(&mut ledger, 120 * MS);
        assert_eq!(held(&ledger), [2, 2, 4]);
    }
}
