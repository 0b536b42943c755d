//! What a runtime asks of the engine that belongs to no type of its own.

use crate::manager::source::{self, source};
use crate::program::config::Config;
use crate::program::program;
use crate::protocols::wait_point::{Look, WaitPoint};
use crate::regions::safe_point;
use crate::serve;
use crate::sizer::{Moment, TeamSizer};
use crate::teams::team::Team;
use crate::thread::{current, local};
use crate::waits::spin_policy::{self, Wait};
use platform::affinity::CpuSet;

/// Installs a source of team sizes in the place of the one that the engine would find. False when
/// one is in use already: call it before the first region.
#[must_use = "false: it was too late, and nothing was changed"]
pub fn set_team_sizer(sizer: Box<dyn TeamSizer>) -> bool {
    source::install(sizer, current::ask)
}

/// Names what sizes teams where no manager is found, in the place of mask and quota: `make` is
/// called at the program's first region, and again in each forked child. False when team sizes have
/// a source already, or another one was named: call it before the first region. Unlike the methods
/// of what [`set_team_sizer`] installs, these are called as they are, which costs a region some
/// nanoseconds less.
///
/// # Safety
/// - No method of what `make` makes forks a region, waits for one, or asks the engine for what its
///   sizer says, but for [`TeamSizer::between_regions`].
pub unsafe fn set_lone_sizer(
    make: impl Fn() -> Box<dyn TeamSizer> + Send + Sync + 'static,
) -> bool {
    // SAFETY: - caller's contract.
    unsafe { source::set_lone(Box::new(make)) }
}

/// What the engine's waiting threads have seen of other programs on their processors, since the
/// program began: how often a thread found that it had had no processor for half a millisecond or
/// longer (between two looks of a thread that spins; a late member that the kernel says was kept
/// waiting; a control group that was stopped). The rules are those by which the engine's threads
/// wait; a sizer that asks now and then has the same evidence. Cost: a load.
pub fn absences() -> u64 {
    program().load().notes()
}

/// Sets how the engine works; only before anything was used. False when it is too late.
#[must_use = "false: it was too late, and nothing was changed"]
pub fn configure(config: Config) -> bool {
    program().configure(config)
}

/// Processors of the mask that the program was started with, cgroup quota counted. Constant (D4).
pub fn processors() -> usize {
    program().processors()
}

/// The most threads that a team may have: 1024, or 8 for each processor if that is more; never
/// above 32767.
pub fn largest_team() -> usize {
    program().largest_team()
}

/// Processors that a region may use now. Follows the manager's grant, or mask and quota.
#[inline]
pub fn team_limit() -> usize {
    source().limit()
}

/// States that the program could use `wanted` processors, and returns how many threads a region of
/// the caller may have now (M1, M2). With several outermost masters, what it returns is taken from
/// the others until the caller's next region is joined (D6).
#[inline]
pub fn grant_for(wanted: usize) -> usize {
    local().grant(wanted)
}

/// Asks for all processors again that the program's masters want, where its idle workers took the
/// request down: for a runtime that knows of parallel work which the engine does not see, since it
/// runs in one thread for want of processors. Without a manager nothing happens. Cost: a load,
/// while nothing was taken down.
pub fn ask_again() {
    if let Some(managed) = source::managed_already() {
        managed.asks_again();
    }
}

/// Says which region the calling thread forks next, by a number that is the same whenever it forks
/// the same one (the address of its code): so the program's outer loop is found. To be called
/// before [`grant_for`]. Cost: a store.
#[inline]
pub fn identify_region(region: usize) {
    local().identify_region(region);
}

/// The workers that the calling thread has for its teams, and those that they have for theirs,
/// continue on new kernel threads: what the program keeps in thread-local storage there begins
/// anew. To be called outside regions; inside one it does nothing. Nor does it in the child of a
/// fork, and where the system refuses threads.
pub fn renew_threads() {
    let local = local();
    if local.is_outside_regions() {
        serve::renew_members(local);
    }
}

/// What the calling thread finds that may measure now: `None` inside a region, and on threads of
/// the engine. For measurements beside the engine's own calls of [`TeamSizer::between_regions`].
pub fn moment() -> Option<Moment> {
    let local = local();
    (local.is_outside_regions() && !local.asks()).then(|| local.moment())
}

/// Says that an iteration of the program's outer loop begins, for measurements of how much the
/// program gains from its processors ([`TeamSizer`]: those that a manager grants). The call is
/// optional: iterations are found in the sequence of regions, where that has a pattern. A program
/// that calls it does so once in each iteration, outside regions, on the thread that forks them.
/// Without a manager nothing happens. Cost: a few loads, and a clock reading while there is
/// something to measure.
///
/// ```
/// # unsafe fn nothing(_: *const (), _: nanothreads_engine::Member) {}
/// for step in 0..10 {
///     nanothreads_engine::iteration();
///     // SAFETY: - `nothing` takes no data, and does not unwind.
///     unsafe { nanothreads_engine::Team::reserve(2).run(nothing, std::ptr::null()) };
/// }
/// ```
pub fn iteration() {
    if let Some(managed) = source::managed()
        && local().is_outside_regions()
    {
        managed.iteration_begins();
    }
}

/// Changes whenever the processors that a manager granted may have changed; without one it is
/// always the same. Cost: two loads.
pub fn grant_epoch() -> u32 {
    source().epoch()
}

/// The processors that a manager granted, where it assigned some.
pub fn granted() -> Option<CpuSet> {
    source().processors()
}

/// True when a manager was found at the engine's first use.
pub fn is_managed() -> bool {
    source::is_managed()
}

/// A team of `size` threads with the caller as member 0: [`Team::reserve`].
#[inline]
pub fn reserve(size: usize) -> Team {
    Team::reserve(size)
}

/// Waits at `point` until `done` holds: spins as long as that can pay in the caller's situation,
/// then sleeps. `done` may do work.
pub fn wait(point: &WaitPoint, mut done: impl FnMut() -> bool) {
    wait_looking(point, || done().into());
}

/// Microseconds that the caller may spin now for another thread of its team, by the rules of all
/// waits: 0 in a team that is larger than its processors. For waits on words that are not ours to
/// wake, as locks in a program's memory.
pub fn spin_limit() -> u64 {
    let local = local();
    spin_policy::limit(local.waiter(), local.membership().threads, Wait::Inside)
}

/// To be called between two pieces of work that the calling thread does for a region (chunks of a
/// loop, tasks), where it holds nothing and no thread waits for just this one: it follows what a
/// manager granted meanwhile. Cost: four loads, and one that is thread-local; two loads without a
/// manager.
#[inline]
pub fn between_pieces() {
    safe_point::between_pieces();
}

/// True where [`between_pieces`] has something to look for: a manager was found. The same from the
/// program's first region on. Cost: two loads.
#[inline]
pub fn is_to_follow() -> bool {
    source::managed_already().is_some()
}

/// As [`wait`], for looks that may make progress.
pub fn wait_looking(point: &WaitPoint, look: impl FnMut() -> Look) {
    let local = local();
    spin_policy::wait(point, local, local.membership().threads, || {}, look);
}
