//! The door: who connects, and whether it is let in.

use std::os::fd::{AsFd, OwnedFd};

use arena::message::RefusedCode;
use platform::process::{self, PeerProcess};
use platform::{SysResult, fdpass};

use super::Server;
use super::connection::Connection;
use crate::reactor::{Interest, Role};

/// Connections that are neither programs nor announced.
const MAX_OTHERS: usize = 64;
/// Connections taken in one pass: those who are there already get their turn in between.
const ACCEPTS: usize = 64;
/// How long a connection may be silent before it makes room for others.
const SILENT_NS: u64 = 1_000_000_000;
/// How long newcomers wait when there is no room.
const ROOM_PAUSE_NS: u64 = 2_000_000;
/// How long no connections are taken when descriptors are used up.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;

impl Server {
    /// Takes connections in; true when there was one.
    pub(super) fn accept(&mut self, now: u64) -> bool {
        let mut any = false;
        for _ in 0..ACCEPTS {
            if !self.has_room(now) {
                self.pause_accepting(now + ROOM_PAUSE_NS);
                return any;
            }
            match fdpass::accept(&self.listener) {
                Ok(socket) => {
                    any = true;
                    self.idle_since = now;
                    if let Err(error) = self.admit(socket, now) {
                        tracing::debug!(%error, "a connection was not taken");
                    }
                }
                Err(error) if error.is(nix::errno::Errno::EAGAIN as i32) => return any,
                Err(error) if error.is(nix::errno::Errno::ECONNABORTED as i32) => {}
                Err(error) => {
                    // Descriptors or memory are used up: the connection stays in the queue, and asking again at once
                    // would be a busy loop.
                    tracing::warn!(%error, "no connections are taken for a moment");
                    self.pause_accepting(now + ACCEPT_PAUSE_NS);
                    return any;
                }
            }
        }
        any
    }

    /// Whether one more connection may come. When too many are here that are neither programs nor announced, the oldest
    /// makes room if it had time enough to say what it wants: nobody keeps others out by connecting only. Without one
    /// the newcomer waits in the listener's queue, which a crowd of programs that start together needs.
    fn has_room(&mut self, now: u64) -> bool {
        // Whoever waits to be started is watched, as programs are.
        let others = self.connections.values().filter(|it| it.program.is_none() && !it.announced && !it.watched);
        if others.clone().count() < MAX_OTHERS {
            return true;
        }
        let silent = others.filter(|it| it.opened.saturating_add(SILENT_NS) <= now);
        match silent.map(|it| it.serial).min() {
            Some(oldest) => {
                self.drop_now(oldest, "made room");
                true
            }
            None => false,
        }
    }

    fn pause_accepting(&mut self, until: u64) {
        self.accept_again = Some(until);
        self.mute_listener(Interest::Muted);
    }

    fn admit(&mut self, socket: OwnedFd, now: u64) -> SysResult<()> {
        fdpass::set_nonblocking(&socket)?;
        // ESRCH: it connected and died.
        let PeerProcess { peer, pidfd, .. } = process::peer(&socket)?;
        let serial = self.next_serial;
        self.next_serial += 1;
        let mut connection = Connection::new(serial, socket, peer, pidfd, now);
        if peer.uid != self.owner && peer.uid != 0 {
            let reason = format!("this manager belongs to user {}", self.owner);
            connection.refusal = Some((RefusedCode::NotYours, reason));
        }
        if let Some(socket) = &connection.socket {
            self.reactor.add(socket, serial, Role::Socket)?;
        }
        self.connections.insert(serial, connection);
        Ok(())
    }

    /// Changes what the listener is waited for.
    pub(super) fn mute_listener(&mut self, interest: Interest) {
        if let Err(error) = self.reactor.set_listener(self.listener.as_fd(), interest) {
            tracing::error!(%error, "the listener cannot be changed");
        }
    }
}
