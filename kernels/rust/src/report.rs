//! Repeats a kernel's timed section for as long as asked and reports it, as text and as JSON.
//! Every repetition is checked; the first one that fails is the last one.
//!
//! ```
//! # use nanothreads_kernels::{options::Options, report::Report};
//! # let options = <Options as clap::Parser>::parse_from(["none"]);
//! let mut report = Report::begin("none", &options, 1, 1, 1000.0);
//! while report.again() {
//!     // Prepare.
//!     let sum = report.time(|| (1..=1000_u64).sum::<u64>());
//!     report.checks().equal("sum", sum as i64, 500_500);
//! }
//! let mut text = Vec::new();
//! assert_eq!(report.end(&mut text, &mut Vec::new())?, true);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io::{self, Write};

use serde::Serialize;

use crate::checks::Checks;
use crate::clock::Moment;
use crate::options::Options;

/// The repetitions of a kernel.
#[derive(Debug)]
pub struct Report {
    kernel: &'static str,
    options: Options,
    threads: usize,
    iterations: usize,
    operations: f64,
    /// Of the last repetition.
    checks: Checks,
    seconds: Vec<f64>,
    begun: Moment,
}

/// The line that `--json` prints.
#[derive(Serialize)]
struct Line<'a> {
    kernel: &'a str,
    language: &'a str,
    class: char,
    threads: usize,
    repetitions: usize,
    seconds: &'a [f64],
    iterations: usize,
    seconds_per_iteration: f64,
    mops: f64,
    verified: bool,
    checks: Vec<CheckLine<'a>>,
}

/// JSON knows no infinity and no "not a number": they become `null`.
#[derive(Serialize)]
struct CheckLine<'a> {
    name: &'a str,
    value: f64,
    expected: f64,
    error: f64,
}

impl Report {
    /// Begins; `iterations` and `operations` are those of one repetition, operations as the
    /// benchmark counts them.
    pub fn begin(
        kernel: &'static str,
        options: &Options,
        threads: usize,
        iterations: usize,
        operations: f64,
    ) -> Self {
        Self {
            kernel,
            options: options.clone(),
            threads,
            iterations,
            operations,
            checks: Checks::default(),
            seconds: Vec::new(),
            begun: Moment::now(),
        }
    }

    /// Whether another repetition is due. After a failed check: no.
    pub fn again(&mut self) -> bool {
        if !self.seconds.is_empty() {
            let is_over = match self.options.seconds {
                Some(limit) => self.begun.elapsed() >= limit,
                None => self.seconds.len() >= self.options.repeat as usize,
            };
            if is_over || !self.checks.passed() {
                return false;
            }
        }
        self.checks = Checks::default();
        true
    }

    /// Runs the timed section of a repetition.
    pub fn time<R>(&mut self, section: impl FnOnce() -> R) -> R {
        let started = Moment::now();
        let result = section();
        self.seconds.push(started.elapsed());
        result
    }

    /// Takes the checks of this repetition.
    pub fn checks(&mut self) -> &mut Checks {
        &mut self.checks
    }

    /// Prints the result to `to`, and each check that failed to `errors`. Returns whether all
    /// passed.
    ///
    /// # Errors
    /// When there is no writing to `to` or `errors`.
    pub fn end(&self, to: &mut impl Write, errors: &mut impl Write) -> io::Result<bool> {
        let verified = self.checks.passed();
        self.print_failures(errors)?;
        if !self.options.quiet && !self.checks.list().is_empty() {
            self.print_text(to, verified)?;
        }
        if self.options.json {
            self.print_json(to, verified)?;
        }
        to.flush()?;
        Ok(verified)
    }

    /// Its name.
    pub fn kernel(&self) -> &str {
        self.kernel
    }

    fn total(&self) -> f64 {
        self.seconds.iter().sum()
    }

    fn mops(&self) -> f64 {
        self.operations * self.seconds.len() as f64 / self.total() * 1e-6
    }

    fn print_failures(&self, errors: &mut impl Write) -> io::Result<()> {
        let (kernel, class) = (self.kernel, self.options.class.letter());
        for check in self.checks.list().iter().filter(|check| !check.passed()) {
            writeln!(
                errors,
                "{kernel} class {class}: verification failed in repetition {}: {} is {:.15e}, \
                 expected {:.15e}, relative error {:.3e} (allowed {:.3e})",
                self.seconds.len(),
                check.name,
                check.value,
                check.expected,
                check.error,
                check.tolerance,
            )?;
        }
        if self.checks.list().is_empty() {
            writeln!(errors, "{kernel} class {class}: nothing was verified")?;
        }
        Ok(())
    }

    fn print_text(&self, to: &mut impl Write, verified: bool) -> io::Result<()> {
        let repetitions = self.seconds.len();
        let plural = |count| if count == 1 { "" } else { "s" };
        writeln!(
            to,
            "{} class {}, {} thread{}, {} iterations, {repetitions} repetition{}",
            self.kernel,
            self.options.class.letter(),
            self.threads,
            plural(self.threads),
            self.iterations,
            plural(repetitions),
        )?;
        let least = self.seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.seconds.iter().copied().fold(0.0, f64::max);
        writeln!(
            to,
            "  {:.6} s a repetition ({least:.6} to {most:.6}), {:.1} Mop/s",
            self.total() / repetitions as f64,
            self.mops(),
        )?;
        let Some(worst) = self.checks.worst() else { return Ok(()) };
        writeln!(
            to,
            "  {}: {} checks, largest error {:.2e} ({})",
            if verified { "verified" } else { "VERIFICATION FAILED" },
            self.checks.list().len(),
            worst.error,
            worst.name,
        )
    }

    fn print_json(&self, to: &mut impl Write, verified: bool) -> io::Result<()> {
        let repetitions = self.seconds.len();
        let checks = self.checks.list().iter().map(|check| CheckLine {
            name: &check.name,
            value: check.value,
            expected: check.expected,
            error: check.error,
        });
        let line = Line {
            kernel: self.kernel,
            language: "rust",
            class: self.options.class.letter(),
            threads: self.threads,
            repetitions,
            seconds: &self.seconds,
            iterations: self.iterations,
            seconds_per_iteration: self.total() / (repetitions * self.iterations) as f64,
            mops: self.mops(),
            verified,
            checks: checks.collect(),
        };
        serde_json::to_writer(&mut *to, &line)?;
        writeln!(to)
    }
}
