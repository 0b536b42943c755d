//! What changed from one record to another. Pure.
//!
//! Records of a bench are compared with those of the same bench, records of the suite with all of
//! the suite, whatever their files are called. Programs whose class differs did other work and are
//! not compared; where their repetitions or the machine differ that is said beside the values.

use super::data::{Kind, Label, Section, Value};
use crate::suite::Scenario;

/// Runs on each side without which two values are never called apart: one run has no spread.
const LEAST_RUNS: usize = 2;

/// A value that both records have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Change {
    pub(crate) chart: String,
    pub(crate) label: Label,
    pub(crate) before: Value,
    pub(crate) now: Value,
}

/// What two sets of records say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// Changed outcomes, then the others, the largest change first.
    pub(crate) all: Vec<Change>,
    /// What is not compared, and what is not the same on both sides.
    pub(crate) notes: Vec<String>,
}

impl Change {
    /// Now by before, where both were measured.
    pub(crate) fn ratio(&self) -> Option<f64> {
        match (&self.before, &self.now) {
            (Value::Measured(before), Value::Measured(now)) => Some(now.median / before.median),
            _ => None,
        }
    }

    /// No run of the one lies within the runs of the other, and there are several of each.
    pub(crate) fn is_apart(&self) -> bool {
        let (Value::Measured(before), Value::Measured(now)) = (&self.before, &self.now) else {
            return false;
        };
        before.runs.min(now.runs) >= LEAST_RUNS
            && (now.least > before.most || now.most < before.least)
    }

    /// Whether it says anything: what is wrong or killed on both sides does not.
    fn is_told(&self) -> bool {
        !matches!(
            (&self.before, &self.now),
            (Value::Wrong(_), Value::Wrong(_)) | (Value::Above(_), Value::Above(_))
        )
    }

    /// Changed outcomes are before all others.
    fn size(&self) -> f64 {
        self.ratio().map_or(f64::INFINITY, |ratio| ratio.ln().abs())
    }
}

/// Compares records with older ones.
pub(crate) fn changes(now: &[Section], before: &[Section]) -> Changes {
    let mut found = Changes::default();
    for section in now {
        let is_same = |other: &&Section| {
            other.kind == section.kind
                && (section.kind == Kind::Suite || other.title == section.title)
        };
        let mut has_any = false;
        for old in before.iter().filter(is_same) {
            has_any |= found.add(section, old);
        }
        if !has_any {
            found.notes.push(format!("{}: no value of it is in an older record", section.title));
        }
    }
    found.all.sort_by(|a, b| b.size().total_cmp(&a.size()));
    found.notes.dedup();
    found
}

impl Changes {
    /// Adds what changed from `old` to `section`; `false` where they have nothing in common.
    fn add(&mut self, section: &Section, old: &Section) -> bool {
        let mut notes = Vec::new();
        let (machine, other) = (&section.conditions.machine, &old.conditions.machine);
        if machine != other {
            notes.push(format!("{}: {machine} now, and {other} before", section.title));
        }
        for (program, (class, repeat)) in &section.conditions.work {
            let work = format!("class {class} x {repeat}");
            match old.conditions.work.get(program) {
                Some((other, times)) if other != class => notes.push(format!(
                    "{program}: {work} now, and class {other} x {times} before: not compared"
                )),
                Some((other, times)) if times != repeat => {
                    notes.push(format!("{program}: {work} now, and class {other} x {times} before"))
                }
                _ => {}
            }
        }
        let mut has_any = false;
        for (chart, other) in section.charts.iter().flat_map(|chart| {
            let same = old.charts.iter().filter(|other| other.title == chart.title);
            same.map(move |other| (chart, other))
        }) {
            for (label, value) in &chart.values {
                let found = other.values.iter().find(|(of, _)| of == label);
                let Some((_, before)) = found else { continue };
                has_any = true;
                let change = Change {
                    chart: format!("{}: {}", section.title, chart.title),
                    label: label.clone(),
                    before: before.clone(),
                    now: value.clone(),
                };
                let is_equal = is_same_class(section, old, &chart.title, &label.group);
                self.all.extend((is_equal && change.is_told()).then_some(change));
            }
        }
        if has_any {
            self.notes.extend(notes);
        }
        has_any
    }
}

/// Whether the programs of a value had problems of the same class on both sides. A chart is of one
/// program, or of mixes, whose groups begin with their programs.
fn is_same_class(now: &Section, before: &Section, chart: &str, group: &str) -> bool {
    let class = |section: &Section, program: &str| {
        section.conditions.work.get(program).map(|(class, _)| class.clone())
    };
    let mix = group.split_once(':').map_or(group, |(mix, _)| mix);
    let mixed = Scenario::parse(mix).map(|mix| mix.0).unwrap_or_default();
    let mut programs = mixed.iter().map(String::as_str).chain([chart]);
    programs.all(|program| class(now, program) == class(before, program))
}

#[cfg(test)]
mod tests {
    use super::super::data::of_suite;
    use super::super::data::tests::{BENCH, section};
    use super::*;
    use crate::suite::{Row, Runtime, row_of_test};

    /// A suite of two copies of a program: with one thread, and managed in these times.
    fn suite(title: &str, times: &[f64], alter: impl Fn(&mut Row)) -> Section {
        let mut rows = Vec::new();
        for (repetition, time) in (0..).zip(times) {
            for copy in 0..2 {
                for (runtime, time) in [(Runtime::One, 4.0), (Runtime::Managed, *time)] {
                    rows.push(Row { repetition, ..row_of_test("c/cg*2", runtime, copy, time) });
                }
            }
        }
        rows.iter_mut().for_each(alter);
        of_suite(title.into(), &rows).unwrap()
    }

    fn managed(found: &Changes) -> Vec<&Change> {
        found.all.iter().filter(|it| it.label.engine == "managed").collect()
    }

    #[test]
    fn what_changed_is_found_by_its_label_and_the_largest_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let now = section(folder.path(), "fork_join.csv", BENCH).unwrap();
        let old = BENCH.replace(",100,", ",50,").replace(",120,", ",60,").replace(",7,", ",8,");
        let before = section(folder.path(), "2026-11-20-fork_join.csv", &old).unwrap();
        let found = changes(std::slice::from_ref(&now), &[before]).all;
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].ratio(), found[0].is_apart()), (Some(2.0), true));
        assert_eq!(found[2].now, found[2].before);
        let other = Section { title: "loops".into(), ..now.clone() };
        let found = changes(&[now], &[other]);
        assert!(found.all.is_empty());
        assert_eq!(found.notes, ["fork_join: no value of it is in an older record"]);
    }

    #[test]
    fn records_of_the_suite_are_compared_whatever_their_files_are_called() {
        let [now, before] =
            [("c3", 6.0), ("suite", 4.0)].map(|(title, time)| suite(title, &[time, time], |_| {}));
        let found = changes(&[now], &[before]);
        let ratios: Vec<_> = managed(&found).iter().map(|it| it.ratio()).collect();
        assert_eq!((ratios, &found.notes[..]), (vec![Some(1.5)], &[][..]));
        assert!(managed(&found)[0].is_apart());
    }

    #[test]
    fn one_run_on_a_side_is_never_apart() {
        let of = |times: &[f64]| suite("suite", times, |_| {});
        let found = changes(&[of(&[6.001])], &[of(&[6.0])]);
        assert!(managed(&found).len() == 1 && !managed(&found)[0].is_apart());
        let found = changes(&[of(&[8.0, 8.0])], &[of(&[6.0])]);
        assert!(!managed(&found)[0].is_apart());
    }

    #[test]
    fn a_changed_outcome_is_told_first() {
        let good = suite("suite", &[6.0, 6.0], |_| {});
        let wrong = |outcome: &'static str| {
            suite("suite", &[6.0, 6.0], move |row| {
                if row.runtime == Runtime::Managed {
                    row.outcome = outcome.into();
                }
            })
        };
        let first = |now: &Section, before: &Section| {
            let found = changes(std::slice::from_ref(now), std::slice::from_ref(before));
            let first = &found.all[0];
            (first.label.engine.clone(), first.before.clone(), first.now.clone())
        };
        for (outcome, is_wrong) in [("killed", false), ("exit status: 1", true)] {
            let bad = wrong(outcome);
            let (engine, before, now) = first(&bad, &good);
            assert!(engine == "managed" && matches!(before, Value::Measured(_)), "{before:?}");
            assert!(matches!(now, Value::Wrong(_)) == is_wrong, "{now:?}");
            let (_, before, now) = first(&good, &bad);
            assert!(matches!(now, Value::Measured(_)) && !matches!(before, Value::Measured(_)));
            let found = changes(std::slice::from_ref(&bad), std::slice::from_ref(&bad));
            assert!(managed(&found).is_empty(), "as bad as before");
        }
    }

    #[test]
    fn unequal_work_is_not_compared_or_said() {
        let good = suite("suite", &[6.0, 6.0], |_| {});
        let of = |alter: fn(&mut Row)| {
            let before = suite("suite", &[6.0, 6.0], alter);
            changes(std::slice::from_ref(&good), &[before])
        };
        let found = of(|row| row.class = "A".into());
        assert!(found.all.is_empty());
        assert_eq!(found.notes, ["c/cg: class W x 3 now, and class A x 3 before: not compared"]);
        let found = of(|row| row.repeat = 9);
        assert!(!found.all.is_empty());
        assert_eq!(found.notes, ["c/cg: class W x 3 now, and class W x 9 before"]);
        let found = of(|row| row.machine = "another".into());
        assert!(!found.all.is_empty());
        let said = "suite: 2 x a, \"b\", Linux 6.1 now, and 2 x another, Linux 6.1 before";
        assert_eq!(found.notes, [said]);
    }
}
