//! Programs by the clock.

use super::*;
use proptest::prelude::*;

/// A program by the clock: iterations of some regions, a part of whose work is serial.
struct Program {
    now: u64,
    analyzer: Analyzer,
    rest: u32,
    reports: Vec<Measured>,
    /// Nanoseconds of regions that had less than was granted.
    on_base: u64,
    /// What disturbs: nanoseconds to add to an iteration, by its number.
    noise: fn(u64) -> u64,
}

impl Program {
    fn new(noise: fn(u64) -> u64) -> Self {
        Self { now: 1, analyzer: Analyzer::new(), rest: 0, reports: Vec::new(), on_base: 0, noise }
    }

    /// Threads that the next region gets out of `granted`.
    fn fork(&mut self, region: usize, granted: u32) -> u32 {
        if self.rest > 0 {
            self.rest -= 1;
            return granted;
        }
        let now = self.now;
        let analysis = self.analyzer.forks(region, || now);
        self.reports.extend(analysis.report);
        self.rest = analysis.rest;
        let size = analysis.most.map_or(granted, |most| most.min(granted));
        if size > 1 {
            self.analyzer.forked(size);
        }
        size
    }

    /// A region of `work` nanoseconds.
    fn region(&mut self, region: usize, work: u64, granted: u32) {
        let size = self.fork(region, granted);
        self.now += work / u64::from(size);
        self.on_base += if size < granted { work / u64::from(size) } else { 0 };
    }

    /// `count` iterations of `work` nanoseconds in three regions, of which `serial` parts of 100
    /// are serial.
    fn run(&mut self, count: u64, work: u64, serial: u64, granted: u32) {
        for number in 0..count {
            self.now += work * serial / 100 + (self.noise)(number);
            for region in [11, 12, 11] {
                self.region(region, work * (100 - serial) / 100 / 3, granted);
            }
        }
    }

    fn speedup(&self) -> f64 {
        let last = self.reports.last().expect("something was reported");
        last.base_time as f64 / last.time as f64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn the_speedup_of_known_serial_shares_is_found(
        serial in prop::sample::select(vec![0_u64, 10, 50]), granted in 2_u32..16, work in 20_000_u64..20_000_000,
    ) {
        let mut program = Program::new(|_| 0);
        // Until it has run for long enough to pay for the base, and for some reports more.
        let bearable = SHARE * (work.max(SAMPLE) + work) * SAMPLES as u64;
        program.run((bearable + 200_000_000) * u64::from(granted) / work + 60, work, serial, granted);
        let serial = serial as f64 / 100.0;
        let expected = 1.0 / (serial + (1.0 - serial) / f64::from(granted));
        let error = (program.speedup() / expected - 1.0).abs();
        prop_assert!(error < 0.02, "{} instead of {expected}", program.speedup());
        prop_assert_eq!(program.reports[0].processors, granted);
    }
}

#[test]
fn iterations_that_were_disturbed_do_not_count() {
    // Each tenth takes ten times as long.
    let mut program =
        Program::new(|number| if number % 10 == 3 { 30_000_000 } else { number % 7 * 1_000 });
    program.run(3_000, 3_000_000, 10, 2);
    assert!((program.speedup() - 1.818).abs() < 0.1, "{}", program.speedup());
}

#[test]
fn measuring_rests_most_of_the_time() {
    let mut program = Program::new(|_| 0);
    program.run(100_000, 100_000, 0, 2);
    let seconds = program.now as f64 / 1e9;
    assert!(
        (program.reports.len() as f64) < seconds * 12.0,
        "{} in {seconds} s",
        program.reports.len()
    );
    assert!(
        (program.reports.len() as f64) > seconds * 4.0,
        "{} in {seconds} s",
        program.reports.len()
    );
}

#[test]
fn the_base_costs_a_tenth_of_a_programs_time_at_most() {
    for work in [100_000, 3_000_000, 40_000_000, 400_000_000] {
        let mut program = Program::new(|_| 0);
        // Many loops one after the other, each of them new: their bases are all that there is to
        // measure.
        for first in 0..40 {
            for _ in 0..10_000_000_000 / work {
                for region in [3 * first, 3 * first + 1, 3 * first] {
                    program.region(region, work / 3, 8);
                }
            }
        }
        assert!(!program.reports.is_empty(), "nothing was measured of iterations of {work}");
        let Program { on_base, now, .. } = program;
        // A sample too many is the one that begins before it is known that the base is.
        assert!(on_base <= now / 9, "{on_base} of {now} for iterations of {work}");
    }
}

#[test]
fn loops_that_take_turns_have_their_bases_measured_once() {
    let mut program = Program::new(|_| 0);
    program.run(4_000, 3_000_000, 0, 4);
    let before = program.on_base;
    for turn in 0..200 {
        for _ in 0..50 {
            for region in if turn % 2 == 0 { [21, 22, 21] } else { [31, 32, 33] } {
                program.region(region, 1_000_000, 4);
            }
        }
    }
    let bases = (program.on_base - before) / 3_000_000;
    assert!((10..30).contains(&bases), "{bases} iterations for two bases of five");
}

#[test]
fn teams_with_a_size_of_their_own_are_left_alone() {
    let mut analyzer = Analyzer::new();
    let mut now = 0;
    let mut rested = false;
    for region in 0..10_000 {
        now += 1_000_000;
        let analysis = analyzer.forks(region % 2, || now);
        assert_eq!(analysis.report, None);
        analyzer.forked(4);
        rested |= analysis.rest >= LONG_REST;
    }
    assert!(rested);
}

#[test]
fn iterations_that_are_never_alike_leave_the_program_its_processors() {
    let mut program = Program::new(|number| 100_000 << (number * 5 % 13));
    program.run(5_000, 3_000_000, 0, 8);
    assert_eq!(program.reports, []);
    assert!(program.on_base <= program.now / SHARE, "{} of {}", program.on_base, program.now);
}

#[test]
fn no_program_pays_for_a_base_of_long_iterations() {
    let mut program = Program::new(|_| 0);
    program.run(100, 3_000_000_000, 0, 8);
    assert_eq!(program.reports, []);
    assert!(
        program.now < 40_000_000_000,
        "it ran on all its processors: {} s",
        program.now / 1_000_000_000
    );
}

#[test]
fn a_program_that_says_where_iterations_begin_needs_no_pattern() {
    let mut analyzer = Analyzer::new();
    let (mut now, mut state, mut last) = (1, 1_usize, None);
    for _ in 0..2_000 {
        let mut analysis = analyzer.is_told(now);
        last = analysis.report.or(last);
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            analysis = analyzer.forks(state >> 40, || unreachable!("no clock is needed"));
            let size = analysis.most.unwrap_or(4);
            if size > 1 {
                analyzer.forked(size);
            }
            now += 1_200_000 / u64::from(size);
        }
    }
    let last = last.expect("something was reported");
    assert!((last.base_time as f64 / last.time as f64 - 4.0).abs() < 0.1, "{last:?}");
}
