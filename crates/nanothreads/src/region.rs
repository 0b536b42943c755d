//! A region of the safe API: a closure that runs on each member, with panics carried to the caller.

use crate::local::local;
use crate::panics::FirstPanic;
use crate::team::{Concurrency, Member, Team};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// On lines of its own: the slaves fetch as few as the captures fill, and none that the master writes meanwhile.
#[repr(C, align(64))]
struct Region<F> {
    body: F,
    /// The first panic of any member.
    panic: FirstPanic,
}

/// A team of at most `wanted` members, for [`run_team`]: its size is known before the region begins. One less for a while
/// after a member was seen to have no processor ([`crate::presence`]).
pub(crate) fn reserve(wanted: usize) -> Team {
    let local = local();
    Team::reserve_available(local.present(local.grant(wanted)))
}

/// Runs `body` for the members of `team` and returns when all are done. The caller is one of them, and runs those that
/// have not begun when it is done with its own part: bodies must not wait for each other. A panic of any member reaches the
/// caller after that.
pub(crate) fn run_team<F: Fn(Member) + Sync>(team: &Team, body: F) {
    run_team_in(Concurrency::Offered, team, body);
}

/// As [`run_team`], or with each body on its member's own thread, all at the same time.
pub(crate) fn run_team_in<F: Fn(Member) + Sync>(concurrency: Concurrency, team: &Team, body: F) {
    let region = Region { body, panic: FirstPanic::default() };
    // SAFETY: - `call::<F>` gets the region, which outlives the join; `F: Sync` may be called on many threads at once;
    //           `call` does not unwind.
    unsafe { team.run_in(concurrency, call::<F>, ptr::from_ref(&region).cast()) };
    region.panic.pass_on();
}

/// # Safety
/// - `data` points to a live `Region<F>`.
unsafe fn call<F: Fn(Member) + Sync>(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let region = unsafe { &*data.cast::<Region<F>>() };
    // The closure's captures are seen again only through the caller, which gets the panic.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (region.body)(member))) {
        region.panic.keep(payload);
    }
}

impl Member {
    /// The calling thread's place in the innermost region that it works for; member 0 of 1 outside any region. Cost: a
    /// few loads.
    ///
    /// ```
    /// use nanothreads::{Member, par_for};
    /// assert_eq!(Member::current(), Member { id: 0, size: 1 });
    /// par_for(0..100).run(|_| assert!(Member::current().id < Member::current().size));
    /// ```
    pub fn current() -> Self {
        let membership = local().membership();
        Self { id: membership.id, size: membership.size }
    }
}

/// Runs `body` once on each thread of a team of all processors that the program has now.
///
/// The team's size is whatever is granted at this moment: ask [`Member::size`], not the machine. Inside a region it is
/// what is reserved for inner regions, often one thread. Cost: about one cache-line round trip.
///
/// ```
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let seen = AtomicU32::new(0);
/// nanothreads::broadcast(|member| {
///     assert!(member.id < member.size);
///     seen.fetch_add(1, Ordering::Relaxed);
/// });
/// assert!(seen.into_inner() >= 1);
/// ```
///
/// # Panics
/// With the payload of the first member that panics, after all are done.
pub fn broadcast<F: Fn(Member) + Sync>(body: F) {
    run_team_in(Concurrency::Promised, &reserve(local().wish()), body);
}
