//! The units of `packaging/`: systemd understands them, and the service is as closed as its work
//! allows.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CPUMGR: &str = env!("CARGO_BIN_EXE_cpumgr");
/// The most that `systemd-analyze security` may say, in tenths.
const EXPOSURE: &str = "25";

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

/// Runs systemd-analyze; nothing, with a printed reason, where there is none.
fn analyze(arguments: &[&str], unit: &Path) -> Option<Output> {
    let mut command = Command::new("systemd-analyze");
    // A user's units are looked at as of a session.
    command.args(arguments).arg(unit).env("XDG_RUNTIME_DIR", unit.parent().unwrap());
    let output = command.output();
    match output {
        Ok(output) => Some(output),
        Err(error) => {
            platform::skip!("needs systemd-analyze: {error}");
            None
        }
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The units of one kind in a folder of their own, with the program that was built.
fn copy(kind: &str, change: impl Fn(String) -> String) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(packaging().join("systemd").join(kind)).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap().replace("/usr/bin/cpumgr", CPUMGR);
        fs::write(dir.path().join(path.file_name().unwrap()), change(text)).unwrap();
    }
    dir
}

#[test]
fn systemd_understands_each_line_of_each_unit() {
    for (kind, manager) in [("system", "--system"), ("user", "--user")] {
        let verify = |change: &dyn Fn(String) -> String| {
            let dir = copy(kind, change);
            let socket =
                analyze(&["verify", "--man=no", manager], &dir.path().join("cpumgr.socket"));
            let service =
                analyze(&["verify", "--man=no", manager], &dir.path().join("cpumgr.service"));
            Some((socket?, service?))
        };
        let Some((socket, service)) = verify(&|text| text) else { return };
        let ours = |output: &Output| {
            said(output)
                .lines()
                .filter(|line| line.contains("cpumgr"))
                .collect::<Vec<_>>()
                .join("\n")
        };
        for output in [&socket, &service] {
            assert!(output.status.success() && ours(output).is_empty(), "{kind}: {}", said(output));
        }
        // It would say so.
        let Some((_, service)) = verify(&|text| text.replace("WatchdogSec=", "WatchDogSecs="))
        else {
            return;
        };
        assert!(ours(&service).contains("WatchDogSecs"), "{kind}: {}", said(&service));
    }
}

#[test]
fn the_service_is_closed_also_with_fences_and_a_listener() {
    let example = |name: &str| fs::read_to_string(packaging().join("examples").join(name)).unwrap();
    let (fence, listener) = (example("fence.conf"), example("listen.conf"));
    let both = format!("{fence}\n{listener}");
    for (extra, wanted) in [
        ("", true),
        (fence.as_str(), true),
        (listener.as_str(), true),
        (both.as_str(), true),
        (
            "\n[Service]\nUser=root\nCapabilityBoundingSet=~\nSystemCallFilter=\nProtectSystem=no\n",
            false,
        ),
    ] {
        let dir = copy("system", |text| text + extra);
        let arguments = ["security", "--offline=true", "--threshold", EXPOSURE];
        let Some(output) = analyze(&arguments, &dir.path().join("cpumgr.service")) else { return };
        assert_eq!(output.status.success(), wanted, "{extra}: {}", said(&output));
        assert!(said(&output).contains("Overall exposure level"), "{}", said(&output));
    }
}

#[test]
fn what_the_units_run_is_what_the_program_understands() {
    for kind in ["system", "user"] {
        let unit =
            fs::read_to_string(packaging().join("systemd").join(kind).join("cpumgr.service"));
        let unit = unit.unwrap();
        let commands = unit.lines().filter_map(|line| line.split_once("=/usr/bin/cpumgr "));
        let commands: Vec<&str> = commands.map(|(_, words)| words).collect();
        assert_eq!(commands.len(), 3, "{unit}");
        for words in commands {
            // The help of the command, when all before it is understood.
            let words = words.split(' ').chain(["--help"]);
            let output = Command::new(CPUMGR).args(words).output().unwrap();
            assert!(output.status.success(), "{}", said(&output));
        }
    }
}
