//! Work for one worker, offered by a thread that is not its master (F4).
//!
//! A worker that has nothing to do for its master looks into its open ring
//! ([`crate::protocols::open_ring`]), so an offer waits at most for the end of the region that the
//! worker is in. The offered work runs outside any region, and what it forks runs on this worker
//! alone: the worker may be reserved by any master next, so the work must not wait for the workers
//! of others.
//!
//! An offer is for what has to happen once *on each thread* of the engine, no matter which thread
//! of the program reserved it: settings and counters of a thread, its allocator's cache, its
//! scheduling class. [`on_each_worker`] does that.

use crate::process::Born;
use crate::process::panics::{FirstPanic, NoUnwinding};
use crate::thread::local;
use crate::waits::patience;
use crate::work::{Member, Offered, Work};
use crate::workers::pool::pool;
use crate::workers::worker::Worker;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// A worker that any thread may offer work to.
#[derive(Clone, Copy)]
pub struct WorkerHandle {
    worker: &'static Worker,
    /// A forked child has others.
    born: Born,
}

impl fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkerHandle").field(&self.number()).finish()
    }
}

/// Why a worker did not take an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// As many offers wait as may wait: try again when one of them is done
    /// ([`WorkerHandle::offer_soon`] does).
    Full,
    /// The process is a fork's child, and the worker stayed in the parent.
    Gone,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Full => "the worker has as many offers as may wait; join one of them first",
            Refusal::Gone => "the worker stayed in the parent process; ask for this process's own",
        })
    }
}

impl std::error::Error for Refusal {}

/// The workers that the process has now, whichever threads reserved them. Their number never falls.
pub fn workers() -> Vec<WorkerHandle> {
    pool().all().iter().map(|&worker| WorkerHandle { worker, born: Born::now() }).collect()
}

impl WorkerHandle {
    /// Its number, counted from 1 in the order of creation.
    pub fn number(&self) -> usize {
        self.worker.number()
    }

    /// Has `work` called once with `data` on this worker, when it has nothing to do for its master.
    /// Regions that `work` forks have one thread. Cost: one compare-and-swap and one line; a wake
    /// if it sleeps.
    ///
    /// # Errors
    /// See [`Refusal`].
    ///
    /// # Safety
    /// - `work` may be called with `data` on another thread, and does not unwind.
    /// - What `data` points to lives until the offer is done: it is dropped or joined, not
    ///   forgotten.
    pub unsafe fn offer(&self, work: Work, data: *const ()) -> Result<Offer, Refusal> {
        if self.born.is_parents() {
            return Err(Refusal::Gone);
        }
        let ticket = self.worker.offer(Offered { work, data }).ok_or(Refusal::Full)?;
        Ok(Offer { to: *self, ticket })
    }

    /// As [`Self::offer`], waiting while the ring is full.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    ///
    /// # Safety
    /// - As [`Self::offer`].
    pub unsafe fn offer_soon(&self, work: Work, data: *const ()) -> Result<Offer, Refusal> {
        let mut answer = Err(Refusal::Full);
        wait(self.worker, || {
            // SAFETY: - caller's contract.
            answer = unsafe { self.offer(work, data) };
            !matches!(answer, Err(Refusal::Full))
        });
        answer
    }
}

/// Waits until `done` holds, which the end of an offer to `worker` may bring about.
fn wait(worker: &Worker, mut done: impl FnMut() -> bool) {
    let local = local();
    patience::wait(worker.offers(), local, local.membership().crowd, || {}, || done().into());
}

/// An offer that was taken; dropping it waits until it is done.
#[derive(Debug)]
pub struct Offer {
    to: WorkerHandle,
    ticket: u64,
}

impl Offer {
    /// True when the work is done, and what it wrote is visible.
    pub fn is_done(&self) -> bool {
        self.to.worker.is_offer_done(self.ticket)
    }

    /// Waits until the work is done.
    pub fn join(self) {}
}

impl Drop for Offer {
    fn drop(&mut self) {
        if !self.to.born.is_parents() {
            // What was offered uses what its owner would drop while it unwinds.
            let guard = NoUnwinding::enter();
            wait(self.to.worker, || self.is_done());
            guard.leave();
        }
    }
}

/// Runs `visit` once on each worker of the process, whichever thread reserved it, with its number;
/// returns how many there were when all are done. Workers of other masters come to it after the
/// region that they are in.
///
/// For what belongs to a thread: counters, signal masks, scheduling class, allocator caches. The
/// calling thread is not a worker and is not visited. Regions that a visit forks have one thread.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// # unsafe fn nothing(_: *const (), _: nanothreads_engine::Member) {}
/// // The workers are created by the first region.
/// // SAFETY: - `nothing` takes no data, and does not unwind.
/// unsafe { nanothreads_engine::Team::reserve(2).run(nothing, std::ptr::null()) };
/// let visits = AtomicUsize::new(0);
/// let count = nanothreads_engine::on_each_worker(|_number| {
///     visits.fetch_add(1, Ordering::Relaxed);
/// });
/// assert_eq!(visits.into_inner(), count);
/// ```
///
/// # Panics
/// When called inside a region (its members would wait for each other), and with the payload of the
/// first visit that panics, after all are done.
pub fn on_each_worker<F: Fn(usize) + Sync>(visit: F) -> usize {
    assert!(
        local().is_outside_regions(),
        "on_each_worker inside a region: workers that wait for each other's region cannot be \
         visited; call it from a thread of the program, outside its regions"
    );
    let workers = workers();
    let panic = FirstPanic::default();
    let visits: Vec<Visit<'_, F>> = workers
        .iter()
        .map(|worker| Visit { visit: &visit, number: worker.number(), panic: &panic })
        .collect();
    let offers: Vec<Offer> = workers
        .iter()
        .zip(&visits)
        .map_while(|(worker, visit)| {
            // SAFETY: - `call::<F>` takes a `Visit<F>`, does not unwind, and `F: Sync`.
            //         - the visits outlive the offers, which are dropped, hence joined, below.
            unsafe { worker.offer_soon(call::<F>, ptr::from_ref(visit).cast()) }.ok()
        })
        .collect();
    let count = offers.len();
    drop(offers);
    panic.pass_on();
    count
}

struct Visit<'a, F> {
    visit: &'a F,
    number: usize,
    panic: &'a FirstPanic,
}

/// # Safety
/// - `data` points to a live `Visit<F>`.
unsafe fn call<F: Fn(usize) + Sync>(data: *const (), _: Member) {
    // SAFETY: - caller's contract.
    let visit = unsafe { &*data.cast::<Visit<'_, F>>() };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (visit.visit)(visit.number))) {
        visit.panic.keep(payload);
    }
}
