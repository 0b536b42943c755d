//! Reports on the queue of processes that wait to be started.

use serde::{Deserialize, Serialize};

use super::submission::ProcessorRange;

/// Places in one [`FromManager::Waiting`](super::FromManager::Waiting) packet: each is at most some
/// 1300 bytes, whatever its label, and 32 more for each submission that it waits for.
pub const WAITING_PER_PACKET: usize = 16;

/// The head of a report on the queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Programs that may run at once; `None`: any number.
    pub level: Option<u32>,
    /// Programs that run.
    pub running: u32,
    /// Programs that wait, named by the packets that follow.
    pub waiting: u32,
    /// Users' programs wait in the order of what their users consumed; after this time that counts
    /// by half. `None`: first come, first served.
    #[serde(default)]
    pub half_life_ns: Option<u64>,
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
    /// After which submissions it starts, as `ok:7`.
    #[serde(default)]
    pub after: Vec<String>,
    /// How long it goes on waiting at most; `None`: as long as it takes.
    #[serde(default)]
    pub within_ns: Option<u64>,
    /// The processors that it keeps from its start on (`submit --procs`).
    #[serde(default)]
    pub processors: Option<ProcessorRange>,
    /// For how long it runs at most, as it says.
    #[serde(default)]
    pub limit_ns: Option<u64>,
    /// In what time it has its processors at the latest, as long as those that run keep their
    /// limits; of the first job for which too few are free.
    #[serde(default)]
    pub begins_in_ns: Option<u64>,
    /// Whose it is.
    #[serde(default)]
    pub user: Option<u32>,
    /// What that user consumed, in processor time, where the queue is ordered by that.
    #[serde(default)]
    pub consumed_ns: Option<u64>,
    /// Why it never begins as things are now, where that is so: it fitted when it came.
    #[serde(default)]
    pub never_begins: Option<String>,
}
