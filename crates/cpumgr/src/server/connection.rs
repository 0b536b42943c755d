//! A client's connection, and the conversation on it.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use arena::message::{self, FromManager, MAX_MESSAGE, MessageError, Refused, RefusedCode, Register, ToManager};
use platform::process::Peer;
use platform::{SysResult, fdpass};
use policies::{AppId, Cause};

use super::program::Program;
use super::{MAX_PROGRAMS, Server, is_gone};
use crate::bucket::Bucket;
use crate::reactor::{Interest, Reactor, Role};
use crate::trace;

/// Messages that a client may send at once, and how fast they come back. A registration is one, a report is one.
const MESSAGES: u32 = 16;
const MESSAGE_NS: u64 = 50_000_000;
/// Packets that wait for a client that reads slowly: one report of as many programs as there may be.
const MAX_WAITING: usize = MAX_PROGRAMS / message::PROGRAMS_PER_PACKET + 8;

/// A client.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) serial: u64,
    /// When it came.
    pub(super) opened: u64,
    /// Gone when an announced program closed it: by exec.
    pub(super) socket: Option<OwnedFd>,
    pub(super) peer: Peer,
    pub(super) pidfd: OwnedFd,
    /// The pidfd is waited for.
    pub(super) watched: bool,
    /// The process said that it is about to become a program.
    pub(super) announced: bool,
    /// Whatever it says, this is the answer. (Said before it has spoken, it would be lost: closing a socket with an
    /// unread message throws away what was sent, too.)
    pub(super) refusal: Option<(RefusedCode, String)>,
    /// What it registered.
    pub(super) program: Option<Program>,
    /// Not listened to until then: it talks too much.
    pub(super) muted_until: Option<u64>,
    waiting: VecDeque<Vec<u8>>,
    bucket: Bucket,
}

impl Connection {
    pub(super) fn new(serial: u64, socket: OwnedFd, peer: Peer, pidfd: OwnedFd, now: u64) -> Self {
        Self {
            serial,
            opened: now,
            socket: Some(socket),
            peer,
            pidfd,
            watched: false,
            announced: false,
            refusal: None,
            program: None,
            muted_until: None,
            waiting: VecDeque::new(),
            bucket: Bucket::new(MESSAGES, MESSAGE_NS, now),
        }
    }

    /// Says no. The caller closes the connection; whether the client hears it does not matter.
    pub(super) fn refuse(&mut self, code: RefusedCode, reason: String) {
        tracing::warn!(pid = self.peer.pid.0, uid = self.peer.uid, ?code, reason, "a client is refused");
        self.say_last(&FromManager::Refused(Refused { code, reason }));
    }

    /// Says that the manager ends.
    pub(super) fn say_goodbye(&mut self) {
        self.say_last(&FromManager::Leaving);
    }

    fn say_last(&mut self, message: &FromManager) {
        let Some(socket) = &self.socket else { return };
        if let Ok(packet) = message::encode(message) {
            // The connection ends whether it is read or not.
            let _said: SysResult<()> = fdpass::send(socket, &packet, &[]);
        }
    }

    /// Queues packets and sends what can be sent. False: the client does not read what it asked for.
    pub(super) fn say(&mut self, packets: Vec<Vec<u8>>, reactor: &Reactor) -> SysResult<bool> {
        if self.waiting.len() + packets.len() > MAX_WAITING {
            return Ok(false);
        }
        self.waiting.extend(packets);
        self.flush(reactor)?;
        Ok(true)
    }

    /// Sends what waits, as far as the client's queue has room.
    pub(super) fn flush(&mut self, reactor: &Reactor) -> SysResult<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        while let Some(packet) = self.waiting.front() {
            match fdpass::send(socket, packet, &[]) {
                Ok(()) => drop(self.waiting.pop_front()),
                Err(error) if error.is(nix::errno::Errno::EAGAIN as i32) => break,
                Err(error) => return Err(error),
            }
        }
        self.listen(reactor)
    }

    /// Waits for what this connection can do next.
    pub(super) fn listen(&mut self, reactor: &Reactor) -> SysResult<()> {
        let Some(socket) = &self.socket else {
            return Ok(());
        };
        let interest = match (self.muted_until, self.waiting.is_empty()) {
            (Some(_), _) => Interest::Muted,
            (None, true) => Interest::Read,
            (None, false) => Interest::ReadWrite,
        };
        reactor.set(socket, self.serial, Role::Socket, interest)
    }

    pub(super) fn stop_listening(&mut self, reactor: &Reactor) {
        if let Some(socket) = self.socket.take() {
            // An error means that it was not in the set.
            let _removed: SysResult<()> = reactor.remove(&socket);
        }
    }

    /// Waits for the end of the process too.
    pub(super) fn watch(&mut self, reactor: &Reactor) -> SysResult<()> {
        if !self.watched {
            reactor.add(&self.pidfd, self.serial, Role::Process)?;
            self.watched = true;
        }
        Ok(())
    }
}

impl Server {
    /// A socket can be read or written, or its other end is closed.
    pub(super) fn socket_ready(&mut self, serial: u64, readable: bool, now: u64) {
        let Some(connection) = self.connections.get_mut(&serial) else {
            return;
        };
        if !connection.waiting.is_empty() {
            let outcome = connection.flush(&self.reactor);
            if !readable {
                return self.check_said(serial, outcome);
            }
        }
        let Some(connection) = self.connections.get_mut(&serial) else {
            return;
        };
        if connection.muted_until.is_some() {
            // Only the end of the other side is reported of a muted socket, and it cannot be muted.
            return self.hung_up(serial);
        }
        if !connection.bucket.take(now) {
            connection.muted_until = Some(connection.bucket.time_of(1, now));
            let muted = connection.listen(&self.reactor);
            return self.check(serial, muted);
        }
        let Some(socket) = &connection.socket else {
            return;
        };
        let mut buffer = vec![0; MAX_MESSAGE];
        let received = fdpass::recv(socket.as_fd(), &mut buffer, Some(Duration::ZERO));
        // Descriptors that a client sends along are closed here: none belongs in any of its messages.
        match received.map(|(length, _)| length) {
            Ok(0) => self.hung_up(serial),
            Ok(length) => match message::decode::<ToManager>(&buffer[..length]) {
                Ok(message) => self.hear(serial, message, now),
                Err(error) => self.misunderstood(serial, &error),
            },
            Err(error) if error.is(nix::errno::Errno::ETIMEDOUT as i32) => {}
            Err(error) if error.is(nix::errno::Errno::EMSGSIZE as i32) => {
                self.refuse(serial, RefusedCode::Malformed, format!("a message has at most {MAX_MESSAGE} bytes"));
            }
            Err(error) if is_gone(error) => self.hung_up(serial),
            Err(error) => self.check(serial, Err(error)),
        }
    }

    fn hear(&mut self, serial: u64, message: ToManager, now: u64) {
        if let Some((code, reason)) = self.connections.get_mut(&serial).and_then(|it| it.refusal.take()) {
            return self.refuse(serial, code, reason);
        }
        match message {
            ToManager::Register(register) => self.register(serial, &register, now),
            ToManager::Status => {
                let report = self.report(now);
                self.say(serial, report);
            }
            ToManager::Announce => self.announce(serial),
            ToManager::Control(control) => self.control(serial, control, now),
            ToManager::Submit { request, label } => self.submit(serial, request, &label, now),
            ToManager::Queue => {
                let report = self.queue_report(now);
                self.say(serial, report);
            }
        }
    }

    fn misunderstood(&mut self, serial: u64, error: &MessageError) {
        let code = match error {
            MessageError::Version { .. } => RefusedCode::Version,
            _ => RefusedCode::Malformed,
        };
        self.refuse(serial, code, error.to_string());
    }

    /// Takes note of a process that is going to be a program. It counts once, however often it says so.
    fn announce(&mut self, serial: u64) {
        let Some(pid) = self.connections.get(&serial).map(|it| it.peer.pid) else {
            return;
        };
        let announced = self.connections.values().filter(|it| it.announced && it.serial != serial);
        let same = announced.clone().find(|it| it.peer.pid == pid && it.program.is_none());
        match same.map(|it| it.serial) {
            Some(older) => self.doom(older, "its process announced itself anew"),
            None if announced.count() >= MAX_PROGRAMS => {
                let reason = format!("{MAX_PROGRAMS} programs are announced already");
                return self.refuse(serial, RefusedCode::Full, reason);
            }
            None => {}
        }
        let Some(connection) = self.connections.get_mut(&serial) else {
            return;
        };
        connection.announced = true;
        let watched = connection.watch(&self.reactor);
        self.check(serial, watched);
        self.say(serial, message::encode(&FromManager::Announced).into_iter().collect());
    }

    /// Takes a program in. Its answer follows after the decision of this pass.
    fn register(&mut self, serial: u64, register: &Register, now: u64) {
        if register.layout != arena::header::VERSION {
            let (theirs, ours) = (register.layout, arena::header::VERSION);
            let reason = format!("the program speaks layout version {theirs}, this manager version {ours}");
            return self.refuse(serial, RefusedCode::Version, reason);
        }
        if self.programs() >= MAX_PROGRAMS {
            return self.refuse(serial, RefusedCode::Full, format!("{MAX_PROGRAMS} programs are managed already"));
        }
        let Some(connection) = self.connections.get(&serial) else {
            return;
        };
        let pid = connection.peer.pid;
        if connection.program.is_some() {
            return self.refuse(serial, RefusedCode::Malformed, "this connection is registered already".into());
        }
        // A process that was attached, and speaks now.
        if self.attached.values().any(|it| it.pid == pid) {
            // It is there: found a moment ago.
            let _detached: Result<(), String> = self.detach(pid);
        }
        // The same process on another connection: it became another program by exec, or its library was loaded anew.
        // The old registration is nobody's any more.
        let before = self.connections.values().find(|it| it.peer.pid == pid && it.program.is_some());
        if let Some(old) = before.map(|it| it.serial) {
            if let Some(old) = self.connections.get_mut(&old) {
                old.say_last(&FromManager::Replaced);
            }
            self.doom(old, "its process registered anew");
        }
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
        let program = match added {
            Ok(program) => program,
            Err(error) => {
                return self.refuse(serial, RefusedCode::System, format!("the manager lacks something: {error}"));
            }
        };
        let request = program.areas.request();
        self.ledger.arrive(AppId(serial), request.requested, program.max);
        if let Some(held) = &register.held {
            self.ledger.held_before(AppId(serial), &held.cpus);
        }
        tracing::info!(pid = pid.0, name = %program.name, request = request.requested, "a program arrives");
        if let Some(trace) = &mut self.trace {
            trace.write(program.line(trace::Event::Arrival, pid.0, now, Vec::new(), false));
        }
        connection.program = Some(program);
        self.arrived.push(serial);
        self.cause = Some(Cause::Arrival);
    }

    /// Gives an arrived program its areas; its first grant is in them.
    pub(super) fn welcome(&mut self, serial: u64) {
        let Some(connection) = self.connections.get_mut(&serial) else {
            return;
        };
        let (Some(socket), Some(program)) = (&connection.socket, &mut connection.program) else {
            return;
        };
        let sent = program.introduce(socket, serial, &self.page);
        self.check_said(serial, sent);
    }

    pub(super) fn say(&mut self, serial: u64, packets: Vec<Vec<u8>>) {
        let Some(connection) = self.connections.get_mut(&serial) else {
            return;
        };
        match connection.say(packets, &self.reactor) {
            Ok(true) => {}
            Ok(false) => self.doom(serial, "it does not read what it asks for"),
            Err(error) => self.check_said(serial, Err(error)),
        }
    }

    pub(super) fn refuse(&mut self, serial: u64, code: RefusedCode, reason: String) {
        if let Some(connection) = self.connections.get_mut(&serial) {
            connection.refuse(code, reason);
            self.doom(serial, "it was refused");
        }
    }

    /// The end of a connection is not the end of an announced process: exec closes it.
    fn hung_up(&mut self, serial: u64) {
        match self.connections.get_mut(&serial) {
            Some(connection) if connection.announced && connection.program.is_none() => {
                connection.stop_listening(&self.reactor);
            }
            _ => self.doom(serial, "it hung up"),
        }
    }

    fn check_said(&mut self, serial: u64, outcome: SysResult<()>) {
        match outcome {
            Err(error) if is_gone(error) => self.hung_up(serial),
            outcome => self.check(serial, outcome),
        }
    }
}
