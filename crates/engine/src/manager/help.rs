//! Handing a processor over to work that lost its own (M5).
//!
//! # Protocol
//! 1. The manager squeezed a worker that did not come to a safe point: it runs on, somewhere on
//!    what the program keeps, in turn with the threads there, and the manager's verdict on its seat
//!    says so.
//! 2. A thread of the program that waits, and has a processor, finds `preempted` above 0 (one load)
//!    and takes the first such worker that was not helped in this epoch yet: the helper binds it to
//!    its own processor, and goes on waiting, which there means to yield, and then to sleep. "No
//!    time will be lost waiting for a synchronisation with a preempted processor."
//! 3. The helped worker comes to a safe point in its own time, where it finds the epoch that it
//!    does not follow, and takes its own place again.
//!
//! # Races
//! A and B (two that wait) want to help the same worker: its mark is a swap, and one of them goes
//! on to the next worker. A helps while the manager takes A's processor: the helped worker is on a
//! processor of another program, and not for longer than a squeezed one may be: the manager finds
//! it there when the grace is over.

use super::Managed;
use crate::placement::affinity_state;
use crate::sizer::TeamSizer;
use crate::workers::pool::pool;
use crate::workers::worker::Worker;
use arena::layout::Verdict;
use platform::affinity::current_cpu;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Help {
    /// Epoch and number of squeezed workers for which the last search found no worker to help: not
    /// searched again.
    done: AtomicU64,
}

impl Help {
    /// Step 2, for the calling thread: `helper`, or a master.
    #[cold]
    pub(super) fn somebody(&self, managed: &Managed, helper: Option<&'static Worker>) {
        let epoch = managed.epoch();
        let key = u64::from(epoch) << 32 | u64::from(managed.client().preempted());
        // ORDERING: Relaxed - a hint: another look finds the same.
        if epoch == affinity_state::NO_GRANT || self.done.load(Relaxed) == key {
            return;
        }
        // A worker without a seat in the grant has no processor to hand over.
        let Some(cpu) = helper.map_or_else(|| Some(current_cpu()), |helper| helper.cpu()) else {
            return;
        };
        let is_squeezed =
            |worker: &Worker| managed.client().vp(worker.seat()).1 == Verdict::Squeezed;
        let all = pool().all();
        let mut others = all
            .iter()
            .copied()
            .filter(|worker| helper.is_none_or(|helper| !std::ptr::eq(*worker, helper)));
        let helped = others.find(|worker| {
            is_squeezed(worker) && !worker.may_sleep() && worker.station().help_onto(cpu, epoch)
        });
        if helped.is_none() {
            self.done.store(key, Relaxed);
        }
    }
}
