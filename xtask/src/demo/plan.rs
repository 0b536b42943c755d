//! What the demo runs, and in which order. Pure.

use crate::setup::Language;

/// How many copies run at once, unless the command line asks for other numbers.
pub(crate) const USUAL_COPIES: [usize; 4] = [1, 2, 3, 4];

/// One of the OpenMP programs in `examples/omp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Program {
    /// Conjugate gradients: many short regions.
    Cg,
    /// Pipelined sweep: spins on flags in user code.
    Lu,
    /// Merge sort by tasks, in C++.
    Sort,
    /// Loops over a plate, in Fortran.
    Heat,
}

impl Program {
    /// What is measured unless the command line asks for others: the two that collapse without a
    /// manager.
    pub(crate) const USUAL: [Program; 2] = [Program::Cg, Program::Lu];

    /// The name of its source file and of its rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Program::Cg => "cg",
            Program::Lu => "lu",
            Program::Sort => "sort",
            Program::Heat => "heat",
        }
    }

    /// What its source is written in.
    pub(crate) fn language(self) -> Language {
        match self {
            Program::Cg | Program::Lu => Language::C,
            Program::Sort => Language::Cpp,
            Program::Heat => Language::Fortran,
        }
    }
}

/// Under what the copies run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Runtime {
    /// The system's OpenMP, nothing else.
    Libgomp,
    /// The same with `OMP_WAIT_POLICY=passive`: waiting threads sleep.
    Passive,
    /// LLVM's OpenMP, with hot nested teams.
    Libomp,
    /// The drop-in library under `cpumgr run`.
    Nanos,
}

impl Runtime {
    /// All, in the order of the report.
    pub(crate) const ALL: [Runtime; 4] =
        [Runtime::Libgomp, Runtime::Passive, Runtime::Libomp, Runtime::Nanos];

    /// The name of its rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Runtime::Libgomp => "libgomp",
            Runtime::Passive => "passive",
            Runtime::Libomp => "libomp",
            Runtime::Nanos => "nanos",
        }
    }
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// As many one-thread copies as there are processors, on the system's runtime: T1b.
    OneThread(Program),
    /// Unchanged copies with default-sized teams.
    Copies(Program, Runtime, usize),
}

impl Step {
    /// What it runs.
    pub(crate) fn program(self) -> Program {
        match self {
            Step::OneThread(program) | Step::Copies(program, ..) => program,
        }
    }

    /// Runs that collapse when a runtime cannot share processors: they get what time the others
    /// leave.
    pub(super) fn may_collapse(self) -> bool {
        matches!(self, Step::Copies(_, runtime, 2..) if runtime != Runtime::Nanos)
    }
}

/// Which programs are measured, and in which numbers.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    programs: Vec<Program>,
    /// Ascending, beginning with 1: one copy alone is part of the ideal.
    copies: Vec<usize>,
    /// In the order of the report.
    runtimes: Vec<Runtime>,
}

impl Selection {
    /// These programs, numbers of copies and runtimes, each once; 1 copy is always among them.
    pub(crate) fn new(programs: &[Program], copies: &[usize], runtimes: &[Runtime]) -> Selection {
        let mut numbers: Vec<usize> = copies.iter().copied().chain([1]).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut chosen: Vec<Program> = Vec::new();
        for &program in programs {
            if !chosen.contains(&program) {
                chosen.push(program);
            }
        }
        let runtimes =
            Runtime::ALL.into_iter().filter(|runtime| runtimes.contains(runtime)).collect();
        Selection { programs: chosen, copies: numbers, runtimes }
    }

    /// In the order in which they were asked for.
    pub(crate) fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// Ascending.
    pub(crate) fn copies(&self) -> &[usize] {
        &self.copies
    }

    /// Is it measured?
    pub(crate) fn has(&self, runtime: Runtime) -> bool {
        self.runtimes.contains(&runtime)
    }

    /// The most copies that run at once.
    pub(crate) fn most_copies(&self) -> usize {
        self.copies.last().copied().unwrap_or(1)
    }

    /// One round: every kind of run once, the runtimes side by side. Before and after each run of
    /// several copies that should behave comes the one-thread yardstick: machines get faster and
    /// slower within minutes, and within seconds.
    pub(crate) fn round(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for &copies in &self.copies {
            for &program in &self.programs {
                let yardstick = Step::OneThread(program);
                if copies == 1 {
                    steps.push(yardstick);
                }
                for &runtime in &self.runtimes {
                    let step = Step::Copies(program, runtime, copies);
                    if runtime == Runtime::Nanos && copies > 1 {
                        steps.extend([yardstick, step, yardstick]);
                    } else {
                        steps.push(step);
                    }
                }
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Runtime; 2] = [Runtime::Libgomp, Runtime::Nanos];

    fn usual() -> Selection {
        Selection::new(&Program::USUAL, &USUAL_COPIES, &BOTH)
    }

    #[test]
    fn a_round_has_each_run_once_between_yardsticks() {
        let round = usual().round();
        let runs: Vec<&Step> =
            round.iter().filter(|step| matches!(step, Step::Copies(..))).collect();
        assert_eq!(runs.len(), 2 * 2 * USUAL_COPIES.len());
        for (index, run) in runs.iter().enumerate() {
            assert!(!runs[..index].contains(run), "{run:?} twice");
        }
        for program in Program::USUAL {
            let own: Vec<&Step> = round.iter().filter(|step| step.program() == program).collect();
            let yardsticks = own.iter().filter(|step| matches!(step, Step::OneThread(_))).count();
            assert_eq!(yardsticks, 1 + 2 * 3);
            for (at, run) in own.iter().enumerate() {
                if matches!(run, Step::Copies(_, Runtime::Nanos, 2..)) {
                    assert_eq!(
                        [own[at - 1], own[at + 1]],
                        [&Step::OneThread(program); 2],
                        "{run:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_selection_has_each_thing_once_and_always_one_copy() {
        let selection =
            Selection::new(&[Program::Sort, Program::Cg, Program::Sort], &[8, 2, 2], &Runtime::ALL);
        assert_eq!(selection.programs(), [Program::Sort, Program::Cg]);
        assert_eq!((selection.copies(), selection.most_copies()), (&[1, 2, 8][..], 8));
        assert!(selection.has(Runtime::Libomp) && !usual().has(Runtime::Libomp));
    }

    #[test]
    fn every_runtime_has_its_runs_and_every_other_one_may_collapse() {
        let round = Selection::new(&Program::USUAL, &USUAL_COPIES, &Runtime::ALL).round();
        let of = |runtime| {
            round
                .iter()
                .filter(move |step| matches!(step, Step::Copies(_, other, _) if *other == runtime))
        };
        for runtime in Runtime::ALL {
            assert_eq!(of(runtime).count(), 2 * USUAL_COPIES.len(), "{runtime:?}");
            let shared = of(runtime).filter(|step| step.may_collapse()).count();
            assert_eq!(shared, if runtime == Runtime::Nanos { 0 } else { 2 * 3 }, "{runtime:?}");
        }
    }
}
