//! A worker: one kernel thread that runs what its master supplies.
//!
//! Created at first use, asleep when it has nothing to do, never destroyed by a change of team
//! size. Its memory is leaked on purpose: a master may look at it after the process began to exit.

use crate::broadcast::channel::{Attachment, TeamRing};
use crate::placement::station::{Kernel, Station};
use crate::process;
use crate::process::panics::{FirstPanic, Payload};
use crate::program::program;
use crate::protocols::arrival::Arrival;
use crate::protocols::open_ring::OpenRing;
use crate::protocols::sleeper::Sleeper;
use crate::protocols::slot::Supplied;
use crate::protocols::wait_point::WaitPoint;
use crate::work::captures::Captures;
use crate::work::{CARRIED, IDLE, Offered, Region, SupplyLine, WorkDescriptor, no_work};
use platform::affinity::CpuId;
use platform::aside::Aside;
use platform::membarrier;
use platform::pthread::Pthread;
use platform::sync::CachePadded;
use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::thread;

/// Stack of a worker unless the configuration says otherwise.
pub(crate) const STACK: usize = 8 << 20;

/// Room for a result on the arrival line: as much as on the supply line.
type ResultWords = [u64; 6];

/// See the module head.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Worker {
    /// Supply line; master and this worker.
    slot: SupplyLine,
    /// Arrival line of works that were broadcast; written by this worker.
    arrival: Arrival<ResultWords>,
    /// Where broadcasts come from; touched by this worker alone.
    attachment: CachePadded<UnsafeCell<Option<Attachment>>>,
    /// Any thread supplies it.
    open: OpenRing<Offered>,
    /// Rarely written: whether it sleeps, and where it was put.
    sleeper: CachePadded<Sleeper<Rare>>,
}

// SAFETY: - `attachment` is touched by the worker's own thread alone; all else is `Sync` by itself.
unsafe impl Sync for Worker {}
// SAFETY: - as above: what the attachment refers to may be used and dropped by any thread.
unsafe impl Send for Worker {}

/// How far a worker has come in what it polls.
#[derive(Clone, Copy)]
pub(crate) struct WorkerProgress {
    /// Number of the last descriptor that was seen in the own line.
    pub(crate) line: u64,
    /// The next ticket of the open ring.
    ticket: u64,
    /// Threads that run at the same time as the last region's.
    pub(crate) threads: u32,
}

impl WorkerProgress {
    /// Of a worker that has seen nothing.
    pub(crate) const NONE: Self = Self { line: 0, ticket: 0, threads: 1 };
}

#[derive(Debug)]
pub(crate) struct Rare {
    /// Where the master sleeps when this worker is late.
    join: WaitPoint,
    /// Where others sleep that offered work to this worker.
    offers: WaitPoint,
    /// The ring of `attachment`, to be compared. Writer: this worker.
    follows: AtomicPtr<TeamRing>,
    station: Station,
    /// What its first thread does; given by the layer that serves, which is above this one.
    life: fn(&'static Worker),
    /// The first panic that a part left here ([`Worker::keep_panic`]), and whether there is any.
    panic: FirstPanic,
    has_panicked: AtomicBool,
}

impl Worker {
    /// Starts worker `number` on processor `home`; its thread lives `life`.
    ///
    /// # Errors
    /// The system's, when it refuses a thread.
    pub(crate) fn start(
        number: usize,
        stack: usize,
        home: Option<CpuId>,
        life: fn(&'static Worker),
    ) -> io::Result<&'static Worker> {
        let worker: &'static Worker = Box::leak(Box::new(Worker {
            slot: SupplyLine::with_room(IDLE, Captures::NONE),
            arrival: Arrival::new(),
            attachment: CachePadded::new(UnsafeCell::new(None)),
            open: OpenRing::new(Offered { work: no_work, data: ptr::null() }),
            sleeper: CachePadded::new(Sleeper::new(Rare {
                join: WaitPoint::new(),
                offers: WaitPoint::new(),
                follows: AtomicPtr::new(ptr::null_mut()),
                station: Station::new(number),
                life,
                panic: FirstPanic::default(),
                has_panicked: AtomicBool::new(false),
            })),
        }));
        match worker.start_first(stack) {
            Ok(kernel) => worker.station().begin(kernel, home),
            Err(error) => {
                // SAFETY: - the thread that would have used it was not created: we are the only
                // owner of the leak.
                drop(unsafe { Box::from_raw(std::ptr::from_ref(worker).cast_mut()) });
                return Err(error);
            }
        }
        // No thread waits for its end but the one that takes its place.
        Ok(worker)
    }

    /// What its thread is called.
    fn name(&self) -> String {
        program().config().threads.name_of(self.number())
    }

    /// Its first kernel thread, with a stack of `stack` bytes.
    fn start_first(&'static self, stack: usize) -> io::Result<Kernel> {
        if !process::is_child() {
            return self.start_thread(stack, move || (self.rare().life)(self));
        }
        let _aside = Aside::begin();
        // In a child the standard library's threads may wait for ever: see there.
        let started = Pthread::start(stack, self, |worker| {
            platform::pthread::set_name(&worker.name());
            (worker.rare().life)(worker);
            // It has no heir: it left for good, in a part of the program's. Its handle must not be
            // that of a thread that has ended.
            loop {
                thread::park();
            }
        });
        Ok(Kernel { thread: started?, end: None })
    }

    /// A kernel thread for it that does `body`. Not in a forked child.
    pub(crate) fn start_thread(
        &'static self,
        stack: usize,
        body: impl FnOnce() + Send + 'static,
    ) -> io::Result<Kernel> {
        let _aside = Aside::begin();
        let started = thread::Builder::new().name(self.name()).stack_size(stack).spawn(body);
        started.map(|handle| {
            // SAFETY: - `body` returns only when the station has another thread's handle
            //           (`Station::succeed`), and gives this one to what waits for its end.
            let thread = unsafe { Pthread::of(&handle) };
            Kernel { thread, end: Some(handle) }
        })
    }

    /// The work of the own line is done.
    ///
    /// # Safety
    /// - As [`Slot::finish`](crate::protocols::slot::Slot::finish).
    #[inline]
    pub(crate) unsafe fn finish(&self, number: u64) {
        // SAFETY: - caller's contract.
        unsafe { self.slot.finish(number) };
        self.rare().join.notify_all();
    }

    /// The part of the work that was broadcast is done, and all that arrive through this worker
    /// have.
    ///
    /// # Safety
    /// - As [`Arrival::arrive`].
    #[inline]
    pub(crate) unsafe fn arrive(&self) {
        // SAFETY: - caller's contract.
        unsafe { self.arrival.arrive() };
        self.rare().join.notify_all();
    }

    /// The work that was offered is run.
    ///
    /// # Safety
    /// - The caller is the worker's thread, or the one that takes its place; that work was the last
    ///   that [`Worker::look_at_offers`] found.
    pub(crate) unsafe fn finish_offer(&self, progress: &mut WorkerProgress) {
        // SAFETY: - caller's contract: polled, and run.
        unsafe { self.open.finish(progress.ticket) };
        progress.ticket += 1;
        self.rare().offers.notify_all();
    }

    /// The data of the work that was polled: they stand in the line, or their address does.
    #[inline]
    pub(crate) fn data_of(&self, descriptor: &WorkDescriptor) -> *const () {
        let place = self.captures();
        if descriptor.threads & CARRIED != 0 {
            return place;
        }
        // SAFETY: - the master put an address there, and no thread writes the line before this work
        // is finished.
        unsafe { *place.cast::<*const ()>() }
    }

    /// Where captures stand in the line.
    #[inline]
    pub(crate) fn captures(&self) -> *const () {
        // SAFETY: - nothing is read here; its reader is the master or this worker, while there is
        // work.
        unsafe { self.slot.with_cargo(|cargo| cargo.cast()) }
    }

    /// Keeps the panic of a part that had no other place for it, until the master looks.
    #[cold]
    pub fn keep_panic(&self, payload: Payload) {
        self.rare().panic.keep(payload);
        // ORDERING: Relaxed - read after the join of this part.
        self.rare().has_panicked.store(true, Relaxed);
    }

    /// What was kept since the last look. For the master, after a join.
    #[inline]
    pub(crate) fn take_panic(&self) -> Option<Payload> {
        // ORDERING: Relaxed - written before the arrival that the master has seen.
        if self.rare().has_panicked.load(Relaxed) { self.take_kept() } else { None }
    }

    #[cold]
    fn take_kept(&self) -> Option<Payload> {
        // ORDERING: Relaxed - this worker has no work now.
        self.rare().has_panicked.store(false, Relaxed);
        self.rare().panic.take()
    }

    /// One look at the own line: the number and descriptor of work that is new.
    ///
    /// # Safety
    /// - The caller is the worker's thread, is done with all that it found before, and holds
    ///   nothing that [`Worker::attached`] lent it.
    #[inline]
    pub(crate) unsafe fn look_at_line(
        &self,
        progress: &mut WorkerProgress,
    ) -> Option<(u64, WorkDescriptor)> {
        // SAFETY: - caller's contract: it has finished `line`, or found it taken back.
        match unsafe { self.slot.poll(progress.line) } {
            Supplied::Work(number, descriptor) => {
                (progress.line, progress.threads) = (number, descriptor.threads());
                Some((number, descriptor))
            }
            Supplied::TakenBack(number) => {
                progress.line = number;
                None
            }
            Supplied::Nothing => None,
        }
    }

    /// One look at the open ring. What is found stays there until [`Worker::finish_offer`].
    ///
    /// # Safety
    /// - As [`Worker::look_at_line`].
    #[inline]
    pub(crate) unsafe fn look_at_offers(&self, progress: &WorkerProgress) -> Option<Offered> {
        // SAFETY: - caller's contract: it has finished the tickets before.
        unsafe { self.open.poll(progress.ticket) }
    }

    /// True when there is something in the own line.
    #[inline]
    pub(crate) fn has_line(&self, progress: &WorkerProgress) -> bool {
        self.slot.has_news(progress.line)
    }

    /// True when there is something in the own line or the open ring: the looks at them without
    /// what it is.
    #[inline]
    pub(crate) fn has_news(&self, progress: &WorkerProgress) -> bool {
        self.slot.has_news(progress.line) || self.open.has_news(progress.ticket)
    }

    /// The next work that is broadcast.
    ///
    /// # Safety
    /// - As [`Worker::look_at_line`].
    #[inline]
    pub(crate) unsafe fn look_at_ring(&self) -> Option<Region> {
        // SAFETY: - caller's contract: the attachment is touched by the worker's own thread alone,
        // and no reference to it is held.
        unsafe { &mut *self.attachment.get() }.as_mut().and_then(Attachment::look)
    }

    /// Where the work that was found in the ring came from.
    ///
    /// # Safety
    /// - The caller is the worker's thread, which has found a work that was broadcast, and does
    ///   neither look nor run work while it holds this.
    pub(crate) unsafe fn attached(&self) -> &Attachment {
        // SAFETY: - caller's contract.
        let attachment = unsafe { &*self.attachment.get() };
        attachment.as_ref().expect("what was found was broadcast to an attached worker")
    }

    /// Takes broadcasts from another ring from now on.
    ///
    /// # Safety
    /// - On the worker's own thread, as a region's work.
    pub(crate) unsafe fn follow(&self, attachment: Attachment) {
        // ORDERING: Relaxed - masters read it after the join of the attach region.
        self.rare().follows.store(attachment.ring().cast_mut(), Relaxed);
        // SAFETY: - caller's contract: no reference to the attachment is held while work runs.
        unsafe { *self.attachment.get() = Some(attachment) };
    }

    /// True when the worker takes broadcasts from `ring`. For its master.
    pub(crate) fn follows(&self, ring: *const TeamRing) -> bool {
        // ORDERING: Relaxed - written in a region that this master, or one whose regions it joined,
        // has joined.
        ptr::eq(self.rare().follows.load(Relaxed), ring)
    }

    /// The arrival line of works that were broadcast.
    #[inline]
    pub(crate) fn arrival(&self) -> &Arrival<ResultWords> {
        &self.arrival
    }

    /// Supplies the next work. The caller then fences once, and wakes the worker if it may sleep.
    ///
    /// # Safety
    /// - The caller is this worker's only master, and its last work is joined.
    /// - The captures are the work's data if the descriptor says [`CARRIED`], else their address.
    /// - What they point to lives until the join.
    #[inline]
    pub(crate) unsafe fn supply(
        &self,
        descriptor: WorkDescriptor,
        captures: Captures,
        recoverable: bool,
    ) {
        // SAFETY: - caller's contract.
        unsafe { self.slot.supply_with(descriptor, captures, recoverable) };
    }

    /// Takes the last supplied work back, if the worker has not begun it: then the master has to
    /// run it.
    ///
    /// # Safety
    /// - The caller is this worker's only master, and supplied that work as recoverable.
    #[inline]
    pub(crate) unsafe fn take_back(&self) -> bool {
        // SAFETY: - caller's contract.
        unsafe { self.slot.take_back() }
    }

    /// True when the worker may sleep ([`Sleeper::may_sleep`]). For the master.
    #[inline]
    pub(crate) fn may_sleep(&self) -> bool {
        self.sleeper.may_sleep()
    }

    /// True when the last supplied work is finished or taken back. For the master.
    #[inline]
    pub(crate) fn is_joined(&self) -> bool {
        self.slot.is_joined()
    }

    /// Where the worker, which calls, sleeps.
    pub(crate) fn own_sleeper(&self) -> &Sleeper<Rare> {
        self.station().note_sleep();
        &self.sleeper
    }

    /// Where the worker sleeps, for a waker that also says where it should wake (D2).
    pub(crate) fn sleeper(&'static self) -> &'static Sleeper<Rare> {
        self.station().note_home();
        &self.sleeper
    }

    pub(crate) fn station(&self) -> &Station {
        &self.rare().station
    }

    fn rare(&self) -> &Rare {
        &self.sleeper.who
    }

    /// Where the master sleeps when this worker is late.
    pub(crate) fn arrivals(&self) -> &WaitPoint {
        &self.rare().join
    }

    /// Offers work of a thread that is not this worker's master. Returns its ticket, or `None` when
    /// too much waits already. Wakes the worker if it sleeps, but does not place it: that is its
    /// master's.
    pub(crate) fn offer(&self, offered: Offered) -> Option<u64> {
        let ticket = self.open.offer(offered)?;
        membarrier::light();
        if self.sleeper.may_sleep() {
            self.sleeper.wake_if_asleep();
        }
        Some(ticket)
    }

    /// True when the work of `ticket` is done.
    pub(crate) fn is_offer_done(&self, ticket: u64) -> bool {
        self.open.is_done(ticket)
    }

    /// Where to wait for the ends of offered works.
    pub(crate) fn offers(&self) -> &WaitPoint {
        &self.rare().offers
    }

    /// Leaves a member's result in the supply line.
    ///
    /// # Safety
    /// - As [`Slot::put`](crate::protocols::slot::Slot::put).
    #[inline]
    pub(crate) unsafe fn put_on_line<V: Send>(&self, value: V) {
        // SAFETY: - caller's contract.
        unsafe { self.slot.put(value) };
    }

    /// Takes what `put_on_line` left.
    ///
    /// # Safety
    /// - As [`Slot::take`](crate::protocols::slot::Slot::take).
    #[inline]
    pub(crate) unsafe fn take_from_line<V: Send>(&self) -> V {
        // SAFETY: - caller's contract.
        unsafe { self.slot.take() }
    }
}

/// What it is at; see [`report`](crate::report()).
impl fmt::Display for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.may_sleep() { "asleep" } else { "awake" };
        let [supplied, claimed, done] = self.slot.numbers();
        // ORDERING: Relaxed - compared by the reader of the report.
        let ring = self.rare().follows.load(Relaxed);
        write!(
            f,
            "worker {}: {state}, line {supplied}/{claimed}/{done}, arrivals {}, ",
            self.number(),
            self.arrival.count()
        )?;
        write!(f, "follows {ring:p}, bound to {:?}", self.cpu())
    }
}

impl Rare {
    /// The worker, which sleeps, is about to be woken.
    pub(crate) fn place(&self) {
        self.station.place();
    }

    /// It was awake.
    pub(crate) fn displace(&self) {
        self.station.displace();
    }
}
