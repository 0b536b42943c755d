//! Regions with a gap before each: what waiting threads cost, and what waking them costs.

use crate::bare;
use crate::harness::place::Row;
use crate::harness::sample::{Measure, Subject};
use crate::harness::{Bar, Case, median, regions};
use std::thread;
use std::time::{Duration, Instant};

/// The gap before each region, and what the master does meanwhile.
const GAPS: [(&str, Duration, Master); 7] = [
    ("gap of 1 us", Duration::from_micros(1), Master::Computes),
    ("gap of 10 us", Duration::from_micros(10), Master::Computes),
    ("gap of 100 us", Duration::from_micros(100), Master::Computes),
    ("gap of 1 ms", Duration::from_millis(1), Master::Computes),
    ("gap of 5 ms", Duration::from_millis(5), Master::Computes),
    ("gap of 1 ms, master asleep", Duration::from_millis(1), Master::Sleeps),
    ("gap of 5 ms, master asleep", Duration::from_millis(5), Master::Sleeps),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Master {
    Computes,
    Sleeps,
}

/// Idle threads may go on for this long.
const SETTLE: Duration = Duration::from_micros(200);
/// Gaps shorter than this are too short to read the processor time in each.
const READABLE: Duration = Duration::from_micros(50);
const SAMPLE: Duration = Duration::from_millis(120);
/// Regions before the ones that count: an engine may learn how long it waits.
const WARM_UP: u32 = 5;

pub(super) fn cases() -> impl Iterator<Item = Case> {
    GAPS.into_iter().map(|(name, gap, master)| Case {
        name: name.into(),
        measure: regions::with_share(after(gap, master)),
        extras: &["cpu %", "cpu late %", "parallel %"],
        engines: {
            let mut engines = regions::engines(regions::count, || regions::counted(2, 1));
            engines.push(bare::engine());
            engines
        },
        bar: (gap == Duration::from_millis(1)).then_some(Bar::TimesOf {
            engines: &["rayon broadcast"],
            row: Some(Row::Bound),
            factor: 0.5,
        }),
    })
}

/// Median time of a region after a gap; how much of one processor all other threads used in the
/// gaps, and how much after [`SETTLE`], in percent.
fn after(gap: Duration, master: Master) -> Measure {
    Box::new(move |subject| {
        for _ in 0..WARM_UP {
            one(subject, gap, master);
        }
        let begin = Instant::now();
        let others_before = others();
        let mut times = Vec::new();
        let (mut use_in_gaps, mut use_late) = (Duration::ZERO, Duration::ZERO);
        while begin.elapsed() < SAMPLE {
            let (time, used, late) = one(subject, gap, master);
            times.push(time.as_secs_f64() * 1e9);
            use_in_gaps += used;
            use_late += late;
        }
        let percent = |used: Duration, of: f64| 100.0 * used.as_secs_f64() / of;
        let gaps = times.len() as f64;
        if gap < READABLE {
            let all =
                percent(others().saturating_sub(others_before), begin.elapsed().as_secs_f64());
            return vec![median(&mut times), all, f64::NAN];
        }
        let late = match gap.checked_sub(SETTLE) {
            Some(rest) => percent(use_late, gaps * rest.as_secs_f64()),
            None => f64::NAN,
        };
        vec![median(&mut times), percent(use_in_gaps, gaps * gap.as_secs_f64()), late]
    })
}

/// One gap and one region: the region's time, and processor time of the others in the gap, and in
/// its late part.
fn one(subject: &mut Subject, gap: Duration, master: Master) -> (Duration, Duration, Duration) {
    let (mut used, mut late) = (Duration::ZERO, Duration::ZERO);
    if gap < READABLE {
        wait(gap, master);
    } else {
        let before = others();
        let settle = gap.min(SETTLE);
        wait(settle, master);
        let settled = if gap > SETTLE { others() } else { before };
        wait(gap - settle, master);
        let after = others();
        used = after.saturating_sub(before);
        late = after.saturating_sub(settled);
    }
    let start = Instant::now();
    subject.call();
    (start.elapsed(), used, late)
}

fn wait(time: Duration, master: Master) {
    match master {
        Master::Computes => {
            let start = Instant::now();
            while start.elapsed() < time {
                std::hint::spin_loop();
            }
        }
        Master::Sleeps => thread::sleep(time),
    }
}

/// Processor time of all threads but the calling one.
fn others() -> Duration {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(clock(libc::CLOCK_THREAD_CPUTIME_ID))
}

fn clock(id: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - a clock that every Linux has, and a place for its time.
    let result = unsafe { libc::clock_gettime(id, &raw mut time) };
    assert!(result == 0, "the clocks of processor time always exist");
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below 10^9"))
}
