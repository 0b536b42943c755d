//! The messages of the manager's socket: one packet, one JSON object, a version in each.
//!
//! Descriptors (the areas and the doorbell) ride along with [`FromManager::Registered`]. Identity is no part of any
//! message: the manager takes it from the kernel. Unknown fields are ignored, so that a field may be added; a change
//! of meaning is a new [`PROTOCOL_VERSION`].

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of the messages. Another version is refused.
pub const PROTOCOL_VERSION: u32 = 1;
/// The longest packet, either way.
pub const MAX_MESSAGE: usize = 32 * 1024;
/// Programs in one [`FromManager::Programs`] packet: each is at most some 3,700 bytes, whatever its name.
pub const PROGRAMS_PER_PACKET: usize = 8;
/// Places in one [`FromManager::Waiting`] packet: each is at most some 900 bytes, whatever its label.
pub const WAITING_PER_PACKET: usize = 32;
/// The longest library name that a program may state, in bytes.
pub const MAX_LIBRARY: usize = 64;

/// What a program or a tool says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToManager {
    /// "I am a parallel program."
    Register(Register),
    /// "Who has what?"
    Status,
    /// "This process is about to become a parallel program": the manager does not leave for idleness while it lives.
    Announce {
        /// When it turns out to have several threads and not to speak the protocol, it may be managed by their masks.
        #[serde(default = "yes")]
        attach: bool,
    },
    /// "Do it like this from now on."
    Control(Control),
    /// "I am going to be a program, as soon as I may start."
    Submit {
        /// Processors that it is going to ask for.
        request: u32,
        /// What it is, for reports.
        label: String,
    },
    /// "Who waits to be started?"
    Queue,
    /// "This process, which is registered, wants to be one of the domain" (`domain`).
    Join,
}

fn yes() -> bool {
    true
}

/// The head of a report on the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Programs that may run at once; `None`: any number.
    pub level: Option<u32>,
    /// Programs that run.
    pub running: u32,
    /// Programs that wait, named by the packets that follow.
    pub waiting: u32,
}

/// One that waits to be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedStatus {
    /// By this number it can be cancelled.
    pub id: u64,
    /// Its process.
    pub pid: i32,
    /// What it says of itself, escaped.
    pub label: String,
    /// Processors that it is going to ask for.
    pub request: u32,
    /// How long it waits.
    pub waits_ns: u64,
}

/// What an administrator may change while programs run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Control {
    /// How often programs that share processors take turns.
    Quantum {
        /// Its length.
        quantum_ns: u64,
    },
    /// The time between asking for a processor and squeezing.
    Grace {
        /// Its length.
        grace_ns: u64,
    },
    /// How processors are shared out.
    Policy {
        /// Another policy; `None`: the one in force.
        name: Option<String>,
        /// Its parameters, as people write them.
        #[serde(default)]
        settings: BTreeMap<String, String>,
    },
    /// The share of a program relative to others.
    Weight {
        /// Its process.
        pid: i32,
        /// The weight, times 1000.
        thousandths: u32,
    },
    /// How many programs may run at once.
    Level {
        /// Their number; `None`: any.
        level: Option<u32>,
    },
    /// A process that does not speak the protocol shall be managed by the affinity of its threads.
    Attach {
        /// Its number.
        pid: i32,
    },
    /// It shall not any more.
    Detach {
        /// Its number.
        pid: i32,
    },
    /// One that waits shall not be started.
    Cancel {
        /// Its number.
        id: u64,
    },
}

/// What a program states at registration. Its identity comes from the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The layout version that the program speaks.
    pub layout: u32,
    /// The most processors that it could use.
    pub max_processors: u32,
    /// The processors that it wants now.
    pub request: u32,
    /// Its teams have a fixed size.
    #[serde(default)]
    pub fixed_team: bool,
    /// The library that speaks for it, for reports.
    #[serde(default)]
    pub library: String,
    /// What it holds from a manager that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// The processors on which it stays whatever it is given (places, its mask), in any order: it shall be given no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<u32>>,
}

/// What a program holds from a manager that is gone. A wish: the next manager gives it as far as others do not have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// The epoch of its last grant: the next one continues it.
    pub epoch: u32,
    /// The processors of its last grant, in any order.
    pub cpus: Vec<u32>,
}

/// What the manager answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromManager {
    /// "You are in." With four descriptors: the `down` area (read-only), the `up` area, the doorbell (eventfd), the
    /// page of all programs (read-only).
    Registered(Registered),
    /// The answer to [`ToManager::Announce`].
    Announced,
    /// The answer to a [`ToManager::Control`]: it is so now.
    Done,
    /// The answer to a [`ToManager::Join`], with one descriptor: the domain's area.
    Joined {
        /// The program's line in it.
        line: u32,
    },
    /// The answer to a [`ToManager::Submit`]: it waits.
    Queued {
        /// Its number.
        id: u64,
        /// How many wait before it.
        ahead: u32,
    },
    /// The end of the waiting: it may start.
    Admitted,
    /// The head of a report on the queue; [`FromManager::Waiting`] packets follow until all are named.
    Queue(Queue),
    /// A part of a report on the queue.
    Waiting {
        /// In the order in which they start.
        places: Vec<QueuedStatus>,
    },
    /// "No", and why. The connection is closed afterwards.
    Refused(Refused),
    /// The head of a status report; [`FromManager::Programs`] packets follow until all programs are named.
    Status(Status),
    /// A part of a status report.
    Programs(Programs),
    /// "I am leaving." The connection is closed afterwards; programs go on without a manager.
    Leaving,
    /// "Your process registered anew": this registration is over, and is not to be made again. The connection is closed
    /// afterwards.
    Replaced,
}

/// The manager's answer to a registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registered {
    /// The program's number in this manager's life.
    pub slot: u64,
}

/// Why the manager says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RefusedCode {
    /// The message or the layout has a version that the manager does not speak.
    Version,
    /// The packet was no message.
    Malformed,
    /// As many programs as the manager takes are there.
    Full,
    /// The peer belongs to another user.
    NotYours,
    /// The system refused something that the manager needed for this program.
    System,
    /// What a control message asks for cannot be.
    NotPossible,
    /// Somebody cancelled what was submitted.
    Cancelled,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// For programs.
    pub code: RefusedCode,
    /// For people.
    pub reason: String,
}

/// The head of a status report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The manager's process.
    pub manager_pid: i32,
    /// How long it has run.
    pub uptime_ns: u64,
    /// The policy in force.
    pub policy: String,
    /// The parameters of the policy, as people write them.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The quantum in force.
    pub quantum_ns: u64,
    /// The time between asking for a processor and squeezing.
    #[serde(default)]
    pub grace_ns: u64,
    /// The processors that it manages, as a kernel list.
    pub processors: String,
    /// Their number.
    pub processor_count: u32,
    /// Those that are left to others than programs, as a kernel list; most often none.
    #[serde(default)]
    pub left: String,
    /// Programs that could use more than they have.
    #[serde(default)]
    pub waiting: u32,
    /// How many programs the packets that follow name.
    pub program_count: u32,
    /// Processes that were announced and live, but do not speak the protocol (yet) and are not attached.
    #[serde(default)]
    pub silent: Vec<i32>,
    /// The control group below which programs that do not obey are fenced in, escaped; `None`: nobody is.
    #[serde(default)]
    pub fences: Option<String>,
}

/// A part of a status report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Programs {
    /// Programs in order of arrival.
    pub programs: Vec<ProgramStatus>,
}

/// One program of a status report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Its process.
    pub pid: i32,
    /// The name that the kernel has for it, with control characters escaped.
    pub name: String,
    /// The library that speaks for it, escaped.
    pub library: String,
    /// Processors that it wants now.
    pub request: u32,
    /// The most that it can use here.
    pub max: u32,
    /// Processors that it was granted.
    pub granted: u32,
    /// Which, as a kernel list.
    pub cpus: String,
    /// The processors on which it stays whatever it is given, where it cannot use all that are managed, as a kernel list.
    #[serde(default)]
    pub within: Option<String>,
    /// Its processor is used by several programs in turn.
    pub shared: bool,
    /// Nobody else wants processors.
    pub dedicated: bool,
    /// Its teams have a fixed size.
    pub fixed_team: bool,
    /// It does not speak the protocol: all its threads are bound to its processors.
    #[serde(default)]
    pub attached: bool,
    /// Virtual processors that it published.
    pub vps: u32,
    /// Processors that were taken from it and that it may still use.
    #[serde(default)]
    pub asked: u32,
    /// Virtual processors that are squeezed.
    #[serde(default)]
    pub preempted: u32,
    /// How often one was squeezed.
    #[serde(default)]
    pub squeezes: u64,
    /// The group below [`Status::fences`] in which it is fenced; its processors are what it was granted.
    #[serde(default)]
    pub fence: Option<String>,
    /// The speedup that it reported last, smoothed, and on how many processors.
    #[serde(default)]
    pub speedup: Option<(f64, u32)>,
    /// Its share relative to others.
    #[serde(default = "usual_weight")]
    pub weight: f64,
    /// How long it has been registered.
    pub age_ns: u64,
}

fn usual_weight() -> f64 {
    1.0
}

/// A packet that is no message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// The sender speaks another version.
    #[error("the message has protocol version {theirs}, this side speaks {PROTOCOL_VERSION}")]
    Version {
        /// Its version.
        theirs: u32,
    },
    /// Not a message of this protocol.
    #[error("not a message of this protocol ({what}); it begins {begins:?}")]
    Malformed {
        /// What the parser stumbled over.
        what: String,
        /// The first bytes of the packet, escaped.
        begins: String,
    },
    /// A message that would not fit a packet.
    #[error("the message has {length} bytes, a packet holds {MAX_MESSAGE}")]
    TooLong {
        /// Its length.
        length: usize,
    },
}

#[derive(Serialize)]
struct PacketOut<'a, M> {
    version: u32,
    #[serde(flatten)]
    message: &'a M,
}

#[derive(Deserialize)]
struct PacketVersion {
    version: u32,
}

/// A message as a packet.
///
/// # Errors
/// [`MessageError::TooLong`].
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, MessageError> {
    let packet = serde_json::to_vec(&PacketOut { version: PROTOCOL_VERSION, message })
        .map_err(|error| MessageError::Malformed { what: error.to_string(), begins: String::new() })?;
    if packet.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong { length: packet.len() });
    }
    Ok(packet)
}

/// The message in a packet. The version is looked at first: a newer packet says "version", not "malformed".
///
/// # Errors
/// [`MessageError::Version`] or [`MessageError::Malformed`].
pub fn decode<M: DeserializeOwned>(packet: &[u8]) -> Result<M, MessageError> {
    if packet.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong { length: packet.len() });
    }
    let malformed = |error: serde_json::Error| MessageError::Malformed {
        what: error.to_string(),
        begins: packet[..packet.len().min(40)].escape_ascii().to_string(),
    };
    let PacketVersion { version } = serde_json::from_slice(packet).map_err(malformed)?;
    if version != PROTOCOL_VERSION {
        return Err(MessageError::Version { theirs: version });
    }
    serde_json::from_slice(packet).map_err(malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn register() -> ToManager {
        ToManager::Register(Register {
            layout: 1,
            max_processors: 8,
            request: 4,
            fixed_team: true,
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
            r#"{"version":1,"type":"register","layout":1,"max_processors":8,"request":4,"fixed_team":true,"library":"libgomp.so.1"}"#
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
            // A name has 15 bytes and a library 64; escaping and JSON make at most 6 + 1 characters of a byte.
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
            weight: 0.001,
            age_ns: u64::MAX,
        };
        let one = encode(&FromManager::Programs(Programs { programs: vec![program.clone()] })).unwrap().len();
        // Processors are space-shared: only one program of a packet can have the longest list, the others are short.
        let short = ProgramStatus { cpus: "1023".into(), ..program.clone() };
        let mut programs = vec![short; PROGRAMS_PER_PACKET - 1];
        programs.push(program);
        let all = encode(&FromManager::Programs(Programs { programs })).unwrap().len();
        assert!(one <= MAX_MESSAGE && all <= MAX_MESSAGE, "{one} {all}");
    }

    #[test]
    fn a_packet_of_the_queue_fits_whatever_the_labels_are() {
        let label = "\\u{10ffff}".repeat(64);
        let place = QueuedStatus { id: u64::MAX, pid: i32::MIN, label, request: u32::MAX, waits_ns: u64::MAX };
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
}
