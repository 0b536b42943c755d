//! Any packet, read by either side: never a panic; what is read and written again reads the same.

use arena::message::{self, FromManager, MessageError, ToManager};

pub(crate) fn run(input: &[u8], planted: bool) -> u64 {
    if planted && input.windows(6).any(|part| part == b"submit") && input.ends_with(b"}}") {
        panic!("planted: a submission with an object too many");
    }
    let to = message::decode::<ToManager>(input);
    if let Ok(message) = &to {
        // A message that fits a packet fits it again, but for spellings that were shorter than
        // ours.
        if let Ok(packet) = message::encode(message) {
            assert_eq!(&message::decode::<ToManager>(&packet).expect("our own packet"), message);
        }
    }
    let from = message::decode::<FromManager>(input);
    if let Ok(message) = &from
        && let Ok(packet) = message::encode(message)
    {
        assert!(message::decode::<FromManager>(&packet).is_ok(), "our own packet");
    }
    kind(&to, |message| format!("{message:?}")) << 32 | kind(&from, |message| format!("{message:?}"))
}

/// One number for one kind of answer: which message, or what was wrong and about where.
fn kind<M>(outcome: &Result<M, MessageError>, name: impl Fn(&M) -> String) -> u64 {
    let text = match outcome {
        Ok(message) => name(message).split([' ', '(', '{']).take(2).collect::<String>(),
        Err(MessageError::Malformed { what, .. }) => what.chars().filter(|it| !it.is_ascii_digit()).take(60).collect(),
        Err(MessageError::Version { .. }) => "version".into(),
        Err(MessageError::TooLong { .. }) => "long".into(),
    };
    text.bytes().fold(0xcbf2_9ce4, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0193) & 0xffff_ffff)
}
