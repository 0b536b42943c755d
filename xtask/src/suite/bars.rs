//! What has to be reached, and what misses it.

use super::runtime::Runtime;
use super::summary::{Beside, Summaries, Summary, Verdict, Yardstick};
use crate::measure::Spread;

/// Largest ratio under the manager to as many one-thread copies; in a mix to the program's own.
const LARGEST_RATIO: f64 = 1.05;
/// Largest turnaround of a copy to the mean of its run's copies.
const LARGEST_SPREAD: f64 = 1.1;
/// Largest ratio of one copy alone to the better of libgomp and libomp.
const LARGEST_ALONE: f64 = 1.02;
/// Largest ratio of a Rust program alone to itself on rayon.
const LARGEST_BESIDE_RAYON: f64 = 1.0;
/// Largest ratio of a Rust program to clang's build of the C one.
const LARGEST_BESIDE_CLANG: f64 = 1.1;

impl Summaries<'_> {
    /// Every bar that is missed, one a line.
    pub(crate) fn missed(&self) -> Vec<String> {
        self.all.iter().flat_map(missed).collect()
    }

    /// How programs alone did beside the best of libgomp, libomp and rayon, a line for each.
    pub(crate) fn beside_peers(&self) -> Vec<String> {
        self.all.iter().flat_map(beside_peers).map(|(name, beside)| said(&name, &beside)).collect()
    }

    /// How programs in Rust did beside clang's build of the C ones, a line for each.
    pub(crate) fn beside_clang(&self) -> Vec<String> {
        let line =
            |(name, ratio): (String, Spread)| format!("{name}: {} of clang's build", shown(ratio));
        self.all.iter().flat_map(beside_clang).map(line).collect()
    }
}

fn beside_peers(summary: &Summary<'_>) -> Vec<(String, Beside)> {
    let apart = summary.apart();
    let mut all = Vec::new();
    for scenario in summary.scenarios().iter().filter(|it| it.0.len() == 1) {
        for runtime in [Runtime::Managed, Runtime::Alone] {
            let beside = summary.alone_to_peers(&scenario.0[0], runtime);
            let name = || format!("{}, {}{apart}", scenario.name(), runtime.name());
            all.extend(beside.map(|beside| (name(), beside)));
        }
    }
    all
}

/// A program beside its best peer, in words.
fn said(name: &str, Beside { best, ratio, dropped }: &Beside) -> String {
    let ratio = ratio.map_or("no pair".to_owned(), shown);
    let dropped = match dropped {
        0 => String::new(),
        dropped => format!("; pairs whose round trips differ: {dropped}"),
    };
    format!("{name}: {ratio} of {}{dropped}", best.name())
}

fn beside_clang(summary: &Summary<'_>) -> Vec<(String, Spread)> {
    let mut ratios = Vec::new();
    for scenario in summary.scenarios().iter().filter(|it| it.0.len() == 1) {
        for runtime in [Runtime::One, Runtime::Alone, Runtime::Managed] {
            let ratio = summary.beside_clang(&scenario.0[0], runtime);
            ratios.extend(ratio.map(|ratio| {
                let apart = summary.apart();
                (format!("{}, {}{apart}", scenario.name(), runtime.name()), ratio)
            }));
        }
    }
    ratios
}

fn missed(summary: &Summary<'_>) -> Vec<String> {
    let mut missed = Vec::new();
    let apart = summary.apart();
    for scenario in summary.scenarios() {
        for runtime in [Runtime::Managed, Runtime::Alone] {
            let name = format!("{}, {}{apart}", scenario.name(), runtime.name());
            for (program, verdict) in summary.verdicts(Yardstick::Together, &scenario, runtime) {
                let program = program.map_or(String::new(), |program| format!(", {program}"));
                missed.extend(faults(&format!("{name}{program}"), runtime, &verdict));
            }
        }
    }
    for (name, beside) in beside_peers(summary) {
        let bar = if beside.best == Runtime::Rayon { LARGEST_BESIDE_RAYON } else { LARGEST_ALONE };
        if beside.ratio.is_some_and(|it| it.median > bar) {
            missed.push(format!("{}, bar {bar}", said(&name, &beside)));
        }
    }
    let slow = beside_clang(summary).into_iter();
    missed.extend(slow.filter(|(_, ratio)| ratio.median > LARGEST_BESIDE_CLANG).map(
        |(name, ratio)| {
            format!("{name}: {} of clang's build, bar {LARGEST_BESIDE_CLANG}", shown(ratio))
        },
    ));
    missed
}

/// What of a verdict misses a bar. The manager's is held to the yardstick; without one a program
/// cannot know of the others.
fn faults(name: &str, runtime: Runtime, verdict: &Verdict) -> Vec<String> {
    match verdict {
        Verdict::Wrong(what) => vec![format!("{name}: {what}")],
        Verdict::Above(ratio) => {
            vec![format!("{name}: ended at the cap, above {ratio:.2}, bar {LARGEST_RATIO}")]
        }
        Verdict::Ratio { ratio, inequality } if runtime == Runtime::Managed => {
            let mut faults = Vec::new();
            if ratio.median > LARGEST_RATIO {
                faults.push(format!("{name}: ratio {}, bar {LARGEST_RATIO}", shown(*ratio)));
            }
            // One copy is as long as the mean.
            if inequality.median > LARGEST_SPREAD {
                let shown = shown(*inequality);
                faults.push(format!("{name}: longest by mean {shown}, bar {LARGEST_SPREAD}"));
            }
            faults
        }
        Verdict::Ratio { .. } => Vec::new(),
    }
}

/// A median with what it is the middle of.
fn shown(Spread { median, least, most, runs }: Spread) -> String {
    match runs {
        1 => format!("{median:.3} (one run)"),
        _ => format!("{median:.3} ({least:.3} to {most:.3}, {runs} runs)"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Row;
    use super::super::summary::tests::run;
    use super::*;

    #[test]
    fn every_bar_that_is_missed_is_named_with_its_runs() {
        let mut rows = [
            run("a*1", Runtime::One, &[4.0]),
            run("a*1", Runtime::Libgomp, &[3.0]),
            run("a*1", Runtime::Managed, &[3.3]),
            run("a*2", Runtime::One, &[5.0, 5.0]),
            run("a*2", Runtime::Managed, &[4.5, 6.0]),
            run("a*4", Runtime::Managed, &[8.0; 4]),
            run("a+b", Runtime::One, &[4.0, 8.0]),
            run("a+b", Runtime::Managed, &[4.0, 10.0]),
        ]
        .concat();
        let said = Summaries::new(&rows).unwrap().missed();
        let begins = [
            "a+b, managed, near, b: ratio 1.250 (one run), bar 1.05",
            "a*1, managed, near: ratio 1.100 (one run), bar 1.05",
            "a*2, managed, near: longest by mean 1.143 (one run), bar 1.1",
            "a*1, managed, near: 1.100 (one run) of libgomp, bar 1.02",
        ];
        assert_eq!(said, begins);
        let again: Vec<_> = rows.iter().cloned().map(|row| Row { repetition: 1, ..row }).collect();
        rows.extend(again);
        let said = Summaries::new(&rows).unwrap().missed();
        assert_eq!(said[1], "a*1, managed, near: ratio 1.100 (1.100 to 1.100, 2 runs), bar 1.05");
        // What others disturbed misses no bar.
        rows.iter_mut().for_each(|row| row.others = 0.5);
        assert!(Summaries::new(&rows).unwrap().missed().is_empty());
    }

    #[test]
    fn copies_in_a_mix_are_as_long_as_those_of_their_own_program() {
        let mix = |times: [f64; 3]| {
            let one = run("a*2+b", Runtime::One, &[4.0, 4.0, 8.0]);
            [one, run("a*2+b", Runtime::Managed, &times)].concat()
        };
        let missed = |times| Summaries::new(&mix(times)).unwrap().missed();
        assert!(missed([4.0, 4.0, 8.0]).is_empty(), "b is another program, with more work");
        let said = missed([3.0, 5.0, 8.0]);
        let expected = "a*2+b, managed, near, a: longest by mean 1.250 (one run), bar 1.1";
        assert_eq!(said, [expected]);
    }

    #[test]
    fn the_bar_beside_rayon_leaves_nothing() {
        let of = |program: &str, peer| {
            let name = format!("{program}*1");
            let rows = [run(&name, peer, &[4.0]), run(&name, Runtime::Alone, &[4.04])].concat();
            Summaries::new(&rows).unwrap().missed()
        };
        assert!(of("c/cg", Runtime::Libgomp).is_empty());
        let said = of("rust/cg", Runtime::Rayon);
        assert_eq!(said, ["rust/cg*1, alone, near: 1.010 (one run) of rayon, bar 1"]);
    }

    #[test]
    fn what_is_slower_than_clang_s_build_by_more_than_a_tenth_is_named() {
        let rows = [
            run("rust/cg*1", Runtime::One, &[4.2]),
            run("rust/cg*1", Runtime::ClangOne, &[4.0]),
            run("rust/cg*1", Runtime::Alone, &[2.5]),
            run("rust/cg*1", Runtime::Clang, &[2.0]),
        ]
        .concat();
        let summaries = Summaries::new(&rows).unwrap();
        let said = [
            "rust/cg*1, one, near: 1.050 (one run) of clang's build",
            "rust/cg*1, alone, near: 1.250 (one run) of clang's build",
        ];
        assert_eq!(summaries.beside_clang(), said);
        assert_eq!(summaries.missed(), [format!("{}, bar 1.1", said[1])]);
    }
}
