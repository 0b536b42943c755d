//! How well each kind of evidence tells a team that shares its processors from one that does not.
//!
//! `cargo run --release -p nanothreads-asat --example probe -- [SECONDS]`: for each number of hogs
//! (0, 1, 2, 4; processes that only spin), unbound and each bound to one processor, SECONDS (4) of
//! regions of some 200 us by a team of all processors. Every 50 ms, in turn: a barrier alone, a
//! barrier with a watch, and what the kernel and the engine tell of the interval before, by which
//! the default version evaluates. For each it prints the median and the largest passage, and how
//! many evaluations of how many were bad (a doubtful one only after a doubtful one, as the
//! controller takes it): with 0 hogs these are false alarms, with some it is the rate of detection.
//! Lines at the end hold the sums against the bars, [`DETECTION`] and [`FALSE_ALARMS`].
//!
//! Options: `--bound` keeps each thread of the team on a processor of its own; `--csv FILE` writes
//! a line for each single evaluation.

use asat::{Meeting, Passage, Plan, Sample, Share};
use engine::{Member, Team};
use platform::affinity::{CpuId, CpuSet, Tid, affinity, current_tid, set_affinity};
use platform::scheduling;
use std::fmt::Write as _;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(50);
const BARRIER: Plan =
    Plan { bad_time: Duration::from_millis(1), watch: Duration::ZERO, early_stop: false };
/// At least so much of a hundred evaluations beside hogs is bad.
const DETECTION: f64 = 90.0;
/// At most so much of a hundred without hogs is bad.
const FALSE_ALARMS: f64 = 2.0;

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

/// One evaluation.
struct Evaluation {
    /// Since the row began.
    at: Duration,
    /// The passage; passive evidence has none.
    passage: Option<Duration>,
    /// Threads without a processor; `None`: there was no evidence.
    missing: Option<usize>,
}

/// What came of one kind of evidence.
#[derive(Default)]
struct Column {
    bad: usize,
    all: usize,
    passages: Vec<Duration>,
    evaluations: Vec<Evaluation>,
}

impl Column {
    fn passed(&mut self, at: Duration, passage: Passage) {
        self.passages.push(passage.time);
        self.note(Evaluation { at, passage: Some(passage.time), missing: Some(passage.missing) });
    }

    /// What has no evidence is an evaluation that was not bad.
    fn note(&mut self, evaluation: Evaluation) {
        self.bad += usize::from(evaluation.missing > Some(0));
        self.all += 1;
        self.evaluations.push(evaluation);
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

    /// How many were bad of how many.
    fn shown(&self) -> String {
        format!("{} of {} ({:.0} %)", self.bad, self.all, self.rate())
    }
}

/// Regions and tests of a team of `size` for `time`.
fn measure(size: usize, time: Duration) -> [Column; 3] {
    let tids: Vec<Tid> = TIDS[..size].iter().map(|tid| Tid(tid.load(Relaxed))).collect();
    let mut meeting = Meeting::default();
    meeting.make_room(size);
    let watching = Plan::of_this_kernel();
    let [mut barrier, mut watch, mut passive] = <[Column; 3]>::default();
    let begin = Instant::now();
    let (mut turn, mut is_in_doubt) = (0_u32, false);
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
        let at = begin.elapsed();
        is_in_doubt = sample.is_doubtful() && !is_in_doubt;
        let missing = if is_in_doubt { Some(0) } else { sample.missing() };
        passive.note(Evaluation { at, passage: None, missing });
        let (column, plan) =
            if turn.is_multiple_of(2) { (&mut barrier, BARRIER) } else { (&mut watch, watching) };
        if let Some(passage) = meeting.hold(size, &plan) {
            column.passed(at, passage);
        }
        turn += 1;
    }
    [barrier, watch, passive]
}

/// The names of the columns.
const EVIDENCE: [&str; 3] = ["barrier", "watch", "passive"];

/// The line of each evaluation of a row.
fn record(csv: &mut String, row: &str, columns: &[Column; 3]) {
    for (evidence, column) in EVIDENCE.iter().zip(columns) {
        for Evaluation { at, passage, missing } in &column.evaluations {
            let passage = passage.map_or_else(String::new, |time| time.as_nanos().to_string());
            let missing = missing.map_or_else(String::new, |missing| missing.to_string());
            let at = at.as_micros();
            let _infallible = writeln!(csv, "{row},{evidence},{at},{passage},{missing}");
        }
    }
}

/// Bad evaluations and all of them, by kind of evidence, without hogs and with some.
#[derive(Default)]
struct Sums([[(usize, usize); 3]; 2]);

impl Sums {
    fn add(&mut self, hogs: usize, columns: &[Column; 3]) {
        for (sum, column) in self.0[usize::from(hogs > 0)].iter_mut().zip(columns) {
            *sum = (sum.0 + column.bad, sum.1 + column.all);
        }
    }

    /// A line for each bar and kind of evidence.
    fn against_bars(&self) -> String {
        let mut text = String::new();
        for (at, evidence) in EVIDENCE.iter().enumerate() {
            let rate = |(bad, all): (usize, usize)| 100.0 * bad as f64 / all.max(1) as f64;
            let [alarms, found] = [self.0[0][at], self.0[1][at]];
            let verdict = |is_met: bool| if is_met { "met" } else { "MISSED" };
            let _infallible = writeln!(
                text,
                "{evidence}: detection {} of {} ({:.1} %, at least {DETECTION} %: {}); false \
                 alarms {} of {} ({:.1} %, at most {FALSE_ALARMS} %: {})",
                found.0,
                found.1,
                rate(found),
                verdict(rate(found) >= DETECTION),
                alarms.0,
                alarms.1,
                rate(alarms),
                verdict(rate(alarms) <= FALSE_ALARMS)
            );
        }
        text
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [hog, place] = &arguments[..]
        && hog == "--hog"
    {
        spin(place);
    }
    let is_bound = arguments.iter().any(|argument| argument == "--bound");
    let file = arguments
        .iter()
        .position(|argument| argument == "--csv")
        .map(|at| arguments.get(at + 1).expect("--csv: the name of a file").clone());
    let seconds = arguments.iter().find_map(|argument| argument.parse().ok()).unwrap_or(4);
    let mask = affinity(None).expect("a mask");
    let mut config = engine::Config::default();
    (config.bind, config.adapt) = (is_bound, false);
    assert!(engine::configure(config), "nothing was forked before");
    let size = engine::processors().min(TIDS.len());
    // SAFETY: - takes no data, and does not unwind.
    unsafe { Team::reserve(size).run(introduce, std::ptr::null()) };
    let watch = Plan::of_this_kernel().watch;
    println!("# {size} threads on {mask}, bound: {is_bound}; watch {watch:?}; {seconds} s a row");
    println!(
        "| hogs | they are | barrier: median, most, bad | watch: median, most, bad | passive: bad |"
    );
    println!("|---|---|---|---|---|");
    let mut sums = Sums::default();
    let mut csv = String::from("team_bound,hogs,hogs_bound,evidence,at_us,passage_ns,missing\n");
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
            let mut columns = measure(size, Duration::from_secs(seconds));
            sums.add(hogs, &columns);
            record(&mut csv, &format!("{is_bound},{hogs},{hogs_are_bound}"), &columns);
            let [barrier, watch, passive] = &mut columns;
            let (b, w) = (barrier.spread(), watch.spread());
            println!(
                "| {hogs} | {} | {:.3?}, {:.3?}, {} | {:.3?}, {:.3?}, {} | {} |",
                if hogs_are_bound { "bound" } else { "free" },
                b.0,
                b.1,
                barrier.shown(),
                w.0,
                w.1,
                watch.shown(),
                passive.shown(),
            );
            drop(running);
        }
    }
    println!("{}", sums.against_bars().trim_end());
    if let Some(file) = file
        && let Err(fault) = std::fs::write(&file, csv)
    {
        eprintln!("--csv: cannot write {file}: {fault}");
        std::process::exit(1);
    }
}
