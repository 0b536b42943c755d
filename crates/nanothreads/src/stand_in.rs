//! When a master takes the part of a member that waits for the master's own processor.
//!
//! A team of exact size on fewer processors (D15) takes turns: who waits at the join for a member on the same processor yields to it,
//! and the member, when it is done, yields back. That is two changes of kernel threads a region, 2 to 5 us, however small the
//! parts. The master needs none of them where it runs the part itself, in the member's [`guise`](crate::guise): with its thread-locals,
//! on its stack, under its `pthread_self`. For the program that is the same thread (F2: an OpenMP thread's identity is its
//! thread-local storage); for the kernel it is another one.
//!
//! # Rules
//! - T1 The master waits, at the join or at a barrier of two, and runs the other one's part as far as it has come itself: to the
//!   same barrier, or the end. There the part is left amid ([`give_way`]), and the master goes on with its own. So a part waits for
//!   nothing that the master would do yet.
//!   A part that makes what a waiting master helps with (a task) goes on by its own thread ([`on_own_thread`]).
//! - T2 The member has not begun, and is ready to run: it has no work, and waits for its turn in a yield, or was woken for this
//!   region and has not run since, on the processor where the master is. While the master is amid its own part, the member begins
//!   by itself, or goes on by itself with what was left amid, as soon as the processor is its: by the end of a time slice, by a
//!   yield of the program's own or of ours, by any wait. So parts that wait for each other (in user code, for each other's
//!   critical sections) run on their own threads, both at the same time as far as there are processors, as ever.
//! - T3 The team promised threads (D15) and has no processor for each.
//! - T4 The region's body has run [`OFTEN`] times before, so: the program's threads do what they do once (bind themselves, name
//!   themselves, open counters of their own) by themselves.
//! - T5 The master has its turns by a usual policy. Programs in real time have mutexes with priority inheritance, which the kernel
//!   takes back only from the thread that it knows as their owner.
//! - T6 The program asked for it ([`Config::stand_in`](crate::config::Config::stand_in)), and such a thing is possible
//!   ([`platform::guise`]).
//!
//! # What a part can tell
//! What knows threads by `pthread_self`, thread-locals, addresses of the stack, or numbers of OpenMP sees no difference. What a part
//! asks the kernel of "the calling thread" (number, affinity, name, priority, time, mask of signals) it learns of the master, and what it
//! changes there stays with that. So who knows of such a call says so before ([`on_own_thread_for_good`]): the part goes on by its own
//! thread, and nobody stands in any more in this process. The drop-in OpenMP library stands in front of the C library's calls of that
//! kind. Signals that are sent to the thread wait until it has its guise back, and interrupt no call of the part.
//!
//! # Papers
//! P0, P1: work descriptors are run by whoever has a processor; F2's decision ties them to threads where programs see those. Here
//! both hold.

use crate::engine_state::engine;
use crate::local::Local;
use crate::patience;
use crate::team::Region;
use crate::vp::Vp;
use platform::mask::current_task;
use platform::scheduling::has_usual_turns;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Regions of a body before a member's part of it is taken: T4.
const OFTEN: u32 = 32;
/// Bodies that are remembered.
const BODIES: usize = 64;

/// Nobody stands in any more ([`end`]).
static IS_OVER: AtomicBool = AtomicBool::new(false);

/// How often a thread has forked which bodies, while it had not a processor for each member.
#[derive(Debug)]
pub(crate) struct Experience {
    /// What the next region runs, if somebody said so.
    next: Cell<usize>,
    bodies: [Cell<(usize, u32)>; BODIES],
    /// The innermost region that the thread has forked and not joined, if it is one of two, and parts of it may be taken.
    open: Cell<*const Open<'static>>,
}

/// A region that its master is amid.
#[derive(Debug)]
pub(crate) struct Open<'a> {
    pub(crate) members: &'a [&'static Vp],
    pub(crate) region: &'a Region,
}

impl Experience {
    pub(crate) const fn new() -> Self {
        Self { next: Cell::new(0), bodies: [const { Cell::new((0, 0)) }; BODIES], open: Cell::new(ptr::null()) }
    }

    /// The next region runs `body`.
    #[inline]
    pub(crate) fn expect(&self, body: usize) {
        self.next.set(body);
    }

    /// The body that was said to be next, or `work`.
    #[inline]
    pub(crate) fn begin(&self, work: usize) -> usize {
        match self.next.take() {
            0 => work,
            body => body,
        }
    }

    /// Counts a region of `body`; true when it has run often. `may_become` is asked once in [`OFTEN`] regions until it says so.
    #[inline]
    fn is_usual(&self, body: usize, may_become: impl FnOnce() -> bool) -> bool {
        // Functions begin at multiples of 16.
        let place = &self.bodies[(body >> 4) % BODIES];
        let (known, times) = place.get();
        let times = if known == body { times } else { 0 };
        if times < OFTEN {
            let is_next = times + 1 < OFTEN || may_become();
            place.set((body, if is_next { times + 1 } else { 0 }));
        }
        times >= OFTEN
    }
}

/// True when T3 to T6 hold for a region of `body`, as [`Experience::begin`] said, of a team of which so many threads run at the same
/// time. Counts it. Cost where there is a processor for each: a few loads.
#[inline]
pub(crate) fn is_due(local: &Local, crowd: u32, body: usize) -> bool {
    // ORDERING: Relaxed - a flag on its own.
    engine().config().stand_in
        && !IS_OVER.load(Relaxed)
        && patience::is_crowded(crowd)
        && local.experience().is_usual(body, has_usual_turns)
}

/// Runs `part`, the caller's own one of `open`, if that is due; there it waits at barriers ([`at_a_barrier`]).
#[inline]
pub(crate) fn with_open<R>(local: &Local, open: Option<&Open<'_>>, part: impl FnOnce() -> R) -> R {
    let place = &local.experience().open;
    let outer = place.replace(open.map_or(ptr::null(), |open| ptr::from_ref(open).cast()));
    let result = part();
    place.set(outer);
    result
}

/// The calling thread, member 0 of two, has arrived at a barrier of its region and is about to wait for the other one: runs the
/// other one's part up to there, if it may. Does nothing elsewhere.
#[inline]
pub(crate) fn at_a_barrier(local: &Local) {
    // SAFETY: - null, or what `with_open` of this thread set for as long as it runs the part that calls; its lifetimes end later.
    if let Some(open) = unsafe { local.experience().open.get().as_ref() }
        && open.region.level == local.membership().level
    {
        // SAFETY: - the master of these, which supplied the region and has not joined it.
        unsafe { run_parts(local, open) };
    }
}

/// Runs those parts of `open`, which is due, that T1 and T2 let the caller run: its master, which waits.
///
/// # Safety
/// - The caller is the members' master, supplied the region by their lines, not as recoverable, and has not joined it.
#[inline]
pub(crate) unsafe fn run_parts(local: &Local, open: &Open<'_>) {
    for (vp, id) in open.members.iter().zip(1..) {
        if !vp.is_joined() {
            // SAFETY: - caller's contract.
            unsafe { vp.stand_in(local, open.region, id) };
        }
    }
}

/// The calling thread, member 1 of two, has arrived at a barrier, which may be over: leaves its part amid where its master runs it,
/// which goes on; and else once where the barrier is not over, so that its master may go on with it. Where this returns, the
/// barrier is over, or the own thread runs, and may wait.
#[inline]
pub(crate) fn give_way(local: &Local, is_over: impl Fn() -> bool) {
    if !local.is_lent() {
        return;
    }
    let Some(vp) = local.vp() else { return };
    if local.has_stand_in() || !is_over() {
        vp.suspend();
    }
    while local.has_stand_in() && !is_over() {
        vp.suspend();
    }
}

/// The calling thread may wait from here on for what only others do that wait themselves: where its master runs its part in its
/// stead, the own thread goes on with it, to its end. Cost elsewhere: two loads, of which one is thread-local.
#[inline]
pub(crate) fn on_own_thread(local: &Local) {
    if local.has_stand_in()
        && let Some(vp) = local.vp()
    {
        vp.suspend_for_own();
    }
}

/// As [`on_own_thread`], and nobody stands in from now on: the program's parts ask the kernel of their threads.
pub(crate) fn on_own_thread_for_good(local: &Local) {
    // A child of `vfork` has memory and guise of who made it, and is another thread.
    if local.has_stand_in() && local.of_kernel_thread().tid() == current_task() {
        end();
        if let Some(vp) = local.vp()
            && vp.is_on_lent_stack()
        {
            vp.suspend_for_own();
        }
    }
}

/// Nobody stands in from now on.
pub(crate) fn end() {
    // ORDERING: Relaxed - a flag on its own.
    IS_OVER.store(true, Relaxed);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_usual_when_it_has_run_often_and_not_before() {
        let experience = Experience::new();
        let is_usual = |body| experience.is_usual(body, || true);
        for _ in 0..OFTEN {
            assert!(!is_usual(0x1000));
            assert!(!is_usual(0x1010));
        }
        assert!(is_usual(0x1000) && is_usual(0x1010));
        assert!(!is_usual(0x1000 + 16 * BODIES), "another one, in the same place");
        assert!(!is_usual(0x1000), "forgotten for that");
    }

    #[test]
    fn a_body_is_usual_only_where_it_may_become_so() {
        let experience = Experience::new();
        let asked = Cell::new(0);
        let refuse = || {
            asked.set(asked.get() + 1);
            false
        };
        for _ in 0..3 * OFTEN {
            assert!(!experience.is_usual(0x1000, refuse));
        }
        assert_eq!(asked.get(), 3);
    }

    #[test]
    fn a_region_is_what_was_said_or_its_work() {
        let experience = Experience::new();
        assert_eq!(experience.begin(7), 7);
        experience.expect(8);
        assert_eq!((experience.begin(7), experience.begin(7)), (8, 7));
    }
}
