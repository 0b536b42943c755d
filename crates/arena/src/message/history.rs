//! Questions for what programs had and used, and their answers.

use serde::{Deserialize, Serialize};

/// Rows in one [`FromManager::Accounts`](super::FromManager::Accounts) packet: each is at most some
/// 600 bytes, whatever its program is called.
pub const ACCOUNTS_PER_PACKET: usize = 32;

/// Which programs are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryQuestion {
    /// Those that were there after this time, in ns of the wall clock since 1970; 0: all.
    #[serde(default)]
    pub since_ns: u64,
    /// Those of this user; `None`: of all users that the asker may see.
    #[serde(default)]
    pub user: Option<u32>,
    /// Those of this name, as the kernel has it; `None`: of any.
    #[serde(default)]
    pub program: Option<String>,
    /// A row for each run, and not one for all runs of a program by a user.
    #[serde(default)]
    pub each: bool,
}

/// The head of an answer; [`FromManager::Accounts`](super::FromManager::Accounts) packets follow
/// until all rows are named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryHead {
    /// The file that keeps it, escaped.
    pub file: String,
    /// How many rows the packets that follow name.
    pub row_count: u32,
    /// Rows that there is no room for in an answer, the oldest.
    pub left_out: u64,
    /// What keeps it from being written now, escaped; `None`: it is.
    #[serde(default)]
    pub fault: Option<String>,
}

/// How a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// It is there.
    Runs,
    /// It left, or ended.
    Ended,
    /// Its manager ended while it ran; the next one has a row of its own for it.
    Cut,
}

/// What a program was given and used: one run, or all that a user had of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Whose it is.
    pub user: u32,
    /// What the kernel calls it, escaped.
    pub program: String,
    /// How many runs these are.
    pub runs: u64,
    /// The process of a single run.
    #[serde(default)]
    pub pid: Option<i32>,
    /// How a single run stands.
    #[serde(default)]
    pub state: Option<RunState>,
    /// When the first one came, in ns of the wall clock since 1970.
    pub began_ns: u64,
    /// When the last one was seen last.
    pub until_ns: u64,
    /// Processor time that it was granted: a shared processor counts in parts.
    pub granted_ns: u64,
    /// Processor time that it used, as the kernel counts it.
    pub used_ns: u64,
    /// Processor time that it asked for and was not granted.
    pub waited_ns: u64,
    /// How long it waited to be started (`cpumgr submit`).
    pub queued_ns: u64,
}
