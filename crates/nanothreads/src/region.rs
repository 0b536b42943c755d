//! A region of the safe API: a closure that runs on each member, with panics carried to the caller.

use engine::captures::Captures;
use engine::local::local;
use engine::membership::ResultPlace;
use engine::panics::{FirstPanic, Payload};
use engine::team::{Carried, Concurrency, Team};
use engine::work::{Member, Work};
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// On lines of its own: the workers fetch as few as the captures fill, and none that the master
/// writes meanwhile.
#[repr(C, align(64))]
struct RegionBody<F> {
    body: F,
    /// The first panic of any member.
    panic: FirstPanic,
}

/// A team of at most `wanted` members, for [`run_team`]: its size is known before the region
/// begins. One less for a while after a member was seen to have no processor (`contention` of the
/// engine).
#[inline]
pub(crate) fn reserve(wanted: usize) -> Team {
    let local = local();
    Team::reserve_available(local.present(local.grant(wanted)))
}

/// Runs `body` for the members of `team` and returns when all are done. The caller is one of them,
/// and runs those that have not begun when it is done with its own part: bodies must not wait for
/// each other. A panic of any member reaches the caller after that.
pub(crate) fn run_team<F: Fn(Member) + Sync>(team: &Team, body: F) {
    run_team_in(Concurrency::Offered, team, body);
}

/// As [`run_team`], or with each body on its member's own thread, all at the same time.
#[inline]
pub(crate) fn run_team_in<F: Fn(Member) + Sync>(concurrency: Concurrency, team: &Team, body: F) {
    if Captures::hold::<F>() && team.has_one_line() {
        run_on_line(concurrency, team, body);
    } else {
        run_on_stack(concurrency, team, body);
    }
}

/// The master's view of a region whose closure stands in its worker's line.
struct MasterView<F> {
    /// Of an `F`.
    place: Cell<*const ()>,
    panic: FirstPanic,
    body: PhantomData<F>,
}

/// The region of a closure that fits into the line of the team's only worker.
fn run_on_line<F: Fn(Member) + Sync>(concurrency: Concurrency, team: &Team, body: F) {
    let home = MasterView::<F> {
        place: Cell::new(ptr::null()),
        panic: FirstPanic::default(),
        body: PhantomData,
    };
    // A panic before the closure is supplied (a kept team that cannot be had any more) leaks it.
    let carried =
        Carried { work: call_there::<F>, captures: Captures::of(body), place: &home.place };
    // SAFETY: - `call_there::<F>` gets the place of the closure, and `call_home::<F>` the master's
    //           view of it, which outlive the join: no other region supplies the worker before this
    //           function has returned; `F: Sync` may be called on many threads at once; neither
    //           unwinds.
    //         - the caller looked that there is one line.
    let joined = unsafe {
        team.run_with(concurrency, call_home::<F>, ptr::from_ref(&home).cast(), Some(carried))
    };
    // SAFETY: - the closure was moved there, and no thread calls it any more. In a child that it
    // forked this is the child's copy.
    let body = unsafe { home.place.get().cast::<F>().read() };
    // In a child that was forked inside, the other thread's panic is the parent's.
    let payload = match joined {
        Some(joined) => joined.take_panic(),
        None => local().take_panic(),
    };
    if let Some(payload) = payload {
        home.panic.keep(payload);
    }
    drop(body);
    home.panic.pass_on();
}

/// # Safety
/// - `data` points to an `F`, in the line of the worker that the member's result would
///   ride on.
unsafe fn call_there<F: Fn(Member) + Sync>(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    if let Some(payload) = call_body(unsafe { &*data.cast::<F>() }, member) {
        match local().membership().result_place {
            Some(ResultPlace::Line(worker)) => worker.keep_panic(payload),
            // A child that the body forked: a thread that runs what is carried in a line has that
            // line.
            _ => local().keep_panic(payload),
        }
    }
}

/// # Safety
/// - `data` points to a live `MasterView<F>`, whose place is that of an `F`.
unsafe fn call_home<F: Fn(Member) + Sync>(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let home = unsafe { &*data.cast::<MasterView<F>>() };
    // SAFETY: - caller's contract.
    if let Some(payload) = call_body(unsafe { &*home.place.get().cast::<F>() }, member) {
        home.panic.keep(payload);
    }
}

/// Calls `body`, and returns what it panics with. Compiled once for all ways to come here.
#[inline(never)]
fn call_body<F: Fn(Member)>(body: &F, member: Member) -> Option<Payload> {
    // The closure's captures are seen again only through the caller, which gets the panic.
    catch_unwind(AssertUnwindSafe(|| body(member))).err()
}

fn run_on_stack<F: Fn(Member) + Sync>(concurrency: Concurrency, team: &Team, body: F) {
    with_body(body, |work, data| {
        // SAFETY: - what is called does not unwind, and may be called on many threads at once.
        unsafe { team.run_in(concurrency, work, data) };
    });
}

/// Calls `run` with work that calls `body`: on any number of threads at once, until `run` returns;
/// it does not unwind. A panic of `body` reaches the caller after that.
pub(crate) fn with_body<F: Fn(Member) + Sync>(body: F, run: impl FnOnce(Work, *const ())) {
    let region = RegionBody { body, panic: FirstPanic::default() };
    run(call::<F>, ptr::from_ref(&region).cast());
    region.panic.pass_on();
}

/// # Safety
/// - `data` points to a live `RegionBody<F>`.
unsafe fn call<F: Fn(Member) + Sync>(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let region = unsafe { &*data.cast::<RegionBody<F>>() };
    if let Some(payload) = call_body(&region.body, member) {
        region.panic.keep(payload);
    }
}

/// Runs `body` once on each thread of a team of all processors that the program has now.
///
/// The team's size is what is granted at this moment: ask [`Member::size`], not the machine. Inside
/// a region it is what is reserved for inner regions, often one thread. Cost: between one
/// cache-line round trip (far processors) and two (near ones, where the instructions count).
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
