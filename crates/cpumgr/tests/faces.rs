//! What people and programs see of a manager: lists, processors, draining, measures, the listener.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output};

use arena::message::Control;
use serde_json::Value;
use support::{Manager, PATIENCE, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn on(manager: &Manager, words: &[&str]) -> Output {
    let mut command = cpumgr();
    command.args(words).arg("--socket").arg(manager.socket()).output().unwrap()
}

fn said(manager: &Manager, words: &[&str]) -> String {
    let output = on(manager, words);
    assert!(output.status.success(), "{words:?}: {}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn json(manager: &Manager, words: &[&str]) -> Value {
    let text = said(manager, &[words, &["--json"]].concat());
    assert_eq!(text.matches('\n').count(), 1, "{words:?}: one line");
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&value["schema"], &value["kind"]), (&1.into(), &words[0].into()));
    value
}

/// The processors that the test may use, which its managers manage.
fn managed(manager: &Manager) -> Vec<u32> {
    let set = platform::affinity::CpuSet::parse_list(&manager.status().status.processors);
    set.unwrap().iter().map(|cpu| cpu.0).collect()
}

#[test]
fn every_reader_has_its_document_and_no_colours_in_a_pipe() {
    let manager = Manager::start(&["--policy", "equip"]);
    let program = manager.program(1, 1);
    let pid = program.pid().to_string();
    for words in [
        &["status"][..],
        &["list"],
        &["cpus"],
        &["queue"],
        &["policy"],
        &["set"],
        &["mpl"],
        &["metrics"],
    ] {
        json(&manager, words);
        assert!(!said(&manager, words).contains('\x1b'), "{words:?}");
    }
    let shown = json(&manager, &["show", &pid]);
    assert_eq!(shown["program"]["pid"], program.pid());
    let threads = shown["threads"].as_array().unwrap();
    assert!(threads.iter().any(|it| it["tid"] == program.pid()), "{threads:?}");
    assert!(said(&manager, &["list"]).contains(&pid));
    assert!(said(&manager, &["show", &pid]).contains("asks for     1 (at most 1)"));
    let none = on(&manager, &["show", "missing"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(errors(&none).contains("cpumgr list"), "{}", errors(&none));
}

#[test]
fn each_processor_is_shown_with_its_program() {
    let manager = Manager::start(&["--policy", "equip"]);
    let first = managed(&manager)[0];
    let program = manager.program(1, 1);
    let held: u64 = manager.status().programs[0].cpus.parse().unwrap();
    let cpus = json(&manager, &["cpus"]);
    let cpus = cpus["processors"].as_array().unwrap();
    assert_eq!(cpus.len(), managed(&manager).len());
    let of = cpus.iter().find(|it| it["cpu"] == held).unwrap();
    assert_eq!((&of["state"], &of["programs"][0]), (&"own".into(), &program.pid().into()));
    let one = json(&manager, &["cpus", &first.to_string()]);
    assert_eq!(one["processors"].as_array().unwrap().len(), 1);
    let none = on(&manager, &["cpus", "1000"]);
    assert_eq!(none.status.code(), Some(2));
    assert!(errors(&none).contains("none of the processors 1000"), "{}", errors(&none));
}

#[test]
fn programs_leave_what_is_drained_and_a_killed_managers_successor_knows() {
    let mut manager = Manager::start(&["--policy", "equip"]);
    let cpus = managed(&manager);
    let [.., last] = cpus.as_slice() else { panic!("no processor is managed") };
    if cpus.len() < 2 {
        platform::skip!("draining needs two processors");
        return;
    }
    let number = u32::try_from(cpus.len()).unwrap();
    let mut program = manager.program(number, number);
    program.until("it has all", |seen| seen.processors == number);
    assert_eq!(said(&manager, &["drain"]).trim(), "none");
    said(&manager, &["drain", &last.to_string()]);
    assert_eq!(said(&manager, &["drain"]).trim(), last.to_string());
    let without = |seen: &support::Seen| {
        seen.processors == number - 1 && !seen.cpus.contains(platform::affinity::CpuId(*last))
    };
    program.until("it left the processor", without);
    let status = said(&manager, &["status"]);
    assert!(status.contains(&format!("drained: {last}")), "{status}");
    assert!(status.contains(&format!("{last} is drained")), "{status}");
    assert_eq!(json(&manager, &["cpus", &last.to_string()])["processors"][0]["state"], "drained");

    eventually("it is written down", || {
        let kept = std::fs::read_to_string(manager.dir.path().join("app.sock.settings"));
        kept.is_ok_and(|kept| kept.contains(&format!("\"drained\":\"{last}\""))).then_some(())
    });
    manager.kill();
    manager.start_again(&["--policy", "equip"]);
    assert_eq!(manager.status().status.drained, last.to_string());
    program.until("it is there again", |seen| seen.alive && without(seen));

    let all = manager.status().status.processors;
    let refused = on(&manager, &["drain", &all]);
    assert_eq!(refused.status.code(), Some(6));
    assert!(errors(&refused).contains("no processor would be left"), "{}", errors(&refused));
    let refused = on(&manager, &["drain", "1000"]);
    assert!(errors(&refused).contains("1000 are not managed here"), "{}", errors(&refused));
    assert_eq!(on(&manager, &["drain", "x"]).status.code(), Some(2));
    said(&manager, &["undrain", &all]);
    program.until("it has all again", |seen| seen.processors == number);
    assert_eq!(said(&manager, &["drain"]).trim(), "none");
    assert_eq!(on(&manager, &["undrain"]).status.code(), Some(2), "it says which");
    assert_eq!(json(&manager, &["set"])["drained"], "");
}

/// The whole answer to a request. One that took longer to come than a request may (two seconds) has
/// none, and is made again.
fn fetch(address: &str, request: &str) -> String {
    eventually("a request is answered", || {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut answer = String::new();
        stream.write_all(request.as_bytes()).ok()?;
        stream.read_to_string(&mut answer).ok()?;
        Some(answer).filter(|it| !it.is_empty())
    })
}

/// Where a manager listens, from its log.
fn address(manager: &Manager) -> String {
    eventually("it listens", || {
        let log = manager.log();
        let line = log.lines().find(|it| it.contains("listens for browsers"))?.to_owned();
        Some(line.rsplit_once("address=")?.1.trim().to_owned())
    })
}

#[test]
fn browsers_and_prometheus_read_what_the_manager_does() {
    let manager = Manager::start(&["--listen", "0"]);
    let address = address(&manager);
    assert!(address.starts_with("127.0.0.1:"), "a port alone is one of the loopback: {address}");
    let program = manager.program(1, 1);
    let page = fetch(&address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<title>cpumgr</title>"));
    let metrics = fetch(&address, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let line = format!("cpumgr_program_granted{{pid=\"{}\",", program.pid());
    assert!(metrics.contains(&line), "{metrics}");
    assert!(metrics.contains("cpumgr_arrivals_total 1\n"), "{metrics}");
    let status = fetch(&address, "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let (_, body) = status.split_once("\r\n\r\n").unwrap();
    let value: Value = serde_json::from_str(body).unwrap();
    assert_eq!((&value["schema"], &value["kind"]), (&1.into(), &"web".into()));
    assert_eq!(value["report"]["programs"][0]["pid"], program.pid());
    let changed = fetch(&address, "POST /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(changed.starts_with("HTTP/1.1 405 "), "{changed}");
    assert!(said(&manager, &["metrics"]).contains("cpumgr_grant_seconds_count"));
}

#[test]
fn the_last_minutes_have_a_program_that_ended_before_the_page_was_looked_at() {
    let manager = Manager::start(&["--listen", "0"]);
    let address = address(&manager);
    let program = manager.program(1, 1);
    let pid = program.pid().to_string();
    // Samples come from the manager's own questions and from no reader: they come one by one.
    let samples = || {
        let status = fetch(&address, "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (_, body) = status.split_once("\r\n\r\n").unwrap();
        let value: Value = serde_json::from_str(body).unwrap();
        value["samples"].as_array().unwrap().clone()
    };
    eventually("a sample has it", || {
        samples().iter().any(|it| it["granted"][&pid] == 1).then_some(())
    });
    program.kill();
    eventually("a later sample does not", || {
        samples().last().is_some_and(|it| it["granted"].get(&pid).is_none()).then_some(())
    });
    assert!(samples().iter().any(|it| it["granted"][&pid] == 1), "the past is forgotten");
}

#[test]
fn samples_do_not_keep_an_idle_manager_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = cpumgr();
    command.args(["daemon", "--listen", "0", "--idle-exit", "3s", "--socket"]);
    let log = std::fs::File::create(dir.path().join("log")).unwrap();
    let mut child = command.arg(dir.path().join("app.sock")).stderr(log).spawn().unwrap();
    let status = eventually("it ends", || child.try_wait().unwrap());
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert!(status.success() && log.contains("listens for browsers"), "{log}");
}

#[test]
fn an_address_that_is_taken_costs_the_page_alone() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let manager = Manager::start(&["--listen", &port]);
    eventually("it says so", || manager.log().contains("no page and no metrics").then_some(()));
    assert!(said(&manager, &["list"]).starts_with("PID"));
}

#[test]
fn a_trace_begins_and_ends_while_programs_run_and_is_shown_in_other_forms() {
    let manager = Manager::start(&["--policy", "equip"]);
    let program = manager.program(1, 1);
    let [trace, prv, perfetto] =
        ["t.jsonl", "t.prv", "t.json"].map(|name| manager.dir.path().join(name));
    let path = trace.to_str().unwrap();
    assert_eq!(said(&manager, &["trace", "show"]), "no trace is written\n");
    assert_eq!(json(&manager, &["trace", "show"])["trace"], Value::Null);
    assert_eq!(on(&manager, &["trace", "stop"]).status.code(), Some(6));
    said(&manager, &["trace", "start", path]);
    assert_eq!(said(&manager, &["trace", "show"]), format!("{path}\n"));
    assert_eq!(json(&manager, &["trace", "show"])["trace"], path);
    let again = on(&manager, &["trace", "start", "/tmp/x"]);
    assert!(errors(&again).contains("already"), "{}", errors(&again));
    program.kill();
    eventually("its end is written", || {
        std::fs::read_to_string(&trace).unwrap().contains("\"exit\"").then_some(())
    });
    said(&manager, &["trace", "stop"]);
    eventually("the end is written", || {
        std::fs::read_to_string(&trace).unwrap().contains("\"stop\"").then_some(())
    });
    assert!(manager.status().status.trace.is_none());
    let mut command = cpumgr();
    command.args(["trace", "convert"]).arg(&trace).arg("--prv").arg(&prv);
    let output = command.arg("--perfetto").arg(&perfetto).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let [prv, pcf, row] =
        ["prv", "pcf", "row"].map(|end| std::fs::read_to_string(prv.with_extension(end)).unwrap());
    let totals =
        cpumgr::simulate::paraver::validate(&cpumgr::simulate::paraver::Trace { prv, pcf, row });
    assert_eq!(totals.unwrap().by_application.len(), 1);
    let value: Value = serde_json::from_slice(&std::fs::read(perfetto).unwrap()).unwrap();
    assert!(value["traceEvents"].as_array().unwrap().iter().any(|it| it["ph"] == "X"));

    // A link is not followed, and that is said.
    let link = manager.dir.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    let refused = on(&manager, &["trace", "start", link.to_str().unwrap()]);
    assert_eq!(refused.status.code(), Some(1), "{}", errors(&refused));
    assert!(errors(&refused).contains("it is a symbolic link"), "{}", errors(&refused));
    assert!(manager.status().status.trace_fault.unwrap().contains("link"));
    let refused = on(&manager, &["trace", "start", "/no/such/t"]);
    assert!(errors(&refused).contains("you cannot see the directory /no/such"));
    // A service has a /tmp of its own: it is as if the directory were another one.
    let (path, most) = (path.to_owned(), 1 << 20);
    let elsewhere = Control::TraceStart { path, most, folder: Some((1, 1)) };
    let before = std::fs::read(&trace).unwrap();
    cpumgr::administration::change(&manager.socket(), elsewhere).unwrap();
    eventually("it says which directory", || {
        let fault = manager.status().status.trace_fault?;
        fault.contains("another directory for the manager than for you").then_some(())
    });
    assert!(std::fs::read(&trace).unwrap() == before, "nothing is written there");
    assert!(manager.log().contains("no trace is written"), "{}", manager.log());
}

#[test]
fn doctor_looks_at_the_machine_at_processes_and_at_programs() {
    let manager = Manager::start(&[]);
    let output = on(&manager, &["doctor", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = value["findings"].as_array().unwrap();
    let of = |check: &str| findings.iter().find(|it| it["check"] == check).unwrap();
    assert!(of("manager")["says"].as_str().unwrap().contains("answers at"));
    for finding in findings {
        assert_eq!(finding["remedy"].is_null(), finding["verdict"] == "well", "{finding}");
    }
    let wrong = findings.iter().any(|it| it["verdict"] == "wrong");
    assert_eq!(output.status.code(), Some(i32::from(wrong)));

    let me = std::process::id().to_string();
    let pools = cpumgr().args(["doctor", &me]).output().unwrap();
    assert!(pools.status.success(), "{}", errors(&pools));
    let pools = cpumgr().args(["doctor", "--json", "--", "sh"]).output().unwrap();
    let value: Value = serde_json::from_slice(&pools.stdout).unwrap();
    assert_eq!((&value["kind"], &value["pools"]), (&"doctor-pools".into(), &Value::Array(vec![])));
    assert_eq!(value["findings"][0]["check"], "later");
    let managed = on(&manager, &["doctor", "--json", &me]);
    let value: Value = serde_json::from_slice(&managed.stdout).unwrap();
    let findings = value["findings"].as_array().unwrap();
    let manages = findings.iter().find(|it| it["check"] == "manager").unwrap();
    assert!(manages["says"].as_str().unwrap().contains("does not know it"), "{manages}");
    let none = cpumgr().args(["doctor", "--", "no-such-program"]).output().unwrap();
    assert_eq!(none.status.code(), Some(127), "{}", errors(&none));
    let none = cpumgr().args(["doctor", "2147483646"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2), "{}", errors(&none));
}

#[test]
fn shells_are_told_every_command_and_pages_are_written() {
    for shell in ["bash", "zsh", "fish"] {
        let output = cpumgr().args(["completions", shell]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for command in ["undrain", "check-config", "doctor"] {
            assert!(output.status.success() && text.contains(command), "{shell}: {command}");
        }
    }
    // bash reads it without a complaint, and completes by it.
    let script = "source <(\"$1\" completions bash) || exit 1; COMP_WORDS=(cpumgr undr); \
                  COMP_CWORD=1; _cpumgr cpumgr undr cpumgr; echo \"${COMPREPLY[*]}\"";
    let path = cpumgr();
    let bash = Command::new("bash").args(["-c", script, "bash"]).arg(path.get_program()).output();
    match bash {
        Ok(output) => {
            assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "undrain", "{output:?}");
        }
        Err(error) => platform::skip!("there is no bash: {error}"),
    }
    let dir = tempfile::tempdir().unwrap();
    let output = cpumgr().arg("man").arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let page = std::fs::read_to_string(dir.path().join("cpumgr-drain.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("taskset"), "{page}");
    let output = cpumgr().args(["man", "/proc/nowhere"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("/proc/nowhere/cpumgr.1"), "{}", errors(&output));
}
