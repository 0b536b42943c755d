//! Where a history is kept.

use std::path::{Path, PathBuf};

use arena::client::{SYSTEM_SOCKET, user_socket};

/// What is configured of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// At the usual place, by a manager at its usual socket.
    #[default]
    On,
    /// Nowhere.
    Off,
    /// In this file.
    In(PathBuf),
}

/// The name of the file.
const NAME: &str = "history.redb";
/// The folder of a manager of the whole machine, unless the service manager names one.
const SYSTEM: &str = "/var/lib/cpumgr";

/// The file; `None`: none is kept. `is_usual`: the manager has a socket at one of the usual places.
/// Two managers of one user on sockets of their own do not share a file.
pub(crate) fn place(keep: &Keep, system: bool, is_usual: bool) -> Option<PathBuf> {
    match keep {
        Keep::Off => None,
        Keep::In(path) => Some(path.clone()),
        Keep::On if !is_usual => None,
        Keep::On if system => Some(of_system(std::env::var_os("STATE_DIRECTORY").map(Into::into))),
        Keep::On => of_user(),
    }
}

/// One of the places at which programs look by themselves.
pub(crate) fn is_usual(socket: &Path) -> bool {
    socket == Path::new(SYSTEM_SOCKET) || socket == user_socket()
}

/// The service manager names several folders with colons between them: the first one is ours.
fn of_system(named: Option<PathBuf>) -> PathBuf {
    let first = named.and_then(|it| Some(it.to_str()?.split(':').next()?.to_owned()));
    let first = first.filter(|it| it.starts_with('/'));
    Path::new(first.as_deref().unwrap_or(SYSTEM)).join(NAME)
}

/// `$XDG_STATE_HOME/cpumgr`, or `~/.local/state/cpumgr`.
fn of_user() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".local/state"));
    Some(absolute("XDG_STATE_HOME").or_else(home)?.join("cpumgr").join(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_at_a_socket_of_its_own_keeps_none_unless_a_file_is_named() {
        assert_eq!(place(&Keep::On, false, false), None);
        assert_eq!(place(&Keep::Off, true, true), None);
        let named = PathBuf::from("/a/b");
        assert_eq!(place(&Keep::In(named.clone()), false, false), Some(named));
        assert_eq!(of_system(None), Path::new("/var/lib/cpumgr/history.redb"));
        assert_eq!(of_system(Some("/s:/t".into())), Path::new("/s/history.redb"));
        assert_eq!(of_system(Some("relative".into())), Path::new("/var/lib/cpumgr/history.redb"));
    }
}
