//! Pools of threads that libraries keep in a process, and which of them follow its processors.
//!
//! What is known comes from names of files: those that the process has mapped, or that the program
//! names. Nothing of the process is changed or stopped.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::{Duration, Instant};

use procfs::process::Process;
use serde::Serialize;

use crate::elf::Image;
use crate::error::Error;
use crate::escape::{escape, printable};
use crate::libraries::{self, Mounts};

/// The most that is read of a process's maps.
const MAPS: u64 = 16 << 20;
/// How long the OpenMP libraries of one process are looked for.
const LOOK: Duration = Duration::from_secs(2);
/// What rayon's library has among its constants.
const RAYON: &[u8] = b"RAYON_NUM_THREADS";
/// What programs on our library have.
const OURS: &[u8] = b"NANOS_CPUMGR";

/// Libraries with threads of their own: how their files' names begin, what they are called here,
/// and whether the drop-in library makes them follow.
const KNOWN: &[(&str, &str, bool)] = &[
    ("libopenblas", "OpenBLAS", true),
    ("libscipy_openblas", "OpenBLAS", true),
    ("libblis", "BLIS", true),
    ("libmkl_rt", "MKL", true),
    ("libmkl_intel_thread", "MKL", true),
    ("libmkl_gnu_thread", "MKL", true),
    ("libmkl_tbb_thread", "MKL", true),
    ("libtbb", "TBB", false),
    ("libpthreadpool", "pthreadpool", false),
    ("libtaskflow", "Taskflow", false),
];

/// A pool of threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// What keeps it.
    pub name: String,
    /// In which file that is, escaped.
    pub file: String,
    /// Whether its size follows the processors that the program has.
    pub follows: Follows,
    /// Why, and what to do.
    pub says: String,
}

/// Whether a pool's size follows the processors that its program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Follows {
    /// It does.
    Yes,
    /// Its size stays, and its threads are bound to the processors of the program, when the manager
    /// manages that from outside.
    Bound,
    /// That cannot be told from here.
    Unknown,
}

/// The pools of a process.
///
/// # Errors
/// There is no such process, or it is another user's.
pub(super) fn of_process(pid: i32) -> Result<Vec<Pool>, Error> {
    let process = Process::new(pid)
        .map_err(|_| Error::Usage(format!("there is no process {pid}; `ps -e` lists them")))?;
    let maps = process.open_relative("maps").map_err(|_| {
        Error::Usage(format!(
            "process {pid} is another user's, or has ended: what it has mapped is shown to its \
             user and to root only"
        ))
    })?;
    let openmp = libraries::of_process(pid, &Mounts::read(), Instant::now() + LOOK);
    let is_ours = openmp.iter().any(|it| it.ours);
    let mut pools: Vec<Pool> = openmp.iter().map(|it| of_openmp(&it.path, it.ours)).collect();
    pools.extend(
        among(maps.take(MAPS)).into_iter().map(|(file, known)| of_known(&file, known, is_ours)),
    );
    // As the process sees it; its file may be gone.
    if let Ok(image) = Image::open(Path::new(&format!("/proc/{pid}/exe"))) {
        pools.extend(inside(&image, &format!("/proc/{pid}/exe")));
    }
    Ok(pools)
}

/// The pools that a program's file names.
///
/// # Errors
/// When it cannot be read.
pub(super) fn of_program(path: &Path) -> Result<Vec<Pool>, Error> {
    let image = Image::open(path).map_err(|source| Error::Io {
        what: "cannot read",
        path: path.to_owned(),
        source,
    })?;
    let shown = printable(&path.display().to_string());
    if !image.is_elf() {
        return Ok(vec![Pool {
            name: "interpreter".into(),
            file: shown,
            follows: Follows::Unknown,
            says: "a script: what its interpreter loads is known when it runs; ask \
                   `cpumgr doctor PID` then"
                .into(),
        }]);
    }
    let mut pools = inside(&image, &shown);
    for library in image.needs().map(|needs| needs.libraries).unwrap_or_default() {
        let library = printable(&library);
        if is_openmp(&library) {
            pools.push(Pool {
                name: "OpenMP".into(),
                file: library,
                follows: Follows::Yes,
                says: "under `cpumgr run` it takes the drop-in library, whose teams follow".into(),
            });
        } else if let Some(known) = known(&library) {
            pools.push(of_known(&library, known, true));
        }
    }
    Ok(pools)
}

/// What is linked into a program itself.
fn inside(image: &Image, file: &str) -> Vec<Pool> {
    let mut pools = Vec::new();
    if image.has_constant(OURS) {
        pools.push(Pool {
            name: "nanothreads".into(),
            file: file.to_owned(),
            follows: Follows::Yes,
            says: "it speaks to the manager itself".into(),
        });
    }
    if image.has_constant(RAYON) {
        pools.push(Pool {
            name: "rayon".into(),
            file: file.to_owned(),
            follows: Follows::Bound,
            says: "its pool keeps its size; the crate nanothreads-rayon runs its iterators on \
                   threads that follow"
                .into(),
        });
    }
    pools
}

fn of_openmp(path: &str, ours: bool) -> Pool {
    let (follows, says) = match ours {
        true => (Follows::Yes, "the drop-in library: its teams follow"),
        false => (
            Follows::Bound,
            "another OpenMP library: start the program by `cpumgr run`, which puts the drop-in \
             library in its place",
        ),
    };
    Pool { name: "OpenMP".into(), file: path.to_owned(), follows, says: says.into() }
}

fn of_known(file: &str, (name, follows): (&str, bool), has_ours: bool) -> Pool {
    let (follows, says) = match (follows, has_ours) {
        (true, true) => (Follows::Yes, "the drop-in library sets how many threads it uses"),
        (true, false) => (
            Follows::Bound,
            "it would follow where the drop-in library is: start the program by \
             `cpumgr run --preload always`",
        ),
        (false, _) => (Follows::Bound, "its pool keeps its size; its threads are bound only"),
    };
    Pool { name: name.to_owned(), file: file.to_owned(), follows, says: says.into() }
}

fn is_openmp(name: &str) -> bool {
    ["libgomp", "libomp", "libiomp"].iter().any(|begin| name.starts_with(begin))
}

fn known(name: &str) -> Option<(&'static str, bool)> {
    let is_it = |(begin, ..): &&(&str, &str, bool)| {
        // `libtbbmalloc` and the like have no threads.
        let rest = name.strip_prefix(begin);
        rest.is_some_and(|rest| !rest.starts_with("malloc") && !rest.starts_with("bind"))
    };
    KNOWN.iter().find(is_it).map(|(_, name, follows)| (*name, *follows))
}

/// The known libraries among the files that are mapped, each once.
fn among(maps: impl Read) -> BTreeMap<String, (&'static str, bool)> {
    let mut found = BTreeMap::new();
    for line in BufReader::new(maps).split(b'\n').map_while(Result::ok) {
        let Some(at) = line.iter().position(|byte| *byte == b'/') else { continue };
        let path = &line[at..];
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if let Some(known) = known(&String::from_utf8_lossy(name)) {
            found.insert(escape(path), known);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_with_threads_are_found_among_the_maps_once_each() {
        let maps = b"7f00-7f01 r-xp 00000000 08:01 1    /usr/lib/libopenblas.so.0\n\
            7f01-7f02 r--p 00000000 08:01 1    /usr/lib/libopenblas.so.0\n\
            7f02-7f03 r-xp 00000000 08:01 2    /opt/numpy.libs/libscipy_openblas64_-ff.so\n\
            7f03-7f04 r-xp 00000000 08:01 3    /usr/lib/libtbb.so.12\n\
            7f04-7f05 r-xp 00000000 08:01 4    /usr/lib/libtbbmalloc.so.2\n\
            7f05-7f06 rw-p 00000000 00:00 0    [heap]\n\xff/\n";
        let found = among(&maps[..]);
        let found: Vec<_> = found.iter().map(|(file, it)| (file.as_str(), it.0, it.1)).collect();
        assert_eq!(
            found,
            [
                ("/opt/numpy.libs/libscipy_openblas64_-ff.so", "OpenBLAS", true),
                ("/usr/lib/libopenblas.so.0", "OpenBLAS", true),
                ("/usr/lib/libtbb.so.12", "TBB", false),
            ]
        );
    }

    #[test]
    fn which_pool_follows_depends_on_the_drop_in_library() {
        assert_eq!(of_known("f", ("MKL", true), true).follows, Follows::Yes);
        let without = of_known("f", ("MKL", true), false);
        assert!(without.follows == Follows::Bound && without.says.contains("--preload always"));
        assert_eq!(of_known("f", ("TBB", false), true).follows, Follows::Bound);
        assert_eq!(of_openmp("f", true).follows, Follows::Yes);
        assert!(of_openmp("f", false).says.contains("cpumgr run"));
    }

    #[test]
    fn scripts_and_files_that_are_not_there_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("x");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let pools = of_program(&script).unwrap();
        assert_eq!((pools.len(), pools[0].follows), (1, Follows::Unknown));
        assert!(of_program(&dir.path().join("none")).is_err());
        assert!(of_process(i32::MAX).unwrap_err().to_string().contains("there is no process"));
    }
}
