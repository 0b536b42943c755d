//! What can go wrong on the command line, and the exit code that says it.

use std::io;
use std::path::PathBuf;

use arena::client::ConnectError;
use arena::message::RefusedCode;
use nix::errno::Errno;
use platform::SysError;

use crate::instance::InstanceError;
use crate::machine::MachineError;
use crate::mistake::ConfigError;

/// Something failed that has no code of its own.
pub const FAILED: u8 = 1;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// No manager answers.
pub const NO_MANAGER: u8 = 3;
/// A manager runs on that socket already.
pub const RUNNING: u8 = 4;
/// The socket or its directory cannot be used.
pub const SOCKET: u8 = 5;
/// What answers is no manager of this version, does not answer, or refuses.
pub const PROTOCOL: u8 = 6;
/// What was submitted was cancelled, or cannot begin any more.
pub const CANCELLED: u8 = 7;
/// The program to run cannot be executed.
pub const CANNOT_EXECUTE: u8 = 126;
/// The program to run is not there.
pub const NOT_FOUND: u8 = 127;

/// A failed command. Its text says what failed, on what, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The command line asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// There is no socket at any usual place.
    #[error("no manager runs for this user ({looked}); `cpumgr run PROGRAM` starts one")]
    NoManager {
        /// Where it was looked for.
        looked: String,
    },
    /// There is none, and other users have all places at which one could be started.
    #[error(
        "no manager runs for this user, and none can be started at the usual places: {what}; have \
         that removed, or name a place of your own with --socket or NANOS_CPUMGR"
    )]
    NoPlace {
        /// What is in the way.
        what: String,
    },
    /// The talk with a manager failed.
    #[error("{source}{}", advice(source))]
    Connect {
        /// How.
        #[from]
        source: ConnectError,
    },
    /// The socket cannot be claimed.
    #[error(transparent)]
    Instance(#[from] InstanceError),
    /// There is nothing to manage.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The kernel refused something.
    #[error("{0}")]
    System(#[from] SysError),
    /// A file or process cannot be made.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The detached manager ended before it was ready.
    #[error("the manager did not start: {message} (its log: {})", log.display())]
    Start {
        /// Its own words.
        message: String,
        /// Its exit code.
        code: u8,
        /// Its log.
        log: PathBuf,
    },
    /// A starter in a process of its own failed.
    #[error("{message}")]
    Apart {
        /// Its own words.
        message: String,
        /// Its exit code.
        code: u8,
    },
    /// The program cannot be run.
    #[error("cannot run {program}: {source}")]
    Exec {
        /// Which.
        program: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl Error {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Config(_) => USAGE,
            Self::NoManager { .. } | Self::NoPlace { .. } => NO_MANAGER,
            Self::Connect { source } => match source {
                ConnectError::Unreachable { source, .. } if is_absent(*source) => NO_MANAGER,
                ConnectError::Unreachable { .. } => SOCKET,
                ConnectError::Refused { refused, .. } if refused.code == RefusedCode::Cancelled => {
                    CANCELLED
                }
                ConnectError::TooLong { .. } => USAGE,
                _ => PROTOCOL,
            },
            Self::Instance(InstanceError::Running { .. } | InstanceError::Hidden { .. }) => RUNNING,
            Self::Instance(_) => SOCKET,
            Self::Machine(
                MachineError::NotAllowed { .. } | MachineError::Empty | MachineError::TooLarge(_),
            ) => USAGE,
            Self::Start { code, .. } | Self::Apart { code, .. } => *code,
            Self::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Exec { .. } => CANNOT_EXECUTE,
            Self::Machine(_) | Self::System(_) | Self::Io { .. } => FAILED,
        }
    }
}

/// No process listens at a socket (any more).
pub fn is_absent(error: SysError) -> bool {
    [Errno::ENOENT, Errno::ECONNREFUSED, Errno::ENOTDIR].iter().any(|errno| error.is(*errno as i32))
}

/// What to do about a failed talk.
fn advice(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::Unreachable { source, .. } if is_absent(*source) => {
            "; `cpumgr run PROGRAM` starts a manager, `cpumgr daemon` too"
        }
        ConnectError::Unreachable { source, .. } if source.is(Errno::EACCES as i32) => {
            "; it, or a directory on its way, is another user's or closed to you: choose your own \
             with --socket or NANOS_CPUMGR"
        }
        ConnectError::Unreachable { .. } => "; choose another one with --socket or NANOS_CPUMGR",
        ConnectError::Message { .. }
        | ConnectError::Protocol { .. }
        | ConnectError::Area { .. } => {
            "; is it the socket of a cpumgr of this version? Choose another one with --socket or \
             NANOS_CPUMGR"
        }
        ConnectError::TooLong { .. } => "; say it in fewer words",
        ConnectError::Silent { .. } => {
            "; it is stopped (continue it by SIGCONT), hangs (end it), or the machine is \
             overloaded (try again)"
        }
        _ => "",
    }
}
