//! Why a program is not managed.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use platform::SysError;

use crate::area::AreaError;
use crate::message::{MAX_MESSAGE, MessageError, Refused, RefusedCode};

/// Why there is no connection. Each names the socket.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// No process listens there, or we may not connect.
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        source: SysError,
    },
    /// The manager said no.
    Refused {
        /// The socket.
        path: PathBuf,
        /// Its words.
        refused: Refused,
    },
    /// The manager did not answer in time.
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long we waited.
        timeout: Duration,
    },
    /// Something other than this version's manager answers there.
    Message {
        /// The socket.
        path: PathBuf,
        /// What is wrong with the answer.
        source: MessageError,
    },
    /// What we had to say is longer than a message. Nothing was sent.
    TooLong {
        /// The socket.
        path: PathBuf,
        /// The message's length.
        length: usize,
    },
    /// The answer is a message, but not one that belongs here.
    Protocol {
        /// The socket.
        path: PathBuf,
        /// What it did.
        what: String,
    },
    /// The areas that it sent are refused.
    Area {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        source: AreaError,
    },
    /// The connection broke, or the system has no thread for the watcher.
    System {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { path, source } => {
                write!(f, "no manager answers at {}: {source}", path.display())
            }
            Self::Refused { path, refused } => {
                write!(f, "the manager at {} refused: {}", path.display(), refused.reason)
            }
            Self::Silent { path, timeout } => {
                write!(f, "the manager at {} did not answer within {timeout:?}", path.display())
            }
            Self::Message { path, source } => write!(
                f,
                "what answers at {} is no manager of this version: {source}",
                path.display()
            ),
            Self::TooLong { path, length } => write!(
                f,
                "our message to the manager at {} is too long: it would have {length} bytes, and a \
                 message has at most {MAX_MESSAGE}",
                path.display()
            ),
            Self::Protocol { path, what } => {
                write!(f, "the manager at {} broke the protocol: {what}", path.display())
            }
            Self::Area { path, source } => write!(
                f,
                "the manager at {} sent an area that cannot be used: {source}",
                path.display()
            ),
            Self::System { path, source } => {
                write!(f, "the connection to the manager at {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreachable { source, .. } => Some(source),
            Self::Message { source, .. } => Some(source),
            Self::Area { source, .. } => Some(source),
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl ConnectError {
    /// A manager is there, or was a moment ago, and had no time or no room: it may answer later.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Silent { .. } | Self::System { .. } | Self::Protocol { .. } => true,
            // No room in its queue.
            Self::Unreachable { source, .. } => {
                [libc::ETIMEDOUT, libc::EAGAIN].iter().any(|it| source.is(*it))
            }
            Self::Refused { refused, .. } => {
                matches!(refused.code, RefusedCode::Full | RefusedCode::System)
            }
            Self::Message { .. } | Self::TooLong { .. } | Self::Area { .. } => false,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_manager_without_time_or_room_may_answer_later_and_no_other_one() {
        let path = PathBuf::from("/m");
        let unreachable = |errno| ConnectError::Unreachable {
            path: path.clone(),
            source: SysError::new("connect", errno),
        };
        let refused = |code| ConnectError::Refused {
            path: path.clone(),
            refused: Refused { code, reason: String::new() },
        };
        let (timeout, what) = (Duration::from_millis(500), "it left".into());
        let broken = io::ErrorKind::ConnectionReset.into();
        for error in [
            ConnectError::Silent { path: path.clone(), timeout },
            ConnectError::Protocol { path: path.clone(), what },
            ConnectError::System { path: path.clone(), source: broken },
            unreachable(libc::ETIMEDOUT),
            unreachable(libc::EAGAIN),
            refused(RefusedCode::Full),
            refused(RefusedCode::System),
        ] {
            assert!(error.may_pass(), "{error}");
        }
        for error in [
            unreachable(libc::ENOENT),
            unreachable(libc::ECONNREFUSED),
            unreachable(libc::EACCES),
            refused(RefusedCode::Version),
            refused(RefusedCode::NotYours),
            refused(RefusedCode::Malformed),
            ConnectError::TooLong { path: path.clone(), length: 1 << 20 },
        ] {
            assert!(!error.may_pass(), "{error}");
        }
    }
}
