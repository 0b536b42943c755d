//! What the history is told of programs (`history`): how much processor time each was granted, used
//! and waited for.
//!
//! # Rules
//! - Granted, and asked for beyond that, is what the books say. A program that sleeps asks for
//!   nothing.
//! - Used is the time that the kernel counts for the process since it came. It is asked with each
//!   note and when a program leaves. Of a process that has been waited for by its parent nothing is
//!   known any more: the last note stands.

use std::time::{SystemTime, UNIX_EPOCH};

use arena::message::{Account, FromManager, HistoryQuestion, RefusedCode, RunState};
use platform::process::Pid;
use policies::AppId;

use super::Server;
use crate::history::{Asker, Begun, Note};

/// The time between two notes of a program.
const PACE: u64 = 5_000_000_000;

/// Of a program that is there: its process, its user and its name.
type Known = (Pid, u32, String);

impl Server {
    /// A program came. `queued_ns`: how long it waited to be started.
    pub(super) fn account_arrival(&mut self, serial: u64, queued_ns: u64) {
        let Some((pid, ..)) = self.known(serial) else { return };
        let Some(accounting) = &mut self.accounting else { return };
        let before = self.kernel.as_ref().ran(pid).unwrap_or(0);
        let begun = Begun { began_ns: wall_ns(), before, used: 0, queued_ns };
        accounting.runs.insert(serial, begun);
    }

    /// It leaves: before its entry in the books goes.
    pub(super) fn account_exit(&mut self, serial: u64, known: Known, now: u64) {
        self.charge_last(serial, known.1, now);
        let note = self.note_of(serial, known, RunState::Ended, now);
        let Some(accounting) = &mut self.accounting else { return };
        accounting.runs.remove(&serial);
        accounting.history.note(note.into_iter().collect());
    }

    /// The end of a pass: notes of all, when it is time.
    pub(super) fn account_all(&mut self, now: u64) {
        let Some(accounting) = &mut self.accounting else { return };
        if accounting.next > now || accounting.runs.is_empty() {
            return;
        }
        accounting.next = now + PACE;
        self.note_all(RunState::Runs, now);
    }

    /// The manager ends: its programs go on.
    pub(super) fn close_accounts(&mut self, now: u64) {
        self.note_all(RunState::Cut, now);
        // What is left is written.
        drop(self.accounting.take());
    }

    /// Client `serial` asks.
    pub(super) fn tell_history(&mut self, serial: u64, question: HistoryQuestion, now: u64) {
        if self.accounting.is_none() {
            let why = "this manager keeps no history; `history` in its configuration says where \
                       one is kept";
            return self.refuse(serial, RefusedCode::NotPossible, why.into());
        }
        self.note_all(RunState::Runs, now);
        let is_all = self.may_administer(serial);
        let Some(connection) = self.connections.get(&serial) else { return };
        let asker = if is_all { Asker::Administrator } else { Asker::User(connection.peer.uid) };
        let Some(mailbox) = connection.mailbox.clone() else { return };
        let Some(accounting) = &mut self.accounting else { return };
        if let Err(why) = accounting.history.ask(question, asker, mailbox) {
            self.say(
                serial,
                vec![FromManager::Refused(arena::message::Refused {
                    code: RefusedCode::NotPossible,
                    reason: why,
                })],
            );
        }
    }

    fn note_all(&mut self, state: RunState, now: u64) {
        let Some(accounting) = &self.accounting else { return };
        let serials: Vec<u64> = accounting.runs.keys().copied().collect();
        let mut notes = Vec::with_capacity(serials.len());
        for serial in serials {
            if let Some(known) = self.known(serial) {
                notes.extend(self.note_of(serial, known, state, now));
            }
        }
        if let Some(accounting) = &mut self.accounting {
            accounting.history.note(notes);
        }
    }

    fn known(&self, serial: u64) -> Option<Known> {
        self.accounting.as_ref()?;
        let speaks = self
            .connections
            .get(&serial)
            .and_then(|it| Some((it.peer.pid, it.peer.uid, it.program.as_ref()?.name.clone())));
        speaks.or_else(|| self.attached.get(&serial).map(|it| (it.pid, it.owner, it.name.clone())))
    }

    fn note_of(&mut self, serial: u64, known: Known, state: RunState, now: u64) -> Option<Note> {
        let (granted_ns, waited_ns) = self.ledger.received(AppId(serial), now)?;
        let (pid, user, program) = known;
        let run = self.accounting.as_mut()?.runs.get_mut(&serial)?;
        if let Ok(ran) = self.kernel.as_ref().ran(pid) {
            // Where the number is another process's already, that one has used less, most often.
            run.used = run.used.max(ran.saturating_sub(run.before));
        }
        let account = Account {
            user,
            program,
            runs: 1,
            pid: Some(pid.0),
            state: Some(state),
            began_ns: run.began_ns,
            until_ns: wall_ns(),
            granted_ns,
            used_ns: run.used,
            waited_ns,
            queued_ns: run.queued_ns,
        };
        Some(Note { serial, account })
    }
}

fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
