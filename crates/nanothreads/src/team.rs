//! A team: the caller and its virtual processors, ready to run one region after another.
//!
//! # Fork and join
//! 1. `reserve` makes sure that the virtual processors are there (a few loads when they are).
//! 2. `run` writes a descriptor into the supply line of each (no read-modify-write, no fence: [`crate::slot`]), then
//!    looks once whether any of them sleeps, and wakes those.
//! 3. The caller runs its own part as member 0; in a recoverable region also the parts that nobody has begun, where the
//!    machine is busy or somebody slept ([`crate::slot`]). Then it waits for each arrival.
//!
//! # Papers
//! P1 section 3 (F1, F4, F6), P0 section 2 (F10). All members are kernel threads: an OpenMP thread's identity is its
//! thread-local storage (F2's decision).

use crate::engine_state::engine;
use crate::local::{Local, Membership, Need, local};
use crate::placement;
use crate::sleeper;
use crate::vp::{Rare, Vp, WorkDescriptor};
use platform::affinity::current_cpu;
use platform::membarrier;
use std::marker::PhantomData;
use std::ptr;

/// One thread's place in a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// 0 is the thread that forked.
    pub id: u32,
    /// Threads of the region.
    pub size: u32,
}

/// The work of a region: called once on each member, with the region's data and the member's place.
pub type Work = unsafe fn(data: *const (), member: Member);

/// Whether the members of a region run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concurrency {
    /// They do, each on its own thread: their work may wait for each other.
    Promised,
    /// They may: what a member has not begun when the caller is done with its own part, the caller runs as if it were
    /// that member. A region then never waits for a member that is only being woken, or lost its processor.
    Offered,
}

/// A team of the calling thread; see the module head.
#[derive(Debug)]
pub struct Team {
    size: usize,
    /// The virtual processors belong to the thread that reserved them.
    here: PhantomData<*const ()>,
}

impl Team {
    /// A team of `size` threads with the caller as member 0. It is smaller only when the system refuses threads, or above
    /// [`largest_team`](crate::engine::largest_team).
    #[inline]
    pub fn reserve(size: usize) -> Self {
        Self { size: local().reserve(size, Need::Exact), here: PhantomData }
    }

    /// A team of at most `size` threads out of what the program has: inside a region never a new thread.
    #[inline]
    pub fn reserve_available(size: usize) -> Self {
        Self { size: local().reserve(size, Need::Available), here: PhantomData }
    }

    /// Threads of the team.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Runs `work` on all members and returns when the last is done. Cost: one line out and one back for each virtual
    /// processor that is awake.
    ///
    /// # Safety
    /// - `work` may be called with `data` on `size` threads at once, and does not unwind.
    #[inline]
    pub unsafe fn run(&self, work: Work, data: *const ()) {
        // SAFETY: - caller's contract.
        unsafe { self.run_in(Concurrency::Promised, work, data) };
    }

    /// As [`Team::run`], or with less than is promised there.
    ///
    /// # Safety
    /// - As [`Team::run`].
    #[inline]
    pub(crate) unsafe fn run_in(&self, concurrency: Concurrency, work: Work, data: *const ()) {
        let local = local();
        let outer = local.membership();
        let size = u32::try_from(self.size).expect("reserve keeps teams below largest_team");
        let level = outer.level + 1;
        if size == 1 {
            // Depth stays: what a team of one forks is as good as outermost.
            local.run(Membership { id: 0, size, level, crowd: outer.crowd, root: outer.root }, work, data);
            local.settle();
            return;
        }
        let root = local.root_for_members();
        let crowd = local.occupy(size);
        let members = local.members(self.size);
        let recoverable = concurrency == Concurrency::Offered && may_be_late(members);
        for (vp, id) in members.iter().zip(1..) {
            // SAFETY: - L1: this thread is the master of its group's members, and joined their last work below.
            //         - data and root outlive the join (caller's contract; root is this thread's or an outer master's).
            unsafe { vp.supply(WorkDescriptor { work, data, root, id, size, level, crowd }, recoverable) };
        }
        membarrier::light();
        if members.iter().any(|vp| vp.may_sleep()) {
            wake(members);
        }
        let born_with = engine();
        let depth = local.open();
        let own = Membership { id: 0, size, level, crowd, root };
        local.run(own, work, data);
        if recoverable {
            for (vp, id) in members.iter().zip(1..) {
                // SAFETY: - L1, and supplied as recoverable above.
                if !vp.is_joined() && unsafe { vp.take_back() } {
                    local.run(Membership { id, ..own }, work, data);
                }
            }
        }
        local.close(depth);
        if !ptr::eq(born_with, engine()) {
            // The region's body forked, and this is the child: the other members are the parent's (D13).
            return;
        }
        for vp in members {
            if !vp.is_joined() {
                join_late(vp, local, crowd, members);
            }
        }
        local.settle();
    }
}

/// True when somebody may begin so late that the master had better do the work: then it pays a read-modify-write for
/// each member to be able to (see [`crate::slot`]).
#[inline]
fn may_be_late(members: &[&'static Vp]) -> bool {
    engine().load().is_seen() || members.iter().any(|vp| vp.may_sleep())
}

/// Wakes those that sleep. Without a manager each is placed on its way up; with one they are bound already.
#[cold]
fn wake(members: &[&'static Vp]) {
    let beds: Vec<_> = members.iter().filter(|vp| vp.may_sleep()).map(|vp| vp.bed()).collect();
    sleeper::wake(&beds, Rare::before_wake);
}

/// Waits for a VP that is not done when the master is.
fn join_late(vp: &Vp, local: &Local, crowd: u32, members: &[&'static Vp]) {
    let unstack = || {
        // Bound where the master happens to run now: one waits for the other's time slice. Deal anew.
        if vp.is_on(current_cpu())
            && let Some(granted) = engine().sizer().processors()
        {
            placement::bind_to_grant(members, &granted);
        }
    };
    vp.wait_joined(local, crowd, unstack);
}
