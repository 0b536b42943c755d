//! Clients that break the protocol, by accident or on purpose: they hurt only themselves.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

use arena::client::{Client, ConnectError, Connection, Hello};
use arena::header::VERSION;
use arena::message::{self, FromManager, MAX_MESSAGE, Refused, RefusedCode, Register, ToManager};
use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use platform::fdpass;
use platform::shm::SharedMemory;
use support::{Manager, PATIENCE, Program, connection, copy_program, eventually, register_packet};

#[test]
#[ignore = "the entry point of child processes, not a test"]
fn acts_as_a_program() {
    support::act_as_a_program();
}

fn answer(socket: impl AsFd) -> Option<FromManager> {
    let mut buffer = vec![0; MAX_MESSAGE];
    let (length, _) = fdpass::recv(socket, &mut buffer, Some(PATIENCE)).unwrap();
    (length > 0).then(|| message::decode(&buffer[..length]).unwrap())
}

fn refusal(manager: &Manager, packet: &[u8]) -> Refused {
    let socket = connection(&manager.socket());
    fdpass::send(&socket, packet, &[]).unwrap();
    let Some(FromManager::Refused(refused)) = answer(&socket) else { panic!("not refused") };
    assert_eq!(answer(&socket), None, "the connection is closed afterwards");
    refused
}

#[test]
fn packets_that_are_no_messages_are_refused_with_a_reason() {
    let manager = Manager::start(&[]);
    let mut program = manager.program(1, 1);
    let refused = refusal(&manager, b"\x00\xff\x1b[2J{{{{");
    assert_eq!(refused.code, RefusedCode::Malformed);
    assert!(
        refused.reason.contains("not a message") && !refused.reason.contains('\x1b'),
        "{}",
        refused.reason
    );
    let truncated = &register_packet(VERSION)[..30];
    assert_eq!(refusal(&manager, truncated).code, RefusedCode::Malformed);
    let refused = refusal(&manager, br#"{"version":99,"type":"register"}"#);
    assert_eq!(refused.code, RefusedCode::Version);
    assert!(refused.reason.contains("99") && refused.reason.contains('1'), "{}", refused.reason);
    let refused = refusal(&manager, &register_packet(7));
    assert_eq!(refused.code, RefusedCode::Version);
    assert_eq!(refused.reason, "the program speaks layout version 7, this manager version 2");
    for length in [MAX_MESSAGE + 1, 4 * MAX_MESSAGE] {
        let refused = refusal(&manager, &vec![b' '; length]);
        assert_eq!(refused.code, RefusedCode::Malformed);
        assert!(refused.reason.contains("at most 32768 bytes"), "{}", refused.reason);
    }
    assert!(program.seen().alive);
    assert_eq!(manager.status().programs.len(), 1);
}

#[test]
fn a_long_packet_that_is_no_message_is_refused_with_a_reason_that_fits_the_answer() {
    let manager = Manager::start(&[]);
    // The reader of messages quotes what it does not know, and each of these is longer quoted.
    for letter in ["x", "\u{7f}", "\\n"] {
        let (before, after) = (r#"{"version":1,"type":""#, r#""}"#);
        let room = MAX_MESSAGE - before.len() - after.len();
        let packet = format!("{before}{}{after}", letter.repeat(room / letter.len()));
        let refused = refusal(&manager, packet.as_bytes());
        assert_eq!(refused.code, RefusedCode::Malformed);
        let reason = refused.reason;
        assert!(reason.contains("not a message") && reason.len() < MAX_MESSAGE / 4, "{reason}");
        assert!(reason.contains(&packet.len().to_string()), "{reason}");
        assert!(reason.contains("at most 32768"), "{reason}");
    }
    assert!(manager.status().programs.is_empty());
}

#[test]
fn a_registered_program_that_talks_nonsense_is_let_go() {
    let manager = Manager::start(&[]);
    let socket = connection(&manager.socket());
    fdpass::send(&socket, &register_packet(VERSION), &[]).unwrap();
    assert!(matches!(answer(&socket), Some(FromManager::Registered(_))));
    fdpass::send(&socket, b"nonsense", &[]).unwrap();
    assert!(matches!(answer(&socket), Some(FromManager::Refused(_))));
    eventually("it is not managed any more", || manager.status().programs.is_empty().then_some(()));
}

#[test]
fn descriptors_sent_to_the_manager_are_refused_and_none_becomes_its_own() {
    let manager = Manager::start(&[]);
    let mut beside = manager.program(1, 1);
    let count = || std::fs::read_dir(format!("/proc/{}/fd", manager.pid())).unwrap().count();
    let (end, other) = fdpass::pair().unwrap();
    let packet = message::encode(&ToManager::Announce { attach: true }).unwrap();
    let socket = connection(&manager.socket());
    fdpass::send(&socket, &packet, &[]).unwrap();
    assert_eq!(answer(&socket), Some(FromManager::Announced { narrow: None, kept: Vec::new() }));
    let before = count();
    let beside_it = fdpass::listen(&manager.dir.path().join("other"), 0o600).unwrap();
    let kernel_refuses = fdpass::refuse_descriptors(&beside_it).unwrap();
    // As many as the kernel lets a message carry, past the checks of `send`.
    let raw: Vec<_> =
        (0..253).map(|at| if at % 2 == 0 { end.as_raw_fd() } else { other.as_raw_fd() }).collect();
    for _ in 0..8 {
        let socket = connection(&manager.socket());
        let rights = [ControlMessage::ScmRights(&raw)];
        let part = [std::io::IoSlice::new(&packet)];
        match sendmsg::<()>(socket.as_raw_fd(), &part, &rights, MsgFlags::empty(), None) {
            // Linux 6.16: refused at the sender, which may go on without them.
            Err(Errno::EPERM) => {
                fdpass::send(&socket, &packet, &[]).unwrap();
                assert_eq!(
                    answer(&socket),
                    Some(FromManager::Announced { narrow: None, kept: Vec::new() })
                );
            }
            sent => {
                sent.unwrap();
                assert!(!kernel_refuses, "the manager does not ask the kernel to refuse them");
                let Some(FromManager::Refused(refused)) = answer(&socket) else {
                    panic!("not refused")
                };
                assert_eq!(refused.code, RefusedCode::Malformed);
                assert!(refused.reason.contains("descriptors"), "{}", refused.reason);
            }
        }
    }
    eventually("nothing stays open", || (count() <= before + 1).then_some(()));
    assert!(beside.seen().alive);
}

#[test]
fn programs_that_end_before_their_first_grant_leave_nothing() {
    let manager = Manager::start(&[]);
    let mut other = manager.program(2, 2);
    for _ in 0..10 {
        let mut command = Program::command(&manager.socket());
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"register-and-die\n").unwrap();
        assert!(child.wait().unwrap().success());
        // The same from a process that lives on, on a connection that it closes at once.
        let socket = connection(&manager.socket());
        fdpass::send(&socket, &register_packet(VERSION), &[]).unwrap();
    }
    eventually("only one is left", || (manager.status().programs.len() == 1).then_some(()));
    other.until("and it has what it wants", |seen| seen.dedicated && seen.alive);
}

#[test]
fn a_client_that_never_reads_is_dropped_and_disturbs_no_other() {
    let manager = Manager::start(&[]);
    let programs: Vec<Program> = (0..20).map(|_| manager.program(1, 1)).collect();
    let socket = connection(&manager.socket());
    let packet = message::encode(&ToManager::Status).unwrap();
    let begin = Instant::now();
    let mut asked = 0;
    // It asks and asks; when its own queue is full it is muted, and at last thrown out.
    platform::fdpass::set_nonblocking(&socket).unwrap();
    eventually("it is thrown out", || match fdpass::send(&socket, &packet, &[]) {
        Ok(()) => {
            asked += 1;
            None
        }
        Err(error) if error.is(nix::libc::EAGAIN) => None,
        Err(error) => Some(error),
    });
    println!("thrown out after {asked} questions and {:?}", begin.elapsed());
    let report = manager.status();
    assert_eq!(report.programs.len(), programs.len());
}

#[test]
fn silent_connections_keep_no_program_out() {
    let manager = Manager::start(&[]);
    // More than it takes: the listener's queue holds the rest.
    let silent: Vec<_> = (0..150).map(|_| connection(&manager.socket())).collect();
    let mut program = manager.program(1, 1);
    assert!(program.seen().alive);
    assert_eq!(manager.status().programs.len(), 1);
    drop(silent);
}

#[test]
fn a_crowd_that_comes_at_once_gets_in() {
    let manager = Manager::start(&[]);
    let crowd: Vec<_> = (0..120)
        .map(|_| {
            let socket = manager.socket();
            std::thread::spawn(move || {
                let socket = connection(&socket);
                let packet = message::encode(&ToManager::Status).unwrap();
                fdpass::send(&socket, &packet, &[]).unwrap();
                answer(&socket)
            })
        })
        .collect();
    for member in crowd {
        assert!(matches!(member.join().unwrap(), Some(FromManager::Status(_))));
    }
}

#[test]
fn random_bytes_in_the_shared_area_hurt_no_other_program() {
    let manager = Manager::start(&[]);
    let mut neighbours = [manager.program(1, 1), manager.program(1, 1)];
    let socket = connection(&manager.socket());
    fdpass::send(&socket, &register_packet(VERSION), &[]).unwrap();
    let mut buffer = vec![0; MAX_MESSAGE];
    let (_, mut descriptors) = fdpass::recv(&socket, &mut buffer, Some(PATIENCE)).unwrap();
    drop(descriptors.pop().unwrap());
    let doorbell = platform::event::Doorbell::from_fd(descriptors.pop().unwrap());
    let up = SharedMemory::from_fd(descriptors.pop().unwrap()).unwrap();
    let mapping = up.map_read_write().unwrap();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(500) {
        for offset in (0..mapping.len()).step_by(8) {
            // xorshift64
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // SAFETY: - within the mapping, aligned, writable; the manager reads it by atomics
            // only.
            unsafe { mapping.as_ptr().add(offset).cast::<u64>().write_volatile(random) };
        }
        doorbell.ring().unwrap();
    }
    // SAFETY: - as above; the request is the word at 128.
    unsafe { mapping.as_ptr().add(128).cast::<u32>().write_volatile(u32::MAX) };
    doorbell.ring().unwrap();
    let report = manager.status();
    assert_eq!(report.programs.len(), 3);
    for program in &report.programs {
        assert!(
            program.request >= 1 && program.request <= 2 && program.granted >= 1,
            "{program:?}"
        );
    }
    for neighbour in &mut neighbours {
        assert!(neighbour.seen().alive);
    }
}

#[test]
fn the_manager_never_maps_what_it_sent_for_writing_by_the_program() {
    let manager = Manager::start(&[]);
    let socket = connection(&manager.socket());
    fdpass::send(&socket, &register_packet(VERSION), &[]).unwrap();
    let mut buffer = vec![0; MAX_MESSAGE];
    let (_, descriptors) = fdpass::recv(&socket, &mut buffer, Some(PATIENCE)).unwrap();
    let [down, up, _doorbell, global] = <[_; 4]>::try_from(descriptors).unwrap();
    for (what, area) in [("its own grant", down), ("what all programs read", global)] {
        let area = SharedMemory::from_fd(area).unwrap();
        assert!(area.map_read_only().is_ok());
        assert!(area.map_read_write().is_err(), "a program could write {what}");
    }
    assert!(SharedMemory::from_fd(up).is_ok(), "a program could truncate what the manager reads");
}

#[test]
fn a_process_that_registers_anew_replaces_its_old_self() {
    let manager = Manager::start(&[]);
    let hello = |library: &str| Hello {
        max_processors: 2,
        request: 1,
        fixed_team: true,
        broker: false,
        library: library.into(),
        within: None,
    };
    let first = Client::connect(&manager.socket(), &hello("first"), PATIENCE).unwrap();
    let second = Client::connect(&manager.socket(), &hello("second"), PATIENCE).unwrap();
    eventually("the first is told", || (!first.is_alive()).then_some(()));
    assert!(second.is_alive());
    let report = manager.status();
    assert_eq!(report.programs.len(), 1);
    assert_eq!(
        (report.programs[0].library.as_str(), report.programs[0].fixed_team),
        ("second", true)
    );
}

#[test]
fn a_program_that_names_processors_that_do_not_exist_is_managed_like_any_other() {
    let manager = Manager::start(&[]);
    let lies = [vec![], vec![u32::MAX, 1 << 20, 1024], vec![1023; 5000]];
    for within in lies {
        let connection = Connection::open(&manager.socket(), PATIENCE).unwrap();
        let register = Register {
            layout: VERSION,
            max_processors: 4,
            request: 4,
            fixed_team: false,
            broker: false,
            library: "raw".into(),
            held: None,
            within: Some(within),
        };
        connection.send(&ToManager::Register(register)).unwrap();
        let (answer, descriptors) = connection.receive().unwrap();
        assert!(
            matches!(answer, FromManager::Registered(_)) && descriptors.len() == 4,
            "{answer:?}"
        );
        let report = manager.status();
        assert_eq!(report.programs.len(), 1);
        // None of them is managed: it is somewhere else, and has the one processor that every
        // program has.
        assert_eq!((report.programs[0].max, report.programs[0].granted), (1, 1));
    }
}

#[test]
fn what_answers_garbage_is_refused_by_the_client() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let listener = fdpass::listen(&path, 0o600).unwrap();
    let server = std::thread::spawn(move || {
        for packet in
            [&b"garbage"[..], br#"{"version":9}"#, br#"{"version":1,"type":"registered","slot":1}"#]
        {
            let socket = fdpass::accept(&listener).unwrap();
            fdpass::recv(&socket, &mut vec![0; MAX_MESSAGE], Some(PATIENCE)).unwrap();
            fdpass::send(&socket, packet, &[]).unwrap();
        }
        drop(fdpass::accept(&listener).unwrap());
    });
    let hello = Hello {
        max_processors: 1,
        request: 1,
        fixed_team: false,
        broker: false,
        library: String::new(),
        within: None,
    };
    let connect = || Client::connect(&path, &hello, PATIENCE).unwrap_err();
    let errors = [connect(), connect(), connect(), connect()];
    server.join().unwrap();
    assert!(matches!(errors[0], ConnectError::Message { .. }));
    assert!(errors[1].to_string().contains("protocol version 9"), "{}", errors[1]);
    assert!(errors[2].to_string().contains("4 descriptors, it sent 0"), "{}", errors[2]);
    for error in errors {
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn another_user_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        platform::skip!("becoming another user needs privilege");
        return;
    }
    let manager = Manager::start(&[]);
    let open = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    open(manager.dir.path(), 0o755);
    open(&manager.socket(), 0o666);
    let copy = manager.dir.path().join("program");
    copy_program(std::env::current_exe().unwrap(), &copy);
    open(&copy, 0o755);
    let mut command = std::process::Command::new(&copy);
    command
        .args(Program::arguments())
        .env("CPUMGR_TEST_PROGRAM", manager.socket())
        .uid(65534)
        .gid(65534);
    command.current_dir("/");
    let refused =
        Program::launch(command, 1, 1).err().expect("another user's program is not managed");
    assert!(refused.contains("belongs to user 0"), "{refused}");
}
