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
/// How long no connections are taken when descriptors are used up.
const ACCEPT_PAUSE_NS: u64 = 100_000_000;

impl Server {
    /// Takes connections in; true when there was one.
    pub(super) fn accept(&mut self, now: u64) -> bool {
        let mut any = false;
        for _ in 0..ACCEPTS {
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
                    self.accept_again = Some(now + ACCEPT_PAUSE_NS);
                    self.mute_listener(Interest::Muted);
                    return any;
                }
            }
        }
        any
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
        let others = self
            .connections
            .values()
            .filter(|it| it.program.is_none() && !it.announced);
        if others.clone().count() >= MAX_OTHERS
            && let Some(oldest) = others.map(|it| it.serial).min()
        {
            // Nobody can keep others out by connecting only.
            self.drop_now(oldest, "made room");
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
