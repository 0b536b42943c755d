//! What a program that is started can be told: `run`, `submit`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, TypedValueParser};
use platform::affinity::CpuSet;

use super::exit_codes::EXIT_CODES;
use super::value::{cpus, label, placement, policy, processors, weight};
use crate::limits::Weight;

/// What `run` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub struct RunArgs {
    /// The manager's socket
    /// [default: NANOS_CPUMGR, else the system's manager, else the user's own].
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The policy of a manager that has to be started.
    #[arg(long, value_name = "NAME", value_parser = policy)]
    pub policy: Option<String>,
    /// The directory of the drop-in OpenMP library
    /// [default: NANOS_SHIM_DIR, else beside this program].
    #[arg(long, value_name = "DIR")]
    pub lib: Option<PathBuf>,
    /// Puts the drop-in library in front by LD_PRELOAD, too: for programs and modules that carry a
    /// libgomp of their own.
    #[arg(long, value_enum, default_value_t = Preload::Auto)]
    pub preload: Preload,
    /// Leaves the program's threads alone when it has several and does not speak to the manager;
    /// otherwise their affinity is managed.
    #[arg(long)]
    pub no_attach: bool,
    /// Tells the program, where it asks how many processors there are (`sched_getaffinity`,
    /// `sysconf`), how many a newcomer gets now: for programs whose threads cannot follow. Programs
    /// in Go hear it by GOMAXPROCS, and so do those in Go that they start; OpenMP programs, and
    /// whatever else the program starts, are told the truth.
    #[arg(long)]
    pub tell_share: bool,
    /// Its share relative to others, 0.001 to 1000; 1 unless changed. dss and the policies that
    /// build on it heed it, also when masters share processors.
    #[arg(long, value_name = "WEIGHT", value_parser = weight)]
    pub weight: Option<Weight>,
    /// Whether its teams of no number of their own follow what it is granted, or keep their size
    /// and share that [default: as the program says; most follow].
    #[arg(long, value_enum)]
    pub team: Option<Team>,
    /// The site's class that it is in, where its user may choose that
    /// [default: as the site's rules say].
    #[arg(long, value_name = "NAME")]
    pub class: Option<String>,
    /// What it is started for: a word that rules of classes look at.
    #[arg(long, value_name = "WORD", value_parser = label)]
    pub label: Option<String>,
    /// Processors that it is to have before other programs of its class and user have more than
    /// theirs.
    #[arg(long, value_name = "N", value_parser = processors)]
    pub min: Option<u32>,
    /// The most processors that it is given, by the drop-in library or because its threads are
    /// managed: with --no-attach nothing keeps a program of other threads to it.
    #[arg(long, value_name = "N", value_parser = processors)]
    pub max: Option<u32>,
    /// The processors on which it stays, as taskset writes them: 0-3,8 or 0-31:2.
    #[arg(long, value_name = "LIST", value_parser = cpus)]
    pub cpus: Option<CpuSet>,
    /// On which memory nodes its pages come to be, as far as it sets no policy itself. A policy
    /// holds for all of its memory and for what it starts; huge pages are placed as one.
    #[arg(long, value_parser = Scheme, value_name = "SCHEME")]
    pub placement: Option<Placement>,
    /// The program and its arguments.
    // An option that is not known, or written wrong, is a mistake and no program: what has such a
    // name comes after `--`.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]...")]
    pub command: Vec<OsString>,
}

/// A program has a name.
///
/// # Errors
/// Where a variable of a script that was to hold it is empty.
pub(crate) fn named(program: &OsStr) -> Result<(), String> {
    match program.is_empty() {
        true => Err("the name of the program is empty: is a variable not set?".into()),
        false => Ok(()),
    }
}

impl RunArgs {
    /// What its words say together.
    ///
    /// # Errors
    /// What contradicts itself, or is empty.
    pub(crate) fn check(&self) -> Result<(), String> {
        named(&self.command[0])?;
        match (self.min, self.max) {
            (Some(min), Some(max)) if min > max => Err(format!(
                "--min {min} with --max {max}: a program cannot have {min} processors before \
                 others and at most {max}; let --min be at most --max"
            )),
            _ => Ok(()),
        }
    }
}

/// What becomes of a program's teams when it is granted fewer processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Team {
    /// They have as many threads as it has processors.
    Malleable,
    /// They keep their size, and their threads share the processors.
    Fixed,
}

impl Team {
    /// Of a program that says so, or does not.
    pub(crate) fn of(fixed_team: bool) -> Self {
        if fixed_team { Self::Fixed } else { Self::Malleable }
    }
}

impl std::fmt::Display for Team {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Malleable => "malleable",
            Self::Fixed => "fixed",
        })
    }
}

/// Where the pages of a program come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On the node of the thread that touches them first.
    FirstTouch,
    /// On all nodes in turn.
    RoundRobin,
    /// On random nodes, by this seed.
    Random(Option<u64>),
    /// On this node, else on the first one, while it has room.
    WorstCase(Option<u32>),
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FirstTouch => f.write_str("first-touch"),
            Self::RoundRobin => f.write_str("round-robin"),
            Self::Random(None) => f.write_str("random"),
            Self::Random(Some(seed)) => write!(f, "random:{seed}"),
            Self::WorstCase(None) => f.write_str("worst-case"),
            Self::WorstCase(Some(node)) => write!(f, "worst-case:{node}"),
        }
    }
}

/// Reads a placement, and says which there are.
#[derive(Clone)]
struct Scheme;

impl TypedValueParser for Scheme {
    type Value = Placement;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Placement, clap::Error> {
        placement.parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = [
            ("first-touch", "On the node of the thread that touches them first"),
            ("round-robin", "On all nodes in turn, page by page"),
            (
                "random",
                "On random nodes, by random:SEED the same each time: OpenMP programs on the \
                 drop-in library only. Pages take turns until it has found the outer loop; then \
                 those of large arrays go to random nodes, once",
            ),
            ("worst-case", "On the first node, or by worst-case:NODE on that, while it has room"),
        ];
        let values = values.map(|(name, help)| PossibleValue::new(name).help(help));
        Some(Box::new(values.into_iter()))
    }
}

/// Whether the drop-in library is preloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Preload {
    /// When the program can load it: not for static programs, nor for those of another machine.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
