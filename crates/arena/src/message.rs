//! The messages of the manager's socket: one packet, one JSON object, a version in each.
//!
//! Descriptors (the areas and the doorbell) ride along with [`Heard::Registered`]. Identity is no
//! part of any message: the manager takes it from the kernel. Unknown fields are ignored, so that a
//! field may be added; a change of meaning is a new [`PROTOCOL_VERSION`].
//!
//! What a managed program itself says and hears is written and read here ([`Said`], [`Heard`]),
//! without a crate for JSON, so that programs that link the library are built without one. Feature
//! `messages` has every message, with serde, for the manager and its tools. A test holds both to
//! the same packets.

#[cfg(feature = "messages")]
mod control;
#[cfg(feature = "messages")]
mod dialogue;
#[cfg(feature = "messages")]
mod history;
#[cfg(feature = "messages")]
mod measures;
mod object;
mod packet;
mod program;
#[cfg(feature = "messages")]
mod queue;
mod refusal;
mod registration;
#[cfg(feature = "messages")]
mod status;
#[cfg(feature = "messages")]
mod submission;

#[cfg(feature = "messages")]
pub use control::Control;
#[cfg(feature = "messages")]
pub use dialogue::{FromManager, ToManager};
#[cfg(feature = "messages")]
pub use history::{ACCOUNTS_PER_PACKET, Account, HistoryHead, HistoryQuestion, RunState};
#[cfg(feature = "messages")]
pub use measures::{BUCKETS, Histogram, Measures};
pub use packet::MessageError;
#[cfg(feature = "messages")]
pub use packet::{decode, encode};
pub use program::{Heard, Said};
#[cfg(feature = "messages")]
pub use queue::{Queue, QueuedStatus, WAITING_PER_PACKET};
pub use refusal::{Refused, RefusedCode};
pub use registration::{Held, MAX_LIBRARY, Register, Registered};
#[cfg(feature = "messages")]
pub use status::{Narrow, PROGRAMS_PER_PACKET, ProgramStatus, Programs, Status};
#[cfg(feature = "messages")]
pub use submission::{After, Condition, MAX_AFTER, ProcessorRange, Submit};

/// The version of the messages. Another version is refused.
pub const PROTOCOL_VERSION: u32 = 1;
/// The longest packet, either way.
pub const MAX_MESSAGE: usize = 32 * 1024;

#[cfg(all(test, feature = "messages"))]
mod tests;
