//! A real program as its test sees it: a process that obeys commands, one line each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};

use platform::affinity::CpuSet;
use platform::process::{self, Pid};

use super::eventually;

/// Set in programs: the socket to register at.
pub(super) const PROGRAM_SOCKET: &str = "CPUMGR_TEST_PROGRAM";

/// What a program says about its grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) processors: u32,
    pub(crate) dedicated: bool,
    pub(crate) shared: bool,
    pub(crate) epoch: u32,
    pub(crate) cpus: CpuSet,
    pub(crate) alive: bool,
}

/// A registered program in a process of its own.
pub(crate) struct Program {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    pub(crate) fn start(socket: &Path, request: u32, max: u32) -> Self {
        let program = Self::launch(Self::command(socket), request, max);
        program.unwrap_or_else(|error| panic!("the program did not register: {error}"))
    }

    /// The command line of a program; `cpumgr run` can be put in front.
    pub(crate) fn command(socket: &Path) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(Self::arguments()).env(PROGRAM_SOCKET, socket);
        command
    }

    pub(crate) fn arguments() -> [&'static str; 5] {
        ["--ignored", "--exact", "acts_as_a_program", "--nocapture", "--test-threads=1"]
    }

    pub(crate) fn launch(mut command: Command, request: u32, max: u32) -> Result<Self, String> {
        let spawned =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn();
        let mut child = spawned.unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, input, output };
        let answer = program.ask(&format!("register {request} {max}"));
        if answer == "registered" { Ok(program) } else { Err(answer) }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: i32) {
        let pidfd = process::pidfd_open(Pid(self.child.id().cast_signed())).unwrap();
        process::pidfd_send_signal(&pidfd, signal).unwrap();
    }

    /// A process that has not registered.
    pub(crate) fn unregistered(socket: &Path) -> Self {
        Self::of(Self::command(socket))
    }

    /// One that a command starts, with whatever it is to know.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Sends commands of which it dies.
    pub(crate) fn dies_of(mut self, commands: &[&str]) -> ExitStatus {
        for command in commands {
            // The pipe breaks when it is dead already.
            if writeln!(self.input, "{command}").is_err() {
                break;
            }
        }
        eventually("it dies", || self.child.try_wait().unwrap())
    }

    /// Sends a command and returns its answer.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        let mut line = String::new();
        loop {
            line.clear();
            assert!(
                self.output.read_line(&mut line).unwrap() > 0,
                "the program ended instead of answering {command}"
            );
            // The test harness of the program prints lines of its own.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim_end().to_owned();
            }
        }
    }

    pub(crate) fn seen(&mut self) -> Seen {
        let answer = self.ask("grant");
        let words: Vec<&str> = answer.split(' ').collect();
        Seen {
            processors: words[0].parse().unwrap(),
            dedicated: words[1] == "true",
            shared: words[2] == "true",
            epoch: words[3].parse().unwrap(),
            alive: words[4] == "true",
            cpus: words.get(5).map_or_else(CpuSet::new, |list| CpuSet::parse_list(list).unwrap()),
        }
    }

    /// Looks at the grant until it is as wanted.
    pub(crate) fn until(&mut self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Seen {
        eventually(what, || Some(self.seen()).filter(|seen| wanted(seen)))
    }

    /// Where its second virtual processor spins.
    pub(crate) fn place_of_the_spinner(&mut self) -> CpuSet {
        let masks = self.ask("masks");
        CpuSet::parse_list(masks.split(' ').nth(1).unwrap()).unwrap()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends by itself with this code.
    pub(crate) fn exit(mut self, code: i32) -> ExitStatus {
        writeln!(self.input, "exit {code}").unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}
