//! What a program states when it registers, and what the manager answers to that.

/// The longest library name that a program may state, in bytes.
pub const MAX_LIBRARY: usize = 64;

/// What a program states at registration. Its identity comes from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "messages", derive(serde::Serialize, serde::Deserialize))]
pub struct Register {
    /// The layout version that the program speaks.
    pub layout: u32,
    /// The most processors that it could use.
    pub max_processors: u32,
    /// The processors that it wants now.
    pub request: u32,
    /// Its teams have a fixed size.
    #[cfg_attr(feature = "messages", serde(default))]
    pub fixed_team: bool,
    /// Its processors are for processes that it starts (a jobserver): what it uses itself says
    /// nothing of whether it uses what it has.
    #[cfg_attr(feature = "messages", serde(default))]
    pub broker: bool,
    /// The library that speaks for it, for reports.
    #[cfg_attr(feature = "messages", serde(default))]
    pub library: String,
    /// What it holds from a manager that is gone.
    #[cfg_attr(feature = "messages", serde(default, skip_serializing_if = "Option::is_none"))]
    pub held: Option<Held>,
    /// The processors on which it stays whatever it is given (places, its mask), in any order: it
    /// shall be given no others.
    #[cfg_attr(feature = "messages", serde(default, skip_serializing_if = "Option::is_none"))]
    pub within: Option<Vec<u32>>,
}

/// What a program holds from a manager that is gone. A wish: the next manager gives it as far as
/// others do not have it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "messages", derive(serde::Serialize, serde::Deserialize))]
pub struct Held {
    /// The epoch of its last grant: the next one continues it.
    pub epoch: u32,
    /// The processors of its last grant, in any order.
    pub cpus: Vec<u32>,
}

/// The manager's answer to a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "messages", derive(serde::Serialize, serde::Deserialize))]
pub struct Registered {
    /// The program's number in this manager's life.
    pub slot: u64,
}
