//! How much work makes a copy alone last as long as is asked for.

use std::time::Duration;

use anyhow::{Context, bail};

use super::Suite;
use super::choice::{Options, USUAL_CLASS};
use super::kernel::{Kernel, Line, Outcome};
use super::record::Record;
use super::runtime::Runtime;
use crate::measure::{median, run_together};

/// One repetition of the largest class takes some minutes; what takes longer hangs.
const LONGEST_TUNING: Duration = Duration::from_secs(1200);
/// Seconds of repetitions that are looked at.
const LOOKED_AT: f64 = 1.0;
/// A fast program's first repetitions are slow, those of a slow one are costly.
const REPETITIONS: [f64; 2] = [2.0, 40.0];
/// Seconds from which on one repetition is enough: its start does not count beside it.
const LONG: f64 = 10.0;
/// For clocks that are not exact, and machines that become faster.
const MARGIN: f64 = 1.1;

impl Suite {
    /// The work of a program; of the record, where it says. With that the seconds of one copy with
    /// one thread.
    pub(super) fn tune(
        &self,
        program: &str,
        options: &Options,
        record: &Record,
    ) -> anyhow::Result<(Kernel, f64)> {
        let recorded = record.repeat_of(program)?;
        let class = match (options.class(), record.rows.first()) {
            (Some(class), _) => class,
            (None, Some(row)) => &row.class,
            (None, None) => USUAL_CLASS,
        }
        .to_owned();
        if let Some((other, _)) = recorded.as_ref().filter(|(other, _)| *other != class) {
            bail!("{program} has class {other} in the record, and not {class}");
        }
        let kernel = |repeat| Kernel { name: program.to_owned(), class: class.clone(), repeat };
        let time = |runtime: Runtime, repeat: u32| -> anyhow::Result<(Line, f64)> {
            let kernel = kernel(repeat);
            let mut command = self.command(program, runtime)?;
            command.args(kernel.arguments());
            let mut finished = run_together(LONGEST_TUNING, vec![command])?;
            let finish = finished.pop().context("a run without a copy")?;
            match kernel.outcome(&finish) {
                Outcome::Verified(line) => Ok((line, finish.turnaround.as_secs_f64())),
                Outcome::Killed => bail!(
                    "{program} --class {class}: {repeat} repetitions take more than \
                     {LONGEST_TUNING:?}; a smaller `--class`, or `--programs` without it"
                ),
                Outcome::Wrong(what) => bail!("{program} --class {class}: {what}"),
            }
        };
        let usual = if Runtime::Libgomp.runs(program) { Runtime::Libgomp } else { Runtime::Alone };
        let (cold, _) = time(usual, 1)?;
        let several = repetitions(cold.seconds[0]);
        let (one, turnaround) = time(Runtime::One, several)?;
        let repeat = match recorded {
            Some((_, repeat)) => repeat,
            None => {
                let (all, _) = time(usual, several)?;
                repeat(options.seconds(), &[all.seconds, one.seconds.clone()].concat())
            }
        };
        let setup = (turnaround - one.seconds.iter().sum::<f64>()).max(0.0);
        Ok((kernel(repeat), setup + median(&one.seconds) * f64::from(repeat)))
    }
}

/// How many repetitions are looked at where the first one of a process takes so long.
fn repetitions(first: f64) -> u32 {
    let [least, most] = REPETITIONS;
    if first >= LONG {
        return 1;
    }
    (LOOKED_AT / first.max(1e-6)).ceil().clamp(least, most) as u32
}

/// How many repetitions last `seconds` at least: by the fastest one.
fn repeat(seconds: f64, times: &[f64]) -> u32 {
    let least = times.iter().copied().fold(f64::INFINITY, f64::min).max(1e-6);
    (seconds * MARGIN / least).ceil().clamp(1.0, 1e6) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_first_repetition_makes_no_copy_too_short() {
        // FT of class W: the first one of a process and later ones.
        assert_eq!(repetitions(0.12), 9);
        let work = repeat(3.0, &[0.12, 0.03, 0.026, 0.027]);
        assert!(f64::from(work) * 0.026 >= 3.0, "{work}");
        assert_eq!((repetitions(5.0), repetitions(1e-9)), (2, 40));
        assert_eq!(repetitions(30.0), 1, "of the largest classes one takes minutes");
        assert_eq!((repeat(3.0, &[5.0, 6.0]), repeat(3.0, &[0.0])), (1, 1_000_000));
    }
}
