//! What a record says: ratios of turnarounds to yardsticks, and how equal copies were treated.
//! Pure.
//!
//! # The yardsticks
//! K copies of a program on P processors can take, on average, no less than the larger of
//! - the best median turnaround of one copy alone, on any runtime but ours, which are judged, and
//! - what their work takes on all processors together. By [`Yardstick::Together`] that is the mean
//!   turnaround of K copies with one thread each, which share caches and memory as the copies that
//!   are judged do: of the same repetition, since machines change their speed. A run whose
//!   repetition has no such run that counts is compared with nothing, and named. Fewer copies than
//!   processors could share the work further: K / P of it. By [`Yardstick::Alone`] it is K x c / P,
//!   where c is the processor time of one copy with one thread alone. Copies of a program that
//!   waits for memory cannot reach that: for K of them with one thread each the memory is as
//!   narrow.
//!
//! In a mix each program is compared with its own one-thread copy beside the others' one-thread
//! copies. Runs in which the other program gave a wrong result say nothing of this one.
//!
//! # Near and far
//! Runs whose processors were near to each other and runs whose processors were far apart are never
//! compared: each kind has a summary of its own. What counts at all: `runs`.

use std::collections::BTreeSet;

use super::plan::Scenario;
use super::row::Row;
use super::runs::{Kinds, Run, sort};
use super::runtime::Runtime;
use crate::measure::{Distance, Spread, median};

/// What turnarounds are compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Yardstick {
    /// As many copies with one thread each.
    Together,
    /// One copy with one thread alone.
    Alone,
}

/// The summaries of a record.
pub(crate) struct Summaries<'a> {
    /// Of the near runs, then of the far ones, as far as there are any.
    pub(crate) all: Vec<Summary<'a>>,
    /// Runs that do not count, each by its name with the reason.
    pub(crate) left_out: Vec<String>,
    /// Runs that count and have no one-thread copies of their repetition to be compared with.
    pub(crate) unpaired: Vec<String>,
}

/// The runs of one distance, ordered.
pub(crate) struct Summary<'a> {
    /// `None`: there is one processor.
    pub(crate) distance: Option<Distance>,
    runs: Kinds<'a>,
    processors: usize,
}

/// One copy alone on a runtime beside the best of its peers.
pub(crate) struct Beside {
    pub(crate) best: Runtime,
    /// `None`: there is no pair that counts.
    pub(crate) ratio: Option<Spread>,
    /// Pairs whose round trips do not agree.
    pub(crate) dropped: usize,
}

/// How a runtime did in a scenario.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Ratios of the mean turnaround to the yardstick, and of the longest to the mean of the
    /// program's copies.
    Ratio { ratio: Spread, inequality: Spread },
    /// Copies were ended at the cap: at least this ratio.
    Above(f64),
    /// Copies gave wrong results.
    Wrong(String),
}

impl<'a> Summaries<'a> {
    pub(crate) fn new(rows: &'a [Row]) -> anyhow::Result<Summaries<'a>> {
        let processors = rows.first().map_or(1, |row| row.processors);
        let sorted = sort(rows)?;
        let of = |(distance, runs)| Summary { distance, runs, processors };
        let all: Vec<Summary<'_>> = sorted.apart.into_iter().map(of).collect();
        // Where nothing runs on one thread nothing is compared by it.
        let one = rows.iter().filter(|row| row.runtime == Runtime::One);
        let compared: BTreeSet<&str> = one.map(|row| row.scenario.as_str()).collect();
        let unpaired = all.iter().flat_map(Summary::unpaired);
        let unpaired = unpaired.filter(|(scenario, _)| compared.contains(scenario.as_str()));
        let unpaired = unpaired.map(|(scenario, rest)| format!("{scenario}, {rest}")).collect();
        let left_out = sorted.left_out.into_iter().map(|it| it.to_string()).collect();
        Ok(Summaries { all, left_out, unpaired })
    }

    /// The scenarios of near and of far runs, in the order of tables.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        in_order(self.all.iter().flat_map(|summary| summary.runs.keys()))
    }
}

/// Scenarios in the order of tables, each once.
fn in_order<'b>(kinds: impl Iterator<Item = &'b (Scenario, Runtime)>) -> Vec<Scenario> {
    let mut all: Vec<Scenario> = kinds.map(|(scenario, _)| scenario.clone()).collect();
    all.sort_by_cached_key(|it| (it.program().map(str::to_owned), it.0.len(), it.name()));
    all.dedup();
    all
}

/// The median of a number of each verified run.
fn median_of<'a: 'b, 'b>(
    runs: impl Iterator<Item = &'b Run<'a>>,
    number: impl Fn(&Run<'a>) -> f64,
) -> Option<f64> {
    let numbers: Vec<f64> = runs.filter(|run| run.is_verified()).map(number).collect();
    (!numbers.is_empty()).then(|| median(&numbers))
}

impl<'a> Summary<'a> {
    fn of(&self, scenario: &Scenario, runtime: Runtime) -> impl Iterator<Item = &Run<'a>> {
        self.runs.get(&(scenario.clone(), runtime)).into_iter().flat_map(|runs| runs.values())
    }

    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        in_order(self.runs.keys())
    }

    /// What tells its lines from those of the other distance.
    pub(super) fn apart(&self) -> String {
        self.distance.map_or(String::new(), |it| format!(", {}", it.name()))
    }

    /// Verified runs of a scenario on two runtimes, those of one repetition together.
    pub(super) fn pairs(
        &self,
        scenario: &Scenario,
        left: Runtime,
        right: Runtime,
    ) -> Vec<(&Run<'a>, &Run<'a>)> {
        let of = |runtime| self.runs.get(&(scenario.clone(), runtime));
        let (Some(left), Some(right)) = (of(left), of(right)) else { return Vec::new() };
        let pairs = left.iter().filter_map(|(repetition, run)| Some((run, right.get(repetition)?)));
        pairs.filter(|(left, right)| left.is_verified() && right.is_verified()).collect()
    }

    /// Those that something ran on, in the order of tables.
    pub(crate) fn runtimes(&self) -> Vec<Runtime> {
        let mut all: Vec<Runtime> = self.runs.keys().map(|(_, runtime)| *runtime).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The runs that no one-thread copies of their repetition can be compared with: by scenario,
    /// with runtime and repetition.
    fn unpaired(&self) -> Vec<(String, String)> {
        let mut unpaired = Vec::new();
        for ((scenario, runtime), runs) in &self.runs {
            if *runtime == Runtime::One || runtime.is_clang() {
                continue;
            }
            let one = self.runs.get(&(scenario.clone(), Runtime::One));
            for repetition in runs.keys() {
                let paired = one.and_then(|one| one.get(repetition));
                if !paired.is_some_and(Run::is_verified) {
                    let rest = format!("{}, repetition {repetition}", runtime.name());
                    unpaired.push((scenario.name(), rest));
                }
            }
        }
        unpaired
    }

    /// The best median turnaround of one copy, on any runtime but ours.
    fn best_alone(&self, program: &str) -> Option<f64> {
        let alone = Scenario::copies(program, 1);
        // What clang compiled is another program; what is judged is no measure of itself.
        let is_measure = |it: &Runtime| !it.is_clang() && !it.is_ours();
        let medians = self.runtimes().into_iter().filter(is_measure);
        let medians = medians.filter_map(|it| median_of(self.of(&alone, it), Run::turnaround));
        medians.min_by(f64::total_cmp)
    }

    /// The mean turnaround of a program's copies with one thread in a scenario: of a repetition, or
    /// the median of all.
    fn one_thread(
        &self,
        scenario: &Scenario,
        program: &str,
        repetition: Option<u32>,
    ) -> Option<f64> {
        let runs = self.runs.get(&(scenario.clone(), Runtime::One))?;
        let own = |run: &Run<'_>| run.of(program).turnaround();
        match repetition {
            Some(repetition) => runs.get(&repetition).filter(|run| run.is_verified()).map(own),
            None => median_of(runs.values(), own),
        }
    }

    /// The processor time of one copy with one thread alone.
    fn one_thread_alone(&self, program: &str) -> Option<f64> {
        let alone = Scenario::copies(program, 1);
        median_of(self.of(&alone, Runtime::One), Run::processor_time)
    }

    /// What the turnaround of a program in a scenario is compared with, in seconds: in a
    /// repetition, or in all of them. Without the runs of one thread that it wants there is none.
    pub(crate) fn yardstick(
        &self,
        by: Yardstick,
        scenario: &Scenario,
        program: &str,
        repetition: Option<u32>,
    ) -> Option<f64> {
        let together = || self.one_thread(scenario, program, repetition);
        if scenario.program().is_none() {
            return (by == Yardstick::Together).then(together)?;
        }
        let share = scenario.0.len() as f64 / self.processors as f64;
        let shared = match by {
            Yardstick::Together => together()? * share.min(1.0),
            Yardstick::Alone => self.one_thread_alone(program)? * share,
        };
        Some(self.best_alone(program).map_or(shared, |alone| alone.max(shared)))
    }

    /// How a program did in a scenario.
    fn verdict(
        &self,
        by: Yardstick,
        scenario: &Scenario,
        runtime: Runtime,
        program: &str,
    ) -> Option<Verdict> {
        let runs = self.runs.get(&(scenario.clone(), runtime))?;
        let own: Vec<(u32, &Run<'a>, Run<'a>)> =
            runs.iter().map(|(repetition, run)| (*repetition, run, run.of(program))).collect();
        if let Some(wrong) = own.iter().find_map(|(_, _, own)| own.wrong()) {
            return Some(Verdict::Wrong(wrong.to_owned()));
        }
        let ratio = |repetition: Option<u32>, own: &Run<'a>| {
            Some(own.turnaround() / self.yardstick(by, scenario, program, repetition)?)
        };
        // What was ended at the cap is far above: any repetition's yardstick will do.
        let killed = own.iter().filter(|(_, _, own)| !own.is_verified());
        let killed = killed.filter_map(|(repetition, _, own)| {
            ratio(Some(*repetition), own).or_else(|| ratio(None, own))
        });
        if let Some(Spread { median, .. }) = Spread::of(&killed.collect::<Vec<f64>>()) {
            return Some(Verdict::Above(median));
        }
        // Beside a copy that failed the others had more than their part.
        let whole = own.iter().filter(|(_, run, own)| own.is_verified() && run.wrong().is_none());
        let (ratios, unequal): (Vec<f64>, Vec<f64>) = whole
            .filter_map(|(repetition, _, own)| {
                Some((ratio(Some(*repetition), own)?, own.inequality()))
            })
            .unzip();
        Some(Verdict::Ratio { ratio: Spread::of(&ratios)?, inequality: Spread::of(&unequal)? })
    }

    /// The verdicts of a scenario: of all copies of one program, or of each program of a mix, whose
    /// name is given then.
    pub(crate) fn verdicts(
        &self,
        by: Yardstick,
        scenario: &Scenario,
        runtime: Runtime,
    ) -> Vec<(Option<String>, Verdict)> {
        if let Some(program) = scenario.program() {
            let verdict = self.verdict(by, scenario, runtime, program);
            return verdict.map(|it| (None, it)).into_iter().collect();
        }
        let mut programs = scenario.0.clone();
        programs.sort();
        programs.dedup();
        let of = |program: String| {
            let verdict = self.verdict(by, scenario, runtime, &program)?;
            Some((Some(program), verdict))
        };
        programs.into_iter().filter_map(of).collect()
    }

    /// One copy alone on a runtime beside the best of libgomp, libomp and rayon, by pairs of the
    /// same repetition whose round trips agree: turnarounds, beside rayon the timed sections.
    pub(crate) fn alone_to_peers(&self, program: &str, runtime: Runtime) -> Option<Beside> {
        let alone = Scenario::copies(program, 1);
        let kind = |runtime| self.runs.get(&(alone.clone(), runtime));
        let peers = [Runtime::Libgomp, Runtime::Libomp, Runtime::Rayon].into_iter();
        let peers =
            peers.filter_map(|it| Some((median_of(self.of(&alone, it), Run::turnaround)?, it)));
        let (_, best) = peers.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let time = |run: &Run<'_>| match best {
            Runtime::Rayon => run.timed(),
            _ => run.is_verified().then(|| run.turnaround()),
        };
        let pairs = kind(runtime)?.iter().filter_map(|(repetition, run)| {
            let peer = kind(best)?.get(repetition)?;
            Some((run.agrees_with(peer), time(run)? / time(peer)?))
        });
        let (agree, disagree): (Vec<_>, Vec<_>) = pairs.partition(|(agree, _)| *agree);
        let ratios: Vec<f64> = agree.into_iter().map(|(_, ratio)| ratio).collect();
        Some(Beside { best, ratio: Spread::of(&ratios), dropped: disagree.len() })
    }

    /// The ratio of the timed sections of a Rust program on a runtime to those of clang's build of
    /// the C one, with one thread or with all, by pairs of the same repetition.
    pub(crate) fn beside_clang(&self, program: &str, runtime: Runtime) -> Option<Spread> {
        let clang = if runtime.has_one_thread() { Runtime::ClangOne } else { Runtime::Clang };
        let kind = |runtime| self.runs.get(&(Scenario::copies(program, 1), runtime));
        let pairs = kind(runtime)?.iter().filter_map(|(repetition, run)| {
            let other = kind(clang)?.get(repetition)?;
            Some(run.timed()? / other.timed()?)
        });
        Spread::of(&pairs.collect::<Vec<f64>>())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::row::KILLED;
    use super::super::row::tests::row;
    use super::*;

    /// Copies of one run with these turnarounds; each had as much processor time.
    pub(in super::super) fn run(scenario: &str, runtime: Runtime, times: &[f64]) -> Vec<Row> {
        times.iter().enumerate().map(|(copy, time)| row(scenario, runtime, copy, *time)).collect()
    }

    fn only(rows: &[Row]) -> Summary<'_> {
        let mut found = Summaries::new(rows).unwrap();
        assert!(found.all.len() == 1 && found.left_out.is_empty(), "{:?}", found.left_out);
        found.all.remove(0)
    }

    fn ratio(verdict: Option<Verdict>) -> f64 {
        match verdict {
            Some(Verdict::Ratio { ratio, .. }) => ratio.median,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_yardstick_is_the_larger_of_best_alone_and_the_share_of_the_processors() {
        let rows = [
            run("a*1", Runtime::One, &[4.0]),
            run("a*1", Runtime::Libgomp, &[3.0]),
            run("a*1", Runtime::Managed, &[3.3]),
            run("a*2", Runtime::One, &[5.0, 5.0]),
            run("a*2", Runtime::Managed, &[5.0, 6.0]),
            run("a*4", Runtime::Managed, &[8.0; 4]),
        ]
        .concat();
        let summary = only(&rows);
        let of = |by, copies| summary.yardstick(by, &Scenario::copies("a", copies), "a", None);
        let (one, two) = (of(Yardstick::Together, 1), of(Yardstick::Together, 2));
        assert_eq!(one, Some(3.0), "alone it cannot be faster than the best");
        assert_eq!(two, Some(5.0), "by copies that shared the caches");
        assert_eq!(of(Yardstick::Together, 4), None, "no four one-thread copies were run");
        let alone = [1, 2, 4].map(|copies| of(Yardstick::Alone, copies).unwrap());
        assert_eq!(alone, [3.0, 4.0, 8.0]);
        let of = |by, copies| {
            let scenario = Scenario::copies("a", copies);
            ratio(summary.verdict(by, &scenario, Runtime::Managed, "a"))
        };
        assert_eq!((of(Yardstick::Together, 2), of(Yardstick::Alone, 2)), (1.1, 1.375));
        assert_eq!(of(Yardstick::Alone, 4), 1.0);
    }

    #[test]
    fn what_is_judged_is_no_measure_of_itself() {
        let rows = [run("a*1", Runtime::One, &[4.0]), run("a*1", Runtime::Managed, &[5.0])];
        let rows = rows.concat();
        let alone = Scenario::copies("a", 1);
        let verdict = only(&rows).verdict(Yardstick::Together, &alone, Runtime::Managed, "a");
        assert_eq!(ratio(verdict), 1.25);
    }

    #[test]
    fn each_repetition_is_compared_with_its_own_one_thread_copies() {
        let mut rows = Vec::new();
        // The machine is half as fast in the second one, and in the third one nothing was measured.
        for (repetition, one, managed) in [(0, Some(4.0), 4.4), (1, Some(8.0), 8.0), (2, None, 7.2)]
        {
            let of = |runtime, time: f64| run("a*2", runtime, &[time; 2]);
            let one = one.map_or(Vec::new(), |time| of(Runtime::One, time));
            let both = [one, of(Runtime::Managed, managed)].concat();
            rows.extend(both.into_iter().map(|row| Row { repetition, ..row }));
        }
        let unpaired = Summaries::new(&rows).unwrap().unpaired;
        assert_eq!(unpaired, ["a*2, managed, repetition 2"]);
        let summary = only(&rows);
        let scenario = Scenario::copies("a", 2);
        let verdict = summary.verdict(Yardstick::Together, &scenario, Runtime::Managed, "a");
        let Some(Verdict::Ratio { ratio, .. }) = verdict else { panic!("{verdict:?}") };
        assert_eq!((ratio.least, ratio.runs), (1.0, 2), "by no other repetition's");
        assert!((ratio.most - 1.1).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn in_a_mix_each_program_is_compared_with_its_own_one_thread_copy() {
        let rows =
            [run("a+b", Runtime::One, &[4.0, 8.0]), run("a+b", Runtime::Managed, &[4.0, 10.0])]
                .concat();
        let summary = only(&rows);
        let mix = Scenario::parse("a+b").unwrap();
        let of =
            |program| ratio(summary.verdict(Yardstick::Together, &mix, Runtime::Managed, program));
        assert_eq!((of("a"), of("b")), (1.0, 1.25));
        assert!(summary.verdicts(Yardstick::Alone, &mix, Runtime::Managed).is_empty());
    }

    #[test]
    fn in_a_mix_each_program_answers_for_its_own_copies() {
        let of = |outcome: &str| {
            let mut rows =
                [run("a+b", Runtime::One, &[4.0, 8.0]), run("a+b", Runtime::Managed, &[4.0, 40.0])]
                    .concat();
            rows[3].outcome = outcome.into();
            let mix = Scenario::parse("a+b").unwrap();
            let summary = only(&rows);
            ["a", "b"].map(|it| summary.verdict(Yardstick::Together, &mix, Runtime::Managed, it))
        };
        let [a, b] = of(KILLED);
        assert_eq!(ratio(a), 1.0);
        assert!(matches!(b, Some(Verdict::Above(ratio)) if ratio == 5.0), "{b:?}");
        let [a, b] = of("exit status: 1");
        assert!(a.is_none(), "b left it the machine: {a:?}");
        assert!(matches!(b, Some(Verdict::Wrong(_))), "{b:?}");
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
        let summary = only(&rows);
        let alone = Scenario::copies("a", 1);
        let best = summary.yardstick(Yardstick::Together, &alone, "a", None);
        assert_eq!(best, Some(4.0), "what was killed is no best time");
        let verdict = |runtime| summary.verdict(Yardstick::Together, &alone, runtime, "a");
        assert!(matches!(verdict(Runtime::Libgomp), Some(Verdict::Above(ratio)) if ratio == 5.0));
        assert!(matches!(verdict(Runtime::Managed), Some(Verdict::Wrong(_))));
    }

    #[test]
    fn near_and_far_runs_have_yardsticks_of_their_own() {
        let far = |rows: Vec<Row>| {
            let far = |row| Row { repetition: 1, round_trip_before: Some(300.0), ..row };
            rows.into_iter().map(far).collect::<Vec<_>>()
        };
        let rows = [
            run("a*2", Runtime::One, &[4.0; 2]),
            run("a*2", Runtime::Managed, &[4.0; 2]),
            far(run("a*2", Runtime::One, &[5.0; 2])),
            far(run("a*2", Runtime::Managed, &[6.0; 2])),
            far(run("a*1", Runtime::Libgomp, &[9.0])),
        ]
        .concat();
        let summaries = Summaries::new(&rows).unwrap();
        let of = |place: usize| {
            let summary = &summaries.all[place];
            let scenario = Scenario::copies("a", 2);
            let verdict = summary.verdict(Yardstick::Together, &scenario, Runtime::Managed, "a");
            (summary.distance, ratio(verdict))
        };
        assert_eq!(of(0), (Some(Distance::Near), 1.0), "what is far is no best time of it");
        assert_eq!(of(1), (Some(Distance::Far), 6.0 / 9.0));
        assert_eq!(summaries.all.len(), 2);
    }

    #[test]
    fn a_copy_is_compared_with_peers_of_its_repetition_only_where_round_trips_agree() {
        let rows =
            [run("a*1", Runtime::Libgomp, &[4.0]), run("a*1", Runtime::Alone, &[5.0])].concat();
        let ratio = |trip: f64| {
            let mut rows = rows.clone();
            rows[1].round_trip_after = Some(trip);
            let beside = only(&rows).alone_to_peers("a", Runtime::Alone).unwrap();
            assert_eq!(beside.best, Runtime::Libgomp);
            (beside.ratio.map(|it| it.median), beside.dropped)
        };
        assert_eq!(ratio(60.0), (Some(1.25), 0));
        assert_eq!(ratio(90.0), (None, 1));
    }

    #[test]
    fn beside_rayon_the_timed_sections_are_compared() {
        let mut rows =
            [run("rust/a*1", Runtime::Rayon, &[4.0]), run("rust/a*1", Runtime::Alone, &[5.0])]
                .concat();
        (rows[0].timed, rows[1].timed) = (Some(3.0), Some(3.3));
        let beside = only(&rows).alone_to_peers("rust/a", Runtime::Alone).unwrap();
        assert!((beside.ratio.unwrap().median - 1.1).abs() < 1e-9);
    }

    #[test]
    fn a_program_in_rust_is_compared_with_clang_s_build_of_its_twin() {
        let rows = [
            run("rust/cg*1", Runtime::One, &[4.4]),
            run("rust/cg*1", Runtime::ClangOne, &[4.0]),
            run("rust/cg*1", Runtime::Alone, &[3.0]),
            run("rust/cg*1", Runtime::Clang, &[2.0]),
        ]
        .concat();
        let of = |rows: &[Row], runtime| {
            let ratio = only(rows).beside_clang("rust/cg", runtime);
            ratio.map(|it| (it.median * 1e3).round() / 1e3)
        };
        assert_eq!(of(&rows, Runtime::One), Some(1.1));
        assert_eq!(of(&rows, Runtime::Alone), Some(1.5));
        assert_eq!(of(&rows, Runtime::Managed), None);
        let best = only(&rows).best_alone("rust/cg");
        assert_eq!(best, Some(4.4), "clang's build is no run of the program, and ours is judged");
        let mut rows = rows;
        rows[1].repetition = 1;
        assert_eq!(of(&rows, Runtime::One), None, "in another repetition the machine is another");
    }
}
