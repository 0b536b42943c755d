//! `cpumgr top` as a person uses it: on a pseudo-terminal, with keys; and what readers show there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use arena::message::{
    self, FromManager, PROGRAMS_PER_PACKET, ProgramStatus, Programs, Queue, ToManager,
};
use nix::pty::{Winsize, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use platform::process::Pid;
use platform::{fdpass, load};
use support::{Manager, PATIENCE, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

const COLUMNS: usize = 80;
const ROWS: usize = 24;

/// What a terminal shows, as far as `top` uses one.
struct Picture {
    cells: Vec<Vec<char>>,
    at: (usize, usize),
    /// The whole screen is a program's.
    is_alternate: bool,
    has_cursor: bool,
    /// Half a sequence.
    rest: Vec<u8>,
}

impl Picture {
    fn new() -> Self {
        let cells = vec![vec![' '; COLUMNS]; ROWS];
        Self { cells, at: (0, 0), is_alternate: false, has_cursor: true, rest: Vec::new() }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let text = std::mem::take(&mut self.rest);
        let mut at = 0;
        while at < text.len() {
            if text[at] != 0x1b {
                let (row, column) = self.at;
                assert!(column < COLUMNS && row < ROWS, "written beyond the screen");
                self.cells[row][column] = char::from(text[at]);
                self.at.1 += 1;
                at += 1;
                continue;
            }
            let end = text[at..].iter().skip(2).position(u8::is_ascii_alphabetic);
            let Some(end) = end.map(|end| at + 2 + end) else {
                self.rest = text[at..].to_vec();
                return;
            };
            assert_eq!(text[at + 1], b'[', "a sequence that it has no use for");
            let words = std::str::from_utf8(&text[at + 2..end]).unwrap();
            self.obey(words, text[end]);
            at = end + 1;
        }
    }

    fn obey(&mut self, words: &str, letter: u8) {
        let (row, column) = self.at;
        match (words, letter) {
            ("?1049", b'h') => self.is_alternate = true,
            ("?1049", b'l') => self.is_alternate = false,
            ("?25", b'h') => self.has_cursor = true,
            ("?25", b'l') => self.has_cursor = false,
            ("2", b'J') => self.cells.iter_mut().for_each(|row| row.fill(' ')),
            ("2", b'K') => self.cells[row].fill(' '),
            ("" | "0", b'K') => self.cells[row][column.min(COLUMNS)..].fill(' '),
            (place, b'H') => {
                let mut numbers = place.split(';').map(|it| it.parse::<usize>().unwrap());
                self.at = (numbers.next().unwrap() - 1, numbers.next().unwrap() - 1);
            }
            other => panic!("a sequence that it has no use for: {other:?}"),
        }
    }

    fn lines(&self) -> Vec<String> {
        self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }
}

/// `top` on a terminal of its own.
struct Top {
    child: Child,
    keys: File,
    slave: OwnedFd,
    picture: Arc<Mutex<Picture>>,
}

impl Top {
    fn start(socket: &Path, options: &[&str]) -> Self {
        let size =
            Winsize { ws_row: ROWS as u16, ws_col: COLUMNS as u16, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(Some(&size), None).unwrap();
        let stream = || Stdio::from(pty.slave.try_clone().unwrap());
        let mut command = cpumgr();
        command.args(["top", "--socket"]).arg(socket).args(options).env("TERM", "xterm");
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let keys = File::from(pty.master.try_clone().unwrap());
        let mut shown = File::from(pty.master);
        let picture = Arc::new(Mutex::new(Picture::new()));
        let into = Arc::clone(&picture);
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            // EIO: all ends on the other side are closed.
            while let Ok(read @ 1..) = shown.read(&mut part) {
                into.lock().unwrap().feed(&part[..read]);
            }
        });
        Self { child, keys, slave: pty.slave, picture }
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn until(&self, what: &str, is_so: impl Fn(&[String]) -> bool) -> Vec<String> {
        eventually(what, || {
            let lines = self.picture.lock().unwrap().lines();
            is_so(&lines).then_some(lines)
        })
    }

    fn is_cooked(&self) -> bool {
        let flags = tcgetattr(self.slave.as_fd()).unwrap().local_flags;
        flags.contains(LocalFlags::ECHO | LocalFlags::ICANON)
    }

    /// It has ended, and the terminal is as it was before.
    fn ends(&mut self) -> ExitStatus {
        let status = eventually("it ends", || self.child.try_wait().unwrap());
        eventually("the terminal is as it was before", || {
            let picture = self.picture.lock().unwrap();
            (!picture.is_alternate && picture.has_cursor && self.is_cooked()).then_some(())
        });
        status
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        // It may have ended.
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[test]
fn programs_come_and_go_on_the_screen_and_keys_are_heard() {
    let manager = Manager::start(&["--policy", "equip"]);
    let mut top = Top::start(&manager.socket(), &["--interval", "100ms"]);
    let head = format!("cpumgr {}: up ", manager.pid());
    let lines = top.until("it is there", |lines| lines.iter().any(|it| it == "no programs"));
    assert!(lines[0].starts_with(&head) && lines[0].contains("policy equip"), "{lines:?}");
    assert!(lines[1].starts_with("processors ") && lines[1].contains("[."), "{lines:?}");
    assert!(!top.is_cooked());

    let mut program = manager.program(1, 1);
    program.ask("name");
    assert_eq!(program.ask("register 1 1"), "registered");
    let pid = program.pid().to_string();
    let lines = top.until("the program is there, its name escaped", |lines| {
        lines.iter().any(|it| it.trim_start().starts_with(&pid) && it.contains(r"a\u{1b}[2Jb"))
    });
    assert!(lines[1].contains('#'), "{lines:?}");
    assert!(lines.iter().any(|it| it.contains("(by arrival)")), "{lines:?}");
    top.press("s");
    top.until("it sorts otherwise", |lines| lines.iter().any(|it| it.contains("(by processors)")));
    program.kill();
    top.until("it has gone", |lines| lines.iter().any(|it| it == "no programs"));
    top.press("q");
    assert!(top.ends().success());
}

#[test]
fn whatever_ends_it_gives_the_terminal_back() {
    let mut manager = Manager::start(&[]);
    for end in ["\x03", "\x1b", "a signal"] {
        let mut top = Top::start(&manager.socket(), &["--interval", "100ms"]);
        top.until("it is there", |lines| lines[0].starts_with("cpumgr "));
        match end {
            "a signal" => {
                let pidfd = platform::process::pidfd_open(Pid(top.child.id().cast_signed()));
                let sent = platform::process::pidfd_send_signal(pidfd.unwrap(), nix::libc::SIGTERM);
                sent.unwrap();
            }
            keys => top.press(keys),
        }
        assert!(top.ends().success(), "{end:?}");
    }
    // A manager that goes and comes again.
    let mut top = Top::start(&manager.socket(), &["--interval", "100ms"]);
    top.until("it is there", |lines| lines[0].starts_with("cpumgr "));
    manager.kill();
    top.until("it says so", |lines| lines[0] == "no manager answers");
    manager.start_again(&[]);
    let head = format!("cpumgr {}:", manager.pid());
    top.until("it is there again", |lines| lines[0].starts_with(&head));
    top.press("q");
    assert!(top.ends().success());
}

#[test]
fn without_a_terminal_it_names_what_does_without() {
    let manager = Manager::start(&[]);
    let mut command = cpumgr();
    let output = command.args(["top", "--socket"]).arg(manager.socket()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("cpumgr list"), "{}", errors(&output));
    let none =
        Command::new(support::CPUMGR).args(["top", "--socket", "/nowhere/s"]).output().unwrap();
    assert_ne!(none.status.code(), Some(0));
}

/// A program as a manager reports it.
fn program(text: String) -> ProgramStatus {
    serde_json::from_str(&text).unwrap()
}

/// A hundred of them, whose lines change each time.
fn a_hundred() -> Vec<ProgramStatus> {
    let one = |at: i32| {
        program(format!(
            r#"{{"pid":{at},"name":"program {at}","library":"libgomp.so.1 (nanos)","request":4,
            "max":4,"granted":2,"cpus":"{}-{}","shared":false,"dedicated":false,
            "fixed_team":false,"vps":4,"age_ns":{}}}"#,
            2 * at,
            2 * at + 1,
            at as u64 * 1_000_000_000
        ))
    };
    (0..100).map(one).collect()
}

/// Answers as a manager of these programs does, and counts how often it is asked.
fn serve(path: &Path, programs: Vec<ProgramStatus>, asked: Arc<AtomicU32>) {
    let listener = fdpass::listen(path, 0o600).unwrap();
    let status = format!(
        r#"{{"manager_pid":9,"uptime_ns":61000000000,"policy":"dss-ts","quantum_ns":100000000,
        "processors":"0-255","processor_count":256,"left":"3","drained":"4-255",
        "program_count":{}}}"#,
        programs.len()
    );
    let status = Box::new(serde_json::from_str(&status).unwrap());
    std::thread::spawn(move || {
        while let Ok(socket) = fdpass::accept(&listener) {
            let mut packet = vec![0; message::MAX_MESSAGE];
            while let Ok((length @ 1.., _)) = fdpass::recv(&socket, &mut packet, Some(PATIENCE)) {
                let message = message::decode::<ToManager>(&packet[..length]).unwrap();
                let mut answers = Vec::new();
                if message == ToManager::Status {
                    asked.fetch_add(1, Ordering::Relaxed);
                    answers.push(FromManager::Status(Box::clone(&status)));
                    for part in programs.chunks(PROGRAMS_PER_PACKET) {
                        answers.push(FromManager::Programs(Programs { programs: part.to_vec() }));
                    }
                } else {
                    answers.push(FromManager::Queue(Queue {
                        level: None,
                        running: 0,
                        waiting: 0,
                        half_life_ns: None,
                    }));
                }
                for answer in answers {
                    fdpass::send(&socket, &message::encode(&answer).unwrap(), &[]).unwrap();
                }
            }
        }
    });
}

#[test]
fn with_a_hundred_programs_it_takes_a_small_part_of_a_processor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let asked = Arc::new(AtomicU32::new(0));
    serve(&path, a_hundred(), Arc::clone(&asked));
    let mut top = Top::start(&path, &[]);
    let pid = Pid(top.child.id().cast_signed());
    let was_asked = |times: u32| {
        eventually("it asks again", || (asked.load(Ordering::Relaxed) >= times).then_some(()));
        (Instant::now(), load::ran(pid).unwrap())
    };
    top.until("it is there", |lines| lines.iter().any(|it| it.contains("program 7")));
    let (begin, ran) = was_asked(2);
    let (end, ran_then) = was_asked(8);
    let (took, elapsed) = (ran_then - ran, end.duration_since(begin).as_nanos());
    eprintln!("top took {took} ns of {elapsed} ns");
    // A hundredth, as it is shipped; the tests' build takes that on an idle machine, and three
    // times as much on a slow and busy one.
    let bound = if cfg!(debug_assertions) { 10 } else { 100 };
    assert!(u128::from(took) * bound < elapsed, "{took} ns of {elapsed} ns");
    top.press("q");
    assert!(top.ends().success());
}

/// A whole screen that begins with these lines.
fn screen(lines: &[&str]) -> Vec<String> {
    let lines = lines.iter().map(|line| (*line).to_owned());
    lines.chain(std::iter::repeat_n(String::new(), ROWS)).take(ROWS).collect()
}

#[test]
fn the_whole_picture_is_what_the_manager_says() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let one = |pid: i32, name: &str, granted: u32, cpus: &str, attached: bool| {
        program(format!(
            r#"{{"pid":{pid},"name":"{name}","library":"","request":4,"max":4,"granted":{granted},
            "cpus":"{cpus}","shared":{},"dedicated":false,"fixed_team":false,"attached":{attached},
            "vps":1,"squeezes":{pid},"age_ns":5000000}}"#,
            cpus == "1"
        ))
    };
    let programs = vec![
        one(100, "lu", 1, "0", false),
        one(101, "cg", 1, "1", true),
        one(102, "ft", 2, "1-2", false),
    ];
    serve(&path, programs, Arc::default());
    let mut top = Top::start(&path, &["--interval", "100ms"]);
    let head = [
        "cpumgr 9: up 1m01s, policy dss-ts, quantum 100ms, 3 programs, 0 waiting",
        "processors 0-255: [#*#-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "",
        "    PID  ASKS   HAS  SQUEEZED  AGE      CPUS          NAME",
    ];
    let lu = "    100     4     1       100  5ms      0             lu";
    let cg = "    101     4     1       101  5ms      1*            cg (attached)";
    let ft = "    102     4     2       102  5ms      1-2           ft";
    let mut is = |keys: &str, by: &str, lines: [&str; 3]| {
        top.press(keys);
        let last = format!("q ends  s sorts (by {by})  arrows scroll  * in turns");
        let shown = top.until(by, |lines| lines.contains(&last));
        assert_eq!(shown, screen(&[&head[..], &lines, &[last.as_str()]].concat()), "{by}");
    };
    is("", "arrival", [lu, cg, ft]);
    is("s", "processors", [ft, lu, cg]);
    is("s", "name", [cg, ft, lu]);
    top.press("q");
    assert!(top.ends().success());
}

/// What a command writes to a terminal.
fn on_a_terminal(socket: &Path, word: &str, variables: &[(&str, &str)]) -> String {
    let pty = openpty(None, None).unwrap();
    let mut command = cpumgr();
    command.args([word, "--socket"]).arg(socket).env("TERM", "xterm").env_remove("NO_COLOR");
    command.envs(variables.iter().copied());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::from(pty.slave)).spawn().unwrap();
    // Its copy of the terminal's end.
    drop(command);
    let (mut shown, mut part) = (Vec::new(), [0; 4096]);
    let mut master = File::from(pty.master);
    // EIO: all ends on the other side are closed.
    while let Ok(read @ 1..) = master.read(&mut part) {
        shown.extend_from_slice(&part[..read]);
    }
    assert!(child.wait().unwrap().success(), "{word}");
    String::from_utf8(shown).unwrap().replace("\r\n", "\n")
}

#[test]
fn lists_have_colours_on_a_terminal_that_wants_them_and_the_same_words_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    serve(&path, a_hundred(), Arc::default());
    for (word, has_colours) in [("list", true), ("status", false)] {
        let output = cpumgr().args([word, "--socket"]).arg(&path).output().unwrap();
        let in_a_pipe = String::from_utf8(output.stdout).unwrap();
        assert!(in_a_pipe.contains("program 99") && !in_a_pipe.contains('\x1b'), "{in_a_pipe}");
        let coloured = on_a_terminal(&path, word, &[]);
        assert_eq!(coloured.contains("\x1b[1mPID"), has_colours, "{word}: {coloured:?}");
        assert_eq!(coloured.replace("\x1b[1m", "").replace("\x1b[0m", ""), in_a_pipe, "{word}");
        for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
            assert_eq!(on_a_terminal(&path, word, &[plain]), in_a_pipe, "{word} {plain:?}");
        }
    }
}
