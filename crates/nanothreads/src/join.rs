//! Two closures at once: `join`, which recursive programs call at each level.
//!
//! # How
//! The outermost join of a thread forks a region. Member 0, the caller, runs the first half; the
//! second half stands in the descriptor of the region, for the member that comes first, or for
//! member 0 if no member has come when it gets there. Inside, a join pushes its second half to its
//! member's [`deque`], runs the first, and takes the second back, unless a thief stole it
//! (`join_team`). When as many halves of the member are open as thieves want, a join is two calls:
//! thieves take the oldest, which is the largest, and the next join of that member offers more
//! again. So the upper levels of a recursion are open to others at any time, and all levels below
//! cost three loads, a comparison and a branch ([`deque`] says how many are open).
//!
//! # Where a join is two calls
//! With one processor; in a region whose inner teams have one member; inside such a join.
//!
//! # Groups and installed teams
//! Inside a join, too, what runs in a group, a section or [`Team::install`](crate::Team::install)
//! has the threads of that group, section or team and no others (`outside`): its first join is an
//! outermost one. A loop or a team that a member of a join forks is no such limit: joins of its
//! caller are offered to the members of the join around it.
//!
//! # Scopes
//! The members of a scope are a join team as those of an outermost join are: joins inside its body
//! and its tasks are inside, and members that find no task steal halves (`join_team`).
//!
//! # Panics
//! A half is on its joiner's stack, so unwinding stops at each join until the half is taken back or
//! done.
//!
//! # fork()
//! In a child that was forked inside a join (D13) the halves that were not stolen are the child's,
//! and it runs them. What another thread had begun is the parent's: the child's join panics when it
//! gets there. A child of a thief has no joiner to go back to when its half is done: it is ended
//! with a report, like a child of any other worker.
//!
//! # Papers
//! Mohr, Kranz and Halstead, Lazy task creation, TPDS 1991: open the oldest, largest ones only;
//! there by a heartbeat or a thief's request in later systems, here by a bound on open ones, which
//! thefts raise and halves that come back lower.

pub(crate) mod deque;
pub(crate) mod half;
pub(crate) mod join_team;

use crate::region;
use deque::Deque;
use engine::local::local;
use engine::panics::{NoUnwinding, discard};
use engine::team::Concurrency;
use engine::work::Member;
use half::{Frame, Half};
use join_team::{Course, JoinSeat, JoinTeam};
use std::cell::{Cell, UnsafeCell};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::thread;

/// Runs `a` and `b`, at the same time when a processor is free, and returns both results. Made for
/// recursion: below the upper levels it costs two calls and about 1 ns.
///
/// ```
/// fn sum(numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1000 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = nanothreads::join(|| sum(left), || sum(right));
///     left + right
/// }
/// let numbers: Vec<u64> = (1..=100_000).collect();
/// assert_eq!(sum(&numbers), 5_000_050_000);
/// ```
/// A caller whose `b` runs elsewhere runs parts of `b` meanwhile, and nothing else.
///
/// # Panics
/// With the payload of `a` or, if only that one panics, of `b`. `b` has ended by then, or was not
/// started and is dropped.
#[inline]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    if here::is_closed() {
        let first = a();
        return (first, b());
    }
    join_open(a, b)
}

/// A join whose second half others may take. Out of line: recursion without it needs no stack for
/// it.
#[cold]
#[inline(never)]
fn join_open<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    match here::seat() {
        Some(seat) => join_inside(seat, a, b),
        None => join_outermost(a, b),
    }
}

fn join_inside<A, B, RA, RB>(seat: JoinSeat, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    // The deque is LIFO, and the frame is found by what runs on this thread.
    let _pin = local().pin();
    let second = Half::new(b, seat.index());
    // SAFETY: - the half is on this frame, which stays until it is taken back or done (below);
    // `join` found room.
    unsafe { seat.offer(second.frame()) };
    // The caller gets the panic before it sees what the closure captured.
    let first = catch_unwind(AssertUnwindSafe(a));
    // SAFETY: - joins inside `a` have asked for theirs; this one asks once.
    let second = if unsafe { seat.take_back() } {
        // SAFETY: - taken back.
        run_second(unsafe { second.take() }, &first)
    } else {
        wait_for(seat, &second)
    };
    both(first, second)
}

/// A second half that no other member began: runs it, or drops it when the first one panicked.
fn run_second<RA, RB>(
    b: impl FnOnce() -> RB,
    first: &thread::Result<RA>,
) -> Option<thread::Result<RB>> {
    let run = AssertUnwindSafe(|| if first.is_ok() { Some(b()) } else { None });
    match catch_unwind(run) {
        Ok(value) => value.map(Ok),
        Err(payload) => Some(Err(payload)),
    }
}

fn wait_for<B: FnOnce() -> RB, RB>(
    seat: JoinSeat,
    second: &Half<B, RB>,
) -> Option<thread::Result<RB>> {
    // SAFETY: - the half is live.
    let frame = unsafe { &*second.frame() };
    // A thief runs what is on this frame.
    let guard = NoUnwinding::enter();
    let is_done = seat.wait_for(frame);
    guard.leave();
    assert!(
        is_done,
        "join: the second half was running on another thread when this process was forked, and \
         exists in the parent only; let a forked child end, or exec, before it leaves the join \
         that it was forked in"
    );
    // SAFETY: - done.
    Some(unsafe { second.result() })
}

/// What a join returns, or the panic that goes on. `second` is `None` only when it was not started
/// because `first` panicked.
fn both<RA, RB>(first: thread::Result<RA>, second: Option<thread::Result<RB>>) -> (RA, RB) {
    match (first, second) {
        (Ok(first), Some(Ok(second))) => (first, second),
        (Err(payload), second) => {
            discard(second);
            resume_unwind(payload)
        }
        (Ok(first), Some(Err(payload))) => {
            discard(first);
            resume_unwind(payload)
        }
        (Ok(_), None) => unreachable!("a second half is dropped only after a panic"),
    }
}

/// What the members of an outermost join's region work on. What they read first stands in one line.
#[repr(C, align(128))]
struct Outermost<A, B, RA, RB> {
    course: Course,
    /// `None` for a team of one.
    join_team: Option<Box<JoinTeam>>,
    second: ManuallyDrop<Half<B, RB>>,
    /// Member 0's.
    first: UnsafeCell<Option<A>>,
    /// Member 0's.
    results: UnsafeCell<Option<Results<RA, RB>>>,
}

/// As [`both`] takes them.
type Results<RA, RB> = (thread::Result<RA>, Option<thread::Result<RB>>);

fn join_outermost<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let team = region::reserve(local().wish());
    let region = Outermost {
        course: Course::default(),
        join_team: (team.size() > 1).then(|| JoinTeam::take(local().members(team.size()))),
        second: Half::new(b, 0),
        first: UnsafeCell::new(Some(a)),
        results: UnsafeCell::new(None),
    };
    // SAFETY: - `call` gets the region, which outlives the join; of it members other than 0 touch
    //           the join team and the second half, which are `Sync`; it does not unwind.
    unsafe {
        team.run_in(Concurrency::Offered, call::<A, B, RA, RB>, ptr::from_ref(&region).cast())
    };
    if let Some(join_team) = region.join_team {
        join_team.give_back();
    }
    let (first, second) = region.results.into_inner().expect("member 0 leaves both results");
    both(first, second)
}

/// # Safety
/// - `data` points to a live `Outermost` of these types; member 0 is the thread that made it.
unsafe fn call<A, B, RA, RB>(data: *const (), member: Member)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let region = data.cast::<Outermost<A, B, RA, RB>>();
    // SAFETY: - caller's contract; shared by all members.
    let (course, join_team, second) =
        unsafe { (&(*region).course, &(*region).join_team, &(*region).second) };
    // SAFETY: - the calling thread is this member until the region ends.
    let seat = join_team.as_deref().map(|join_team| unsafe { join_team.seat(member.id) });
    let _here = here::enter(seat);
    if let Some(seat) = seat
        && member.id != 0
    {
        // SAFETY: - the frame of a live half.
        seat.work(unsafe { &*second.frame() }, course);
        return;
    }
    // SAFETY: - caller's contract: member 0's fields.
    let (first, results) = unsafe { (&mut *(*region).first.get(), &mut *(*region).results.get()) };
    let first = first.take().expect("a region runs once");
    // As in `join_inside`.
    let first = catch_unwind(AssertUnwindSafe(first));
    // The two panics of a forked child: of `a`, and of the wait for what the parent runs.
    let rest = catch_unwind(AssertUnwindSafe(|| match seat {
        Some(seat) => second_of_outermost(seat, second, course, &first),
        // SAFETY: - no other thread is there to take it.
        None => run_second(unsafe { second.take() }, &first),
    }));
    *results = Some((first, rest.unwrap_or_else(|payload| Some(Err(payload)))));
}

fn second_of_outermost<B: FnOnce() -> RB, RA, RB>(
    seat: JoinSeat,
    second: &Half<B, RB>,
    course: &Course,
    first: &thread::Result<RA>,
) -> Option<thread::Result<RB>> {
    // SAFETY: - the half is live.
    let result = if seat.claim_second(unsafe { &*second.frame() }, course) {
        // SAFETY: - claimed.
        run_second(unsafe { second.take() }, first)
    } else {
        wait_for(seat, second)
    };
    seat.end_region(course);
    result
}

/// The joins of the calling thread are outside of those around it until the guard is dropped: what
/// comes now has other threads than they have.
pub(crate) fn outside() -> here::ContextGuard {
    here::leave()
}

/// The calling thread is this member of a join team until the guard is dropped.
pub(crate) fn at(seat: JoinSeat) -> here::ContextGuard {
    here::enter(Some(seat))
}

/// The member of a join or scope that the calling thread is, if any.
pub(crate) fn around() -> Option<JoinSeat<'static>> {
    here::seat()
}

/// How many threads, the caller included, may take part in what it forks by joins now; 1 where
/// joins are two calls. Not counted are those that could take a task of the caller's instead.
pub(crate) fn room() -> usize {
    if here::is_closed() {
        return 1;
    }
    here::seat().map_or(1, |seat| seat.join_team().size().saturating_sub(seat.tasks()).max(1))
}

/// Where the calling thread stands among the members of a join.
mod here {
    use super::{Cell, Deque, Frame, JoinSeat, JoinTeam, ptr};
    use std::marker::PhantomData;

    /// The deque of a thread outside any join: empty, so that its next join goes the long way.
    #[cfg(not(loom))]
    static OUTSIDE: Deque<Frame> = Deque::new();
    /// The deque of a thread whose joins are two calls.
    #[cfg(not(loom))]
    static ALONE: Deque<Frame> = Deque::always_full();

    #[cfg(not(loom))]
    const OUTSIDE_CONTEXT: JoinContext =
        JoinContext { deque: &raw const OUTSIDE, join_team: ptr::null(), index: 0 };
    #[cfg(loom)]
    const OUTSIDE_CONTEXT: JoinContext =
        JoinContext { deque: ptr::null(), join_team: ptr::null(), index: 0 };

    #[derive(Clone, Copy)]
    struct JoinContext {
        deque: *const Deque<Frame>,
        /// Null outside, and alone.
        join_team: *const JoinTeam,
        index: u32,
    }

    thread_local! {
        /// Plain words, no destructor: the hot path is one load.
        static DEQUE: Cell<*const Deque<Frame>> = const { Cell::new(OUTSIDE_CONTEXT.deque) };
        static JOIN_TEAM: Cell<(*const JoinTeam, u32)> = const { Cell::new((ptr::null(), 0)) };
    }

    /// True when a join must be two calls: all that may be open is, or no thief could come.
    #[inline]
    pub(super) fn is_closed() -> bool {
        let deque = DEQUE.get();
        #[cfg(loom)]
        if deque.is_null() {
            return false;
        }
        // SAFETY: - a static, or that of the join team whose member the calling thread is: it is
        // live until `ContextGuard` is dropped.
        unsafe { &*deque }.is_full()
    }

    /// The member that the calling thread is; `None` outside.
    pub(super) fn seat() -> Option<JoinSeat<'static>> {
        let (join_team, index) = JOIN_TEAM.get();
        // SAFETY: - the join team is live until the region ends, and no seat is kept longer.
        let join_team = unsafe { join_team.as_ref() }?;
        // SAFETY: - set by the member's own thread (`enter`).
        Some(unsafe { join_team.seat(index) })
    }

    fn context() -> JoinContext {
        let (join_team, index) = JOIN_TEAM.get();
        JoinContext { deque: DEQUE.get(), join_team, index }
    }

    fn set(context: JoinContext) {
        DEQUE.set(context.deque);
        JOIN_TEAM.set((context.join_team, context.index));
    }

    /// The calling thread is this member, or alone, until the guard is dropped.
    pub(super) fn enter(seat: Option<JoinSeat>) -> ContextGuard {
        engine::forked::on_child(forget_after_fork);
        let outer = context();
        set(match seat {
            Some(seat) => JoinContext {
                deque: seat.deque(),
                join_team: seat.join_team(),
                index: seat.index(),
            },
            #[cfg(not(loom))]
            None => JoinContext { deque: &raw const ALONE, join_team: ptr::null(), index: 0 },
            #[cfg(loom)]
            None => OUTSIDE_CONTEXT,
        });
        ContextGuard { outer, here: PhantomData }
    }

    /// The calling thread is no member until the guard is dropped.
    pub(super) fn leave() -> ContextGuard {
        let outer = context();
        set(OUTSIDE_CONTEXT);
        ContextGuard { outer, here: PhantomData }
    }

    pub(crate) struct ContextGuard {
        outer: JoinContext,
        here: PhantomData<*const ()>,
    }

    impl Drop for ContextGuard {
        fn drop(&mut self) {
            set(self.outer);
        }
    }

    /// In a forked child: the thread is in no join of its own.
    /// Joins that are open are the parent's: their halves are found by the frames that offered
    /// them.
    fn forget_after_fork() {
        set(OUTSIDE_CONTEXT);
    }
}

#[cfg(all(test, loom))]
mod model;
