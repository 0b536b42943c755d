//! A visit of each worker, whichever thread reserved it: what has to happen once on each thread of
//! the engine, such as settings and counters of a thread, its allocator's cache, its scheduling
//! class.
//!
//! A visit is offered by the worker's open ring ([`crate::protocols::open_ring`]), into which the
//! worker looks when it has nothing to do for its master: it waits at most for the end of the
//! region that the worker is in. A visit runs outside any region, and what it forks runs on the
//! worker alone: the worker may be reserved by any master next, so a visit must not wait for the
//! workers of others.

use crate::process::Born;
use crate::process::panics::{FirstPanic, NoUnwinding};
use crate::thread::local;
use crate::waits::spin_policy;
use crate::work::{Member, Offered, Work};
use crate::workers::pool::pool;
use crate::workers::worker::Worker;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// How many workers the process has now, whichever threads reserved them. It never falls.
pub fn worker_count() -> usize {
    pool().all().len()
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
#[track_caller]
pub fn on_each_worker<F: Fn(usize) + Sync>(visit: F) -> usize {
    assert!(
        local().is_outside_regions(),
        "on_each_worker inside a region: workers that wait for each other's region cannot be \
         visited; call it from a thread of the program, outside its regions"
    );
    let workers = pool().all().clone();
    let panic = FirstPanic::default();
    let visits: Vec<VisitCall<'_, F>> = workers
        .iter()
        .map(|worker| VisitCall { visit: &visit, number: worker.number(), panic: &panic })
        .collect();
    let announced: Vec<Announced> = workers
        .iter()
        .zip(&visits)
        .map(|(worker, visit)| {
            // SAFETY: - `call::<F>` takes a `VisitCall<F>`, does not unwind, and `F: Sync`.
            //         - the visits outlive what is announced, which is dropped, hence done, below.
            unsafe { Announced::new(worker, call::<F>, ptr::from_ref(visit).cast()) }
        })
        .collect();
    let count = announced.len();
    drop(announced);
    panic.pass_on();
    count
}

/// A visit that a worker will have; dropping this waits until it is done.
struct Announced {
    worker: &'static Worker,
    ticket: u64,
    /// A forked child has other workers.
    born: Born,
}

impl Announced {
    /// Waits while the worker has as many offers as may wait.
    ///
    /// # Safety
    /// - `work` may be called with `data` on another thread, and does not unwind.
    /// - What `data` points to lives until this is dropped, and this is not forgotten.
    unsafe fn new(worker: &'static Worker, work: Work, data: *const ()) -> Self {
        let mut ticket = None;
        wait(worker, || {
            ticket = worker.offer(Offered { work, data });
            ticket.is_some()
        });
        let ticket = ticket.expect("waited until the worker took the offer");
        Self { worker, ticket, born: Born::now() }
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        if !self.born.is_parents() {
            // The visit uses what its owner would drop while it unwinds.
            let guard = NoUnwinding::enter();
            wait(self.worker, || self.worker.is_offer_done(self.ticket));
            guard.leave();
        }
    }
}

/// Waits until `done` holds, which the end of an offer to `worker` may bring about.
fn wait(worker: &Worker, mut done: impl FnMut() -> bool) {
    let local = local();
    spin_policy::wait(worker.offers(), local, local.membership().threads, || {}, || done().into());
}

struct VisitCall<'a, F> {
    visit: &'a F,
    number: usize,
    panic: &'a FirstPanic,
}

/// # Safety
/// - `data` points to a live `VisitCall<F>`.
unsafe fn call<F: Fn(usize) + Sync>(data: *const (), _: Member) {
    // SAFETY: - caller's contract.
    let visit = unsafe { &*data.cast::<VisitCall<'_, F>>() };
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| (visit.visit)(visit.number))) {
        visit.panic.keep(payload);
    }
}
