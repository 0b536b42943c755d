//! The manager as a service, with this test as the service manager: what it is told, descriptors
//! that it passes, and the store in which a listener outlives a killed manager.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cpumgr::administration::QueueReport;
use cpumgr::status::Report;
use nix::libc;
use platform::{fdpass, process};
use support::{PATIENCE, Program, connection, cpumgr, errors, eventually};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

/// A service manager.
struct Service {
    dir: tempfile::TempDir,
    /// Where it hears its service.
    told: UnixDatagram,
    /// What the service left in its store, by name.
    store: Vec<(String, OwnedFd)>,
    options: Vec<String>,
    watchdog: Option<Duration>,
    child: Option<Child>,
}

impl Service {
    fn new(options: &[&str], watchdog: Option<Duration>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let told = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        let options = options.iter().map(|it| (*it).to_owned()).collect();
        Self { dir, told, store: Vec::new(), options, watchdog, child: None }
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("app.sock")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Starts the service, with these descriptors and those in the store.
    fn start(&mut self, passed: &[(&str, &OwnedFd)]) {
        let log =
            fs::OpenOptions::new().append(true).create(true).open(self.dir.path().join("log"));
        // A shell knows its own number, which the program that it becomes keeps.
        let mut command = Command::new("sh");
        command.arg("-c").arg("export LISTEN_PID=$$ WATCHDOG_PID=$$; exec \"$@\"").arg("sh");
        let ours = cpumgr();
        command.arg(ours.get_program()).arg("daemon").arg("--socket").arg(self.socket());
        command.args(["--strangers", "ignore"]).args(&self.options);
        for (name, value) in ours.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify"));
        if let Some(watchdog) = self.watchdog {
            command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
        }
        let stored = self.store.iter().map(|(name, fd)| (name.as_str(), fd));
        let all: Vec<(&str, &OwnedFd)> = passed.iter().copied().chain(stored).collect();
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        command.env("LISTEN_FDS", all.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        // Out of the way of the numbers from 3 on, which are written below.
        let high = |fd: &OwnedFd| nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(100));
        // SAFETY: - fcntl has just made each of them.
        let copies: Vec<OwnedFd> =
            all.iter().map(|(_, fd)| unsafe { OwnedFd::from_raw_fd(high(fd).unwrap()) }).collect();
        let numbers: Vec<i32> = copies.iter().map(AsRawFd::as_raw_fd).collect();
        let place = move || {
            for (number, target) in numbers.iter().zip(3..) {
                // SAFETY: - dup2 takes two numbers; the child uses nothing that was open there.
                if unsafe { libc::dup2(*number, target) } < 0 {
                    return Err(std::io::Error::last_os_error());
                }
            }
            nix::unistd::setsid().map(drop).map_err(std::io::Error::from)
        };
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap());
        // SAFETY: - `place` makes system calls only.
        self.child = Some(unsafe { command.pre_exec(place) }.spawn().unwrap());
    }

    /// The next thing that it says. What is to be stored is stored.
    fn hear(&mut self) -> String {
        let mut text = [0; 4096];
        let heard = fdpass::recv(&self.told, &mut text, Some(PATIENCE));
        let (length, descriptors) = heard.unwrap_or_else(|error| panic!("{error}: {}", self.log()));
        let said = String::from_utf8(text[..length].to_vec()).unwrap();
        let name = said.lines().find_map(|line| line.strip_prefix("FDNAME=")).unwrap_or_default();
        let named = descriptors.into_iter().map(|fd| (name.to_owned(), fd));
        self.store.extend(named);
        said
    }

    fn hear_until(&mut self, line: &str) -> String {
        loop {
            let said = self.hear();
            if said.lines().any(|it| it == line) {
                return said;
            }
        }
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn signal(&self, signal: i32) {
        let pid = process::Pid(self.pid().cast_signed());
        let pidfd = process::pidfd_open(pid).unwrap();
        process::pidfd_send_signal(&pidfd, signal).unwrap();
    }

    fn ends(&mut self) {
        let child = self.child.as_mut().unwrap();
        let status = eventually("it ends", || child.try_wait().unwrap());
        self.child = None;
        assert!(status.success(), "{status}: {}", self.log());
    }

    fn listener(&self) -> OwnedFd {
        fdpass::listen(&self.socket(), 0o600).unwrap()
    }

    fn say(&self, command: &str) {
        let output = cpumgr().arg(command).arg("--socket").arg(self.socket()).output().unwrap();
        assert!(output.status.success(), "{command}: {}", errors(&output));
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the manager's log:\n{}", self.log());
        }
        if let Some(child) = &mut self.child {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
        }
    }
}

/// A process that knows of no manager, and is gone with its test.
struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().expect("a child can be killed");
        self.0.wait().expect("a child can be waited for");
    }
}

#[test]
fn it_says_that_it_is_ready_what_it_does_that_it_reads_anew_and_that_it_ends() {
    let mut service = Service::new(&["--cpus", "0"], None);
    service.start(&[]);
    let said = service.hear();
    assert!(said.starts_with("READY=1\n"), "{said}");
    assert!(said.contains("STATUS=0 programs of 0 users on processors 0, policy dss-ts"), "{said}");
    // It answers when it says so.
    assert!(Report::ask(&service.socket()).is_ok());
    let stored = service.hear();
    assert!(stored.contains("FDSTORE=1") && stored.contains("FDNAME=stored-listener"), "{stored}");
    assert_eq!(service.store.len(), 1);
    let program = Program::start(&service.socket(), 1, 1);
    let said = service.hear();
    assert!(said.starts_with("STATUS=1 program of 1 user"), "{said}");
    service.say("reload");
    let said = service.hear_until("RELOADING=1");
    assert!(said.contains("MONOTONIC_USEC="), "{said}");
    let said = service.hear_until("READY=1");
    assert!(said.contains("STATUS=1 program"), "{said}");
    service.signal(libc::SIGTERM);
    service.hear_until("STOPPING=1");
    service.ends();
    assert!(!service.socket().exists(), "the file was the manager's own");
    drop(program);
}

#[test]
fn signs_of_life_come_in_half_the_time_without_any_program() {
    let mut service = Service::new(&[], Some(Duration::from_millis(200)));
    service.start(&[]);
    for _ in 0..5 {
        service.hear_until("WATCHDOG=1");
    }
    // It does nothing else meanwhile.
    assert!(Report::ask(&service.socket()).unwrap().programs.is_empty());
    // One that hangs says nothing.
    service.signal(libc::SIGSTOP);
    let mut text = [0; 4096];
    let mut hear = || fdpass::recv(&service.told, &mut text, Some(Duration::from_millis(400)));
    while hear().is_ok() {}
    service.signal(libc::SIGCONT);
    service.hear_until("WATCHDOG=1");
}

#[test]
fn a_socket_that_was_made_before_is_served_and_never_removed() {
    let mut service = Service::new(&[], None);
    let listener = service.listener();
    let file = fs::metadata(service.socket()).unwrap().ino();
    // Both wait for a manager that is not there yet.
    let early = connection(&service.socket());
    service.start(&[("app", &listener)]);
    service.hear_until("READY=1");
    let mut program = Program::start(&service.socket(), 1, 1);
    fdpass::send(&early, &support::register_packet(1 << 30), &[]).unwrap();
    let mut answer = vec![0; 1 << 15];
    let (length, _) = fdpass::recv(&early, &mut answer, Some(PATIENCE)).unwrap();
    assert!(String::from_utf8_lossy(&answer[..length]).contains("refused"), "it was heard");
    assert!(service.store.is_empty(), "the service manager has it already");

    // A new beginning in the same process keeps the listener.
    let pid = service.pid();
    service.say("restart");
    service.hear_until("READY=1");
    assert_eq!(Report::ask(&service.socket()).unwrap().status.manager_pid, pid.cast_signed());
    program.until("it is taken in again", |seen| seen.alive);
    assert_eq!(fs::metadata(service.socket()).unwrap().ino(), file);

    // The end leaves it to the service manager, and the next manager serves those that came.
    service.say("stop");
    service.ends();
    assert_eq!(fs::metadata(service.socket()).unwrap().ino(), file);
    service.start(&[("app", &listener)]);
    program.until("the next one takes it in", |seen| seen.alive);
    assert_eq!(fs::metadata(service.socket()).unwrap().ino(), file);
}

#[test]
fn a_listener_in_the_store_outlives_a_killed_manager() {
    let mut service = Service::new(&["--mpl", "3"], None);
    service.start(&[]);
    service.hear_until("FDSTORE=1");
    let mut program = Program::start(&service.socket(), 1, 1);
    program.until("it is in", |seen| seen.alive);
    let file = fs::metadata(service.socket()).unwrap().ino();
    service.kill();
    // No connection is refused while there is no manager.
    let waits = connection(&service.socket());
    service.start(&[]);
    let said = service.hear_until("READY=1");
    assert!(said.contains("STATUS="), "{said}");
    program.until("it is taken in again", |seen| seen.alive && seen.processors == 1);
    assert_eq!(fs::metadata(service.socket()).unwrap().ino(), file);
    drop(waits);
    assert_eq!(service.store.len(), 1, "it is in the store already");
    service.say("stop");
    service.ends();
    assert!(!service.socket().exists(), "the file was a manager's own");
}

#[test]
fn a_program_waits_for_the_next_manager_on_one_connection() {
    let mut service = Service::new(&[], None);
    let listener = service.listener();
    service.start(&[("app", &listener)]);
    service.hear_until("READY=1");
    let mut programs = [(); 3].map(|()| Program::start(&service.socket(), 1, 1));
    service.kill();
    let comes =
        |within| !process::wait_readable(&[listener.as_fd()], Some(within)).unwrap().is_empty();
    let connections = programs.each_ref().map(|_| {
        assert!(comes(PATIENCE), "a program does not look for the next manager");
        fdpass::accept(&listener).unwrap()
    });
    // As long as each has one it makes no other one. (Each used to come again after a second.)
    assert!(!comes(Duration::from_secs(2)), "a program comes twice");
    // These are the connections on which they hear of the next one, or of its end: then they come
    // again, once.
    drop(connections);
    assert!(comes(PATIENCE), "a program does not come again");
    assert!(programs.iter_mut().all(|it| !it.seen().alive));
    service.start(&[("app", &listener)]);
    service.hear_until("READY=1");
    for program in &mut programs {
        program.until("the next one takes it in", |seen| seen.alive);
        assert_eq!(program.ask("registrations"), "2");
    }
    let measures = cpumgr::metrics::ask(&service.socket()).unwrap();
    assert_eq!(measures.arrivals, 3, "a program was taken in more than once");
}

/// What the manager that began last granted: each program's number of processors, and whether it
/// was to share one.
fn grants_of_the_last_one(trace: &std::path::Path) -> Vec<(u64, u64, bool)> {
    let text = fs::read_to_string(trace).unwrap();
    // The last line may be half there, and the first one not yet.
    let lines = text.lines().filter_map(|it| serde_json::from_str::<serde_json::Value>(it).ok());
    let mut lines: Vec<_> = lines.collect();
    let Some(begin) = lines.iter().rposition(|it| it["event"] == "start") else {
        return Vec::new();
    };
    let grants = lines.drain(begin..).filter(|it| it["event"] == "allocation");
    let count = |it: &serde_json::Value| it["cpus"].as_array().unwrap().len() as u64;
    grants
        .map(|it| (it["pid"].as_u64().unwrap(), count(&it), it["shared"].as_bool().unwrap()))
        .collect()
}

#[test]
fn programs_that_come_back_after_a_restart_never_share_because_others_were_back_before_them() {
    let mut service = Service::new(&["--policy", "dss-ts", "--quantum", "1s"], None);
    if platform::affinity::affinity(None).unwrap().len() < 2 {
        return platform::skip!("two processors are needed");
    }
    let trace = service.dir.path().join("trace");
    service.options.extend(["--trace".to_owned(), trace.to_str().unwrap().to_owned()]);
    service.start(&[]);
    service.hear_until("FDSTORE=1");
    let mut programs = [2, 2].map(|wanted| Program::start(&service.socket(), wanted, wanted));
    let alone = |seen: &support::Seen| seen.alive && !seen.shared && seen.processors == 1;
    for program in &mut programs {
        program.until("each has one", alone);
    }
    // Killed, told to keep its programs (as `systemctl restart` and an upgrade do), told to begin
    // anew in its own process.
    for way in ["kill", "signal", "restart"] {
        // What ran is written down by a thread of its own.
        eventually("the settings name both", || {
            let kept = fs::read_to_string(service.dir.path().join("app.sock.settings")).ok()?;
            programs.iter().all(|it| kept.contains(&format!(":{},", it.pid()))).then_some(())
        });
        let begin = std::time::Instant::now();
        match way {
            "kill" => service.kill(),
            "signal" => {
                service.signal(libc::SIGUSR2);
                service.ends();
            }
            _ => service.say("restart"),
        }
        if way != "restart" {
            service.start(&[]);
        }
        service.hear_until("READY=1");
        let ready = begin.elapsed();
        for program in &mut programs {
            program.until("it is back", alone);
        }
        println!("measured: {way}: ready after {ready:?}, all back after {:?}", begin.elapsed());
        let grants = eventually("the trace says so", || {
            let grants = grants_of_the_last_one(&trace);
            let has = |it: &Program| grants.iter().any(|grant| grant.0 == u64::from(it.pid()));
            programs.iter().all(has).then_some(grants)
        });
        assert!(grants.iter().all(|(_, count, shared)| *count > 0 && !shared), "{way}: {grants:?}");
    }
}

#[test]
fn a_restart_of_the_service_keeps_programs_and_reads_the_configuration() {
    let mut service = Service::new(&[], None);
    service.start(&[]);
    service.hear_until("FDSTORE=1");
    let mut program = Program::start(&service.socket(), 1, 1);
    let mut other = Sleeper(Command::new("sleep").arg("1000").spawn().unwrap());
    let pid = other.0.id().to_string();
    let output =
        cpumgr().args(["attach", &pid, "--socket"]).arg(service.socket()).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let set = ["set", "quantum", "70ms", "--socket"];
    assert!(cpumgr().args(set).arg(service.socket()).status().unwrap().success());
    let file = fs::metadata(service.socket()).unwrap().ino();
    service.signal(libc::SIGUSR2);
    service.hear_until("STOPPING=1");
    service.ends();
    service.start(&[]);
    service.hear_until("READY=1");
    let report = Report::ask(&service.socket()).unwrap();
    assert_eq!(report.status.quantum_ns, 100_000_000, "what it was told is over");
    assert!(report.programs.iter().any(|it| it.pid.to_string() == pid), "{}", report.table());
    program.until("it is taken in again", |seen| seen.alive);
    assert_eq!(fs::metadata(service.socket()).unwrap().ino(), file);
    other.0.kill().unwrap();
}

#[test]
fn a_restart_of_the_service_keeps_a_level_that_was_told_until_the_configuration_is_reloaded() {
    let mut service = Service::new(&[], None);
    let file = service.dir.path().join("config.toml");
    // As the shipped file says.
    fs::write(&file, "mpl = \"any\"\n").unwrap();
    service.options.extend(["--config".to_owned(), file.to_str().unwrap().to_owned()]);
    service.start(&[]);
    service.hear_until("FDSTORE=1");
    assert!(
        cpumgr().args(["mpl", "0", "--socket"]).arg(service.socket()).status().unwrap().success()
    );
    let level = |service: &Service| QueueReport::ask(&service.socket()).unwrap().queue.level;
    let restart = |service: &mut Service| {
        service.signal(libc::SIGUSR2);
        service.ends();
        service.start(&[]);
        service.hear_until("READY=1");
    };
    restart(&mut service);
    assert_eq!(level(&service), Some(0), "what waits goes on waiting");
    // A file that names another one is what `reload` brings into force.
    fs::write(&file, "mpl = 3\n").unwrap();
    restart(&mut service);
    assert_eq!(level(&service), Some(0));
    let reload = cpumgr().args(["reload", "--socket"]).arg(service.socket()).status();
    assert!(reload.unwrap().success());
    assert_eq!(level(&service), Some(3));
    // What no command told ends with the file that said it.
    fs::write(&file, "mpl = \"any\"\n").unwrap();
    restart(&mut service);
    assert_eq!(level(&service), None);
}

#[test]
fn descriptors_that_are_something_else_are_left_out() {
    let mut service = Service::new(&[], None);
    let file = OwnedFd::from(fs::File::open("/dev/null").unwrap());
    let elsewhere = fdpass::listen(&service.dir.path().join("other.sock"), 0o600).unwrap();
    service.start(&[("a", &file), ("b", &elsewhere)]);
    service.hear_until("READY=1");
    assert!(Report::ask(&service.socket()).is_ok());
    let log = service.log();
    assert_eq!(log.matches("left out").count(), 2, "{log}");
    assert!(log.contains("other.sock"), "{log}");
    // With a manager there, a second one does not begin, whatever it is passed.
    let second = cpumgr()
        .arg("daemon")
        .arg("--socket")
        .arg(service.socket())
        .env("LISTEN_FDS", "1")
        .env("LISTEN_PID", "1")
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(4), "{}", errors(&second));
}
