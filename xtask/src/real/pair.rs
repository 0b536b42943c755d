//! Programs beside each other: one whose BLAS has threads of its own, and one of OpenMP.

use anyhow::Context;

use super::found::{Run, take};
use super::runtime::Runtime;
use super::subject::Subject;
use super::table::Row;
use super::{Setting, Stage};
use crate::setup::Workspace;

/// Which.
const PAIRS: [[&str; 2]; 2] = [["svd", "kmeans"], ["dot", "hist"]];

impl Stage {
    /// Measures the pairs of which `names` has both; each program has a row.
    pub(super) fn pairs(
        &mut self,
        workspace: &Workspace,
        names: &[&'static str],
        rows: &mut Vec<Row>,
    ) -> anyhow::Result<()> {
        for pair in PAIRS.into_iter().filter(|pair| pair.iter().all(|name| names.contains(name))) {
            let [one, other] = pair.map(|name| self.install(workspace, name));
            if let (Some(one), Some(other)) = (one?, other?) {
                rows.extend(self.measure_pair([&one, &other])?);
            }
        }
        Ok(())
    }

    fn measure_pair(&mut self, pair: [&Subject; 2]) -> anyhow::Result<[Row; 2]> {
        let [one, other] = pair.map(|subject| subject.name);
        let mut rows =
            [Row::new(one, Setting::Beside(other)), Row::new(other, Setting::Beside(one))];
        let mut expected = [None, None];
        for turn in 0..self.repeats {
            for runtime in self.runtimes.clone() {
                if rows.iter().any(|row| row.killed.contains(&runtime)) {
                    continue;
                }
                let found = self.beside_each_other(pair, runtime, turn);
                let found = found.with_context(|| format!("{one} beside {other}"))?;
                for ((row, expected), run) in rows.iter_mut().zip(&mut expected).zip(found) {
                    take(vec![run], row, expected)?;
                }
            }
        }
        rows.iter().for_each(|row| println!("{}", row.line()));
        Ok(rows)
    }

    /// Both begin together; the one that is done first leaves the processors to the other.
    fn beside_each_other(
        &mut self,
        pair: [&Subject; 2],
        runtime: Runtime,
        turn: u32,
    ) -> anyhow::Result<[Run; 2]> {
        let mut copies = Vec::new();
        for subject in pair {
            copies.extend(self.start(subject, runtime, turn, 1)?);
        }
        for (subject, copy) in pair.into_iter().zip(copies.chunks_mut(1)) {
            self.ready(subject, runtime, copy)?;
        }
        let works = self.prompt(&mut copies).with_context(|| runtime.name())?;
        for ((subject, copy), work) in pair.into_iter().zip(copies).zip(&works) {
            if work.1.is_some() {
                self.end(subject, runtime, vec![copy])?;
            }
        }
        let mut runs = works.into_iter().map(|(seconds, found)| (runtime, seconds, vec![found]));
        let [one, other] = [runs.next(), runs.next()].map(|run| run.context("a copy is missing"));
        Ok([one?, other?])
    }
}
