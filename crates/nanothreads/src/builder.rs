//! Settings of the engine, as a program makes them before its first region.

pub use engine::config::Waiting;

use engine::config::Config;
use engine::program::program;
use engine::sizer::{Fixed, TeamSizer};
use engine::source;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use crate::touches::{self, Listener};

/// Why settings were refused. Nothing was changed then, but for one race: where another thread uses
/// the engine for the first time, or installs other settings, at the same moment,
/// [`BuildError::InUse`] may leave the team sizes of these settings with the rest of those.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The engine works already.
    InUse,
    /// A stack on which nothing could run.
    StackTooSmall {
        /// What was asked for.
        asked: usize,
        /// The least.
        least: usize,
    },
    /// A stack that no address space has room for.
    StackTooLarge {
        /// What was asked for.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// A stack of tasks on which nothing could run, or that no address space has room for.
    TaskStack {
        /// What was asked for.
        asked: usize,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// More threads than any team may have.
    TooManyThreads {
        /// What was asked for.
        asked: usize,
        /// [`Team::largest`](crate::Team::largest).
        largest: usize,
    },
    /// A nice value that the system does not have.
    Nice {
        /// What was asked for.
        asked: i32,
    },
    /// A name that no thread can have.
    Name,
    /// No thread at all.
    NoThreads,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => f.write_str(
                "the engine is in use: install settings before the first region, and once only",
            ),
            Self::StackTooSmall { asked, least } => {
                write!(f, "stacks of {asked} bytes for workers: {least} bytes are the least")
            }
            Self::StackTooLarge { asked, most } => {
                write!(f, "stacks of {asked} bytes for workers: {most} bytes are the most")
            }
            Self::TaskStack { asked, least, most } => write!(
                f,
                "stacks of {asked} bytes for tasks: from {least} to {most} bytes are possible"
            ),
            Self::TooManyThreads { asked, largest } => {
                write!(
                    f,
                    "teams of {asked} threads: teams of this program have at most {largest} \
                     (Team::largest); give at most that, or say nothing and have all \
                     processors"
                )
            }
            Self::Nice { asked } => write!(
                f,
                "a nice value of {asked} for workers: values go from -20, the most favourable, to \
                 19"
            ),
            Self::Name => {
                f.write_str("a thread name with a zero byte: the system's names end there")
            }
            Self::NoThreads => f.write_str(
                "teams of 0 threads: give at least 1, or say nothing and have all processors",
            ),
        }
    }
}

impl std::error::Error for BuildError {}

/// The smallest stack of a worker: what a region with a panic and its backtrace needs.
const LEAST_STACK: usize = 64 << 10;

/// The least stack of a task: a panic with its message must fit. Its backtrace (`RUST_BACKTRACE=1`)
/// does not, and overflows the stack, which ends the process: that takes 24 KiB, and more where the
/// task is deep in calls.
pub(crate) const LEAST_TASK_STACK: usize = 16 << 10;

/// What the program chose for its tasks; 0: nothing.
static TASK_STACK: AtomicUsize = AtomicUsize::new(0);

/// The size of tasks' stacks that the program chose.
pub(crate) fn task_stack() -> Option<usize> {
    // ORDERING: Relaxed - see `install`.
    Some(TASK_STACK.load(Relaxed)).filter(|&bytes| bytes > 0)
}

/// How long a scope may wait before it is reported, in milliseconds, and 1 more; 0: nothing was
/// chosen.
static LONGEST_WAIT: AtomicU64 = AtomicU64::new(0);

fn choose_wait(limit: Duration) {
    let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    // ORDERING: Relaxed - a number on its own.
    LONGEST_WAIT.store(millis.saturating_add(1), Relaxed);
}

/// After what time a scope that waits is reported, if the program said so; `Duration::MAX`: never.
pub(crate) fn longest_wait() -> Option<Duration> {
    // ORDERING: Relaxed - as above.
    match LONGEST_WAIT.load(Relaxed) {
        0 => None,
        u64::MAX => Some(Duration::MAX),
        more => Some(Duration::from_millis(more - 1)),
    }
}

/// The largest: a program of hundreds of threads fits in 47 bits of addresses.
const MOST_STACK: usize = 1 << 40;

/// Settings of the engine of this process; made by [`builder`].
///
/// Team sizes can be set for each [`Team`](crate::Team) as well; everything else belongs to the
/// threads, which all teams share.
#[must_use = "settings do nothing until they are installed"]
pub struct Builder {
    pub(crate) config: Config,
    sizer: Option<Box<dyn TeamSizer>>,
    threads: Option<usize>,
    /// False without the feature `adaptive`.
    finds_out: bool,
    task_stack: Option<usize>,
    report_waits: Option<Duration>,
    listener: Option<Listener>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, sizer, threads, finds_out, task_stack, report_waits, listener } = self;
        let mut text = f.debug_struct("Builder");
        text.field("config", config)
            .field("has_sizer", &sizer.is_some())
            .field("threads", threads)
            .field("finds_out", finds_out)
            .field("task_stack", task_stack)
            .field("report_waits", report_waits)
            .field("has_listener", &listener.is_some())
            .finish()
    }
}

/// The default settings, to be changed and installed before the first region. A program that
/// installs none follows the processor manager if there is one, else its affinity mask and cgroup
/// quota.
///
/// ```
/// use nanothreads::{Waiting, builder};
/// builder().threads(4).waiting(Waiting::Passive).stack_size(2 << 20).install()?;
/// nanothreads::broadcast(|member| assert!(member.size <= 4));
///
/// // The engine works now: too late.
/// assert_eq!(builder().install(), Err(nanothreads::BuildError::InUse));
/// # Ok::<(), nanothreads::BuildError>(())
/// ```
#[doc(alias = "ThreadPoolBuilder")]
pub fn builder() -> Builder {
    Builder {
        config: Config::default(),
        sizer: None,
        threads: None,
        finds_out: false,
        task_stack: None,
        report_waits: None,
        listener: None,
    }
}

impl Builder {
    /// Regions have at most `threads` threads, however many processors the machine has: no manager
    /// is asked, and mask and quota do not count. At most [`Team::largest`](crate::Team::largest).
    /// Where these are more than the processors of mask and quota, a thread that waits hands its
    /// processor over at once. For following them with a limit, see
    /// [`Team::at_most`](crate::Team::at_most).
    #[doc(alias = "num_threads")]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// Where team sizes come from. Forked children keep it: see [`TeamSizer`].
    pub fn sizer(self, sizer: impl TeamSizer + 'static) -> Self {
        Self { sizer: Some(Box::new(sizer)), ..self }
    }

    /// Binds each worker to one processor, also without a manager. Default: placed softly.
    pub fn bind(mut self, bind: bool) -> Self {
        self.config.bind = bind;
        self
    }

    /// Looks for a processor manager and follows its grants. Default: yes.
    pub fn adapt(mut self, adapt: bool) -> Self {
        self.config.adapt = adapt;
        self
    }

    /// Where no manager is followed, the program finds out by itself how many threads the machine
    /// can run at a time, and teams without a size of their own have so many: crate
    /// `nanothreads-asat`, with the environment variables that it reads (`ASAT_MAX` and others; a
    /// wrong one brings a line). With [`adapt(false)`](Self::adapt) no manager is looked for.
    /// Nothing where [`threads`](Self::threads) or [`sizer`](Self::sizer) says the size. With the
    /// feature `adaptive` of this crate. Default: no.
    ///
    /// ```
    /// nanothreads::builder().adapt(false).self_allocating(true).install()?;
    /// nanothreads::broadcast(|member| assert!(member.size >= 1));
    /// # Ok::<(), nanothreads::BuildError>(())
    /// ```
    #[cfg(feature = "adaptive")]
    pub fn self_allocating(self, finds_out: bool) -> Self {
        Self { finds_out, ..self }
    }

    /// How threads wait. Default: [`Waiting::Auto`].
    pub fn waiting(mut self, waiting: Waiting) -> Self {
        self.config.waiting = waiting;
        self
    }

    /// Stack of each worker in bytes, from 64 KiB to 1 TiB. Default: 8 MiB of address space.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.config.stack_size = Some(bytes);
        self
    }

    /// Stack of each task ([`Scope::spawn`](crate::Scope::spawn)) in bytes, from 16 KiB to 1 TiB;
    /// [`Task::stack_size`](crate::Task::stack_size) for single ones. Default: 1 MiB of address
    /// space. The environment variable `NANOS_STACK` overrides it.
    ///
    /// ```
    /// nanothreads::builder().task_stack_size(8 << 20).install()?;
    /// nanothreads::scope(|s| s.spawn(|_| drop(std::hint::black_box([1_u8; 2 << 20]))));
    /// # Ok::<(), nanothreads::BuildError>(())
    /// ```
    pub fn task_stack_size(self, bytes: usize) -> Self {
        Self { task_stack: Some(bytes), ..self }
    }

    /// A scope that has waited so long, and has nothing left to wait for but its own spawners and
    /// completions, is reported on stderr, once: with where it and the last of those were made.
    /// Most likely one was returned from the scope's body, and the wait has no end.
    /// `Duration::MAX`: never. Default: 10 seconds.
    pub fn report_waits(self, after: Duration) -> Self {
        Self { report_waits: Some(after), ..self }
    }

    /// What the names of the workers' threads begin with; a hyphen and the worker's number follow,
    /// from 1. The system's tools show 15 bytes of a name: 10 leave room for the numbers. Default:
    /// `nanos-w`.
    ///
    /// ```
    /// nanothreads::builder().threads(2).thread_names("render").install()?;
    /// let names = nanothreads::Team::exact(2).expect("threads")
    ///     .map(|_| std::thread::current().name().map(String::from));
    /// assert_eq!(names[1].as_deref(), Some("render-1"));
    /// # Ok::<(), nanothreads::BuildError>(())
    /// ```
    pub fn thread_names(mut self, prefix: &str) -> Self {
        self.config.threads.name = Some(prefix.into());
        self
    }

    /// `hook` is called with the worker's number on each worker's thread, before that runs anything
    /// else: to register it with an allocator or a profiler, to set signal masks. With 0 on the
    /// thread that runs detached tasks ([`spawn`](crate::spawn())). Regions that it forks have one
    /// thread. A panic in it is reported as any, and the worker goes on.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// static STARTED: AtomicUsize = AtomicUsize::new(0);
    /// nanothreads::builder()
    ///     .threads(3)
    ///     .on_thread_start(|_number| { STARTED.fetch_add(1, Ordering::Relaxed); })
    ///     .install()?;
    /// nanothreads::Team::exact(3).expect("threads").run(|member| member.barrier());
    /// assert_eq!(STARTED.load(Ordering::Relaxed), 2);
    /// # Ok::<(), nanothreads::BuildError>(())
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.config.threads.start = Some(Arc::new(hook));
        self
    }

    /// For language runtimes that renew threads (`engine::renew_threads`): `hook` is then called,
    /// with the worker's number, on each worker's thread that ends; in a Rust program it is never
    /// called. There workers are kept as long as the process lives, and end with it without a word,
    /// as those of rayon's global pool do.
    pub fn on_thread_exit(mut self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.config.threads.exit = Some(Arc::new(hook));
        self
    }

    /// Loops over the chunks of slices ([`par_chunks_mut`](crate::par_chunks_mut) and what belongs
    /// to it) tell which thread gets which memory: before the body of each chunk `hear` is called
    /// with the chunk's addresses, on the thread that runs the body. A loop asks `is_wanted` once,
    /// as it begins. Until something is wanted that is all that it costs, and one load where the
    /// program says nothing here. What a body reads of other memory no loop knows.
    ///
    /// For pages that follow the threads: with the crate `nanothreads-upm` these are the calls
    /// `Ledger::is_recording` and `Ledger::touched_here`.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// static BYTES: AtomicUsize = AtomicUsize::new(0);
    /// nanothreads::builder()
    ///     .on_chunk(|| true, |chunk| { BYTES.fetch_add(chunk.len(), Ordering::Relaxed); })
    ///     .install()?;
    /// nanothreads::par_chunks_mut(&mut [0_u64; 100], 30).run(|_, chunk| chunk.fill(1));
    /// assert_eq!(BYTES.load(Ordering::Relaxed), 800);
    /// # Ok::<(), nanothreads::BuildError>(())
    /// ```
    pub fn on_chunk(
        self,
        is_wanted: impl Fn() -> bool + Send + Sync + 'static,
        hear: impl Fn(Range<usize>) + Send + Sync + 'static,
    ) -> Self {
        let listener = Listener { is_wanted: Box::new(is_wanted), hear: Box::new(hear) };
        Self { listener: Some(listener), ..self }
    }

    /// The nice value of workers' threads, from -20 to 19; less than the program's own needs a
    /// privilege. Where the system refuses it the workers keep what they have, and a line on stderr
    /// says so. The threads that fork regions are the program's, and keep theirs. Default: what the
    /// thread has that starts the worker.
    pub fn nice(mut self, nice: i32) -> Self {
        self.config.threads.nice = Some(nice);
        self
    }

    /// The name under which the manager lists this program's runtime.
    pub fn library(mut self, name: &'static str) -> Self {
        self.config.library = name;
        self
    }

    /// Makes these the settings of the process.
    ///
    /// # Errors
    /// When the engine is in use already, or a setting is impossible.
    pub fn install(self) -> Result<(), BuildError> {
        let Self { config, sizer, threads, finds_out, task_stack, report_waits, listener } = self;
        if let Some(asked) =
            task_stack.filter(|bytes| !(LEAST_TASK_STACK..=MOST_STACK).contains(bytes))
        {
            let (least, most) = (LEAST_TASK_STACK, MOST_STACK);
            return Err(BuildError::TaskStack { asked, least, most });
        }
        if let Some(asked) = config.stack_size.filter(|&bytes| bytes < LEAST_STACK) {
            return Err(BuildError::StackTooSmall { asked, least: LEAST_STACK });
        }
        if let Some(asked) = config.stack_size.filter(|&bytes| bytes > MOST_STACK) {
            return Err(BuildError::StackTooLarge { asked, most: MOST_STACK });
        }
        if let Some(asked) = config.threads.nice.filter(|nice| !(-20..=19).contains(nice)) {
            return Err(BuildError::Nice { asked });
        }
        if config.threads.name.as_ref().is_some_and(|name| name.contains('\0')) {
            return Err(BuildError::Name);
        }
        let largest = engine::largest_team();
        let sizer = match (sizer, threads) {
            (_, Some(0)) => return Err(BuildError::NoThreads),
            (_, Some(asked)) if asked > largest => {
                return Err(BuildError::TooManyThreads { asked, largest });
            }
            (Some(sizer), _) => Some(sizer),
            (None, Some(threads)) => Some(Box::new(Fixed::new(threads)) as Box<dyn TeamSizer>),
            (None, None) => None,
        };
        // A sizer in use means that regions were forked: then the settings are fixed, too.
        if source::is_chosen() || program().is_configured() {
            return Err(BuildError::InUse);
        }
        #[cfg(not(feature = "adaptive"))]
        let _ = finds_out;
        #[cfg(feature = "adaptive")]
        if finds_out && sizer.is_none() && !find_out() {
            return Err(BuildError::InUse);
        }
        // The sizer first: a thread that looks for one meanwhile fixes the configuration on the
        // way, and then this one is refused.
        if sizer.is_none_or(engine::set_team_sizer) && engine::configure(config) {
            // ORDERING: Relaxed - a number on its own, for threads that have not looked yet.
            task_stack.into_iter().for_each(|bytes| TASK_STACK.store(bytes, Relaxed));
            report_waits.into_iter().for_each(choose_wait);
            listener.into_iter().for_each(touches::listen);
            Ok(())
        } else {
            Err(BuildError::InUse)
        }
    }
}

/// The program finds out by itself how many threads it can run. False when it is too late.
#[cfg(feature = "adaptive")]
fn find_out() -> bool {
    let read =
        |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    let (settings, complaints) = asat::Settings::from_environment(&read);
    complaints
        .iter()
        .for_each(|complaint| platform::message::say(format_args!("nanos: {complaint}")));
    asat::install(settings)
}
