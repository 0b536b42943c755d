//! The station of a virtual processor: its kernel thread, the processors where that may run, and whom it follows there.
//!
//! Three can put it somewhere: the program's own wish or a manager's grant binds it ([`Vp::bind`], [`Vp::unbind`]), and who
//! wakes it puts it in its [`Berth`], until it runs ([`Station::place`], [`Vp::settle`]).

use super::Vp;
use crate::berth::{Berth, Held};
use crate::engine_state::engine;
use crate::following::{Following, Helped};
use crate::placement::Home;
use platform::affinity::{self, CpuId, CpuSet, Tid};
use platform::pthread::Pthread;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// No processor.
const NOWHERE: u32 = u32::MAX;

/// See the module head. Rarely written.
#[derive(Debug)]
pub(super) struct Station {
    /// The kernel thread, set by its creator.
    thread: OnceLock<Pthread>,
    /// The same as the kernel numbers it; 0 until it runs.
    tid: AtomicI32,
    /// The processor that it was bound to, or [`NOWHERE`].
    cpu: AtomicU32,
    berth: Berth,
    /// Where it wakes: a [`Home`].
    lodging: AtomicUsize,
    /// The processor where it is to wake, or [`NOWHERE`].
    home: AtomicU32,
    /// The processor where it fell asleep.
    slept_on: AtomicU32,
    number: usize,
    /// Its seat under a manager ([`crate::managed`]), and the grant that it follows.
    seat: AtomicUsize,
    following: Following,
    helped: Helped,
}

impl Station {
    /// That of virtual processor `number`, which has no thread yet.
    pub(super) fn new(number: usize) -> Self {
        Self {
            thread: OnceLock::new(),
            tid: AtomicI32::new(0),
            cpu: AtomicU32::new(NOWHERE),
            berth: Berth::new(),
            lodging: AtomicUsize::new(Home::Of(number).to_word()),
            home: AtomicU32::new(NOWHERE),
            slept_on: AtomicU32::new(NOWHERE),
            number,
            seat: AtomicUsize::new(number),
            following: Following::unknown(),
            helped: Helped::never(),
        }
    }

    /// `thread` was created; it begins on processor `home`.
    pub(super) fn begin(&self, thread: Pthread, home: Option<CpuId>) {
        // The new thread inherited the creator's mask, which may be that of a bound virtual processor, and would start
        // on the creator's processor.
        match home {
            Some(cpu) => self.berth.first(|| put(&thread, cpu), || free_from(&thread, cpu)),
            None => self.berth.first(|| free(&thread), || {}),
        }
        self.thread.set(thread).expect("set once, by the creator");
    }

    /// The calling thread is the VP, and runs.
    pub(super) fn runs(&self) -> Tid {
        let tid = affinity::current_tid();
        // ORDERING: Release - pairs with `tid`: who changes its seat publishes it there, or finds none and leaves that to it.
        self.tid.store(tid.0, Release);
        tid
    }

    /// The VP, which calls, falls asleep.
    pub(super) fn note_bed(&self) {
        // ORDERING: Relaxed - a hint for wakers.
        self.slept_on.store(affinity::current_cpu().0, Relaxed);
    }

    /// The VP may be woken now: on its home, unless it is bound.
    pub(super) fn note_home(&self) {
        // ORDERING: Relaxed - written by the caller.
        let lodging = Home::from_word(self.lodging.load(Relaxed));
        let home = if self.berth.is_bound() { None } else { lodging.processor() };
        // ORDERING: Relaxed - whoever wakes the VP learnt of it from the caller (V1).
        self.home.store(home.map_or(NOWHERE, |cpu| cpu.0), Relaxed);
    }

    /// Puts the (sleeping) VP on its home until it runs: this kernel packs woken threads on the waker's processor for
    /// milliseconds (D2). One that fell asleep there wakes there as well, if nobody else runs there: no system call. A VP
    /// that the program bound itself is left alone.
    pub(super) fn place(&self) {
        // ORDERING: Relaxed, both - see `note_home` and `note_bed`; hints.
        let home = self.home.load(Relaxed);
        if home == NOWHERE || self.slept_on.load(Relaxed) == home {
            return;
        }
        let Some(thread) = self.thread.get() else { return };
        if self.berth.is_put() || thread.affinity().is_ok_and(|mask| mask == *engine().mask()) {
            self.berth.put(|| put(thread, CpuId(home)), || free_from(thread, CpuId(home)));
        }
    }

    fn restrict(&self, cpus: &CpuSet, cpu: u32, bound: bool) {
        let Some(thread) = self.thread.get() else { return };
        // ORDERING: Relaxed - a hint.
        self.cpu.store(cpu, Relaxed);
        self.berth.bind(bound, || {
            // A grant whose processor went offline is corrected by the manager's next grant.
            let _ = thread.set_affinity(cpus);
        });
    }
}

/// Puts a VP's thread on processor `cpu`. Placement is a hint: a processor that went offline in the meantime costs speed, not
/// correctness.
fn put(thread: &Pthread, cpu: CpuId) {
    let _ = thread.set_affinity(&CpuSet::single(cpu));
}

/// Lets a VP's thread run anywhere in the program's mask. A refusal costs speed as well.
fn free(thread: &Pthread) {
    let _ = thread.set_affinity(engine().mask());
}

/// The same for one that runs, unless the program has put it elsewhere meanwhile.
fn free_from(thread: &Pthread, cpu: CpuId) {
    if thread.affinity().is_ok_and(|mask| mask == CpuSet::single(cpu)) {
        free(thread);
    }
}

impl Vp {
    /// Wakes on `home` from now on, unless it is bound. For its master.
    pub(crate) fn lodge(&self, home: Home) {
        // ORDERING: Relaxed - read by its master, when it wakes the VP.
        self.station().lodging.store(home.to_word(), Relaxed);
    }

    /// As [`Vp::lodge`], and goes there now if it is awake: it would stay where it is as long as its master finds it awake. Where
    /// a manager says who sits where, and where the program bound it itself, it stays.
    pub(crate) fn move_to(&self, home: Home) {
        let station = self.station();
        // ORDERING: Relaxed - as in `lodge`.
        let is_new = station.lodging.swap(home.to_word(), Relaxed) != home.to_word();
        if is_new
            && !self.may_sleep()
            && !self.is_bound()
            && engine().managed_already().is_none()
            && let (Some(thread), Some(cpu)) = (station.thread.get(), home.processor())
            && thread.affinity().is_ok_and(|mask| mask == *engine().mask())
        {
            // Not held there.
            station.berth.put(
                || {
                    put(thread, cpu);
                    free(thread);
                },
                || {},
            );
        }
    }

    /// The number under which the VP was created.
    pub(crate) fn number(&self) -> usize {
        self.station().number
    }

    /// Leaves its berth, on the VP itself. Cost: one load of a line that is rarely written.
    #[inline]
    pub(super) fn settle(&self) {
        self.station().berth.settle(|| {
            let _ = affinity::set_affinity(None, engine().mask());
        });
    }

    /// Nobody puts the VP, which calls, until the answer is dropped.
    pub(crate) fn hold(&self) -> Held<'_> {
        self.station().berth.hold()
    }

    /// True when the VP may have been on its home only when it made a child by `vfork`, in which it sleeps.
    pub(crate) fn was_put(&self) -> bool {
        self.station().berth.was_put()
    }

    /// The processor where it wakes, or woke, if any is said.
    pub(crate) fn home(&self) -> Option<CpuId> {
        // ORDERING: Relaxed - written before the VP was put, and who sees that sees this.
        let home = self.station().home.load(Relaxed);
        (home != NOWHERE).then_some(CpuId(home))
    }

    /// Binds the VP to `cpus`.
    pub(crate) fn bind(&self, cpus: &CpuSet) {
        let only = if cpus.len() == 1 { cpus.first() } else { None };
        self.station().restrict(cpus, only.map_or(NOWHERE, |cpu| cpu.0), true);
    }

    /// Lets the VP run anywhere in the program's mask again.
    pub(crate) fn unbind(&self) {
        self.station().restrict(engine().mask(), NOWHERE, false);
    }

    /// Its number for a manager.
    pub(crate) fn seat(&self) -> usize {
        // ORDERING: Relaxed - changed by its master while it has no work.
        self.station().seat.load(Relaxed)
    }

    pub(crate) fn set_seat(&self, seat: usize) {
        // ORDERING: Relaxed - as above.
        self.station().seat.store(seat, Relaxed);
    }

    /// False while its creator has not put it where it begins: then it cannot be bound yet.
    pub(crate) fn can_be_bound(&self) -> bool {
        self.station().thread.get().is_some()
    }

    /// Its kernel thread, once that runs.
    pub(crate) fn tid(&self) -> Option<Tid> {
        // ORDERING: Acquire - pairs with the Release in `Station::runs`.
        let tid = self.station().tid.load(Acquire);
        (tid != 0).then_some(Tid(tid))
    }

    /// The grant by which the VP was put where it is.
    #[inline]
    pub(crate) fn following(&self) -> &Following {
        &self.station().following
    }

    /// True for the first who helps the VP in this epoch.
    pub(crate) fn take_help(&self, epoch: u32) -> bool {
        self.station().helped.take(epoch)
    }

    /// True when the VP has fixed processors.
    pub(crate) fn is_bound(&self) -> bool {
        self.station().berth.is_bound()
    }

    /// The processor that the VP is bound to, if it is exactly one.
    pub(crate) fn cpu(&self) -> Option<CpuId> {
        // ORDERING: Relaxed - a hint.
        let cpu = self.station().cpu.load(Relaxed);
        (cpu != NOWHERE).then_some(CpuId(cpu))
    }

    /// True when the VP is bound to exactly `cpu`.
    pub(crate) fn is_on(&self, cpu: CpuId) -> bool {
        // ORDERING: Relaxed - a hint.
        self.station().cpu.load(Relaxed) == cpu.0
    }
}
