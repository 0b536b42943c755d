//! What the suite runs, and in which order. Pure.
//!
//! A *scenario* is what runs at the same time: K copies of a program, or one copy of each of
//! several. A *cell* is one scenario on one runtime in one repetition. Cells of one scenario that
//! are compared with each other run one after the other; all scenarios have had a repetition before
//! the next one begins, so that a suite that is ended early has something of each.

use std::collections::BTreeMap;

use anyhow::{bail, ensure};

use super::runtime::Runtime;

/// Programs that run at the same time, one name a copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Scenario(pub(crate) Vec<String>);

impl Scenario {
    /// `copies` of one program.
    pub(crate) fn copies(program: &str, copies: usize) -> Scenario {
        Scenario(vec![program.to_owned(); copies])
    }

    /// Reads `c/cg+c/mg`, or `c/cg*2+c/mg`.
    pub(crate) fn parse(text: &str) -> anyhow::Result<Scenario> {
        let mut programs = Vec::new();
        for part in text.split('+') {
            let (name, copies) = part.split_once('*').unwrap_or((part, "1"));
            let copies: usize = match copies.parse() {
                Ok(copies @ 1..=64) => copies,
                _ => bail!("`{part}` in the mix `{text}`: a program and 1 to 64 copies, as c/cg*2"),
            };
            ensure!(!name.is_empty(), "the mix `{text}` has a part without a program");
            programs.extend(std::iter::repeat_n(name.to_owned(), copies));
        }
        Ok(Scenario(programs))
    }

    /// As in records: `c/cg*4`, `c/cg+c/mg`.
    pub(crate) fn name(&self) -> String {
        let mut parts: Vec<(&str, usize)> = Vec::new();
        for program in &self.0 {
            match parts.last_mut() {
                Some((last, copies)) if last == program => *copies += 1,
                _ => parts.push((program, 1)),
            }
        }
        let alone = parts.len() == 1;
        let part = |(name, copies): (&str, usize)| match copies {
            1 if !alone => name.to_owned(),
            _ => format!("{name}*{copies}"),
        };
        parts.into_iter().map(part).collect::<Vec<_>>().join("+")
    }

    /// The only program, when all copies are of one.
    pub(crate) fn program(&self) -> Option<&str> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().all(|it| it == first).then_some(first)
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    /// From 0.
    pub(crate) repetition: u32,
    pub(crate) scenario: Scenario,
    pub(crate) runtime: Runtime,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) runtimes: Vec<Runtime>,
    pub(crate) repetitions: u32,
    /// Runtimes of others run these numbers of copies only; mixes count as one copy of each.
    pub(crate) peer_copies: Vec<usize>,
}

impl Matrix {
    /// All cells in their order. The runtimes change their order from repetition to repetition, so
    /// that none always runs after the same other one.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for repetition in 0..self.repetitions {
            for scenario in &self.scenarios {
                let mut runtimes = self.runtimes.clone();
                let turn = repetition as usize % runtimes.len().max(1);
                runtimes.rotate_left(turn);
                runtimes.retain(|runtime| {
                    scenario.0.iter().all(|program| runtime.runs(program))
                        && (!runtime.is_peer() || self.is_for_peers(scenario))
                        && (!runtime.is_clang() || scenario.0.len() == 1)
                });
                cells.extend(runtimes.into_iter().map(|runtime| Cell {
                    repetition,
                    scenario: scenario.clone(),
                    runtime,
                }));
            }
        }
        cells
    }

    fn is_for_peers(&self, scenario: &Scenario) -> bool {
        scenario.program().is_none() || self.peer_copies.contains(&scenario.0.len())
    }
}

/// A run is ended at this multiple of the time that its copies would take one after the other on
/// all processors.
const CAP: f64 = 5.0;
/// No run is ended before this time: set-up of the programs, start of the copies.
const LEAST_CAP: f64 = 5.0;
/// What a run that behaves takes at most, by what is expected.
const SLACK: f64 = 1.25;

/// How long runs take.
#[derive(Clone, Debug)]
pub(crate) struct Times {
    /// Seconds of one copy with one thread, roughly, by program.
    pub(crate) one_thread: BTreeMap<String, f64>,
    pub(crate) processors: usize,
}

impl Times {
    /// Of all copies, and of the longest one, with one thread each.
    fn work(&self, scenario: &Scenario) -> (f64, f64) {
        let of = |program: &String| self.one_thread.get(program).copied().unwrap_or(0.0);
        let all = scenario.0.iter().map(of);
        (all.clone().sum(), all.fold(0.0, f64::max))
    }

    /// Seconds that a run takes when all processors are well used.
    pub(crate) fn expected(&self, cell: &Cell) -> f64 {
        let (all, longest) = self.work(&cell.scenario);
        let shared = all / self.processors as f64;
        if cell.runtime.has_one_thread() { longest.max(shared) } else { shared }
    }

    /// Seconds after which a run is ended.
    pub(crate) fn cap(&self, cell: &Cell) -> f64 {
        let (all, longest) = self.work(&cell.scenario);
        LEAST_CAP.max(CAP * longest.max(all / self.processors as f64))
    }

    /// Seconds that a run takes at most, unless ours misbehaves: runtimes of others may collapse
    /// where there are several copies.
    pub(crate) fn most(&self, cell: &Cell) -> f64 {
        if cell.runtime.is_peer() && cell.scenario.0.len() > 1 {
            self.cap(cell)
        } else {
            self.expected(cell) * SLACK
        }
    }

    /// What [`Self::expected`] and [`Self::most`] say of these runs together.
    pub(crate) fn sums(&self, cells: &[Cell]) -> (f64, f64) {
        let expected = cells.iter().map(|cell| self.expected(cell)).sum();
        (expected, cells.iter().map(|cell| self.most(cell)).sum())
    }

    /// By what the work of the programs has to be multiplied, at most 1, so that these runs end in
    /// `left` seconds, and the first repetition of them also where all that may collapse does.
    pub(crate) fn part_that_fits(&self, cells: &[Cell], left: f64) -> f64 {
        let first = cells.iter().map(|cell| cell.repetition).min();
        let is_first = |cell: &&Cell| Some(cell.repetition) == first;
        let first: Vec<Cell> = cells.iter().filter(is_first).cloned().collect();
        let (expected, most) = (self.sums(cells).0 * SLACK, self.sums(&first).1);
        (left / expected.max(most)).min(1.0)
    }

    /// The cap of a run that begins with `left` seconds; none if it should not begin, since it
    /// would be ended although it behaves.
    pub(crate) fn cap_within(&self, cell: &Cell, left: f64) -> Option<f64> {
        (self.expected(cell) * SLACK <= left).then(|| self.cap(cell).min(left))
    }

    /// Whether a run with copies that were ended after `cap` seconds says nothing of them: the
    /// suite's own time was over, and not theirs.
    pub(crate) fn is_cut_short(&self, cell: &Cell, cap: f64) -> bool {
        cap < self.cap(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(seconds: f64, processors: usize) -> Times {
        let one_thread = BTreeMap::from([("a".to_owned(), seconds), ("b".to_owned(), 1.0)]);
        Times { one_thread, processors }
    }

    fn cell(scenario: &str, runtime: Runtime) -> Cell {
        Cell { repetition: 0, scenario: Scenario::parse(scenario).unwrap(), runtime }
    }

    #[test]
    fn a_run_is_expected_to_use_all_processors_and_one_thread_only_one() {
        let times = times(4.0, 2);
        let expected = |name, runtime| times.expected(&cell(name, runtime));
        assert_eq!(expected("a", Runtime::Managed), 2.0);
        assert_eq!(expected("a", Runtime::One), 4.0);
        assert_eq!(expected("a*4", Runtime::One), 8.0);
        assert_eq!(expected("a+b", Runtime::Libgomp), 2.5);
        assert_eq!(times.cap(&cell("a*4", Runtime::Libgomp)), 40.0);
        assert_eq!(times.cap(&cell("b", Runtime::Libgomp)), LEAST_CAP);
        assert_eq!(times.most(&cell("a*4", Runtime::Libgomp)), 40.0, "it may collapse");
        assert_eq!(times.most(&cell("a*4", Runtime::Managed)), 8.0 * SLACK);
    }

    #[test]
    fn no_run_begins_that_would_be_ended_although_it_behaves() {
        let (times, cell) = (times(4.0, 2), cell("a*4", Runtime::Libgomp));
        assert_eq!(times.cap_within(&cell, 9.0), None);
        assert_eq!(times.cap_within(&cell, 12.0), Some(12.0));
        assert_eq!(times.cap_within(&cell, 100.0), Some(40.0));
        assert!(times.is_cut_short(&cell, 12.0), "it might have ended before its own cap");
        assert!(!times.is_cut_short(&cell, 40.0));
    }

    #[test]
    fn names_of_scenarios_are_read_back() {
        for name in ["c/cg*1", "c/cg*4", "c/cg+c/mg", "c/cg*2+fortran/bt"] {
            assert_eq!(Scenario::parse(name).unwrap().name(), name);
        }
        assert_eq!(Scenario::parse("c/cg").unwrap(), Scenario::copies("c/cg", 1));
        assert_eq!(Scenario::copies("a", 3).program(), Some("a"));
        assert_eq!(Scenario::parse("a+b").unwrap().program(), None);
        for wrong in ["", "a+", "a*0", "a*x", "a*65", "*2"] {
            assert!(Scenario::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_scenario_has_a_repetition_before_the_next_one_and_runtimes_change_places() {
        let matrix = Matrix {
            scenarios: vec![Scenario::copies("a", 1), Scenario::copies("a", 2)],
            runtimes: vec![Runtime::One, Runtime::Managed, Runtime::Libgomp],
            repetitions: 2,
            peer_copies: vec![1],
        };
        let cells = matrix.cells();
        let of = |from: usize, to: usize| {
            cells[from..to].iter().map(|cell| cell.runtime).collect::<Vec<_>>()
        };
        assert_eq!(cells.len(), 10);
        assert!(cells[..5].iter().all(|cell| cell.repetition == 0));
        assert_eq!(of(0, 3), [Runtime::One, Runtime::Managed, Runtime::Libgomp]);
        assert_eq!(of(3, 5), [Runtime::One, Runtime::Managed], "no peer with two copies");
        assert_eq!(of(5, 8), [Runtime::Managed, Runtime::Libgomp, Runtime::One]);
    }

    #[test]
    fn programs_run_on_what_they_are_made_for() {
        let cells = |program: &str| {
            let matrix = Matrix {
                scenarios: vec![Scenario::parse(program).unwrap()],
                runtimes: Runtime::ALL.to_vec(),
                repetitions: 1,
                peer_copies: vec![1],
            };
            matrix.cells().into_iter().map(|cell| cell.runtime).collect::<Vec<_>>()
        };
        use Runtime::{Alone, Clang, ClangOne, Libgomp, Libomp, Managed, One, Passive, Rayon};
        assert_eq!(cells("rust/cg"), [One, Managed, Alone, Rayon, Clang, ClangOne]);
        assert_eq!(cells("rust/cg*2"), [One, Managed, Alone], "clang's build runs alone");
        assert_eq!(cells("c/cg"), [One, Managed, Alone, Libgomp, Passive, Libomp]);
        assert_eq!(cells("c/cg+rust/cg"), [One, Managed, Alone]);
    }

    #[test]
    fn mixes_run_on_all_runtimes() {
        let matrix = Matrix {
            scenarios: vec![Scenario::parse("a+b").unwrap()],
            runtimes: vec![Runtime::Managed, Runtime::Libomp],
            repetitions: 1,
            peer_copies: vec![],
        };
        assert_eq!(matrix.cells().len(), 2);
    }
}
