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
//! - A1 First come, first served, of those whose dependencies are met (`submissions`), or, with a
//!   fair share, those of the user that consumed least first (`shares`). One that waits for another
//!   submission is passed by those after it. Jobs with a number of processors pass others where
//!   that delays none (`jobs`).
//! - A2 When nothing runs, the first in the queue is admitted whatever the policy says, unless the
//!   level is 0: a queue never stands still by itself.
//! - A3 A process that hangs up or dies leaves the queue.
//! - A4 Programs that were not submitted are not held back; they count as running.
//! - A6 One whose dependencies cannot be met any more, or whose time to begin is over, leaves the
//!   queue, and its process hears why.
//! - A5 A queue outlives its manager: level, places, and which processes run (`inheriting`).
//! - A7 A process that waits does not run, also where it was admitted or announced before and has
//!   become `cpumgr submit` since: it waits for others, never for itself, and keeps its number
//!   (`submissions`, N5).

use std::collections::BTreeSet;

use arena::message::{
    After, FromManager, MAX_AFTER, ProcessorRange, Queue, QueuedStatus, RefusedCode, Submit,
    WAITING_PER_PACKET,
};
use platform::process::Pid;
use policies::{AppId, AppView, Waiting};

use super::Server;
use super::bounds::{MAX_PLACES, MAX_PROGRAMS};
use super::connection::Connection;
use crate::duration;
use crate::escape::escape;
use crate::submissions::Verdict;

/// The longest label, in bytes.
const MAX_LABEL: usize = 64;

/// A place in the queue.
#[derive(Debug)]
pub(super) struct Place {
    /// Its connection.
    pub(super) serial: u64,
    /// Its number for people.
    pub(super) id: u64,
    pub(super) since: u64,
    /// After which submissions it starts.
    after: Vec<After>,
    /// When it has waited long enough, and how long that is.
    until: Option<(u64, u64)>,
    /// Its place in the queue of a killed manager; a process that had none comes after all of
    /// these.
    rank: usize,
    request: u32,
    /// What it says of itself, escaped.
    label: String,
    /// It may be managed by its threads' masks when it does not register.
    attach: bool,
    /// For how long it runs at most, and on how many processors (`jobs`).
    pub(super) limit_ns: Option<u64>,
    pub(super) processors: Option<ProcessorRange>,
    /// By the log, which says so once.
    pub(super) is_said_to_never_begin: bool,
}

impl Place {
    /// Its place in the queue of a killed manager.
    pub(super) fn rank(&self) -> usize {
        self.rank
    }
}

/// What a client said, within bounds.
fn checked(range: ProcessorRange) -> ProcessorRange {
    let least = range.least.max(1);
    ProcessorRange { least, most: range.most.max(least) }
}

impl Server {
    /// Puts a process at the end of the queue.
    pub(super) fn submit(&mut self, serial: u64, submit: &Submit, now: u64) {
        let Submit { request, ref label, attach, ref after, within_ns, reported, .. } = *submit;
        if let Err(reason) = self.check_dependencies(serial, after) {
            return self.refuse(serial, RefusedCode::NotPossible, reason);
        }
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
        let (pid, start, uid) = (connection.peer.pid, connection.start, connection.peer.uid);
        self.check(serial, watched);
        let cut = &label.as_bytes()[..label.len().min(MAX_LABEL)];
        let (class, purpose) = (submit.class.as_deref(), submit.purpose.as_deref());
        if let Err(reason) = self.place_submission(serial, class, purpose) {
            return self.refuse(serial, RefusedCode::NotPossible, reason);
        }
        let place = self.legacy.place_of(pid, start);
        let processors = submit.processors.map(checked);
        // One that waited under a manager where it fitted keeps its place.
        if place.is_none()
            && let Some(ProcessorRange { least, .. }) = processors
            && let Some(why) = self.never_begins(serial, least)
        {
            let reason = format!("a job of {least} processors never begins here: {why}");
            return self.refuse(serial, RefusedCode::NotPossible, reason);
        }
        let before = place.and_then(|_| self.submissions.of_process(pid));
        let before = before.or_else(|| self.own_number(pid));
        let (rank, since) = place.unwrap_or((usize::MAX, now));
        let id = self.submissions.enter(before, uid, pid, reported);
        let until = within_ns.map(|within| (since.saturating_add(within), within));
        let at = self.queue.iter().position(|place| place.rank > rank).unwrap_or(self.queue.len());
        self.queue.insert(
            at,
            Place {
                serial,
                id,
                since,
                after: after.clone(),
                until,
                rank,
                request: request.max(1),
                label: escape(cut),
                attach,
                limit_ns: submit.limit_ns,
                processors,
                is_said_to_never_begin: false,
            },
        );
        if rank != usize::MAX {
            self.tell_of_jobs_that_never_begin();
        }
        self.legacy.unwritten = true;
        let ahead = self.in_order(now).iter().take_while(|place| place.id != id).count();
        let ahead = u32::try_from(ahead).unwrap_or(u32::MAX);
        self.say(serial, vec![FromManager::Queued { id, ahead }]);
    }

    /// Takes a place away, at the word of client `by`; its process hears it.
    pub(super) fn cancel(&mut self, by: u64, id: u64) -> Result<(), String> {
        let place = self.queue.iter().position(|place| place.id == id);
        let Some(index) = place.filter(|at| self.may_see(by, self.queue[*at].serial)) else {
            return Err(format!(
                "no program waits under number {id}; `cpumgr queue` lists those that do"
            ));
        };
        self.take_out(index, "it was cancelled".into());
        Ok(())
    }

    /// What a submission depends on is there, and its user's.
    fn check_dependencies(&self, serial: u64, after: &[After]) -> Result<(), String> {
        if after.len() > MAX_AFTER {
            return Err(format!("a submission starts after at most {MAX_AFTER} others"));
        }
        let uid = self.connections.get(&serial).map_or(u32::MAX, |it| it.peer.uid);
        let sees_all = self.may_administer(serial);
        let known = |it: &&After| self.submissions.is_known(it.id, uid, sees_all);
        match after.iter().find(|it| !known(it)) {
            Some(it) => Err(format!(
                "there is and was no submission {} of yours; `cpumgr queue` shows those that wait",
                it.id
            )),
            None => Ok(()),
        }
    }

    pub(super) fn may_begin(&self, place: &Place) -> bool {
        self.submissions.verdict(&place.after) == Verdict::Met
    }

    /// A6. Returns when that is to be looked at again.
    fn heed_dependencies(&mut self, now: u64) -> Option<u64> {
        if self.legacy.is_over(now) {
            // Those that waited under a killed manager and did not come back.
            let waits = self.queue.iter().map(|it| it.serial);
            let runs = self.announced().map(|it| it.serial);
            let peer = |serial: u64| Some(self.connections.get(&serial)?.peer.pid);
            let there: BTreeSet<Pid> = waits.chain(runs).filter_map(peer).collect();
            self.submissions.end_those_that_are_gone(now, |pid| there.contains(&pid));
        }
        let again = self.submissions.give_up(now);
        // What leaves the queue may be what others wait for.
        loop {
            let over = self.queue.iter().enumerate().find_map(|(at, place)| {
                if let Verdict::Never(why) = self.submissions.verdict(&place.after) {
                    return Some((at, why));
                }
                let (_, within) = place.until.filter(|(until, _)| *until <= now)?;
                let within = duration::show(std::time::Duration::from_nanos(within));
                Some((at, format!("it could not begin within {within} (--deadline)")))
            });
            let Some((at, why)) = over else { break };
            self.take_out(at, why);
        }
        let deadlines = self.queue.iter().filter_map(|place| Some(place.until?.0));
        deadlines.chain(again).min()
    }

    /// A process leaves the queue, and hears why.
    fn take_out(&mut self, at: usize, why: String) {
        let Some(place) = self.queue.remove(at) else { return };
        self.submissions.is_cancelled(place.id);
        self.legacy.unwritten = true;
        self.refuse(place.serial, RefusedCode::Cancelled, why);
    }

    /// Client `serial` says how the process that it started ended.
    pub(super) fn hear_outcome(&mut self, serial: u64, pid: i32, code: i32) {
        let uid = self.connections.get(&serial).map_or(u32::MAX, |it| it.peer.uid);
        if !self.submissions.hear(uid, Pid(pid), code) {
            let reason = format!("process {pid} was not submitted, or its end is known");
            return self.refuse(serial, RefusedCode::NotPossible, reason);
        }
        self.legacy.unwritten = true;
        self.say(serial, vec![FromManager::Done]);
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
            let submissions = &mut self.submissions;
            self.queue.retain(|place| {
                let is_there = connections.contains_key(&place.serial);
                if !is_there {
                    submissions.is_cancelled(place.id);
                }
                is_there
            });
            self.stirred = true;
        }
        let again = self.heed_dependencies(now);
        // A policy that was told of a queue is told when it is empty, too: it may keep processors
        // free for those in it.
        if self.queue.is_empty() && !self.queue_told {
            return;
        }
        self.stirred = true;
        let had_told = self.queue_told;
        self.charge_all(now);
        let running = u32::try_from(self.running()).unwrap_or(u32::MAX);
        let waiting: Vec<Waiting> = self
            .ready(now)
            .into_iter()
            .map(|place| Waiting {
                id: AppId(place.serial),
                request: place.request,
                since: place.since,
            })
            .collect();
        self.queue_told = !waiting.is_empty();
        if waiting.is_empty() && !had_told {
            self.admit_again = again;
            return;
        }
        let advice = self.ledger.admission(now, &self.started(), &waiting);
        self.admit_again = advice.next.into_iter().chain(again).min();
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
            let may_begin = self.ready(now);
            let before = may_begin.iter().take_while(|place| place.rank < kept).count();
            admit = admit.min(u32::try_from(before).unwrap_or(u32::MAX));
            self.admit_again = Some(self.admit_again.map_or(until, |again| again.min(until)));
        }
        for start in self.next_starts(now).into_iter().take(admit as usize) {
            let at = self.queue.iter().position(|place| place.id == start.id);
            let Some(place) = at.and_then(|at| self.queue.remove(at)) else { continue };
            self.submissions.begins(place.id);
            if let Some(connection) = self.connections.get_mut(&place.serial) {
                connection.request = place.request;
                start.note(connection);
                connection.queued_ns = now.saturating_sub(place.since);
                connection.submission = Some(place.id);
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
    pub(super) fn started(&self) -> Vec<AppView> {
        let programs =
            self.connections.values().filter(|it| it.program.is_some()).map(|it| it.peer.pid);
        let mut known: BTreeSet<_> = programs
            .chain(self.attached.values().map(|it| it.pid))
            .chain(self.waiting_processes())
            .collect();
        let announced = self.connections.values().filter(|it| it.announced && it.program.is_none());
        let started = announced.filter(|it| known.insert(it.peer.pid));
        started.map(|it| AppView::new(AppId(it.serial), it.request)).collect()
    }

    /// Processes that run: registered, announced or admitted; each counts once. None that
    /// waits does: it would wait for itself.
    pub(super) fn running(&self) -> usize {
        let waits = self.waiting_processes();
        let runs = |it: &&Connection| it.runs(&waits);
        let running = self.connections.values().filter(runs);
        running
            .map(|it| it.peer.pid)
            .chain(self.attached.values().map(|it| it.pid))
            .collect::<BTreeSet<_>>()
            .len()
    }

    pub(super) fn waiting_processes(&self) -> BTreeSet<Pid> {
        let connection = |place: &Place| self.connections.get(&place.serial);
        self.queue.iter().filter_map(connection).map(|it| it.peer.pid).collect()
    }

    /// The number of a process that was admitted and submits itself anew: it is the same
    /// submission, which ends with that process.
    fn own_number(&self, pid: Pid) -> Option<u64> {
        self.announced().filter(|it| it.peer.pid == pid).find_map(|it| it.submission)
    }

    /// The queue, for client `serial`, without the places of other users that it may not see.
    pub(super) fn queue_report(&mut self, serial: u64, now: u64) -> Vec<FromManager> {
        self.charge_all(now);
        let user = |place: &Place| self.connections.get(&place.serial).map(|it| it.peer.uid);
        let reserved = self.reservation(now);
        let waiting: Vec<QueuedStatus> = self
            .in_order(now)
            .into_iter()
            .filter(|place| self.may_see(serial, place.serial))
            .map(|place| QueuedStatus {
                id: place.id,
                pid: self.connections.get(&place.serial).map_or(0, |it| it.peer.pid.0),
                label: place.label.clone(),
                request: place.request,
                waits_ns: now.saturating_sub(place.since),
                after: place.after.iter().map(After::to_string).collect(),
                within_ns: place.until.map(|(until, _)| until.saturating_sub(now)),
                processors: place.processors,
                limit_ns: place.limit_ns,
                begins_in_ns: reserved.filter(|(id, _)| *id == place.id).map(|(_, time)| time),
                user: user(place),
                consumed_ns: user(place).and_then(|user| self.consumed(user, now)),
                never_begins: place
                    .processors
                    .and_then(|of| self.why_it_cannot_begin(place.serial, of.least)),
            })
            .collect();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let head = Queue {
            level: self.level,
            running: number(self.running()),
            waiting: number(waiting.len()),
            half_life_ns: self.half_life(),
        };
        let parts = waiting
            .chunks(WAITING_PER_PACKET)
            .map(|part| FromManager::Waiting { places: part.to_vec() });
        std::iter::once(FromManager::Queue(head)).chain(parts).collect()
    }
}
