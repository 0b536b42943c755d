//! Members of a region that are done with their part, and the master in its join, called back for
//! what others make late.
//!
//! Members leave a region by themselves; only the master waits for all. Where a member that is
//! still at work makes something that another one has to do (an OpenMP task that it then waits for
//! in its own code), no member would come. A runtime that lets members leave early runs its regions
//! with a `Recall` ([`Team::run_with_recall`](crate::Team::run_with_recall)), and calls them back
//! by it. A region in which no member calls pays four stores and two loads.
//!
//! # Protocol
//! The call itself is [`crate::protocols::summons`]'s, with its model. Here:
//!
//! 1. Before the work is supplied the master notes its workers (R1).
//! 2. The first member that calls offers the help to each worker. A worker takes the offer when its
//!    part is done, which comes first when it finds both ([`serve`](crate::serve)): it helps, and
//!    waits for more, until the region is over.
//! 3. The master, while it waits for a member that is late, looks whether a member called, and
//!    helps between its looks.
//! 4. When all have arrived it ends the call, and waits for the ends of the offers.
//!
//! # Invariants
//! - I1 A caller is in its part, or helps. So the master does not pass step 4 while a member calls,
//!   nor while one helps.
//! - I2 Of each member's number there is one thread at work: the worker takes an offer only when it
//!   has arrived.
//! - I3 Calls are kept until the `Recall` is dropped: threads that are not of the team may still
//!   look at the workers that they would wake. There are as many as regions in which a member
//!   called.
//!
//! # Limits
//! A worker whose open ring is full is not called. A member that gathers the arrivals of others
//! ([`crate::broadcast::channel`]) comes when those have arrived.

use crate::process::Born;
use crate::process::forked;
use crate::protocols::summons::Summons;
use crate::protocols::wait_point::WaitPoint;
use crate::thread::membership::Membership;
use crate::thread::{Local, local};
use crate::waits::spin_policy;
use crate::work::{Member, Offered, Region, Work};
use crate::workers::worker::Worker;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module head. Belongs to the master that runs regions with it.
#[derive(Debug)]
pub struct Recall {
    /// The workers of the current region. Writer: the master, before it supplies the work (R1).
    workers: Cell<*const [&'static Worker]>,
    /// The call of the current region.
    summons: Summons<Called>,
    /// Where the called workers wait.
    point: WaitPoint,
    /// Those of earlier regions (I3). For the master.
    earlier: Cell<*mut Called>,
}

// SAFETY: - `workers` is written between regions and read inside them: fork and join order the two.
//         - `earlier` is the master's alone.
unsafe impl Sync for Recall {}

/// The call of a region: one offer for each worker.
#[derive(Debug)]
struct Called {
    help: Work,
    data: *const (),
    workers: Box<[Call]>,
    /// For the master.
    earlier: Cell<*mut Called>,
}

/// One worker's call.
#[derive(Debug)]
struct Call {
    recall: *const Recall,
    worker: &'static Worker,
    membership: Membership,
    help: Work,
    data: *const (),
    /// The offer's ticket and 1; 0: it was not taken. Writer: the caller, in its part.
    ticket: AtomicU64,
}

impl Default for Recall {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Recall {
    fn drop(&mut self) {
        let mut earlier = self.earlier.get();
        while !earlier.is_null() {
            // SAFETY: - leaked by `call`, kept by `end`, and in this list once.
            earlier = unsafe { Box::from_raw(earlier) }.earlier.get();
        }
    }
}

impl Recall {
    /// One for the regions of one master.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Self {
            workers: Cell::new(&[]),
            summons: Summons::new(),
            point: WaitPoint::new(),
            earlier: Cell::new(ptr::null_mut()),
        }
    }

    /// One for the regions of one master.
    #[cfg(loom)]
    pub fn new() -> Self {
        Self {
            workers: Cell::new(&[]),
            summons: Summons::new(),
            point: WaitPoint::new(),
            earlier: Cell::new(ptr::null_mut()),
        }
    }

    /// Has `help` called with `data` and each member's place on all members that are done with
    /// their part, again and again until the region is over: it does what there is to do, and
    /// returns. Does nothing where a member has called in this region. What is made later is told
    /// by [`Recall::stir`].
    ///
    /// # Safety
    /// - The caller is in its part of a region that runs with this, or in `help`.
    /// - `help` may be called with `data` until the region is joined, on all members at once, and
    ///   does not unwind.
    pub unsafe fn call(&self, help: Work, data: *const ()) {
        if !self.summons.is_called() {
            // SAFETY: - caller's contract.
            unsafe { self.call_all(help, data) };
        }
    }

    /// # Safety
    /// - As for [`Recall::call`].
    #[cold]
    unsafe fn call_all(&self, help: Work, data: *const ()) {
        // SAFETY: - L2 of the master's state: the list stays as it is while the region is open, in
        // which the caller is (R1).
        let workers = unsafe { &*self.workers.get() };
        let own = local().membership();
        let call = |(worker, id): (&&'static Worker, u32)| {
            let membership = Membership { id, result_place: None, ..own };
            Call { recall: self, worker, membership, help, data, ticket: AtomicU64::new(0) }
        };
        let workers = workers.iter().zip(1..).map(call).collect();
        let called = Called { help, data, workers, earlier: Cell::new(ptr::null_mut()) };
        let Ok(called) = self.summons.make(Box::new(called)) else { return };
        // SAFETY: - I1, I3: it is kept.
        for call in &unsafe { called.as_ref() }.workers {
            let work = Offered { work: answer, data: ptr::from_ref(call).cast() };
            if let Some(ticket) = call.worker.offer(work) {
                // ORDERING: Relaxed - read by the master after the join.
                call.ticket.store(ticket + 1, Relaxed);
            }
        }
    }

    /// Wakes those that were called, and the master, after there is something new to do. Cost
    /// without a call: a load.
    #[inline]
    pub fn stir(&self) {
        if let Some(called) = self.summons.call() {
            // SAFETY: - I3.
            self.wake(unsafe { called.as_ref() });
        }
    }

    #[cold]
    fn wake(&self, called: &Called) {
        self.point.notify_all();
        // The master sleeps where one that is late will arrive.
        called.workers.iter().for_each(|call| call.worker.arrivals().notify_all());
    }

    /// The master's help while it waits for members of `region`.
    #[inline]
    fn attend(&self, local: &Local, region: &Region) {
        if let Some(called) = self.summons.call() {
            // SAFETY: - I3.
            Self::help_as_master(local, region, unsafe { called.as_ref() });
        }
    }

    #[cold]
    fn help_as_master(local: &Local, region: &Region, called: &Called) {
        // The region counts as open, so that what the help forks does not use the team at work.
        let born = Born::now();
        local.run(region.membership(0, None), called.help, called.data);
        if born.is_parents() {
            forked::end_child(
                "this process was forked in work that its master did while it waited for members \
                 of its region, and goes on after it, where they, threads of its parent, would be; \
                 a forked child must end, or exec, before that",
            );
        }
    }

    /// All members have arrived: ends the call.
    #[cold]
    fn end(&self, local: &Local, threads: u32) {
        self.summons.end();
        self.point.notify_all();
        let Some(called) = self.summons.call() else { return };
        // SAFETY: - I3.
        let Called { workers, earlier, .. } = unsafe { called.as_ref() };
        for call in workers {
            // ORDERING: Relaxed - the join came before.
            if let Some(ticket) = call.ticket.load(Relaxed).checked_sub(1) {
                let is_done = || call.worker.is_offer_done(ticket).into();
                spin_policy::wait(call.worker.offers(), local, threads, || {}, is_done);
            }
        }
        earlier.set(self.earlier.replace(called.as_ptr()));
        let _kept = self.summons.forget();
    }
}

/// What an offered worker does.
///
/// # Safety
/// - `data` points to a [`Call`] to this worker.
unsafe fn answer(data: *const (), _: Member) {
    // SAFETY: - caller's contract; I3.
    let call = unsafe { &*data.cast::<Call>() };
    // SAFETY: - the master waits for the end of this offer.
    let recall = unsafe { &*call.recall };
    let local = local();
    let look = || {
        local.run(call.membership, call.help, call.data);
        if local.worker().is_none() {
            forked::end_child_of_worker();
        }
        recall.summons.is_over().into()
    };
    spin_policy::wait(&recall.point, local, call.membership.threads, || {}, look);
}

/// What a region does about calls.
pub(crate) trait Calls {
    /// There may be any.
    const MAY_BE: bool;
    /// Its work is about to be supplied.
    fn begin(&self, workers: &[&'static Worker]);
    /// All members have their work.
    fn supplied(&self);
    /// The master waits.
    fn attend(&self, local: &Local, region: &Region);
    /// All members have arrived.
    fn end(&self, local: &Local, threads: u32);
    /// This is a child, which has none of the members.
    fn forget(&self);
}

/// No member calls.
pub(crate) struct NoCalls;

impl Calls for NoCalls {
    const MAY_BE: bool = false;
    #[inline]
    fn begin(&self, _: &[&'static Worker]) {}
    #[inline]
    fn supplied(&self) {}
    #[inline]
    fn attend(&self, _: &Local, _: &Region) {}
    #[inline]
    fn end(&self, _: &Local, _: u32) {}
    #[inline]
    fn forget(&self) {}
}

impl Calls for &Recall {
    const MAY_BE: bool = true;

    #[inline]
    fn begin(&self, workers: &[&'static Worker]) {
        // (R1) Only the lifetime is lost: `call_all` reads it while the region is open.
        self.workers.set(ptr::from_ref(workers));
        self.summons.begin();
    }

    #[inline]
    fn supplied(&self) {
        self.summons.supplied();
    }

    #[inline]
    fn attend(&self, local: &Local, region: &Region) {
        Recall::attend(self, local, region);
    }

    #[inline]
    fn end(&self, local: &Local, threads: u32) {
        if self.summons.is_called() {
            Recall::end(self, local, threads);
        }
    }

    fn forget(&self) {
        let _members_are_the_parents = self.summons.forget();
    }
}
