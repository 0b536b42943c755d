//! Every message that there is, as the manager and its tools have them.

use serde::{Deserialize, Serialize};

use super::control::Control;
use super::history::{Account, HistoryHead, HistoryQuestion};
use super::measures::Measures;
use super::queue::{Queue, QueuedStatus};
use super::refusal::Refused;
use super::registration::{Register, Registered};
use super::status::{Narrow, Programs, Status};
use super::submission::Submit;

/// What a program or a tool says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToManager {
    /// "I am a parallel program."
    Register(Register),
    /// "Which programs are there, and what does each have?"
    Status,
    /// "This process is about to become a parallel program": the manager does not leave for
    /// idleness while it lives.
    Announce {
        /// When it turns out to have several threads and not to speak the protocol, it may be
        /// managed by their masks.
        #[serde(default = "yes")]
        attach: bool,
    },
    /// "Do it like this from now on."
    Control(Control),
    /// "I am going to be a program, as soon as I may start."
    Submit(Submit),
    /// "That process, which was submitted and which I started, has ended."
    Outcome {
        /// Which; not waited for yet, so that its number is no other process's.
        pid: i32,
        /// Its exit code; 128 and the signal's number where a signal ended it.
        code: i32,
    },
    /// "Which processes wait to be started?"
    Queue,
    /// "What did you count and time?"
    Measures,
    /// "What did programs have and use?"
    History(HistoryQuestion),
    /// "This process, which is registered, wants to be one of the domain" (`domain`).
    Join,
}

fn yes() -> bool {
    true
}

/// What the manager answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromManager {
    /// "You are in." With four descriptors: the `down` area (read-only), the `up` area, the
    /// doorbell (eventfd), the page of all programs (read-only).
    Registered(Registered),
    /// The answer to [`ToManager::Announce`].
    Announced {
        /// Of a manager that its starter left fewer processors than the machine has.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        narrow: Option<Narrow>,
        /// What else the manager kept of its starter, as in [`Status::kept`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<String>,
    },
    /// The answer to a [`ToManager::Control`]: it is so now.
    Done,
    /// The answer to [`Control::Reload`]: what the configuration says is so now.
    Reloaded {
        /// Keys whose values changed, and that are read at a start only.
        later: Vec<String>,
        /// What of it cannot be as it says on this machine, in words.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        notes: Vec<String>,
    },
    /// The answer to a [`ToManager::Join`], with one descriptor: the domain's area.
    Joined {
        /// The program's line in it.
        line: u32,
    },
    /// The answer to a [`ToManager::Submit`]: it waits.
    Queued {
        /// Its number.
        id: u64,
        /// How many wait before it.
        ahead: u32,
    },
    /// The end of the waiting: it may start.
    Admitted,
    /// The head of a report on the queue; [`FromManager::Waiting`] packets follow until all are
    /// named.
    Queue(Queue),
    /// The answer to a [`ToManager::Measures`].
    Measures(Box<Measures>),
    /// The head of an answer to a [`ToManager::History`]; [`FromManager::Accounts`] packets follow
    /// until all rows are named.
    History(HistoryHead),
    /// A part of it.
    Accounts {
        /// The latest first.
        rows: Vec<Account>,
    },
    /// A part of a report on the queue.
    Waiting {
        /// In the order in which they start.
        places: Vec<QueuedStatus>,
    },
    /// "No", and why. The connection is closed afterwards.
    Refused(Refused),
    /// The head of a status report; [`FromManager::Programs`] packets follow until all programs are
    /// named.
    Status(Box<Status>),
    /// A part of a status report.
    Programs(Programs),
    /// "I am leaving." The connection is closed afterwards; programs go on without a manager.
    Leaving,
    /// "Your process registered anew": this registration is over, and is not to be made again. The
    /// connection is closed afterwards.
    Replaced,
}
