//! The pool: all workers of the process, those of them that have no master, and those that masters
//! keep for their next regions.

use crate::placement::home::Home;
use crate::process;
use crate::process::per_process::{PerProcess, State};
use crate::program::program;
use crate::workers::holdings::Holdings;
use crate::workers::worker::{self, Worker};
use platform::lock::Mutex;
use platform::message::say;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{MutexGuard, PoisonError};

/// See the module head.
pub(crate) struct Pool {
    /// Workers without a master.
    unused: Mutex<Vec<&'static Worker>>,
    /// Those of masters, which others may take.
    holdings: Holdings,
    /// All workers, reserved or not.
    all: Mutex<Vec<&'static Worker>>,
    /// Workers created so far: their numbers.
    created: AtomicUsize,
}

static POOL: PerProcess<Pool> = PerProcess::new(|| POOL.renew());

/// The pool of this process. Cost: one load.
#[inline]
pub(crate) fn pool() -> &'static Pool {
    POOL.get()
}

impl State for Pool {
    fn begin() -> Self {
        Self {
            unused: Mutex::new(Vec::new()),
            holdings: Holdings::default(),
            all: Mutex::new(Vec::new()),
            created: AtomicUsize::new(0),
        }
    }

    /// A child has none of the parent's workers.
    fn in_child(&self) -> Self {
        Self::begin()
    }
}

/// Bytes of stack that workers ask for.
pub(crate) fn stack_size() -> usize {
    program().config().stack_size.unwrap_or(worker::STACK)
}

/// Says once that the system refuses threads: `wanted` were, beside their master, and there are
/// `got`. Not in the children of forks, whose parents know how many they have.
#[cold]
pub(crate) fn say_refused(wanted: usize, got: usize, error: &io::Error) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !process::is_child() && !SAID.swap(true, Relaxed) {
        say(format_args!(
            "nanos: the system refuses a thread ({error}): a master asked for {wanted} beside its \
             own, with stacks of {} bytes, and goes on with {got}. Smaller stacks \
             (builder().stack_size; in OpenMP programs OMP_STACKSIZE) or larger limits \
             (ulimit -v, ulimit -u, the cgroup's pids.max) avoid that",
            stack_size()
        ));
    }
}

impl Pool {
    /// Workers created so far.
    pub(crate) fn created(&self) -> usize {
        // ORDERING: Relaxed - a number on its own.
        self.created.load(Relaxed)
    }

    fn unused(&self) -> MutexGuard<'_, Vec<&'static Worker>> {
        // Nothing that runs under this lock can panic halfway: a poisoned list is a whole list.
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All workers of the process.
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<&'static Worker>> {
        // As above.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker without a master, for a team: an unused one, else one of a master that has no
    /// region open, else a new one. It wakes on the processor of `home`, or on its own. The thread
    /// of a new one lives `life`.
    ///
    /// # Errors
    /// The system's, when it refuses a thread.
    pub(crate) fn acquire(
        &self,
        home: Option<Home>,
        life: fn(&'static Worker),
    ) -> io::Result<&'static Worker> {
        let unused = self.unused().pop();
        if let Some(worker) = unused.or_else(|| self.take_from_idle()) {
            worker.set_home(home.unwrap_or(Home::Of(worker.number())));
            return Ok(worker);
        }
        // ORDERING: Relaxed - only uniqueness counts.
        let number = self.created.fetch_add(1, Relaxed) + 1;
        let home = home.unwrap_or(Home::Of(number));
        let worker = Worker::start(number, stack_size(), home.processor(), life)?;
        worker.set_home(home);
        self.all().push(worker);
        Ok(worker)
    }

    /// One of the workers of a master that has no region open; the others have no master then.
    #[cold]
    fn take_from_idle(&self) -> Option<&'static Worker> {
        self.give_back(self.holdings.take());
        self.unused().pop()
    }

    /// Gives back workers whose regions are joined.
    pub(crate) fn give_back(&self, workers: Vec<&'static Worker>) {
        // Their next master may have other processors, or none of its own.
        workers
            .iter()
            .filter(|worker| worker.is_bound())
            .for_each(|worker| worker.station().release());
        self.unused().extend(workers);
    }

    /// What masters keep.
    pub(crate) fn holdings(&self) -> &Holdings {
        &self.holdings
    }
}
