//! Configuration files in a real manager: each key, mistakes, and reading them anew.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use cpumgr::status::Report;
use nix::libc;
use platform::process::{self, Pid};
use support::{Program, connection, cpumgr, errors, eventually, register_packet};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A manager without a terminal, and its one configuration file.
struct Configured {
    dir: tempfile::TempDir,
    child: Child,
}

impl Configured {
    fn start(text: &str, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let child = Self::spawn(dir.path(), text, options);
        let mut manager = Self { dir, child };
        let socket = manager.socket();
        eventually("the manager answers", || {
            if let Some(status) = manager.child.try_wait().unwrap() {
                panic!("the manager ended with {status}: {}", manager.log());
            }
            Report::ask(&socket).ok()
        });
        manager
    }

    fn spawn(dir: &Path, text: &str, options: &[&str]) -> Child {
        fs::write(dir.join("c.toml"), text).unwrap();
        let log = fs::File::create(dir.join("log")).unwrap();
        let mut command = cpumgr();
        command.arg("daemon").arg("--socket").arg(dir.join("app.sock"));
        command.arg("--config").arg(dir.join("c.toml")).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let lead = || nix::unistd::setsid().map(drop).map_err(std::io::Error::from);
        // SAFETY: - `lead` makes one system call.
        unsafe { command.pre_exec(lead) }.spawn().unwrap()
    }

    fn write(&self, text: &str) {
        fs::write(self.dir.path().join("c.toml"), text).unwrap();
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("app.sock")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn say(&self, words: &[&str]) -> Output {
        let mut command = cpumgr();
        command.arg(words[0]).arg("--socket").arg(self.socket()).args(&words[1..]);
        command.output().unwrap()
    }

    fn reload(&self) -> String {
        let output = self.say(&["reload"]);
        assert!(output.status.success(), "{}", errors(&output));
        errors(&output)
    }

    fn hang_up(&self) {
        let pidfd = process::pidfd_open(Pid(self.child.id().cast_signed())).unwrap();
        process::pidfd_send_signal(&pidfd, libc::SIGHUP).unwrap();
    }

    fn report(&self) -> Report {
        // One that makes room for the next one may close a connection.
        eventually("the manager answers", || Report::ask(&self.socket()).ok())
    }

    /// Policy, quantum in ms, grace in ms, level.
    fn numbers(&self) -> (String, u64, u64, Option<u32>) {
        let status = self.report().status;
        let ms = |ns: u64| ns / 1_000_000;
        (status.policy, ms(status.quantum_ns), ms(status.grace_ns), status.level)
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the manager's log:\n{}", self.log());
        }
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }
}

#[test]
fn a_variable_that_is_misspelt_is_in_the_log_with_the_one_that_is_meant() {
    let dir = tempfile::tempdir().unwrap();
    let log = fs::File::create(dir.path().join("log")).unwrap();
    let mut command = cpumgr();
    command.args(["daemon", "--config", "none", "--socket"]).arg(dir.path().join("app.sock"));
    command.env("CPUMGR_QUANTOM", "5ms").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    let child = command.spawn().unwrap();
    let manager = Configured { dir, child };
    let socket = manager.socket();
    eventually("the manager answers", || Report::ask(&socket).ok());
    let log = manager.log();
    let warns = |it: &&str| it.contains("WARN") && it.contains("CPUMGR_QUANTOM");
    let line = log.lines().find(warns).unwrap_or_else(|| panic!("no warning: {log}"));
    assert!(line.contains("is CPUMGR_QUANTUM meant?"), "{line}");
    assert_eq!(log.lines().filter(warns).count(), 1, "{log}");
}

#[test]
fn each_key_of_a_file_is_in_force() {
    let trace = tempfile::tempdir().unwrap();
    let first = process_cpus().iter().next().unwrap();
    let text = format!(
        "policy = \"pdpa\"\nquantum = \"50ms\"\ngrace = \"5ms\"\nmpl = 3\nsmt = \"pack\"\n\
         cpus = \"{first}\"\nstrangers = \"ignore\"\nidle-exit = \"1h\"\n\
         trace = \"{}/t\"\ntrace-size = \"64K\"\n[parameters]\nstep = 4\n",
        trace.path().display()
    );
    let manager = Configured::start(&text, &[]);
    assert_eq!(manager.numbers(), ("pdpa".into(), 50, 5, Some(3)));
    let status = manager.report().status;
    assert_eq!(status.processors, first.to_string());
    assert_eq!(status.parameters.get("step").map(String::as_str), Some("4"));
    let log = manager.log();
    assert!(log.contains("smt=Pack") && log.contains("strangers=Ignore"), "{log}");
    assert!(log.contains("idle_exit=Some(3600s)"), "{log}");
    // Each of these is three lines of the trace, and more than 64K together.
    eventually("the trace is full and begins anew", || {
        let program = connection(&manager.socket());
        platform::fdpass::send(&program, &register_packet(arena::header::VERSION), &[]).unwrap();
        let mut answer = vec![0; 1 << 15];
        platform::fdpass::recv(&program, &mut answer, None).unwrap();
        trace.path().join("t.1").exists().then_some(())
    });
    assert!(fs::metadata(trace.path().join("t.1")).unwrap().len() <= 64 << 10);
}

#[test]
fn a_program_and_a_user_have_what_their_tables_say() {
    let text = "[programs.small]\nprocessors = 1\nweight = 2.5\n";
    let manager = Configured::start(text, &["--strangers", "ignore"]);
    let mut program = Program::unregistered(&manager.socket());
    program.ask("called small");
    assert_eq!(program.ask("register 2 2"), "registered");
    assert_eq!(program.until("it is in", |seen| seen.alive).processors, 1);
    let one = manager.report().programs.remove(0);
    assert_eq!((one.max, one.weight), (1, 2.5));
    // Programs that arrive from now on.
    let user = nix::unistd::geteuid();
    manager.write(&format!("[users.{user}]\nprograms = 2\n"));
    manager.reload();
    let second = Program::start(&manager.socket(), 1, 1);
    let third = Program::launch(Program::command(&manager.socket()), 1, 1).err();
    let said = third.unwrap();
    assert!(said.contains("2 programs of this user"), "{said}");
    drop(second);
}

fn process_cpus() -> platform::affinity::CpuSet {
    platform::affinity::affinity(None).unwrap()
}

#[test]
fn a_manager_without_programs_ends_when_its_file_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Configured::spawn(dir.path(), "idle-exit = \"20ms\"", &[]);
    let status = eventually("it ends", || child.try_wait().unwrap());
    assert!(status.success());
}

#[test]
fn a_file_that_cannot_be_used_keeps_the_manager_from_beginning() {
    let dir = tempfile::tempdir().unwrap();
    for (text, words) in [
        ("fence = \"/proc\"", &["/proc", "no control group"][..]),
        ("\ncolour = 1", &["c.toml:2: ", "colour", "quantum"]),
        ("cpus = \"4000\"", &["4000"]),
    ] {
        let mut child = Configured::spawn(dir.path(), text, &[]);
        let status = eventually("it ends", || child.try_wait().unwrap());
        let log = fs::read_to_string(dir.path().join("log")).unwrap();
        assert_eq!(status.code(), Some(2), "{text}: {log}");
        assert!(words.iter().all(|word| log.contains(word)), "{text}: {log}");
    }
}

#[test]
fn a_configuration_that_is_read_anew_is_in_force_at_once() {
    let manager = Configured::start("quantum = \"50ms\"\n", &["--strangers", "ignore"]);
    let mut program = Program::start(&manager.socket(), 2, 2);
    let epoch = program.seen().epoch;
    assert_eq!(manager.numbers(), ("dss-ts".into(), 50, 2, None));
    assert!(manager.say(&["set", "quantum", "70ms"]).status.success());
    manager.write("policy = \"pdpa\"\ngrace = \"7ms\"\nmpl = 2\n[parameters]\nstep = 3\n");
    assert_eq!(manager.reload(), "");
    assert_eq!(manager.numbers(), ("pdpa".into(), 100, 7, Some(2)));
    assert_eq!(manager.report().status.parameters["step"], "3");
    // A parameter that the file names no more has its default again.
    manager.write("policy = \"pdpa\"\n");
    manager.reload();
    assert_eq!(manager.report().status.parameters["step"], "2");
    manager.write("quantum = \"30ms\"\n");
    manager.hang_up();
    eventually("the signal does the same", || {
        (manager.numbers() == ("dss-ts".into(), 30, 2, None)).then_some(())
    });
    assert!(program.seen().alive && program.seen().epoch >= epoch);
}

#[test]
fn a_mistake_leaves_all_as_it_was_and_is_told_with_file_and_line() {
    let manager = Configured::start("quantum = \"50ms\"\n", &[]);
    manager.write("policy = \"equip\"\nmpl = 1\nquantum = \"1h\"\n");
    let output = manager.say(&["reload"]);
    assert_eq!(output.status.code(), Some(6));
    let said = errors(&output);
    assert!(said.contains("c.toml:3: ") && said.contains("10s"), "{said}");
    manager.write("policy = \"equip\"\n[parameters]\ncolour = 1\n");
    manager.hang_up();
    eventually("the log names it", || manager.log().contains("c.toml:3: ").then_some(()));
    assert_eq!(manager.numbers(), ("dss-ts".into(), 50, 2, None));
    fs::remove_file(manager.dir.path().join("c.toml")).unwrap();
    let said = errors(&manager.say(&["reload"]));
    assert!(said.contains("cannot read") && said.contains("c.toml"), "{said}");
}

#[test]
fn what_is_read_at_a_start_only_is_named() {
    let manager = Configured::start("", &[]);
    manager.write("fence = \"/sys/fs/cgroup/x\"\ntrace-size = \"1M\"\nquantum = \"20ms\"\n");
    let said = manager.reload();
    assert!(said.contains("fence, trace-size") && said.contains("cpumgr restart"), "{said}");
    assert_eq!(manager.numbers().1, 20);
    // A default that is written down is no change.
    manager.write("listen = \"off\"\nhistory-age = \"90d\"\nhistory-size = \"16M\"\n");
    assert_eq!(manager.reload(), "");
    manager.write("listen = 9477\n");
    let said = manager.reload();
    assert!(said.contains("listen: what changed there"), "{said}");
    let log = manager.log();
    assert!(log.contains("the configuration is in force") && log.contains("[\"listen\"]"), "{log}");
}

#[test]
fn an_address_of_the_command_line_stands_above_that_of_the_file() {
    let manager = Configured::start("", &["--listen", "off"]);
    manager.write("listen = 9477\n");
    assert_eq!(manager.reload(), "");
}

#[test]
fn the_command_line_stands_above_the_file_also_after_a_new_beginning() {
    let manager = Configured::start("quantum = \"50ms\"\nmpl = 4\n", &["--quantum", "40ms"]);
    assert_eq!(manager.numbers(), ("dss-ts".into(), 40, 2, Some(4)));
    assert!(manager.say(&["set", "grace", "9ms"]).status.success());
    let output = manager.say(&["restart"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(manager.numbers(), ("dss-ts".into(), 40, 9, Some(4)), "what was told is kept");
    manager.write("quantum = \"60ms\"\nmpl = 5\n");
    manager.reload();
    assert_eq!(manager.numbers(), ("dss-ts".into(), 40, 2, Some(5)));
}

/// What `check-config FILE` says of a file that it refuses.
fn refused(file: &Path) -> String {
    let output = cpumgr().arg("check-config").arg(file).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", errors(&output));
    errors(&output)
}

#[test]
fn a_rule_that_names_an_unknown_class_is_a_mistake_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let base = dir.path().join("cpumgr.toml");
    let rule = "\n[[class-rules]]\nclass = \"nights\"\nname = \"*\"\n";
    fs::write(&base, rule).unwrap();
    let said = refused(&base);
    assert!(said.contains("cpumgr.toml:3: ") && said.contains("\"nights\""), "{said}");
    assert!(said.contains("there are none"), "{said}");
    fs::write(&base, format!("[classes.day]\n[classes.night]\n{rule}")).unwrap();
    let said = refused(&base);
    assert!(said.contains("cpumgr.toml:5: ") && said.contains("there are: day, night"), "{said}");
    // A drop-in has the classes of the file beside its folder, and of the drop-ins before it.
    let folder = dir.path().join("cpumgr.toml.d");
    fs::create_dir(&folder).unwrap();
    fs::write(&base, "[classes.night]\n").unwrap();
    fs::write(folder.join("10.toml"), "[classes.nights]\n").unwrap();
    fs::write(folder.join("20.toml"), rule).unwrap();
    let output = cpumgr().arg("check-config").arg(folder.join("20.toml")).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    fs::rename(folder.join("10.toml"), folder.join("30.toml")).unwrap();
    let said = refused(&folder.join("20.toml"));
    assert!(said.contains("20.toml:3: ") && said.contains("there are: night\n"), "{said}");
}

#[test]
fn what_a_manager_refuses_is_refused_without_one() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("c.toml");
    fs::write(&file, "mpl = 2\n").unwrap();
    let check = |variable: &str| {
        let mut command = cpumgr();
        command.arg("check-config").arg(&file).env(variable, "3").output().unwrap()
    };
    assert!(check("CPUMGR_MPL").status.success());
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let output = check("CPUMGR_MPL");
    assert_eq!(output.status.code(), Some(2));
    assert!(errors(&output).contains("every user may write"), "{}", errors(&output));
    // The same words from both.
    let mut daemon = cpumgr();
    daemon.args(["daemon", "--socket"]).arg(dir.path().join("s")).arg("--config").arg(&file);
    assert_eq!(daemon.output().unwrap().stderr, output.stderr);
    // A variable's name that is nearly one is told, and no more.
    let all = cpumgr().arg("check-config").env("CPUMGR_QUANTOM", "1ms").output().unwrap();
    let said = errors(&all);
    assert!(all.status.success() && said.contains("CPUMGR_QUANTUM meant?"), "{said}");
}

#[test]
fn a_file_that_no_manager_reads_is_said_to_be_well_formed_and_no_more() {
    let home = tempfile::tempdir().unwrap();
    let check = |words: &[&str]| {
        let mut command = cpumgr();
        command.arg("check-config").args(words).env_remove("CPUMGR_CONFIG");
        let output = command.env("XDG_CONFIG_HOME", home.path()).output().unwrap();
        assert!(output.status.success(), "{}", errors(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    let own = home.path().join("cpumgr");
    fs::create_dir_all(own.join("cpumgr.toml.d")).unwrap();
    for (file, is_read) in [
        ("cpumgr.toml", true),
        ("cpumgr.toml.d/10.toml", true),
        ("cpumgr.toml.d/10.conf", false),
        ("other.toml", false),
    ] {
        let file = own.join(file);
        fs::write(&file, "mpl = 2\n").unwrap();
        let name = file.to_str().unwrap();
        let (said, as_json) = (check(&[name]), check(&[name, "--json"]));
        assert_eq!(said.ends_with(": well\n"), is_read, "{said}");
        assert!(as_json.contains(&format!("\"read\":{is_read}")), "{as_json}");
        if !is_read {
            assert!(said.contains("reads it only where `--config`"), "{said}");
            assert!(said.contains("/etc/cpumgr/cpumgr.toml, "), "{said}");
            assert!(said.contains(own.join("cpumgr.toml").to_str().unwrap()), "{said}");
        }
        let is_misnamed = file.ends_with("10.conf");
        assert_eq!(said.contains("whose name ends in .toml"), is_misnamed, "{said}");
    }
    // Without a name what stands among drop-ins in vain is named.
    let said = check(&[]);
    assert!(said.contains("10.toml: well\n"), "{said}");
    assert!(said.contains("10.conf: not read: ") && !said.contains("other.toml"), "{said}");
    let as_json = check(&["--json"]);
    assert!(as_json.contains("cpumgr.toml.d/10.conf\"]"), "{as_json}");
}

#[test]
fn a_minimum_that_no_processor_is_there_for_is_named_with_both_numbers() {
    let first = process_cpus().iter().next().unwrap();
    let text = format!("cpus = \"{first}\"\n[classes.night]\nmin = 5\n[classes.day]\nmin = 1\n");
    let manager = Configured::start(&text, &["--strangers", "ignore"]);
    let warning = "class night is to have 5 processors at least, and this manager has 1";
    assert!(manager.log().contains(warning), "{}", manager.log());
    assert!(!manager.log().contains("class day"), "{}", manager.log());
    manager.write(&text.replace("min = 5", "min = 7"));
    let said = manager.reload();
    let warning = warning.replace('5', "7");
    assert!(said.contains(&warning) && !said.contains("class day"), "{said}");
    assert!(manager.log().contains(&warning), "{}", manager.log());
    let program = Program::start(&manager.socket(), 1, 1);
    let pid = program.pid().to_string();
    let output = manager.say(&["set", "min", &pid, "2"]);
    let said = errors(&output);
    assert!(!output.status.success() && said.contains("not 2"), "{said}");
    assert!(said.contains("this manager has 1 processor"), "{said}");
}
