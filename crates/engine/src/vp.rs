//! A virtual processor (VP): one kernel thread that runs what its master supplies.
//!
//! Created at first use, asleep when it has nothing to do, never destroyed by a change of team
//! size. Its memory is leaked on purpose: a master may look at it after the process began to exit.

use crate::arrival::Arrival;
use crate::captures::Captures;
use crate::channel::{Attachment, TeamRing};
use crate::config::Waiting;
use crate::forked;
use crate::local::{self, Local};
use crate::membership::{Carrier, Membership};
use crate::open_ring::OpenRing;
use crate::panics::{FirstPanic, NoUnwinding, Payload};
use crate::patience::{self, Wait};
use crate::process;
use crate::program::program;
use crate::safe_point;
use crate::sleeper::{Preparation, Sleeper};
use crate::slot::Supplied;
use crate::source::{self, source};
use crate::wait_point::{Look, SHORT, WaitPoint};
use crate::work::{CARRIED, IDLE, Line, Offered, Region, Work, WorkDescriptor, no_work};
use platform::affinity::CpuId;
use platform::aside::Aside;
use platform::clock::Ticks;
use platform::membarrier;
use platform::pthread::Pthread;
use platform::sync::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::io;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};
use std::thread;

mod heir;
mod station;

use heir::Heir;
pub(crate) use heir::renew;
use station::{Kernel, Station};

/// Stack of a virtual processor unless the configuration says otherwise.
pub(crate) const STACK: usize = 8 << 20;

/// Room for a result on the arrival line: as much as on the supply line.
type Place = [u64; 6];

/// See the module head.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Vp {
    /// Supply line; master and this VP.
    slot: Line,
    /// Arrival line of works that were broadcast; written by this VP.
    arrival: Arrival<Place>,
    /// Where broadcasts come from; touched by this VP alone.
    attachment: CachePadded<UnsafeCell<Option<Attachment>>>,
    /// Supplied by anybody.
    open: OpenRing<Offered>,
    /// Rarely written: whether it sleeps, and where it was put.
    bed: CachePadded<Sleeper<Rare>>,
}

// SAFETY: - `attachment` is touched by the VP's own thread alone (`attachment()`); all else is
// `Sync` by itself.
unsafe impl Sync for Vp {}
// SAFETY: - as above: what the attachment refers to may be used and dropped by any thread.
unsafe impl Send for Vp {}

/// What a VP found to do.
enum Found {
    /// In the own line, under this number.
    Line(u64, WorkDescriptor),
    Broadcast(Region),
    Offer(Offered),
}

/// How far a VP has come in what it polls.
#[derive(Clone, Copy)]
struct Progress {
    /// Number of the last descriptor that was seen in the own line.
    line: u64,
    /// The next ticket of the open ring.
    ticket: u64,
    /// Crowd of the last region.
    crowd: u32,
}

#[derive(Debug)]
pub(crate) struct Rare {
    /// Where the master sleeps when this VP is late.
    join: WaitPoint,
    /// Where others sleep who offered work to this VP.
    offers: WaitPoint,
    /// The ring of `attachment`, to be compared. Writer: this VP.
    follows: AtomicPtr<TeamRing>,
    station: Station,
    /// The first panic that a part left here ([`Vp::keep_panic`]), and whether there is any.
    panic: FirstPanic,
    has_panicked: AtomicBool,
}

impl Vp {
    /// Starts virtual processor `number` on processor `home`.
    ///
    /// # Errors
    /// The system's, when it refuses a thread.
    pub(crate) fn start(
        number: usize,
        stack: usize,
        home: Option<CpuId>,
    ) -> io::Result<&'static Vp> {
        let vp: &'static Vp = Box::leak(Box::new(Vp {
            slot: Line::with_room(IDLE, Captures::NONE),
            arrival: Arrival::new(),
            attachment: CachePadded::new(UnsafeCell::new(None)),
            open: OpenRing::new(Offered { work: no_work, data: ptr::null() }),
            bed: CachePadded::new(Sleeper::new(Rare {
                join: WaitPoint::new(),
                offers: WaitPoint::new(),
                follows: AtomicPtr::new(ptr::null_mut()),
                station: Station::new(number),
                panic: FirstPanic::default(),
                has_panicked: AtomicBool::new(false),
            })),
        }));
        // It would inherit them.
        if let Some(local) = local::existing() {
            local.end_long_turns();
        }
        match vp.start_thread(stack, None) {
            Ok(kernel) => vp.station().begin(kernel, home),
            Err(error) => {
                // SAFETY: - the thread that would have used it was not created: we are the only
                // owner of the leak.
                drop(unsafe { Box::from_raw(std::ptr::from_ref(vp).cast_mut()) });
                return Err(error);
            }
        }
        // Nobody waits for its end but the thread that takes its place.
        Ok(vp)
    }

    /// What its thread is called.
    fn name(&self) -> String {
        format!("nanos-vp-{}", self.number())
    }

    /// Its kernel thread, with a stack of `stack` bytes.
    fn start_thread(&'static self, stack: usize, heir: Option<Heir>) -> io::Result<Kernel> {
        let _aside = Aside::begin();
        if process::is_child() {
            // In a child the standard library's threads may wait for ever: see there.
            let started = Pthread::start(stack, self, |vp| {
                platform::pthread::set_name(&vp.name());
                vp.main(None);
                unreachable!("a thread without an heir does not end")
            });
            return Ok(Kernel { thread: started?, end: None });
        }
        let started = thread::Builder::new()
            .name(self.name())
            .stack_size(stack)
            .spawn(move || self.main(heir));
        started.map(|handle| {
            // SAFETY: - `main` returns only when the station has another thread's handle
            //           (`Vp::hand_on`), and gives this one to whoever waits for its end.
            let thread = unsafe { Pthread::of(&handle) };
            Kernel { thread, end: Some(handle) }
        })
    }

    /// The life of the virtual processor.
    fn main(&'static self, heir: Option<Heir>) {
        // Its master waits for it.
        let guard = NoUnwinding::enter();
        let is_heir = heir.is_some();
        let (local, mut progress) = match heir {
            Some(heir) => heir.take_over(),
            None => (local::adopt(self), Progress { line: 0, ticket: 0, crowd: 1 }),
        };
        let tid = self.station().runs();
        local.runs_on(tid);
        source().enlist(self.seat(), tid);
        if is_heir {
            self.finish_offer(&mut progress);
        }
        loop {
            let found = self.next_work(local, &mut progress);
            self.settle();
            match found {
                Found::Line(number, descriptor) => {
                    progress.line = number;
                    progress.crowd = descriptor.crowd();
                    let carrier = Some(Carrier::Line(self));
                    run_part(
                        local,
                        descriptor.membership(carrier),
                        descriptor.work,
                        self.data_of(&descriptor),
                    );
                    // SAFETY: - polled above by this thread, the slot's virtual processor, and run.
                    unsafe { self.slot.finish(number) };
                    self.rare().join.notify_all();
                }
                Found::Broadcast(region) => {
                    progress.crowd = region.crowd;
                    self.run_broadcast(local, &region);
                    // SAFETY: - this thread is the line's virtual processor; it ran its part, and
                    // gathered its flock.
                    unsafe { self.arrival.arrive() };
                    self.rare().join.notify_all();
                }
                Found::Offer(offered) => {
                    run_part(local, Membership::OUTSIDE, offered.work, offered.data);
                    if local.is_to_be_renewed() && self.hand_on(local, &progress) {
                        guard.leave();
                        return;
                    }
                    self.finish_offer(&mut progress);
                }
            }
        }
    }

    /// The work that was offered is run.
    fn finish_offer(&self, progress: &mut Progress) {
        // SAFETY: - polled by this thread, the ring's virtual processor, or the one that it takes
        // the place of, and run.
        unsafe { self.open.finish(progress.ticket) };
        progress.ticket += 1;
        self.rare().offers.notify_all();
    }

    /// The data of the work that was polled: they stand in the line, or their address does.
    #[inline]
    fn data_of(&self, descriptor: &WorkDescriptor) -> *const () {
        let place = self.captures();
        if descriptor.crowd & CARRIED != 0 {
            return place;
        }
        // SAFETY: - the master put an address there, and nobody writes the line before this work is
        // finished.
        unsafe { *place.cast::<*const ()>() }
    }

    /// Where captures stand in the line.
    #[inline]
    pub(crate) fn captures(&self) -> *const () {
        // SAFETY: - nothing is read here; who reads is the master or this VP, while there is work.
        unsafe { self.slot.with_cargo(|cargo| cargo.cast()) }
    }

    /// Keeps the panic of a part that had no other place for it, until the master looks.
    #[cold]
    pub fn keep_panic(&self, payload: Payload) {
        self.rare().panic.keep(payload);
        // ORDERING: Relaxed - read behind the join of this part.
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
        // ORDERING: Relaxed - this VP has no work now.
        self.rare().has_panicked.store(false, Relaxed);
        self.rare().panic.take()
    }

    fn run_broadcast(&'static self, local: &Local, region: &Region) {
        let attachment = || {
            self.attachment().as_ref().expect("what was found was broadcast to somebody attached")
        };
        run_part(local, attachment().membership(region, self), region.work, region.data);
        attachment().gather_flock(local, region.size, region.crowd);
    }

    /// Waits for what comes next. While nothing is there, it only looks whether anything is: the
    /// less there is to do between the arrival of a line and the start of its work, the shorter the
    /// region.
    fn next_work(&self, local: &Local, progress: &mut Progress) -> Found {
        loop {
            if let Some(found) = self.look(progress) {
                return found;
            }
            safe_point::while_waiting(local);
            let (line, ticket) = (progress.line, progress.ticket);
            let mut broadcast = None;
            let look = || {
                if self.slot.has_news(line) || self.open.has_news(ticket) {
                    return Look::Ready;
                }
                broadcast = self.attachment().as_mut().and_then(Attachment::look);
                broadcast.is_some().into()
            };
            let lingers_since = Cell::new(None);
            let linger = || {
                source().refresh();
                lingers_since.set(Some(Ticks::now()));
            };
            // Who never spins has not been idle for long when it sleeps.
            let spins = program().config().waiting != Waiting::Passive;
            let sleep = |look| self.sleep(look, lingers_since.get().filter(|_| spins));
            patience::wait_by(sleep, local, (progress.crowd, Wait::Idle), linger, look);
            if let Some(region) = broadcast {
                return Found::Broadcast(region);
            }
        }
    }

    /// Sleeps until `look` says `Ready`. `lingers_since`: it spun for [`SHORT`] before that.
    fn sleep(&self, mut look: impl FnMut() -> Look, lingers_since: Option<Ticks>) {
        self.station().note_bed();
        let Some(managed) = source::managed() else {
            return self.bed.sleep_until(look, Rare::WAKE);
        };
        // Who spun has had nothing to do for so long already.
        let (since, before) = match lingers_since {
            Some(since) => (since, Ticks::about_us(SHORT)),
            None => (Ticks::now(), 0),
        };
        let mut is_told = false;
        let mut says_so_again = true;
        let alarm = Cell::new(None);
        let tell = || {
            let seen = look();
            if seen == Look::Pending && says_so_again {
                if !is_told {
                    is_told = true;
                    managed.falls_asleep(self);
                }
                alarm.set(managed.idles(self, before + since.elapsed_ticks()));
                says_so_again = alarm.get().is_some();
            }
            seen
        };
        self.bed.sleep_with_alarm(tell, || alarm.get(), Rare::WAKE);
        if is_told {
            managed.is_awake(self);
        }
    }

    /// One look at the own line, the team's ring and the open ring, in this order (F5). Cost when
    /// nothing is new: a load for each, of a line in the own cache.
    #[inline]
    fn look(&self, progress: &mut Progress) -> Option<Found> {
        // SAFETY: - this thread is the slot's virtual processor and has finished `line`, or found
        // it taken back.
        match unsafe { self.slot.poll(progress.line) } {
            Supplied::Work(number, descriptor) => return Some(Found::Line(number, descriptor)),
            Supplied::TakenBack(number) => progress.line = number,
            Supplied::Nothing => {}
        }
        if let Some(region) = self.attachment().as_mut().and_then(Attachment::look) {
            return Some(Found::Broadcast(region));
        }
        // SAFETY: - this thread is the ring's virtual processor and has finished the tickets
        // before.
        let offered = unsafe { self.open.poll(progress.ticket) }?;
        // What whoever offered it had seen supplied may have come since the looks above, and goes
        // first: the offer may last until that is done ([`crate::recall`], I2). It stays in its
        // ring until it is finished.
        if self.slot.has_news(progress.line) {
            return self.look(progress);
        }
        if let Some(region) = self.attachment().as_mut().and_then(Attachment::look) {
            return Some(Found::Broadcast(region));
        }
        Some(Found::Offer(offered))
    }

    /// Where broadcasts come from. Only on the VP's own thread.
    #[expect(clippy::mut_from_ref, reason = "thread-owned state; see the safety comment")]
    #[inline]
    fn attachment(&self) -> &mut Option<Attachment> {
        // SAFETY: - called by the VP's own thread alone: from its main loop, and from the work of
        //           an attach region (`follow`), which runs while the main loop holds no reference.
        unsafe { &mut *self.attachment.get() }
    }

    /// Takes broadcasts from another ring from now on. On the VP's own thread, as a region's work.
    pub(crate) fn follow(&self, attachment: Attachment) {
        // ORDERING: Relaxed - masters read it after the join of the attach region.
        self.rare().follows.store(attachment.ring().cast_mut(), Relaxed);
        *self.attachment() = Some(attachment);
    }

    /// True when the VP takes broadcasts from `ring`. For its master.
    pub(crate) fn follows(&self, ring: *const TeamRing) -> bool {
        // ORDERING: Relaxed - written in a region that this master, or one whose regions it joined,
        // has joined.
        ptr::eq(self.rare().follows.load(Relaxed), ring)
    }

    /// The arrival line of works that were broadcast.
    #[inline]
    pub(crate) fn arrival(&self) -> &Arrival<Place> {
        &self.arrival
    }

    /// Supplies the next work. The caller then fences once, and wakes the VP if it may sleep.
    ///
    /// # Safety
    /// - The caller is this VP's only master, and its last work is joined.
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

    /// Takes the last supplied work back, if the VP has not begun it: then the master has to run
    /// it.
    ///
    /// # Safety
    /// - The caller is this VP's only master, and supplied that work as recoverable.
    #[inline]
    pub(crate) unsafe fn take_back(&self) -> bool {
        // SAFETY: - caller's contract.
        unsafe { self.slot.take_back() }
    }

    /// True when the VP may sleep ([`Sleeper::may_sleep`]). For the master.
    #[inline]
    pub(crate) fn may_sleep(&self) -> bool {
        self.bed.may_sleep()
    }

    /// True when the last supplied work is finished or taken back. For the master.
    #[inline]
    pub(crate) fn is_joined(&self) -> bool {
        self.slot.is_joined()
    }

    /// Where the VP sleeps, for a waker that also says where it should wake (D2).
    pub(crate) fn bed(&'static self) -> &'static Sleeper<Rare> {
        self.station().note_home();
        &self.bed
    }

    fn station(&self) -> &Station {
        &self.rare().station
    }

    fn rare(&self) -> &Rare {
        &self.bed.who
    }

    /// Where the master sleeps when this VP is late.
    pub(crate) fn arrivals(&self) -> &WaitPoint {
        &self.rare().join
    }

    /// Offers work of somebody who is not this VP's master. Returns its ticket, or `None` when too
    /// much waits already. Wakes the VP if it sleeps, but does not place it: that is its master's.
    pub(crate) fn offer(&self, offered: Offered) -> Option<u64> {
        let ticket = self.open.offer(offered)?;
        membarrier::light();
        if self.bed.may_sleep() {
            self.bed.wake_if_asleep();
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
    /// - As [`Slot::put`].
    #[inline]
    pub(crate) unsafe fn put_on_line<V: Send>(&self, value: V) {
        // SAFETY: - caller's contract.
        unsafe { self.slot.put(value) };
    }

    /// Takes what `put_on_line` left.
    ///
    /// # Safety
    /// - As [`Slot::take`].
    #[inline]
    pub(crate) unsafe fn take_from_line<V: Send>(&self) -> V {
        // SAFETY: - caller's contract.
        unsafe { self.slot.take() }
    }
}

/// Runs `work` on a virtual processor. One that is none afterwards is the child of a fork that
/// `work` did.
#[inline]
fn run_part(local: &Local, membership: Membership, work: Work, data: *const ()) {
    local.run(membership, work, data);
    if local.vp().is_none() {
        forked::end_child_of_slave();
    }
}

/// What it is at; see [`report`](crate::report).
impl fmt::Display for Vp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.may_sleep() { "asleep" } else { "awake" };
        let [supplied, claimed, done] = self.slot.numbers();
        // ORDERING: Relaxed - compared by who reads the report.
        let ring = self.rare().follows.load(Relaxed);
        write!(
            f,
            "vp {}: {state}, line {supplied}/{claimed}/{done}, arrivals {}, ",
            self.number(),
            self.arrival.count()
        )?;
        write!(f, "follows {ring:p}, bound to {:?}", self.cpu())
    }
}

impl Rare {
    /// What whoever wakes the VP does.
    pub(crate) const WAKE: Preparation<Self> =
        Preparation { before: Self::before_wake, in_vain: Self::was_awake };

    fn before_wake(&self) {
        local::local().counters().woke();
        self.station.place();
    }

    fn was_awake(&self) {
        self.station.displace();
    }
}
