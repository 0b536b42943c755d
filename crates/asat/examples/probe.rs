//! How well each kind of evidence tells a team that shares its processors from one that does not.
//!
//! `cargo run --release -p nanothreads-asat --example probe -- [SECONDS]`: for each number of hogs
//! (0, 1, 2, 4; processes that only spin), unbound and each bound to one processor, SECONDS (4) of
//! regions of some 200 us by a team of all processors. Every 50 ms, in turn: a barrier alone, a
//! barrier with a watch, and what the kernel and the engine tell of the interval before. For each
//! it prints the median and the largest passage, and in how many of a hundred it was bad: with 0
//! hogs these are false alarms, with some it is the rate of detection.
//!
//! Options: `--bound` keeps each thread of the team on a processor of its own.

use asat::{Meeting, Passage, Plan, Sample, Share};
use engine::{Member, Team};
use platform::affinity::{CpuId, CpuSet, Tid, affinity, current_tid, set_affinity};
use platform::scheduling;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(50);
const BARRIER: Plan =
    Plan { bad_time: Duration::from_millis(1), watch: Duration::ZERO, early_stop: false };
const WATCH: Plan = Plan { watch: Duration::from_millis(9), early_stop: true, ..BARRIER };

/// What the members of a region say of themselves.
static TIDS: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// # Safety
/// - Needs nothing.
unsafe fn introduce(_: *const (), member: Member) {
    if let Some(place) = TIDS.get(member.id as usize) {
        place.store(current_tid().0, Relaxed);
    }
}

/// # Safety
/// - Needs nothing.
unsafe fn work(_: *const (), _: Member) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
}

/// A process that spins, here or on one processor, until it is dropped.
struct Hog(Child);

impl Hog {
    fn start(on: Option<CpuId>) -> Self {
        let program = std::env::current_exe().expect("this program");
        let place = on.map_or_else(String::new, |cpu| cpu.0.to_string());
        Self(Command::new(program).arg("--hog").arg(place).spawn().expect("it runs again"))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spin(on: &str) -> ! {
    if let Ok(cpu) = on.parse() {
        set_affinity(None, &CpuSet::single(CpuId(cpu))).expect("a processor of the mask");
    }
    // Not for ever, where what started it was killed.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(600) {
        std::hint::spin_loop();
    }
    std::process::exit(0)
}

/// The numbers of one thread so far.
fn reading(tid: Tid) -> Option<(scheduling::Experience, u64)> {
    Some((scheduling::experience(tid)?, scheduling::involuntary_switches(tid)?))
}

/// What came of one kind of evidence.
#[derive(Default)]
struct Column {
    bad: usize,
    all: usize,
    passages: Vec<Duration>,
}

impl Column {
    fn passed(&mut self, passage: Passage) {
        self.note(passage.missing > 0);
        self.passages.push(passage.time);
    }

    fn note(&mut self, is_bad: bool) {
        self.bad += usize::from(is_bad);
        self.all += 1;
    }

    fn rate(&self) -> f64 {
        100.0 * self.bad as f64 / self.all.max(1) as f64
    }

    /// The median and the largest.
    fn spread(&mut self) -> (Duration, Duration) {
        self.passages.sort();
        let at = |index: usize| self.passages.get(index).copied().unwrap_or_default();
        (at(self.passages.len() / 2), at(self.passages.len().saturating_sub(1)))
    }
}

/// Regions and tests of a team of `size` for `time`.
fn measure(size: usize, time: Duration) -> [Column; 3] {
    let tids: Vec<Tid> = TIDS[..size].iter().map(|tid| Tid(tid.load(Relaxed))).collect();
    let mut meeting = Meeting::default();
    meeting.make_room(size);
    let [mut barrier, mut watch, mut passive] = <[Column; 3]>::default();
    let begin = Instant::now();
    let mut turn = 0_u32;
    while begin.elapsed() < time {
        let before: Vec<_> = tids.iter().map(|tid| reading(*tid)).collect();
        let (since, absences) = (Instant::now(), engine::absences());
        while since.elapsed() < INTERVAL {
            // SAFETY: - `work` takes no data, and does not unwind.
            unsafe { Team::reserve(size).run(work, std::ptr::null()) };
        }
        let shares: Vec<Share> = tids
            .iter()
            .zip(before)
            .filter_map(|(tid, before)| {
                let ((then, switches), (now, switched)) = (before?, reading(*tid)?);
                Some(Share {
                    ran: now.ran.saturating_sub(then.ran),
                    delayed: now.delayed.saturating_sub(then.delayed),
                    switches: switched.saturating_sub(switches),
                })
            })
            .collect();
        let absences = engine::absences() - absences;
        let sample = Sample { length: since.elapsed(), shares: &shares, absences };
        passive.note(sample.missing() > Some(0));
        let (column, plan) =
            if turn.is_multiple_of(2) { (&mut barrier, BARRIER) } else { (&mut watch, WATCH) };
        if let Some(passage) = meeting.hold(size, &plan) {
            column.passed(passage);
        }
        turn += 1;
    }
    [barrier, watch, passive]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [hog, place] = &arguments[..]
        && hog == "--hog"
    {
        spin(place);
    }
    let is_bound = arguments.iter().any(|argument| argument == "--bound");
    let seconds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(4);
    let mask = affinity(None).expect("a mask");
    let config = engine::Config { bind: is_bound, adapt: false, ..Default::default() };
    assert!(engine::configure(config), "nothing was forked before");
    let size = engine::processors().min(TIDS.len());
    // SAFETY: - takes no data, and does not unwind.
    unsafe { Team::reserve(size).run(introduce, std::ptr::null()) };
    println!("# {size} threads on {mask}, bound: {is_bound}; {seconds} s a row");
    println!(
        "| hogs | they are | barrier: median, most, bad | watch: median, most, bad | passive: bad |"
    );
    println!("|---|---|---|---|---|");
    for hogs in [0, 1, 2, 4] {
        for hogs_are_bound in [false, true] {
            if hogs == 0 && hogs_are_bound {
                continue;
            }
            let cpus: Vec<CpuId> = mask.iter().collect();
            let running: Vec<Hog> = (0..hogs)
                .map(|at| {
                    Hog::start(hogs_are_bound.then(|| cpus[cpus.len() - 1 - at % cpus.len()]))
                })
                .collect();
            // The kernel settles them.
            std::thread::sleep(Duration::from_millis(300));
            let [mut barrier, mut watch, passive] = measure(size, Duration::from_secs(seconds));
            let (b, w) = (barrier.spread(), watch.spread());
            println!(
                "| {hogs} | {} | {:.3?}, {:.3?}, {:.0} % | {:.3?}, {:.3?}, {:.0} % | {:.0} % of {} |",
                if hogs_are_bound { "bound" } else { "free" },
                b.0,
                b.1,
                barrier.rate(),
                w.0,
                w.1,
                watch.rate(),
                passive.rate(),
                passive.all,
            );
            drop(running);
        }
    }
}
