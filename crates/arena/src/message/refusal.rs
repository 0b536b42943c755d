//! Why the manager says no.

/// Why the manager says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "messages", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "messages", serde(rename_all = "kebab-case"))]
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

impl RefusedCode {
    const ALL: [Self; 7] = [
        Self::Version,
        Self::Malformed,
        Self::Full,
        Self::NotYours,
        Self::System,
        Self::NotPossible,
        Self::Cancelled,
    ];

    /// Its name in messages.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Malformed => "malformed",
            Self::Full => "full",
            Self::NotYours => "not-yours",
            Self::System => "system",
            Self::NotPossible => "not-possible",
            Self::Cancelled => "cancelled",
        }
    }

    /// The code of a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "messages", derive(serde::Serialize, serde::Deserialize))]
pub struct Refused {
    /// For programs.
    pub code: RefusedCode,
    /// For people.
    pub reason: String,
}
