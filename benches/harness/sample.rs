//! The child's side: one measured case of one engine.

use super::place::{self, Row};
use super::{Runtime, median};
use std::time::{Duration, Instant};

/// How a case is measured: the time of one operation in nanoseconds, and the extras that the case
/// names.
pub(crate) type Measure = Box<dyn Fn(&mut Subject) -> Vec<f64>>;

type Check = Box<dyn FnOnce(u64) -> Result<(), String>>;

/// One engine's form of a case, ready to run.
pub(crate) struct Subject {
    run: Box<dyn FnMut()>,
    /// What has to be set up before each call, outside the time.
    prepare: Option<Box<dyn FnMut()>>,
    /// The work without the construct, whose cost `overhead` takes off.
    reference: Option<Box<dyn FnMut()>>,
    /// What it says of itself besides times.
    tell: Option<Box<dyn FnMut() -> f64>>,
    /// Operations in one call.
    pub operations: u32,
    /// Told the number of calls: whether the results are right.
    check: Check,
    calls: u64,
}

impl Subject {
    /// `run` is called again and again; then `check` with the number of calls.
    pub(crate) fn new<R>(
        mut run: impl FnMut() -> R + 'static,
        check: impl FnOnce(u64) -> Result<(), String> + 'static,
    ) -> Self {
        let run = move || {
            run();
        };
        Self {
            run: Box::new(run),
            prepare: None,
            reference: None,
            tell: None,
            operations: 1,
            check: Box::new(check),
            calls: 0,
        }
    }

    /// With `operations` in each call.
    pub(crate) fn of(self, operations: u32) -> Self {
        Self { operations, ..self }
    }

    /// With `prepare` before each call, outside the time.
    pub(crate) fn prepared_by(self, prepare: impl FnMut() + 'static) -> Self {
        Self { prepare: Some(Box::new(prepare)), ..self }
    }

    /// With `reference` as what is to be taken off: the same operations without the construct.
    pub(crate) fn over(self, reference: impl FnMut() + 'static) -> Self {
        Self { reference: Some(Box::new(reference)), ..self }
    }

    /// With a number that it can be asked for.
    pub(crate) fn telling(self, tell: impl FnMut() -> f64 + 'static) -> Self {
        Self { tell: Some(Box::new(tell)), ..self }
    }

    /// The number of `telling`.
    pub(crate) fn tell(&mut self) -> f64 {
        self.tell.as_mut().expect("a subject that is asked for a number has one")()
    }

    #[inline]
    pub(crate) fn call(&mut self) {
        self.calls += 1;
        (self.run)();
    }

    /// Time of `count` calls.
    pub(crate) fn time(&mut self, count: u32) -> Duration {
        let Some(prepare) = &mut self.prepare else {
            let start = Instant::now();
            for _ in 0..count {
                self.call();
            }
            return start.elapsed();
        };
        let mut sum = Duration::ZERO;
        for _ in 0..count {
            prepare();
            let start = Instant::now();
            (self.run)();
            sum += start.elapsed();
        }
        self.calls += u64::from(count);
        sum
    }
}

/// Takes the sample: warm up, bind, measure, check.
pub(crate) fn take(
    measure: &Measure,
    mut subject: Subject,
    runtime: Runtime,
    row: Row,
) -> Result<Vec<f64>, String> {
    // Now the threads are there.
    subject.time(1);
    place::bind_threads(runtime, row);
    let values = measure(&mut subject);
    let calls = subject.calls;
    // Ends a pool before its results are looked at.
    drop(subject.run);
    (subject.check)(calls)?;
    Ok(values)
}

/// Time of warming up: threads are awake, branches predicted.
const WARM_UP: Duration = Duration::from_millis(10);
/// Time of a batch, so that reading the clock costs nothing.
const BATCH: Duration = Duration::from_micros(100);
/// Time of a sample.
const SAMPLE: Duration = Duration::from_millis(80);
/// Time in which switches are counted.
const COUNTED: Duration = Duration::from_millis(20);

/// As [`back_to_back`], and how often a thread of the process was switched away from, or slept, for
/// each operation.
pub(crate) fn back_to_back_with_switches() -> Measure {
    let timed = back_to_back();
    Box::new(move |subject| {
        let mut values = timed(subject);
        let (before, begin, mut calls) = (switches(), Instant::now(), 0_u32);
        while begin.elapsed() < COUNTED {
            subject.time(1);
            calls += 1;
        }
        values
            .push((switches() - before) as f64 / f64::from(calls) / f64::from(subject.operations));
        values
    })
}

/// Switches of all threads of this process so far.
fn switches() -> i64 {
    // SAFETY: - zeroes are a value of the struct, which the call fills in.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: - a place for the struct.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    usage.ru_nvcsw + usage.ru_nivcsw
}

/// The median time of one operation, of calls one right after the other.
pub(crate) fn back_to_back() -> Measure {
    Box::new(|subject| {
        let begin = Instant::now();
        let (mut count, mut batch) = (1, Duration::ZERO);
        while begin.elapsed() < WARM_UP || (batch < BATCH / 2 && count < 1 << 16) {
            batch = subject.time(count);
            if batch < BATCH / 2 {
                count *= 2;
            }
        }
        let begin = Instant::now();
        let mut batches = Vec::new();
        while batches.is_empty() || begin.elapsed() < SAMPLE {
            batches.push(
                subject.time(count).as_secs_f64() * 1e9
                    / f64::from(count)
                    / f64::from(subject.operations),
            );
        }
        vec![median(&mut batches)]
    })
}

/// The median of what one operation takes above the subject's reference; both are timed in turn, so
/// that a processor that changes its speed changes both.
pub(crate) fn overhead() -> Measure {
    Box::new(|subject| {
        let begin = Instant::now();
        while begin.elapsed() < WARM_UP {
            subject.call();
        }
        let mut reference =
            subject.reference.take().expect("a subject whose overhead is measured has a reference");
        let operations = f64::from(subject.operations);
        let begin = Instant::now();
        let mut differences = Vec::new();
        while differences.len() < FEWEST || begin.elapsed() < SAMPLE {
            let start = Instant::now();
            reference();
            let middle = Instant::now();
            subject.call();
            let (without, with) = (middle - start, middle.elapsed());
            differences.push((with.as_secs_f64() - without.as_secs_f64()) * 1e9 / operations);
        }
        vec![median(&mut differences)]
    })
}

/// Pairs of timings in an overhead, at least.
const FEWEST: usize = 15;
