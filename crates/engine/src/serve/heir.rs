//! A worker continues on another kernel thread, which takes the place of the old one: what the
//! program keeps for each thread (thread-local storage) begins anew, and the old thread's
//! destructors run.
//!
//! # Protocol
//! 1. A program that is done with the threads offers [`renew`] to the workers, which have nothing
//!    else to do.
//! 2. The old thread starts its heir, which waits. The old thread gives up the handle by which
//!    others move it (under the lock of that, so that no thread uses the handle of a thread that
//!    ends, nor binds the old one when the heir already has its mask), and its state; then it lets
//!    the heir go, and ends.
//! 3. The heir waits for the old thread's end, that of its destructors included: a destructor that
//!    waits for the thread that offered [`renew`] waits for ever. The heir takes the state, and
//!    reports the offer as done. To the engine all is as before: number, seat, group.
//!
//! A system that refuses a thread, and a forked child, whose threads cannot end, leave the old
//! thread where it is.

use crate::process;
use crate::thread::{Local, current, local};
use crate::waits::spin_policy;
use crate::work::{Member, Offered};
use crate::workers::pool;
use crate::workers::worker::{Worker, WorkerProgress};
use std::ptr;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

/// What the new thread of a worker goes on with.
pub(super) struct Heir {
    local: &'static Local,
    progress: WorkerProgress,
    /// Says when the old one is done with it, and how to wait for its end.
    go: Receiver<Option<JoinHandle<()>>>,
}

// SAFETY: - the state belongs to one thread at a time: the old one gives it up before it lets the
// new one go.
unsafe impl Send for Heir {}

impl Heir {
    /// On the new thread.
    pub(super) fn take_over(self) -> (&'static Local, WorkerProgress) {
        // An error says that the old one has let go of the sender, which it does when it is done
        // with all.
        if let Ok(Some(old)) = self.go.recv() {
            // An error says that it panicked: the process ends by that.
            let _ = old.join();
        }
        current::take_over(self.local);
        (self.local, self.progress)
    }
}

/// Another thread goes on from here, by `go_on`; true when it does, and the calling one is to end.
#[cold]
pub(super) fn hand_on(
    worker: &'static Worker,
    local: &'static Local,
    progress: &WorkerProgress,
    go_on: impl FnOnce(Heir) + Send + 'static,
) -> bool {
    if process::is_child() {
        return false;
    }
    let (done, go) = sync_channel(1);
    let heir = Heir { local, progress: *progress, go };
    let start = || worker.start_thread(pool::stack_size(), move || go_on(heir));
    let Ok(own) = worker.station().succeed(start) else { return false };
    current::let_go();
    // The heir waits for it.
    let _ = done.send(own);
    true
}

/// The workers that this master has for itself continue on other kernel threads. To be called
/// outside its regions.
pub(crate) fn renew_members(local: &Local) {
    let renew = |worker: &'static Worker| {
        let offered = Offered { work: renew, data: ptr::null() };
        Some((worker, worker.offer(offered)?))
    };
    let offers: Vec<_> = local.own_members().into_iter().filter_map(renew).collect();
    for (worker, ticket) in offers {
        let is_done = || worker.is_offer_done(ticket).into();
        spin_policy::wait(worker.offers(), local, local.membership().threads, || {}, is_done);
    }
}

/// The work by which a worker is told to continue on another thread; the workers of its own inner
/// teams do so first.
///
/// # Safety
/// - None: it does nothing with its data.
unsafe fn renew(_data: *const (), _: Member) {
    let local = local();
    renew_members(local);
    local.is_to_be_renewed.set(true);
}
