//! Messages as packets: their version, their length, their text.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{MAX_MESSAGE, PROTOCOL_VERSION};

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
    let packet =
        serde_json::to_vec(&PacketOut { version: PROTOCOL_VERSION, message }).map_err(|error| {
            MessageError::Malformed { what: error.to_string(), begins: String::new() }
        })?;
    if packet.len() > MAX_MESSAGE {
        return Err(MessageError::TooLong { length: packet.len() });
    }
    Ok(packet)
}

/// The message in a packet. The version is looked at first: a newer packet says "version", not
/// "malformed".
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
