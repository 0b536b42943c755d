//! Commands that the documents show: the program's own parser understands each of them, and the
//! scripts that need no cluster run as they stand.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use clap::Parser;
use clap::error::ErrorKind;
use cpumgr::administration::QueueReport;
use cpumgr::cli::Cli;
use support::{EndManagers, cpumgr, errors, eventually, write_script};

/// What stands for a value of the reader's, and one that fits.
const PLACEHOLDERS: [(&str, &str); 5] =
    [("PID", "4711"), ("ID", "7"), ("N", "2"), ("LIST", "0-1"), ("KEY=VALUE", "step=4")];
/// Programs that start the one that their words name.
const STARTERS: [&str; 4] = ["parallel", "xargs", "taskset", "sudo"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The documents, and how many commands of blocks each one has at least.
fn documents() -> Vec<(PathBuf, usize)> {
    let mut all = vec![(root().join("README.md"), 2), (root().join("crates/cpumgr/README.md"), 35)];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let least = match path.file_stem().unwrap().to_str().unwrap() {
            "batch" => 5,
            "slurm" => 4,
            "parallel" => 6,
            _ => 0,
        };
        if path.extension().is_some_and(|it| it == "md") {
            all.push((path, least));
        }
    }
    all
}

/// A document's blocks of code with their languages, and the rest.
fn parts(text: &str) -> (Vec<(String, String)>, String) {
    let (mut blocks, mut prose) = (Vec::new(), String::new());
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some((language.trim().to_owned(), String::new())),
            (None, Some((_, block))) => *block += &format!("{line}\n"),
            (None, None) => prose += &format!("{line}\n"),
        }
    }
    (blocks, prose)
}

/// Variables of a shell become a number, which is a path, too (`$policy` a policy); what is
/// substituted stands by itself.
fn without_variables(script: &str) -> String {
    let mut plain = String::new();
    let mut rest = script;
    while let Some((before, after)) = rest.split_once('$') {
        plain += before;
        let word = |text: &str| text.find(|it: char| !(it.is_alphanumeric() || it == '_'));
        rest = if let Some(inner) = after.strip_prefix('(') {
            let (command, after) = inner.split_once(')').unwrap();
            plain += &format!("; {} ;", without_variables(command));
            after
        } else {
            plain += if after.starts_with("policy") { "equip" } else { "7" };
            match after.strip_prefix('{') {
                Some(inner) => inner.split_once('}').unwrap().1,
                None if after.starts_with(['!', '?']) => &after[1..],
                None => &after[word(after).unwrap_or(after.len())..],
            }
        };
    }
    plain + rest
}

/// The words of each command of a script, as a shell splits it.
fn commands(script: &str) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    for line in without_variables(script).lines() {
        let (mut word, mut quote) = (None::<String>, None);
        for it in line.chars() {
            match (it, quote) {
                (_, Some(open)) if it == open => quote = None,
                (_, Some(_)) => word.get_or_insert_default().push(it),
                ('\'' | '"', None) => {
                    quote = Some(it);
                    word.get_or_insert_default();
                }
                ('#', None) if word.is_none() => break,
                (';' | '&' | '|', None) => {
                    all.last_mut().unwrap().extend(word.take());
                    all.push(Vec::new());
                }
                (_, None) if it.is_whitespace() => all.last_mut().unwrap().extend(word.take()),
                (_, None) => word.get_or_insert_default().push(it),
            }
        }
        all.last_mut().unwrap().extend(word);
        all.push(Vec::new());
    }
    all
}

/// Our command line in a command, with values for what stands for one.
fn ours(command: &[String]) -> Option<Vec<String>> {
    let is_setting =
        |word: &&String| word.split_once('=').is_some_and(|(name, _)| !name.contains('-'));
    let words: Vec<&String> = command.iter().skip_while(is_setting).collect();
    let is_us = |word: &str| word == "cpumgr" || word.ends_with("/cpumgr");
    let first = words.first()?.as_str();
    let at = match STARTERS.contains(&first) {
        true => words.iter().position(|word| is_us(word))?,
        false => is_us(first).then_some(0)?,
    };
    // What every command has: `cpumgr ... --json`.
    if words.get(at + 1).is_some_and(|word| *word == "...") {
        return None;
    }
    let value = |word: &String| {
        let word = word.trim_matches(['[', ']']);
        let found = PLACEHOLDERS.iter().find(|(name, _)| *name == word);
        found.map_or(word, |it| it.1).to_owned()
    };
    Some(words[at..].iter().map(|word| value(word)).collect())
}

/// What is wrong with a command line. One that is only named in a sentence may lack what the reader
/// adds.
fn fault(words: &[String], is_named: bool) -> Option<String> {
    let error = Cli::try_parse_from(words).err()?;
    let is_well = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => is_named,
        ErrorKind::InvalidValue => is_named && error.to_string().contains("a value is required"),
        _ => false,
    };
    (!is_well).then(|| format!("{}: {error}", words.join(" ")))
}

/// The text between single backticks.
fn spans(prose: &str) -> Vec<String> {
    let lines = prose.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    let of = |paragraph: String| {
        let spans = paragraph.split('`').skip(1).step_by(2);
        spans.map(|span| span.replace("\\|", "|")).collect::<Vec<_>>()
    };
    lines.flat_map(of).collect()
}

#[test]
fn every_command_line_of_the_documents_is_understood() {
    let mut faults = Vec::new();
    for (path, least) in documents() {
        let text = fs::read_to_string(&path).unwrap();
        let (blocks, prose) = parts(&text);
        let in_blocks: Vec<_> = blocks
            .iter()
            .flat_map(|(_, block)| commands(block))
            .filter_map(|it| ours(&it))
            .collect();
        assert!(in_blocks.len() >= least, "{}: {in_blocks:?}", path.display());
        let named = spans(&prose).into_iter().flat_map(|span| commands(&span));
        let named = named.filter_map(|it| ours(&it)).map(|words| fault(&words, true));
        let of_blocks = in_blocks.iter().map(|words| fault(words, false));
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        faults.extend(of_blocks.chain(named).flatten().map(|it| format!("{name}: {it}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_command_line_that_is_wrong_is_seen() {
    let seen = |script: &str, is_named: bool| {
        let all = commands(script).into_iter().filter_map(|it| ours(&it));
        all.filter_map(|words| fault(&words, is_named)).count()
    };
    for wrong in
        ["cpumgr sumbit -- x", "cpumgr daemon --colour", "x=$(cpumgr mpl some)", "cpumgr list x"]
    {
        assert_eq!((seen(wrong, false), seen(wrong, true)), (1, 1), "{wrong}");
    }
    for short in ["cpumgr run", "cpumgr submit --after", "taskset -c 0 cpumgr trace"] {
        assert_eq!((seen(short, false), seen(short, true)), (1, 0), "{short}");
    }
    let well = "A=1 cpumgr mpl $N # cpumgr no\ncpumgr stop; cpumgr set weight PID 2 || exit";
    assert_eq!(seen(well, false), 0);
    assert_eq!(commands(well).into_iter().filter_map(|it| ours(&it)).count(), 3);
    assert_eq!(seen("systemctl reload cpumgr", false), 0);
}

#[test]
fn the_arguments_of_the_pods_manager_are_understood() {
    let text = fs::read_to_string(root().join("docs/kubernetes.md")).unwrap();
    let (_, rest) = text.split_once("args: [").unwrap();
    let (words, _) = rest.split_once(']').unwrap();
    let words: Vec<String> =
        ["cpumgr"].into_iter().chain(words.split(", ")).map(String::from).collect();
    assert_eq!((words.len(), fault(&words, false)), (3, None));
}

/// A folder with programs, in which scripts of the documents run with a manager of their own.
struct Scene {
    dir: tempfile::TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(EndManagers(self.dir.path()));
    }
}

impl Scene {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn program(&self, name: &str, script: &str) {
        write_script(&self.dir.path().join(name), &format!("#!/bin/sh\n{script}\n"));
    }

    fn run(&self, script: &str, variables: &[(&str, &Path)]) -> Output {
        let program = cpumgr();
        let place = Path::new(program.get_program()).parent().unwrap().to_owned();
        let path = format!("{}:{}", place.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).current_dir(self.dir.path()).env("PATH", path);
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("NANOS_CPUMGR", self.dir.path().join("app.sock"));
        command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap()
    }

    /// What a program has written so far.
    fn said(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

/// The block of a document that has this in it.
fn block(document: &str, what: &str) -> String {
    let text = fs::read_to_string(root().join("docs").join(document)).unwrap();
    let (blocks, _) = parts(&text);
    let found = blocks.into_iter().find(|(_, block)| block.contains(what));
    found.unwrap_or_else(|| panic!("{document} has no block with {what}")).1
}

#[test]
fn the_submissions_of_the_page_run_in_their_order() {
    let scene = Scene::new();
    scene.program("prepare", "echo prepare >> order");
    scene.program("solve", "echo solve >> order; exit 3");
    scene.program("tell", "echo tell >> order");
    scene.program("render", "echo \"$1\" >> frames");
    let begun = scene.run("cpumgr daemon --background --idle-exit never", &[]);
    assert!(begun.status.success(), "{}", errors(&begun));
    let output = scene.run(&block("batch.md", "prepare=$("), &[]);
    assert!(output.status.success(), "{}", errors(&output));
    eventually("the last one has run", || (scene.said("order").len() == 3).then_some(()));
    assert_eq!(scene.said("order"), ["prepare", "solve", "tell"]);
    let mut frames = scene.said("frames");
    frames.sort_by_key(|frame| frame.trim_start_matches("frame-").parse::<u32>().unwrap());
    assert_eq!(frames, (1..=20).map(|index| format!("frame-{index}")).collect::<Vec<_>>());
    let report = QueueReport::ask(&scene.dir.path().join("app.sock")).unwrap();
    assert_eq!(report.queue.level, Some(2));
    scene.run("cpumgr stop", &[]);
}

#[test]
fn the_batch_script_ends_with_the_code_of_its_programs() {
    for (solver, analysis, code) in [(0, 0, 0), (5, 0, 5), (0, 6, 6)] {
        let scene = Scene::new();
        scene.program("solver", &format!("cpumgr status > solver.out; exit {solver}"));
        scene.program("analysis", &format!("exit {analysis}"));
        let variables = [("SLURM_TMPDIR", scene.dir.path()), ("SLURM_JOB_ID", Path::new("42"))];
        let output = scene.run(&block("slurm.md", "SLURM_JOB_ID"), &variables);
        assert_eq!(output.status.code(), Some(code), "{}", errors(&output));
        assert!(!scene.said("solver.out").is_empty(), "it had a manager");
        assert!(!scene.dir.path().join("cpumgr-42/app.sock").exists(), "it was stopped");
    }
}

#[test]
fn parallel_starts_programs_and_the_manager_says_how_many_run() {
    if Command::new("parallel").arg("--version").output().is_err() {
        return platform::skip!("GNU parallel is not installed");
    }
    let scene = Scene::new();
    fs::create_dir(scene.dir.path().join("inputs")).unwrap();
    let inputs: Vec<String> = (0..6).map(|index| format!("inputs/{index}")).collect();
    inputs.iter().for_each(|input| fs::write(scene.dir.path().join(input), "").unwrap());
    // How many are there together is what each finds when it begins.
    scene.program(
        "program",
        "mkdir -p there; : > \"there/$$\"; ls there | wc -l >> together; sleep 0.2; \
         rm \"there/$$\"; echo \"$1\" >> done",
    );
    for (what, most) in [("parallel -j 8", 6), ("cpumgr mpl 2", 2)] {
        let output = scene.run(&block("parallel.md", what), &[]);
        assert!(output.status.success(), "{what}: {}", errors(&output));
        let mut done = scene.said("done");
        done.sort();
        assert_eq!(done, inputs, "{what}");
        let together = scene.said("together");
        let largest = together.iter().map(|it| it.trim().parse::<u32>().unwrap()).max();
        assert!(largest.is_some_and(|it| it <= most), "{what}: {together:?}");
        fs::remove_file(scene.dir.path().join("done")).unwrap();
        fs::remove_file(scene.dir.path().join("together")).unwrap();
    }
}
