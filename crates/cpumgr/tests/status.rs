//! `cpumgr status`: what it shows, and what it says when there is nothing to show.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Output;

use platform::fdpass;
use support::{Manager, PATIENCE, cpumgr, errors, eventually};

#[test]
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
    eventually("the old registration is gone", || (manager.status().programs.len() == 1).then_some(()));
    let output = status(&manager.socket());
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("policy equip, quantum 50ms"), "{text}");
    assert!(text.contains(&program.pid().to_string()) && !text.contains('\x1b'), "{text}");
    assert!(text.contains(r"a\u{1b}[2Jb") && text.contains(r"test\u{1b}[31m"), "{text}");

    let output = cpumgr().args(["status", "--json", "--socket"]).arg(manager.socket()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["policy"], "equip");
    assert_eq!(json["quantum_ns"], 50_000_000);
    assert_eq!(json["manager_pid"], manager.pid());
    let shown = &json["programs"][0];
    assert_eq!((&shown["pid"], &shown["request"], &shown["granted"]), (&program.pid().into(), &1.into(), &1.into()));
    assert_eq!((&shown["shared"], &shown["vps"], &shown["max"].is_u64()), (&false.into(), &1.into(), &true));
    assert!(shown["age_ns"].as_u64().unwrap() > 0 && shown["cpus"].is_string());
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
    assert!(code == Some(6) && text.contains("no manager of this version") && !text.contains('\x1b'), "{text}");
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
    std::fs::copy(support::CPUMGR, &copy).unwrap();
    for path in [place.path(), &copy] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = std::process::Command::new(&copy);
    command.arg("status").arg("--socket").arg(manager.socket()).uid(65534).gid(65534).current_dir("/");
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
