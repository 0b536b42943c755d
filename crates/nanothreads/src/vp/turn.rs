//! A virtual processor that takes turns with its master on one processor: it lends its guise while it waits, and the master runs its
//! parts in it, from one place where the master waits to the next ([`crate::stand_in`]).

use super::{Vp, run_part};
use crate::engine_state::engine;
use crate::local::{self, Local};
use crate::membership::{Carrier, Membership};
use crate::team::{Region, Work};
use platform::affinity::{CpuId, current_cpu};
use platform::guise::{Guise, Signals};
use platform::scheduling::yield_processor;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long a VP that sleeps lends its guise: longer than most pauses between two regions.
const LENDING: Duration = Duration::from_millis(20);

/// What a VP is while it waits for its turn. Goes with its guise.
#[derive(Debug)]
pub(super) struct Turn {
    registers: Guise,
    /// Where its own thread waits.
    cpu: CpuId,
    /// Its own thread's; null before it has waited.
    local: *const Local,
    part: Option<Part>,
    /// The part that is amid is left to the VP's own thread.
    is_for_own: bool,
}

// SAFETY: - the pointer is to what goes with the guise.
unsafe impl Send for Turn {}

/// A part that somebody runs in the guise.
#[derive(Clone, Copy, Debug)]
struct Part {
    membership: Membership,
    work: Work,
    data: *const (),
}

impl Turn {
    /// Of one that has not waited yet.
    pub(super) fn new() -> Self {
        Self { registers: Guise::default(), cpu: CpuId(u32::MAX), local: ptr::null(), part: None, is_for_own: false }
    }
}

impl Vp {
    /// Its master may run parts of it from now on, while it waits for its turn.
    #[inline]
    pub(crate) fn may_lend(&self) {
        // ORDERING: Relaxed, both - a hint.
        if !self.lends.load(Relaxed) {
            self.lends.store(true, Relaxed);
        }
    }

    /// Lets others run who are ready on this processor. For the VP, which has no work: its master may run its part meanwhile.
    #[inline]
    pub(crate) fn wait_for_a_turn(&self) {
        // ORDERING: Relaxed - a hint.
        if self.lends.load(Relaxed) { self.lend_while(&yield_processor) } else { yield_processor() }
    }

    /// Sleeps by `sleep`, which takes the longest time. As long as its master lately ran parts of it, it may do so meanwhile.
    pub(super) fn sleep_lending(&self, sleep: &dyn Fn(Option<Duration>)) {
        // ORDERING: Relaxed - a hint. Who lends hears no signals, and so not for long.
        if self.lends.swap(false, Relaxed) { self.lend_while(&|| sleep(Some(LENDING))) } else { sleep(None) }
    }

    /// Calls `rest`, which touches nothing that belongs to a thread, and lends the guise meanwhile; where it comes back before the
    /// guise does, it yields. For the VP, which has no work, and has none begun when this returns.
    #[inline]
    fn lend_while(&self, rest: &(impl Fn() + ?Sized)) {
        let has_rested = Cell::new(false);
        let rest = || if has_rested.replace(true) { yield_processor() } else { rest() };
        while self.hang(rest) && self.goes_on() {}
    }

    /// Hangs the guise up while `rest` runs; true when somebody used it, or had.
    fn hang(&self, rest: impl Fn()) -> bool {
        // SAFETY: - worn. `lends` is set where it is possible.
        let note = |turn: *mut Turn| unsafe {
            (*turn).registers.read();
            (*turn).cpu = current_cpu();
            (*turn).local = local::local();
        };
        // Handlers run on the own thread, with the thread-locals of whoever has the guise.
        let signals = Signals::block();
        // SAFETY: - the caller is the VP's own thread.
        //         - `rest` touches nothing that belongs to a thread.
        let was_used = unsafe { self.guise.while_hung(note, rest) };
        signals.restore();
        // SAFETY: - worn.
        was_used || unsafe { self.guise.with(|turn| (*turn).registers.is_suspended()) }
    }

    /// Somebody had the guise. Goes on with what that left amid, if it did, on the VP's own thread; true when it is left amid again.
    #[cold]
    fn goes_on(&self) -> bool {
        // SAFETY: - worn by the calling thread, whose registers these are.
        unsafe {
            self.guise.with(|turn| {
                let registers = &raw mut (*turn).registers;
                if (*registers).is_suspended() {
                    (*(*turn).local).set_stand_in(ptr::null());
                    Guise::resume(registers);
                }
                let is_amid = (*registers).is_suspended();
                if !is_amid {
                    (*registers).take_over();
                }
                is_amid
            })
        }
    }

    /// Runs the VP's part of `region`, as member `id`, in its guise, if it has not begun it and waits for the caller's processor; or
    /// goes on with it where it was suspended. Until it ends or is suspended.
    ///
    /// # Safety
    /// - The caller, `master`, is this VP's only one, supplied `region` by its line, not as recoverable, and has not joined it.
    pub(crate) unsafe fn stand_in(&'static self, master: &Local, region: &Region, id: u32) {
        // SAFETY: - the caller took the guise; the VP's thread wrote what is there, and lives as long as the process. It waits until it
        //           has its guise back; its stack has room beside what it was asked to have.
        //         - not foreign; a part knows nothing of the master, and an engine's work does not unwind.
        let run = |turn: *mut Turn| unsafe {
            let registers = &raw mut (*turn).registers;
            if (*turn).cpu != current_cpu() || (*turn).is_for_own {
                return;
            }
            if (*registers).is_suspended() {
                (*(*turn).local).set_stand_in(master);
                Guise::resume(registers);
            } else if !self.is_joined() && !(*registers).is_foreign() {
                let membership = region.membership(id, Some(Carrier::Line(self)));
                (*turn).part = Some(Part { membership, work: region.work, data: region.data });
                (*(*turn).local).set_stand_in(master);
                Guise::begin(registers, run_lent_part, ptr::from_ref(self).cast_mut().cast());
            }
            if (*registers).is_suspended() && self.bed.may_sleep() {
                // Who waits for it otherwise than at a barrier is to see it go on.
                self.bed.wake_if_asleep();
            }
        };
        // SAFETY: - the only one besides the VP.
        let _ = unsafe { self.guise.take(run) };
    }

    /// True when the caller is on the stack of the part, and not in a handler that has one of its own.
    pub(crate) fn is_on_lent_stack(&self) -> bool {
        let here = 0_u8;
        // SAFETY: - the caller is in the part: the guise is its own.
        unsafe { self.guise.with(|turn| (*turn).registers.holds(&raw const here, engine().stack_size())) }
    }

    /// Leaves the part, in which the caller is, to the VP's own thread, which ends it.
    pub(crate) fn suspend_for_own(&self) {
        // SAFETY: - the caller is in the part: the guise is its own.
        unsafe { self.guise.with(|turn| (*turn).is_for_own = true) };
        self.suspend();
    }

    /// Leaves the part, in which the caller is, to whoever goes on with it.
    pub(crate) fn suspend(&self) {
        // SAFETY: - `Local::is_lent`: the caller is in the part of this guise.
        unsafe { self.guise.with(|turn| Guise::suspend(&raw mut (*turn).registers)) };
    }
}

/// # Safety
/// - `vp` is one whose guise runs this, with a part that nobody has begun.
unsafe extern "C" fn run_lent_part(vp: *mut c_void) {
    // SAFETY: - caller's contract; VPs live as long as the process.
    let vp = unsafe { &*vp.cast_const().cast::<Vp>() };
    // SAFETY: - the guise is ours.
    let part = unsafe { vp.guise.with(|turn| (*turn).part.take()) };
    let Part { membership, work, data } = part.expect("`stand_in` left one");
    let local = local::local();
    local.set_lent(true);
    run_part(local, membership, work, data);
    local.set_lent(false);
    // The master may end.
    local.set_stand_in(ptr::null());
    // SAFETY: - as above.
    unsafe { vp.guise.with(|turn| (*turn).is_for_own = false) };
    // SAFETY: - run, and nobody had begun it: the VP does so in its guise only, and it was not joined.
    unsafe { vp.slot.finish_in_its_guise() };
    vp.rare().join.notify_all();
}
