//! Who may start: advice on the number of applications that run at once.
//!
//! # Protocol
//! A manager that holds back programs keeps them in a queue, first come first served. At each event
//! it asks [`Policy::admission`](crate::Policy::admission) with those that run (admitted ones that
//! have not registered yet among them) and those that wait, also once when nobody waits any more
//! (they may have gone away), admits as many from the front of the queue as the answer says, and
//! then asks for a decision. Only a limit of its own makes it admit fewer: the level of the answer
//! is for those who look, since who has waited too long may be admitted beyond it. A manager that
//! admits everybody at once never asks: policies answer any number of applications.

use serde::{Deserialize, Serialize};

use crate::snapshot::{AppId, Nanos};

/// An application that is not admitted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// Which application.
    pub id: AppId,
    /// Processors that it wants.
    pub request: u32,
    /// Since when it waits.
    pub since: Nanos,
}

/// How many may start now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// So many from the front of the queue.
    pub admit: u32,
    /// The number of applications that should run at once; `None`: any.
    pub level: Option<u32>,
    /// Ask again at this time, if nothing happens earlier: the first in the queue has then waited
    /// long enough.
    pub next: Option<Nanos>,
}

impl Admission {
    /// Everybody starts.
    #[must_use]
    pub fn everybody(queue: &[Waiting]) -> Self {
        Self { admit: u32::try_from(queue.len()).unwrap_or(u32::MAX), level: None, next: None }
    }
}
