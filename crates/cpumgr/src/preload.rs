//! Whether a program can load the drop-in library: what its file says.

use std::env;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Enough for the head of an ELF file and of its program headers.
const HEAD: usize = 4096;
const PT_INTERP: u32 = 3;

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

/// The kind of the program that a command line names, looked for as exec does; `None` when there is none to read.
pub fn of_command(command: &Path) -> Option<Program> {
    of_file(&find(command)?)
}

/// Whether a library is one of this machine.
pub fn is_loadable(library: &Path) -> bool {
    let mut head = [0; 64];
    File::open(library).and_then(|mut file| file.read_exact(&mut head)).is_ok() && is_native(&head)
}

/// Whether a program names an OpenMP library that stands in `directory` and takes it from there when the library path
/// says so: its own DT_RPATH would come first. False when its file does not say.
pub fn finds_by_path(command: &Path, directory: Option<&Path>) -> bool {
    let bytes = find(command).and_then(|path| std::fs::read(path).ok());
    let needs = bytes.as_deref().and_then(needs);
    let (Some(needs), Some(directory)) = (needs, directory) else { return false };
    let openmp = |name: &&String| ["libgomp.so", "libomp.so", "libiomp5.so"].iter().any(|it| name.starts_with(it));
    let mut libraries = needs.libraries.iter().filter(openmp).peekable();
    !needs.own_path && libraries.peek().is_some() && libraries.all(|name| directory.join(name).exists())
}

/// What a program's dynamic section asks for.
struct Needs {
    libraries: Vec<String>,
    /// DT_RPATH without DT_RUNPATH: searched before the library path.
    own_path: bool,
}

/// Reads the dynamic section of a program of this machine.
fn needs(bytes: &[u8]) -> Option<Needs> {
    use object::LittleEndian;
    use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
    use object::read::elf::{Dyn, FileHeader};
    let end = LittleEndian;
    let head = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let sections = head.sections(end, bytes).ok()?;
    let (entries, strings) = sections.dynamic(end, bytes).ok()??;
    let strings = sections.strings(end, bytes, strings).ok()?;
    let mut needs = Needs { libraries: Vec::new(), own_path: false };
    let mut run_path = false;
    for entry in entries {
        match entry.tag32(end) {
            Some(DT_NEEDED) => {
                let name = entry.string(end, strings).ok()?;
                needs.libraries.push(String::from_utf8_lossy(name).into_owned());
            }
            Some(DT_RPATH) => needs.own_path = true,
            Some(DT_RUNPATH) => run_path = true,
            _ => {}
        }
    }
    needs.own_path &= !run_path;
    Some(needs)
}

fn find(command: &Path) -> Option<PathBuf> {
    if command.components().count() > 1 {
        return Some(command.to_owned());
    }
    let executable =
        |path: &PathBuf| path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    env::split_paths(&env::var_os("PATH")?).map(|directory| directory.join(command)).find(executable)
}

fn of_file(path: &Path) -> Option<Program> {
    let file = File::open(path).ok()?;
    let mut head = vec![0; HEAD];
    let length = file.read_at(&mut head, 0).ok()?;
    head.truncate(length);
    Some(of_head(&head))
}

/// Whether an ELF head is of the machine that this program was built for.
fn is_native(head: &[u8]) -> bool {
    let own_machine: u16 = if cfg!(target_arch = "x86_64") {
        62
    } else if cfg!(target_arch = "aarch64") {
        183
    } else {
        0
    };
    // Class 2: 64-bit; data 1: little-endian.
    head.len() >= 64
        && head.starts_with(b"\x7fELF\x02\x01")
        && (own_machine == 0 || u16::from_le_bytes([head[18], head[19]]) == own_machine)
}

fn of_head(head: &[u8]) -> Program {
    if !head.starts_with(b"\x7fELF") {
        return Program::Interpreted;
    }
    if !is_native(head) {
        return Program::Foreign;
    }
    let word = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let start = u64::from_le_bytes(head[32..40].try_into().expect("eight bytes"));
    let (size, count) = (usize::from(word(54)), usize::from(word(56)));
    let interpreter = (0..count).any(|index| {
        let at = usize::try_from(start).ok().and_then(|start| start.checked_add(index.checked_mul(size)?));
        let kind = at.and_then(|at| head.get(at..at.checked_add(4)?)).and_then(|kind| kind.try_into().ok());
        kind.map(u32::from_le_bytes) == Some(PT_INTERP)
    });
    if interpreter { Program::Dynamic } else { Program::Static }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    fn a_file_without_an_interpreter_loads_nothing_and_a_foreign_one_nothing_of_ours() {
        let own = std::fs::read(env::current_exe().unwrap()).unwrap();
        let mut head = own[..HEAD].to_vec();
        head[56] = 0;
        head[57] = 0;
        assert_eq!(of_head(&head), Program::Static);
        head[4] = 1;
        assert_eq!(of_head(&head), Program::Foreign);
    }

    #[test]
    fn only_a_program_that_names_the_library_finds_it_by_the_path() {
        let own = env::current_exe().unwrap();
        let needs = needs(&std::fs::read(&own).unwrap()).unwrap();
        assert!(needs.libraries.iter().any(|name| name.starts_with("libc.so")), "{:?}", needs.libraries);
        assert!(!finds_by_path(&own, Some(Path::new("/"))), "no OpenMP library");
        assert!(super::needs(b"#!/bin/sh").is_none());
    }

    proptest! {
        #[test]
        fn no_file_makes_the_reader_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..300), elf: bool) {
            if elf {
                let magic = b"\x7fELF\x02\x01";
                let length = bytes.len().min(magic.len());
                bytes[..length].copy_from_slice(&magic[..length]);
                if bytes.len() > 20 && cfg!(target_arch = "x86_64") {
                    bytes[18..20].copy_from_slice(&62_u16.to_le_bytes());
                }
            }
            of_head(&bytes);
            needs(&bytes);
        }
    }
}
