//! What clients say, and what they are answered.

use std::os::fd::AsFd;

use arena::message::{FromManager, Refused, RefusedCode, Register, ToManager};
use platform::process::{self, Pid};
use policies::{AppId, Cause};

use super::Server;
use super::bounds::{FIRST_LOOK, MAX_PROGRAMS};
use super::connection::{Connection, Look};
use super::program::Program;
use crate::api::{Answer, Call};
use crate::escape::escape;
use crate::limits::Weight;
use crate::reactor::Role;
use crate::trace;

/// Characters of a refusal: each takes at most 12 bytes of the 32 KiB of a packet.
const MAX_REASON: usize = 2000;

/// Characters of a reason that stands in the report, of which there may be hundreds in one packet.
const MAX_NOTE: usize = 100;

impl Server {
    /// A client did something.
    pub(super) fn called(&mut self, serial: u64, call: Call, now: u64) {
        if !self.is_own_look(serial, &call) {
            self.idle_since = now;
        }
        match call {
            Call::Opened { peer, pidfd, mailbox, of_admins } => {
                let mut connection = Connection::new(serial, Some(mailbox), peer, pidfd);
                connection.of_admins = of_admins;
                self.connections.insert(serial, connection);
            }
            // A client that was taken down earlier in this pass.
            Call::Said(_) if self.doomed.contains(&serial) => {}
            Call::Said(message) => self.hear(serial, message, now),
            Call::Closed => self.hung_up(serial, now),
        }
    }

    /// The manager's listener for browsers asks again on the connection that it has: no reader
    /// does that.
    fn is_own_look(&self, serial: u64, call: &Call) -> bool {
        matches!(call, Call::Said(ToManager::Status))
            && self.connections.get(&serial).is_some_and(|it| it.peer.pid == process::current_pid())
    }

    fn hear(&mut self, serial: u64, message: ToManager, now: u64) {
        match message {
            ToManager::Register(register) => self.register(serial, &register, now),
            ToManager::Status => {
                let report = self.report(serial, now);
                self.say(serial, report);
            }
            ToManager::Announce { attach } => self.announce(serial, attach, now),
            ToManager::Control(control) => self.control(serial, control, now),
            ToManager::Submit(submit) => self.submit(serial, &submit, now),
            ToManager::Outcome { pid, code } => self.hear_outcome(serial, pid, code),
            ToManager::Measures => {
                let measures = self.measures();
                self.say(serial, vec![measures]);
            }
            ToManager::History(question) => self.tell_history(serial, question, now),
            ToManager::Join => self.join(serial),
            ToManager::Queue => {
                let report = self.queue_report(serial, now);
                self.say(serial, report);
            }
        }
    }

    /// Takes note of a process that is going to be a program.
    fn announce(&mut self, serial: u64, attach: bool, now: u64) {
        let Some(pid) = self.connections.get(&serial).map(|it| it.peer.pid) else {
            return;
        };
        // One that said so before takes no second place.
        let others = || self.announced().filter(|it| it.peer.pid != pid).map(|it| it.peer.uid);
        if others().count() >= MAX_PROGRAMS {
            let reason = format!("{MAX_PROGRAMS} programs are announced already");
            return self.refuse(serial, RefusedCode::Full, reason);
        }
        if self.has_its_share(serial, others()) {
            let places = self.places_of_client(serial);
            let reason = format!("{places} programs of this user are announced already");
            return self.refuse(serial, RefusedCode::Full, reason);
        }
        // It is charged from now on.
        self.charge_all(now);
        self.becomes_program(serial, attach);
        let watched =
            self.connections.get_mut(&serial).map_or(Ok(()), |it| it.watch(&self.reactor));
        self.check(serial, watched);
        let (narrow, kept) = (self.narrow.clone(), self.kept.clone());
        self.say(serial, vec![FromManager::Announced { narrow, kept }]);
    }

    /// Processes that said that they are going to be programs, and those that are after that.
    pub(super) fn announced(&self) -> impl Iterator<Item = &Connection> {
        self.connections.values().filter(|it| it.announced)
    }

    /// Process `serial` is going to be a program: announced or admitted. It counts once, however
    /// often it comes.
    pub(super) fn becomes_program(&mut self, serial: u64, attach: bool) {
        let Some(connection) = self.connections.get_mut(&serial) else { return };
        (connection.announced, connection.attach) = (true, attach);
        connection.note_start();
        self.legacy.unwritten = true;
        let pid = connection.peer.pid;
        let same =
            |it: &&Connection| it.serial != serial && it.peer.pid == pid && it.program.is_none();
        let older: Vec<u64> = self.announced().filter(same).map(|it| it.serial).collect();
        for older in older {
            // It is the same process, and what was submitted has not ended.
            let before = self.connections.get_mut(&older).and_then(|it| it.submission.take());
            let connection = self.connections.get_mut(&serial);
            match (before, connection.map(|it| &mut it.submission)) {
                (Some(before), Some(Some(now))) if before == *now => {}
                (Some(before), Some(Some(_)) | None) => self.submissions.is_superseded(before),
                (Some(before), Some(none)) => *none = Some(before),
                (None, _) => {}
            }
            self.doom(older, "its process comes anew");
        }
    }

    /// Takes a program in. Its answer follows after the decision of this pass.
    fn register(&mut self, serial: u64, register: &Register, now: u64) {
        if register.layout != arena::header::VERSION {
            let (theirs, ours) = (register.layout, arena::header::VERSION);
            let reason =
                format!("the program speaks layout version {theirs}, this manager version {ours}");
            return self.refuse(serial, RefusedCode::Version, reason);
        }
        if self.programs() >= MAX_PROGRAMS {
            return self.refuse(
                serial,
                RefusedCode::Full,
                format!("{MAX_PROGRAMS} programs are managed already"),
            );
        }
        if self.has_its_share(serial, self.owners()) {
            let places = self.places_of_client(serial);
            let reason = format!("{places} programs of this user are managed already");
            return self.refuse(serial, RefusedCode::Full, reason);
        }
        let Some(connection) = self.connections.get(&serial) else {
            return;
        };
        let pid = connection.peer.pid;
        if connection.program.is_some() {
            return self.refuse(
                serial,
                RefusedCode::Malformed,
                "this connection is registered already".into(),
            );
        }
        // A process that was attached, and speaks now.
        if self.attached.values().any(|it| it.pid == pid) {
            // It is there: found a moment ago.
            let _detached: Result<(), String> = self.detach(pid);
        }
        let (weight, team) = (self.weight_of(pid), self.team_of(pid));
        // The same process on another connection: it became another program by exec, or its library
        // was loaded anew. The old registration belongs to no program any more.
        let before =
            self.connections.values().find(|it| it.peer.pid == pid && it.program.is_some());
        if let Some(old) = before.map(|it| it.serial) {
            self.say(old, vec![FromManager::Replaced]);
            self.doom(old, "its process registered anew");
        }
        let stand_ins = self
            .connections
            .values()
            .filter(|it| it.is_stand_in && it.peer.pid == pid)
            .map(|it| it.serial);
        for stand_in in stand_ins.collect::<Vec<_>>() {
            self.doom(stand_in, "its process is here");
        }
        self.inherit_choices(serial, pid);
        // From now on it is charged with what it is granted.
        self.charge_all(now);
        let Some(connection) = self.connections.get_mut(&serial) else {
            return;
        };
        let process = (pid, connection.pidfd.as_fd());
        let created = Program::create(serial, process, register, &self.cpus, self.grace, now);
        let added = created.and_then(|program| {
            connection.watch(&self.reactor)?;
            self.reactor.add(&program.doorbell, serial, Role::Doorbell)?;
            Ok(program)
        });
        let mut program = match added {
            Ok(program) => program,
            Err(error) => {
                return self.refuse(
                    serial,
                    RefusedCode::System,
                    format!("the manager lacks something: {error}"),
                );
            }
        };
        let mut weight = weight;
        if let Some(rule) = self.rules.of_program(&program.name) {
            // One that was set for the process stands above that of its name.
            weight = rule.weight.filter(|_| weight == 1.0).map_or(weight, Weight::number);
            program.rule(rule.processors);
        }
        program.bind(connection.bounds.1);
        let request = program.areas.request();
        self.ledger.arrive(AppId(serial), request.requested, program.max);
        self.ledger.set_user(AppId(serial), connection.peer.uid);
        self.ledger.set_program(AppId(serial), &program.name);
        self.ledger.set_weight(AppId(serial), weight);
        self.ledger.set_min(AppId(serial), connection.bounds.0.unwrap_or(1));
        (connection.weight, connection.team) = (weight, team);
        program.set_team(team);
        if let Some(within) = &program.within {
            self.ledger.confine(AppId(serial), &within.iter().map(|cpu| cpu.0).collect());
        }
        if let Some(held) = &register.held {
            self.ledger.held_before(AppId(serial), &held.cpus);
        }
        self.measuring.so_far.arrivals += 1;
        tracing::info!(pid = pid.0, name = %program.name, request = request.requested, "a program arrives");
        if let Some(trace) = &mut self.trace {
            trace.write(program.line(trace::Event::Arrival, pid.0, now, Vec::new(), false));
        }
        connection.program = Some(program);
        connection.note_start();
        self.classify(serial);
        let queued = self.announced().filter(|it| it.peer.pid == pid).map(|it| it.queued_ns).max();
        self.account_arrival(serial, queued.unwrap_or(0));
        self.legacy.unwritten = true;
        self.arrived.push(serial);
        self.cause = Some(Cause::Arrival);
    }

    /// Gives an arrived program its areas; its first grant is in them.
    pub(super) fn welcome(&mut self, serial: u64) {
        let Some(program) = self.connections.get_mut(&serial).and_then(|it| it.program.as_mut())
        else {
            return;
        };
        match program.introduce(serial, &self.shared_page) {
            Ok(Some(areas)) => self.put(serial, Answer::Areas(Box::new(areas))),
            Ok(None) => {}
            Err(error) => {
                self.refuse(
                    serial,
                    RefusedCode::System,
                    format!("the manager lacks something: {error}"),
                );
            }
        }
    }

    pub(super) fn say(&mut self, serial: u64, messages: Vec<FromManager>) {
        self.put(serial, Answer::Messages(messages));
    }

    pub(super) fn put(&mut self, serial: u64, answer: Answer) {
        if self.connections.get(&serial).is_some_and(|connection| !connection.put(answer)) {
            self.doom(serial, "it does not read what it asks for");
        }
    }

    /// Says no, and lets the client go.
    pub(super) fn refuse(&mut self, serial: u64, code: RefusedCode, reason: String) {
        if let Some(connection) = self.connections.get(&serial) {
            let (pid, uid) = (connection.peer.pid.0, connection.peer.uid);
            // What is missing is the program itself: nothing is wrong, and nothing reads an answer.
            if process::has_ended(&connection.pidfd).unwrap_or(false) {
                tracing::info!(pid, uid, "a program ended before it was taken in");
                return self.doom(serial, "its process ended");
            }
            // What it said may be in it: with all escaped, it must fit a packet.
            let reason: String = reason.chars().take(MAX_REASON).collect();
            self.measuring.so_far.refusals += 1;
            tracing::warn!(pid, uid, ?code, reason, "a client is refused");
            self.note_reason(Pid(pid), &reason);
            self.say(serial, vec![FromManager::Refused(Refused { code, reason })]);
            self.doom(serial, "it was refused");
        }
    }

    /// Process `pid`, if it was announced, is not managed for this reason.
    pub(super) fn note_reason(&mut self, pid: Pid, reason: &str) {
        let reason: String = escape(reason.as_bytes()).chars().take(MAX_NOTE).collect();
        let announced =
            self.connections.values_mut().filter(|it| it.announced && it.peer.pid == pid);
        announced.for_each(|it| it.reason = Some(reason.clone()));
    }

    /// The end of a connection is not the end of an announced process: exec closes it.
    fn hung_up(&mut self, serial: u64, now: u64) {
        match self.connections.get_mut(&serial) {
            Some(connection) if connection.announced && connection.program.is_none() => {
                connection.mailbox = None;
                self.legacy.unwritten = true;
                connection.look = connection
                    .wants_attach()
                    .then_some(Look { at: now + FIRST_LOOK, pause: FIRST_LOOK });
            }
            _ => self.doom(serial, "it hung up"),
        }
    }
}
