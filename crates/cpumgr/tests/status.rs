//! `cpumgr status`: what it shows, and what it says when there is nothing to show.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use platform::fdpass;
use support::{
    Manager, PATIENCE, Program, connection, copy_program, cpumgr, errors, eventually,
    register_packet, two_processors,
};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn status(socket: &Path) -> Output {
    cpumgr().arg("status").arg("--socket").arg(socket).output().unwrap()
}

/// Asks a server that answers with these packets and then closes.
fn status_of_server(packets: &'static [&'static [u8]]) -> (String, Option<i32>) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = fdpass::listen(&path, 0o600).unwrap();
    let server = std::thread::spawn(move || {
        let socket = fdpass::accept(&listener).unwrap();
        fdpass::recv(&socket, &mut [0; 4096], Some(PATIENCE)).unwrap();
        for packet in packets {
            fdpass::send(&socket, packet, &[]).unwrap();
        }
    });
    let output = status(&path);
    server.join().unwrap();
    let text = errors(&output);
    assert!(text.contains(path.to_str().unwrap()), "it does not name the socket: {text}");
    assert!(output.stdout.is_empty());
    (text, output.status.code())
}

#[test]
fn a_report_names_every_program() {
    let manager = Manager::start(&["--policy", "equip", "--quantum", "50ms"]);
    let mut program = manager.program(1, 2);
    program.ask("name");
    // Names are read at registration.
    assert_eq!(program.ask("register 1 2"), "registered");
    eventually("the old registration is gone", || {
        (manager.status().programs.len() == 1).then_some(())
    });
    let output = status(&manager.socket());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("policy equip, quantum 50ms"), "{text}");
    assert!(text.contains(&program.pid().to_string()) && !text.contains('\x1b'), "{text}");
    assert!(text.contains(r"a\u{1b}[2Jb") && text.contains(r"test\u{1b}[31m"), "{text}");

    let output =
        cpumgr().args(["status", "--json", "--socket"]).arg(manager.socket()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["policy"], "equip");
    assert_eq!(json["quantum_ns"], 50_000_000);
    assert_eq!(json["manager_pid"], manager.pid());
    let shown = &json["programs"][0];
    assert_eq!(
        (&shown["pid"], &shown["request"], &shown["granted"]),
        (&program.pid().into(), &1.into(), &1.into())
    );
    assert_eq!(
        (&shown["shared"], &shown["vps"], &shown["max"].is_u64()),
        (&false.into(), &1.into(), &true)
    );
    assert!(shown["age_ns"].as_u64().unwrap() > 0 && shown["cpus"].is_string());
}

/// Programs of a kind, which want two processors and take `time` there for what takes 1000 on one.
fn programs_of(manager: &Manager, kind: &str, time: u32) -> [Program; 2] {
    [(); 2].map(|()| {
        let mut program = Program::unregistered(&manager.socket());
        // Names are read at registration.
        program.ask(&format!("called {kind}"));
        assert_eq!(program.ask("register 2 2"), "registered");
        program.ask(&format!("report 2 {time} 1000"));
        program
    })
}

#[test]
fn the_advice_follows_what_two_kinds_of_programs_measured() {
    let Some(cpus) = two_processors() else { return };
    let manager = Manager::start(&["--cpus", &cpus, "--policy", "equip"]);
    let shown = |programs: u64| {
        let all_measured = format!("({programs} measured, equal work assumed)");
        let line = eventually("the advice is about all of them", || {
            let text = String::from_utf8(status(&manager.socket()).stdout).unwrap();
            text.lines().find(|line| line.contains(&all_measured)).map(str::to_owned)
        });
        assert!(line.contains(&format!("of the {programs} programs ")), "{line}");
        let output =
            cpumgr().args(["status", "--json", "--socket"]).arg(manager.socket()).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let advice = &json["advice"];
        assert_eq!(
            (&advice["programs"], &advice["measured"]),
            (&programs.into(), &programs.into())
        );
        let [sharing, submitted] = ["sharing", "submitted"].map(|of| advice[of].as_f64().unwrap());
        (line, sharing, submitted)
    };

    let alone = manager.program(2, 2);
    let text = String::from_utf8(status(&manager.socket()).stdout).unwrap();
    assert!(!text.contains("equal work assumed"), "there is nothing to choose: {text}");
    drop(alone);

    // Of two that scale one ends after half of the time, where its turn comes before the other's.
    // Waiting masters have half of two processors: programs that run already gain nothing by turns.
    let solvers = programs_of(&manager, "solver", 500);
    let (line, sharing, submitted) = shown(2);
    let turns = "sharing is better for programs that run, turns for submitted ones (policy ";
    assert!(line.starts_with(turns), "{line}");
    assert!((1.9..2.1).contains(&sharing) && (1.4..1.7).contains(&submitted), "{line}");

    let scanners = programs_of(&manager, "scanner", 1000);
    shown(4);

    // Those that remain gain nothing by a second processor.
    drop(solvers);
    let (line, sharing, submitted) = shown(2);
    assert!(line.starts_with("sharing is better: "), "{line}");
    assert!((0.9..1.1).contains(&sharing) && submitted > 0.95 * sharing, "{line}");
    drop(scanners);
}

#[test]
fn the_environment_names_the_socket() {
    let manager = Manager::start(&[]);
    let output = cpumgr().arg("status").env("NANOS_CPUMGR", manager.socket()).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let output = cpumgr().arg("status").env("NANOS_CPUMGR", "off").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn no_manager_is_exit_code_3() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.sock");
    let output = status(&path);
    assert_eq!(output.status.code(), Some(3));
    let text = errors(&output);
    assert!(text.contains(path.to_str().unwrap()) && text.contains("cpumgr run"), "{text}");
    // A dead manager's socket.
    drop(fdpass::listen(&path, 0o600).unwrap());
    assert_eq!(status(&path).status.code(), Some(3));
}

#[test]
fn what_is_no_manager_is_exit_code_6() {
    let (text, code) = status_of_server(&[b"HTTP/1.1 400 Bad Request\x1b[2J"]);
    assert!(
        code == Some(6) && text.contains("no manager of this version") && !text.contains('\x1b'),
        "{text}"
    );
    let (text, code) = status_of_server(&[br#"{"version":1,"type":"status","manager_pi"#]);
    assert!(code == Some(6) && text.contains("EOF while parsing"), "{text}");
    let (text, code) = status_of_server(&[br#"{"version":2,"type":"status"}"#]);
    assert!(code == Some(6) && text.contains("protocol version 2, this side speaks 1"), "{text}");
    let (text, code) = status_of_server(&[]);
    assert!(code == Some(6) && text.contains("without an answer"), "{text}");
    let (text, code) = status_of_server(&[br#"{"version":1,"type":"leaving"}"#]);
    assert!(code == Some(6) && text.contains("Leaving"), "{text}");
    const HEAD: &[u8] = br#"{"version":1,"type":"status","manager_pid":1,"uptime_ns":1,"policy":"x","quantum_ns":1,"processors":"0","processor_count":1,"program_count":100000}"#;
    let (text, code) = status_of_server(&[HEAD]);
    assert!(code == Some(6) && text.contains("100000 programs"), "{text}");
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let _listener = fdpass::listen(&path, 0o600).unwrap();
    let output = status(&path);
    assert_eq!(output.status.code(), Some(6));
    assert!(errors(&output).contains("did not answer within 5s"), "{}", errors(&output));
}

#[test]
fn a_socket_of_another_user_is_exit_code_5() {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        platform::skip!("becoming another user needs privilege");
        return;
    }
    let manager = Manager::start(&[]);
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("cpumgr");
    copy_program(support::CPUMGR, &copy);
    for path in [place.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = std::process::Command::new(&copy);
    command
        .arg("status")
        .arg("--socket")
        .arg(manager.socket())
        .uid(65534)
        .gid(65534)
        .current_dir("/");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    let text = errors(&output);
    assert!(text.contains("EACCES") && text.contains("another user"), "{text}");
}

#[test]
fn the_exit_codes_are_in_the_help() {
    for verb in [&[][..], &["daemon"], &["run"], &["status"]] {
        let output = cpumgr().args(verb).arg("--help").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("Exit codes:") && text.contains("no manager answers"), "{text}");
    }
}

/// This process is a program of the manager, and maps a file of this name and length until the
/// guard falls.
struct Mapping {
    _registration: std::os::fd::OwnedFd,
    _file: File,
    place: std::ptr::NonNull<std::ffi::c_void>,
}

impl Mapping {
    const LENGTH: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

    fn of(path: &Path, length: u64, manager: &Manager) -> Self {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap};
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
        file.set_len(length).unwrap();
        // SAFETY: - a new mapping, which no thread reads or writes.
        let place = unsafe {
            mmap(None, Self::LENGTH, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &file, 0)
        }
        .unwrap();
        let registration = connection(&manager.socket());
        fdpass::send(&registration, &register_packet(arena::header::VERSION), &[]).unwrap();
        let _answer = fdpass::recv(&registration, &mut [0; 4096], Some(PATIENCE)).unwrap();
        Self { _registration: registration, _file: file, place }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: - the mapping of `of`, which no other code knows.
        unsafe { nix::sys::mman::munmap(self.place, Self::LENGTH.get()) }.unwrap();
    }
}

/// What a command says, if it comes to an end.
fn output_in_time(mut command: Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let begin = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    child.wait_with_output().unwrap()
}

fn on(manager: &Manager, words: &[&str]) -> Output {
    let mut command = cpumgr();
    command.args(words).arg("--socket").arg(manager.socket());
    output_in_time(command)
}

#[test]
fn a_program_that_makes_a_pipe_of_its_librarys_name_holds_up_no_reader() {
    let manager = Manager::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    let library = dir.path().join("libgomp.so.1");
    let _mapping = Mapping::of(&library, 4096, &manager);
    std::fs::remove_file(&library).unwrap();
    // By this name the kernel calls it from now on.
    let named = dir.path().join("libgomp.so.1 (deleted)");
    nix::unistd::mkfifo(&named, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for words in [&["status"][..], &["status", "--json"], &["policy"], &["policy", "--json"]] {
        let output = on(&manager, words);
        assert!(output.status.success(), "{words:?}: {}", errors(&output));
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(words[0] != "status" || said.contains(named.to_str().unwrap()), "{said}");
    }
}

#[test]
fn a_program_with_a_huge_library_costs_status_no_memory() {
    let manager = Manager::start(&[]);
    let dir = tempfile::tempdir().unwrap();
    // Sparse: it takes no place on the disk.
    let _mapping = Mapping::of(&dir.path().join("libgomp.so.1"), 1 << 30, &manager);
    assert!(on(&manager, &["status"]).status.success());
    let most = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_CHILDREN)
        .unwrap()
        .max_rss();
    assert!(most < 200 * 1024, "a child took {most} kB");
}
