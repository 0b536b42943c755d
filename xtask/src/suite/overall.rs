//! All copies of a record together. On a machine whose speed changes from run to run the ratio of
//! one row says little: here the changes cancel out, and what the manager costs is left.

use super::runtime::Runtime;
use super::summary::{Summaries, Summary};

/// What several copies took under the manager by what as many one-thread copies took.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Overall {
    /// Pairs of runs of the same scenario and repetition.
    pairs: usize,
    /// Geometric mean of the ratios of their turnarounds.
    turnaround: f64,
    /// How far one ratio is from that, as a part of it: standard deviation of the logarithms.
    spread: f64,
    /// Geometric mean of the ratios of the processor times.
    processor_time: f64,
    /// The largest ratio of turnarounds by that of processor times: above 1 processors were idle.
    idle: f64,
}

impl Summaries<'_> {
    /// A line for near and for far runs.
    pub(super) fn overall(&self) -> Vec<String> {
        let of = |summary: &Summary<'_>| {
            Overall::of(summary).map(|overall| overall.line(&summary.apart()))
        };
        self.all.iter().filter_map(of).collect()
    }
}

impl Overall {
    fn of(summary: &Summary<'_>) -> Option<Overall> {
        let copies = summary.scenarios();
        let copies = copies.iter().filter(|it| it.program().is_some() && it.0.len() > 1);
        let pairs = copies.flat_map(|it| summary.pairs(it, Runtime::Managed, Runtime::One));
        let logarithms: Vec<[f64; 2]> = pairs
            .map(|(managed, one)| {
                let processor_time = managed.processor_time() / one.processor_time();
                [managed.turnaround() / one.turnaround(), processor_time].map(f64::ln)
            })
            .collect();
        let pairs = logarithms.len();
        let mean = |of: fn(&[f64; 2]) -> f64| logarithms.iter().map(of).sum::<f64>() / pairs as f64;
        let turnaround = mean(|it| it[0]);
        let squares = logarithms.iter().map(|it| (it[0] - turnaround).powi(2)).sum::<f64>();
        let idle = logarithms.iter().map(|it| it[0] - it[1]).fold(f64::NEG_INFINITY, f64::max);
        (pairs > 1).then(|| Overall {
            pairs,
            turnaround: turnaround.exp(),
            spread: (squares / (pairs - 1) as f64).sqrt(),
            processor_time: mean(|it| it[1]).exp(),
            idle: idle.exp(),
        })
    }

    fn line(&self, apart: &str) -> String {
        let Overall { pairs, turnaround, spread, processor_time, idle } = self;
        format!(
            "managed{apart}: {turnaround:.3} +- {:.3} of as many one-thread copies, processor time \
             {processor_time:.3} (geometric means of {pairs} runs; one run is off by {:.0} %; \
             turnaround by processor time at most {idle:.2})",
            spread / (*pairs as f64).sqrt(),
            spread * 100.0,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Row;
    use super::super::summary::tests::run;
    use super::*;

    #[test]
    fn what_machines_change_from_run_to_run_cancels_out() {
        let of = |scenario: &str, runtime, time: f64, processor_time: f64| {
            let rows = run(scenario, runtime, &[time; 2]).into_iter();
            rows.map(move |row| Row { processor_time, ..row })
        };
        // A slow run of each kind: twice as long. The second one left a processor idle, too.
        let rows: Vec<Row> = of("a*2", Runtime::One, 4.0, 4.0)
            .chain(of("a*2", Runtime::Managed, 8.0, 8.0))
            .chain(of("b*2", Runtime::One, 10.0, 8.0))
            .chain(of("b*2", Runtime::Managed, 5.0, 3.2))
            .chain(of("c*2", Runtime::Managed, 5.0, 5.0))
            .collect();
        let summaries = Summaries::new(&rows).unwrap();
        let found = Overall::of(&summaries.all[0]).unwrap();
        let near = |left: f64, right: f64| (left - right).abs() < 1e-9;
        assert!(found.pairs == 2 && near(found.turnaround, 1.0), "{found:?}");
        assert!(near(found.spread, 2.0_f64.ln() * 2.0_f64.sqrt()), "{found:?}");
        assert!(near(found.processor_time, 0.8_f64.sqrt()) && near(found.idle, 1.25), "{found:?}");
        let said = summaries.overall();
        let begins = "managed, near: 1.000 +- 0.693 of as many one-thread copies, processor time";
        assert!(said.len() == 1 && said[0].starts_with(begins), "{said:?}");
    }

    #[test]
    fn of_one_pair_nothing_is_said() {
        let rows = [run("a*2", Runtime::One, &[4.0; 2]), run("a*2", Runtime::Managed, &[4.0; 2])];
        assert!(Summaries::new(&rows.concat()).unwrap().overall().is_empty());
    }
}
