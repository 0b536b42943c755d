//! What a thread of the engine passes on to what it starts: the mask that the program was started
//! with (D2), and usual turns.
//!
//! A worker may be bound to one processor, or put on one by the thread that wakes it
//! ([`affinity_state`](crate::placement::affinity_state)), and the kernel hands a thread's mask on
//! to whatever that thread creates.
//! - What it forks gets the program's mask by `pthread_atfork`.
//! - The C library has no such hook for what is started otherwise: programs by `posix_spawn`,
//!   `system`, `popen`, or `vfork` (or `clone`) and exec, and threads. The caller starts them in
//!   [`unbound`]. A library that stands in front of the C library can do that for all programs at
//!   once, as the drop-in OpenMP library does: [`unbound`] around the spawning calls and
//!   `pthread_create`, whose child is made inside the C library, and [`before_exec`] in front of
//!   the exec calls. `vfork` itself, which could not be wrapped since it returns twice, needs
//!   nothing: its child sets itself right when it becomes a program.
//!
//! Turns go the same way: a master that has long ones (`thread/time_slice.rs`) gives them up before
//! it starts anything.
//!
//! # In a child of `vfork`
//! It shares memory and thread-locals with the thread that forked it, which sleeps until the exec;
//! other threads run. So the child must neither allocate nor lock, and its parent finds what it
//! writes. [`before_exec`] reads a thread-local and words of the worker, and tells by the kernel's
//! thread number which of the two calls it. The child may have got a mask of its own from the
//! program; that mask stays. The child's mask is inherited if it is the parent's, or the one that
//! the parent was bound to or put on (the parent may have been squeezed or freed since).

use crate::manager::source;
use crate::placement::affinity_state::AffinityHold;
use crate::program::program;
use crate::thread::{Local, Pin, current, local};
use crate::workers::worker::Worker;
use platform::affinity;
use platform::mask::{self, Mask};

/// Runs `body` with the affinity mask that the program was started with: for a member of a region
/// that starts a program or a thread, which would else inherit the one processor that the member is
/// bound to under a processor manager, or was put on when it was woken.
///
/// Cost: nothing where the calling thread is none of this crate's; two exchanges where it is not
/// bound; else three system calls. A child by `fork` alone needs no such thing, nor does anything
/// where the drop-in OpenMP library is loaded before the C library.
///
/// ```
/// // In a part of a region, or anywhere else:
/// let status = nanothreads_engine::unbound(|| std::process::Command::new("true").status());
/// assert!(status.is_ok_and(|status| status.success()));
/// ```
pub fn unbound<R>(body: impl FnOnce() -> R) -> R {
    if let Some(local) = current::existing() {
        local.end_long_turns();
    }
    let _unbound =
        current::existing().and_then(|local| Some(Unbound::begin(local, local.worker()?)));
    body()
}

/// True when what the calling thread starts might inherit a processor that this crate put the
/// thread on, or the long turns of a master: it had better start it in [`unbound`]. Cost: a
/// thread-local load, and another one or two. May be called in signal handlers and in children of
/// `vfork`.
pub fn needs_unbound() -> bool {
    // One that has its usual mask may be put somewhere at any time.
    current::existing().is_some_and(|local| local.worker().is_some() || local.has_long_turns())
}

/// To be called before the caller (a worker's thread, or a child that it has by `vfork` or `clone`)
/// becomes another program: gives it the mask that this program was started with, unless it has one
/// of its own (module head). Should the exec fail, a thread has that mask until its next safe
/// point.
///
/// Cost: as [`needs_unbound`], and up to four system calls where that says yes. May be called where
/// that may be; sets errno.
pub fn before_exec() {
    if let Some(local) = current::existing().filter(|local| local.has_long_turns()) {
        if local.tid() == mask::current_task() {
            local.end_long_turns();
        } else {
            local.end_childs_long_turns();
        }
    }
    let Some(worker) = current::own_worker() else { return };
    if worker.tid() == Some(mask::current_task()) {
        let held = worker.hold();
        if may_be_bound(worker) {
            take_programs_mask();
            forget_place(worker);
        }
        held.for_good();
    } else if is_inherited(worker) {
        take_programs_mask();
    }
}

/// Whether the worker may have another mask than the program's: a manager squeezes also workers
/// that are not bound.
fn may_be_bound(worker: &Worker) -> bool {
    worker.is_bound() || source::managed_already().is_some()
}

/// Gives the caller the mask of the program. Refused where its processors went offline: what is
/// started has what there is.
fn take_programs_mask() {
    let _ = affinity::set_affinity(None, program().mask());
}

/// Whether the caller, a child of the worker's thread that shares its memory, has a mask
/// that it was born with and that is not the program's.
fn is_inherited(worker: &Worker) -> bool {
    // A kernel that does not say: more processors than there are kernels for.
    let Ok(own) = Mask::of(None) else { return may_be_bound(worker) };
    if !may_be_bound(worker) {
        return worker.was_put_on(&own);
    }
    // The thread is not found in another namespace of process numbers.
    worker.tid().is_some_and(|tid| Mask::of(Some(tid)).is_ok_and(|parents| parents == own))
        || worker.cpu().is_some_and(|cpu| own.is_only(cpu))
}

/// Wherever the calling thread was put, it is there no more: it looks at its next safe point.
fn forget_place(worker: &Worker) {
    worker.station().lose_place();
    local().waiter().sitter().was_put_elsewhere();
}

/// The calling worker while what it starts has the program's mask: no other thread puts it
/// anywhere, and no manager squeezes it. A thread that waits for a processor between its new mask
/// and the start can be outside its grant for longer than the grace.
struct Unbound {
    local: &'static Local,
    worker: &'static Worker,
    /// The mask of a bound one.
    before: Option<Mask>,
    _held: AffinityHold<'static>,
    /// Another nano-thread would undo this one's change.
    _pin: Pin<'static>,
}

impl Unbound {
    fn begin(local: &'static Local, worker: &'static Worker) -> Self {
        let (_pin, _held) = (local.pin(), worker.hold());
        if let Some(managed) = source::managed_already() {
            managed.spare(worker);
        }
        let before = if may_be_bound(worker) { Mask::of(None).ok() } else { None };
        if before.is_some() {
            take_programs_mask();
        }
        Self { local, worker, before, _held, _pin }
    }
}

impl Drop for Unbound {
    fn drop(&mut self) {
        if local().worker().is_none() {
            // A child that the body forked: it keeps the program's mask.
            return;
        }
        if let Some(before) = &self.before {
            // Refused if the processor went offline: the thread then has all.
            let _ = before.take();
            // Meanwhile a grant may have come, or the end of the manager: wherever the thread was
            // put since then, its place is unknown now.
            forget_place(self.worker);
        }
        if let Some(managed) = source::managed_already() {
            managed.spare_no_more(self.local.waiter().sitter(), self.worker);
        }
    }
}
