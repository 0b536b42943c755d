//! A real hog, bound to one processor, appears and leaves: the team of the default version follows
//! both within three evaluations. No time is judged, and a try may fail: strangers have a share in
//! what the kernel says.

mod support;

use asat::Settings;
use platform::affinity::{CpuSet, Tid, affinity, set_affinity};
use platform::clock::monotonic_ns;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{evaluations, is_own_process, until};

/// Evaluations within which the team follows.
const SOON: u64 = 3;
/// Tries at most, and those in which it has to follow.
const TRIES: usize = 30;
const WANTED: usize = 6;
/// A team is whole for so many evaluations before a hog comes: a second in which tests are saved
/// for the one that its leave asks for.
const REST: u64 = 24;
/// However busy the machine is, a step ends by then.
const LONGEST: Duration = Duration::from_secs(20);
/// Others used so many processors: the machine says nothing.
const STRANGERS: f64 = 0.1;

/// A process that spins on one processor, while this lives; without its parent it ends, too.
struct Hog(Child);

impl Hog {
    fn on(cpus: &CpuSet) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "while kill -0 $PPID; do :; done"]).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let hog = Self(command.spawn().expect("a shell"));
        let tid = Tid(hog.0.id().cast_signed());
        set_affinity(Some(tid), cpus).expect("a processor of the mask");
        hog
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn looks() -> u64 {
    let (seen, blind) = evaluations();
    seen + blind
}

/// Runs regions until their size is as `is_enough` says: evaluations that it took.
fn follows(most: usize, is_enough: impl FnMut(usize) -> bool) -> Option<u64> {
    let before = looks();
    until(most, LONGEST, is_enough).map(|_| looks() - before)
}

/// Runs regions until all of them had all processors for [`REST`] evaluations.
fn rests(most: usize) -> bool {
    let mut whole = looks();
    let rested = until(most, LONGEST, |size| {
        if size < most {
            whole = looks();
        }
        looks() >= whole + REST
    });
    rested.is_some()
}

/// Nanoseconds that the machine's processors were busy, and those of this process.
fn used() -> Option<(u64, u64)> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    // user nice system idle iowait irq softirq steal
    let words = text.lines().next()?.split_whitespace().skip(1);
    let fields: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let ticks: u64 = [0, 1, 2, 5, 6, 7].iter().filter_map(|at| fields.get(*at)).sum();
    let mut own = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - `own` outlives the call.
    let code = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut own) };
    let own = own.tv_sec.cast_unsigned() * 1_000_000_000 + own.tv_nsec.cast_unsigned();
    (code == 0).then_some((ticks * 10_000_000, own))
}

/// Processors that others use while the team rests; `None`: it does not come to rest.
fn strangers(most: usize) -> Option<f64> {
    let (begin, before) = (monotonic_ns(), used());
    let rested = rests(most);
    let (Some(before), Some(after)) = (before, used()) else { return rested.then_some(0.0) };
    let others = (after.0 - before.0) as f64 - (after.1 - before.1) as f64;
    rested.then_some(others.max(0.0) / (monotonic_ns() - begin) as f64)
}

#[test]
fn a_hog_on_one_processor_is_followed_within_three_evaluations_and_so_is_its_leave() {
    const TEST: &str =
        "a_hog_on_one_processor_is_followed_within_three_evaluations_and_so_is_its_leave";
    let mask = affinity(None).expect("a mask");
    let Some(last) = mask.last().filter(|_| mask.len() > 1) else {
        return platform::skip!("one processor: there is nothing to take away");
    };
    if !is_own_process(TEST, &[]) {
        return;
    }
    assert!(asat::install(Settings::default().jitter(None)));
    let most = engine::processors();
    if most < 2 {
        return platform::skip!("a quota of one processor: there is nothing to take away");
    }
    let last = CpuSet::single(last);
    let (mut tries, mut others) = (Vec::new(), Vec::new());
    let mut followed = (0, 0);
    while tries.len() < TRIES && followed.0.min(followed.1) < WANTED {
        let Some(used) = strangers(most) else {
            return platform::skip!(busy: "others use the processors: the team stays small");
        };
        others.push(used);
        let hog = Hog::on(&last);
        let smaller = follows(most, |size| size < most);
        drop(hog);
        let whole = follows(most, |size| size == most);
        let is_soon = |took: Option<u64>| usize::from(took.is_some_and(|took| took <= SOON));
        followed = (followed.0 + is_soon(smaller), followed.1 + is_soon(whole));
        tries.push((smaller, whole));
    }
    println!("evaluations until it was smaller, and whole again: {tries:?}");
    if followed.0.min(followed.1) >= WANTED {
        return;
    }
    others.sort_by(f64::total_cmp);
    let others = others[others.len() / 2];
    if others > STRANGERS {
        return platform::skip!(busy: "strangers used {others:.2} processors: {tries:?}");
    }
    panic!("{followed:?} of {} tries followed soon: {tries:?}", tries.len());
}
