//! What a report shows: records of the benches and of the suite, read and summarised.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::measure::{AGREE, Distance, Spread};
use crate::suite::{self, Row, Runtime, Scenario, Summaries, Verdict, Yardstick};

/// What tells one measured value from another, within a chart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Label {
    /// What was done: a case and whether it was bound, or a number of copies.
    pub(crate) group: String,
    /// The engine or the runtime.
    pub(crate) engine: String,
    /// `None` where it does not matter.
    pub(crate) distance: Option<Distance>,
}

/// A measured value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Measured(Spread),
    /// Ended before it was done: more than this.
    Above(f64),
    /// No right result.
    Wrong(String),
}

/// What the numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Nanoseconds,
    /// To the ideal, which is 1.
    Ratio,
}

/// Values that belong together, in the order in which they are shown.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) values: Vec<(Label, Value)>,
}

/// What a record is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Bench,
    Suite,
}

/// One record.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub(crate) kind: Kind,
    /// What was measured: the file's name without date and ending.
    pub(crate) title: String,
    /// Machine, commit and the like, one a line.
    pub(crate) about: Vec<String>,
    /// What ran where, as far as the record says it.
    pub(crate) conditions: Conditions,
    pub(crate) charts: Vec<Chart>,
    /// Bars that are missed.
    pub(crate) missed: Vec<String>,
}

/// What must be the same for values to be compared, and what is better the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    /// Processors and the kernel.
    pub(crate) machine: String,
    /// By program: the class of its problem, and how often a copy solves it.
    pub(crate) work: BTreeMap<String, (String, u32)>,
}

/// A sample of a bench.
#[derive(Deserialize)]
struct Sample {
    case: String,
    engine: String,
    row: String,
    rtt_before_ns: f64,
    rtt_after_ns: f64,
    time_ns: f64,
}

/// Reads a record of a bench or of the suite: which one its header says.
pub(crate) fn read(path: &Path) -> anyhow::Result<Section> {
    let shown = path.display();
    let mut reader =
        csv::Reader::from_path(path).with_context(|| format!("cannot read {shown}"))?;
    let header = reader.headers().with_context(|| format!("{shown}: its header"))?.clone();
    let has = |name: &str| header.iter().any(|field| field == name);
    let title = title_of(path);
    if has("scenario") && has("turnaround") {
        return of_suite(title, &suite::read(path)?).with_context(|| shown.to_string());
    }
    ensure!(
        has("case") && has("rtt_before_ns") && has("time_ns"),
        "{shown} is no record of `cargo xtask bench` (case, rtt_before_ns, time_ns, ...) nor of \
         `cargo xtask suite` (scenario, turnaround, ...): its first line is {}",
        header.iter().collect::<Vec<_>>().join(",")
    );
    let mut samples = Vec::new();
    for (index, sample) in reader.deserialize().enumerate() {
        samples.push(sample.with_context(|| format!("{shown}, line {}", index + 2))?);
    }
    if samples.is_empty() {
        bail!("{shown} has no samples");
    }
    Ok(of_bench(title, &samples))
}

/// `2026-11-22-fork_join.csv` is about fork_join.
fn title_of(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let is_date = |text: &str| {
        text.len() == 11 && text.chars().all(|letter| letter.is_ascii_digit() || letter == '-')
    };
    match name.split_at_checked(11) {
        Some((date, rest)) if is_date(date) => rest.to_owned(),
        _ => name.into_owned(),
    }
}

/// One chart for each case; samples whose round trips before and after disagree say nothing.
fn of_bench(title: String, samples: &[Sample]) -> Section {
    let mut cases: Vec<&str> = Vec::new();
    let mut times: BTreeMap<(&str, Label), Vec<f64>> = BTreeMap::new();
    let mut order: Vec<(&str, Label)> = Vec::new();
    let mut dropped = 0;
    for sample in samples {
        if !cases.contains(&sample.case.as_str()) {
            cases.push(&sample.case);
        }
        let (before, after) = (sample.rtt_before_ns, sample.rtt_after_ns);
        if before.max(after) > before.min(after) * AGREE {
            dropped += 1;
            continue;
        }
        let label = Label {
            group: sample.row.clone(),
            engine: sample.engine.clone(),
            distance: Some(Distance::of(f64::midpoint(before, after))),
        };
        let key = (sample.case.as_str(), label);
        if !times.contains_key(&key) {
            order.push(key.clone());
        }
        times.entry(key).or_default().push(sample.time_ns);
    }
    let chart = |case: &&str| {
        let own = order.iter().filter(|(of, _)| of == case);
        let mut values: Vec<(Label, Value)> = own
            .filter_map(|key| Some((key.1.clone(), Value::Measured(Spread::of(&times[key])?))))
            .collect();
        // Engines keep the record's order, in which ours is first.
        values.sort_by(|(a, _), (b, _)| (&a.group, a.distance).cmp(&(&b.group, b.distance)));
        Chart { title: (*case).to_owned(), unit: Unit::Nanoseconds, values }
    };
    let about = vec![format!(
        "{} samples; {dropped} more are left out, whose round trips before and after differ by \
         more than {AGREE}",
        samples.len() - dropped
    )];
    let charts = cases.iter().map(chart).collect();
    Section { kind: Kind::Bench, title, about, charts, ..Section::default() }
}

/// One chart for each program, with the ratios to the ideal by number of copies, near and far; one
/// for the mixes.
pub(super) fn of_suite(title: String, rows: &[Row]) -> anyhow::Result<Section> {
    let summaries = Summaries::new(rows)?;
    let mut charts: Vec<Chart> = Vec::new();
    for scenario in summaries.scenarios() {
        let (title, group) = match scenario.program() {
            Some(program) => (program.to_owned(), copies(&scenario)),
            None => ("mixes".to_owned(), scenario.name()),
        };
        let mut values = Vec::new();
        for summary in &summaries.all {
            for runtime in Runtime::ALL {
                let verdicts = summary.verdicts(Yardstick::Together, &scenario, runtime);
                for (program, verdict) in verdicts {
                    let group = match program {
                        Some(program) => format!("{group}: {program}"),
                        None => group.clone(),
                    };
                    let (engine, distance) = (runtime.name().to_owned(), summary.distance);
                    values.push((Label { group, engine, distance }, value(verdict)));
                }
            }
        }
        // Runtimes keep their order.
        values.sort_by(|(a, _), (b, _)| (&a.group, a.distance).cmp(&(&b.group, b.distance)));
        match charts.iter_mut().find(|chart| chart.title == title) {
            Some(chart) => chart.values.extend(values),
            None => charts.push(Chart { title, unit: Unit::Ratio, values }),
        }
    }
    charts.retain(|chart| !chart.values.is_empty());
    charts.sort_by_key(|chart| chart.title == "mixes");
    let first = suite::usual(rows).context("no rows")?;
    let machine = format!("{} x {}, Linux {}", first.processors, first.machine, first.kernel);
    let conditions = Conditions { machine, work: work(rows) };
    let shown: Vec<String> = conditions
        .work
        .iter()
        .map(|(program, (class, repeat))| format!("{program} {class} x {repeat}"))
        .collect();
    let mut about = vec![
        conditions.machine.clone(),
        format!("commit {}", suite::commits(rows)),
        format!("compiled by {}", suite::compilers(rows).join("; ")),
        format!("class, and how often a copy solves it: {}", shown.join(", ")),
        "ratio of the mean turnaround to the ideal: the larger of the best run alone on other \
         runtimes and as many copies with one thread each"
            .to_owned(),
    ];
    let left_out = &summaries.left_out;
    if !left_out.is_empty() {
        let runs = if left_out.len() == 1 { "run is" } else { "runs are" };
        about.push(format!("{} {runs} left out: {}", left_out.len(), left_out.join("; ")));
    }
    if !summaries.unpaired.is_empty() {
        let runs = summaries.unpaired.join("; ");
        about.push(format!("without one-thread copies of their repetition, in no ratio: {runs}"));
    }
    let missed = summaries.missed();
    Ok(Section { kind: Kind::Suite, title, about, conditions, charts, missed })
}

/// The work of each program.
fn work(rows: &[Row]) -> BTreeMap<String, (String, u32)> {
    let of = |row: &Row| (row.program.clone(), (row.class.clone(), row.repeat));
    rows.iter().map(of).collect()
}

fn copies(scenario: &Scenario) -> String {
    match scenario.0.len() {
        1 => "1 copy".to_owned(),
        several => format!("{several} copies"),
    }
}

fn value(verdict: Verdict) -> Value {
    match verdict {
        Verdict::Ratio { ratio, .. } => Value::Measured(ratio),
        Verdict::Above(ratio) => Value::Above(ratio),
        Verdict::Wrong(what) => Value::Wrong(what),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) const BENCH: &str = "case,engine,row,round,rtt_before_ns,rtt_after_ns,time_ns,\
        extra_1\n\
        empty,ours,bound,0,50,60,100,\n\
        empty,ours,bound,1,50,60,120,\n\
        empty,ours,bound,2,50,300,999,\n\
        empty,peer,bound,0,300,310,400,\n\
        \"one, two\",ours,unbound,0,50,50,7,\n";

    pub(crate) fn section(folder: &Path, name: &str, text: &str) -> anyhow::Result<Section> {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn near_and_far_samples_of_a_bench_are_told_apart_and_disagreeing_ones_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let found = section(folder.path(), "2026-11-22-fork_join.csv", BENCH).unwrap();
        assert_eq!(found.title, "fork_join");
        assert_eq!(found.charts.len(), 2);
        let values = &found.charts[0].values;
        assert_eq!(values.len(), 2);
        assert_eq!(values[0].0.distance, Some(Distance::Near));
        assert!(matches!(&values[0].1, Value::Measured(it) if it.median == 110.0 && it.runs == 2));
        assert_eq!(values[1].0.distance, Some(Distance::Far));
        assert_eq!(found.charts[1].title, "one, two");
    }

    #[test]
    fn near_and_far_runs_of_the_suite_are_told_apart_and_what_is_left_out_is_named() {
        let of = |repetition, runtime, copies: usize, trip| {
            (0..copies).map(move |copy| Row {
                repetition,
                round_trip_before: Some(trip),
                ..suite::row_of_test(&format!("a*{copies}"), runtime, copy, 3.0)
            })
        };
        let mut rows = Vec::new();
        for (repetition, trip) in [(0, 50.0), (1, 300.0), (2, 310.0)] {
            for copies in [1, 2, 12] {
                for runtime in [Runtime::One, Runtime::Managed] {
                    rows.extend(of(repetition, runtime, copies, trip));
                }
            }
        }
        let disturbed = rows.iter_mut().filter(|row| row.repetition == 2 && row.scenario == "a*2");
        disturbed.for_each(|row| row.others = 0.4);
        rows[0].commit = "later".into();
        let of_rust = suite::row_of_test("rust/b*1", Runtime::One, 0, 3.0);
        let (compiler, flags) = ("rustc 1.9".to_owned(), "lto=fat".to_owned());
        rows.push(Row { compiler, flags, ..of_rust });
        let found = of_suite("suite".into(), &rows).unwrap();
        let about = found.about.join("\n");
        assert!(about.contains("commit later abc+"), "{about}");
        assert!(about.contains("compiled by gcc 12 -O3; rustc 1.9 lto=fat"), "{about}");
        assert!(about.contains("solves it: a W x 3, rust/b W x 3"), "{about}");
        assert_eq!(found.charts.len(), 2);
        let shown = |(label, value): &(Label, Value)| match value {
            Value::Measured(it) if label.engine == "managed" => {
                Some((label.group.clone(), label.distance.map(Distance::name), it.runs))
            }
            _ => None,
        };
        let values: Vec<_> = found.charts[0].values.iter().filter_map(shown).collect();
        let expected = [
            ("1 copy", "near", 1),
            ("1 copy", "far", 2),
            ("2 copies", "near", 1),
            ("2 copies", "far", 1),
            ("12 copies", "near", 1),
            ("12 copies", "far", 2),
        ];
        let expected =
            expected.map(|(group, distance, runs)| (group.to_owned(), Some(distance), runs));
        assert_eq!(values, expected);
        let said = found.about.last().unwrap();
        assert!(said.starts_with("2 runs are left out: a*2, one, repetition 2: others"), "{said}");
    }

    #[test]
    fn what_is_no_record_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let fault = |text| section(folder.path(), "x.csv", text).unwrap_err().to_string();
        assert!(fault("a,b\n1,2\n").contains("its first line is a,b"));
        assert!(
            fault("case,engine,row,rtt_before_ns,rtt_after_ns,time_ns\n").contains("no samples")
        );
        let wrong = fault("case,engine,row,rtt_before_ns,rtt_after_ns,time_ns\na,b,c,1,2,x\n");
        assert!(wrong.contains("line 2"), "{wrong}");
        assert!(read(&folder.path().join("none.csv")).is_err());
    }
}
