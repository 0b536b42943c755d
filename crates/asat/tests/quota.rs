//! A control group's quota: teams have no more threads than it pays for, from the next look on.
//!
//! Needs a group of the controller `cpu` in which this user may make another: `NANOS_QUOTA_GROUP`
//! names one, otherwise those of the system are tried.

mod support;

use asat::Settings;
use platform::affinity::affinity;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};
use support::{evaluations, is_own_process, until};

/// The test's own process finds its group here.
const GROUP: &str = "NANOS_TEST_GROUP";
/// However busy the machine is, what is waited for comes earlier.
const LONGEST: Duration = Duration::from_secs(60);
/// Microseconds.
const PERIOD: u32 = 100_000;

/// A group of the test; dropped = removed, when its process has ended.
struct Group(PathBuf);

impl Group {
    /// One that may have a quota, or why there is none.
    fn new() -> io::Result<Self> {
        let named = std::env::var_os("NANOS_QUOTA_GROUP").map(PathBuf::from);
        let usual = ["cpu", "cpu,cpuacct", "unified", ""]
            .map(|name| Path::new("/sys/fs/cgroup").join(name));
        let mut fault = io::Error::other("no control groups of processors are mounted");
        for above in named.into_iter().chain(usual) {
            match Self::below(&above) {
                Ok(group) => return Ok(group),
                Err(failed) if failed.kind() == io::ErrorKind::NotFound => {}
                Err(failed) => fault = failed,
            }
        }
        Err(fault)
    }

    fn below(above: &Path) -> io::Result<Self> {
        if !above.join("cgroup.procs").is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let folder = above.join(format!("nanos-test-quota-{}", std::process::id()));
        fs::create_dir(&folder)?;
        let group = Self(folder);
        // Version 2 gives a group the controller only where the one above hands it on.
        group.limit(None)?;
        Ok(group)
    }

    /// So many processors, or all.
    fn limit(&self, processors: Option<f64>) -> io::Result<()> {
        let time = processors.map(|processors| (processors * f64::from(PERIOD)) as u32);
        let first = self.0.join("cpu.cfs_quota_us");
        if first.is_file() {
            fs::write(self.0.join("cpu.cfs_period_us"), PERIOD.to_string())?;
            return fs::write(first, time.map_or_else(|| "-1".to_owned(), |time| time.to_string()));
        }
        let time = time.map_or_else(|| "max".to_owned(), |time| time.to_string());
        // Without `create`: a file that is not there is no controller.
        let mut file = fs::OpenOptions::new().write(true).open(self.0.join("cpu.max"))?;
        io::Write::write_all(&mut file, format!("{time} {PERIOD}").as_bytes())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The kernel may still take its process down.
        for _ in 0..1000 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::yield_now();
        }
        eprintln!("the control group {} could not be removed", self.0.display());
    }
}

/// Runs regions until their size is `size`, and the most is as much, too.
fn becomes(all: usize, size: usize) {
    let most = || asat::statistics().map(|statistics| statistics.most);
    let found = until(all, LONGEST, |now| now == size && most() == Some(size));
    assert!(found.is_some(), "not {size} threads: {:?}", asat::statistics());
}

fn follows(group: &Path) {
    let group = std::mem::ManuallyDrop::new(Group(group.to_owned()));
    let all = affinity(None).expect("a mask").len();
    group.limit(Some(1.0)).expect("a quota");
    fs::write(group.0.join("cgroup.procs"), std::process::id().to_string()).expect("its process");
    assert!(asat::install(Settings::default().jitter(None)));
    assert_eq!(engine::processors(), 1, "what it pays for at the start");
    // As long as it pays for one thread there is one, whatever evaluations find.
    let looks = until(all, LONGEST, |size| {
        assert_eq!(size, 1);
        let (seen, blind) = evaluations();
        seen + blind >= 10
    });
    assert!(looks.is_some(), "{:?}", asat::statistics());
    group.limit(None).expect("no quota");
    becomes(all, all);
    // Half a processor more than one is of no use to a team whose threads wait for each other.
    group.limit(Some(1.5)).expect("a quota");
    becomes(all, 1);
    group.limit(None).expect("no quota");
    becomes(all, all);
}

#[test]
fn a_quota_of_one_processor_takes_all_threads_but_one_until_it_is_lifted() {
    const TEST: &str = "a_quota_of_one_processor_takes_all_threads_but_one_until_it_is_lifted";
    if let Some(group) = std::env::var_os(GROUP) {
        assert!(is_own_process(TEST, &[]));
        return follows(Path::new(&group));
    }
    if affinity(None).expect("a mask").len() < 2 {
        return platform::skip!("one processor: no quota of one takes anything");
    }
    let group = match Group::new() {
        Ok(group) => group,
        Err(fault) => {
            return platform::skip!("no control group with a quota can be made here: {fault}");
        }
    };
    is_own_process(TEST, &[(GROUP, &group.0.display().to_string())]);
}
