//! Page migration judged by exact counts: five kernels in C run in the guest under a plugin that
//! sees every access, from each placement and with each engine of migration.
//!
//! `count` reads what the plugin wrote; `judge` has the checks, by name; `figure` the paper's
//! figures and table; `plan` says what is run.

mod count;
mod figure;
mod judge;
mod plan;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};

use self::count::{Counted, Run, SLOW};
use self::plan::{ENGINES, KERNELS, PLACEMENTS};
use super::guest::{self, MEMORY_PER_NODE, PROFILE, TARGET, Task, Turns, static_flags};
use super::needs::Needs;
use crate::setup::{Compiler, Workspace, must_succeed};

/// Whose example is linked to the kernels.
const PACKAGE: &str = "nanothreads-upm";
const EXAMPLE: &str = "oracle";
/// Cache of a processor in KiB: the paper's is 4 MiB for class A, whose arrays are so much larger
/// than those here.
const CACHE: usize = 128;
/// Seconds of one boot, and of one run in it.
const LONGEST: u32 = 3000;
const LONGEST_RUN: u32 = 600;
const SHARED: [&str; 6] = [
    "cfd.c",
    "common/clock.c",
    "common/options.c",
    "common/random.c",
    "common/report.c",
    "common/verify.c",
];

/// What to run.
///
/// Exit code 0: all well, or skipped for a reason that is printed; 1: a check failed, or something
/// was missing with `--require`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these kernels: bt, sp, cg, mg, ft, bt-long (its phases run four times).
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    kernels: Vec<String>,
    /// Only from these placements: first-touch, round-robin, random, worst-case.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    placements: Vec<String>,
    /// Only these engines: nothing, kernel, upm, sampled, record-replay. What is judged against one
    /// that is left out is not judged; without first-touch and nothing that is nearly all.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    engines: Vec<String>,
    /// CG and FT from two placements, without record-replay: some minutes.
    #[arg(long)]
    quick: bool,
    /// Where the counts, tables and figures go.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Another kernel than Debian's cloud kernel.
    #[arg(long, value_name = "FILE")]
    pub(super) kernel: Option<PathBuf>,
    /// Judge and draw the counts that are in the folder already.
    #[arg(long)]
    again: bool,
    /// Tell the counter wrong nodes, and leave both engines off, to see the checks fail.
    #[arg(long)]
    breaks: bool,
    /// What the machine lacks is a failure, not a reason to skip.
    #[arg(long)]
    pub(super) require: bool,
}

/// Runs, judges and draws; counts the checks that went well.
pub(super) fn run(
    workspace: &Workspace,
    options: &Options,
    compiler: &Compiler,
    needs: &Needs,
    folder: &Path,
) -> anyhow::Result<u64> {
    let runs = wanted(options)?;
    let output = options.output.clone().unwrap_or_else(|| folder.join("oracle"));
    std::fs::create_dir_all(&output)
        .with_context(|| format!("cannot make {}", output.display()))?;
    let counts = output.join("counts.csv");
    if !options.again {
        measure(workspace, options, compiler, needs, folder, &runs, &counts)?;
    }
    let text = std::fs::read_to_string(&counts)
        .with_context(|| format!("cannot read {}", counts.display()))?;
    let told = std::fs::read_to_string(output.join("told.txt")).unwrap_or_default();
    let counted = Counted::read(&text, &told)?;
    figure::draw(&counted, &output)?;
    judge::judge(&counted)
}

/// The runs, in their order.
fn wanted(options: &Options) -> anyhow::Result<Vec<Run>> {
    known("--kernels", &options.kernels, &KERNELS.each_ref().map(|kernel| kernel.name))?;
    known("--placements", &options.placements, &PLACEMENTS)?;
    known("--engines", &options.engines, &ENGINES)?;
    let takes = |wanted: &[String], name: &str| {
        wanted.is_empty() || wanted.iter().any(|wanted| wanted == name)
    };
    let mut runs = Vec::new();
    for kernel in &KERNELS {
        let is_wanted = match (options.kernels.is_empty(), options.quick) {
            (false, _) => options.kernels.iter().any(|name| name == kernel.name),
            (true, true) => ["cg", "ft"].contains(&kernel.name),
            (true, false) => true,
        };
        if !is_wanted {
            continue;
        }
        for placement in PLACEMENTS {
            for engine in ENGINES {
                let is_short =
                    ["first-touch", "worst-case"].contains(&placement) && engine != "record-replay";
                let is_left_out =
                    !takes(&options.placements, placement) || !takes(&options.engines, engine);
                if is_left_out || (options.quick && !is_short) || !kernel.has(placement, engine) {
                    continue;
                }
                let iterations = if engine == "nothing" { kernel.alone } else { kernel.moved };
                runs.push(Run {
                    kernel: kernel.name.to_owned(),
                    class: kernel.class.to_owned(),
                    placement: placement.to_owned(),
                    engine: engine.to_owned(),
                    iterations,
                    repeats: kernel.phases.max(1),
                });
            }
        }
    }
    Ok(runs)
}

/// Refuses a name that does not exist.
fn known(option: &str, wanted: &[String], names: &[&str]) -> anyhow::Result<()> {
    match wanted.iter().find(|wanted| !names.contains(&wanted.as_str())) {
        Some(other) => bail!("{option}: there is no {other}; there are {}", names.join(", ")),
        None => Ok(()),
    }
}

fn measure(
    workspace: &Workspace,
    options: &Options,
    compiler: &Compiler,
    needs: &Needs,
    folder: &Path,
    runs: &[Run],
    counts: &Path,
) -> anyhow::Result<()> {
    let plugin = folder.join("oracle.so");
    compiler.build_shared(&workspace.root.join("xtask/vm/oracle.c"), &plugin)?;
    let program = build(workspace, folder)?;
    let tasks: Vec<Task> = runs
        .iter()
        .map(|run| Task {
            name: run.name(),
            program: program.clone(),
            arguments: format!(
                "{} {} {} {} {} {}",
                run.kernel, run.class, run.placement, run.engine, run.iterations, run.repeats
            ),
            limit: LONGEST_RUN,
            ..Task::default()
        })
        .collect();
    let image = folder.join("oracle.cpio");
    let mut variables = vec![
        ("OMP_NUM_THREADS", "8".to_owned()),
        ("GOMP_CPU_AFFINITY", "0-7".to_owned()),
        ("OMP_WAIT_POLICY", "passive".to_owned()),
    ];
    if options.breaks {
        variables.push(("ORACLE_BREAKS", "1".to_owned()));
    }
    let archive = guest::archive(needs, folder, &tasks, &variables, &[])?;
    std::fs::write(&image, archive).with_context(|| format!("cannot write {}", image.display()))?;
    let raw = folder.join("oracle.csv");
    let plugged = format!(
        "{},out={},nodemb={MEMORY_PER_NODE},cachekb={CACHE},slow={SLOW}",
        plugin.display(),
        raw.display()
    );
    let begin = Instant::now();
    let log = folder.join("oracle.log");
    let extra = ["-plugin".to_owned(), plugged];
    let (outcomes, _) = guest::boot(needs, &image, Turns::None, &extra, &log, LONGEST)?;
    println!("{} runs in {:.0} s", outcomes.len(), begin.elapsed().as_secs_f64());
    if let Some(outcome) = outcomes.iter().find(|outcome| outcome.code != 0) {
        bail!("{} failed in the guest with {}:\n{}", outcome.name, outcome.code, outcome.text);
    }
    let text =
        std::fs::read_to_string(&raw).with_context(|| format!("cannot read {}", raw.display()))?;
    let (named, told) = count::named(&text, runs, &outcomes)?;
    std::fs::write(counts, named).with_context(|| format!("cannot write {}", counts.display()))?;
    let told_file = counts.with_file_name("told.txt");
    std::fs::write(&told_file, told)
        .with_context(|| format!("cannot write {}", told_file.display()))
}

/// The kernels with the tool, one static program.
fn build(workspace: &Workspace, folder: &Path) -> anyhow::Result<PathBuf> {
    let target = workspace.target.join("guest");
    let mut command =
        workspace.cargo(["build", "--package", PACKAGE, "--example", EXAMPLE, "--target", TARGET]);
    command.args(["--profile", PROFILE, "--target-dir"]).arg(&target);
    must_succeed(command.env("RUSTFLAGS", static_flags()))?;
    let tool = target.join(TARGET).join(PROFILE).join("examples").join(format!("lib{EXAMPLE}.a"));
    let kernels = workspace.root.join("kernels/c");
    let objects = folder.join("oracle.objects");
    std::fs::create_dir_all(&objects)
        .with_context(|| format!("cannot make {}", objects.display()))?;
    let mut linked = Vec::new();
    let mut compile = |source: &str, rename: Option<&str>| -> anyhow::Result<()> {
        let object = objects.join(source.replace(['/', '.'], "_") + ".o");
        let mut command = Command::new("gcc");
        command.args(["-std=c11", "-O3", "-march=x86-64-v2", "-fno-math-errno"]);
        command.args(["-fno-trapping-math", "-fopenmp", "-I"]).arg(&kernels);
        command.args(rename.map(|name| format!("-Dmain={name}_main")));
        command.arg("-c").arg(kernels.join(source)).arg("-o").arg(&object);
        must_succeed(&mut command)?;
        linked.push(object);
        Ok(())
    };
    for source in SHARED {
        compile(source, None)?;
    }
    for kernel in &KERNELS {
        for source in kernel.sources {
            compile(source, Some(kernel.name))?;
        }
    }
    let program = folder.join("oracle.program");
    let mut link = Command::new("gcc");
    link.args(["-static", "-fopenmp", "-o"]).arg(&program).args(linked).arg(tool).arg("-lm");
    must_succeed(&mut link)?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_runs_that_are_named_are_made_and_an_unknown_name_is_refused() {
        let named = |kernels: &str, placements: &str, engines: &str| {
            let list = |names: &str| names.split_whitespace().map(str::to_owned).collect();
            let options = Options {
                kernels: list(kernels),
                placements: list(placements),
                engines: list(engines),
                quick: false,
                output: None,
                kernel: None,
                again: true,
                breaks: false,
                require: false,
            };
            let runs = wanted(&options).map_err(|error| error.to_string())?;
            Ok::<_, String>(runs.iter().map(Run::name).collect::<Vec<_>>())
        };
        assert_eq!(
            named("mg", "random", "sampled record-replay nothing").unwrap(),
            ["mg/random/nothing", "mg/random/sampled"]
        );
        let all = 4 * (5 * 4 + 2) + 4;
        assert_eq!(named("", "", "").unwrap().len(), all);
        assert_eq!(
            named("bt-long", "", "sampled nothing record-replay").unwrap(),
            ["bt-long/first-touch/nothing", "bt-long/first-touch/record-replay"]
        );
        let refused = named("cg", "", "upm kernels").unwrap_err();
        assert!(refused.contains("--engines: there is no kernels"), "{refused}");
        assert!(named("", "worst", "").is_err() && named("lu", "", "").is_err());
    }
}
