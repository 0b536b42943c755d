//! One boot of the virtual machine: 8 processors on 4 nodes, all emulated, so that it runs wherever
//! QEMU does.
//!
//! # The verdict
//! The guest ends QEMU through `isa-debug-exit`, whose codes are odd, after a line `@RESULT`. A
//! kernel that panics ends QEMU with 0, so 0 is a failure, and so is a code without the line.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::cpio::Archive;
use super::needs::Needs;
use crate::artifact::{self, Artifact};
use crate::setup::{Workspace, shown};
use crate::skips;

/// Where the guest's programs are built for; a name in the command keeps build scripts dynamic.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";
/// What the kernel is told. The emulated counter is one for all processors, which the kernel does
/// not believe by itself: its other clocks cost a system call and a trap for each reading.
pub(super) const COMMAND_LINE: &str = "console=ttyS0 quiet panic=-1 tsc=reliable";
/// The profile of the root manifest for what is only tested there; what is counted has that of
/// benches.
pub(super) const PROFILE: &str = "guest";
/// Seconds that a guest may take altogether.
pub(super) const LONGEST: u32 = 540;

/// How long tests wait there for what comes in 20 seconds elsewhere: what tells them so when they
/// are built, and seconds. Several emulated processors share one of this machine.
const PATIENCE: (&str, &str) = ("NANOS_TEST_PATIENCE", "100");

/// Flags for programs that need nothing from the machine that they run on.
pub(super) fn static_flags() -> String {
    let given = std::env::var("RUSTFLAGS").unwrap_or_default();
    format!("{given} -C target-feature=+crt-static -C strip=debuginfo").trim().to_owned()
}

/// Builds such programs by these arguments of cargo.
pub(super) fn build<S: AsRef<OsStr>>(
    workspace: &Workspace,
    arguments: impl IntoIterator<Item = S>,
) -> anyhow::Result<Vec<Artifact>> {
    let mut command = workspace.cargo(arguments);
    command
        .args(["--profile", PROFILE, "--target", TARGET, "--target-dir"])
        .arg(workspace.target.join("guest"));
    artifact::build(command.env("RUSTFLAGS", static_flags()).env(PATIENCE.0, PATIENCE.1))
}

pub(super) const PROCESSORS: usize = 8;
const NODES: usize = 4;
pub(super) const MEMORY_PER_NODE: usize = 512;
/// Exit code for "all programs succeeded": 2 x 42 + 1; see `init.sh`.
const ALL_WELL: i32 = 85;
/// The same for "some failed".
const SOME_FAILED: i32 = 87;
/// Distances of the nodes: a square, as in `numactl --hardware` of a machine with four sockets.
const DISTANCES: [(usize, usize, u32); 6] =
    [(0, 1, 16), (0, 2, 22), (0, 3, 16), (1, 2, 16), (1, 3, 22), (2, 3, 16)];

/// How the emulator runs the guest's processors.
#[derive(Clone, Copy)]
pub(super) enum Turns {
    /// Each as a thread: at the same time, as far as this machine has processors, and in any
    /// interleaving.
    None,
    /// One after the other, on one thread; `pause` ends a turn. Waiting is cheap then, and counts
    /// come out alike.
    Taken,
}

impl Turns {
    fn accelerator(self) -> &'static str {
        // Never /dev/kvm: inside a virtual machine it may open and not work.
        match self {
            Turns::None => "tcg,thread=multi",
            Turns::Taken => "tcg,thread=single",
        }
    }
}

/// A program that the guest runs.
#[derive(Default)]
pub(super) struct Task {
    pub(super) name: String,
    /// The program's file on this machine.
    pub(super) program: PathBuf,
    pub(super) arguments: String,
    /// Seconds after the boot: later it does not begin, and is left out.
    pub(super) begins_by: Option<u64>,
    /// Most seconds of the guest's time.
    pub(super) limit: u32,
    /// Loops that keep processors busy beside it, from its beginning to its end.
    pub(super) hogs: u32,
    /// A first failure is told and not counted: the program runs once more.
    pub(super) may_fail_once: bool,
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) code: i32,
    pub(super) seconds: u32,
    /// What it printed.
    pub(super) text: String,
}

/// A guest that runs tasks, one after the other, and ends.
pub(super) struct Boot<'a> {
    pub(super) needs: &'a Needs,
    /// Where image and log go.
    pub(super) folder: &'a Path,
    /// What both are named after.
    pub(super) name: &'a str,
    /// In the environment of each task.
    pub(super) variables: &'a [(&'a str, String)],
    /// More for the emulator's command line.
    pub(super) extra: &'a [String],
    /// Further programs and libraries, with their places in the guest.
    pub(super) others: &'a [(&'a str, &'a Path)],
    /// Most seconds of all tasks.
    pub(super) longest: u32,
}

impl Boot<'_> {
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(self.name).with_extension("log")
    }

    /// What each task came to. Fails where the guest did not tell of all of them.
    pub(super) fn run(&self, tasks: &[Task]) -> anyhow::Result<Vec<Outcome>> {
        let archive = archive(self.needs, self.folder, tasks, self.variables, self.others)?;
        let image = self.folder.join(self.name).with_extension("cpio");
        std::fs::write(&image, archive)
            .with_context(|| format!("cannot write {}", image.display()))?;
        let log = self.log();
        let (outcomes, _) = boot(self.needs, &image, Turns::None, self.extra, &log, self.longest)?;
        if outcomes.len() != tasks.len() {
            let (told, all) = (outcomes.len(), tasks.len());
            bail!(
                "{}: the guest told of {told} of {all} programs; see {}",
                self.name,
                log.display()
            );
        }
        Ok(outcomes)
    }
}

/// The guest's file system.
/// `variables` are set for all programs; `others` are further files, with their places.
pub(super) fn archive(
    needs: &Needs,
    tools: &Path,
    tasks: &[Task],
    variables: &[(&str, String)],
    others: &[(&str, &Path)],
) -> anyhow::Result<Vec<u8>> {
    let read = |file: &Path| {
        std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))
    };
    let mut archive = Archive::default();
    let mut folders = BTreeSet::from(["bin", "dev", "tests"].map(PathBuf::from));
    for (place, _) in others {
        let above = Path::new(place).ancestors().skip(1);
        folders.extend(above.map(Path::to_owned).filter(|folder| folder.parent().is_some()));
    }
    // A folder comes before what is in it.
    for folder in &folders {
        archive.folder(&folder.to_string_lossy());
    }
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    archive.file("init", include_bytes!("../../vm/init.sh"));
    archive.file("bin/busybox", &read(&needs.shell)?);
    archive.file("bin/qexit", &read(&tools.join("qexit"))?);
    let mut list = String::new();
    let variables: String =
        variables.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    for (number, task) in tasks.iter().enumerate() {
        let Task { name, program, arguments, begins_by, limit, hogs, may_fail_once } = task;
        let first = tasks.iter().position(|task| task.program == *program).unwrap_or(number);
        let place = format!("tests/{first}");
        if first == number {
            archive.file(&place, &read(program)?);
        }
        let last = begins_by.unwrap_or(u64::MAX >> 1);
        let failures = u32::from(*may_fail_once);
        list += &format!(
            "{limit} {last} {hogs} {failures} {name} env {variables}/{place} {arguments}\n"
        );
    }
    for (place, program) in others {
        archive.file(place, &read(program)?);
    }
    archive.file("list", list.as_bytes());
    Ok(archive.finish())
}

/// The emulator's command, but for what the guest boots from.
fn emulator(needs: &Needs, image: &Path, turns: Turns) -> Command {
    let mut command = Command::new(&needs.emulator);
    command.args([
        "-machine",
        "q35",
        "-accel",
        turns.accelerator(),
        "-cpu",
        "max",
        "-smp",
        &PROCESSORS.to_string(),
    ]);
    command.args(["-m", &format!("{}M", NODES * MEMORY_PER_NODE)]);
    let per_node = PROCESSORS / NODES;
    for node in 0..NODES {
        let (first, last) = (node * per_node, (node + 1) * per_node - 1);
        command
            .args(["-object", &format!("memory-backend-ram,id=m{node},size={MEMORY_PER_NODE}M")]);
        command.args(["-numa", &format!("node,nodeid={node},cpus={first}-{last},memdev=m{node}")]);
    }
    for (from, to, distance) in DISTANCES {
        command.args(["-numa", &format!("dist,src={from},dst={to},val={distance}")]);
    }
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-monitor",
        "none",
    ]);
    command.args(["-serial", "stdio", "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.arg("-kernel").arg(&needs.kernel).arg("-initrd").arg(image);
    command.args(["-append", COMMAND_LINE]).stdin(Stdio::null());
    command
}

/// Boots the guest, shows the outcomes as they come, and returns them, with how many programs it
/// had no time for. `extra` are more arguments for the emulator; the whole log is kept in `log`.
pub(super) fn boot(
    needs: &Needs,
    image: &Path,
    turns: Turns,
    extra: &[String],
    log: &Path,
    longest: u32,
) -> anyhow::Result<(Vec<Outcome>, usize)> {
    let emulator = emulator(needs, image, turns);
    let mut command = Command::new("timeout");
    command
        .args(["-k", "1", &longest.to_string()])
        .arg(emulator.get_program())
        .args(emulator.get_args())
        .args(extra);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", shown(&command)))?;
    let output = child.stdout.take().context("no pipe from the emulator")?;
    let mut file =
        std::fs::File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut reading = Reading::default();
    for line in BufReader::new(output).split(b'\n') {
        let line = line.context("cannot read what the guest prints")?;
        let line = String::from_utf8_lossy(&line).trim_end_matches('\r').to_owned();
        writeln!(file, "{line}").with_context(|| format!("cannot write {}", log.display()))?;
        reading.line(&line);
    }
    let status = child.wait().context("cannot wait for the emulator")?;
    for skip in &reading.skips {
        println!("{skip}");
        skips::append(skip);
    }
    for name in &reading.unsteady {
        skips::note_busy(format_args!("vm smp: {name}: it failed once; see its output above"));
    }
    let all = format!("the whole log: {}", log.display());
    match (status.code(), reading.result) {
        (Some(ALL_WELL), Some((programs, 0))) if programs == reading.outcomes.len() => {
            Ok((reading.outcomes, reading.left_out))
        }
        (Some(SOME_FAILED), Some((programs, failed)))
            if programs == reading.outcomes.len() && failed > 0 =>
        {
            Ok((reading.outcomes, reading.left_out))
        }
        (Some(124), _) => {
            bail!("the guest was ended after {longest} s, in {}; {all}", reading.place())
        }
        (Some(0), _) => bail!("the guest's kernel panicked, in {}; {all}", reading.place()),
        (code, result) => {
            bail!(
                "the guest ended with {code:?} and result {result:?}, in {}; {all}",
                reading.place()
            )
        }
    }
}

/// What was read of the guest's lines so far.
#[derive(Default)]
struct Reading {
    outcomes: Vec<Outcome>,
    /// The program that runs, and what it printed.
    open: Option<(String, String)>,
    /// Programs that failed, and then ran again.
    unsteady: Vec<String>,
    /// Programs that were not begun for lack of time.
    left_out: usize,
    /// What programs and their tests did not do, in the words that are noted.
    skips: Vec<String>,
    /// Programs, and how many failed.
    result: Option<(usize, usize)>,
}

impl Reading {
    fn line(&mut self, line: &str) {
        // A program may leave a line unfinished.
        let Some((before, mark)) = line.split_once('@').filter(|(_, mark)| is_mark(mark)) else {
            return self.print(line);
        };
        if !before.is_empty() {
            self.print(before);
        }
        let words: Vec<&str> = mark.split(' ').collect();
        match words[..] {
            ["begin", name] => self.open = Some((name.to_owned(), String::new())),
            ["end", name, code, seconds] => {
                let (code, seconds) = (code.parse().unwrap_or(-1), seconds.parse().unwrap_or(0));
                let text = self
                    .open
                    .take()
                    .filter(|(open, _)| open == name)
                    .map_or(String::new(), |(_, text)| text);
                let verdict = match code {
                    0 => "well".to_owned(),
                    124 | 137 | 143 => format!("FAILED: took too long ({code})"),
                    _ => format!("FAILED: {code}"),
                };
                println!("{name:<24}{seconds:>5} s  {verdict}");
                self.outcomes.push(Outcome { name: name.to_owned(), code, seconds, text });
            }
            ["unsteady", name, code, seconds] => {
                println!("{name:<24}{seconds:>5} s  FAILED once ({code}), and runs again");
                if let Some((_, text)) = self.open.take() {
                    println!("{text}");
                }
                self.unsteady.push(name.to_owned());
            }
            ["late", name] => {
                self.left_out += 1;
                self.skips.push(format!("skipped: vm smp: {name}: no time is left for it"));
            }
            ["skip", ..] => self.skips.extend(mark.strip_prefix("skip ").map(str::to_owned)),
            ["RESULT", programs, failed] => {
                let number = |text: &str, name: &str| text.strip_prefix(name)?.parse().ok();
                self.result = number(programs, "programs=").zip(number(failed, "failed="));
            }
            _ => println!("guest: {}", mark.strip_prefix("up ").unwrap_or(mark)),
        }
    }

    fn print(&mut self, line: &str) {
        if let Some((_, text)) = &mut self.open {
            *text += line;
            text.push('\n');
        }
    }

    fn place(&self) -> String {
        match (&self.open, self.outcomes.last()) {
            (Some((name, text)), _) => format!("{name}:\n{text}"),
            (None, Some(outcome)) => format!("the time after {}", outcome.name),
            (None, None) => "the time before any program".to_owned(),
        }
    }
}

fn is_mark(mark: &str) -> bool {
    ["up ", "begin ", "end ", "unsteady ", "late ", "skip ", "RESULT "]
        .iter()
        .any(|word| mark.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_told_from_what_programs_print() {
        let mut reading = Reading::default();
        for line in [
            "@up 8 processors",
            "@begin a",
            "some @text",
            "test x ... @end a 101 7",
            "@RESULT programs=1 failed=1",
        ] {
            reading.line(line);
        }
        let text = "some @text\ntest x ... \n".to_owned();
        assert_eq!(
            reading.outcomes,
            [Outcome { name: "a".to_owned(), code: 101, seconds: 7, text }]
        );
        assert_eq!(reading.result, Some((1, 1)));
    }

    #[test]
    fn what_the_guest_left_out_is_read_with_its_reason() {
        let mut reading = Reading::default();
        let lines = [
            "@begin a",
            "@end a 0 1",
            "@skip skipped: needs a node [a.rs:1]",
            "@late b",
            "@RESULT programs=1 failed=0",
        ];
        lines.into_iter().for_each(|line| reading.line(line));
        assert_eq!(
            reading.skips,
            ["skipped: needs a node [a.rs:1]", "skipped: vm smp: b: no time is left for it"]
        );
        assert_eq!(
            (reading.left_out, reading.outcomes.len(), reading.result),
            (1, 1, Some((1, 0)))
        );
    }

    #[test]
    fn a_failure_that_is_tried_again_is_no_outcome() {
        let mut reading = Reading::default();
        let lines = [
            "@begin a",
            "@unsteady a 101 7",
            "@begin a",
            "@end a 0 5",
            "@RESULT programs=1 failed=0",
        ];
        lines.into_iter().for_each(|line| reading.line(line));
        assert_eq!((reading.outcomes.len(), reading.outcomes[0].code), (1, 0));
        assert_eq!((&*reading.unsteady, reading.result), (&["a".to_owned()][..], Some((1, 0))));
    }

    #[test]
    fn a_result_that_is_cut_off_is_none() {
        let mut reading = Reading::default();
        reading.line("@RESULT programs=1 fai");
        assert_eq!(reading.result, None);
    }
}
