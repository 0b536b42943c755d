//! The engine of this process: settings, team sizes, and the virtual processors that nobody uses
//! now.
//!
//! A forked child has one of its own ([`crate::process`]): its parent's threads, locks and
//! registration are not its own.

use crate::config::Config;
use crate::contention::Load;
use crate::counters::Blocks;
use crate::local;
use crate::managed::Managed;
use crate::mask_and_quota::{self, MaskAndQuota};
use crate::nearness;
use crate::numbers::Numbers;
use crate::placement::{self, Home};
use crate::process;
use crate::shares::{Share, Shares};
use crate::sizer::TeamSizer;
use crate::source::{self, Origin, Source};
use crate::vp::{self, Vp};
use platform::affinity::{self, CpuSet};
use platform::aside::Aside;
use platform::lock::{Mutex, Once};
use platform::message::say;
use platform::pthread::EndOfThread;
use platform::sync::CachePadded;
use platform::topology::Topology;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, PoisonError};

/// See the module head. On lines of its own: all threads that fork or wait read it, and what the
/// allocator would put beside it somebody may be writing.
#[repr(align(128))]
pub struct Engine {
    /// See [`local::end_of_thread`].
    end_of_thread: Option<EndOfThread>,
    config: Once<Config>,
    /// Leaked, for forked children go on with the one that the program set.
    sizer: Once<Source>,
    /// Virtual processors without a master.
    unused: Mutex<Vec<&'static Vp>>,
    /// All virtual processors, whoever reserved them.
    all: Mutex<Vec<&'static Vp>>,
    /// Virtual processors created so far: their numbers.
    created: AtomicUsize,
    /// Outermost masters alive.
    masters: AtomicUsize,
    /// What each of several holds. On lines of its own: all of them write there.
    shares: CachePadded<Shares>,
    /// Sum of what the outermost masters could use.
    wanted: AtomicUsize,
    /// The affinity mask that the program was started with.
    mask: Once<CpuSet>,
    processors: Once<usize>,
    /// The machine, and the places of the program's processors in it, where they differ; looked up
    /// at first use, and leaked: forked children go on with them.
    machine: Once<Option<&'static Topology>>,
    places: Once<Option<&'static nearness::Map>>,
    /// See [`Engine::changing_seats`].
    seats: Mutex<()>,
    load: Load,
    counters: Blocks,
    numbers: Numbers,
}

/// Threads that a team may have on any machine: [`Engine::largest_team`] is no less.
pub(crate) const CERTAIN: usize = 1024;

fn leaked<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Team sizes by mask and quota for this process.
pub(crate) fn mask_and_quota() -> MaskAndQuota {
    MaskAndQuota::new(mask_and_quota::Process {
        mask_of_bound: || engine().mask_of_bound().cloned(),
        throttled: || engine().load().note(),
    })
}

/// The engine of this process. Cost: one load.
#[inline]
pub fn engine() -> &'static Engine {
    match existing() {
        Some(engine) => engine,
        None => create(),
    }
}

/// The engine, if there is one.
#[inline]
fn existing() -> Option<&'static Engine> {
    // SAFETY: - `create` and `after_fork` alone say where the engine is, and leak it.
    unsafe { process::engine().cast::<Engine>().as_ref() }
}

#[cold]
fn create() -> &'static Engine {
    let _aside = Aside::begin();
    // While the process has one thread, if it has: later this costs milliseconds.
    platform::membarrier::prepare();
    platform::clock::Ticks::begin_measuring();
    // Before there is anything that a child must not use. Threads that come here at once both have
    // it called, which does no harm.
    if let Err(error) = platform::pthread::at_fork_child(after_fork) {
        say(format_args!("nanos: {error}; a forked child must not use parallel regions"));
    }
    let fresh = Box::into_raw(Box::new(Engine::new(local::end_of_thread())));
    match process::set_engine(fresh.cast()) {
        // SAFETY: - just leaked.
        Ok(()) => unsafe { &*fresh },
        Err(winner) => {
            // SAFETY: - `fresh` was not published: we are its only owner.
            let fresh = unsafe { Box::from_raw(fresh) };
            if let Some(key) = fresh.end_of_thread {
                key.discard();
            }
            // SAFETY: - published engines are never freed.
            unsafe { &*winner.cast() }
        }
    }
}

/// The child of a fork has one thread and none of the parent's virtual processors: it starts with
/// an empty engine and the parent's settings, and registers again when it first forks a region
/// (D13).
extern "C" fn after_fork() {
    let Some(old) = existing() else { return };
    let fresh = Engine::new(old.end_of_thread);
    if let Some(config) = old.config.get() {
        let _ = fresh.config.set(config.clone());
    }
    // What was found is the parent's: a registration, limits at that time.
    if let Some(sizer) = old.sizer.get()
        && sizer.origin() == Origin::Settings
        && sizer.survives_fork()
    {
        let _ = fresh.sizer.set(*sizer);
    }
    // The forking thread may be a bound virtual processor; the child is a program like its parent
    // (D2, D4). What nobody has looked up yet, or another thread is amid looking up, the child
    // looks up itself.
    if let Some(mask) = old.mask.get() {
        let _ = fresh.mask.set(mask.clone());
    }
    if let Some(&processors) = old.processors.get() {
        let _ = fresh.processors.set(processors);
    }
    if let Some(&machine) = old.machine.get() {
        let _ = fresh.machine.set(machine);
    }
    if let Some(&places) = old.places.get() {
        let _ = fresh.places.set(places);
    }
    // The old one stays leaked: its locks may be held by threads that do not exist here.
    process::begin_child(Box::into_raw(Box::new(fresh)).cast());
    crate::forked::forget_in_library();
    if crate::local::forget_after_fork() {
        // A refusal means that the processors went offline: the child runs where it can.
        let _ = affinity::set_affinity(None, engine().mask());
    }
}

impl Engine {
    fn new(end_of_thread: Option<EndOfThread>) -> Self {
        Self {
            end_of_thread,
            config: Once::new(),
            sizer: Once::new(),
            unused: Mutex::new(Vec::new()),
            all: Mutex::new(Vec::new()),
            created: AtomicUsize::new(0),
            masters: AtomicUsize::new(0),
            shares: CachePadded::new(Shares::new()),
            wanted: AtomicUsize::new(0),
            mask: Once::new(),
            processors: Once::new(),
            machine: Once::new(),
            places: Once::new(),
            seats: Mutex::new(()),
            load: Load::default(),
            counters: Blocks::default(),
            numbers: Numbers::default(),
        }
    }

    /// What is told when a thread ends.
    pub(crate) fn end_of_thread(&self) -> Option<EndOfThread> {
        self.end_of_thread
    }

    /// Sets the configuration; false when it is already fixed.
    pub fn configure(&self, config: Config) -> bool {
        self.config.set(config).is_ok()
    }

    /// True when the configuration is fixed.
    pub fn is_configured(&self) -> bool {
        self.config.get().is_some()
    }

    #[inline]
    pub(crate) fn config(&self) -> &Config {
        self.config.get_or_init(Config::default)
    }

    /// Installs a sizer; false when one is already in use.
    pub fn set_sizer(&self, sizer: Box<dyn TeamSizer>) -> bool {
        let sizer = Box::into_raw(sizer);
        // SAFETY: - just leaked, and freed below only if it was not set.
        let is_set = self.sizer.set(Source::new(unsafe { &*sizer }, Origin::Settings)).is_ok();
        if !is_set {
            // SAFETY: - as above: nobody else has it.
            drop(unsafe { Box::from_raw(sizer) });
        }
        is_set
    }

    /// True when team sizes have a source: settings are fixed.
    pub fn has_sizer(&self) -> bool {
        self.sizer.get().is_some()
    }

    /// What the threads of this process count.
    pub(crate) fn counters(&self) -> &Blocks {
        &self.counters
    }

    /// The numbers of this process's threads.
    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Virtual processors created so far.
    pub(crate) fn created(&self) -> usize {
        // ORDERING: Relaxed - a number on its own.
        self.created.load(Relaxed)
    }

    /// The source of team sizes. The first call looks for a manager.
    #[inline]
    pub fn sizer(&self) -> &Source {
        self.sizer.get_or_init(|| {
            let (config, processors) = (self.config(), self.processors());
            let _aside = Aside::begin();
            if config.adapt
                && let Some(managed) = source::register(config.library, processors, self.mask())
            {
                return Source::new(leaked(managed), Origin::Manager);
            }
            Source::new(leaked(mask_and_quota()), Origin::Alone)
        })
    }

    /// The manager that the program follows, or followed. Cost: a load.
    #[inline]
    pub(crate) fn managed(&self) -> Option<&'static Managed> {
        self.sizer().managed()
    }

    /// The same, where the program has asked for a team before: looks for no manager. Cost: a load.
    #[inline]
    pub(crate) fn managed_already(&self) -> Option<&'static Managed> {
        self.sizer.get().and_then(Source::managed)
    }

    /// True when a manager was found at start.
    pub(crate) fn is_managed(&self) -> bool {
        self.sizer().origin() == Origin::Manager
    }

    /// The mask that the program was started with (or had when the engine first looked).
    pub fn mask(&self) -> &CpuSet {
        self.mask.get_or_init(|| {
            affinity::affinity(None).unwrap_or_else(|_| CpuSet::single(affinity::current_cpu()))
        })
    }

    /// The original mask, if the engine binds its masters: their own masks say nothing about what
    /// the program has.
    pub(crate) fn mask_of_bound(&self) -> Option<&CpuSet> {
        self.config.get().is_some_and(|config| config.bind).then(|| self.mask())
    }

    /// Processors of the original mask, quota counted (D4). Constant.
    pub(crate) fn processors(&self) -> usize {
        *self.processors.get_or_init(|| {
            let limits = platform::cgroup::Limits::read().unwrap_or_default();
            platform::cgroup::usable_processors(self.mask(), &limits)
        })
    }

    /// The machine; one place of all processors where the system does not say more.
    pub fn machine(&self) -> Option<&'static Topology> {
        *self.machine.get_or_init(|| placement::read_machine(self.mask()).map(leaked))
    }

    /// The places of the program's processors; `None` where all are in one, or the system does not
    /// say.
    pub(crate) fn places(&self) -> Option<&'static nearness::Map> {
        *self.places.get_or_init(|| nearness::Map::new(self.machine()?, self.mask()).map(leaked))
    }

    /// Seats change hands one at a time: two masters that gave the same seat away at once would
    /// leave it with both.
    pub(crate) fn changing_seats(&self) -> MutexGuard<'_, ()> {
        // It guards no data.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the program's threads saw of others on its processors.
    #[inline]
    pub(crate) fn load(&self) -> &Load {
        &self.load
    }

    /// The most threads that a team may have: beyond this a wrong number would only take the
    /// machine down.
    pub fn largest_team(&self) -> usize {
        (8 * self.processors()).clamp(CERTAIN, crate::work::LARGEST)
    }

    /// What a region without a number of its own asks for: all processors, or more when the sizer
    /// offers more.
    pub(crate) fn wish(&self) -> usize {
        self.processors().max(self.sizer().limit())
    }

    /// True when so many threads have a processor each: what regions may use now, and not more than
    /// there are, of which a number that the program gave says nothing. Cost: a load or two beside
    /// the sizer's limit.
    #[inline]
    pub(crate) fn has_room_for(&self, threads: usize) -> bool {
        let sizer = self.sizer();
        threads <= sizer.limit() && (sizer.knows_processors() || threads <= self.processors())
    }

    /// True when all threads that the engine has ever started, and the outermost masters, have a
    /// processor each.
    pub(crate) fn has_processor_for_each(&self) -> bool {
        // ORDERING: Relaxed - a hint.
        self.created.load(Relaxed) + self.masters.load(Relaxed).max(1) <= self.processors()
    }

    /// Counts a new outermost master, the calling thread.
    pub(crate) fn enroll_master(&self) -> Arc<Share> {
        let share = self.shares.enroll(Some(affinity::current_tid()));
        // ORDERING: Relaxed - a number on its own, here and in `dismiss_master` and
        // `has_one_master`.
        self.masters.fetch_add(1, Relaxed);
        share
    }

    /// Uncounts an outermost master that ended.
    pub(crate) fn dismiss_master(&self, share: &Arc<Share>) {
        self.masters.fetch_sub(1, Relaxed);
        self.shares.dismiss(share);
    }

    /// How several masters share what there is.
    pub(crate) fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Changes what one master could use from `before` to `now`, and requests the sum (D6, M2).
    pub(crate) fn want(&self, before: usize, now: usize) {
        let change = now.wrapping_sub(before);
        // ORDERING: Relaxed - a number on its own; the request carries it.
        let sum = self.wanted.fetch_add(change, Relaxed).wrapping_add(change);
        self.sizer().request(sum.max(1));
    }

    /// True when nothing but mask and quota says how large teams may be.
    pub(crate) fn sizes_by_mask(&self) -> bool {
        self.sizer().origin() == Origin::Alone
    }

    /// True when one thread at most forks outermost regions: then nothing has to be counted.
    #[inline]
    pub(crate) fn has_one_master(&self) -> bool {
        self.masters.load(Relaxed) <= 1
    }

    fn unused(&self) -> MutexGuard<'_, Vec<&'static Vp>> {
        // Nothing that runs under this lock can panic halfway: a poisoned list is a whole list.
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A virtual processor without a master, for a team: an unused one, else a new one. It wakes on
    /// the processor of `home`, or on its own.
    ///
    /// # Errors
    /// The system's, when it refuses a thread.
    pub(crate) fn acquire(&self, home: Option<Home>) -> io::Result<&'static Vp> {
        if let Some(vp) = self.unused().pop() {
            vp.lodge(home.unwrap_or(Home::Of(vp.number())));
            return Ok(vp);
        }
        // ORDERING: Relaxed - only uniqueness counts.
        let number = self.created.fetch_add(1, Relaxed) + 1;
        let home = home.unwrap_or(Home::Of(number));
        let vp = Vp::start(number, self.stack_size(), home.processor())?;
        vp.lodge(home);
        self.all().push(vp);
        Ok(vp)
    }

    /// Bytes of stack that virtual processors ask for.
    pub(crate) fn stack_size(&self) -> usize {
        self.config().stack_size.unwrap_or(vp::STACK)
    }

    /// Says once that the system refuses threads: `wanted` were, beside their master, and there are
    /// `got`. Not in the children of forks, whose parents know how many they have.
    #[cold]
    pub(crate) fn say_refused(&self, wanted: usize, got: usize, error: &io::Error) {
        static SAID: AtomicBool = AtomicBool::new(false);
        // ORDERING: Relaxed - a flag on its own.
        if !process::is_child() && !SAID.swap(true, Relaxed) {
            say(format_args!(
                "nanos: the system refuses a thread ({error}): a master asked for {wanted} beside its own, with stacks of {} bytes, \
                 and goes on with {got}. Smaller stacks (builder().stack_size, OMP_STACKSIZE) or larger limits (ulimit -v, \
                 ulimit -u, the cgroup's pids.max) avoid that",
                self.stack_size()
            ));
        }
    }

    /// All virtual processors of the process.
    pub(crate) fn all(&self) -> MutexGuard<'_, Vec<&'static Vp>> {
        // As above.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives back virtual processors whose regions are joined.
    pub(crate) fn give_back(&self, vps: impl IntoIterator<Item = &'static Vp>) {
        self.unused().extend(vps);
    }
}
