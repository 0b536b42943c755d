//! Team sizes without a manager: affinity mask and cgroup quota.

use crate::program::program;
use crate::sizer::{Seal, TeamSizer};
use platform::affinity::{self, CpuSet, Tid};
use platform::cgroup::{Limits, throttled_periods_in, usable_processors};
use platform::clock::monotonic_ns;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// What the affinity mask and the cgroup quota allow; looked up again while the program runs. On a
/// line of its own: threads that fork or wait read it.
#[derive(Debug)]
#[repr(align(128))]
pub struct MaskAndQuota {
    limit: AtomicUsize,
    looked_ns: AtomicU64,
    /// Periods in which a quota stopped us, at the last look.
    throttled: AtomicU64,
    /// Where the kernel tells of processes, and of control groups.
    roots: [&'static str; 2],
    process: Process,
}

/// What has to be known of the process, and told to it.
#[derive(Clone, Copy, Debug)]
struct Process {
    /// The original mask, if the engine binds its masters.
    mask_of_bound: fn() -> Option<CpuSet>,
    /// The quota stopped the process: evidence that others want its processors (D16).
    throttled: fn(),
}

/// Those of every system.
const ROOTS: [&str; 2] = ["/proc", "/sys/fs/cgroup"];

/// Time between two looks at mask and quota.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

impl MaskAndQuota {
    /// Of this program; reads the current limits.
    pub fn of_program() -> Self {
        let process = Process {
            mask_of_bound: || program().mask_of_bound().cloned(),
            throttled: || program().load().note(),
        };
        Self::below(ROOTS, process)
    }

    fn below(roots: [&'static str; 2], process: Process) -> Self {
        let own = Self {
            limit: AtomicUsize::new(1),
            looked_ns: AtomicU64::new(monotonic_ns()),
            throttled: AtomicU64::new(0),
            roots,
            process,
        };
        own.look();
        own
    }

    /// Looks at mask and quota. True when the quota stopped us since the last look.
    fn look(&self) -> bool {
        let [processes, groups] = self.roots.map(Path::new);
        // A cgroup tree that cannot be read limits nothing that we could know of.
        let limits = Limits::read_from(processes, groups).unwrap_or_default();
        // ORDERING: Relaxed - numbers on their own; two threads that look at once store the same
        // facts.
        self.limit.store(self.usable_now(&limits), Relaxed);
        if limits.quota.is_none() {
            return false;
        }
        let periods = throttled_periods_in(processes, groups).ok().flatten().unwrap_or(0);
        periods > self.throttled.swap(periods, Relaxed)
    }

    /// Looks again where the last look is long ago.
    fn refresh_at(&self, now: u64) {
        // ORDERING: Relaxed - two threads that look at once store the same facts.
        if now.saturating_sub(self.looked_ns.load(Relaxed)) >= LOOK_INTERVAL.as_nanos() as u64 {
            self.looked_ns.store(now, Relaxed);
            if self.look() {
                (self.process.throttled)();
            }
        }
    }

    /// Processors of the initial thread's mask, less what a quota forbids. The initial thread's,
    /// because the engine may place the calling one for a moment. The original mask where the
    /// engine bound the initial thread itself.
    fn usable_now(&self, limits: &Limits) -> usize {
        let own = Tid(std::process::id().cast_signed());
        let read = || affinity::affinity(Some(own)).or_else(|_| affinity::affinity(None));
        match (self.process.mask_of_bound)().map_or_else(read, Ok) {
            Ok(mask) => usable_processors(&mask, limits),
            Err(_) => 1,
        }
    }
}

impl TeamSizer for MaskAndQuota {
    fn limit(&self) -> usize {
        // ORDERING: Relaxed - a number on its own.
        self.limit.load(Relaxed)
    }

    fn refresh(&self) {
        self.refresh_at(monotonic_ns());
    }

    fn forks_nothing(&self, _: Seal) -> bool {
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        /// The sizer said that a quota stopped it.
        static NOTED: Cell<bool> = const { Cell::new(false) };
    }

    /// A control group with a quota, below a folder of its own.
    struct Group(tempfile::TempDir);

    impl Group {
        fn new() -> Self {
            let own = Self(tempfile::tempdir().expect("a folder"));
            own.write(
                "proc/self/mountinfo",
                "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            );
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
        let process =
            Process { mask_of_bound: || None, throttled: || NOTED.with(|noted| noted.set(true)) };
        let sizer = MaskAndQuota::below(group.roots(), process);
        assert_eq!(sizer.limit(), 1, "the quota pays for one");
        let mut now = monotonic_ns();
        let mut is_seen = |periods| {
            group.throttled(periods);
            now += LOOK_INTERVAL.as_nanos() as u64;
            sizer.refresh_at(now);
            NOTED.take()
        };
        assert!(!is_seen(4), "that was before the program began");
        assert!(is_seen(5));
        assert!(!is_seen(5), "that was seen before");
        assert!(is_seen(9));
        // Not yet due: the files are not read at all.
        group.throttled(10);
        sizer.refresh_at(now);
        assert!(!NOTED.take());
        group.write("groups/a/cpu.max", "max 100000\n");
        sizer.refresh_at(now + LOOK_INTERVAL.as_nanos() as u64);
        assert!(!NOTED.take(), "without a quota nothing stops the program");
    }
}
