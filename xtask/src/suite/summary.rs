//! What a record says: ratios to the ideal, how equal copies were treated, and which bars are
//! missed. Pure.
//!
//! # The ideal
//! Of K copies of a program on P processors the mean turnaround is at least the larger of the best
//! median turnaround of one copy alone on any runtime, and K x c / P, where c is the processor time
//! of a copy with one thread while K of them run (so that caches and memory are shared as they are
//! in the run that is judged). A runtime's ratio is its mean turnaround by that. In a mix each
//! program is compared with its own one-thread copy beside the other's one-thread copy.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::plan::Scenario;
use super::row::{KILLED, Row, cell_of};
use super::runtime::Runtime;
use crate::measure::{AGREE, Spread, median};

/// Largest ratio to the ideal under the manager, and in a mix to the program's one-thread copy.
const LARGEST_RATIO: f64 = 1.05;
/// Largest turnaround of a copy to the mean of its run's copies.
const LARGEST_SPREAD: f64 = 1.1;
/// Largest ratio of one copy alone to the best of libgomp, libomp and rayon.
const LARGEST_ALONE: f64 = 1.02;

/// The copies of one run.
#[derive(Clone, Debug)]
struct Run<'a> {
    rows: Vec<&'a Row>,
}

impl Run<'_> {
    fn mean(&self, of: impl Fn(&Row) -> f64) -> f64 {
        self.rows.iter().map(|row| of(row)).sum::<f64>() / self.rows.len() as f64
    }

    fn turnaround(&self) -> f64 {
        self.mean(|row| row.turnaround)
    }

    /// The longest turnaround by the mean one.
    fn inequality(&self) -> f64 {
        let longest = self.rows.iter().map(|row| row.turnaround).fold(0.0, f64::max);
        longest / self.turnaround()
    }

    fn is_verified(&self) -> bool {
        self.rows.iter().all(|row| row.is_verified())
    }

    fn agrees_with(&self, other: &Run<'_>) -> bool {
        let trips = |run: &Run<'_>| -> Vec<f64> {
            let row = run.rows[0];
            row.round_trip_before.into_iter().chain(row.round_trip_after).collect()
        };
        let all = [trips(self), trips(other)].concat();
        let least = all.iter().copied().fold(f64::INFINITY, f64::min);
        all.iter().all(|trip| *trip <= least * AGREE)
    }
}

/// The mean turnaround of the copies of one program.
fn own(run: &Run<'_>, program: &str) -> f64 {
    let rows = run.rows.iter().copied().filter(|row| row.program == program).collect();
    Run { rows }.turnaround()
}

/// A record, ordered.
pub(crate) struct Summary<'a> {
    runs: BTreeMap<(Scenario, Runtime), BTreeMap<u32, Run<'a>>>,
    processors: usize,
}

/// How a runtime did in a scenario.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Ratios of the mean turnaround to the ideal, and of the longest to the mean.
    Ratio { ratio: Spread, inequality: Spread },
    /// Copies were ended at the cap: at least this ratio.
    Above(f64),
    /// Copies gave wrong results.
    Wrong(String),
}

impl<'a> Summary<'a> {
    pub(crate) fn new(rows: &'a [Row]) -> anyhow::Result<Summary<'a>> {
        let mut runs: BTreeMap<(Scenario, Runtime), BTreeMap<u32, Run<'a>>> = BTreeMap::new();
        for row in rows {
            let cell = cell_of(row)?;
            let of_kind = runs.entry((cell.scenario, cell.runtime)).or_default();
            of_kind.entry(cell.repetition).or_insert(Run { rows: Vec::new() }).rows.push(row);
        }
        let processors = rows.first().map_or(1, |row| row.processors);
        Ok(Summary { runs, processors })
    }

    fn of(&self, scenario: &Scenario, runtime: Runtime) -> impl Iterator<Item = &Run<'a>> {
        self.runs.get(&(scenario.clone(), runtime)).into_iter().flat_map(BTreeMap::values)
    }

    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        let mut all: Vec<Scenario> =
            self.runs.keys().map(|(scenario, _)| scenario.clone()).collect();
        all.dedup();
        all.sort_by_key(|it| (it.program().map(str::to_owned), it.0.len(), it.name()));
        all
    }

    /// The best median turnaround of one copy, on any runtime.
    fn best_alone(&self, program: &str) -> Option<f64> {
        let alone = Scenario::copies(program, 1);
        let medians = self.runs.keys().filter(|(scenario, _)| *scenario == alone);
        let medians = medians.filter_map(|(scenario, runtime)| {
            let verified = self.of(scenario, *runtime).filter(|run| run.is_verified());
            let times: Vec<f64> = verified.map(Run::turnaround).collect();
            (!times.is_empty()).then(|| median(&times))
        });
        medians.min_by(f64::total_cmp)
    }

    /// The processor time of a copy with one thread while `copies` of them run; where that was not
    /// measured, while it is alone.
    fn one_thread(&self, program: &str, copies: usize) -> Option<f64> {
        [copies, 1].into_iter().find_map(|copies| {
            let scenario = Scenario::copies(program, copies);
            let verified = self.of(&scenario, Runtime::One).filter(|run| run.is_verified());
            let times: Vec<f64> = verified.map(|run| run.mean(|row| row.processor_time)).collect();
            (!times.is_empty()).then(|| median(&times))
        })
    }

    /// The ideal mean turnaround of copies of one program, in seconds; `None` without a run of one
    /// thread.
    pub(crate) fn ideal(&self, scenario: &Scenario) -> Option<f64> {
        let program = scenario.program()?;
        let copies = scenario.0.len();
        let work = self.one_thread(program, copies)?;
        let shared = copies as f64 * work / self.processors as f64;
        Some(self.best_alone(program).map_or(shared, |alone| alone.max(shared)))
    }

    /// How copies of one program did.
    pub(crate) fn verdict(&self, scenario: &Scenario, runtime: Runtime) -> Option<Verdict> {
        let ideal = self.ideal(scenario)?;
        self.judge(scenario, runtime, |run| run.turnaround() / ideal)
    }

    /// How one program of a mix did, by its one-thread copy beside the others' one-thread copies.
    pub(crate) fn verdict_in_mix(
        &self,
        scenario: &Scenario,
        runtime: Runtime,
        program: &str,
    ) -> Option<Verdict> {
        let yardstick = self.yardstick(scenario, program)?;
        self.judge(scenario, runtime, |run| own(run, program) / yardstick)
    }

    /// What the turnaround of a program is compared with: its ideal, or in a mix its one-thread
    /// copy.
    pub(crate) fn yardstick(&self, scenario: &Scenario, program: &str) -> Option<f64> {
        if scenario.program().is_some() {
            return self.ideal(scenario);
        }
        let verified = self.of(scenario, Runtime::One).filter(|run| run.is_verified());
        let one: Vec<f64> = verified.map(|run| own(run, program)).collect();
        (!one.is_empty()).then(|| median(&one))
    }

    fn judge(
        &self,
        scenario: &Scenario,
        runtime: Runtime,
        ratio: impl Fn(&Run<'a>) -> f64,
    ) -> Option<Verdict> {
        let runs: Vec<&Run<'a>> = self.of(scenario, runtime).collect();
        let rows = || runs.iter().flat_map(|run| &run.rows);
        if let Some(wrong) = rows().find(|row| !row.is_verified() && row.outcome != KILLED) {
            return Some(Verdict::Wrong(wrong.outcome.clone()));
        }
        let ratios: Vec<f64> = runs.iter().map(|run| ratio(run)).collect();
        if rows().any(|row| !row.is_verified()) {
            return Some(Verdict::Above(median(&ratios)));
        }
        let unequal: Vec<f64> = runs.iter().map(|run| run.inequality()).collect();
        let (ratio, inequality) = (Spread::of(&ratios)?, Spread::of(&unequal)?);
        Some(Verdict::Ratio { ratio, inequality })
    }

    /// The ratio of one copy alone on a runtime to the best of libgomp, libomp and rayon, by pairs
    /// of the same repetition whose round trips agree.
    pub(crate) fn alone_to_peers(&self, program: &str, runtime: Runtime) -> Option<Spread> {
        let alone = Scenario::copies(program, 1);
        let kind = |runtime| self.runs.get(&(alone.clone(), runtime));
        let peers =
            [Runtime::Libgomp, Runtime::Libomp, Runtime::Rayon].into_iter().filter_map(|peer| {
                let times: Vec<f64> = self
                    .of(&alone, peer)
                    .filter(|run| run.is_verified())
                    .map(Run::turnaround)
                    .collect();
                (!times.is_empty()).then(|| (median(&times), peer))
            });
        let (_, best) = peers.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let pairs = kind(runtime)?.iter().filter_map(|(repetition, run)| {
            let peer = kind(best)?.get(repetition)?;
            let counts = run.is_verified() && peer.is_verified() && run.agrees_with(peer);
            counts.then(|| run.turnaround() / peer.turnaround())
        });
        Spread::of(&pairs.collect::<Vec<f64>>())
    }

    /// Every bar that is missed, one a line.
    pub(crate) fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for scenario in self.scenarios() {
            let name = scenario.name();
            for runtime in [Runtime::Managed, Runtime::Alone] {
                let of_program = self.verdicts(&scenario, runtime);
                for (program, verdict) in of_program {
                    let program = program.map_or(String::new(), |program| format!(", {program}"));
                    missed.extend(fault(
                        &format!("{name}, {}{program}", runtime.name()),
                        runtime,
                        &verdict,
                    ));
                }
                let program = scenario.program().filter(|_| scenario.0.len() == 1);
                let alone = program.and_then(|program| self.alone_to_peers(program, runtime));
                if let Some(alone) = alone.filter(|it| it.median > LARGEST_ALONE) {
                    missed.push(format!(
                        "{name}, {}: {:.3} of the best peer, bar {LARGEST_ALONE}",
                        runtime.name(),
                        alone.median
                    ));
                }
            }
        }
        missed
    }

    /// The verdicts of a scenario: of all copies of one program, or of each program of a mix, whose
    /// name is given then.
    pub(crate) fn verdicts(
        &self,
        scenario: &Scenario,
        runtime: Runtime,
    ) -> Vec<(Option<String>, Verdict)> {
        if scenario.program().is_some() {
            return self.verdict(scenario, runtime).map(|it| (None, it)).into_iter().collect();
        }
        let mut programs = scenario.0.clone();
        programs.sort();
        programs.dedup();
        let of = |program: String| {
            let verdict = self.verdict_in_mix(scenario, runtime, &program)?;
            Some((Some(program), verdict))
        };
        programs.into_iter().filter_map(of).collect()
    }

    /// The table of all scenarios and runtimes.
    pub(crate) fn table(&self) -> String {
        let mut runtimes: Vec<Runtime> = self.runs.keys().map(|(_, runtime)| *runtime).collect();
        runtimes.sort_unstable();
        runtimes.dedup();
        runtimes.retain(|runtime| *runtime != Runtime::One);
        let mut text = format!("{:<34} {:>8}", "scenario", "ideal s");
        for runtime in &runtimes {
            _ = write!(text, " {:>22}", runtime.name());
        }
        text.push('\n');
        for scenario in self.scenarios() {
            let kinds: Vec<Vec<(Option<String>, Verdict)>> =
                runtimes.iter().map(|runtime| self.verdicts(&scenario, *runtime)).collect();
            let labels: Vec<Option<String>> = match kinds.iter().max_by_key(|kind| kind.len()) {
                Some(longest) if !longest.is_empty() => {
                    longest.iter().map(|(label, _)| label.clone()).collect()
                }
                _ => continue,
            };
            for label in labels {
                let name = match &label {
                    Some(program) => format!("{}, {program}", scenario.name()),
                    None => scenario.name(),
                };
                let program = label.as_deref().or_else(|| scenario.program()).unwrap_or_default();
                let ideal = self.yardstick(&scenario, program);
                let ideal = ideal.map_or("-".to_owned(), |it| format!("{it:.2}"));
                _ = write!(text, "{:<34} {ideal:>8}", name);
                for kind in &kinds {
                    let verdict = kind.iter().find(|(own, _)| *own == label).map(|(_, it)| it);
                    _ = write!(text, " {:>22}", verdict.map_or("-".to_owned(), cell));
                }
                text.push('\n');
            }
        }
        text
    }
}

/// What of a verdict misses a bar. The manager's is held to the ideal; without one a program cannot
/// know of the others.
fn fault(name: &str, runtime: Runtime, verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Wrong(what) => vec![format!("{name}: {what}")],
        Verdict::Above(ratio) => {
            vec![format!("{name}: ended at the cap, above {ratio:.2}, bar {LARGEST_RATIO}")]
        }
        Verdict::Ratio { ratio, inequality } if runtime == Runtime::Managed => {
            let mut faults = Vec::new();
            if ratio.median > LARGEST_RATIO {
                faults.push(format!("{name}: ratio {:.3}, bar {LARGEST_RATIO}", ratio.median));
            }
            if inequality.median > LARGEST_SPREAD && name.contains('*') {
                faults.push(format!(
                    "{name}: longest by mean {:.3}, bar {LARGEST_SPREAD}",
                    inequality.median
                ));
            }
            faults
        }
        Verdict::Ratio { .. } => Vec::new(),
    }
}

fn cell(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Wrong(_) => "WRONG".to_owned(),
        Verdict::Above(ratio) => format!("> {ratio:.2}"),
        Verdict::Ratio { ratio, inequality } if ratio.runs > 1 => format!(
            "{:.2} ({:.2}-{:.2}) {:.2}",
            ratio.median, ratio.least, ratio.most, inequality.median
        ),
        Verdict::Ratio { ratio, inequality } => {
            format!("{:.2} {:.2}", ratio.median, inequality.median)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    /// Copies of one run with these turnarounds; each had as much processor time.
    fn run(scenario: &str, runtime: Runtime, times: &[f64]) -> Vec<Row> {
        times.iter().enumerate().map(|(copy, time)| row(scenario, runtime, copy, *time)).collect()
    }

    fn ratio(verdict: Option<Verdict>) -> f64 {
        match verdict {
            Some(Verdict::Ratio { ratio, .. }) => ratio.median,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_ideal_is_the_larger_of_best_alone_and_the_share_of_the_processors() {
        let rows = [
            run("a*1", Runtime::One, &[4.0]),
            run("a*1", Runtime::Libgomp, &[3.0]),
            run("a*1", Runtime::Managed, &[3.3]),
            run("a*2", Runtime::One, &[5.0, 5.0]),
            run("a*2", Runtime::Managed, &[5.0, 6.0]),
            run("a*4", Runtime::Managed, &[8.0; 4]),
        ]
        .concat();
        let summary = Summary::new(&rows).unwrap();
        let ideal = |copies| summary.ideal(&Scenario::copies("a", copies)).unwrap();
        assert_eq!(ideal(1), 3.0, "alone it cannot be faster than the best");
        assert_eq!(ideal(2), 5.0, "by copies that shared the caches");
        assert_eq!(ideal(4), 8.0, "4 x 4 s on 2 processors");
        let verdict = |copies| summary.verdict(&Scenario::copies("a", copies), Runtime::Managed);
        assert_eq!(ratio(verdict(2)), 1.1);
        assert_eq!(ratio(verdict(4)), 1.0);
        let missed = summary.missed();
        assert_eq!(missed.len(), 3, "{missed:?}");
        assert!(missed.iter().any(|it| it.starts_with("a*1, managed: 1.100 of the best peer")));
        assert!(missed.iter().any(|it| it.starts_with("a*2, managed: ratio 1.100")));
    }

    #[test]
    fn in_a_mix_each_program_is_compared_with_its_own_one_thread_copy() {
        let rows =
            [run("a+b", Runtime::One, &[4.0, 8.0]), run("a+b", Runtime::Managed, &[4.0, 10.0])]
                .concat();
        let summary = Summary::new(&rows).unwrap();
        let mix = Scenario::parse("a+b").unwrap();
        let of = |program| ratio(summary.verdict_in_mix(&mix, Runtime::Managed, program));
        assert_eq!((of("a"), of("b")), (1.0, 1.25));
        assert_eq!(summary.missed().len(), 1);
        assert!(summary.table().contains("a+b, b"), "{}", summary.table());
    }

    #[test]
    fn what_was_killed_or_wrong_is_never_a_ratio() {
        let mut rows = [
            run("a*1", Runtime::One, &[4.0]),
            run("a*1", Runtime::Libgomp, &[20.0]),
            run("a*1", Runtime::Managed, &[4.0]),
        ]
        .concat();
        rows[1].outcome = KILLED.into();
        rows[2].outcome = "exit status: 1".into();
        let summary = Summary::new(&rows).unwrap();
        let alone = Scenario::copies("a", 1);
        assert_eq!(summary.ideal(&alone), Some(4.0), "what was killed is no best time");
        let verdict = |runtime| summary.verdict(&alone, runtime);
        assert!(matches!(verdict(Runtime::Libgomp), Some(Verdict::Above(ratio)) if ratio == 5.0));
        assert!(matches!(verdict(Runtime::Managed), Some(Verdict::Wrong(_))));
        assert!(summary.table().contains("WRONG") && summary.table().contains("> 5.00"));
    }

    #[test]
    fn runs_far_and_near_are_not_compared() {
        let mut rows =
            [run("a*1", Runtime::Libgomp, &[4.0]), run("a*1", Runtime::Alone, &[5.0])].concat();
        let ratio = |rows: &[Row]| {
            let summary = Summary::new(rows).unwrap();
            summary.alone_to_peers("a", Runtime::Alone).map(|it| it.median)
        };
        assert_eq!(ratio(&rows), Some(1.25));
        rows[1].round_trip_after = Some(345.0);
        assert_eq!(ratio(&rows), None);
    }
}
