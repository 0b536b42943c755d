//! The pool: all virtual processors of the process, and those of them that have no master.

use crate::placement::home::Home;
use crate::process;
use crate::process::per_process::{PerProcess, State};
use crate::program::program;
use crate::workers::vp::{self, Vp};
use platform::lock::Mutex;
use platform::message::say;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{MutexGuard, PoisonError};

/// See the module head.
pub(crate) struct Pool {
    /// Virtual processors without a master.
    unused: Mutex<Vec<&'static Vp>>,
    /// All virtual processors, reserved or not.
    all: Mutex<Vec<&'static Vp>>,
    /// Virtual processors created so far: their numbers.
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
            all: Mutex::new(Vec::new()),
            created: AtomicUsize::new(0),
        }
    }

    /// A child has none of the parent's virtual processors.
    fn in_child(&self) -> Self {
        Self::begin()
    }
}

/// Bytes of stack that virtual processors ask for.
pub(crate) fn stack_size() -> usize {
    program().config().stack_size.unwrap_or(vp::STACK)
}

/// Says once that the system refuses threads: `wanted` were, beside their master, and there are
/// `got`. Not in the children of forks, whose parents know how many they have.
#[cold]
pub(crate) fn say_refused(wanted: usize, got: usize, error: &io::Error) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !process::is_child() && !SAID.swap(true, Relaxed) {
        say(format_args!(
            "nanos: the system refuses a thread ({error}): a master asked for {wanted} beside its own, with stacks of {} bytes, \
             and goes on with {got}. Smaller stacks (builder().stack_size, OMP_STACKSIZE) or larger limits (ulimit -v, \
             ulimit -u, the cgroup's pids.max) avoid that",
            stack_size()
        ));
    }
}

impl Pool {
    /// Virtual processors created so far.
    pub(crate) fn created(&self) -> usize {
        // ORDERING: Relaxed - a number on its own.
        self.created.load(Relaxed)
    }

    fn unused(&self) -> MutexGuard<'_, Vec<&'static Vp>> {
        // Nothing that runs under this lock can panic halfway: a poisoned list is a whole list.
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All virtual processors of the process.
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<&'static Vp>> {
        // As above.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A virtual processor without a master, for a team: an unused one, else a new one. It wakes on
    /// the processor of `home`, or on its own. The thread of a new one lives `life`.
    ///
    /// # Errors
    /// The system's, when it refuses a thread.
    pub(crate) fn acquire(
        &self,
        home: Option<Home>,
        life: fn(&'static Vp),
    ) -> io::Result<&'static Vp> {
        if let Some(vp) = self.unused().pop() {
            vp.lodge(home.unwrap_or(Home::Of(vp.number())));
            return Ok(vp);
        }
        // ORDERING: Relaxed - only uniqueness counts.
        let number = self.created.fetch_add(1, Relaxed) + 1;
        let home = home.unwrap_or(Home::Of(number));
        let vp = Vp::start(number, stack_size(), home.processor(), life)?;
        vp.lodge(home);
        self.all().push(vp);
        Ok(vp)
    }

    /// Gives back virtual processors whose regions are joined.
    pub(crate) fn give_back(&self, vps: impl IntoIterator<Item = &'static Vp>) {
        self.unused().extend(vps);
    }
}
