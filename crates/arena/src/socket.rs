//! Where the manager's socket is.

use std::env;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use platform::file;

/// The variable that names the socket, or says `off`.
pub const SOCKET_VARIABLE: &str = "NANOS_CPUMGR";
/// The system instance's socket.
pub const SYSTEM_SOCKET: &str = "/run/cpumgr/app.sock";

/// Where a program should look for a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketChoice {
    /// `NANOS_CPUMGR=off`: nowhere.
    Off,
    /// `NANOS_CPUMGR` names a socket. When it does not answer, that is worth a message, once.
    Explicit(PathBuf),
    /// A socket stands at one of the usual places. When it does not answer, nobody needs to know.
    Found(PathBuf),
    /// There is none.
    None,
}

impl SocketChoice {
    /// The path to connect to.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Explicit(path) | Self::Found(path) => Some(path),
            Self::Off | Self::None => None,
        }
    }
}

/// Looks at `NANOS_CPUMGR`, then at the usual places: the system's instance, then the user's own.
pub fn find_socket() -> SocketChoice {
    find(env::var_os(SOCKET_VARIABLE).as_deref(), Path::new(SYSTEM_SOCKET), &user_sockets())
}

/// Where a user's own instance puts its socket: `$XDG_RUNTIME_DIR/cpumgr/app.sock` when that directory is there,
/// otherwise `/tmp/cpumgr-UID/app.sock`.
pub fn user_socket() -> PathBuf {
    match runtime_dir() {
        Some(dir) if file::metadata(&dir).is_ok_and(|it| it.is_dir()) => dir.join("cpumgr/app.sock"),
        _ => tmp_socket(),
    }
}

fn user_sockets() -> Vec<PathBuf> {
    runtime_dir().map(|dir| dir.join("cpumgr/app.sock")).into_iter().chain([tmp_socket()]).collect()
}

fn runtime_dir() -> Option<PathBuf> {
    env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute())
}

fn tmp_socket() -> PathBuf {
    PathBuf::from(format!("/tmp/cpumgr-{}/app.sock", nix::unistd::geteuid()))
}

fn find(variable: Option<&OsStr>, system: &Path, user: &[PathBuf]) -> SocketChoice {
    match variable {
        Some(value) if value == "off" => return SocketChoice::Off,
        Some(value) if !value.is_empty() => return SocketChoice::Explicit(value.into()),
        // Set but empty says nothing, as with most variables.
        _ => {}
    }
    if file::metadata(system).is_ok() {
        return SocketChoice::Found(system.to_path_buf());
    }
    match user.iter().find(|path| is_ours(path)) {
        Some(path) => SocketChoice::Found(path.clone()),
        None => SocketChoice::None,
    }
}

/// Whether socket and directory belong to this user: anybody may make a directory in /tmp.
fn is_ours(socket: &Path) -> bool {
    let me = nix::unistd::geteuid().as_raw();
    let owner = |path: &Path| file::symlink_metadata(path).map(|data| data.uid()).ok();
    owner(socket) == Some(me) && socket.parent().is_some_and(|dir| owner(dir) == Some(me))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_decides_alone() {
        let dir = tempfile::tempdir().unwrap();
        let there = dir.path().join("app.sock");
        std::fs::write(&there, "").unwrap();
        assert_eq!(find(Some("off".as_ref()), &there, &[]), SocketChoice::Off);
        let named = find(Some("/nowhere/x.sock".as_ref()), &there, &[]);
        assert_eq!(named, SocketChoice::Explicit("/nowhere/x.sock".into()));
    }

    #[test]
    fn the_systems_socket_comes_before_the_users() {
        let dir = tempfile::tempdir().unwrap();
        let (system, user) = (dir.path().join("system.sock"), dir.path().join("user.sock"));
        assert_eq!(find(None, &system, std::slice::from_ref(&user)), SocketChoice::None);
        std::fs::write(&user, "").unwrap();
        assert_eq!(find(None, &system, std::slice::from_ref(&user)), SocketChoice::Found(user.clone()));
        std::fs::write(&system, "").unwrap();
        assert_eq!(find(Some("".as_ref()), &system, &[user]), SocketChoice::Found(system));
    }

    #[test]
    fn a_strangers_socket_is_not_taken() {
        // Every directory above the temporary ones belongs to the superuser; for him the question does not arise.
        if nix::unistd::geteuid().is_root() {
            platform::skip!("needs an unprivileged user");
            return;
        }
        assert!(!is_ours(Path::new("/etc/passwd")));
    }
}
