//! Where the manager's socket is.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use platform::file;

/// The variable that names the socket, or says `off`.
pub const SOCKET_VARIABLE: &str = "NANOS_CPUMGR";
/// The system instance's socket.
pub const SYSTEM_SOCKET: &str = "/run/cpumgr/app.sock";

/// What it is called in its directory.
const NAME: &str = "app.sock";

/// Where a program should look for a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketChoice {
    /// `NANOS_CPUMGR=off`: nowhere.
    Off,
    /// `NANOS_CPUMGR` names a socket. When it does not answer, that is worth a message, once.
    Explicit(PathBuf),
    /// A socket stands at one of the usual places. When it does not answer, that is not worth a
    /// message.
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
    find(
        env::var_os(SOCKET_VARIABLE).as_deref(),
        Path::new(SYSTEM_SOCKET),
        &SocketDirectories::of_user().sockets(),
    )
}

/// Where a user's own instance puts its socket: the first of `$XDG_RUNTIME_DIR/cpumgr/app.sock`,
/// where that directory is the user's, `/tmp/cpumgr-UID/app.sock`, and `/tmp/cpumgr-UID-2/app.sock`
/// to `-4`, that nothing else is in the way of.
pub fn user_socket() -> PathBuf {
    SocketDirectories::of_user().socket()
}

/// What keeps the user's own instance from the places before [`user_socket`], and whose that is.
/// Most often nothing.
pub fn in_the_way() -> Vec<InTheWay> {
    SocketDirectories::of_user().obstacles
}

/// Something that is not the user's at a place where the user's own instance would be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InTheWay {
    /// What stands there.
    pub path: PathBuf,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for InTheWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path.display(), self.what)
    }
}

/// The directories of a user's own instance.
#[derive(Debug, Default)]
struct SocketDirectories {
    /// Those that nothing is in the way of, the best one first.
    directories: Vec<PathBuf>,
    /// What is in the way of better ones.
    obstacles: Vec<InTheWay>,
    /// Where it would be if nothing were in the way anywhere.
    usual: PathBuf,
}

impl SocketDirectories {
    fn of_user() -> Self {
        let me = platform::process::effective_user();
        Self::among(env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), Path::new("/tmp"), me)
    }

    fn among(runtime: Option<PathBuf>, shared: &Path, me: u32) -> Self {
        let in_shared = |ending: &str| shared.join(format!("cpumgr-{me}{ending}"));
        let mut places = Self { usual: in_shared(""), ..Self::default() };
        // One that is not there is as one that is not named.
        if let Some(runtime) = runtime.filter(|dir| dir.is_absolute())
            && let Ok(data) = file::metadata(&runtime)
        {
            match objection(&data, me) {
                None => places.consider(runtime.join("cpumgr"), me),
                Some(what) => places
                    .obstacles
                    .push(InTheWay { path: runtime, what: what + " (XDG_RUNTIME_DIR)" }),
            }
        }
        // Any user may have made a directory of any name there.
        ["", "-2", "-3", "-4"]
            .into_iter()
            .for_each(|ending| places.consider(in_shared(ending), me));
        places
    }

    fn consider(&mut self, path: PathBuf, me: u32) {
        match file::symlink_metadata(&path).ok().and_then(|data| objection(&data, me)) {
            None => self.directories.push(path),
            Some(what) if self.directories.is_empty() => {
                self.obstacles.push(InTheWay { path, what })
            }
            Some(_) => {}
        }
    }

    fn sockets(&self) -> Vec<PathBuf> {
        self.directories.iter().map(|dir| dir.join(NAME)).collect()
    }

    fn socket(&self) -> PathBuf {
        self.directories.first().unwrap_or(&self.usual).join(NAME)
    }
}

/// Why something that stands at the place of a directory is none in which this user, and only this
/// user, can make files.
fn objection(data: &Metadata, me: u32) -> Option<String> {
    match (data.is_dir(), data.uid() == me, data.mode() & 0o022) {
        (_, false, _) => Some(format!("belongs to user {}, not to user {me}", data.uid())),
        (false, ..) => Some("is no directory".into()),
        (.., 1..) => Some(format!("has mode {:o}: others may write there", data.mode() & 0o7777)),
        // The superuser may, whatever the mode says.
        _ if me != 0 && data.mode() & 0o700 != 0o700 => Some(format!(
            "has mode {:o}: its own user may not use it, which needs 0700",
            data.mode() & 0o7777
        )),
        _ => None,
    }
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

/// Whether socket and directory belong to this user: any user may make a directory in /tmp.
fn is_ours(socket: &Path) -> bool {
    let me = platform::process::effective_user();
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
        assert_eq!(
            find(None, &system, std::slice::from_ref(&user)),
            SocketChoice::Found(user.clone())
        );
        std::fs::write(&system, "").unwrap();
        assert_eq!(find(Some("".as_ref()), &system, &[user]), SocketChoice::Found(system));
    }

    #[test]
    fn a_strangers_socket_is_not_taken() {
        // Every directory above the temporary ones belongs to the superuser; for him the question
        // does not arise.
        if platform::process::effective_user() == 0 {
            platform::skip!("needs an unprivileged user");
            return;
        }
        assert!(!is_ours(Path::new("/etc/passwd")));
    }

    #[test]
    fn a_runtime_directory_counts_where_it_is_the_users_alone_and_another_place_is_named_otherwise()
    {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let [runtime, shared] = ["runtime", "shared"].map(|name| dir.path().join(name));
        std::fs::create_dir(&runtime).unwrap();
        std::fs::create_dir(&shared).unwrap();
        let set_mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap()
        };
        set_mode(&runtime, 0o700);
        let me = platform::process::effective_user();
        let of = |me| SocketDirectories::among(Some(runtime.clone()), &shared, me);
        assert_eq!((of(me).socket(), of(me).obstacles), (runtime.join("cpumgr/app.sock"), vec![]));
        // `su -c` and `sudo -E` leave the variable of the user that called them.
        let other = of(me + 1);
        assert_eq!(other.socket(), shared.join(format!("cpumgr-{}/app.sock", me + 1)));
        let said = other.obstacles[0].to_string();
        assert!(
            said.starts_with(runtime.to_str().unwrap())
                && said.contains(&format!("belongs to user {me}")),
            "{said}"
        );
        assert!(!other.sockets().contains(&runtime.join("cpumgr/app.sock")), "nor is it looked at");
        set_mode(&runtime, 0o770);
        assert_eq!(of(me).socket(), shared.join(format!("cpumgr-{me}/app.sock")));
        assert!(of(me).obstacles[0].what.contains("others may write there"));
        let absent = SocketDirectories::among(Some(dir.path().join("absent")), &shared, me);
        assert!(absent.obstacles.is_empty() && absent.socket().starts_with(&shared));
    }

    #[test]
    fn a_directory_that_its_own_user_cannot_use_is_in_the_way() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let mut me = platform::process::effective_user();
        if me == 0 {
            me = 4711;
        }
        let first = dir.path().join(format!("cpumgr-{me}"));
        std::fs::create_dir(&first).unwrap();
        std::os::unix::fs::chown(&first, Some(me), None).unwrap();
        for mode in [0o000, 0o500, 0o600] {
            std::fs::set_permissions(&first, std::fs::Permissions::from_mode(mode)).unwrap();
            let places = SocketDirectories::among(None, dir.path(), me);
            assert_eq!(places.socket(), dir.path().join(format!("cpumgr-{me}-2/app.sock")));
            let said = places.obstacles[0].to_string();
            assert!(said.contains(&format!("has mode {mode:o}: its own user")), "{said}");
        }
        std::fs::set_permissions(&first, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(SocketDirectories::among(None, dir.path(), me).socket(), first.join("app.sock"));
    }

    #[test]
    fn what_stands_in_the_way_is_named_and_the_next_place_is_taken_by_both_sides() {
        let dir = tempfile::tempdir().unwrap();
        let me = platform::process::effective_user();
        // Whatever it is: a file of this user is as much in the way as a directory of another user.
        let taken = dir.path().join(format!("cpumgr-{me}"));
        std::fs::write(&taken, "").unwrap();
        let places = SocketDirectories::among(None, dir.path(), me);
        let second = dir.path().join(format!("cpumgr-{me}-2/app.sock"));
        assert_eq!(places.socket(), second);
        assert_eq!(
            places.obstacles,
            [InTheWay { path: taken.clone(), what: "is no directory".into() }]
        );
        std::fs::create_dir(second.parent().unwrap()).unwrap();
        std::fs::write(&second, "").unwrap();
        // Also when nothing is in the way any more.
        std::fs::remove_file(&taken).unwrap();
        let places = SocketDirectories::among(None, dir.path(), me);
        let nowhere = Path::new("/nowhere/app.sock");
        assert_eq!(find(None, nowhere, &places.sockets()), SocketChoice::Found(second));
        for ending in ["", "-2", "-3", "-4"] {
            let path = dir.path().join(format!("cpumgr-{}{ending}", me + 1));
            std::fs::write(path, "").unwrap();
        }
        let none = SocketDirectories::among(None, dir.path(), me + 1);
        assert!(none.sockets().is_empty() && none.obstacles.len() == 4);
        assert!(none.obstacles[0].what.contains(&format!("belongs to user {me}")));
    }
}
