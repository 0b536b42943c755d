//! The program's side: registration, the grant, requests, and whether the manager is there.
//!
//! # Invariants
//! - C1 Nothing here waits for the manager after [`Client::connect`]: a dead or silent manager costs a program nothing
//!   but the answer of [`Client::is_alive`].
//! - C2 A child made by `fork` has no areas (they are not inherited): it must never use its parent's client, and must
//!   not drop it either (`mem::forget`), since the doorbell and the socket are the parent's.
//! - C3 A program may close our descriptors and use their numbers for its own files. Nothing is written to, read from or
//!   closed at a number before it was compared with what it was at registration; when it is something else the
//!   registration is lost.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use platform::affinity::{CpuSet, Tid};
use platform::{SysError, SysResult, event, fdpass};

use crate::area::{Area, AreaError};
use crate::grant::{Grant, MAX_CPUS};
use crate::layout::{Down, MAX_VPS, Up, VERSION};
use crate::message::{self, FromManager, MAX_LIBRARY, MAX_MESSAGE, MessageError, Refused, Register, ToManager};

mod kept;
mod watch;

pub use crate::socket::{SOCKET_VARIABLE, SYSTEM_SOCKET, SocketChoice, find_socket, user_socket};
use kept::Descriptors;
use watch::Life;

/// What a program states at registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The most processors that it could use.
    pub max_processors: u32,
    /// The processors that it wants now.
    pub request: u32,
    /// Its teams have a fixed size.
    pub fixed_team: bool,
    /// The library that speaks for it, for reports; cut after 64 bytes.
    pub library: String,
}

/// Why there is no connection. Each names the socket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens there, or we may not connect.
    #[error("no manager answers at {}: {source}", path.display())]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: SysError,
    },
    /// The manager said no.
    #[error("the manager at {} refused: {}", path.display(), refused.reason)]
    Refused {
        /// The socket.
        path: PathBuf,
        /// Its words.
        refused: Refused,
    },
    /// The manager did not answer in time.
    #[error("the manager at {} did not answer within {timeout:?}", path.display())]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long we waited.
        timeout: Duration,
    },
    /// Something other than this version's manager answers there.
    #[error("what answers at {} is no manager of this version: {source}", path.display())]
    Message {
        /// The socket.
        path: PathBuf,
        /// What is wrong with the answer.
        source: MessageError,
    },
    /// The answer is a message, but not one that belongs here.
    #[error("the manager at {} broke the protocol: {what}", path.display())]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// What it did.
        what: String,
    },
    /// The areas that it sent are refused.
    #[error("the manager at {} sent an area that cannot be used: {source}", path.display())]
    Area {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        source: AreaError,
    },
    /// The connection broke, or the system has no thread for the watcher.
    #[error("the connection to the manager at {}: {source}", path.display())]
    System {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A registered program's end of the connection.
#[derive(Debug)]
pub struct Client {
    down: Area<Down>,
    up: Area<Up>,
    // The socket is shut down when the client is dropped, which ends the watcher.
    descriptors: Arc<Descriptors>,
    life: Arc<Life>,
    watcher: Option<JoinHandle<()>>,
    slot: u64,
}

impl Client {
    /// Registers this process with the manager at `path`.
    ///
    /// When this returns the manager knows the program and has published its first grant. Starts one small thread,
    /// `nanos-watch`, with all signals blocked.
    ///
    /// # Errors
    /// When there is no manager, or it refuses, or what answers is none. Each message names `path`.
    pub fn connect(path: &Path, hello: &Hello, timeout: Duration) -> Result<Self, ConnectError> {
        let register = ToManager::Register(Register {
            layout: VERSION,
            max_processors: hello.max_processors.clamp(1, MAX_CPUS),
            request: hello.request.clamp(1, MAX_CPUS),
            fixed_team: hello.fixed_team,
            library: cut(&hello.library, MAX_LIBRARY).to_owned(),
        });
        let connection = Connection::open(path, timeout)?;
        connection.send(&register)?;
        let (answer, descriptors) = connection.receive()?;
        let registered = match answer {
            FromManager::Registered(registered) => registered,
            FromManager::Refused(refused) => {
                return Err(ConnectError::Refused { path: path.to_owned(), refused });
            }
            other => {
                return Err(connection.broken(format!("it answered a registration with {other:?}")));
            }
        };
        let count = descriptors.len();
        let Ok([down, up, doorbell]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return Err(connection.broken(format!("a registration brings 3 descriptors, it sent {count}")));
        };
        let system = |source| ConnectError::System { path: path.to_owned(), source };
        let refuse = |source| ConnectError::Area { path: path.to_owned(), source };
        // The watcher has a mapping of its own, so that a fork's load goes through one pointer only.
        let watched_down = Area::<Down>::receive(down.try_clone().map_err(system)?, false).map_err(refuse)?;
        let down = Area::<Down>::receive(down, false).map_err(refuse)?;
        let up = Area::<Up>::receive(up, true).map_err(refuse)?;

        let descriptors =
            Arc::new(Descriptors::new(connection.socket, doorbell).map_err(|error| system(error.into()))?);
        let (life, watcher) = watch::start(Arc::clone(&descriptors), watched_down).map_err(system)?;
        Ok(Self { down, up, descriptors, life, watcher: Some(watcher), slot: registered.slot })
    }

    /// What this program may use now. One load; to be read at every fork.
    #[inline]
    pub fn grant(&self) -> Grant {
        self.down.grant.read()
    }

    /// The processors of the current grant.
    pub fn cpus(&self) -> CpuSet {
        self.grant_with_cpus().1
    }

    /// The current grant together with its processors.
    pub fn grant_with_cpus(&self) -> (Grant, CpuSet) {
        self.down.grant.read_with_cpus()
    }

    /// Says how many processors this program wants now. Rings the manager (some system calls) only when the number
    /// changes; the answer is a later grant.
    pub fn request(&self, processors: u32) {
        if self.up.request.ask(processors.clamp(1, MAX_CPUS)) {
            self.ring();
        }
    }

    /// The kernel thread of virtual processor `index`, for reports. Beyond the layout's 1024 nothing happens.
    pub fn publish_vp(&self, index: usize, tid: Tid) {
        if let Some(vp) = self.up.vps.get(index).filter(|_| index < MAX_VPS) {
            vp.set_tid(tid.0.unsigned_abs());
        }
    }

    /// False once the manager is gone or the program has closed the connection under us, and while it is silent for longer than `max(1 s, 10 quanta)`. One relaxed load.
    /// A manager that comes out of its silence is alive again; a gone one never is.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.life.is_alive()
    }

    /// The manager's quantum.
    pub fn quantum(&self) -> Duration {
        Duration::from_nanos(self.down.manager.quantum_ns())
    }

    /// The manager's number for this program.
    pub fn slot(&self) -> u64 {
        self.slot
    }

    fn ring(&self) {
        if self.life.is_gone() {
            return;
        }
        match self.descriptors.doorbell() {
            // It fails only when the descriptor went in this very moment; the next ring finds out.
            Some(doorbell) => drop::<SysResult<()>>(event::ring(doorbell)),
            None => {
                self.life.end();
                self.hang_up();
            }
        }
    }

    /// Ends the connection, if it is there: the manager forgets the program, and the watcher ends. False when the
    /// socket's number is not ours any more.
    fn hang_up(&self) -> bool {
        let Some(socket) = self.descriptors.socket() else {
            return false;
        };
        // An error means that the socket is not connected any more, which ends the watcher as well.
        let _ended: nix::Result<()> = nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Both);
        true
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let hung_up = self.hang_up();
        self.life.end();
        // Without the socket nothing ends the watcher's wait before its next look, up to seconds from now. It has all
        // that it uses for itself, and ends then.
        if let Some(watcher) = self.watcher.take().filter(|_| hung_up) {
            // A panic of the watcher (an invariant of the standard library) has been printed already.
            let _ended: std::thread::Result<()> = watcher.join();
        }
    }
}

/// A socket to the manager, for one conversation.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    path: PathBuf,
    timeout: Duration,
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
    /// When the connection broke.
    pub fn send(&self, message: &ToManager) -> Result<(), ConnectError> {
        let packet =
            message::encode(message).map_err(|source| ConnectError::Message { path: self.path.clone(), source })?;
        fdpass::send(self.socket.as_fd(), &packet, &[]).map_err(|source| self.system(source))
    }

    /// Waits for an answer and the descriptors that come with it.
    ///
    /// # Errors
    /// When there is none in time, the connection breaks, or the answer is no message.
    pub fn receive(&self) -> Result<(FromManager, Vec<OwnedFd>), ConnectError> {
        let mut buffer = vec![0; MAX_MESSAGE];
        let (length, descriptors) = match fdpass::recv(self.socket.as_fd(), &mut buffer, Some(self.timeout)) {
            Ok(received) => received,
            Err(error) if error.is(nix::errno::Errno::ETIMEDOUT as i32) => {
                return Err(ConnectError::Silent { path: self.path.clone(), timeout: self.timeout });
            }
            Err(error) => return Err(self.system(error)),
        };
        if length == 0 {
            return Err(self.broken("it closed the connection without an answer".into()));
        }
        let answer = message::decode(&buffer[..length])
            .map_err(|source| ConnectError::Message { path: self.path.clone(), source })?;
        Ok((answer, descriptors))
    }

    /// An error of the manager at the other end.
    pub fn broken(&self, what: String) -> ConnectError {
        ConnectError::Protocol { path: self.path.clone(), what }
    }

    fn system(&self, source: SysError) -> ConnectError {
        ConnectError::System { path: self.path.clone(), source: source.into() }
    }
}

/// At most `bytes` bytes of `text`, whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
