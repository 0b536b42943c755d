//! Where the size of a team comes from: fixed, affinity mask and cgroup quota, or the processor
//! manager.
//!
//! # Papers
//! P2 section 2.2 and P0 section 2: a region is limited by what the program has *now*, read at each
//!    fork (M1, M3).

use std::any::Any;

pub use platform::affinity::{CpuId, CpuSet, Tid};

/// What a program may assume about the processors that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lease {
    /// No other program wants them: waiting threads may stay hot.
    Dedicated,
    /// Others want processors: give up what is not used.
    Wanted,
    /// There is no manager.
    Unmanaged,
}

/// What a master finds that is about to fork: see [`TeamSizer::between_regions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moment {
    /// The calling thread, the master.
    pub master: Tid,
    /// Workers that it has already: a team of one more needs no new thread.
    pub workers: usize,
    /// Of the master and these workers, those that do not sleep.
    pub awake: usize,
    /// Outermost masters of the program.
    pub masters: usize,
}

/// A source of team sizes. `limit` is read at each fork: one or two loads, no system call.
///
/// A forked child goes on with the sizer that its parent was given, as fork leaves it: plain
/// numbers and atomics are what they were, but a lock may be held by a thread that does not exist
/// in the child, and memory may not be mapped there. A sizer that is more than plain state says so
/// by [`Self::survives_fork`].
///
/// No method may panic: all of them are called where threads wait for each other too, which must
/// not be unwound. A panic there ends the process, with a report.
///
/// A method may use the engine, but it is called in the middle of things: whatever it forks runs on
/// the calling thread alone, `nanothreads::Team::exact` of more threads is refused, and what the
/// engine would have to ask of the sizer meanwhile it answers itself (one processor, nothing
/// granted). It must not wait for what only the calling thread, or a region that this thread is in,
/// will do.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// /// As many threads as a knob says.
/// struct Knob;
/// static POSITION: AtomicUsize = AtomicUsize::new(2);
///
/// impl nanothreads_engine::TeamSizer for Knob {
///     fn limit(&self) -> usize {
///         POSITION.load(Relaxed)
///     }
/// }
///
/// assert!(nanothreads_engine::set_team_sizer(Box::new(Knob)));
/// for position in [2, 3, 1] {
///     POSITION.store(position, Relaxed);
///     assert_eq!(nanothreads_engine::team_limit(), position);
/// }
/// ```
///
/// One that says which processors these are, and hears which threads use them:
/// ```
/// use nanothreads_engine::sizer::{CpuId, CpuSet, Tid};
///
/// struct FirstTwo;
///
/// impl nanothreads_engine::TeamSizer for FirstTwo {
///     fn limit(&self) -> usize {
///         2
///     }
///     fn processors(&self) -> Option<CpuSet> {
///         let mut cpus = CpuSet::single(CpuId(0));
///         cpus.insert(CpuId(1));
///         Some(cpus)
///     }
///     fn enlist(&self, index: usize, tid: Tid) {
///         println!("worker {index} is thread {}", tid.0);
///     }
/// }
/// # assert_eq!(nanothreads_engine::TeamSizer::processors(&FirstTwo).map(|cpus| cpus.len()), Some(2));
/// ```
pub trait TeamSizer: Send + Sync {
    /// Processors that a region may use now; 0 counts as 1, and what is above the largest team as
    /// that.
    fn limit(&self) -> usize;

    /// States how many processors the program could use.
    fn request(&self, _wanted: usize) {}

    /// What may be assumed about the processors.
    fn lease(&self) -> Lease {
        Lease::Unmanaged
    }

    /// Changes whenever `processors` changes.
    fn epoch(&self) -> u32 {
        0
    }

    /// The exact processors to bind workers to, if they were assigned.
    fn processors(&self) -> Option<CpuSet> {
        None
    }

    /// Tells the manager which kernel thread worker `index` is.
    fn enlist(&self, _index: usize, _tid: Tid) {}

    /// Called now and then outside the hot path, for sources that have to look.
    fn refresh(&self) {}

    /// Threads that have a processor each while they wait for each other, whatever the size of
    /// teams: a team of more hands processors over instead of spinning. A sizer that gives teams
    /// fewer threads than the program has processors says here how many it has.
    fn room(&self) -> usize {
        self.limit()
    }

    /// Called by an outermost master that is about to fork, at most once in some forks. It is
    /// outside all regions and may run some itself, of the workers that it has: measurements that
    /// need the team. What it forks does not lead here again. Cost of the call: nothing where no
    /// look is due.
    fn between_regions(&self, _moment: &Moment) {}

    /// False when a forked child must not touch this sizer any more: it then looks for a manager,
    /// else for mask and quota, of its own. Called in the child, before all else: the one method
    /// that must not use the engine.
    fn survives_fork(&self) -> bool {
        true
    }

    /// True for sizers of this crate, whose methods fork nothing: no other crate can name the
    /// argument.
    #[doc(hidden)]
    fn forks_nothing(&self, _: Seal) -> bool {
        false
    }

    /// What this crate does under a manager beyond team sizes; its source knows the type.
    #[doc(hidden)]
    fn managed(&self, _: Seal) -> Option<&dyn Any> {
        None
    }
}

mod seal {
    /// Keeps [`TeamSizer::forks_nothing`](super::TeamSizer::forks_nothing) to this crate.
    #[derive(Clone, Copy, Debug)]
    pub struct Seal;
}

pub(crate) use seal::Seal;

/// Always the same size. On a line of its own: threads that fork or wait read it.
#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
pub struct Fixed(usize);

impl Fixed {
    /// Teams of at most `size`; 0 counts as 1.
    pub fn new(size: usize) -> Self {
        Self(size.max(1))
    }
}

impl TeamSizer for Fixed {
    fn limit(&self) -> usize {
        self.0
    }

    fn forks_nothing(&self, _: Seal) -> bool {
        true
    }
}
