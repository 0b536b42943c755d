//! Why the manager says no.

use serde::{Deserialize, Serialize};

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
    /// A client cancelled what was submitted.
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
