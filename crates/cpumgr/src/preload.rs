//! Whether a program can load the drop-in library: what its file says.

use std::env;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{getegid, geteuid, getuid};

use crate::elf::Image;

/// Bits of a file's mode: its program runs with its user's, or its group's rights.
const SET_USER: u32 = 0o4000;
const SET_GROUP: u32 = 0o2010;

/// The attribute of a file that holds its capabilities.
const CAPABILITIES: &str = "security.capability";

/// At which the loader splits LD_LIBRARY_PATH.
pub const PATH: &[char] = &[':', ';'];
/// At which it splits LD_PRELOAD.
pub const LIST: &[char] = &[' ', ':'];

/// Whether the loader would take a path for several.
pub fn is_split(path: &Path, separators: &[char]) -> bool {
    path.to_string_lossy().contains(separators)
}

/// What kind of program a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Loads libraries of this machine.
    Dynamic,
    /// Loads none.
    Static,
    /// Another machine's, or another word size.
    Foreign,
    /// A script or something else that an interpreter runs: what that is, is not asked.
    Interpreted,
}

/// The kind of the program that a command line names, looked for as exec does; `None` when there is
/// none to read.
pub fn of_command(command: &Path) -> Option<Program> {
    Image::open(&find(command)?).ok().map(|image| of_image(&image))
}

/// Whether the program that a command line names was made by Go's tools. False when its file does
/// not say.
pub fn is_go(command: &Path) -> bool {
    find(command).and_then(|path| Image::open(&path).ok()).is_some_and(|image| image.is_go())
}

/// Whether a program runs with the rights of its file, and not with this process's: those of
/// another user or group, or capabilities that root alone has without them. The loader takes no
/// library into it that a variable names.
pub fn has_rights_of_its_own(path: &Path) -> bool {
    let has_ids = path.metadata().is_ok_and(|data| {
        let has = |bits: u32| data.mode() & bits == bits;
        has(SET_USER) && data.uid() != geteuid().as_raw()
            || has(SET_GROUP) && data.gid() != getegid().as_raw()
    });
    has_ids || !getuid().is_root() && has_capabilities(path)
}

/// Whether a file names capabilities (setcap): the kernel gives them to the program that it
/// becomes.
fn has_capabilities(path: &Path) -> bool {
    // Of no bytes asked for, the answer is the attribute's length.
    rustix::fs::getxattr(path, CAPABILITIES, &mut [0_u8; 0]).is_ok()
}

/// Whether a library is one of this machine.
pub fn is_loadable(library: &Path) -> bool {
    Image::open(library).is_ok_and(|image| image.is_native())
}

/// Whether a program names an OpenMP library that stands in `directory` and takes it from there
/// when the library path says so: its own DT_RPATH would come first. False when its file does not
/// say.
pub fn finds_by_path(command: &Path, directory: Option<&Path>) -> bool {
    let needs =
        find(command).and_then(|path| Image::open(&path).ok()).and_then(|image| image.needs());
    let (Some(needs), Some(directory)) = (needs, directory) else { return false };
    let mut libraries = needs.libraries.iter().filter(|name| is_openmp(name)).peekable();
    !needs.own_path
        && libraries.peek().is_some()
        && libraries.all(|name| directory.join(name).exists())
}

/// Whether a program names an OpenMP library. False when its file does not say.
pub fn names_openmp(command: &Path) -> bool {
    let needs =
        find(command).and_then(|path| Image::open(&path).ok()).and_then(|image| image.needs());
    needs.is_some_and(|needs| needs.libraries.iter().any(|name| is_openmp(name)))
}

fn is_openmp(library: &str) -> bool {
    ["libgomp.so", "libomp.so", "libiomp5.so"].iter().any(|name| library.starts_with(name))
}

/// Whether a program names a library that ends it where another one is loaded before: gcc's
/// AddressSanitizer.
pub fn wants_first_place(command: &Path) -> bool {
    let needs =
        find(command).and_then(|path| Image::open(&path).ok()).and_then(|image| image.needs());
    let is_asan = |name: &String| {
        ["libasan.so", "libhwasan.so", "libclang_rt.asan"].iter().any(|it| name.starts_with(it))
    };
    needs.is_some_and(|needs| needs.libraries.iter().any(is_asan))
}

/// The file of a command, looked for as exec does.
pub(crate) fn find(command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 {
        return Some(command.to_owned());
    }
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&env::var_os("PATH")?)
        .map(|directory| directory.join(command))
        .find(executable)
}

fn of_image(image: &Image) -> Program {
    match (image.is_elf(), image.is_native(), image.has_interpreter()) {
        (false, ..) => Program::Interpreted,
        (true, false, _) => Program::Foreign,
        (true, true, true) => Program::Dynamic,
        (true, true, false) => Program::Static,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::tests::image;

    #[test]
    fn this_test_is_a_dynamic_program_and_a_script_is_not() {
        let own = env::current_exe().unwrap();
        assert_eq!(of_command(&own), Some(Program::Dynamic));
        assert!(is_loadable(&own));
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        assert_eq!(of_command(&script), Some(Program::Interpreted));
        assert!(!is_loadable(&script));
        assert_eq!(of_command(&dir.path().join("nothing")), None);
        assert!(of_command(Path::new("sh")).is_some(), "looked for in PATH");
    }

    #[test]
    fn a_program_with_its_files_rights_is_one_of_another_user_or_group() {
        let own = tempfile::NamedTempFile::new().unwrap();
        let set = |mode| {
            std::fs::set_permissions(own.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            has_rights_of_its_own(own.path())
        };
        assert!(!set(0o755) && !set(0o6755), "this process's own");
        assert!(!has_rights_of_its_own(Path::new("/none")));
        if !geteuid().is_root() {
            return platform::skip!("giving a file away needs privilege");
        }
        std::os::unix::fs::chown(own.path(), Some(65_433), Some(65_433)).unwrap();
        assert!(!set(0o755) && set(0o4755) && set(0o2755));
        assert!(!set(0o2745), "mandatory locks, once");
    }

    #[test]
    fn a_program_with_capabilities_has_rights_that_only_root_has_without_them() {
        let own = tempfile::NamedTempFile::new().unwrap();
        assert!(!has_capabilities(own.path()) && !has_capabilities(Path::new("/none")));
        // Version 2, effective: CAP_SYS_NICE.
        let mut nice = [0_u8; 20];
        nice[..4].copy_from_slice(&0x0200_0001_u32.to_le_bytes());
        nice[4..8].copy_from_slice(&(1_u32 << 23).to_le_bytes());
        let none = rustix::fs::XattrFlags::empty();
        match rustix::fs::setxattr(own.path(), CAPABILITIES, &nice, none) {
            Ok(()) => {}
            Err(error) => return platform::skip!("no capabilities for a file here: {error}"),
        }
        assert!(has_capabilities(own.path()));
        assert_eq!(has_rights_of_its_own(own.path()), !getuid().is_root());
    }

    #[test]
    fn a_file_without_an_interpreter_loads_nothing_and_a_foreign_one_nothing_of_ours() {
        let mut own = std::fs::read(env::current_exe().unwrap()).unwrap();
        // The number of program headers.
        own[56..58].fill(0);
        assert_eq!(of_image(&image(&own)), Program::Static);
        own[4] = 1;
        assert_eq!(of_image(&image(&own)), Program::Foreign);
    }

    #[test]
    fn only_a_program_that_names_the_library_finds_it_by_the_path() {
        let own = env::current_exe().unwrap();
        assert!(!finds_by_path(&own, Some(Path::new("/"))), "no OpenMP library");
        assert!(!names_openmp(&own) && is_openmp("libgomp.so.1") && !is_openmp("libc.so.6"));
        assert!(image(b"#!/bin/sh").needs().is_none());
    }
}
