//! What a program measured of its own parallel speed: times, from which the manager computes a
//! speedup.
//!
//! # Protocol
//! The program makes the sequence number odd, writes the fields, makes it even. The manager reads
//! the number, the fields, the number again: a report that changed meanwhile, or is being written,
//! is no report this time.
//!
//! # Invariants
//! - R1 The program sends times, never a speedup: the manager divides and checks
//!   ([`Report::speedup`]).
//! - R2 The manager looks a fixed number of times: a program that writes without end delays no
//!   other.
//!
//! # Papers
//! P2 section 4.4 (M15): the application reports the speedup that it measured; here the manager
//! does the division, because a program could otherwise claim any speedup.

use platform::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::grant::MAX_CPUS;

/// How many times the manager looks.
const LOOKS: usize = 4;
/// A program may be faster on p processors than p times its speed on one (caches), but not much.
const MAX_EFFICIENCY: f64 = 1.5;

/// The report line. Written by one thread of the program at a time.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct ReportLine {
    sequence: AtomicU32,
    processors: AtomicU32,
    base_processors: AtomicU32,
    base_ns: AtomicU64,
    time_ns: AtomicU64,
}

/// One measurement: the same piece of work on a base number of processors and on the present
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of the report: another number is a new report.
    pub sequence: u32,
    /// The processors of the present time.
    pub processors: u32,
    /// The processors of the base time.
    pub base_processors: u32,
    /// The time of one iteration on the base processors, in ns.
    pub base_ns: u64,
    /// The time of one iteration now, in ns.
    pub time_ns: u64,
}

impl Report {
    /// How many times faster than on one processor the program is; the base is taken as efficient.
    /// `None`: times or numbers that cannot be true. In 0..=1.5 x processors.
    pub fn speedup(&self) -> Option<f64> {
        let possible = 1..=MAX_CPUS;
        let numbers =
            possible.contains(&self.processors) && possible.contains(&self.base_processors);
        // An hour for one iteration is no measurement of a phase; it also keeps the division exact
        // enough.
        let times = (1..=3_600_000_000_000).contains(&self.base_ns)
            && (1..=3_600_000_000_000).contains(&self.time_ns);
        if !numbers || !times {
            return None;
        }
        let speedup = f64::from(self.base_processors) * self.base_ns as f64 / self.time_ns as f64;
        (speedup <= MAX_EFFICIENCY * f64::from(self.processors)).then_some(speedup)
    }
}

impl ReportLine {
    /// The program's side: publishes a measurement. One thread at a time.
    pub fn write(&self, processors: u32, base_processors: u32, base_ns: u64, time_ns: u64) {
        // ORDERING: Relaxed - this thread is the only writer.
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence | 1, Ordering::Relaxed);
        // ORDERING(report.begin): Release fence - a reader that sees a field that is written below
        // also sees the odd number; pairs with ORDERING(report.recheck).
        fence(Ordering::Release);
        // ORDERING: Relaxed, all four - between the two stores of the number.
        self.processors.store(processors, Ordering::Relaxed);
        self.base_processors.store(base_processors, Ordering::Relaxed);
        self.base_ns.store(base_ns, Ordering::Relaxed);
        self.time_ns.store(time_ns, Ordering::Relaxed);
        // ORDERING(report.end): Release - the fields before the even number; pairs with
        // ORDERING(report.read).
        self.sequence.store((sequence | 1).wrapping_add(1), Ordering::Release);
    }

    /// The manager's side: a copy of a whole report. Nothing of it may be trusted.
    pub fn read(&self) -> Option<Report> {
        for _ in 0..LOOKS {
            // ORDERING(report.read): Acquire - pairs with ORDERING(report.end).
            let sequence = self.sequence.load(Ordering::Acquire);
            if sequence == 0 {
                return None;
            }
            // ORDERING: Relaxed, all four - ordered by the looks at the number before and after.
            let report = Report {
                sequence,
                processors: self.processors.load(Ordering::Relaxed),
                base_processors: self.base_processors.load(Ordering::Relaxed),
                base_ns: self.base_ns.load(Ordering::Relaxed),
                time_ns: self.time_ns.load(Ordering::Relaxed),
            };
            // ORDERING(report.recheck): Acquire fence - pairs with ORDERING(report.begin).
            fence(Ordering::Acquire);
            // ORDERING: Relaxed - ordered by the fence.
            if sequence.is_multiple_of(2) && self.sequence.load(Ordering::Relaxed) == sequence {
                return Some(report);
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_report_comes_back_whole_and_numbered() {
        let line = ReportLine::default();
        assert_eq!(line.read(), None, "nothing was reported yet");
        line.write(4, 1, 4_000, 1_250);
        let first = line.read().unwrap();
        assert_eq!(
            first,
            Report {
                sequence: 2,
                processors: 4,
                base_processors: 1,
                base_ns: 4_000,
                time_ns: 1_250
            }
        );
        assert_eq!(first.speedup(), Some(3.2));
        line.write(4, 1, 4_000, 1_250);
        assert_ne!(
            line.read().unwrap().sequence,
            first.sequence,
            "the same times are a new report"
        );
    }

    #[test]
    fn a_report_that_is_being_written_is_none() {
        let line = ReportLine::default();
        line.write(2, 1, 10, 5);
        line.sequence.store(3, Ordering::Relaxed);
        assert_eq!(line.read(), None);
        line.write(2, 1, 10, 5);
        assert_eq!(
            line.read().unwrap().sequence,
            4,
            "a writer that died half way through is written over"
        );
    }

    #[test]
    fn impossible_times_are_no_speedup() {
        let good =
            Report { sequence: 2, processors: 4, base_processors: 2, base_ns: 100, time_ns: 60 };
        assert!(good.speedup().is_some());
        for bad in [
            Report { processors: 0, ..good },
            Report { base_processors: 0, ..good },
            Report { processors: MAX_CPUS + 1, ..good },
            Report { base_ns: 0, ..good },
            Report { time_ns: 0, ..good },
            Report { time_ns: u64::MAX, ..good },
            // 200 times faster on 4 processors.
            Report { time_ns: 1, ..good },
        ] {
            assert_eq!(bad.speedup(), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_speedup_is_possible(
            processors: u32, base_processors: u32, base_ns: u64, time_ns: u64,
        ) {
            let report = Report { sequence: 2, processors, base_processors, base_ns, time_ns };
            if let Some(speedup) = report.speedup() {
                prop_assert!(speedup > 0.0 && speedup <= 1.5 * f64::from(processors));
            }
        }
    }
}
