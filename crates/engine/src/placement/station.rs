//! The station of a worker: its kernel thread, the processors where that may run, and what it
//! follows there.
//!
//! What may put it where, when, and what that does to the others, is told in the head of
//! [`placement`](crate::placement).

use crate::placement::affinity_state::{AffinityHold, AffinityState};
use crate::placement::home::Home;
use crate::program::program;
use platform::affinity::{self, CpuId, CpuSet, Tid};
use platform::lock::Mutex;
use platform::mask::Mask;
use platform::pthread::Pthread;
use std::io;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// No processor.
const NOWHERE: u32 = u32::MAX;

/// Where a thread may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// On one processor.
    On(CpuId),
    /// Anywhere on these.
    Among(CpuSet),
    /// Wherever the program may run.
    Anywhere,
}

/// A kernel thread of a worker.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) thread: Pthread,
    /// How to wait for its end; a forked child's threads have none.
    pub(crate) end: Option<JoinHandle<()>>,
}

/// See the module head. Rarely written.
#[derive(Debug)]
pub(crate) struct Station {
    /// The kernel thread, set by its creator, and by itself when another one takes its place.
    /// Locked while it is used, so that it does not end meanwhile. A mere hint where it should run
    /// is dropped where the lock is taken ([`Station::hint`]): the holder may have no processor, or
    /// be what the caller, a handler of a signal, interrupted.
    thread: Mutex<Option<Kernel>>,
    /// The same as the kernel numbers it; 0 until it runs.
    tid: AtomicI32,
    /// The processor that it was bound to, or [`NOWHERE`].
    cpu: AtomicU32,
    affinity: AffinityState,
    /// Where it wakes: a [`Home`].
    home: AtomicUsize,
    /// The processor where it is to wake, or [`NOWHERE`].
    wake_cpu: AtomicU32,
    /// The processor where it was put last, or [`NOWHERE`].
    put_on: AtomicU32,
    /// The processor where it fell asleep.
    slept_on: AtomicU32,
    number: usize,
    /// Its seat under a manager ([`crate::manager`]).
    seat: AtomicUsize,
}

impl Station {
    /// That of worker `number`, which has no thread yet.
    pub(crate) fn new(number: usize) -> Self {
        Self {
            thread: Mutex::new(None),
            tid: AtomicI32::new(0),
            cpu: AtomicU32::new(NOWHERE),
            affinity: AffinityState::new(),
            home: AtomicUsize::new(Home::Of(number).to_word()),
            wake_cpu: AtomicU32::new(NOWHERE),
            put_on: AtomicU32::new(NOWHERE),
            slept_on: AtomicU32::new(NOWHERE),
            number,
            seat: AtomicUsize::new(number),
        }
    }

    /// `thread` was created; it begins on processor `home`.
    pub(crate) fn begin(&self, kernel: Kernel, home: Option<CpuId>) {
        // The new thread inherited its creator's mask, which may be that of a bound worker, and
        // would start on its creator's processor.
        match home {
            Some(cpu) => self.affinity.put_first(|| self.put(&kernel.thread, cpu)),
            None => self.affinity.free_first(|| free(&kernel.thread)),
        }
        *self.lock() = Some(kernel);
    }

    /// The thread that `start` makes is the worker's from now on; on the worker's own thread, whose
    /// end it returns. Meanwhile no thread binds either: the new one has the mask of the old one,
    /// and what binds the worker later finds the new one.
    ///
    /// # Errors
    /// Those of `start`: the worker stays where it is.
    pub(crate) fn succeed(
        &self,
        start: impl FnOnce() -> io::Result<Kernel>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        let mut own = self.lock();
        let old = own.replace(start()?);
        Ok(old.and_then(|old| old.end))
    }

    /// Its thread, which calls, ends, and no other one takes its place.
    pub(crate) fn lose_thread(&self) {
        // Dropped under the lock: no thread uses the handle meanwhile, nor afterwards.
        *self.lock() = None;
        // ORDERING: Release - as in `runs`.
        self.tid.store(0, Release);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Kernel>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `body` with the kernel thread, if it is there. Waits for other callers.
    fn with_thread(&self, body: impl FnOnce(&Pthread)) {
        if let Some(kernel) = &*self.lock() {
            body(&kernel.thread);
        }
    }

    /// The same for what may be left undone: where another caller has the lock, it is.
    fn hint(&self, body: impl FnOnce(&Pthread)) {
        let own = match self.thread.try_lock() {
            Ok(own) => own,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Some(kernel) = &*own {
            body(&kernel.thread);
        }
    }

    /// The calling thread is the worker, and runs.
    pub(crate) fn runs(&self) -> Tid {
        let tid = affinity::current_tid();
        // ORDERING: Release - pairs with `tid`: a change of its seat publishes it there, or finds
        // none and leaves that to it.
        self.tid.store(tid.0, Release);
        tid
    }

    /// The worker, which calls, falls asleep.
    pub(crate) fn note_sleep(&self) {
        // ORDERING: Relaxed - a hint for wakers.
        self.slept_on.store(affinity::current_cpu().0, Relaxed);
    }

    /// The worker may be woken now: on its home, unless it is bound.
    pub(crate) fn note_home(&self) {
        // ORDERING: Relaxed - written by the caller.
        let home = Home::from_word(self.home.load(Relaxed));
        let home = if self.affinity.is_bound() { None } else { home.processor() };
        // ORDERING: Relaxed - a waker of the worker learnt of it from the caller (V1).
        self.wake_cpu.store(home.map_or(NOWHERE, |cpu| cpu.0), Relaxed);
    }

    /// Puts the (sleeping) worker on its home until it runs: this kernel packs woken threads on the
    /// waker's processor for milliseconds (D2). A worker that fell asleep there wakes there as
    /// well, if no other thread runs there: no system call. A worker that the program bound itself
    /// is left alone.
    pub(crate) fn place(&self) {
        // ORDERING: Relaxed, both - see `note_home` and `note_sleep`; hints.
        let home = self.wake_cpu.load(Relaxed);
        if home == NOWHERE || self.slept_on.load(Relaxed) == home {
            return;
        }
        self.hint(|thread| {
            if self.affinity.is_put()
                || thread.affinity().is_ok_and(|mask| mask == *program().mask())
            {
                self.affinity.put(|| self.put(thread, CpuId(home)), || self.free_from(thread));
            }
        });
    }

    /// The worker was awake when it was woken on its home: it may have run before it was put there.
    /// Where another thread has its lock just now, the worker stays there until it waits again.
    pub(crate) fn displace(&self) {
        self.hint(|thread| self.affinity.take_back(|| self.free_from(thread)));
    }

    /// Puts the worker's thread on processor `cpu`, or lets it run anywhere where that went offline
    /// in the meantime.
    fn put(&self, thread: &Pthread, cpu: CpuId) {
        // ORDERING: Relaxed - ordered by the state's word.
        self.put_on.store(cpu.0, Relaxed);
        if thread.set_affinity(&CpuSet::single(cpu)).is_err() {
            free(thread);
        }
    }

    /// Frees the worker, unless the program has bound it meanwhile.
    fn free_from(&self, thread: &Pthread) {
        let is_there = |mask: CpuSet| mask.len() == 1 && mask.first() == self.put_on();
        if thread.affinity().is_ok_and(is_there) {
            free(thread);
        }
    }

    /// The same, by the worker's own thread, also in a handler of a signal.
    fn leave_home(&self) {
        if Mask::of(None).is_ok_and(|own| self.put_on().is_some_and(|cpu| own.is_only(cpu))) {
            let _ = affinity::set_affinity(None, program().mask());
        }
    }

    /// Where it was put last.
    fn put_on(&self) -> Option<CpuId> {
        // ORDERING: Relaxed - ordered by the state's word.
        let cpu = self.put_on.load(Relaxed);
        (cpu != NOWHERE).then_some(CpuId(cpu))
    }

    /// Binds it, to `cpu` alone if there is one.
    fn bind_to(&self, cpus: &CpuSet, cpu: Option<CpuId>) {
        self.with_thread(|thread| {
            // ORDERING: Relaxed - a hint.
            self.cpu.store(cpu.map_or(NOWHERE, |cpu| cpu.0), Relaxed);
            // A grant whose processor went offline is corrected by the manager's next grant.
            self.affinity.bind(|| _ = thread.set_affinity(cpus));
        });
    }

    fn free_bound(&self) {
        self.with_thread(|thread| {
            // ORDERING: Relaxed - a hint.
            self.cpu.store(NOWHERE, Relaxed);
            self.affinity.unbind(|| free(thread));
        });
    }
}

impl Station {
    /// Wakes on `home` from now on, unless it is bound. For its master.
    pub(crate) fn set_home(&self, home: Home) {
        // ORDERING: Relaxed - read by its master, when it wakes the worker.
        self.home.store(home.to_word(), Relaxed);
    }

    /// Where it wakes, unless it is bound.
    pub(crate) fn home(&self) -> Home {
        // ORDERING: Relaxed - a hint for others than its master, which wrote it.
        Home::from_word(self.home.load(Relaxed))
    }

    /// As [`Station::set_home`], and goes there now if it is awake: it would stay where it is as
    /// long as its master finds it awake. Where the program bound it itself, it stays. Not where a
    /// manager deals the seats.
    pub(crate) fn move_to(&self, home: Home, is_awake: bool) {
        // ORDERING: Relaxed - as in `set_home`.
        let is_new = self.home.swap(home.to_word(), Relaxed) != home.to_word();
        if is_new
            && is_awake
            && !self.is_bound()
            && let Some(cpu) = home.processor()
        {
            self.hint(|thread| {
                if thread.affinity().is_ok_and(|mask| mask == *program().mask()) {
                    // Not held there.
                    self.affinity.pass_by(|| {
                        self.put(thread, cpu);
                        free(thread);
                    });
                }
            });
        }
    }

    /// The number under which the worker was created.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Leaves what put it somewhere, on the worker itself. Cost: one load of a line that is rarely
    /// written; two system calls where it was put.
    #[inline]
    pub(crate) fn settle(&self) {
        self.affinity.settle(|| self.leave_home());
    }

    /// No thread puts the worker, which calls, until the answer is dropped; nor is it where it was
    /// put. For handlers of signals, too.
    pub(crate) fn hold(&self) -> AffinityHold<'_> {
        self.affinity.hold(|| self.leave_home())
    }

    /// True when `own` may be what a child of the worker, which sleeps, was born with by `vfork`
    /// because the worker was put there.
    pub(crate) fn was_put_on(&self, own: &Mask) -> bool {
        self.affinity.was_put() && self.put_on().is_some_and(|cpu| own.is_only(cpu))
    }

    /// It may run within `bounds` from now on, by the program's own wish.
    pub(crate) fn bind(&self, bounds: Bounds) {
        match bounds {
            Bounds::On(cpu) => self.bind_to(&CpuSet::single(cpu), Some(cpu)),
            Bounds::Among(cpus) => {
                self.bind_to(&cpus, cpus.first().filter(|_| cpus.len() == 1));
            }
            Bounds::Anywhere => self.free_bound(),
        }
    }

    /// F1: it was put where the grant of `epoch` puts it.
    #[inline]
    pub(crate) fn follows(&self, epoch: u32) -> bool {
        self.affinity.follows(epoch)
    }

    /// F2 and F3: it goes where the grant of `epoch` puts it, as `bounds` reads. By itself, or by
    /// its master while it sleeps. Later, where its creator has not put it anywhere yet.
    pub(crate) fn follow(&self, epoch: u32, bounds: impl FnOnce() -> Bounds) {
        if self.can_be_bound() {
            self.affinity.follow(epoch, || self.bind(bounds()));
        }
    }

    /// G1 and G2 of the first helper in `epoch`, on whose processor it goes on; false for others.
    pub(crate) fn help_onto(&self, cpu: CpuId, epoch: u32) -> bool {
        self.affinity.help(epoch, || self.bind(Bounds::On(cpu)))
    }

    /// G1 and G2: another thread lets it run where the program may.
    pub(crate) fn release(&self) {
        self.affinity.put_elsewhere(|| self.bind(Bounds::Anywhere));
    }

    /// G1 and G2: it has another number for a manager, and goes there at its next look.
    pub(crate) fn take_seat(&self, seat: usize) {
        // ORDERING: Relaxed - changed by its master while it has no work.
        self.affinity.put_elsewhere(|| self.seat.store(seat, Relaxed));
    }

    /// G2: its thread has another mask than it was given.
    pub(crate) fn lose_place(&self) {
        self.affinity.put_elsewhere(|| {});
    }

    /// Its number for a manager.
    pub(crate) fn seat(&self) -> usize {
        // ORDERING: Relaxed - as in `take_seat`.
        self.seat.load(Relaxed)
    }

    /// False while its creator has not put it where it begins: then it cannot be bound yet.
    fn can_be_bound(&self) -> bool {
        match self.thread.try_lock() {
            Ok(own) => own.is_some(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().is_some(),
            // Another thread does something to it, or makes it known just now: to bind it waits for
            // that.
            Err(TryLockError::WouldBlock) => true,
        }
    }

    /// Its kernel thread, once that runs.
    pub(crate) fn tid(&self) -> Option<Tid> {
        // ORDERING: Acquire - pairs with the Release in `Station::runs`.
        let tid = self.tid.load(Acquire);
        (tid != 0).then_some(Tid(tid))
    }

    /// True when the worker has fixed processors.
    pub(crate) fn is_bound(&self) -> bool {
        self.affinity.is_bound()
    }

    /// The processor that the worker is bound to, if it is exactly one.
    pub(crate) fn cpu(&self) -> Option<CpuId> {
        // ORDERING: Relaxed - a hint.
        let cpu = self.cpu.load(Relaxed);
        (cpu != NOWHERE).then_some(CpuId(cpu))
    }

    /// True when the worker is bound to exactly `cpu`.
    pub(crate) fn is_on(&self, cpu: CpuId) -> bool {
        // ORDERING: Relaxed - a hint.
        self.cpu.load(Relaxed) == cpu.0
    }
}

/// Lets a worker's thread run anywhere in the program's mask. A refusal costs speed.
fn free(thread: &Pthread) {
    let _ = thread.set_affinity(program().mask());
}
