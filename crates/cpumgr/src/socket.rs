//! Which socket a command means.

use std::path::{Path, PathBuf};

use arena::client::{SYSTEM_SOCKET, SocketChoice, find_socket, user_socket};

use crate::daemon::absolute;
use crate::error::Error;

fn choice(named: Option<&Path>) -> SocketChoice {
    named.map_or_else(find_socket, |path| SocketChoice::Explicit(path.to_owned()))
}

/// The socket of a manager that is to be started.
///
/// # Errors
/// When `NANOS_CPUMGR=off`.
pub fn to_serve(named: Option<&Path>) -> Result<PathBuf, Error> {
    match choice(named) {
        SocketChoice::Explicit(path) => absolute(&path),
        SocketChoice::Off => {
            Err(Error::Usage("NANOS_CPUMGR=off says that no manager is wanted; unset it, or name a --socket".into()))
        }
        SocketChoice::Found(_) | SocketChoice::None => Ok(user_socket()),
    }
}

/// The socket of a manager that should be there.
///
/// # Errors
/// When there is none at any usual place.
pub fn to_ask(named: Option<&Path>) -> Result<PathBuf, Error> {
    match choice(named) {
        SocketChoice::Explicit(path) | SocketChoice::Found(path) => absolute(&path),
        SocketChoice::Off => Err(Error::NoManager { looked: "NANOS_CPUMGR=off".into() }),
        SocketChoice::None => Err(Error::NoManager {
            looked: format!("neither {SYSTEM_SOCKET} nor {} is there", user_socket().display()),
        }),
    }
}

/// The socket under which a program is to run; `None`: `NANOS_CPUMGR=off`.
///
/// # Errors
/// When a relative path has no current directory.
pub fn to_run(named: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    match choice(named) {
        SocketChoice::Explicit(path) | SocketChoice::Found(path) => absolute(&path).map(Some),
        SocketChoice::Off => Ok(None),
        SocketChoice::None => Ok(Some(user_socket())),
    }
}
