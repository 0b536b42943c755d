//! Where the drop-in OpenMP library is, and whether it may be loaded from there.

use std::env;
use std::path::{Path, PathBuf};

use crate::{preload, trust};

/// The file that makes a directory the drop-in library's.
pub(crate) const LIBRARY: &str = "libgomp.so.1";
/// The variable that names its directory.
pub(crate) const LIBRARY_VARIABLE: &str = "NANOS_SHIM_DIR";

/// How deep below it the loader may look for libraries.
const DEEPEST: usize = 3;

/// Why there is no drop-in library.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoLibrary {
    /// It is at none of these places.
    Absent { looked: String },
    /// It is there, and another user may change it.
    Unsafe { directory: PathBuf, why: String },
}

/// The directory of the drop-in library. Wherever it is, and whether or not it was named, no other
/// user may be able to change what is loaded from there.
pub(crate) fn library_directory(named: Option<&Path>) -> Result<PathBuf, NoLibrary> {
    let candidates: Vec<PathBuf> = match (named, env::var_os(LIBRARY_VARIABLE)) {
        (Some(named), _) => vec![named.to_owned()],
        (None, Some(named)) if !named.is_empty() => vec![named.into()],
        _ => match env::current_exe() {
            Ok(exe) => beside_program(&exe),
            Err(error) => {
                return Err(NoLibrary::Absent { looked: format!("any known place ({error})") });
            }
        },
    };
    let shown = || {
        candidates.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" or ")
    };
    let looked =
        if candidates.is_empty() { "lib/nanos beside this program's bin".into() } else { shown() };
    let is_there = |directory: &&PathBuf| directory.join(LIBRARY).is_file();
    let found = candidates.iter().find(is_there);
    let directory = match found
        .and_then(|found| Some((found.canonicalize().ok()?, std::path::absolute(found).ok())))
    {
        // A link may have a name that the loader can be told where that of the directory itself is
        // none.
        Some((directory, Some(link))) if is_awkward(&directory) && !is_awkward(&link) => link,
        Some((directory, _)) => directory,
        None => return Err(NoLibrary::Absent { looked }),
    };
    match objection(&directory) {
        None => Ok(directory),
        Some(why) => Err(NoLibrary::Unsafe { directory, why }),
    }
}

/// Why the directory must not be put in front of a program's libraries: the loader takes any
/// library from there, and not ours alone.
fn objection(directory: &Path) -> Option<String> {
    trust::objection(&directory.join(LIBRARY))
        .or_else(|| {
            let entries = match directory.read_dir() {
                Ok(entries) => entries,
                Err(error) => {
                    return Some(format!("{} cannot be read: {error}", directory.display()));
                }
            };
            let names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
            let libraries = names.filter(|name| name.to_string_lossy().contains(".so"));
            libraries
                .map(|name| directory.join(name))
                .find_map(|library| trust::objection(&library))
        })
        .or_else(|| below(directory, DEEPEST).iter().find_map(|path| trust::objection(path)))
}

/// Directories below it, and the libraries in them: the loader looks into some of them before the
/// directory itself (`glibc-hwcaps`, and in older versions `tls` and names of processors).
fn below(directory: &Path, deepest: usize) -> Vec<PathBuf> {
    let entries = directory.read_dir().into_iter().flatten().flatten();
    let mut all = Vec::new();
    for path in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        if deepest > 0 {
            all.extend(below(&path, deepest - 1));
        }
        let entries = path.read_dir().into_iter().flatten().flatten();
        let libraries = entries.map(|entry| entry.path());
        all.extend(libraries.filter(|path| path.to_string_lossy().contains(".so")));
        all.push(path);
    }
    all
}

pub(crate) fn is_awkward(directory: &Path) -> bool {
    [preload::PATH, preload::LIST].iter().any(|separators| preload::is_split(directory, separators))
}

/// `lib/nanos` beside `bin/cpumgr`, `target/shim` beside `target/release/cpumgr`; beside a program
/// anywhere else stands nothing of ours.
pub(crate) fn beside_program(exe: &Path) -> Vec<PathBuf> {
    let directory = exe.parent();
    let above = directory.and_then(Path::parent);
    let is_called = |path: Option<&Path>, name: &str| {
        path.and_then(Path::file_name).is_some_and(|it| it == name)
    };
    match above {
        Some(above) if is_called(directory, "bin") => vec![above.join("lib/nanos")],
        Some(above) if is_called(Some(above), "target") => vec![above.join("shim")],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_looked_for_where_the_program_is_installed_or_built_and_nowhere_else() {
        let of = |exe: &str| beside_program(Path::new(exe));
        assert_eq!(of("/x/target/release/cpumgr"), [PathBuf::from("/x/target/shim")]);
        assert_eq!(of("/usr/bin/cpumgr"), [PathBuf::from("/usr/lib/nanos")]);
        for elsewhere in ["/tmp/app/cpumgr", "/scratch/me/cpumgr", "/opt/cpumgr", "/cpumgr"] {
            assert!(of(elsewhere).is_empty(), "{elsewhere}");
        }
    }

    #[test]
    fn a_directory_without_the_library_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let looked = dir.path().display().to_string();
        assert_eq!(library_directory(Some(dir.path())), Err(NoLibrary::Absent { looked }));
        std::fs::write(dir.path().join(LIBRARY), "").unwrap();
        assert!(library_directory(Some(dir.path())).is_ok());
    }

    #[test]
    fn any_library_there_that_others_may_change_makes_the_directory_unsafe() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        for name in [LIBRARY, "libnanos_count.so", "libm.so.6", "notes"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let change = |name: &str, mode: u32| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(dir.path().join(name), mode).unwrap();
        };
        // What no loader looks for is none of its business.
        change("notes", 0o666);
        assert!(library_directory(Some(dir.path())).is_ok());
        for name in ["libnanos_count.so", "libm.so.6"] {
            change(name, 0o666);
            let refused = library_directory(Some(dir.path()));
            let Err(NoLibrary::Unsafe { why, .. }) = refused else { panic!("{refused:?}") };
            assert!(why.contains(name), "{why}");
            change(name, 0o644);
        }
        // Into which the loader looks first.
        let inner = "glibc-hwcaps/x86-64-v2";
        std::fs::create_dir_all(dir.path().join(inner)).unwrap();
        assert!(library_directory(Some(dir.path())).is_ok());
        change(inner, 0o777);
        assert!(library_directory(Some(dir.path())).is_err());
        change(inner, 0o755);
        let library = "glibc-hwcaps/x86-64-v2/libm.so.6";
        std::fs::write(dir.path().join(library), "").unwrap();
        assert!(library_directory(Some(dir.path())).is_ok());
        change(library, 0o666);
        assert!(library_directory(Some(dir.path())).is_err());
    }
}
