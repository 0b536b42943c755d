//! What the demo says: a line per run, a table, the JSON rows.

use std::fmt::Write as _;

use anyhow::Context;
use serde::Serialize;

use super::plan::{Program, Runtime, Step};
use super::record::{Record, Sample};

/// What the manager must reach: turnaround over ideal.
const AIM_SHARED: f64 = 1.08;
/// And the slowest copy over the mean.
const AIM_SPREAD: f64 = 1.1;
/// One copy alone: the drop-in library over the system's runtime.
const AIM_ALONE: f64 = 1.05;

#[derive(Serialize)]
struct Row {
    program: &'static str,
    copies: usize,
    runtime: &'static str,
    turnaround_s: f64,
    worst_s: f64,
    cpu_s: f64,
    ideal_ratio: f64,
    /// `null`: unknown, since copies were killed at the cap.
    correct: Option<bool>,
    /// Copies were killed at the cap: times and ratio are lower bounds.
    capped: bool,
}

/// The name of a step in lines and messages.
pub(crate) fn name(step: Step) -> String {
    match step {
        Step::OneThread(program) => format!("{} yardstick: one-thread copies", program.name()),
        Step::Copies(program, runtime, copies) => {
            let plural = if copies == 1 { "copy" } else { "copies" };
            format!("{} {copies} {plural} {}", program.name(), runtime.name())
        }
    }
}

/// A line is printed for more processors than this that other programs used, or that were idle.
const NOTABLE: f64 = 0.15;

/// One run, as it is measured, with the processors that other programs had in it, and those that
/// were idle.
pub(crate) fn line(record: &Record, step: Step, sample: &Sample, others: f64, idle: f64) -> String {
    let mut line = format!(
        "{:<36} mean {:6.2} s  worst {:6.2} s  cpu {:6.2} s",
        name(step),
        sample.mean,
        sample.worst,
        sample.cpu
    );
    if let Step::Copies(program, _, copies) = step {
        let ideal = record.ideal(program, copies);
        let ratio = sample.mean / ideal;
        let _ = write!(line, "  ideal {ideal:6.2} s  ratio {}", as_bound(ratio, sample.capped));
    }
    for (what, processors) in [("others", others), ("idle", idle)] {
        if processors > NOTABLE {
            let _ = write!(line, "  {what} {processors:.1}");
        }
    }
    if sample.correct == Some(false) {
        line.push_str("  WRONG RESULT");
    }
    line
}

/// All rows as a JSON array.
pub(crate) fn json(record: &Record) -> anyhow::Result<String> {
    let rows: Vec<Row> = rows(record)
        .map(|(program, copies, runtime, sample, ratio)| Row {
            program: program.name(),
            copies,
            runtime: runtime.name(),
            turnaround_s: sample.mean,
            worst_s: sample.worst,
            cpu_s: sample.cpu,
            ideal_ratio: ratio,
            correct: sample.correct,
            capped: sample.capped,
        })
        .collect();
    Ok(serde_json::to_string_pretty(&rows).context("cannot write the results as JSON")? + "\n")
}

/// The table of all medians and the verdict on the aims.
pub(crate) fn table(record: &Record) -> String {
    let mut text = format!(
        "\n{} processors; medians; seconds; ratio = mean turnaround / ideal, ideal = max(best of \
         one copy alone, K x T1b / P);\neach run's ratio is to T1b as measured before and after \
         it\n\n{:<8}{:>7}{:>8}  {:<9}{:>8}{:>8}{:>9}{:>8}  {:<8}{:>5}\n",
        record.processors,
        "program",
        "copies",
        "ideal",
        "runtime",
        "mean",
        "worst",
        "cpu",
        "ratio",
        "result",
        "runs"
    );
    for (program, copies, runtime, sample, ratio) in rows(record) {
        let step = Step::Copies(program, runtime, copies);
        let result = match sample.correct {
            Some(true) => "right",
            Some(false) => "WRONG",
            None => "killed",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<8}{copies:>7}{:>8.2}  {:<9}{:>8.2}{:>8.2}{:>9.2}{:>8}  {result:<8}{:>5}",
            program.name(),
            record.ideal(program, copies),
            runtime.name(),
            sample.mean,
            sample.worst,
            sample.cpu,
            as_bound(ratio, sample.capped),
            record.of(step).len(),
        );
    }
    text.push('\n');
    text.push_str(&verdict(record));
    if record.was_cut_short() {
        let minutes = record.time_for_full_caps().as_secs_f64() / 60.0;
        let _ = writeln!(
            text,
            "runs marked >= were killed when their share of the time was up; to let them go on to \
             15 x the ideal: --minutes {:.0}",
            minutes.ceil() + 1.0
        );
    }
    text
}

fn rows(record: &Record) -> impl Iterator<Item = (Program, usize, Runtime, Sample, f64)> {
    record.selection.programs().iter().flat_map(move |&program| {
        record.selection.copies().iter().flat_map(move |&copies| {
            Runtime::ALL.into_iter().filter_map(move |runtime| {
                let step = Step::Copies(program, runtime, copies);
                Some((program, copies, runtime, record.median(step)?, record.median_ratio(step)?))
            })
        })
    })
}

/// A ratio; a lower bound of it when copies were killed at the cap.
fn as_bound(ratio: f64, capped: bool) -> String {
    if capped {
        // Rounded down, and 15 x the ideal of before may be 14.99 x that of now: a bound must hold.
        format!(">= {:.1}", (ratio * 10.0 + 0.05).floor() / 10.0)
    } else {
        format!("{ratio:.2}")
    }
}

fn verdict(record: &Record) -> String {
    let shared =
        rows(record).filter(|&(_, copies, runtime, ..)| copies > 1 && runtime == Runtime::Nanos);
    let (mut slowest, mut spread) = (0.0f64, 0.0f64);
    for (_, _, _, sample, ratio) in shared {
        slowest = slowest.max(ratio);
        spread = spread.max(sample.worst / sample.mean);
    }
    let mut text = format!(
        "under the manager, 2 to {} copies: at most {slowest:.2} x the ideal (aim: {AIM_SHARED}): \
         {}; worst / mean at most {spread:.2} (aim: {AIM_SPREAD}): {}\n",
        record.selection.most_copies(),
        met(slowest, AIM_SHARED),
        met(spread, AIM_SPREAD)
    );
    for &program in record.selection.programs() {
        let mean =
            |runtime| record.median(Step::Copies(program, runtime, 1)).map(|sample| sample.mean);
        if let (Some(system), Some(ours)) = (mean(Runtime::Libgomp), mean(Runtime::Nanos)) {
            let ratio = ours / system;
            let _ = writeln!(
                text,
                "{} alone: {ratio:.2} x the system's runtime (aim: {AIM_ALONE}): {}",
                program.name(),
                met(ratio, AIM_ALONE)
            );
        }
    }
    text
}

fn met(value: f64, aim: f64) -> &'static str {
    if value <= aim { "met" } else { "MISSED" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::plan::{Selection, USUAL_COPIES};

    fn sample(mean: f64) -> Sample {
        Sample { mean, worst: mean * 1.1, cpu: mean * 2.0, capped: false, correct: Some(true) }
    }

    fn record() -> Record {
        let mut record = Record::new(
            Selection::new(&Program::USUAL, &USUAL_COPIES, &[Runtime::Libgomp, Runtime::Nanos]),
            2,
            3.0,
        );
        for program in Program::USUAL {
            record.add(Step::OneThread(program), sample(6.0));
            for (runtime, factor) in [(Runtime::Libgomp, 2.0), (Runtime::Nanos, 1.0)] {
                for copies in USUAL_COPIES {
                    record.add(
                        Step::Copies(program, runtime, copies),
                        sample(3.0 * copies as f64 * factor),
                    );
                }
            }
        }
        let capped = Sample { capped: true, correct: None, ..sample(90.0) };
        record.add(Step::Copies(Program::Lu, Runtime::Libgomp, 4), capped);
        record
    }

    #[test]
    fn json_has_a_row_for_each_kind_of_run() {
        let rows: Vec<serde_json::Value> = serde_json::from_str(&json(&record()).unwrap()).unwrap();
        assert_eq!(rows.len(), 16);
        let row = &rows[2];
        assert_eq!(
            (&row["program"], &row["copies"], &row["runtime"]),
            (&"cg".into(), &2.into(), &"libgomp".into())
        );
        assert_eq!(row["turnaround_s"], 12.0);
        assert_eq!(row["ideal_ratio"], 2.0);
        assert_eq!(row["correct"], true);
        for key in ["worst_s", "cpu_s"] {
            assert!(row[key].is_number(), "{key}");
        }
        // Four copies of lu on libgomp: runs of 24 s and of at least 90 s.
        assert!(rows[14]["correct"].is_null() && rows[14]["capped"] == true);
    }

    #[test]
    fn a_capped_run_is_printed_as_a_bound() {
        let record = record();
        assert_eq!(
            (as_bound(14.998, true), as_bound(14.998, false)),
            (">= 15.0".into(), "15.00".into())
        );
        assert!(table(&record).contains(">= "));
    }

    #[test]
    fn aims_are_judged_by_the_worst_row() {
        let mut record = record();
        assert!(verdict(&record).contains(
            "at most 1.00 x the ideal (aim: 1.08): met; worst / mean at most 1.10 (aim: 1.1): met"
        ));
        assert!(
            verdict(&record).contains("cg alone: 0.50 x the system's runtime (aim: 1.05): met")
        );
        let slow = Sample { worst: 19.0, ..sample(18.0) };
        for _ in 0..2 {
            record.add(Step::Copies(Program::Lu, Runtime::Nanos, 4), slow);
        }
        assert!(verdict(&record).contains("1.50 x the ideal"), "{}", verdict(&record));
        assert!(verdict(&record).contains("MISSED"));
    }

    #[test]
    fn a_wrong_result_stands_out() {
        let mut record = record();
        let step = Step::Copies(Program::Cg, Runtime::Nanos, 2);
        let wrong = Sample { correct: Some(false), ..sample(6.0) };
        assert!(line(&record, step, &wrong, 0.1, 0.1).ends_with("ratio 1.00  WRONG RESULT"));
        assert!(
            line(&record, step, &sample(6.0), 0.5, 0.2)
                .ends_with("ratio 1.00  others 0.5  idle 0.2")
        );
        record.add(step, wrong);
        assert!(table(&record).contains("WRONG"));
    }
}
