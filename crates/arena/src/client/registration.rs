//! The handshake: what a program says of itself, and what it gets.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::connection::Connection;
use super::error::ConnectError;
use super::hello::Hello;
use super::kept::{Descriptors, Socket};
use crate::area::Area;
use crate::global::Global;
use crate::grant::MAX_CPUS;
use crate::header::VERSION;
use crate::hook::{self, Step};
use crate::layout::{Down, Up};
use crate::message::{Heard, Held, MAX_LIBRARY, Register, Said};

/// What a manager gave.
#[derive(Debug)]
pub(super) struct Registration {
    pub(super) down: Area<Down>,
    pub(super) up: Area<Up>,
    pub(super) global: Area<Global>,
    pub(super) descriptors: Descriptors,
    pub(super) slot: u64,
}

impl Registration {
    /// Registers this process with the manager at `path`, which has `timeout` for its answer.
    pub(super) fn make(
        path: &Path,
        hello: &Hello,
        held: Option<Held>,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let connection = ask(path, hello, held, timeout)?;
        let answer = connection.hear()?;
        let socket = connection.into_socket()?;
        Self::of(path, answer, Arc::new(socket))
    }

    /// What an answer that came over `socket` brings.
    pub(super) fn of(
        path: &Path,
        (answer, descriptors): (Heard, Vec<OwnedFd>),
        socket: Arc<Socket>,
    ) -> Result<Self, ConnectError> {
        hook::at(Step::Answered);
        let broken = |what| ConnectError::Protocol { path: path.to_owned(), what };
        let registered = match answer {
            Heard::Registered(registered) => registered,
            Heard::Refused(refused) => {
                return Err(ConnectError::Refused { path: path.to_owned(), refused });
            }
            other => return Err(broken(format!("it answered a registration with {other:?}"))),
        };
        let count = descriptors.len();
        let Ok([down, up, doorbell, global]) = <[OwnedFd; 4]>::try_from(descriptors) else {
            return Err(broken(format!("a registration brings 4 descriptors, it sent {count}")));
        };
        let refuse = |source| ConnectError::Area { path: path.to_owned(), source };
        let down = Area::<Down>::receive(down, false).map_err(refuse)?;
        let up = Area::<Up>::receive(up, true).map_err(refuse)?;
        let global = Area::<Global>::receive(global, false).map_err(refuse)?;
        let descriptors = Descriptors::new(socket, doorbell).map_err(|error| {
            ConnectError::System { path: path.to_owned(), source: error.into() }
        })?;
        hook::at(Step::Mapped);
        Ok(Self { down, up, global, descriptors, slot: registered.slot })
    }
}

/// Connects to the manager at `path` within `timeout`, and asks it to take this process in.
pub(super) fn ask(
    path: &Path,
    hello: &Hello,
    held: Option<Held>,
    timeout: Duration,
) -> Result<Connection, ConnectError> {
    let register = Said::Register(Register {
        layout: VERSION,
        max_processors: hello.max_processors.clamp(1, MAX_CPUS),
        request: hello.request.clamp(1, MAX_CPUS),
        fixed_team: hello.fixed_team,
        broker: hello.broker,
        library: cut(&hello.library, MAX_LIBRARY).to_owned(),
        held,
        within: hello
            .within
            .as_ref()
            .map(|cpus| cpus.iter().map(|cpu| cpu.0).filter(|cpu| *cpu < MAX_CPUS).collect()),
    });
    let connection = Connection::open(path, timeout)?;
    hook::at(Step::Connected);
    connection.say(&register)?;
    hook::at(Step::RegisterSent);
    Ok(connection)
}

/// At most `bytes` bytes of `text`, whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
