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
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use policies::sim::{Native, Options, Outcome, Workload, simulate};
use policies::{Needs, Registry};

use crate::error::Error;
use crate::limits;
use crate::output::is_standard;

const ABOUT: &str = "\
A workload file is TOML: [machine], [manager], [native], [parameters.POLICY], [programs.NAME], \
[[jobs]], [[switches]].
The folder `workloads` of the sources has one for each experiment of the papers; \
docs/simulator.md explains them.
Under the policy `none` the kernel shares out the processors, by the model of [native].";

/// What `simulate` can be told.
#[derive(Clone, Debug, Args)]
#[command(after_help = ABOUT)]
pub struct SimulateArgs {
    /// The workload.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// A policy instead of the workload's own; several, to compare them; `all` for each that there
    /// is.
    #[arg(long, value_name = "NAME")]
    pub policy: Vec<String>,
    /// This many times as many copies of each job.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub copies: u32,
    /// Each parameter of `native` 25 % up and down, too.
    #[arg(long)]
    pub sensitivity: bool,
    /// One line per policy, with what most, and nearly all, programs wait for; of all policies that
    /// there are, unless some are named.
    #[arg(long, conflicts_with_all = ["json", "csv", "sensitivity"])]
    pub compare: bool,
    /// One line per execution, as comma-separated values.
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// As one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Writes a trace for Paraver: FILE, and beside it FILE with the endings .pcf and .row.
    #[arg(long, value_name = "FILE")]
    pub prv: Option<PathBuf>,
    /// Writes a picture of which program has which processor, and when; - is standard output, in
    /// place of the table.
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
    let mut workload =
        read(&args.file, &registry).map_err(|error| Error::Usage(error.to_string()))?;
    for job in &mut workload.jobs {
        job.copies = job.copies.saturating_mul(args.copies);
    }
    // Without more copies it was checked when it was read.
    workload
        .check(&registry)
        .map_err(|fault| Error::Usage(format!("--copies {}: {fault}", args.copies)))?;
    let policies: Vec<String> = match args.policy.as_slice() {
        [] if args.compare => registry.names().into_iter().map(str::to_owned).collect(),
        [] => vec![workload.manager.policy.clone()],
        named if named.iter().any(|name| name == "all") => {
            registry.names().into_iter().map(str::to_owned).collect()
        }
        named => named.to_vec(),
    };
    for name in &policies {
        registry.create(name).map_err(|unknown| Error::Usage(format!("--policy: {unknown}")))?;
    }
    check_outputs(args)?;
    let pictures = args.prv.is_some() || args.svg.is_some();
    if pictures && policies.len() > 1 {
        return Err(Error::Usage(
            "--prv and --svg show one policy; name one with --policy".to_owned(),
        ));
    }
    let mut found = Vec::new();
    for policy in &policies {
        let options = Options { timeline: pictures, ..Options::policy(policy) };
        let outcome = play(&args.file, &workload, &registry, &options)?;
        let mut variants = Vec::new();
        if args.sensitivity {
            for (which, parameter) in Native::NAMES.into_iter().enumerate() {
                for factor in [0.75, 1.25] {
                    let varied = Workload {
                        native: workload.native.scaled(which, factor),
                        ..workload.clone()
                    };
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
            let picture = svg::draw(timeline, &found[0].outcome);
            if is_standard(path) {
                return Ok(picture);
            }
            write(path, &picture)?;
        }
    }
    Ok(if args.compare {
        report::comparison(&workload, &found)
    } else if args.json {
        report::json(&workload, &found)
    } else if args.csv {
        report::csv(&found)
    } else {
        report::table(&workload, &found)
    })
}

fn play(
    file: &Path,
    workload: &Workload,
    registry: &Registry,
    options: &Options,
) -> Result<Outcome, Error> {
    simulate(workload, registry, options)
        .map_err(|error| Error::Usage(format!("{}: {error}", file.display())))
}

/// Refuses to write two outputs into one file, or one over the workload: the first would be lost
/// without a word. Standard output takes one thing, too.
fn check_outputs(args: &SimulateArgs) -> Result<(), Error> {
    let usage = |what: &str| Err(Error::Usage(what.to_owned()));
    let to_standard = args.svg.as_deref().is_some_and(is_standard);
    if args.prv.as_deref().is_some_and(is_standard) {
        return usage(paraver::NO_STANDARD_OUTPUT);
    }
    if to_standard && (args.json || args.csv || args.compare || args.sensitivity) {
        return usage(
            "--svg -: the picture would be in standard output, and so would what --json, --csv, \
             --compare or --sensitivity ask for; name a file for the picture",
        );
    }
    let mut files = vec![("the workload", args.file.clone())];
    if let Some(trace) = &args.prv {
        files.push(("the trace of --prv", trace.clone()));
        files.push(("the colours of --prv", trace.with_extension("pcf")));
        files.push(("the names of --prv", trace.with_extension("row")));
    }
    let picture = args.svg.clone().filter(|_| !to_standard);
    files.extend(picture.map(|picture| ("the picture of --svg", picture)));
    for (at, (what, path)) in files.iter().enumerate() {
        for (other, there) in &files[..at] {
            if is_same_file(path, there) {
                let path = path.display();
                let advice = "give each a file of its own (--prv FILE.prv also writes FILE.pcf and \
                              FILE.row)";
                return Err(Error::Usage(format!(
                    "{path}: both {other} and {what} would be in it; {advice}"
                )));
            }
        }
    }
    Ok(())
}

/// Whether two paths name one file, be it there already or not.
fn is_same_file(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other)) {
        return (one.dev(), one.ino()) == (other.dev(), other.ino());
    }
    let whole = |path: &Path| {
        let folder =
            path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // A folder that is not there cannot be written to in any case.
        fs::canonicalize(folder)
            .unwrap_or_else(|_| folder.to_owned())
            .join(path.file_name().unwrap_or_default())
    };
    whole(one) == whole(other)
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::Io {
        what: "cannot write",
        path: path.to_owned(),
        source,
    })
}
