//! What the command line asks for, and the subset.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;

use super::plan::{Matrix, Scenario};
use super::runtime::Runtime;
use crate::peers::{self, Clang};
use crate::skips;

/// What `--subset` takes: codes that scale and that do not, with short and long regions.
const SUBSET: [&str; 6] = ["c/cg", "c/ft", "c/lu", "c/papers/apsi", "fortran/bt", "rust/mg"];
/// Copies of each program.
const COPIES: [usize; 5] = [1, 2, 3, 4, 8];
const FEW_COPIES: [usize; 3] = [1, 2, 4];
/// Programs that are mixed, each with the next one: of different kinds.
const MIXED: [&str; 4] = ["c/cg", "c/lu", "c/ft", "c/papers/apsi"];
/// The size of the problems.
pub(super) const USUAL_CLASS: &str = "W";
/// Seconds of a copy alone.
const SECONDS: f64 = 3.0;
/// The same in the subset: with it a whole repetition ends in time even when all that may collapse
/// does.
const SUBSET_SECONDS: f64 = 2.0;
const SUBSET_MINUTES: f64 = 30.0;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Programs by their place in `kernels/`, as c/cg, fortran/bt or rust/mg; default: all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(super) programs: Vec<String>,
    /// Copies of each program at the same time [default: 1,2,3,4,8].
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) copies: Vec<u16>,
    /// Of these those that run on the runtimes of others, too.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values = ["1", "4"], value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) peer_copies: Vec<u16>,
    /// Different programs at the same time, as c/cg+c/mg; default: some pairs. `none`: none.
    #[arg(long, value_name = "MIX", value_delimiter = ',')]
    pub(super) mixes: Vec<String>,
    /// On what; those of others run some numbers of copies (--peer-copies) and the mixes. `clang`
    /// and `clang-one` (one thread) run, in place of one copy of a Rust program, clang's build of
    /// the C one.
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_values = ["one", "managed", "alone", "libgomp", "passive", "libomp", "rayon"])]
    pub(super) runtimes: Vec<Runtime>,
    /// How often each is run.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repetitions: u32,
    /// The size of the problems [default: W; with --resume the record's].
    #[arg(long, value_name = "CLASS", value_parser = ["S", "W", "A", "B"])]
    class: Option<String>,
    /// Seconds that a copy alone takes at least, by repeating its work [default: 3, of the subset
    /// 2]. Programs that a record has keep the work that they have there.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<f64>,
    /// No run begins that could not end in time: minutes from the start, builds included [default:
    /// none, of the subset 30].
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<f64>,
    /// Six programs, 1, 2 and 4 copies, two mixes, two repetitions: half an hour.
    #[arg(long, conflicts_with_all = ["programs", "copies", "mixes", "repetitions"])]
    pub(super) subset: bool,
    /// The record, which must not be there yet [default: target/suite/suite.csv].
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    /// Goes on with a record where an earlier suite ended.
    #[arg(long)]
    pub(super) resume: bool,
    /// Goes on also when record and tree are of different commits; each row says of which one it
    /// is.
    #[arg(long, requires = "resume")]
    pub(super) any_commit: bool,
    /// Runs those runs of the record again that do not count, since others used processors beside
    /// them or the round trip changed: their rows are dropped.
    #[arg(long, requires = "resume")]
    pub(super) again: bool,
    /// Prints what would run, and runs nothing.
    #[arg(long)]
    pub(super) list: bool,
}

/// Without what came before, in the same order.
fn distinct<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    let mut found = Vec::with_capacity(all.len());
    for one in all {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn within(text: &str, least: f64, most: f64) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("it wants a number from {least} to {most}"))
}

fn seconds(text: &str) -> Result<f64, String> {
    within(text, 0.05, 600.0)
}

fn minutes(text: &str) -> Result<f64, String> {
    within(text, 0.1, 10_000.0)
}

impl Options {
    /// Copies of programs on each of these runtimes, without mixes.
    pub(crate) fn of_copies(
        programs: Vec<String>,
        copies: &[u16],
        runtimes: &[Runtime],
        repetitions: u32,
        seconds: f64,
    ) -> Self {
        Self {
            programs,
            copies: copies.to_vec(),
            peer_copies: copies.to_vec(),
            mixes: vec!["none".into()],
            runtimes: runtimes.to_vec(),
            repetitions,
            class: None,
            seconds: Some(seconds),
            minutes: None,
            subset: false,
            record: None,
            resume: false,
            any_commit: false,
            again: false,
            list: false,
        }
    }

    /// The same, going on with a record.
    pub(crate) fn resumed(self, resume: bool) -> Self {
        Self { resume, ..self }
    }

    /// Whether programs in Rust may be among those that run: they take long to build.
    pub(super) fn may_run_rust(&self) -> bool {
        let mut named = self.programs.iter().chain(&self.mixes);
        self.subset || self.programs.is_empty() || named.any(|it| it.contains("rust/"))
    }

    /// The class that was asked for.
    pub(super) fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// Seconds that a copy alone takes at least.
    pub(super) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.subset { SUBSET_SECONDS } else { SECONDS })
    }

    /// All the time there is.
    pub(super) fn limit(&self) -> Option<Duration> {
        let minutes = self.minutes.or(self.subset.then_some(SUBSET_MINUTES));
        minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0))
    }
}

fn known(name: &str, there: &[String]) -> anyhow::Result<()> {
    ensure!(
        there.iter().any(|it| it == name),
        "there is no program `{name}` in kernels/: {}",
        there.join(", ")
    );
    Ok(())
}

/// The programs that were asked for.
pub(super) fn chosen(options: &Options, there: &[String]) -> anyhow::Result<Vec<String>> {
    let programs: Vec<String> = match (options.subset, options.programs.is_empty()) {
        (true, _) => SUBSET.map(str::to_owned).to_vec(),
        (_, true) => there.to_vec(),
        (_, false) => options.programs.clone(),
    };
    programs.iter().try_for_each(|name| known(name, there))?;
    Ok(programs)
}

/// The runtimes that were asked for and are there.
pub(super) fn runtimes(options: &Options) -> Vec<Runtime> {
    let mut runtimes = options.runtimes.clone();
    if let Some(Err(fault)) = runtimes.contains(&Runtime::Libomp).then(peers::libomp) {
        skips::note(format_args!("suite: the column libomp: {fault:#}"));
        runtimes.retain(|runtime| *runtime != Runtime::Libomp);
    }
    let is_clang = |runtime: &Runtime| runtime.is_clang();
    if let Some(Err(fault)) = runtimes.iter().any(is_clang).then(Clang::find) {
        skips::note(format_args!("suite: the columns of clang: {fault:#}"));
        runtimes.retain(|runtime| !runtime.is_clang());
    }
    runtimes
}

/// All that is to run.
pub(super) fn matrix(
    options: &Options,
    programs: &[String],
    runtimes: Vec<Runtime>,
    there: &[String],
) -> anyhow::Result<Matrix> {
    let copies: Vec<usize> = match (options.subset, options.copies.is_empty()) {
        (true, _) => FEW_COPIES.to_vec(),
        (_, true) => COPIES.to_vec(),
        (_, false) => options.copies.iter().map(|&copies| copies.into()).collect(),
    };
    let mut mixes = Vec::new();
    match (&options.mixes[..], options.programs.is_empty()) {
        ([none], _) if none == "none" => {}
        ([], true) => {
            let pairs = MIXED.iter().zip(MIXED.iter().cycle().skip(1));
            let mixed = pairs.map(|(one, other)| Scenario(vec![(*one).into(), (*other).into()]));
            mixes.extend(mixed.take(if options.subset { 2 } else { MIXED.len() }));
        }
        (named, _) => {
            for mix in named {
                mixes.push(Scenario::parse(mix)?);
            }
        }
    }
    for name in mixes.iter().flat_map(|mix| &mix.0) {
        known(name, there)?;
    }
    let of_program = |program: &String| {
        copies.iter().map(|&copies| Scenario::copies(program, copies)).collect::<Vec<_>>()
    };
    let mut scenarios: Vec<Scenario> = programs.iter().flat_map(of_program).collect();
    scenarios.extend(mixes);
    // What is named twice is measured once: rows of two such runs would be one run's.
    Ok(Matrix {
        scenarios: distinct(scenarios),
        runtimes: distinct(runtimes),
        repetitions: if options.subset { 2 } else { options.repetitions },
        peer_copies: options.peer_copies.iter().map(|&copies| copies.into()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::plan::Times;
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn options(line: &str) -> Options {
        Line::try_parse_from(std::iter::once("suite").chain(line.split(' '))).unwrap().options
    }

    fn all(line: &str) -> (Options, anyhow::Result<Matrix>) {
        let options = options(line);
        let there: Vec<String> =
            SUBSET.iter().chain(&MIXED).map(|name| (*name).to_owned()).collect();
        let matrix = chosen(&options, &there)
            .and_then(|programs| matrix(&options, &programs, options.runtimes.clone(), &there));
        (options, matrix)
    }

    #[test]
    fn the_subset_fits_into_its_half_hour() {
        let (options, matrix) = all("--subset");
        let cells = matrix.unwrap().cells();
        for processors in [1, 2, 4, 8, 64] {
            // A copy alone takes a tenth more than it must, and on all processors it is as fast as
            // can be.
            let one_thread = options.seconds() * 1.1 * processors as f64;
            let times = Times {
                one_thread: SUBSET.iter().map(|name| ((*name).to_owned(), one_thread)).collect(),
                processors,
            };
            // What is left are builds, and finding out how much work the programs need.
            let limit = options.limit().unwrap().as_secs_f64() - 300.0;
            let part = times.part_that_fits(&cells, limit);
            assert!(processors > 4 || part == 1.0, "{processors} processors: {part}");
            let one_thread = times.one_thread.into_iter().map(|(name, time)| (name, time * part));
            let times = Times { one_thread: one_thread.collect(), processors };
            let (expected, _) = times.sums(&cells);
            let first = &cells[..cells.partition_point(|cell| cell.repetition == 0)];
            let (_, most) = times.sums(first);
            assert!(expected < limit, "{processors} processors: {expected} s of {limit}");
            assert!(most < limit * 1.01, "{processors} processors, all collapse: {most} s");
        }
    }

    #[test]
    fn what_is_in_rust_is_built_where_it_may_run() {
        let may = |line: &str| options(line).may_run_rust();
        assert!(may("--repetitions 1") && may("--subset") && may("--programs c/cg,rust/mg"));
        assert!(may("--programs c/cg --mixes c/cg+rust/mg"));
        assert!(!may("--programs c/cg,fortran/bt --mixes none"));
    }

    #[test]
    fn what_is_named_twice_is_measured_once() {
        let twice = "--programs c/cg,c/cg --copies 2,1,2 --mixes c/cg+c/cg,c/cg+c/lu \
                     --runtimes one,managed,one --repetitions 1";
        let cells = all(twice).1.unwrap().cells();
        let mut names: Vec<String> = cells
            .iter()
            .map(|it| format!("{} {}", it.scenario.name(), it.runtime.name()))
            .collect();
        assert_eq!(names.len(), 6, "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6);
    }

    #[test]
    fn what_is_not_there_is_named_beside_what_is() {
        for line in ["--programs c/cq", "--mixes c/cg+c/cq"] {
            let fault = all(line).1.err().unwrap().to_string();
            assert!(fault.contains("no program `c/cq`") && fault.contains("fortran/bt"), "{fault}");
        }
        assert!(all("--mixes none").1.unwrap().scenarios.iter().all(|it| it.program().is_some()));
        let parse = |line: &str| Line::try_parse_from(line.split(' ')).is_ok();
        assert!(parse("suite --subset --seconds 0.1"));
        for wrong in [
            "suite --seconds 0",
            "suite --seconds NaN",
            "suite --minutes x",
            "suite --copies 0",
            "suite --runtimes mpi",
            "suite --class C",
            "suite --subset --programs c/cg",
            "suite --any-commit",
        ] {
            assert!(!parse(wrong), "{wrong}");
        }
    }
}
