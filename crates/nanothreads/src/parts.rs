//! Regions whose members need not run at the same time, wherever they are forked: loops and scopes.
//!
//! Outside regions, and where workers are lent, such a region has a team as any other. Inside a
//! half of a [`join`](fn@crate::join), and inside the body and the tasks of a scope, all workers of
//! the region around are its members, and none is left to be lent; but many may be idle. There the
//! region has *parts* instead of members: what member i would run is part i, and the parts are
//! divided by joins, so that members of the join or scope around take those that they come to. What
//! none of them takes the caller runs itself, in the order of the numbers.
//!
//! # What may wait for what
//! As in each region whose members may begin late: a part may wait for those with lower numbers. A
//! thread that has several runs them in order, so the lowest part that has not ended is always at
//! work, or the next one of a thread that is.
//!
//! A thread whose half of the parts was stolen waits for the thief. So one part that takes long
//! holds the threads that divided the parts with it: at most log2 of their number, and the caller.
//!
//! # How many parts
//! As many as the join or scope has members, and no more than the caller has processors: a thread
//! that is busy now may come later. Less those for which the caller has a whole task to be taken
//! ([`join::room`]). One, that is a call, where the caller's older halves have found no thief.

use crate::join::{self, join};
use crate::region;
use engine::local::local;
use engine::team::{self, Concurrency};
use engine::work::{Member, Work};

/// A team, or parts; see the module head.
#[derive(Debug)]
pub(crate) struct TeamOrParts {
    own: team::Team,
    /// How many; 1: the team is what there is.
    parts: u32,
}

/// How many threads a loop has that the caller begins now. It may be another number at the next
/// one: a program that is managed follows its grant.
///
/// ```
/// assert!(nanothreads::current_num_threads() >= 1);
/// ```
pub fn current_num_threads() -> usize {
    reserve(local().wish()).size()
}

/// A team of at most `wanted` members, for [`run`] or [`run_work`]: as [`region::reserve`].
#[inline]
pub(crate) fn reserve(wanted: usize) -> TeamOrParts {
    let local = local();
    let granted = local.present(local.grant(wanted));
    let own = team::Team::reserve_available(granted);
    let parts = if own.size() == 1 && granted > 1 { parts_of(granted) } else { 1 };
    TeamOrParts { own, parts }
}

/// A team of at most `wanted` members, each of which has a thread and is sure to begin: for regions
/// whose members wait for others than those with lower numbers.
pub(crate) fn reserve_threads(wanted: usize) -> TeamOrParts {
    TeamOrParts { own: region::reserve(wanted), parts: 1 }
}

#[inline(never)]
fn parts_of(granted: usize) -> u32 {
    u32::try_from(join::room().min(granted)).expect("teams have less than 2^32 members")
}

impl TeamOrParts {
    /// Members, or parts.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        if self.parts > 1 { self.parts as usize } else { self.own.size() }
    }

    /// The team, if it has one.
    #[inline]
    pub(crate) fn own(&self) -> Option<&team::Team> {
        (self.parts == 1).then_some(&self.own)
    }
}

/// Runs `body` for the members of `team` and returns when all are done: as [`region::run_team`].
#[inline]
pub(crate) fn run<F: Fn(Member) + Sync>(team: &TeamOrParts, body: F) {
    match team.own() {
        Some(own) => region::run_team(own, body),
        None => region::with_body(body, |work, data| {
            // SAFETY: - the body may be called on many threads at once, and does not unwind.
            unsafe { run_work(team, work, data) }
        }),
    }
}

/// The same for plain work.
///
/// # Safety
/// - `work` may be called with `data` on as many threads as the team has members at once, and does
///   not unwind.
pub(crate) unsafe fn run_work(team: &TeamOrParts, work: Work, data: *const ()) {
    match team.own() {
        Some(own) => {
            // SAFETY: - caller's contract.
            unsafe { own.run_in(Concurrency::Offered, work, data) };
        }
        None => {
            let outer = local().membership();
            let place = (outer.level + 1, outer.threads);
            Parts { work, data, place, size: team.parts }.run(0, team.parts);
        }
    }
}

/// What the parts of one region have in common.
struct Parts {
    work: Work,
    data: *const (),
    /// Level, and threads that run at the same time.
    place: (u32, u32),
    size: u32,
}

// SAFETY: - `work` may be called with `data` on many threads at once (`run_work`'s contract).
unsafe impl Sync for Parts {}

impl Parts {
    /// Runs parts `first`..`end`, at least one.
    fn run(&self, first: u32, end: u32) {
        if end - first == 1 {
            let member = Member { id: first, size: self.size };
            // SAFETY: - `run_work`'s contract; each part is run once.
            return unsafe { local().run_part(member, self.place, self.work, self.data) };
        }
        let middle = first + (end - first).div_ceil(2);
        join(|| self.run(first, middle), || self.run(middle, end));
    }
}
