//! Fork and join over several lines: supply, wake, and the wait of a master or leader for several
//! arrivals.
//!
//! Arrival words stand on lines of their own, each of which is a miss when its member has written
//! it. A waiter that read one after the other, waiting at each, would pay for the misses in turn;
//! [`gather`] reads the next [`AT_ONCE`] words before it judges the first one, so that their lines
//! travel at the same time. (The published master looks at both ends of its structure at once,
//! which is two in flight.)

use crate::manager::source::{self, source};
use crate::placement::binding;
use crate::process::panics::NoUnwinding;
use crate::program::program;
use crate::protocols::sleeper::{self, Preparation};
use crate::protocols::wait_point::{Look, WaitPoint};
use crate::thread::{Local, local};
use crate::waits::spin_policy::{self, SpinAdvice};
use crate::work::Region;
use crate::workers::worker::{Rare, Worker};
use platform::affinity::current_cpu;
use platform::membarrier;

/// Arrival words that are read at each turn: about as many misses as a processor has in flight.
const AT_ONCE: usize = 8;

/// Sleepers that are woken by one tree of wakers.
const AT_ONE_WAKE: usize = 64;

/// Waits until `has_arrived` holds for 0..`count`; where `threads` threads have a processor
/// each, a few looks come first, for which nothing is set up and after which nothing is
/// to be cleared away. `wait_late` gets the first number for which it does not hold, and the look
/// to wait with; it returns when that look said `Ready`.
#[inline]
pub fn gather(
    count: usize,
    threads: u32,
    has_arrived: impl Fn(usize) -> bool,
    mut wait_late: impl FnMut(usize, &mut dyn FnMut() -> Look),
) {
    for at in 0..count {
        // A processor that expects the answer "yes" reads ahead by itself.
        if has_arrived(at) || spin_policy::holds_soon(threads, || has_arrived(at)) {
            continue;
        }
        let end = (at + AT_ONCE).min(count);
        wait_late(at, &mut || {
            // Backwards, so that the answer is the first one's; none of the loads depends on
            // another.
            let mut arrived = false;
            for other in (at..end).rev() {
                arrived = has_arrived(other);
            }
            arrived.into()
        });
    }
}

/// Waits for a member that is not done when the master is. Where that takes long, finds out why: a
/// member that waits for the master's own processor gets it, one that has lost its processor is
/// remembered ([`Stragglers`](crate::contention::Stragglers)).
pub(crate) fn wait_late(
    worker: &Worker,
    local: &Local,
    threads: u32,
    members: &[&'static Worker],
    look: &mut dyn FnMut() -> Look,
) {
    wait_late_at(worker.arrivals(), worker, local, threads, members, look);
}

/// As [`wait_late`]; calls `attend`, if there is one, before each look.
#[inline]
pub(crate) fn wait_late_attending(
    worker: &Worker,
    local: &Local,
    threads: u32,
    members: &[&'static Worker],
    look: &mut dyn FnMut() -> Look,
    attend: &Option<impl Fn()>,
) {
    match attend {
        None => wait_late(worker, local, threads, members, look),
        Some(attend) => wait_late(worker, local, threads, members, &mut || {
            attend();
            look()
        }),
    }
}

/// As [`wait_late`], for a member that wakes its master at `point`.
#[cold]
pub fn wait_late_at(
    point: &WaitPoint,
    worker: &Worker,
    local: &Local,
    threads: u32,
    members: &[&'static Worker],
    look: &mut dyn FnMut() -> Look,
) {
    let sizer = source();
    let mut watch = None;
    let look_around = || {
        if spin_policy::is_oversubscribed(threads) {
            // They take turns anyway.
            return SpinAdvice::Spin;
        }
        let here = current_cpu();
        let shares = worker.is_on(here);
        // Bound where the master happens to run now: one waits for the other's time slice. Deal
        // anew.
        if shares && let Some(managed) = source::managed() {
            managed.sit_down(local.waiter().sitter());
            return SpinAdvice::Spin;
        }
        if shares && let Some(granted) = sizer.processors() {
            binding::bind_to_grant(members.iter().map(|worker| worker.station()), &granted);
            return SpinAdvice::Spin;
        }
        watch = worker.tid().and_then(|tid| local.waiter().stragglers().watch(tid));
        let is_here = || {
            !worker.is_bound()
                && watch.as_ref().is_some_and(|watch| watch.processor() == Some(here))
        };
        if shares || is_here() { SpinAdvice::HandOver } else { SpinAdvice::Spin }
    };
    spin_policy::wait(point, local, threads, look_around, look);
    if watch.is_some_and(|watch| watch.was_lost()) {
        local.counters().lost_member();
        program().load().note();
        if source::sizes_by_mask() {
            local.waiter().stragglers().lost_one();
        }
    }
}

/// Wakes those of `members` that sleep, after their work was supplied. Cost when none does: a load
/// for each.
#[inline]
pub(crate) fn wake(members: &[&'static Worker]) {
    membarrier::light();
    if members.iter().any(|worker| worker.may_sleep()) {
        wake_sleepers(members);
    }
}

/// Without a manager each is placed on its way up; with one they are bound already.
#[cold]
fn wake_sleepers(members: &[&'static Worker]) {
    let mut sleepers = members.iter().filter(|worker| worker.may_sleep());
    // On the stack: a wake allocates nothing. A team of more goes in several trees.
    while let Some(first) = sleepers.next() {
        let mut row = [first.sleeper(); AT_ONE_WAKE];
        let mut count = 1;
        for (place, worker) in row[1..].iter_mut().zip(&mut sleepers) {
            *place = worker.sleeper();
            count += 1;
        }
        sleeper::wake(&row[..count], WAKE);
    }
}

/// What the waker of a worker does.
pub(crate) const WAKE: Preparation<Rare> =
    Preparation { before: before_wake, in_vain: Rare::displace };

fn before_wake(worker: &Rare) {
    local().counters().woke();
    worker.place();
}

/// Supplies `members` by their own lines: member 1 first. What is `recoverable` may be taken back.
///
/// # Safety
/// - The caller is the master of `members`, and joined their last work.
/// - `region.work` may be called with `region.data` on all of them at once, and does not unwind;
///   data and root live until [`gather_lines`] returned.
#[inline]
pub(crate) unsafe fn supply_lines(members: &[&'static Worker], region: &Region, recoverable: bool) {
    for (worker, id) in members.iter().zip(1..) {
        // SAFETY: - caller's contract.
        unsafe { worker.supply(region.descriptor(id), region.captures(), recoverable) };
    }
}

/// Waits for the arrivals of `members` in their own lines, and calls `attend` between its looks for
/// one that is late.
#[inline]
pub(crate) fn gather_lines(
    local: &Local,
    members: &[&'static Worker],
    threads: u32,
    attend: Option<impl Fn()>,
) {
    gather(
        members.len(),
        threads,
        |at| members[at].is_joined(),
        |at, look| {
            wait_late_attending(members[at], local, threads, members, look, &attend);
        },
    );
}

/// A whole region of `members` without the caller.
///
/// # Safety
/// - As [`supply_lines`].
pub(crate) unsafe fn run_on_lines(local: &Local, members: &[&'static Worker], region: &Region) {
    let guard = NoUnwinding::enter();
    // SAFETY: - caller's contract.
    unsafe { supply_lines(members, region, false) };
    wake(members);
    gather_lines(local, members, region.threads, None::<fn()>);
    guard.leave();
}
