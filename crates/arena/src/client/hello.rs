//! What a program says of itself.

use platform::affinity::CpuSet;

/// What a program states at registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The most processors that it could use.
    pub max_processors: u32,
    /// The processors that it wants now.
    pub request: u32,
    /// Its teams have a fixed size.
    pub fixed_team: bool,
    /// The library that speaks for it, for reports; cut after 64 bytes.
    pub library: String,
    /// The processors on which it stays whatever it is granted (D14): the manager grants it no
    /// others, as long as it has some of them. `None`: what the kernel lets it run on counts, and
    /// bounds how many are granted, not which.
    pub within: Option<CpuSet>,
    /// Its processors are for processes that it starts: what it uses itself says nothing.
    pub broker: bool,
}
