//! A virtual processor (VP): one kernel thread that runs what its master supplies.
//!
//! Created at first use, asleep when it has nothing to do, never destroyed by a change of team size. Its memory is
//! leaked on purpose: a master may look at it after the process began to exit.

use crate::engine_state::engine;
use crate::local::{self, Local, Membership, Root};
use crate::patience;
use crate::placement;
use crate::sleeper::Sleeper;
use crate::slot::{Slot, Supplied};
use crate::team::Work;
use crate::wait_point::{Look, WaitPoint};
use platform::affinity::{self, CpuId, CpuSet};
use platform::pthread::Pthread;
use platform::sync::CachePadded;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;

/// The work of one member of a region, as it stands in the supply line.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct WorkDescriptor {
    pub(crate) work: Work,
    pub(crate) data: *const (),
    pub(crate) root: *const Root,
    pub(crate) id: u32,
    pub(crate) size: u32,
    pub(crate) level: u32,
    /// Threads that run at the same time as this one for the same root: see [`Membership::crowd`].
    pub(crate) crowd: u32,
}

// SAFETY: - the pointers are handed through a slot to the thread that the fork runs on; `Team::run` keeps what they
//           point to alive until the join.
unsafe impl Send for WorkDescriptor {}

/// What stands in a slot before the first supply; never called.
///
/// # Safety
/// - None: it does nothing.
unsafe fn no_work(_: *const (), _: crate::team::Member) {}

const IDLE: WorkDescriptor = WorkDescriptor {
    work: no_work,
    data: std::ptr::null(),
    root: std::ptr::null(),
    id: 0,
    size: 1,
    level: 0,
    crowd: 1,
};

const _: () = assert!(size_of::<WorkDescriptor>() <= 40, "descriptor and both numbers must share one line");

/// Stack of a virtual processor unless the configuration says otherwise.
const STACK: usize = 8 << 20;

/// No processor.
const NOWHERE: u32 = u32::MAX;

/// See the module head.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Vp {
    /// Supply line; master and this VP.
    slot: Slot<WorkDescriptor>,
    /// Rarely written: whether it sleeps, and where it was put.
    bed: CachePadded<Sleeper<Rare>>,
}

#[derive(Debug)]
pub(crate) struct Rare {
    /// Where the master sleeps when this VP is late.
    join: WaitPoint,
    /// The kernel thread, set by its creator.
    thread: OnceLock<Pthread>,
    /// The processor that it was bound to, or [`NOWHERE`].
    cpu: AtomicU32,
    /// A manager's grant or the program's wish bound it: no soft placement.
    bound: AtomicBool,
    /// A master placed the VP softly: it frees itself when it runs.
    placed: AtomicBool,
    /// The processor where it is to wake, or [`NOWHERE`].
    home: AtomicU32,
    /// The processor where it fell asleep.
    slept_on: AtomicU32,
    number: usize,
}

impl Vp {
    /// Starts virtual processor `number` on processor `home`; `None` when the system refuses a thread.
    pub(crate) fn start(number: usize, stack: Option<usize>, home: Option<CpuId>) -> Option<&'static Vp> {
        let vp: &'static Vp = Box::leak(Box::new(Vp {
            slot: Slot::new(IDLE),
            bed: CachePadded::new(Sleeper::new(Rare {
                join: WaitPoint::new(),
                thread: OnceLock::new(),
                cpu: AtomicU32::new(NOWHERE),
                bound: AtomicBool::new(false),
                placed: AtomicBool::new(home.is_some()),
                home: AtomicU32::new(NOWHERE),
                slept_on: AtomicU32::new(NOWHERE),
                number,
            })),
        }));
        let started = thread::Builder::new()
            .name(format!("nanos-vp-{number}"))
            .stack_size(stack.unwrap_or(STACK))
            .spawn(move || vp.main());
        let Ok(handle) = started else {
            // SAFETY: - the thread that would have used it was not created: we are the only owner of the leak.
            drop(unsafe { Box::from_raw(std::ptr::from_ref(vp).cast_mut()) });
            return None;
        };
        // SAFETY: - `main` never returns.
        let thread = unsafe { Pthread::of(&handle) };
        // The new thread inherited the creator's mask, which may be that of a bound virtual processor, and would start
        // on the creator's processor. A refusal costs speed, not correctness.
        let _ = match home {
            Some(cpu) => thread.set_affinity(&CpuSet::single(cpu)),
            None => thread.set_affinity(engine().mask()),
        };
        vp.rare().thread.set(thread).expect("set once, by the creator");
        // Detached: the thread ends with the process.
        Some(vp)
    }

    /// The life of the virtual processor.
    fn main(&'static self) -> ! {
        engine().sizer().enlist(self.rare().number, affinity::current_tid());
        let local = local::adopt();
        let (mut last, mut crowd) = (0, 1);
        loop {
            let (number, descriptor) = self.next_work(local, last, crowd);
            last = number;
            crowd = descriptor.crowd;
            self.settle();
            let membership = Membership {
                id: descriptor.id,
                size: descriptor.size,
                level: descriptor.level,
                crowd: descriptor.crowd,
                root: descriptor.root,
            };
            local.run(membership, descriptor.work, descriptor.data);
            self.slot.finish(number);
            self.rare().join.notify_all();
        }
    }

    /// Waits for what comes behind descriptor `last`.
    fn next_work(&self, local: &Local, mut last: u64, crowd: u32) -> (u64, WorkDescriptor) {
        let mut found = None;
        let look = || {
            // SAFETY: - this thread is the slot's virtual processor and has finished `last`, or found it taken back.
            match unsafe { self.slot.poll(last) } {
                Supplied::Work(number, descriptor) => {
                    found = Some((number, descriptor));
                    Look::Ready
                }
                Supplied::TakenBack(number) => {
                    last = number;
                    Look::Pending
                }
                Supplied::Nothing => Look::Pending,
            }
        };
        let sleep = |look| {
            // ORDERING: Relaxed - a hint for wakers.
            self.rare().slept_on.store(affinity::current_cpu().0, Relaxed);
            self.bed.sleep_until(look, Rare::before_wake);
        };
        patience::wait_by(sleep, local, crowd, || engine().sizer().refresh(), look);
        found.expect("the wait ended because a descriptor was found")
    }

    /// Supplies the next work. The caller then fences once, and wakes the VP if it may sleep.
    ///
    /// # Safety
    /// - The caller is this VP's only master, and its last work is joined.
    /// - What the descriptor points to lives until the join.
    #[inline]
    pub(crate) unsafe fn supply(&self, descriptor: WorkDescriptor, recoverable: bool) {
        // SAFETY: - caller's contract.
        unsafe { self.slot.supply(descriptor, recoverable) };
    }

    /// Takes the last supplied work back, if the VP has not begun it: then the master has to run it.
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

    /// Where the VP sleeps, for a waker that also says where it should wake (D2): on its home, unless it is bound.
    pub(crate) fn bed(&'static self) -> &'static Sleeper<Rare> {
        let home = if self.is_bound() { None } else { placement::home(self.rare().number) };
        // ORDERING: Relaxed - whoever wakes the VP learnt of it from the caller (V1).
        self.rare().home.store(home.map_or(NOWHERE, |cpu| cpu.0), Relaxed);
        &self.bed
    }

    fn rare(&self) -> &Rare {
        &self.bed.who
    }

    /// Waits, as the master, until the last supplied work is finished.
    pub(crate) fn wait_joined(&self, local: &Local, crowd: u32, linger: impl FnMut()) {
        let look = || Look::from(self.is_joined());
        patience::wait(&self.rare().join, local, crowd, linger, look);
    }

    /// Ends a soft placement, on the VP itself. Cost: one load of a line that is rarely written.
    #[inline]
    fn settle(&self) {
        // ORDERING: Acquire - pairs with the Release in `place`.
        if self.rare().placed.load(Acquire) {
            // ORDERING: Relaxed - the master that sets it again does so after this region is joined.
            self.rare().placed.store(false, Relaxed);
            let _ = affinity::set_affinity(None, engine().mask());
        }
    }

    /// Binds the VP to `cpus`.
    pub(crate) fn bind(&self, cpus: &CpuSet) {
        let only = if cpus.len() == 1 { cpus.first() } else { None };
        self.restrict(cpus, only.map_or(NOWHERE, |cpu| cpu.0), true);
    }

    /// Lets the VP run anywhere in the program's mask again.
    pub(crate) fn unbind(&self) {
        self.restrict(engine().mask(), NOWHERE, false);
    }

    fn restrict(&self, cpus: &CpuSet, cpu: u32, bound: bool) {
        let Some(thread) = self.rare().thread.get() else { return };
        // ORDERING: Relaxed - read by this VP's master, which is the only one that binds it.
        self.rare().placed.store(false, Relaxed);
        self.rare().cpu.store(cpu, Relaxed);
        self.rare().bound.store(bound, Relaxed);
        // A grant whose processor went offline is corrected by the manager's next grant.
        let _ = thread.set_affinity(cpus);
    }

    /// True when the VP has fixed processors.
    pub(crate) fn is_bound(&self) -> bool {
        // ORDERING: Relaxed - a hint.
        self.rare().bound.load(Relaxed)
    }

    /// True when the VP is bound to exactly `cpu`.
    pub(crate) fn is_on(&self, cpu: CpuId) -> bool {
        // ORDERING: Relaxed - a hint.
        self.rare().cpu.load(Relaxed) == cpu.0
    }
}

impl Rare {
    /// What whoever wakes the VP does first.
    pub(crate) fn before_wake(&self) {
        local::local().counters().woke();
        self.place();
    }

    /// Puts the (sleeping) VP on its home until it runs: this kernel packs woken threads on the waker's processor for
    /// milliseconds (D2). One that fell asleep there wakes there as well, if nobody else runs there: no system call. A VP
    /// that the program bound itself is left alone.
    fn place(&self) {
        // ORDERING: Relaxed - see `bed` and `next_work`; hints.
        let home = self.home.load(Relaxed);
        let is_ours = self.placed.load(Relaxed);
        if home == NOWHERE || self.slept_on.load(Relaxed) == home {
            return;
        }
        let Some(thread) = self.thread.get() else { return };
        if is_ours || thread.affinity().is_ok_and(|mask| mask == *engine().mask()) {
            // ORDERING: Release - pairs with `settle`.
            self.placed.store(true, Release);
            // Placement is a hint: a processor that went offline in the meantime costs speed, not correctness.
            let _ = thread.set_affinity(&CpuSet::single(CpuId(home)));
        }
    }
}
