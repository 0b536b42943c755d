//! Several regions of one master at once: it forks the next one before it has joined the last (F3,
//! F6).
//!
//! # Protocol
//! [`overlap`](crate::Team::overlap) forks one region, whose workers serve: they take *constructs*
//! from the master in the order in which it forks them, run their parts, and report each. The
//! constructs are supplied as any work is ([`constructs`]): to each worker's own ring of lines
//! (LWD), or to one ring for all (GWD).
//! 1. `fork` (master) supplies a construct and goes on. At most [`OPEN`] are open: it first
//!    completes the oldest otherwise.
//! 2. A worker runs constructs in their order, and sleeps while there is none.
//! 3. To *complete* the oldest construct the master runs its own part of it, then waits for the
//!    workers'. `join` completes all up to its own, the end of the overlap all that are left.
//! 4. The last construct tells the workers to leave, and their region is joined like any other.
//!
//! # Invariants
//! P1  Constructs are completed in their order: when a member of one waits for another member, the
//!     master is not stuck in a younger one.
//! P2  A construct's closure lives until the construct is completed: the overlap owns it, also when
//!     the handle is dropped or forgotten. What it borrows lives longer than the overlap, which
//!     completes all, also while it unwinds.
//! P3  A panic is the overlap's until its construct is joined: a handle that is dropped, or
//!     forgotten, loses none.
//!
//! # Papers
//! P1 sections 3.1.1 and 3.2: several parallel constructs may be open at once, on both structures;
//! DJS and PJV stand with the master. Deviation: no more than the rings have places.

pub(crate) mod constructs;

use constructs::{Constructs, Follower, Leader, OPEN, WorkWords};
use engine::Dispatch;
use engine::fork_join;
use engine::forked;
use engine::local::local;
use engine::panics::{FirstPanic, NoUnwinding, Payload};
use engine::process::Born;
use engine::spin_policy;
use engine::team::{Concurrency, Team};
use engine::wait_point::WaitPoint;
use engine::work::Member;
use engine::worker::Worker;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::rc::Rc;
use std::thread;

/// The handle of a [`Team::overlap`](crate::Team::overlap), with which its master forks.
///
/// It stays on its thread:
/// ```compile_fail,E0277
/// # let team = nanothreads::Team::available();
/// team.overlap(|o| {
///     o.fork(|_| { o.fork(|_| ()); }); // members are other threads
/// });
/// ```
/// and what is forked borrows only what outlives the overlap:
/// ```compile_fail,E0373
/// # let team = nanothreads::Team::available();
/// team.overlap(|o| {
///     let short = 1;
///     o.fork(|_| assert_eq!(short, 1));
/// });
/// ```
pub struct Overlap<'scope, 'env: 'scope> {
    host: *const OverlapHost,
    /// Its master's place in the region.
    member: Member,
    /// The other members of the region, which stay until its join (L2 of [`engine::local`]).
    workers: &'static [&'static Worker],
    leader: RefCell<Leader>,
    /// What is open, the oldest first. Of `'scope`, and gone before that ends (P2).
    open: RefCell<VecDeque<Rc<dyn Construct>>>,
    /// The master is at its own part of the oldest.
    is_inside: Cell<bool>,
    panics: Panics,
    /// As in [`std::thread::Scope`].
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

impl fmt::Debug for Overlap<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overlap")
            .field("size", &self.member.size)
            .field("open", &self.open.borrow().len())
            .finish()
    }
}

/// A construct that was forked and not joined. Dropped, it is joined by the end of the overlap.
#[must_use = "join it, or say with `drop` that the end of the overlap does"]
pub struct Pending<'scope> {
    /// `None`: joined.
    construct: Option<Rc<dyn Construct>>,
    overlap: *const (),
    /// `complete` of the overlap, without its other lifetime.
    complete: unsafe fn(*const (), u64),
    /// The overlap's.
    panics: &'scope Panics,
    number: u64,
}

impl fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What became of the completed constructs of one overlap.
#[derive(Default)]
struct Panics {
    /// The first panic of a construct that is not joined by itself.
    first: FirstPanic,
    /// Those of the constructs, by number, that had a handle when they were completed: whether it
    /// was forgotten shows when the overlap ends.
    unclaimed: RefCell<Vec<(u64, Payload)>>,
}

impl Panics {
    /// What `number` left, for its joiner.
    fn claim(&self, number: u64) -> Option<Payload> {
        let mut unclaimed = self.unclaimed.borrow_mut();
        let at = unclaimed.iter().position(|&(other, _)| other == number)?;
        Some(unclaimed.remove(at).1)
    }

    /// The panic of what was not joined: the overlap is over.
    fn take(&self) -> Option<Payload> {
        let unclaimed = self.unclaimed.take();
        unclaimed.into_iter().for_each(|(_, payload)| self.first.keep(payload));
        self.first.take()
    }
}

/// What master and workers share.
struct OverlapHost {
    constructs: Constructs,
    /// Where workers sleep.
    news: WaitPoint,
    /// Where the master sleeps.
    arrivals: WaitPoint,
    born: Born,
}

/// A closure with what became of it.
trait Construct {
    fn take_panic(&self) -> Option<Payload>;
    /// The master's own part. Does not unwind.
    fn run(&self, member: Member);
}

struct ConstructBody<F> {
    body: F,
    panic: FirstPanic,
}

impl<F: Fn(Member) + Sync> Construct for ConstructBody<F> {
    fn take_panic(&self) -> Option<Payload> {
        self.panic.take()
    }

    fn run(&self, member: Member) {
        // The joiner of the construct gets the panic before it sees what the closure captured.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (self.body)(member))) {
            self.panic.keep(payload);
        }
    }
}

/// A worker's part.
///
/// # Safety
/// - `data` points to a live `ConstructBody<F>`.
unsafe fn call<F: Fn(Member) + Sync>(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    unsafe { &*data.cast::<ConstructBody<F>>() }.run(member);
}

impl<'scope> Overlap<'scope, '_> {
    /// Members of each construct, the caller included.
    pub fn size(&self) -> usize {
        self.member.size as usize
    }

    /// Has `body` called once on each member of the team, and goes on: the workers begin at once,
    /// the caller runs its own part (member 0) when the construct is joined. Members run constructs
    /// in the order of the forks; those of one construct may wait for each other, and a construct
    /// must not wait for a younger one.
    ///
    /// When four are open, the oldest is completed first. Cost: an allocation, and the line or
    /// lines of a fork.
    ///
    /// # Panics
    /// In a forked child of the process that entered the overlap: the members that were to run
    /// `body` exist there only.
    #[track_caller]
    pub fn fork<F: Fn(Member) + Sync + 'scope>(&'scope self, body: F) -> Pending<'scope> {
        self.assert_own();
        while self.open.borrow().len() >= OPEN {
            self.complete_oldest();
        }
        let construct = Rc::new(ConstructBody { body, panic: FirstPanic::default() });
        let part = WorkWords::new(call::<F>, Rc::as_ptr(&construct).cast());
        let construct: Rc<dyn Construct + 'scope> = construct;
        // SAFETY: - only the lifetime changes: P2.
        let construct = unsafe {
            std::mem::transmute::<Rc<dyn Construct + 'scope>, Rc<dyn Construct>>(construct)
        };
        self.open.borrow_mut().push_back(Rc::clone(&construct));
        // SAFETY: - P2: the body lives until all members have reported; `F: Sync` may be called on
        //           many threads; `call` does not unwind. There is room.
        let number = unsafe { self.leader.borrow_mut().supply(&self.host().constructs, part) };
        self.host().news.notify_all();
        Pending {
            construct: Some(construct),
            overlap: ptr::from_ref(self).cast(),
            complete: |overlap, number| {
                // SAFETY: - called with this overlap, by `Pending`, which does not outlive
                //           `'scope`.
                unsafe { &*overlap.cast::<Overlap<'_, '_>>() }.complete(number)
            },
            panics: &self.panics,
            number,
        }
    }

    fn host(&self) -> &OverlapHost {
        // SAFETY: - `run`'s frame, which joins the overlap's region.
        unsafe { &*self.host }
    }

    /// Completes all constructs up to `number`.
    fn complete(&self, number: u64) {
        while self.leader.borrow().oldest() <= number && !self.open.borrow().is_empty() {
            self.complete_oldest();
        }
    }

    /// Step 3.
    fn complete_oldest(&self) {
        assert!(
            !self.is_inside.get(),
            "overlap: a construct is to be completed inside the master's own part of it; fork and \
             join outside"
        );
        self.assert_own();
        let Some(construct) = self.open.borrow().front().map(Rc::clone) else { return };
        self.is_inside.set(true);
        construct.run(self.member);
        self.is_inside.set(false);
        // Its part may have forked, and this be the child.
        self.assert_own();
        self.wait_for_workers();
        let number = self.leader.borrow().oldest();
        self.leader.borrow_mut().record_oldest();
        self.open.borrow_mut().pop_front();
        if let Some(payload) = construct.take_panic() {
            if Rc::strong_count(&construct) == 1 {
                // The handle was dropped.
                self.panics.first.keep(payload);
            } else {
                self.panics.unclaimed.borrow_mut().push((number, payload));
            }
        }
        // The program's: what the closure captured may panic as it is dropped.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(construct))) {
            self.panics.first.keep(payload);
        }
    }

    #[track_caller]
    fn assert_own(&self) {
        assert!(
            !self.is_parents(),
            "overlap: the members are threads of the process that forked this one, and exist there \
             only; let a forked child end, exec, or leave the overlap of its parent, before it \
             forks or joins in it"
        );
    }

    fn wait_for_workers(&self) {
        let (host, leader, local) = (self.host(), self.leader.borrow(), local());
        let threads = local.membership().threads;
        // They use what the caller would free.
        let guard = NoUnwinding::enter();
        fork_join::gather(
            leader.workers(),
            threads,
            |worker| leader.has_arrived(&host.constructs, worker),
            |worker, look| {
                fork_join::wait_late_at(
                    &host.arrivals,
                    self.workers[worker],
                    local,
                    threads,
                    self.workers,
                    look,
                )
            },
        );
        guard.leave();
    }

    fn is_parents(&self) -> bool {
        self.host().born.is_parents()
    }

    /// Completes what is open, and lets the workers go.
    fn end(&self) {
        if self.is_parents() {
            // Others of the parent use it, or did when this copy was made.
            std::mem::take(&mut *self.open.borrow_mut()).into_iter().for_each(std::mem::forget);
            return;
        }
        while !self.open.borrow().is_empty() {
            self.complete_oldest();
        }
        // SAFETY: - nothing is open: there is room.
        unsafe { self.leader.borrow_mut().supply(&self.host().constructs, WorkWords::END) };
        self.host().news.notify_all();
    }
}

impl Pending<'_> {
    /// Runs the caller's part, and returns when all members are done with theirs: what they wrote
    /// is visible. Completes all constructs that were forked before as well.
    ///
    /// # Panics
    /// With the payload of the construct's first member that panicked, when all are done.
    pub fn join(mut self) {
        // SAFETY: - the overlap lives as long as `'scope`.
        unsafe { (self.complete)(self.overlap, self.number) };
        let payload = self.panics.claim(self.number);
        // What the closure captured may panic as well.
        drop(self.construct.take());
        if let Some(payload) = payload {
            resume_unwind(payload);
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        // One that is open has left none yet.
        if let Some(payload) = self.panics.claim(self.number) {
            self.panics.first.keep(payload);
        }
    }
}

impl OverlapHost {
    /// The life of a worker.
    fn serve(&self, member: Member) {
        let local = local();
        let mut follower = Follower::new(member.id as usize - 1);
        loop {
            let mut found = None;
            let look = || {
                // SAFETY: - this is the worker, which has arrived from what it found before.
                found = unsafe { follower.look(&self.constructs) };
                found.is_some().into()
            };
            spin_policy::wait(&self.news, local, local.membership().threads, || {}, look);
            let Some((work, data)) = found.and_then(WorkWords::work) else { return };
            // SAFETY: - P2, and `fork` supplied a work that may be called with it on any member.
            unsafe { work(data, member) };
            if self.born.is_parents() {
                forked::end_child_of_worker();
            }
            // SAFETY: - this is the worker, which is done with what it found last.
            unsafe { follower.arrive(&self.constructs) };
            self.arrivals.notify_all();
        }
    }
}

/// The region of an overlap.
struct OverlapRegion<B, R> {
    host: OverlapHost,
    /// Member 0's.
    body: UnsafeCell<Option<B>>,
    /// Member 0's.
    result: UnsafeCell<Option<thread::Result<R>>>,
}

/// See [`Team::overlap`](crate::Team::overlap).
pub(crate) fn run<'env, B, R>(team: &Team, body: B) -> R
where
    B: for<'scope> FnOnce(&'scope Overlap<'scope, 'env>) -> R,
{
    let is_broadcast = team.dispatch() == Dispatch::Broadcast;
    let host = OverlapHost {
        constructs: Constructs::new(team.size() - 1, is_broadcast),
        news: WaitPoint::for_many(),
        arrivals: WaitPoint::new(),
        born: Born::now(),
    };
    let run =
        OverlapRegion { host, body: UnsafeCell::new(Some(body)), result: UnsafeCell::new(None) };
    // SAFETY: - `call_host` gets the run, which outlives the join; workers touch the host alone,
    //           which is `Sync`; it does not unwind.
    unsafe { team.run_in(Concurrency::Promised, call_host::<B, R>, ptr::from_ref(&run).cast()) };
    match run.result.into_inner().expect("member 0 left the result") {
        Ok(value) => value,
        Err(payload) => resume_unwind(payload),
    }
}

/// # Safety
/// - `data` points to a live `OverlapRegion<B, R>`; member 0 is the thread that made it.
unsafe fn call_host<'env, B, R>(data: *const (), member: Member)
where
    B: for<'scope> FnOnce(&'scope Overlap<'scope, 'env>) -> R,
{
    let run = data.cast::<OverlapRegion<B, R>>();
    // SAFETY: - caller's contract; this field is shared by all members.
    let host = unsafe { &(*run).host };
    if member.id != 0 {
        return host.serve(member);
    }
    // SAFETY: - caller's contract: member 0's field.
    let body = unsafe { &mut *(*run).body.get() }.take().expect("a region runs once");
    let workers = if member.size == 1 { &[] } else { local().outer_members(member.size as usize) };
    let overlap = Overlap {
        host,
        member,
        workers,
        leader: RefCell::new(Leader::new(&host.constructs)),
        open: RefCell::default(),
        is_inside: Cell::new(false),
        panics: Panics::default(),
        scope: PhantomData,
        env: PhantomData,
    };
    // The caller gets the panic before it sees what the closure captured.
    let result = catch_unwind(AssertUnwindSafe(|| body(&overlap)));
    // A child that is forked in the master's part of what is left is told so, by the one panic that
    // there is here.
    let told = catch_unwind(AssertUnwindSafe(|| overlap.end())).err();
    if told.is_some() {
        overlap.end();
    }
    let left = match (told, overlap.panics.take()) {
        (Some(payload), other) => {
            engine::panics::discard(other);
            Some(payload)
        }
        (None, other) => other,
    };
    let result = match (result, left) {
        (Ok(value), Some(payload)) => {
            engine::panics::discard(value);
            Err(payload)
        }
        (Err(payload), other) => {
            engine::panics::discard(other);
            Err(payload)
        }
        (result, None) => result,
    };
    // SAFETY: - caller's contract: member 0's field.
    unsafe { *(*run).result.get() = Some(result) };
}

#[cfg(all(test, loom))]
mod model;
