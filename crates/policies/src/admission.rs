//! Which applications may start: advice on the number of applications that run at once.
//!
//! # Protocol
//! A manager that holds back programs keeps them in a queue, first come, first served. At each
//! event the manager asks [`Policy::admission`](crate::Policy::admission). It passes the
//! applications that run (with the admitted ones that have not registered yet) and the applications
//! that wait. It asks once more when none waits any longer, because the waiting ones may have gone
//! away. It then admits as many from the front of the queue as the answer says, and asks for a
//! decision. Only a limit of its own makes the manager admit fewer. The level in the answer is for
//! display only: an application that has waited too long may be admitted beyond the level. A
//! manager that admits every application at once never asks: policies answer for any number of
//! applications.

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
    /// How many to admit from the front of the queue.
    pub admit: u32,
    /// The number of applications that should run at once; `None`: any.
    pub level: Option<u32>,
    /// Ask again at this time, if nothing happens earlier: the first in the queue has then waited
    /// long enough.
    pub next: Option<Nanos>,
}

impl Admission {
    /// All applications start.
    #[must_use]
    pub fn everybody(queue: &[Waiting]) -> Self {
        Self { admit: u32::try_from(queue.len()).unwrap_or(u32::MAX), level: None, next: None }
    }
}
