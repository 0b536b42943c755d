//! Programs that wait to be started (M16).
//!
//! # Protocol
//! 1. A process says `submit` and waits on its connection. It is told how many are before it.
//! 2. In each pass as many from the front of the queue are admitted as the level leaves room for
//!    and the policy advises (`Policy::admission`, whose number stands: it keeps its own level, and
//!    lets in processes beyond it that have waited too long). An admitted process counts as running
//!    until it ends, whether or not it registers. When no process waits any more the policy is
//!    asked once more.
//! 3. It hears `admitted` and becomes its program, as one that was announced does. A process that
//!    is cancelled hears a refusal instead.
//!
//! # Invariants
//! - A1 First come, first served.
//! - A2 When nothing runs, the first in the queue is admitted whatever the policy says, unless the
//!   level is 0: a queue never stands still by itself.
//! - A3 A process that hangs up or dies leaves the queue.
//! - A4 Programs that were not submitted are not held back; they count as running.
//! - A5 A queue outlives its manager: level, places, and which processes run (`inheriting`).

use std::collections::BTreeSet;

use arena::message::{FromManager, Queue, QueuedStatus, RefusedCode, WAITING_PER_PACKET};
use policies::{AppId, AppView, Waiting};

use super::Server;
use super::bounds::{MAX_PLACES, MAX_PROGRAMS};
use crate::escape::escape;

/// The longest label, in bytes.
const MAX_LABEL: usize = 64;

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Place {
    /// Its connection.
    pub(super) serial: u64,
    pub(super) since: u64,
    /// Its place in the queue of a killed manager; a process that had none comes after all of
    /// these.
    rank: usize,
    request: u32,
    /// What it says of itself, escaped.
    label: String,
    /// It may be managed by its threads' masks when it does not register.
    attach: bool,
}

impl Place {
    /// Its place in the queue of a killed manager.
    pub(super) fn rank(&self) -> usize {
        self.rank
    }
}

impl Server {
    /// Puts a process at the end of the queue.
    pub(super) fn submit(
        &mut self,
        serial: u64,
        (request, label, attach): (u32, &str, bool),
        now: u64,
    ) {
        if self.queue.len() >= MAX_PLACES {
            return self.refuse(
                serial,
                RefusedCode::Full,
                format!("{MAX_PLACES} programs wait already"),
            );
        }
        let peer = |serial: u64| self.connections.get(&serial).map(|it| it.peer);
        let waiting = || self.queue.iter().filter_map(|place| peer(place.serial));
        // A process becomes one program: with more places it would keep others out.
        if waiting().any(|it| Some(it.pid) == peer(serial).map(|own| own.pid)) {
            return self.refuse(
                serial,
                RefusedCode::Malformed,
                "this process waits already".into(),
            );
        }
        let own = peer(serial).map(|own| own.pid);
        let started = self.announced().map(|it| it.peer).filter(|it| Some(it.pid) != own);
        if self.has_its_share(serial, waiting().chain(started).map(|it| it.uid)) {
            let places = self.places_of_client(serial);
            let reason = format!("{places} programs of this user wait or run already");
            return self.refuse(serial, RefusedCode::Full, reason);
        }
        let Some(connection) = self.connections.get_mut(&serial) else { return };
        if connection.announced || connection.program.is_some() {
            return self.refuse(serial, RefusedCode::Malformed, "this process runs already".into());
        }
        let watched = connection.watch(&self.reactor);
        connection.note_start();
        let (pid, start) = (connection.peer.pid, connection.start);
        self.check(serial, watched);
        let cut = &label.as_bytes()[..label.len().min(MAX_LABEL)];
        let (rank, since) = self.legacy.place_of(pid, start).unwrap_or((usize::MAX, now));
        let at = self.queue.iter().position(|place| place.rank > rank).unwrap_or(self.queue.len());
        let ahead = u32::try_from(at).unwrap_or(u32::MAX);
        self.queue.insert(
            at,
            Place { serial, since, rank, request: request.max(1), label: escape(cut), attach },
        );
        self.legacy.unwritten = true;
        self.say(serial, vec![FromManager::Queued { id: serial, ahead }]);
    }

    /// Takes a place away, at the word of client `by`; its process hears it.
    pub(super) fn cancel(&mut self, by: u64, id: u64) -> Result<(), String> {
        let place = self.queue.iter().position(|place| place.serial == id);
        let Some(index) = place.filter(|_| self.may_see(by, id)) else {
            return Err(format!(
                "no program waits under number {id}; `cpumgr queue` lists those that do"
            ));
        };
        self.queue.remove(index);
        self.refuse(id, RefusedCode::Cancelled, "it was cancelled".into());
        Ok(())
    }

    /// Another number of programs that may run at once; `None`: any.
    pub(super) fn change_level(&mut self, level: Option<u32>) {
        self.level = level;
        tracing::info!(?level, "another multiprogramming level");
    }

    /// Step 2. To be called when what runs, waits or may run has changed, and at `admit_again`.
    pub(super) fn admit_waiting(&mut self, now: u64) {
        self.admit_again = None;
        let connections = &self.connections;
        if !self.queue.is_empty() {
            self.queue.retain(|place| connections.contains_key(&place.serial));
            self.stirred = true;
        }
        // A policy that was told of a queue is told when it is empty, too: it may keep processors
        // free for those in it.
        if self.queue.is_empty() && !self.queue_told {
            return;
        }
        self.stirred = true;
        let running = u32::try_from(self.running()).unwrap_or(u32::MAX);
        let waiting: Vec<Waiting> = self
            .queue
            .iter()
            .map(|place| Waiting {
                id: AppId(place.serial),
                request: place.request,
                since: place.since,
            })
            .collect();
        self.queue_told = !waiting.is_empty();
        let advice = self.ledger.admission(now, &self.started(), &waiting);
        self.admit_again = advice.next;
        let mut admit =
            advice.admit.min(self.level.map_or(u32::MAX, |level| level.saturating_sub(running)));
        if running == 0 && self.level != Some(0) {
            admit = admit.max(1);
        }
        // A process that is admitted is announced: beyond this number none is (V2).
        let room = MAX_PROGRAMS.saturating_sub(self.announced().count());
        admit = admit.min(u32::try_from(room).unwrap_or(u32::MAX));
        if let Some((kept, until)) = self.legacy.kept_place(now) {
            // A1: a process that waited further in front may come back.
            let before = self.queue.iter().take_while(|place| place.rank < kept).count();
            admit = admit.min(u32::try_from(before).unwrap_or(u32::MAX));
            self.admit_again = Some(self.admit_again.map_or(until, |again| again.min(until)));
        }
        for _ in 0..admit {
            let Some(place) = self.queue.pop_front() else { break };
            if let Some(connection) = self.connections.get_mut(&place.serial) {
                connection.request = place.request;
                tracing::info!(
                    pid = connection.peer.pid.0,
                    label = place.label,
                    "a program may start"
                );
            }
            self.becomes_program(place.serial, place.attach);
            self.say(place.serial, vec![FromManager::Admitted]);
        }
    }

    /// Processes that run and have not registered, for the policy; each counts once.
    fn started(&self) -> Vec<AppView> {
        let programs =
            self.connections.values().filter(|it| it.program.is_some()).map(|it| it.peer.pid);
        let mut known: BTreeSet<_> =
            programs.chain(self.attached.values().map(|it| it.pid)).collect();
        let announced = self.connections.values().filter(|it| it.announced && it.program.is_none());
        let started = announced.filter(|it| known.insert(it.peer.pid));
        started.map(|it| AppView::new(AppId(it.serial), it.request)).collect()
    }

    /// Processes that run: registered, announced or admitted; each counts once.
    pub(super) fn running(&self) -> usize {
        let running = self.connections.values().filter(|it| it.program.is_some() || it.announced);
        running
            .map(|it| it.peer.pid)
            .chain(self.attached.values().map(|it| it.pid))
            .collect::<BTreeSet<_>>()
            .len()
    }

    /// The queue, for client `serial`, without the places of other users that it may not see.
    pub(super) fn queue_report(&self, serial: u64, now: u64) -> Vec<FromManager> {
        let waiting: Vec<QueuedStatus> = self
            .queue
            .iter()
            .filter(|place| self.may_see(serial, place.serial))
            .map(|place| QueuedStatus {
                id: place.serial,
                pid: self.connections.get(&place.serial).map_or(0, |it| it.peer.pid.0),
                label: place.label.clone(),
                request: place.request,
                waits_ns: now.saturating_sub(place.since),
            })
            .collect();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let head = Queue {
            level: self.level,
            running: number(self.running()),
            waiting: number(waiting.len()),
        };
        let parts = waiting
            .chunks(WAITING_PER_PACKET)
            .map(|part| FromManager::Waiting { places: part.to_vec() });
        std::iter::once(FromManager::Queue(head)).chain(parts).collect()
    }
}
