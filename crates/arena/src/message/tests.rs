//! Tests of messages and packets: what is pinned, what is refused, what fits.

use super::*;
use proptest::prelude::*;

fn register() -> ToManager {
    ToManager::Register(Register {
        layout: 1,
        max_processors: 8,
        request: 4,
        fixed_team: true,
        broker: false,
        library: "libgomp.so.1".into(),
        held: None,
        within: None,
    })
}

#[test]
fn a_message_survives_the_packet() {
    let packet = encode(&register()).unwrap();
    assert_eq!(decode::<ToManager>(&packet).unwrap(), register());
    let packet = encode(&ToManager::Status).unwrap();
    assert_eq!(decode::<ToManager>(&packet).unwrap(), ToManager::Status);
}

#[test]
fn the_packet_format_is_pinned() {
    let packet = encode(&register()).unwrap();
    assert_eq!(
        String::from_utf8(packet).unwrap(),
        r#"{"version":1,"type":"register","layout":1,"max_processors":8,"request":4,"fixed_team":true,"broker":false,"library":"libgomp.so.1"}"#
    );
}

#[test]
fn another_version_is_named_even_when_the_rest_is_unknown() {
    let error = decode::<ToManager>(br#"{"version":7,"type":"teleport"}"#).unwrap_err();
    assert!(matches!(error, MessageError::Version { theirs: 7 }), "{error}");
}

#[test]
fn fields_of_the_future_are_ignored() {
    let message = decode::<ToManager>(br#"{"version":1,"type":"status","colour":"red"}"#).unwrap();
    assert_eq!(message, ToManager::Status);
}

#[test]
fn garbage_is_shown_escaped() {
    let error = decode::<ToManager>(b"\x1b[2Jhello\x00").unwrap_err().to_string();
    assert!(error.contains(r"\\x1b[2Jhello\\x00"), "{error}");
    assert!(!error.contains('\x1b'));
}

#[test]
fn a_status_packet_fits_whatever_the_names_are() {
    let program = ProgramStatus {
        pid: i32::MIN,
        // A name has 15 bytes and a library 64; escaping and JSON make at most 6 + 1 characters of
        // a byte.
        name: "\\u{10ffff}".repeat(15),
        library: "\\u{10ffff}".repeat(MAX_LIBRARY),
        request: u32::MAX,
        max: u32::MAX,
        granted: u32::MAX,
        // The longest list of 1024 processors: every second one.
        cpus: (0..1024).step_by(2).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(","),
        within: Some((0..1024).step_by(2).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")),
        shared: false,
        dedicated: false,
        fixed_team: false,
        attached: false,
        vps: u32::MAX,
        asked: u32::MAX,
        preempted: u32::MAX,
        squeezes: u64::MAX,
        fence: Some(format!("nanos-program-{}-{}", i32::MIN, u64::MAX)),
        speedup: Some((1.0 / 3.0, u32::MAX)),
        class: None,
        min: None,
        bound: None,
        weight: 0.001,
        age_ns: u64::MAX,
    };
    let one =
        encode(&FromManager::Programs(Programs { programs: vec![program.clone()] })).unwrap().len();
    // Processors are space-shared: only one program of a packet can have the longest list, the
    // others are short.
    let short = ProgramStatus { cpus: "1023".into(), ..program.clone() };
    let mut programs = vec![short; PROGRAMS_PER_PACKET - 1];
    programs.push(program);
    let all = encode(&FromManager::Programs(Programs { programs })).unwrap().len();
    assert!(one <= MAX_MESSAGE && all <= MAX_MESSAGE, "{one} {all}");
}

/// The longest list of 1024 processors: every second one.
fn longest_list() -> String {
    (0..1024).step_by(2).map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}

fn narrow() -> Narrow {
    Narrow {
        processors: longest_list(),
        count: u32::MAX,
        of: longest_list(),
        why: "\\".repeat(340),
    }
}

#[test]
fn the_head_of_a_report_fits_with_as_many_silent_processes_and_reasons_as_there_can_be() {
    let head = Status {
        manager_pid: i32::MIN,
        uptime_ns: u64::MAX,
        policy: "a policy".into(),
        // A text of 200 bytes, each escaped by six.
        policy_failure: Some("\\".repeat(1300)),
        parameters: (0..16)
            .map(|number| (format!("parameter-{number}"), "18446744073709551615ns".into()))
            .collect(),
        quantum_ns: u64::MAX,
        grace_ns: u64::MAX,
        processors: longest_list(),
        processor_count: u32::MAX,
        drained: String::new(),
        trace: None,
        trace_fault: None,
        left: longest_list(),
        waiting: u32::MAX,
        program_count: u32::MAX,
        silent: vec![i32::MIN; 512],
        fences: Some("\\".repeat(500)),
        level: Some(u32::MAX),
        narrow: Some(narrow()),
        kept: vec!["a limit of 18446744073709551615 bytes of address space".into(); 9],
        // Each is cut at 100 characters.
        unkept: vec!["\\".repeat(250); 2],
        reasons: (0..32).map(|number| (i32::MIN + number, "\\".repeat(100))).collect(),
    };
    let head = FromManager::Status(Box::new(head));
    let packet = encode(&head).unwrap();
    assert!(packet.len() <= MAX_MESSAGE, "{}", packet.len());
    assert_eq!(decode::<FromManager>(&packet).unwrap(), head);
}

#[test]
fn an_announcement_is_answered_as_before_where_there_is_nothing_to_add() {
    let nothing = FromManager::Announced { narrow: None, kept: Vec::new() };
    let packet = encode(&nothing).unwrap();
    assert_eq!(String::from_utf8(packet.clone()).unwrap(), r#"{"version":1,"type":"announced"}"#);
    assert_eq!(decode::<FromManager>(&packet).unwrap(), nothing);
    let kept = vec!["a limit of 18446744073709551615 bytes of address space".into(); 9];
    let more = FromManager::Announced { narrow: Some(narrow()), kept };
    let packet = encode(&more).unwrap();
    assert!(packet.len() <= MAX_MESSAGE);
    assert_eq!(decode::<FromManager>(&packet).unwrap(), more);
}

#[test]
fn a_packet_of_the_queue_fits_whatever_the_labels_are() {
    let label = "\\u{10ffff}".repeat(64);
    let place = QueuedStatus {
        id: u64::MAX,
        pid: i32::MIN,
        label,
        request: u32::MAX,
        waits_ns: u64::MAX,
        after: vec![After { id: u64::MAX, how: Condition::Failed }.to_string(); MAX_AFTER],
        within_ns: Some(u64::MAX),
        processors: Some(ProcessorRange { least: u32::MAX, most: u32::MAX }),
        limit_ns: Some(u64::MAX),
        begins_in_ns: Some(u64::MAX),
        user: Some(u32::MAX),
        consumed_ns: Some(u64::MAX),
        never_begins: Some("c".repeat(200)),
    };
    let packet = encode(&FromManager::Waiting { places: vec![place; WAITING_PER_PACKET] }).unwrap();
    assert!(packet.len() <= MAX_MESSAGE, "{}", packet.len());
}

proptest! {
    #[test]
    fn no_packet_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<ToManager>(&bytes);
        let _ = decode::<FromManager>(&bytes);
    }
}

#[test]
fn a_packet_of_the_history_fits_whatever_the_names_are() {
    let account = Account {
        user: u32::MAX,
        program: "\\u{10ffff}".repeat(16),
        runs: u64::MAX,
        pid: Some(i32::MIN),
        state: Some(RunState::Ended),
        began_ns: u64::MAX,
        until_ns: u64::MAX,
        granted_ns: u64::MAX,
        used_ns: u64::MAX,
        waited_ns: u64::MAX,
        queued_ns: u64::MAX,
    };
    let rows = vec![account; ACCOUNTS_PER_PACKET];
    let packet = encode(&FromManager::Accounts { rows }).unwrap();
    assert!(packet.len() <= MAX_MESSAGE, "{}", packet.len());
}

fn registers() -> impl Strategy<Value = Register> {
    let held = (any::<u32>(), any::<Vec<u32>>()).prop_map(|(epoch, cpus)| Held { epoch, cpus });
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>());
    let rest = (proptest::option::of(held), any::<Option<Vec<u32>>>());
    (numbers, any::<(bool, bool)>(), any::<String>(), rest).prop_map(
        |((layout, max_processors, request), (fixed_team, broker), library, (held, within))| {
            Register { layout, max_processors, request, fixed_team, broker, library, held, within }
        },
    )
}

proptest! {
    #[test]
    fn a_program_says_byte_for_byte_what_serde_writes(register in registers()) {
        let said = Said::Register(register.clone()).encode();
        let written = encode(&ToManager::Register(register));
        prop_assert_eq!(said.ok(), written.ok());
    }

    #[test]
    fn a_program_hears_what_serde_wrote(slot: u64, line: u32, reason: String) {
        let heard = |message: &FromManager| Heard::decode(&encode(message).unwrap()).unwrap();
        let registered = Registered { slot };
        prop_assert_eq!(
            heard(&FromManager::Registered(registered.clone())),
            Heard::Registered(registered)
        );
        prop_assert_eq!(heard(&FromManager::Joined { line }), Heard::Joined { line });
        for code in [
            RefusedCode::Version,
            RefusedCode::Malformed,
            RefusedCode::Full,
            RefusedCode::NotYours,
            RefusedCode::System,
            RefusedCode::NotPossible,
            RefusedCode::Cancelled,
        ] {
            let refused = Refused { code, reason: reason.clone() };
            prop_assert_eq!(
                heard(&FromManager::Refused(refused.clone())),
                Heard::Refused(refused)
            );
        }
        let kept = vec![reason];
        prop_assert_eq!(
            heard(&FromManager::Announced { narrow: None, kept }),
            Heard::Other { name: "announced".into() }
        );
    }
}

#[test]
fn a_program_says_and_hears_what_has_no_fields_as_serde_does() {
    assert_eq!(Said::Join.encode().unwrap(), encode(&ToManager::Join).unwrap());
    let heard = |message: &FromManager| Heard::decode(&encode(message).unwrap()).unwrap();
    assert_eq!(heard(&FromManager::Replaced), Heard::Replaced);
    assert_eq!(heard(&FromManager::Leaving), Heard::Other { name: "leaving".into() });
}
