//! Which socket a command means.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arena::client::{
    ConnectError, Connection, InTheWay, SYSTEM_SOCKET, SocketChoice, find_socket, in_the_way,
    user_socket,
};

use crate::daemon::absolute;
use crate::error::{Error, is_absent};
use crate::instance::InstanceError;

/// The socket that an option or the variable names, or the one that is found.
///
/// # Errors
/// When the variable holds a word that is neither `off` nor a path: a manager would be looked for,
/// and started, in the current directory.
fn choice(named: Option<&Path>) -> Result<SocketChoice, Error> {
    let Some(path) = named else { return is_path(find_socket()) };
    Ok(SocketChoice::Explicit(path.to_owned()))
}

fn is_path(choice: SocketChoice) -> Result<SocketChoice, Error> {
    match &choice {
        SocketChoice::Explicit(path) if !path.as_os_str().as_bytes().contains(&b'/') => {
            Err(Error::Usage(format!(
                "NANOS_CPUMGR={0}: neither `off` nor the path of a socket; unset it, or write \
                 ./{0} for one in the current directory",
                path.display()
            )))
        }
        _ => Ok(choice),
    }
}

/// The socket of a manager that is to be started, for the whole machine or for this user. A user's
/// own manager gives way to the system's: two of them would share the machine out twice (D9). A
/// user that wants both names a socket.
///
/// # Errors
/// When `NANOS_CPUMGR=off`, or the system's manager answers.
pub fn to_serve(named: Option<&Path>, system: bool) -> Result<PathBuf, Error> {
    if system && named.is_none() {
        return Ok(SYSTEM_SOCKET.into());
    }
    to_serve_of(choice(named)?)
}

fn to_serve_of(choice: SocketChoice) -> Result<PathBuf, Error> {
    match choice {
        SocketChoice::Found(path) if path == Path::new(SYSTEM_SOCKET) && !is_abandoned(&path) => {
            Err(InstanceError::Running {
                socket: path,
                holder: "the manager of the whole machine".into(),
            }
            .into())
        }
        SocketChoice::Explicit(path) => absolute(&path),
        SocketChoice::Off => Err(Error::Usage(
            "NANOS_CPUMGR=off says that no manager is wanted; unset it, or name a --socket".into(),
        )),
        // The one that programs find: a manager that is to begin there is told that one runs
        // already.
        SocketChoice::Found(path) if !is_abandoned(&path) => absolute(&path),
        SocketChoice::Found(_) | SocketChoice::None => Ok(user_socket()),
    }
}

/// The socket of a manager that should be there.
///
/// # Errors
/// When there is none at any usual place.
pub fn to_ask(named: Option<&Path>) -> Result<PathBuf, Error> {
    match choice(named)? {
        SocketChoice::Explicit(path) | SocketChoice::Found(path) => {
            let path = absolute(&path)?;
            refuse_file(&path)?;
            Ok(path)
        }
        SocketChoice::Off => Err(Error::NoManager { looked: "NANOS_CPUMGR=off".into() }),
        SocketChoice::None => Err(no_manager(&user_socket(), &in_the_way())),
    }
}

/// There is none at any usual place; `own` is where this user's would be.
fn no_manager(own: &Path, obstacles: &[InTheWay]) -> Error {
    let looked = format!("neither {SYSTEM_SOCKET} nor {} is there", own.display());
    let said = said_of(obstacles);
    // Where every place is taken, the usual one is, too.
    if obstacles.iter().any(|it| own.starts_with(&it.path)) {
        return Error::NoPlace { what: said };
    }
    Error::NoManager { looked: if said.is_empty() { looked } else { format!("{looked}; {said}") } }
}

fn said_of(obstacles: &[InTheWay]) -> String {
    obstacles.iter().map(InTheWay::to_string).collect::<Vec<_>>().join("; ")
}

/// What is to be said of a manager that serves or is looked for at `socket`, when it is not where
/// this user's would usually be.
pub fn remark(named: Option<&Path>, socket: &Path) -> Option<String> {
    let obstacles = in_the_way();
    let is_own = matches!(choice(named), Ok(SocketChoice::Found(_) | SocketChoice::None))
        && socket != Path::new(SYSTEM_SOCKET);
    (is_own && !obstacles.is_empty()).then(|| {
        let said = said_of(&obstacles);
        format!(
            "{said}; the manager's socket is {}, unless --socket or NANOS_CPUMGR name another one",
            socket.display()
        )
    })
}

/// The socket under which a program is to run; `None`: `NANOS_CPUMGR=off`. A system's manager comes
/// first (two managers of one machine would share it out twice), but what a dead one left does not
/// keep the user from an own one.
///
/// # Errors
/// When a relative path has no current directory.
pub fn to_run(named: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    match choice(named)? {
        SocketChoice::Explicit(path) => absolute(&path).map(Some),
        SocketChoice::Found(path) if path == Path::new(SYSTEM_SOCKET) && is_abandoned(&path) => {
            Ok(Some(user_socket()))
        }
        SocketChoice::Found(path) => absolute(&path).map(Some),
        SocketChoice::Off => Ok(None),
        SocketChoice::None => Ok(Some(user_socket())),
    }
}

/// Refuses a path at which something stands that is no socket, before anything is made beside it:
/// no manager can listen there, and whose file that is, is not known.
///
/// # Errors
/// When it does.
pub fn refuse_file(socket: &Path) -> Result<(), Error> {
    let is_other = match std::fs::metadata(socket) {
        Ok(data) => !data.file_type().is_socket(),
        // A link that leads nowhere is something, too.
        Err(_) => std::fs::symlink_metadata(socket).is_ok(),
    };
    if is_other {
        let what = "something that is no socket stands there; choose another one with --socket or \
                    NANOS_CPUMGR"
            .into();
        return Err(InstanceError::Path { socket: socket.to_owned(), what }.into());
    }
    Ok(())
}

/// A socket file at which no process listens.
fn is_abandoned(path: &Path) -> bool {
    match Connection::open(path, Duration::from_secs(1)) {
        Err(ConnectError::Unreachable { source, .. }) => is_absent(source),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// A child that another test forked has a copy of a listener until it becomes its program.
    fn soon(is_so: impl Fn() -> bool) -> bool {
        let begin = Instant::now();
        while !is_so() {
            if begin.elapsed() >= Duration::from_secs(20) {
                return false;
            }
        }
        true
    }

    #[test]
    fn what_a_dead_manager_left_is_abandoned_and_a_living_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = platform::fdpass::listen(&path, 0o600).unwrap();
        assert!(!is_abandoned(&path));
        drop(listener);
        assert!(soon(|| is_abandoned(&path)));
    }

    #[test]
    fn a_manager_is_to_begin_where_programs_find_one_and_not_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = platform::fdpass::listen(&path, 0o600).unwrap();
        assert_eq!(to_serve_of(SocketChoice::Found(path.clone())).unwrap(), path);
        drop(listener);
        assert!(soon(|| is_abandoned(&path)));
        assert_eq!(to_serve_of(SocketChoice::Found(path)).unwrap(), user_socket());
    }

    #[test]
    fn only_what_stands_there_and_is_no_socket_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [path, link, file] = ["s", "link", "file"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refuse_file(&path).is_ok() && refuse_file(&link).is_err());
        let _listener = platform::fdpass::listen(&path, 0o600).unwrap();
        assert!(refuse_file(&path).is_ok() && refuse_file(&link).is_ok());
        std::fs::write(&file, "").unwrap();
        assert_eq!(refuse_file(&file).unwrap_err().code(), crate::error::SOCKET);
    }

    #[test]
    fn a_word_in_the_variable_that_is_no_path_is_refused_by_name() {
        for word in ["on", "nope"] {
            let error = is_path(SocketChoice::Explicit(word.into())).unwrap_err();
            assert!(error.to_string().contains(&format!("NANOS_CPUMGR={word}")), "{error}");
        }
        for path in ["./on", "/run/on"] {
            assert!(is_path(SocketChoice::Explicit(path.into())).is_ok());
        }
        assert!(is_path(SocketChoice::Off).is_ok() && is_path(SocketChoice::None).is_ok());
    }

    #[test]
    fn a_named_socket_is_taken_as_it_is() {
        let path = Path::new("/x/app.sock");
        assert_eq!(to_serve(Some(path), false).unwrap(), path);
        assert_eq!(to_serve(Some(path), true).unwrap(), path);
        assert_eq!(to_serve(None, true).unwrap(), Path::new(SYSTEM_SOCKET));
        assert_eq!(to_ask(Some(path)).unwrap(), path);
        assert_eq!(to_run(Some(path)).unwrap().as_deref(), Some(path));
    }

    #[test]
    fn that_a_manager_can_be_started_is_said_only_where_it_can() {
        let [first, second] = ["/tmp/cpumgr-7", "/tmp/cpumgr-7-2"].map(PathBuf::from);
        let taken =
            InTheWay { path: first.clone(), what: "belongs to user 8, not to user 7".into() };
        let free = no_manager(&first.join("app.sock"), &[]).to_string();
        assert!(free.contains("cpumgr run") && !free.contains("belongs"), "{free}");
        let elsewhere =
            no_manager(&second.join("app.sock"), std::slice::from_ref(&taken)).to_string();
        assert!(
            elsewhere.contains("cpumgr run")
                && elsewhere.contains("/tmp/cpumgr-7 belongs to user 8"),
            "{elsewhere}"
        );
        let nowhere = no_manager(&first.join("app.sock"), &[taken]);
        assert_eq!(nowhere.code(), crate::error::NO_MANAGER);
        let nowhere = nowhere.to_string();
        assert!(
            !nowhere.contains("cpumgr run") && nowhere.contains("belongs to user 8"),
            "{nowhere}"
        );
        assert!(nowhere.contains("--socket"), "{nowhere}");
    }
}
