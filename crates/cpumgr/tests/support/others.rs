//! Waiting for what happens only where no other program uses the machine: a stranger that is there
//! all the time keeps its processor for as long. Whether one was is measured, and not assumed.

use std::time::{Duration, Instant};

use platform::load;
use platform::process::Pid;

use super::PATIENCE;

/// Processors that others use at which nothing can be said any more: less than the manager leaves
/// to any stranger.
const QUIET: f64 = 0.1;

/// Whether this process and its children have a lower priority than others: a manager takes such
/// programs for no strangers. Prints that, too.
pub(crate) fn is_low() -> bool {
    let nice = procfs::process::Process::myself().unwrap().stat().unwrap().nice;
    if nice > 0 {
        platform::skip!("this process runs at nice {nice}, and its children are no strangers then");
    }
    nice > 0
}

/// Looks until something is so. `None`, with a printed reason: it never was, and processes other
/// than `ours` (and this one) used processors meanwhile.
pub(crate) fn eventually_alone<T>(
    what: &str,
    ours: &[u32],
    mut look: impl FnMut() -> Option<T>,
) -> Option<T> {
    let (begin, before) = (Instant::now(), used_by_others(ours));
    while begin.elapsed() < PATIENCE {
        if let Some(found) = look() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let used = used_by_others(ours).saturating_sub(before);
    let others = used as f64 / begin.elapsed().as_nanos() as f64;
    assert!(
        others >= QUIET,
        "not within {PATIENCE:?}, though others used {others:.3} processors only: {what}"
    );
    platform::skip!(busy: "others used {others:.3} processors, and it is not so for that: {what}");
    None
}

/// What processes ran, in ns, without `ours`, which live.
fn used_by_others(ours: &[u32]) -> u64 {
    let ran = |pid: u32| load::ran(Pid(pid.cast_signed())).unwrap();
    let ours: u64 = ours.iter().copied().chain([std::process::id()]).map(ran).sum();
    let all: u64 = load::busy().unwrap().into_iter().map(|(_, ns)| ns).sum();
    all.saturating_sub(ours)
}
