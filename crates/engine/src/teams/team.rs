//! A team: the caller and its workers, ready to run one region after another.
//!
//! # Fork and join
//! 1. `reserve` makes sure that the workers are there (a few loads when they are), and knows how
//!    work reaches them ([`Dispatch`]).
//! 2. `run` writes a descriptor into the supply line of each, or one entry of the team's ring
//!    (neither is a read-modify-write or a fence: [`crate::protocols::slot`],
//!    [`crate::protocols::ring`]), then looks once whether any of them sleeps, and wakes those.
//! 3. The caller runs its own part as member 0; in a recoverable region also the parts that have
//!    not begun, where the machine is busy or a member slept ([`crate::protocols::slot`]; such a
//!    region goes by lines whatever the team's dispatch, since its members are woken one by one
//!    anyway). Then it waits for the arrivals ([`crate::protocols::arrival`]). What members bring
//!    to the join rides on the lines in which they arrive.
//!
//! # Papers
//! P1 section 3 (F1, F3, F4, F6), P0 section 2 (F10). All members are kernel threads: an OpenMP
//! thread's identity is its thread-local storage (F2's decision).

use crate::process::Born;
use crate::process::panics::{NoUnwinding, Payload};
use crate::program::config::Dispatch;
use crate::program::program;
use crate::regions::fork_join;
use crate::teams::recall::{Calls, NoCalls, Recall};
use crate::thread::membership::{Membership, ResultPlace};
use crate::thread::{Local, Need, Reservation, local};
use crate::work::captures::Captures;
use crate::work::{Member, Region, Work};
use crate::workers::worker::Worker;
use std::cell::Cell;
use std::marker::PhantomData;

impl Member {
    /// The calling thread's place in the innermost region that it works for; member 0 of 1 outside
    /// any region. Cost: a few loads.
    ///
    /// ```
    /// use nanothreads_engine::Member;
    /// assert_eq!(Member::current(), Member { id: 0, size: 1 });
    /// ```
    pub fn current() -> Self {
        let membership = local().membership();
        Self { id: membership.id, size: membership.size }
    }
}

/// Whether the members of a region run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Concurrency {
    /// They do, each on its own thread: their work may wait for each other.
    Promised,
    /// They may: what a member has not begun when the caller is done with its own part, the caller
    /// runs as if it were that member. A region then never waits for a member that is only being
    /// woken, or lost its processor.
    Offered,
}

/// A team of the calling thread; see the module head.
///
/// It may run any number of regions, and be kept: a region that was reserved for, or run, in
/// between, elsewhere on the thread or deeper, costs it the work of reserving once more.
#[derive(Debug)]
pub struct Team {
    size: u32,
    /// Its work is broadcast.
    is_broadcast: bool,
    need: Need,
    /// What was made ready for it.
    reservation: Reservation,
    /// The workers belong to the thread that reserved them.
    here: PhantomData<*const ()>,
}

impl Team {
    /// A team of `size` threads with the caller as member 0. It is smaller only when the system
    /// refuses threads, in work that was offered to a worker, or above
    /// [`largest_team`](crate::largest_team).
    #[inline]
    pub fn reserve(size: usize) -> Self {
        Self::reserve_as(size, Need::Exact)
    }

    /// A team of at most `size` threads out of what the program has: inside a region never a new
    /// thread.
    #[inline]
    pub fn reserve_available(size: usize) -> Self {
        Self::reserve_as(size, Need::Available)
    }

    #[inline]
    fn reserve_as(size: usize, need: Need) -> Self {
        let local = local();
        let size = local.reserve(size, need);
        let reservation = if size > 1 { local.reservation() } else { Reservation::NONE };
        let is_broadcast = size > 1 && program().config().dispatch == Dispatch::Broadcast;
        // Teams stay below `largest_team`, which a `u32` holds.
        Self { size: size as u32, is_broadcast, need, reservation, here: PhantomData }
    }

    /// Makes the team ready again.
    #[cold]
    fn reserve_again(&self, local: &Local) -> Reservation {
        assert!(
            !local.asks(),
            "a region of {} threads inside a method of a TeamSizer: regions there have one thread; \
             reserve it there",
            self.size
        );
        let size = local.reserve(self.size(), self.need);
        assert!(
            size == self.size(),
            "a team of {} threads that was reserved elsewhere, or before another one, cannot be \
             had any more: reserve it again where it is to run ({size} threads now)",
            self.size
        );
        local.reservation()
    }

    /// Opens a region of the calling thread for a team of more than one, which has its members from
    /// then on. Another team may have been reserved since, what this one does not use may be lent
    /// to masters inside, and another master may have taken the workers: then it is made ready
    /// again.
    #[inline]
    fn open<'a>(&self, local: &'a Local) -> Opened<'a> {
        let depth = local.open();
        let is_root = local.custody.is_root_at(depth);
        match local.reserved(depth, is_root, self.reservation, self.size()) {
            Some(members) => Opened { members, depth, is_root },
            None => self.open_again(local, depth),
        }
    }

    #[cold]
    #[inline(never)]
    fn open_again<'a>(&self, local: &'a Local, mut depth: usize) -> Opened<'a> {
        loop {
            local.close(depth);
            let reservation = self.reserve_again(local);
            depth = local.open();
            let is_root = local.custody.is_root_at(depth);
            let members = local.reserved(depth, is_root, reservation, self.size());
            if let Some(members) = members {
                return Opened { members, depth, is_root };
            }
            assert!(local.custody.is_lost(), "what was made ready is ready");
        }
    }

    /// Opens a region of the calling thread that runs nothing on the team, whose workers the caller
    /// has for itself until it closes the region: [`Local::close`] with the depth that is returned.
    pub fn open_for<'a>(&self, local: &'a Local) -> (usize, &'a [&'static Worker]) {
        if self.size > 1 {
            let Opened { members, depth, .. } = self.open(local);
            return (depth, members);
        }
        (local.open_alone(), &[])
    }

    /// The same team, whose work reaches the members this way, whatever the configuration says.
    #[inline]
    #[must_use]
    pub fn dispatched(self, dispatch: Dispatch) -> Self {
        Self { is_broadcast: dispatch == Dispatch::Broadcast && self.size > 1, ..self }
    }

    /// How the team's work reaches the members.
    pub fn dispatch(&self) -> Dispatch {
        if self.is_broadcast { Dispatch::Broadcast } else { Dispatch::Lines }
    }

    /// Threads of the team.
    #[inline]
    pub fn size(&self) -> usize {
        self.size as usize
    }

    /// Runs `work` on all members and returns when the last is done. Cost: one line out and one
    /// back for each worker that is awake.
    ///
    /// # Panics
    /// Before anything is begun, when the team has to be made ready again, because others were
    /// reserved since or it is run in another region than the one in which it was reserved, and
    /// cannot have its size there.
    ///
    /// # Safety
    /// - `work` may be called with `data` on `size` threads at once, and does not unwind.
    #[inline]
    pub unsafe fn run(&self, work: Work, data: *const ()) {
        // SAFETY: - caller's contract.
        unsafe { self.run_in(Concurrency::Promised, work, data) };
    }

    /// As [`Team::run`], where members that are done, and the caller while it waits for others, can
    /// be called back by `recall`.
    ///
    /// # Panics
    /// As [`Team::run`].
    ///
    /// # Safety
    /// - As [`Team::run`].
    /// - No other region runs with `recall` meanwhile.
    #[inline]
    pub unsafe fn run_with_recall(&self, work: Work, data: *const (), recall: &Recall) {
        // SAFETY: - caller's contract.
        unsafe { self.run_calling(Concurrency::Promised, work, data, None, recall) };
    }

    /// As [`Team::run`], or with less than is promised there. Returns the members whose results can
    /// be taken, or `None` in a child process that the region's body forked.
    ///
    /// # Safety
    /// - As [`Team::run`].
    #[inline]
    pub unsafe fn run_in(
        &self,
        concurrency: Concurrency,
        work: Work,
        data: *const (),
    ) -> Option<Joined<'_>> {
        // SAFETY: - caller's contract.
        unsafe { self.run_with(concurrency, work, data, None) }
    }

    /// True when there is one worker, which gets its work by its line: what is carried has a place
    /// then.
    #[inline]
    pub fn has_one_line(&self) -> bool {
        self.size == 2 && !self.is_broadcast
    }

    /// As [`Team::run_in`]. With something carried, `work` and `data` are for the master alone.
    ///
    /// # Safety
    /// - As [`Team::run`], and for what is carried as well.
    /// - Something is carried only where [`Team::has_one_line`].
    #[inline]
    pub unsafe fn run_with(
        &self,
        concurrency: Concurrency,
        work: Work,
        data: *const (),
        carried: Option<Carried<'_>>,
    ) -> Option<Joined<'_>> {
        // SAFETY: - caller's contract.
        unsafe { self.run_calling(concurrency, work, data, carried, NoCalls) }
    }

    /// As [`Team::run_with`].
    ///
    /// # Safety
    /// - As [`Team::run_with`].
    #[inline]
    unsafe fn run_calling<C: Calls>(
        &self,
        concurrency: Concurrency,
        work: Work,
        data: *const (),
        carried: Option<Carried<'_>>,
        calls: C,
    ) -> Option<Joined<'_>> {
        let local = local();
        let outer = local.membership();
        let (size, level) = (self.size, outer.level + 1);
        if size == 1 {
            // Depth stays: what a team of one forks is as good as outermost.
            let alone = Membership {
                id: 0,
                size,
                level,
                threads: outer.threads,
                root: outer.root,
                result_place: None,
            };
            local.run(alone, work, data);
            local.settle();
            let depth = local.custody.depth();
            return Some(Joined { members: &[], is_broadcast: false, local, depth });
        }
        let Opened { members, depth, is_root } = self.open(local);
        let root = local.root_for_members(depth, is_root);
        let threads = local.occupy(depth, is_root, size);
        let region = match carried {
            None => Region { work, data, carried: None, root, size, level, threads },
            Some(Carried { work, captures, place }) => {
                let data = members[0].captures();
                place.set(data);
                Region { work, data, carried: Some(captures), root, size, level, threads }
            }
        };
        let recoverable = concurrency == Concurrency::Offered && may_be_late(members);
        let channel = if self.is_broadcast && !recoverable {
            Some(local.channel(depth, size as usize))
        } else {
            None
        };
        let born = Born::now();
        calls.begin(members);
        // Until the join the others use what the caller would free.
        let guard = NoUnwinding::enter();
        match channel {
            Some(channel) => channel.publish(&region),
            // SAFETY: - L1: this thread is the master of its group's members, and joined their last
            // work below.
            //         - data and root outlive the join (caller's contract; root is this thread's or
            //           an outer master's).
            None => unsafe { fork_join::supply_lines(members, &region, recoverable) },
        }
        calls.supplied();
        fork_join::wake(members);
        local.run(region.membership(0, None), work, data);
        if recoverable {
            // SAFETY: - L1, and supplied as recoverable above.
            unsafe { run_what_is_not_begun(local, members, &region, born) };
        }
        if born.is_parents() {
            // The region's body forked, and this is the child: the other members are the parent's
            // (D13).
            guard.leave();
            calls.forget();
            local.stay_outside();
            return None;
        }
        let attend = C::MAY_BE.then_some(|| calls.attend(local, &region));
        match channel {
            Some(channel) => channel.gather(local, members, region.threads, attend),
            None => fork_join::gather_lines(local, members, region.threads, attend),
        }
        calls.end(local, region.threads);
        guard.leave();
        local.vacate(depth);
        Some(Joined { members, is_broadcast: channel.is_some(), local, depth })
    }
}

/// A closure that is to stand in the line of a team's only worker.
pub struct Carried<'a> {
    /// What the worker calls, or the master in its stead, with the place of the closure.
    pub work: Work,
    /// The closure.
    pub captures: Captures,
    /// Is told that place before the master's own work begins.
    pub place: &'a Cell<*const ()>,
}

/// True when a member may begin so late that the master had better do its work: then the master
/// pays a read-modify-write for each member to be able to (see [`crate::protocols::slot`]).
#[inline]
fn may_be_late(members: &[&'static Worker]) -> bool {
    program().load().is_seen() || members.iter().any(|worker| worker.may_sleep())
}

/// Takes back and runs the parts of `members` that have not begun; not in a child that one of the
/// parts forked: the process in which the region was `born` runs them.
///
/// # Safety
/// - The caller is the members' master, and supplied `region` by their lines as recoverable.
unsafe fn run_what_is_not_begun(
    local: &Local,
    members: &[&'static Worker],
    region: &Region,
    born: Born,
) {
    for (&worker, id) in members.iter().zip(1..) {
        // SAFETY: - caller's contract.
        if !born.is_parents() && !worker.is_joined() && unsafe { worker.take_back() } {
            local.run(
                region.membership(id, Some(ResultPlace::Line(worker))),
                region.work,
                region.data,
            );
        }
    }
}

/// A region that is open, with its members.
struct Opened<'a> {
    members: &'a [&'static Worker],
    /// At which it was opened.
    depth: usize,
    /// The master is a root there.
    is_root: bool,
}

/// The members of a region that is joined, with what they brought. They are the master's until this
/// is dropped.
#[derive(Debug)]
pub struct Joined<'a> {
    members: &'a [&'static Worker],
    is_broadcast: bool,
    local: &'a Local,
    /// At which the region was opened.
    depth: usize,
}

impl Drop for Joined<'_> {
    #[inline]
    fn drop(&mut self) {
        self.local.close(self.depth);
    }
}

impl Joined<'_> {
    /// Takes the panic of a member whose work was carried.
    #[inline]
    pub fn take_panic(&self) -> Option<Payload> {
        self.members.iter().find_map(|worker| worker.take_panic())
    }

    /// Takes what member `id` (not 0) put on its line.
    ///
    /// # Safety
    /// - That member has put a `V` through its [`ResultPlace`], which was not taken yet.
    /// - The caller has supplied no work since the join.
    pub unsafe fn take<V: Send>(&self, id: usize) -> V {
        let worker = self.members[id - 1];
        let result_place = if self.is_broadcast {
            ResultPlace::Arrival(worker)
        } else {
            ResultPlace::Line(worker)
        };
        // SAFETY: - caller's contract; this thread is the master that joined.
        unsafe { result_place.take() }
    }
}
