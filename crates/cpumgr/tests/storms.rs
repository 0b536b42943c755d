//! Floods of clients, and machines without room: they cost their sender, and no program.
//!
//! `CPUMGR_STORM=1000000` makes as many connections one after the other, of which the manager takes
//! some 800 to 2,900 a second when the burst of their user is spent: run it by hand.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Instant;

use arena::message::{self, FromManager, MAX_MESSAGE, ToManager};
use platform::fdpass;
use support::{Manager, PATIENCE, connection, copy_program, cpumgr, eventually};

/// A user that owns nothing.
const STRANGER: u32 = 65_534;

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn answer(socket: &std::os::fd::OwnedFd) -> Option<FromManager> {
    let mut buffer = vec![0; MAX_MESSAGE];
    let (length, _) = fdpass::recv(socket, &mut buffer, Some(PATIENCE)).ok()?;
    message::decode(&buffer[..length]).ok()
}

fn descriptors(manager: &Manager) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", manager.pid())).unwrap().count()
}

/// Its resident memory, in KiB.
fn memory(manager: &Manager) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", manager.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn connections_one_after_the_other_leave_nothing_and_programs_keep_what_they_have() {
    let manager = Manager::start(&["--policy", "equip"]);
    let mut program = manager.program(1, 1);
    let epoch = program.seen().epoch;
    let (before, memory_before) = (descriptors(&manager), memory(&manager));
    let count: u64 =
        std::env::var("CPUMGR_STORM").ok().and_then(|text| text.parse().ok()).unwrap_or(5000);
    let begin = Instant::now();
    for _ in 0..count {
        drop(connection(&manager.socket()));
    }
    let took = begin.elapsed();
    // One after them is answered in the end, and what they were is forgotten: as many as the
    // listener's queue holds stand before it, and a question gives up after some seconds.
    eventually("one after them is answered", || {
        cpumgr::status::Report::ask(&manager.socket()).ok().filter(|it| it.programs.len() == 1)
    });
    eventually("nothing stays open", || (descriptors(&manager) <= before + 1).then_some(()));
    let seen = program.seen();
    assert!(seen.alive && seen.epoch == epoch, "{seen:?}");
    let ns = cpumgr::metrics::ask(&manager.socket()).unwrap().processor_ns;
    println!(
        "measured: {count} connections in {took:?}; the manager used {} ms, and has {} KiB after \
         {}",
        ns / 1_000_000,
        memory(&manager),
        memory_before
    );
}

#[test]
fn as_many_silent_connections_at_once_as_there_is_room_for_delay_no_client_that_speaks() {
    let manager = Manager::start(&["--policy", "equip"]);
    // Both ends of each are counted: this process needs as many.
    let wanted = 4000;
    let (_, hard) =
        nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE).unwrap();
    let limit = hard.min(wanted + 200);
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, limit, hard)
        .unwrap();
    let count = usize::try_from(limit.saturating_sub(200)).unwrap().min(4000);
    let mut program = manager.program(1, 1);
    let epoch = program.seen().epoch;
    // One that finds the listener's queue full gives up: it is refused by the kernel.
    let at_once = std::time::Duration::from_millis(1);
    let silent: Vec<_> =
        (0..count).filter_map(|_| fdpass::connect(&manager.socket(), at_once).ok()).collect();
    println!("measured: {} of {count} connections at once got in", silent.len());
    assert!(!silent.is_empty());
    let seen = program.seen();
    assert!(seen.alive && seen.epoch == epoch, "{seen:?}");
    // One that says something waits for none of them: it is answered as if they were not there.
    assert_eq!(manager.status().programs.len(), 1);
    let mut newcomer = manager.program(1, 1);
    assert!(newcomer.seen().alive);
    newcomer.kill();
    // The oldest ones had to go, and the youngest one did not.
    let is_hung_up = |at: usize| platform::process::is_hung_up(&silent[at]).unwrap();
    assert!(silent.len() < 1000 || is_hung_up(0));
    assert!(!is_hung_up(silent.len() - 1));
    drop(silent);
    eventually("it answers again", || {
        cpumgr::status::Report::ask(&manager.socket()).ok().filter(|it| it.programs.len() == 1)
    });
}

#[test]
fn huge_and_half_messages_cost_their_sender_the_connection() {
    let manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    let whole = message::encode(&ToManager::Status).unwrap();
    for round in 0..50 {
        let socket = connection(&manager.socket());
        let packet = match round % 3 {
            0 => vec![b'{'; MAX_MESSAGE + 1000],
            1 => whole[..whole.len() / 2].to_vec(),
            _ => Vec::new(),
        };
        // An empty packet is the end of what it says.
        let flags = nix::sys::socket::MsgFlags::empty();
        nix::sys::socket::send(socket.as_raw_fd(), &packet, flags).unwrap();
        assert!(!matches!(answer(&socket), Some(FromManager::Status(_))));
    }
    assert!(program.seen().alive);
    assert_eq!(manager.status().programs.len(), 1);
}

#[test]
fn clients_that_read_slowly_or_never_delay_none_but_themselves() {
    let manager = Manager::start(&["--policy", "equip"]);
    let programs: Vec<_> = (0..10).map(|_| manager.program(1, 1)).collect();
    let packet = message::encode(&ToManager::Status).unwrap();
    let slow: Vec<_> = (0..30)
        .map(|_| {
            let socket = connection(&manager.socket());
            fdpass::send(&socket, &packet, &[]).unwrap();
            socket
        })
        .collect();
    // All of them have an unread answer now, or wait for one.
    assert_eq!(manager.status().programs.len(), programs.len());
    for socket in &slow {
        assert!(matches!(answer(socket), Some(FromManager::Status(_))), "it reads at last");
    }
}

#[test]
fn a_disk_that_is_full_for_every_file_of_the_manager_stops_no_program() {
    let manager = Manager::start(&["--policy", "equip"]);
    let mut first = manager.program(1, 1);
    let mut second = manager.program(1, 1);
    let pid = manager.pid().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--fsize=1"]).status();
    if !limited.is_ok_and(|status| status.success()) {
        return platform::skip!("no prlimit here");
    }
    // Settings, masks and log cannot be written any more, and no memory is to be had for newcomers.
    let newcomer =
        cpumgr().args(["run", "--socket"]).arg(manager.socket()).args(["--", "true"]).status();
    assert!(newcomer.unwrap().success());
    let set = cpumgr().args(["set", "quantum", "50ms", "--socket"]).arg(manager.socket()).status();
    assert!(set.unwrap().success());
    assert!(first.seen().alive && second.seen().alive);
    second.kill();
    eventually("it is seen to have gone", || (manager.status().programs.len() == 1).then_some(()));
}

#[test]
fn a_runtime_directory_that_cannot_be_written_is_told_and_the_program_runs_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("place");
    std::fs::create_dir(&place).unwrap();
    let ours = cpumgr();
    let mut command = Command::new(ours.get_program());
    // The superuser writes everywhere: another user runs a copy.
    if nix::unistd::geteuid().is_root() {
        let copy = dir.path().join("cpumgr");
        copy_program(ours.get_program(), &copy);
        for path in [dir.path(), &copy] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::chown(&place, Some(STRANGER), Some(STRANGER)).unwrap();
        command = Command::new(copy);
        command.uid(STRANGER).gid(STRANGER).current_dir("/");
    }
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o500)).unwrap();
    for (name, value) in ours.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(["run", "--socket"]).arg(place.join("x/app.sock")).args(["--", "true"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("runs without a manager"), "{said}");
    std::io::stdout().flush().unwrap();
}

#[test]
fn a_place_that_is_no_directory_is_told_and_the_program_runs_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let mut command = cpumgr();
    command.args(["run", "--socket"]).arg(file.join("app.sock")).args(["--", "true"]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("runs without a manager"), "{said}");
}
