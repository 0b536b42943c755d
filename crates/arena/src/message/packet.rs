//! Messages as packets: their version, their length, their text.

#[cfg(feature = "messages")]
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::fmt;

use super::{MAX_MESSAGE, PROTOCOL_VERSION};

/// A packet that is no message.
#[derive(Debug)]
pub enum MessageError {
    /// The sender speaks another version.
    Version {
        /// Its version.
        theirs: u32,
    },
    /// Not a message of this protocol.
    Malformed {
        /// What the parser stumbled over.
        what: String,
        /// The first bytes of the packet, escaped.
        begins: String,
    },
    /// A message that would not fit a packet.
    TooLong {
        /// Its length.
        length: usize,
    },
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version { theirs } => write!(
                f,
                "the message has protocol version {theirs}, this side speaks {PROTOCOL_VERSION}"
            ),
            Self::Malformed { what, begins } => {
                write!(f, "not a message of this protocol ({what}); it begins {begins:?}")
            }
            Self::TooLong { length } => {
                write!(f, "the message has {length} bytes, a packet holds {MAX_MESSAGE}")
            }
        }
    }
}

impl std::error::Error for MessageError {}

#[cfg(feature = "messages")]
#[derive(Serialize)]
struct PacketOut<'a, M> {
    version: u32,
    #[serde(flatten)]
    message: &'a M,
}

#[cfg(feature = "messages")]
#[derive(Deserialize)]
struct PacketVersion {
    version: u32,
}

/// A message as a packet.
///
/// # Errors
/// [`MessageError::TooLong`].
#[cfg(feature = "messages")]
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, MessageError> {
    let packet =
        serde_json::to_vec(&PacketOut { version: PROTOCOL_VERSION, message }).map_err(|error| {
            MessageError::Malformed { what: error.to_string(), begins: String::new() }
        })?;
    fitting(packet)
}

/// The message in a packet. The version is looked at first: a newer packet says "version", not
/// "malformed".
///
/// # Errors
/// [`MessageError::Version`] or [`MessageError::Malformed`].
#[cfg(feature = "messages")]
pub fn decode<M: DeserializeOwned>(packet: &[u8]) -> Result<M, MessageError> {
    if packet.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong { length: packet.len() });
    }
    let malformed = |error: serde_json::Error| malformed(packet, error.to_string());
    let PacketVersion { version } = serde_json::from_slice(packet).map_err(malformed)?;
    if version != PROTOCOL_VERSION {
        return Err(MessageError::Version { theirs: version });
    }
    serde_json::from_slice(packet).map_err(malformed)
}

/// A packet that is not too long.
pub(super) fn fitting(packet: Vec<u8>) -> Result<Vec<u8>, MessageError> {
    if packet.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong { length: packet.len() });
    }
    Ok(packet)
}

/// The error of a packet that is no message.
pub(super) fn malformed(packet: &[u8], what: String) -> MessageError {
    let begins = packet[..packet.len().min(40)].escape_ascii().to_string();
    MessageError::Malformed { what, begins }
}
