//! One conversation with a manager.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use platform::{SysError, fdpass};

use super::ConnectError;
use super::kept::Socket;
#[cfg(feature = "messages")]
use crate::message::{self, FromManager, ToManager};
use crate::message::{Heard, MAX_MESSAGE, MessageError, Said};

/// A socket to the manager, for one conversation.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    path: PathBuf,
    timeout: Duration,
}

/// Readable when the manager has said something, or hung up.
impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Connection {
    /// Connects to the manager at `path`.
    ///
    /// # Errors
    /// [`ConnectError::Unreachable`] with what the kernel says.
    pub fn open(path: &Path, timeout: Duration) -> Result<Self, ConnectError> {
        let socket = fdpass::connect(path, timeout)
            .map_err(|source| ConnectError::Unreachable { path: path.to_owned(), source })?;
        Ok(Self { socket, path: path.to_owned(), timeout })
    }

    /// Says something.
    ///
    /// # Errors
    /// When the connection broke, or the message is too long.
    #[cfg(feature = "messages")]
    pub fn send(&self, message: &ToManager) -> Result<(), ConnectError> {
        self.send_packet(message::encode(message))
    }

    /// Says what a program says.
    pub(crate) fn say(&self, said: &Said) -> Result<(), ConnectError> {
        self.send_packet(said.encode())
    }

    fn send_packet(&self, packet: Result<Vec<u8>, MessageError>) -> Result<(), ConnectError> {
        let path = || self.path.clone();
        let packet = packet.map_err(|error| match error {
            MessageError::TooLong { length } => ConnectError::TooLong { path: path(), length },
            source => ConnectError::Message { path: path(), source },
        })?;
        fdpass::send(self.socket.as_fd(), &packet, &[]).map_err(|source| self.system(source))
    }

    /// Waits for an answer and the descriptors that come with it.
    ///
    /// # Errors
    /// When there is none in time, the connection breaks, or the answer is no message.
    #[cfg(feature = "messages")]
    pub fn receive(&self) -> Result<(FromManager, Vec<OwnedFd>), ConnectError> {
        self.receive_within(self.timeout)
    }

    /// Waits for an answer that may take any time, and calls `meanwhile` each time that so much of
    /// it has passed.
    ///
    /// # Errors
    /// When the connection breaks, or the answer is no message.
    #[cfg(feature = "messages")]
    pub fn receive_patiently(
        &self,
        each: Duration,
        mut meanwhile: impl FnMut(),
    ) -> Result<(FromManager, Vec<OwnedFd>), ConnectError> {
        loop {
            match self.receive_within(each) {
                Err(ConnectError::Silent { .. }) => meanwhile(),
                heard => return heard,
            }
        }
    }

    #[cfg(feature = "messages")]
    fn receive_within(
        &self,
        timeout: Duration,
    ) -> Result<(FromManager, Vec<OwnedFd>), ConnectError> {
        self.receive_packet(timeout, message::decode)
    }

    /// Waits for an answer to what a program said.
    pub(crate) fn hear(&self) -> Result<(Heard, Vec<OwnedFd>), ConnectError> {
        self.receive_packet(self.timeout, Heard::decode)
    }

    fn receive_packet<M>(
        &self,
        timeout: Duration,
        decode: impl FnOnce(&[u8]) -> Result<M, MessageError>,
    ) -> Result<(M, Vec<OwnedFd>), ConnectError> {
        let mut buffer = vec![0; MAX_MESSAGE];
        let (length, descriptors) =
            match fdpass::recv(self.socket.as_fd(), &mut buffer, Some(timeout)) {
                Ok(received) => received,
                Err(error) if error.is(libc::ETIMEDOUT) => {
                    return Err(ConnectError::Silent { path: self.path.clone(), timeout });
                }
                Err(error) => return Err(self.system(error)),
            };
        if length == 0 {
            return Err(self.broken("it closed the connection without an answer".into()));
        }
        let answer = decode(&buffer[..length])
            .map_err(|source| ConnectError::Message { path: self.path.clone(), source })?;
        Ok((answer, descriptors))
    }

    /// The conversation goes on as a part of a registration.
    pub(super) fn into_socket(self) -> Result<Socket, ConnectError> {
        let failed =
            |error: SysError| ConnectError::System { path: self.path, source: error.into() };
        Socket::new(self.socket).map_err(failed)
    }

    /// An error of the manager at the other end.
    pub fn broken(&self, what: String) -> ConnectError {
        ConnectError::Protocol { path: self.path.clone(), what }
    }

    pub(super) fn system(&self, source: SysError) -> ConnectError {
        ConnectError::System { path: self.path.clone(), source: source.into() }
    }
}
