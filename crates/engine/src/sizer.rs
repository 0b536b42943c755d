//! Where the size of a team comes from: fixed, affinity mask and cgroup quota, or the processor manager.
//!
//! # Papers
//! P2 section 2.2 and P0 section 2: a region is limited by what the program has *now*, read at each fork (M1, M3).

use crate::contention::Load;
use crate::engine_state::engine;
use arena::client::{Client, Hello, SocketChoice, find_socket};
use arena::domain::Domain;
use platform::affinity;
use platform::aside::Aside;
use platform::cgroup::{Limits, throttled_periods_in, usable_processors};
use platform::clock::monotonic_ns;
use platform::message::say;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

pub use crate::managed::Managed;
pub use platform::affinity::{CpuId, CpuSet, Tid};

/// What a program may assume about the processors that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lease {
    /// Nobody else wants them: waiting threads may stay hot.
    Dedicated,
    /// Others want processors: give up what is not used.
    Wanted,
    /// Nobody manages the machine.
    Unmanaged,
}

/// A source of team sizes. `limit` is read at each fork: one or two loads, no system call.
///
/// A forked child goes on with the sizer that its parent was given, as fork leaves it: plain numbers and atomics are what
/// they were, but a lock may be held by a thread that does not exist in the child, and memory may not be mapped there. A
/// sizer that is more than plain state says so by [`Self::survives_fork`].
///
/// No method may panic: all of them are called where threads wait for each other too, which must not be unwound. A panic
/// there ends the process, with a report.
///
/// A method may use the engine, but it is called in the middle of things: whatever it forks runs on the calling thread
/// alone, `nanothreads::Team::exact` of more threads is refused, and what the engine would have to ask of the sizer
/// meanwhile it answers itself (one processor, nothing granted). It must not wait for what only the calling thread, or a
/// region that this thread is in, will do.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// /// As many threads as somebody turned a knob to.
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
///         println!("virtual processor {index} is thread {}", tid.0);
///     }
/// }
/// # assert_eq!(nanothreads_engine::TeamSizer::processors(&FirstTwo).map(|cpus| cpus.len()), Some(2));
/// ```
pub trait TeamSizer: Send + Sync {
    /// Processors that a region may use now; 0 counts as 1, and what is above the largest team as that.
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

    /// The exact processors to bind virtual processors to, if somebody assigned them.
    fn processors(&self) -> Option<CpuSet> {
        None
    }

    /// Tells the manager which kernel thread virtual processor `index` is.
    fn enlist(&self, _index: usize, _tid: Tid) {}

    /// Called now and then outside the hot path, for sources that have to look.
    fn refresh(&self) {}

    /// False when a forked child must not touch this sizer any more: it then looks for a manager, else for mask and quota,
    /// of its own. Called in the child, before all else: the one method that must not use the engine.
    fn survives_fork(&self) -> bool {
        true
    }

    /// True for sizers of this crate, whose methods fork nothing: nobody else can name the argument.
    #[doc(hidden)]
    fn forks_nothing(&self, _: Seal) -> bool {
        false
    }

    /// What this crate does under a manager beyond team sizes.
    #[doc(hidden)]
    fn managed(&self, _: Seal) -> Option<&Managed> {
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

/// What the affinity mask and the cgroup quota allow; looked up again while the program runs. On a line of its own: threads
/// that fork or wait read it.
#[derive(Debug)]
#[repr(align(128))]
pub struct MaskAndQuota {
    limit: AtomicUsize,
    looked_ns: AtomicU64,
    /// Periods in which a quota stopped us, at the last look.
    throttled: AtomicU64,
    /// Where the kernel tells of processes, and of control groups.
    roots: [&'static str; 2],
}

/// Those of every system.
const ROOTS: [&str; 2] = ["/proc", "/sys/fs/cgroup"];

/// Time between two looks at mask and quota.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

impl MaskAndQuota {
    /// Reads the current limits.
    pub fn new() -> Self {
        Self::below(ROOTS)
    }

    fn below(roots: [&'static str; 2]) -> Self {
        let own = Self {
            limit: AtomicUsize::new(1),
            looked_ns: AtomicU64::new(monotonic_ns()),
            throttled: AtomicU64::new(0),
            roots,
        };
        own.look();
        own
    }
}

impl MaskAndQuota {
    /// Looks at mask and quota. True when the quota stopped us since the last look.
    fn look(&self) -> bool {
        let [processes, groups] = self.roots.map(Path::new);
        // A cgroup tree that cannot be read limits nothing that we could know of.
        let limits = Limits::read_from(processes, groups).unwrap_or_default();
        // ORDERING: Relaxed - numbers on their own; two threads that look at once store the same facts.
        self.limit.store(usable_now(&limits), Relaxed);
        if limits.quota.is_none() {
            return false;
        }
        let periods = throttled_periods_in(processes, groups).ok().flatten().unwrap_or(0);
        periods > self.throttled.swap(periods, Relaxed)
    }

    /// Looks again where the last look is long ago; what it sees of a quota is evidence for `load` (D16).
    fn refresh_at(&self, now: u64, load: &Load) {
        // ORDERING: Relaxed - two threads that look at once store the same facts.
        if now.saturating_sub(self.looked_ns.load(Relaxed)) >= LOOK_INTERVAL.as_nanos() as u64 {
            self.looked_ns.store(now, Relaxed);
            if self.look() {
                load.note();
            }
        }
    }
}

impl Default for MaskAndQuota {
    fn default() -> Self {
        Self::new()
    }
}

/// Processors of the initial thread's mask, less what a quota forbids. The initial thread's, because the engine may
/// place the calling one for a moment. The original mask where the engine bound the initial thread itself.
fn usable_now(limits: &Limits) -> usize {
    let own = Tid(std::process::id().cast_signed());
    let read = || affinity::affinity(Some(own)).or_else(|_| affinity::affinity(None));
    match engine().mask_of_bound().map_or_else(read, |mask| Ok(mask.clone())) {
        Ok(mask) => usable_processors(&mask, limits),
        Err(_) => 1,
    }
}

impl TeamSizer for MaskAndQuota {
    fn limit(&self) -> usize {
        // ORDERING: Relaxed - a number on its own.
        self.limit.load(Relaxed)
    }

    fn refresh(&self) {
        self.refresh_at(monotonic_ns(), engine().load());
    }

    fn forks_nothing(&self, _: Seal) -> bool {
        true
    }
}

/// Time that a program spends at most on registering before it goes on without a manager; the watcher's thread then goes on trying.
const REGISTRATION: Duration = Duration::from_millis(500);

/// The sizer for this process: the manager's when one answers, or has had no time to answer yet, else mask and quota. The flag
/// tells which.
pub(crate) fn discover(adapt: bool, library: &str, processors: usize) -> (Box<dyn TeamSizer>, bool) {
    let _aside = Aside::begin();
    if adapt && let Some(managed) = register(library, processors) {
        return (Box::new(managed), true);
    }
    (Box::new(MaskAndQuota::new()), false)
}

fn register(library: &str, processors: usize) -> Option<Managed> {
    let (path, explicit) = match find_socket() {
        SocketChoice::Off | SocketChoice::None => return None,
        SocketChoice::Explicit(path) => (path, true),
        SocketChoice::Found(path) => (path, false),
    };
    let wanted = u32::try_from(processors).unwrap_or(u32::MAX);
    let hello = Hello {
        max_processors: wanted,
        request: wanted,
        fixed_team: false,
        library: library.to_owned(),
        // What its threads are bound within (`placement`): explicit places, taskset, a cpuset (D14).
        within: Some(engine().mask().clone()),
    };
    match Client::connect(&path, &hello, REGISTRATION) {
        Ok(client) => Some(managed_by(client, &path)),
        Err(error) => {
            // One that had no time for us takes us in later: mask and quota count until then.
            let later = error.may_pass().then(|| Client::expect(&path, &hello).ok()).flatten();
            let until = if later.is_some() { " until it answers" } else { "" };
            // A manager that was named and does not answer is worth a line; one that merely might be there is not.
            if explicit {
                say(format_args!("nanos: {error}; running without a manager{until} (NANOS_CPUMGR={})", path.display()));
            }
            later.map(Managed::new)
        }
    }
}

/// Follows `client`, in the domain of the manager at `path` if it has one.
fn managed_by(client: Client, path: &Path) -> Managed {
    let has_domain = client.has_domain();
    let managed = Managed::new(client);
    if !has_domain {
        return managed;
    }
    match Domain::join(path, REGISTRATION) {
        Ok(domain) => managed.in_domain(domain),
        Err(error) => managed.outside_domain(&error),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A control group with a quota, below a folder of its own.
    struct Group(tempfile::TempDir);

    impl Group {
        fn new() -> Self {
            let own = Self(tempfile::tempdir().expect("a folder"));
            own.write("proc/self/mountinfo", "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
            own.write("proc/self/cgroup", "0::/a\n");
            own.write("groups/a/cpu.max", "100000 100000\n");
            own.throttled(4);
            own
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            std::fs::create_dir_all(path.parent().expect("below the folder")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }

        fn throttled(&self, periods: u32) {
            self.write("groups/a/cpu.stat", &format!("nr_periods 99\nnr_throttled {periods}\n"));
        }

        fn roots(&self) -> [&'static str; 2] {
            ["proc", "groups"].map(|name| &*self.0.path().join(name).display().to_string().leak())
        }
    }

    #[test]
    fn a_throttled_period_is_evidence_of_others_and_an_old_one_is_none() {
        let group = Group::new();
        let sizer = MaskAndQuota::below(group.roots());
        assert_eq!(sizer.limit(), 1, "the quota pays for one");
        let mut now = monotonic_ns();
        let mut is_seen = |periods| {
            let load = Load::default();
            group.throttled(periods);
            now += LOOK_INTERVAL.as_nanos() as u64;
            sizer.refresh_at(now, &load);
            load.is_seen()
        };
        assert!(!is_seen(4), "that was before the program began");
        assert!(is_seen(5));
        assert!(!is_seen(5), "that was seen before");
        assert!(is_seen(9));
        // Not yet due: the files are not read at all.
        let load = Load::default();
        group.throttled(10);
        sizer.refresh_at(now, &load);
        assert!(!load.is_seen());
        group.write("groups/a/cpu.max", "max 100000\n");
        sizer.refresh_at(now + LOOK_INTERVAL.as_nanos() as u64, &load);
        assert!(!load.is_seen(), "without a quota nothing stops the program");
    }
}
