//! What programs were granted, used and waited for, kept beyond their end and the manager's
//! (`cpumgr history`).
//!
//! # Protocol
//! 1. The scheduler notes each program that is there every few seconds, and once more when it
//!    leaves (`server::accounting`). A note is what is known of a run so far: the next one replaces
//!    it. It leaves notes in a queue of bounded size and never waits.
//! 2. A thread of its own (`writer`) takes them, samples nothing itself, and writes them into an
//!    embedded database (`store`): runs that ended within a second, others within ten.
//! 3. A question goes to that thread, too, with the mailbox of the client that asks. It reads what
//!    is stored and what is not written yet, and puts the answer into the mailbox.
//!
//! # Invariants
//! - H1 The scheduler neither reads nor writes the file. A slow, full or broken disk costs notes,
//!   and nothing else: it is told once in the log, and again when it is over.
//! - H2 A manager that is killed at any instant leaves a database that opens: each write is a
//!   transaction. What is missing are the notes of the last ten seconds.
//! - H3 The file has a bound of size and of age: what is older goes first.
//! - H4 One manager writes a file: it is locked. A second one keeps no history, and says so once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use arena::message::{Account, HistoryQuestion, RunState};

use crate::api::Mailbox;

mod place;
mod question;
mod runs;
mod store;
mod writer;

pub use place::Keep;
pub(crate) use place::{is_usual, place};
pub(crate) use question::{Answer, Asker};
pub(crate) use runs::{Accounting, Begun};
pub(crate) use store::{Store, StoreError};
use writer::Writer;

/// What the queue holds: notes of all programs, and questions.
const QUEUE: usize = 64;
/// Runs that ended and whose note found no room in the queue.
const MOST_UNSENT: usize = 1024;

/// The bounds of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Its bytes.
    pub(crate) size: u64,
    /// How old a run may be.
    pub(crate) age: Duration,
}

/// One run of a program under one manager, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Its number in this manager's life.
    pub(crate) serial: u64,
    /// What is kept: `runs` is 1, with process and state.
    pub(crate) account: Account,
}

impl Note {
    /// The run is over.
    fn is_last(&self) -> bool {
        self.account.state != Some(RunState::Runs)
    }
}

/// What the scheduler leaves for the thread.
enum Item {
    Notes(Vec<Note>),
    Question {
        question: HistoryQuestion,
        asker: Asker,
        mailbox: Mailbox,
    },
    /// What users consumed, as it counts now: by half after each half-life.
    Consumed {
        half_life: u64,
        tell: SyncSender<BTreeMap<u32, f64>>,
    },
    End,
}

/// The scheduler's side.
#[derive(Debug)]
pub(crate) struct History {
    queue: SyncSender<Item>,
    thread: Option<JoinHandle<()>>,
    unsent: Vec<Note>,
    /// Last notes for which there was no room anywhere.
    lost: u64,
}

impl std::fmt::Debug for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Notes(_) => "notes",
            Self::Question { .. } => "a question",
            Self::Consumed { .. } => "a question for what users consumed",
            Self::End => "the end",
        })
    }
}

impl History {
    /// Begins to keep one at `path`, by a thread. The file is opened there: what is wrong with it
    /// is in the log.
    ///
    /// # Errors
    /// When there is no thread.
    pub(crate) fn begin(path: PathBuf, bounds: Bounds) -> std::io::Result<Self> {
        let (queue, items): (_, Receiver<Item>) = sync_channel(QUEUE);
        let thread = std::thread::Builder::new()
            .name("history".into())
            .spawn(move || Writer::new(path, bounds).run(&items))?;
        Ok(Self { queue, thread: Some(thread), unsent: Vec::new(), lost: 0 })
    }

    /// Leaves notes. Those of runs that go on are dropped where there is no room: the next ones
    /// come soon.
    pub(crate) fn note(&mut self, notes: Vec<Note>) {
        let mut all = std::mem::take(&mut self.unsent);
        all.extend(notes);
        if all.is_empty() {
            return;
        }
        let Err(
            TrySendError::Full(Item::Notes(mut back))
            | TrySendError::Disconnected(Item::Notes(mut back)),
        ) = self.queue.try_send(Item::Notes(all))
        else {
            return;
        };
        back.retain(Note::is_last);
        let beyond = back.len().saturating_sub(MOST_UNSENT);
        back.drain(..beyond);
        if self.lost == 0 && beyond > 0 {
            tracing::warn!("the history lags: runs that ended are lost to it");
        }
        self.lost += beyond as u64;
        self.unsent = back;
    }

    /// Has a question answered.
    ///
    /// # Errors
    /// In words, when too many wait already.
    pub(crate) fn ask(
        &mut self,
        question: HistoryQuestion,
        asker: Asker,
        mailbox: Mailbox,
    ) -> Result<(), String> {
        let asked = self.queue.try_send(Item::Question { question, asker, mailbox });
        asked.map_err(|_| "the history is busy; ask again in a moment".to_owned())
    }
}

impl History {
    /// What users consumed by all that is kept, as it counts now; said later. `None`: the queue is
    /// full.
    pub(crate) fn consumed(&mut self, half_life: u64) -> Option<Receiver<BTreeMap<u32, f64>>> {
        let (tell, told) = sync_channel(1);
        self.queue.try_send(Item::Consumed { half_life, tell }).ok()?;
        Some(told)
    }
}

impl Drop for History {
    /// What was left is written.
    fn drop(&mut self) {
        self.note(Vec::new());
        // It may wait for a place: the thread takes what is there, or has ended.
        let _taken = self.queue.send(Item::End);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the writer of the history panicked");
        }
    }
}

#[cfg(test)]
mod tests;
