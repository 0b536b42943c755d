//! `cpumgr simulate`: reads a workload, runs the simulator of `policies`, writes what it found.
//!
//! # Not here
//! The model: `policies::sim`. This is files and formats.

mod file;
pub mod paraver;
mod report;
mod svg;

pub use file::{FileError, parse, read};

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use policies::sim::{Native, Options, Outcome, SimError, Workload, simulate};
use policies::{Needs, Registry};

use crate::error::Error;
use crate::limits;

const ABOUT: &str = "\
A workload file is TOML: [machine], [manager], [native], [parameters.POLICY], [programs.NAME], [[jobs]], [[switches]].
The folder `workloads` of the sources has one for each experiment of the papers; docs/simulator.md explains them.
Under the policy `none` the kernel shares out the processors, by the model of [native].";

/// What `simulate` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = ABOUT)]
pub struct SimulateArgs {
    /// The workload.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A policy instead of the workload's own; several, to compare them; `all` for each that there is.
    #[arg(long, value_name = "NAME")]
    pub policy: Vec<String>,
    /// So many times as many copies of each job.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub copies: u32,
    /// Each parameter of `native` 25 % up and down, too.
    #[arg(long)]
    pub sensitivity: bool,
    /// One line per execution, as comma-separated values.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Writes a trace for Paraver: FILE, and beside it FILE with the endings .pcf and .row.
    #[arg(long, value_name = "FILE")]
    pub prv: Option<PathBuf>,
    /// Writes a picture of who has which processor when.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// An outcome with one parameter of the kernel's model changed.
struct Variant {
    parameter: &'static str,
    factor: f64,
    outcome: Outcome,
}

/// What was found under one policy.
struct Found {
    outcome: Outcome,
    variants: Vec<Variant>,
}

/// Simulates, writes the files asked for, returns what to print.
///
/// # Errors
/// A workload that cannot be read or simulated, an unknown policy, a file that cannot be written.
pub fn run(args: &SimulateArgs) -> Result<String, Error> {
    let registry = limits::policies().clone().offering(Needs::EVERYTHING);
    let mut workload = read(&args.file, &registry).map_err(|error| Error::Usage(error.to_string()))?;
    for job in &mut workload.jobs {
        job.copies = job.copies.saturating_mul(args.copies);
    }
    let policies: Vec<String> = match args.policy.as_slice() {
        [] => vec![workload.manager.policy.clone()],
        [all] if all == "all" => registry.names().into_iter().map(str::to_owned).collect(),
        named => named.to_vec(),
    };
    let pictures = args.prv.is_some() || args.svg.is_some();
    if pictures && policies.len() > 1 {
        return Err(Error::Usage("--prv and --svg show one policy; name one with --policy".to_owned()));
    }
    let mut found = Vec::new();
    for policy in &policies {
        let options = Options { timeline: pictures, ..Options::policy(policy) };
        let outcome = play(&args.file, &workload, &registry, &options)?;
        let mut variants = Vec::new();
        if args.sensitivity {
            for (which, parameter) in Native::NAMES.into_iter().enumerate() {
                for factor in [0.75, 1.25] {
                    let varied = Workload { native: workload.native.scaled(which, factor), ..workload.clone() };
                    let outcome = play(&args.file, &varied, &registry, &Options::policy(policy))?;
                    variants.push(Variant { parameter, factor, outcome });
                }
            }
        }
        found.push(Found { outcome, variants });
    }
    if let Some(timeline) = found[0].outcome.timeline.as_ref() {
        if let Some(path) = &args.prv {
            let trace = paraver::write(timeline);
            write(path, &trace.prv)?;
            write(&path.with_extension("pcf"), &trace.pcf)?;
            write(&path.with_extension("row"), &trace.row)?;
        }
        if let Some(path) = &args.svg {
            write(path, &svg::draw(timeline, &found[0].outcome))?;
        }
    }
    Ok(if args.json {
        report::json(&workload, &found)
    } else if args.csv {
        report::csv(&found)
    } else {
        report::table(&workload, &found)
    })
}

fn play(file: &Path, workload: &Workload, registry: &Registry, options: &Options) -> Result<Outcome, Error> {
    simulate(workload, registry, options).map_err(|error| match error {
        // The workload itself was checked when it was read: this is the policy of the command line.
        SimError::Fault(fault) => Error::Usage(format!("--policy: {}", fault.message)),
        other => Error::Usage(format!("{}: {other}", file.display())),
    })
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::Io { what: "cannot write", path: path.to_owned(), source })
}
