//! The table of `cargo xtask real`, and its record. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::runtime::Runtime;
use super::{Setting, pools};
use crate::measure::median;

/// A program in one setting.
pub(super) struct Row {
    pub(super) program: &'static str,
    pub(super) setting: Setting,
    /// Those that were ended at the cap: their times are lower bounds.
    pub(super) killed: BTreeSet<Runtime>,
    pub(super) times: BTreeMap<Runtime, Vec<f64>>,
}

/// The first two lines.
pub(super) fn head() -> String {
    let names = Runtime::COLUMNS.map(Runtime::name).join(" | ");
    format!(
        "| program | setting | {names} | nanos ratio | exact ratio | managed ratio | pair by pair \
         |\n|{}",
        "---|".repeat(Runtime::COLUMNS.len() + 6)
    )
}

/// The same of the programs on threads that the library does not know.
pub(super) fn head_of_unknown() -> String {
    format!(
        "| program | setting | one | original | managed | told | managed ratio | told ratio \
         |\n|{}",
        "---|".repeat(8)
    )
}

impl Row {
    pub(super) fn new(program: &'static str, setting: Setting) -> Row {
        Row { program, setting, killed: BTreeSet::new(), times: BTreeMap::new() }
    }

    fn times(&self, runtime: Runtime) -> &[f64] {
        self.times.get(&runtime).map_or(&[], Vec::as_slice)
    }

    fn median(&self, runtime: Runtime) -> Option<f64> {
        let times = self.times(runtime);
        (!times.is_empty()).then(|| median(times))
    }

    /// Medians, their ratios, and the median of the ratios of runs that were made one after the
    /// other; alone by the original, else by one thread.
    pub(super) fn line(&self) -> String {
        let kind = if self.setting == Setting::Alone { Runtime::Libgomp } else { Runtime::One };
        let shown = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.2}"));
        let mut cells = vec![self.program.to_owned(), self.setting.name()];
        let is_unknown = pools::NAMES.contains(&self.program);
        let columns: &[Runtime] = if is_unknown { &Runtime::UNKNOWN } else { &Runtime::COLUMNS };
        for &runtime in columns {
            let bound = if self.killed.contains(&runtime) { ">" } else { "" };
            cells.push(format!("{bound}{}", shown(self.median(runtime))));
        }
        if is_unknown {
            for runtime in [Runtime::Managed, Runtime::Told] {
                cells.push(shown(self.pair_by_pair(runtime, kind)));
            }
            return format!("| {} |", cells.join(" | "));
        }
        for runtime in [Runtime::Nanos, Runtime::Exact, Runtime::Managed] {
            let ratio = self.median(runtime).zip(self.median(kind));
            cells.push(shown(ratio.map(|(ours, theirs)| ours / theirs)));
        }
        cells.push(shown(self.pair_by_pair(Runtime::Managed, kind)));
        format!("| {} |", cells.join(" | "))
    }

    fn pair_by_pair(&self, ours: Runtime, theirs: Runtime) -> Option<f64> {
        let pairs = self.times(ours).iter().zip(self.times(theirs));
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
        (!ratios.is_empty()).then(|| median(&ratios))
    }

    /// One line of the record.
    pub(super) fn json(&self) -> String {
        let names = |runtime: &Runtime| runtime.name().to_owned();
        let all = Runtime::COLUMNS.into_iter().chain([Runtime::Told]);
        let times: Map<String, Value> =
            all.clone().map(|runtime| (names(&runtime), json!(self.times(runtime)))).collect();
        let mut row = json!({
            "program": self.program,
            "setting": self.setting.name(),
            "killed": self.killed.iter().map(names).collect::<Vec<_>>(),
            "times": times,
        });
        for runtime in all {
            if let Some(median) = self.median(runtime) {
                row[runtime.name()] = median.into();
            }
        }
        row.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(setting: Setting) -> Row {
        Row {
            killed: BTreeSet::from([Runtime::Libgomp]),
            times: BTreeMap::from([
                (Runtime::Libgomp, vec![4.0]),
                (Runtime::One, vec![1.0, 2.0, 3.0]),
                (Runtime::Nanos, vec![3.0, 3.0, 3.0]),
                (Runtime::Exact, vec![5.0, 2.5, 2.0]),
                (Runtime::Managed, vec![1.0, 1.0, 9.0]),
            ]),
            ..Row::new("fftw", setting)
        }
    }

    #[test]
    fn a_line_has_medians_ratios_and_pairs() {
        assert_eq!(
            row(Setting::Copies(4)).line(),
            "| fftw | 4 copies | >4.00 | - | - | 2.00 | 3.00 | 2.50 | 1.00 | 1.50 | 1.25 | 0.50 | \
             1.00 |"
        );
        let alone = row(Setting::Alone).line();
        assert!(alone.ends_with("| 0.75 | 0.62 | 0.25 | 0.25 |"), "{alone}");
        let none = Row::new("gm", Setting::Hog).line();
        assert_eq!(none, "| gm | beside a hog | - | - | - | - | - | - | - | - | - | - | - |");
        let beside = Row::new("svd", Setting::Beside("kmeans")).line();
        assert!(beside.starts_with("| svd | beside kmeans | - |"), "{beside}");
        let columns = |text: &str| text.matches('|').count();
        assert!(head().lines().all(|line| columns(line) == columns(&none)), "{}", head());
    }

    #[test]
    fn a_line_of_unknown_threads_has_what_they_run_on() {
        let times = [(Runtime::One, 2.0), (Runtime::Managed, 3.0), (Runtime::Told, 2.5)];
        let times = times.map(|(runtime, seconds)| (runtime, vec![seconds]));
        let row = Row { times: BTreeMap::from(times), ..Row::new("go", Setting::Copies(2)) };
        assert_eq!(row.line(), "| go | 2 copies | 2.00 | - | 3.00 | 2.50 | 1.50 | 1.25 |");
        let columns = |text: &str| text.matches('|').count();
        assert!(head_of_unknown().lines().all(|line| columns(line) == columns(&row.line())));
    }

    #[test]
    fn the_record_has_every_time() {
        let row: Value = serde_json::from_str(&row(Setting::Copies(2)).json()).unwrap();
        assert_eq!(row["times"]["one"], json!([1.0, 2.0, 3.0]));
        assert_eq!(row["one"], json!(2.0));
        assert_eq!(row["killed"], json!(["libgomp"]));
        assert_eq!(row["setting"], json!("2 copies"));
        assert_eq!(row.get("libomp"), None);
    }
}
