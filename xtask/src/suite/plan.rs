//! What the suite runs, and in which order. Pure.
//!
//! A *scenario* is what runs at the same time: K copies of a program, or one copy of each of
//! several. A *cell* is one scenario on one runtime in one repetition. Cells of one scenario that
//! are compared with each other run one after the other; all scenarios have had a repetition before
//! the next one begins, so that a suite that is ended early has something of each.

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

#[cfg(test)]
mod tests {
    use super::*;

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
        use Runtime::{Alone, Libgomp, Libomp, Managed, One, Passive, Rayon};
        assert_eq!(cells("rust/cg"), [One, Managed, Alone, Rayon]);
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
