//! Explicit groups: a team is divided into groups of neighbours, each with a master that forks on
//! its own group.
//!
//! # Protocol
//! The caller, a master with P threads, divides them: group i gets `sizes[i]` consecutive ones, of
//! which the first is the group's master; group 0's is the caller.
//! 1. The caller forks a region whose members are the masters alone. The other workers
//!    stay idle where they are: no line moves for them.
//! 2. Each master leads its group: its forks get the group's workers, any number of
//!    times and at any depth. An inner fork is what an outermost one is: a store for each worker.
//! 3. A master whose body has ended leaves the group's workers idle, and arrives. No other region
//!    gets them before the caller's join: what comes after finds its data in the same caches.
//!
//! # Races
//! *Two masters of one worker.* A (the caller) supplies it before and after the groups,
//! B (the group's master) in between. B joins its last region on it, then arrives at A's join with
//! Release; A sees that with Acquire before it supplies again, and B saw A's last number with the
//! Acquire of its own descriptor. So the numbers in the supply line continue, and there is one
//! supplier at a time (L1). Model: `lending/model.rs` of the engine.
//!
//! # Papers
//! P1 sections 3.1.1 and 5.1 (F4, F7: 16 processors as four groups have the masters 0, 4, 8, 12).
//! Deviation: groups of proportional size, which shrink when the grant does.

mod domains;

use engine::head::{Follows, Head};
use engine::split::split;

use crate::join;
use crate::per_member::Contributions;
use crate::region;
use domains::TopologyLevel;
use engine::forked::UntilJoin;
use engine::local::{Local, local};
use engine::process::Born;
use engine::team::{Concurrency, Team};
use engine::work::Member;
use engine::worker::Worker;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A division of the caller's processors into groups; made by [`groups`](fn@groups).
#[derive(Clone, Debug)]
#[must_use = "groups do nothing until they run"]
pub struct Groups<'w> {
    shape: Shape<'w>,
}

#[derive(Clone, Debug)]
enum Shape<'w> {
    Equal(usize),
    Weights(Cow<'w, [usize]>),
    Domain(TopologyLevel),
}

/// Divides the processors that the caller has into groups of neighbours, which work on different
/// things at the same time, each with all of its group: one for each last-level cache, unless told
/// otherwise.
///
/// Each group has a master, on which the body runs. All that the body forks (loops,
/// [`join`](fn@crate::join), [`scope`](crate::scope()), [`broadcast`](crate::broadcast), groups
/// again) runs on its group, and nowhere else.
///
/// ```
/// use nanothreads::{groups, par_for};
/// let totals = groups().weights(&[3, 1]).map(|group| {
///     // Runs on three quarters of the processors in group 0, and on one quarter in group 1.
///     let range = [0..7_500, 7_500..10_000][group.index()].clone();
///     par_for(range).reduce(0, |i| i, |a, b| a + b)
/// });
/// assert_eq!(totals.iter().sum::<usize>(), 49_995_000);
/// ```
pub fn groups() -> Groups<'static> {
    Groups { shape: Shape::Domain(TopologyLevel::Cache) }
}

impl<'w> Groups<'w> {
    /// `count` groups, whose sizes differ by one at most.
    pub fn equal<'any>(self, count: usize) -> Groups<'any> {
        Groups { shape: Shape::Equal(count) }
    }

    /// A group for each weight, in proportion: shares are rounded by the largest remainder, and
    /// each is at least 1.
    pub fn weights(self, weights: &[usize]) -> Groups<'_> {
        Groups { shape: Shape::Weights(Cow::Borrowed(weights)) }
    }

    /// A group for each last-level cache that the program has processors of, as large as it has.
    /// Where threads are bound ([`Builder::bind`](crate::Builder::bind), or a manager's grant), a
    /// group's threads are those of its cache.
    pub fn by_cache<'any>(self) -> Groups<'any> {
        Groups { shape: Shape::Domain(TopologyLevel::Cache) }
    }

    /// The same by memory node.
    ///
    /// ```
    /// use nanothreads::{groups, par_for};
    /// // Each node's threads first touch, and then work on, a part of their own.
    /// let sums = groups().by_node().map(|node| {
    ///     let part = vec![1.0; 1_000];
    ///     (node.size(), par_for(0..part.len()).reduce(0.0, |i| part[i], |a, b| a + b))
    /// });
    /// assert!(sums.iter().all(|&(_, sum)| sum == 1_000.0));
    /// ```
    pub fn by_node<'any>(self) -> Groups<'any> {
        Groups { shape: Shape::Domain(TopologyLevel::Node) }
    }

    /// Runs `body` once for each group, on its master, and returns when all are done.
    ///
    /// With fewer processors than groups, groups of one thread each run one after another on those
    /// that there are: no body may wait for another one. When the program's grant shrinks while
    /// groups are open, the next regions inside shrink in proportion. Cost: as a region of as many
    /// threads as there are groups, and short allocations: five for two groups of one thread each,
    /// eight for two of several.
    ///
    /// # Panics
    /// With the payload of the first body that panics, when all are done; groups not begun by then
    /// are skipped.
    pub fn run<F: Fn(Group) + Sync>(self, body: F) {
        self.fork(|_| (), |group, ()| body(group));
    }

    /// As [`Groups::run`], and returns what the bodies return, in the order of the groups. A child
    /// process that the caller forks in `body`, and that goes on after it, gets only what it
    /// returns itself: the other groups are its parent's.
    ///
    /// # Panics
    /// As [`Groups::run`].
    pub fn map<R: Send, F: Fn(Group) -> R + Sync>(self, body: F) -> Vec<R> {
        let results = self.fork(
            |count| UntilJoin::new(Contributions::apart(count)),
            |group, results| {
                let result = body(group);
                // SAFETY: - each group runs once, in this one region.
                unsafe { results.put(group.index, Some(result)) };
            },
        );
        crate::per_member::values(results)
    }

    /// Runs `body` for each group on what `share` makes for their number, which is returned
    /// afterwards.
    fn fork<S: Sync>(self, share: impl FnOnce(usize) -> S, body: impl Fn(Group, &S) + Sync) -> S {
        let weights = match self.shape {
            Shape::Equal(count) => {
                let shared = share(count);
                divide_equal(Concurrency::Promised, count, |group| body(group, &shared));
                return shared;
            }
            Shape::Weights(weights) => weights,
            Shape::Domain(domain) => {
                let team = reserve();
                if domain.arrange(local().members(team.size())).is_some() {
                    return deeper(&team, |divided, workers| {
                        // They may be others than a moment ago.
                        let as_they_come = || (vec![workers.len() + 1], workers.to_vec());
                        let (sizes, workers) = domain.arrange(workers).unwrap_or_else(as_they_come);
                        let shared = share(sizes.len());
                        let count = sizes.len();
                        divided.fork(Concurrency::Promised, count, sizes, &workers, |group| {
                            body(group, &shared)
                        });
                        shared
                    });
                }
                Cow::Owned(domain.weights())
            }
        };
        let shared = share(weights.len());
        divide(Concurrency::Promised, &weights, |group| body(group, &shared));
        shared
    }
}

/// One group, as its body sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    index: usize,
    count: usize,
    first: usize,
    size: usize,
}

impl Group {
    /// The number of the group, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many groups there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Threads of the group, its master included.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Which members of the divided team the group consists of. The first one is the master. Groups
    /// by cache or memory node count members in the order of these, where threads are bound.
    pub fn members(&self) -> Range<usize> {
        self.first..self.first + self.size
    }
}

/// Runs `body` for a group of each of `weights`, on the caller's processors.
///
/// With [`Concurrency::Offered`] the caller may lead a group whose master has not begun.
pub(crate) fn divide<F: Fn(Group) + Sync>(concurrency: Concurrency, weights: &[usize], body: F) {
    divide_by(concurrency, weights.len(), |total| split(total, weights), body);
}

/// The same for `count` groups whose sizes differ by one at most.
fn divide_equal<F: Fn(Group) + Sync>(concurrency: Concurrency, count: usize, body: F) {
    divide_by(concurrency, count, |total| split(total, &vec![1; count]), body);
}

/// `sizes` says how large the groups are when there is a thread for each.
fn divide_by<F: Fn(Group) + Sync>(
    concurrency: Concurrency,
    count: usize,
    sizes: impl FnOnce(usize) -> Vec<usize>,
    body: F,
) {
    if count == 0 {
        return;
    }
    let team = reserve();
    let total = team.size();
    let sizes = if count <= total { sizes(total) } else { vec![1; total] };
    deeper(&team, |divided, workers| divided.fork(concurrency, count, sizes, workers, body));
}

/// All that the caller can have.
fn reserve() -> Team {
    let local = local();
    Team::reserve_available(local.grant(local.wish()))
}

impl Divided<'_> {
    /// Runs `body` for `count` groups on parts of `sizes`, of which the first begins with the
    /// caller, and the others are what `workers`, members 1.. of the team in some order, are.
    fn fork<F: Fn(Group) + Sync>(
        self,
        concurrency: Concurrency,
        count: usize,
        sizes: Vec<usize>,
        workers: &[&'static Worker],
        body: F,
    ) {
        let Self { local, follows, threads } = self;
        let total = workers.len() + 1;
        let firsts: Vec<usize> =
            sizes.iter().scan(0, |end, size| Some(std::mem::replace(end, *end + size))).collect();
        let masters: Vec<&'static Worker> =
            firsts[1..].iter().map(|first| workers[first - 1]).collect();
        let division =
            Division { sizes: &sizes, firsts: &firsts, total, follows, threads, workers, count };
        let next = AtomicUsize::new(0);
        let masters_alone = [sizes.len()];
        let head = Head::new(&masters_alone, 0, masters_alone[0], Follows::Nothing, threads);
        // SAFETY: - L1: the caller has `masters` (`deeper`) and forks nothing else before the
        // leading ends; `run_team_in` joins.
        let _led = unsafe { local.lead(&head, &masters) };
        let team = Team::reserve_available(masters_alone[0]);
        region::run_team_in(concurrency, &team, |member| division.run_one(member, &next, &body));
    }
}

/// Runs `body` with the caller's `team` as its group: regions inside have at most that many
/// threads. With `follows_grant` fewer when the program has fewer.
pub(crate) fn within<R>(team: &Team, follows_grant: bool, body: impl FnOnce() -> R) -> R {
    let sizes = [team.size()];
    deeper(team, |Divided { local, follows, threads }, workers| {
        let follows = if follows_grant { follows } else { Follows::Nothing };
        let head = Head::new(&sizes, 0, sizes[0], follows, threads);
        // SAFETY: - L1: the caller has its members (`deeper`), and has them again when the leading
        // has ended.
        let _led = unsafe { local.lead(&head, workers) };
        let _outside = join::outside();
        body()
    })
}

/// The master of a team that is divided, as it was before that.
struct Divided<'a> {
    local: &'a Local,
    /// What makes the team smaller.
    follows: Follows<'a>,
    /// Threads of the program that run when all of the team's do.
    threads: u32,
}

/// Runs `fork` one depth lower, with the workers of the caller's `team`: the group of the caller's
/// depth is in use, and no other master gets them.
fn deeper<R>(team: &Team, fork: impl FnOnce(Divided, &[&'static Worker]) -> R) -> R {
    struct Close<'a>(&'a Local, usize, Born);
    impl Drop for Close<'_> {
        fn drop(&mut self) {
            if self.2.is_parents() {
                // A child that was forked inside (D13).
                return self.0.stay_outside();
            }
            self.0.close(self.1);
            self.0.take_members_back();
            self.0.settle();
        }
    }
    let local = local();
    let divided = Divided {
        local,
        follows: local.followed(),
        threads: local.threads_of(narrow(team.size())),
    };
    let (depth, workers) = team.open_for(local);
    let _close = Close(local, depth, Born::now());
    fork(divided, workers)
}

fn narrow(size: usize) -> u32 {
    u32::try_from(size).expect("reserve keeps teams below largest_team")
}

/// A division, as its masters share it.
struct Division<'a> {
    sizes: &'a [usize],
    firsts: &'a [usize],
    total: usize,
    follows: Follows<'a>,
    threads: u32,
    /// Members 1.. of the divided team.
    workers: &'a [&'static Worker],
    /// Groups to run; more than `sizes` when there are fewer threads than groups.
    count: usize,
}

impl Division<'_> {
    /// The part of one master.
    fn run_one(&self, member: Member, next: &AtomicUsize, body: &impl Fn(Group)) {
        let place = member.id as usize;
        let (first, size) = (self.firsts[place], self.sizes[place]);
        let head = Head::new(self.sizes, place, self.total, self.follows, self.threads);
        let group = |index| Group { index, count: self.count, first, size };
        let run = || {
            if self.count == self.sizes.len() {
                return body(group(place));
            }
            // More groups than threads: each takes the next one. After a panic nothing is left to
            // take.
            let skip = OnUnwind(|| next.store(self.count, Relaxed));
            loop {
                // ORDERING: Relaxed - deals numbers; data travels by fork and join.
                let index = next.fetch_add(1, Relaxed);
                if index >= self.count {
                    break;
                }
                body(group(index));
            }
            std::mem::forget(skip);
        };
        // SAFETY: - L1: these are this group's places in the divided team, and the groups are
        //           disjoint; the caller of `divide` supplies them again after the join alone.
        //         - all regions that the body forks are joined when it ends.
        let _led = unsafe { local().lead(&head, &self.workers[first..first + size - 1]) };
        let _outside = join::outside();
        run();
    }
}

/// Calls its function unless it is forgotten.
struct OnUnwind<F: Fn()>(F);

impl<F: Fn()> Drop for OnUnwind<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
