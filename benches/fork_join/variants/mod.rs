//! Fork and join as the year 2000 published them, for comparison only: P1 section 3 (F3 to F6) and
//! the schemes that it was measured against.
//!
//! | name | descriptor | fork | join |
//! |---|---|---|---|
//! | `mp-shm` | at one fixed place | one sequence number for all | a mark for each worker, each on a line of its own |
//! | `mp-fop` | at one fixed place | one sequence number for all | one counter, fetch-and-op |
//! | `gwd` | elsewhere; a ring of pointers for all | NULL at the own index = nothing; a used location is cleared | DJS, PJV |
//! | `lwd` | elsewhere; a ring of pointers for each worker | as `gwd` | DJS, PJV |
//!
//! No thread sleeps here, nothing is nested, and the master is one thread: this is what the papers
//! timed. The code that makes the pool binds the threads. The product's own forms are in the
//! library.

mod descriptor;
mod djs;
mod mp;
mod pointers;

use descriptor::Descriptor;
pub(crate) use descriptor::Work;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// In the order of the paper.
pub(crate) const NAMES: [&str; 4] = ["mp-shm", "mp-fop", "gwd", "lwd"];

/// A way to hand a descriptor to workers 1.. and to hear that they are done.
trait Scheme: Send + Sync {
    /// The master hands out the descriptor, which it keeps until the join, when all have arrived
    /// for the last one.
    fn fork(&self, descriptor: &Descriptor);
    /// The worker's descriptor number `number` (from 0), if it is there.
    fn take(&self, worker: usize, number: u64) -> Option<*const Descriptor>;
    /// The worker is done with descriptor `number`.
    fn arrive(&self, worker: usize, number: u64);
    /// The master waits for all.
    fn join(&self);
}

/// A master, which is the thread that calls [`Pool::region`], and its workers.
pub(crate) struct Pool {
    scheme: Arc<dyn Scheme>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    /// The scheme of that name with `threads` threads, the caller among them; each worker calls
    /// `bind` first. `None` when there is no such scheme.
    pub(crate) fn new(name: &str, threads: usize, bind: fn(usize)) -> Option<Pool> {
        let workers = threads.saturating_sub(1);
        let scheme: Arc<dyn Scheme> = match name {
            "mp-shm" => Arc::new(mp::Marks::new(workers)),
            "mp-fop" => Arc::new(mp::Counter::new(workers)),
            "gwd" => Arc::new(pointers::Global::new(workers)),
            "lwd" => Arc::new(pointers::Local::new(workers)),
            _ => return None,
        };
        let start = |worker| {
            let scheme = Arc::clone(&scheme);
            thread::spawn(move || {
                bind(worker);
                serve(&*scheme, worker);
            })
        };
        let workers = (1..=workers).map(start).collect();
        Some(Pool { scheme, workers })
    }

    /// Calls `work(argument, id)` on each thread, as 0 on the caller, and returns when all are
    /// done.
    ///
    /// # Safety
    /// - `work` may be called with `argument` on all threads at once, and does not unwind.
    pub(crate) unsafe fn region(&mut self, work: Work, argument: *const ()) {
        // On the master's stack until the join.
        let descriptor = Descriptor::new(Some(work), argument);
        self.scheme.fork(&descriptor);
        // SAFETY: - caller's contract.
        unsafe { work(argument, 0) };
        self.scheme.join();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let end = Descriptor::new(None, std::ptr::null());
        self.scheme.fork(&end);
        self.scheme.join();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so.
            let _ = worker.join();
        }
    }
}

fn serve(scheme: &dyn Scheme, worker: usize) {
    for number in 0.. {
        let descriptor = wait_for(|| scheme.take(worker, number));
        // SAFETY: - the master keeps it until the join.
        let (work, argument) = unsafe { (*descriptor).parts() };
        if let Some(work) = work {
            // SAFETY: - `Pool::region`'s contract.
            unsafe { work(argument, worker) };
        }
        scheme.arrive(worker, number);
        if work.is_none() {
            return;
        }
    }
}

/// Looks until there is something. Spins; with more threads than processors the others must get a
/// turn, too.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> T {
    for looks in 1_u64.. {
        if let Some(found) = look() {
            return found;
        }
        if looks.is_multiple_of(1 << 8) {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
    unreachable!("2^64 looks")
}
