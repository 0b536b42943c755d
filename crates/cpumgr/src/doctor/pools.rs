//! Pools of threads that libraries keep in a process, and which of them follow its processors.
//!
//! What is known comes from the files that the process has mapped, or that the program names: their
//! names, and what they say of themselves. Nothing of the process is changed or stopped. What a
//! program loads while it runs, as the interpreter of a script does, its file does not say.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::process::{MemoryMap, Process};
use serde::Serialize;

use crate::elf::Image;
use crate::error::Error;
use crate::escape::{escape, printable};
use crate::libraries::{self, Mounts, is_openmp};
use crate::preload;

/// The most that is read of a process's maps.
const MAPS: u64 = 16 << 20;
/// How long the libraries of one process are looked for.
const LOOK: Duration = Duration::from_secs(2);
/// What rayon's library has among its constants.
const RAYON: &[u8] = b"RAYON_NUM_THREADS";
/// What libuv has there, as Node has it inside.
const LIBUV: &[u8] = b"UV_THREADPOOL_SIZE";
/// What programs on our library have.
const OURS: &[u8] = b"NANOS_CPUMGR";
/// What gcc's OpenMP library has, which says so in front of its complaints.
const LIBGOMP: &[u8] = b"\nlibgomp: ";
/// The library that decides which of MKL's layers works, and whose number follows.
const MKL: &str = "libmkl_rt";
/// What an OpenBLAS offers whose jobs can run on other threads than its own.
const CALLBACK: &[u8] = b"openblas_set_threads_callback_function";
/// What a oneTBB looks for that asks for permits.
const PERMITS: &[u8] = b"libtcm.so.1";

/// How the drop-in library makes a library's threads follow (`docs/pools.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// By their number, and by the jobs where the library lets them run elsewhere.
    Blas,
    /// By their number.
    Number,
    /// By permits that it asks for, or by its own control.
    Arenas,
    /// A layer of MKL by `libmkl_rt`, where that has loaded it; else not.
    Layer,
    /// The same; else as OpenMP.
    OpenMpLayer,
    /// The same; else as the arenas of oneTBB.
    ArenaLayer,
    /// Not at all.
    None,
}

/// Libraries with threads of their own: how their files' names begin, what they are called here,
/// and how they follow.
const KNOWN: &[(&str, &str, Way)] = &[
    ("libopenblas", "OpenBLAS", Way::Blas),
    ("libscipy_openblas", "OpenBLAS", Way::Blas),
    ("libblis", "BLIS", Way::Number),
    ("libmkl_rt", "MKL", Way::Number),
    ("libmkl_intel_thread", "MKL", Way::Layer),
    ("libmkl_gnu_thread", "MKL", Way::OpenMpLayer),
    ("libmkl_tbb_thread", "MKL", Way::ArenaLayer),
    ("libtbb", "oneTBB", Way::Arenas),
    ("libpthreadpool", "pthreadpool", Way::None),
    ("libtaskflow", "Taskflow", Way::None),
    ("libjvm", "Java", Way::None),
    ("libuv", "libuv", Way::None),
    ("libduckdb", "DuckDB", Way::None),
    ("_duckdb", "DuckDB", Way::None),
    ("duckdb", "DuckDB", Way::None),
    ("_polars_runtime", "polars", Way::None),
    ("polars", "polars", Way::None),
    ("pypocketfft", "scipy's FFT", Way::None),
];

/// Programs that run scripts, by how their files' names begin.
const INTERPRETERS: &[&str] =
    &["python", "pypy", "perl", "ruby", "node", "java", "julia", "Rscript", "octave", "lua"];

/// What is beside a library.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Beside {
    /// The drop-in library.
    has_ours: bool,
    /// A manager that manages the program by what that library says.
    has_manager: bool,
    /// `libmkl_rt`.
    has_mkl: bool,
    /// A `libtcm.so.1` that does not lead to the drop-in library.
    has_other_permits: bool,
}

/// A pool of threads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pool {
    /// What keeps it.
    pub name: String,
    /// Its version, where its file says one.
    pub version: Option<String>,
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
    /// Its size stays; where a manager manages the program from outside, its threads are bound to
    /// the processors of the program.
    Bound,
    /// That cannot be told from here.
    Unknown,
}

/// The pools of a process; `has_manager`: one has it among its programs, by what it says itself.
///
/// # Errors
/// There is no such process, or it is another user's.
pub(super) fn of_process(pid: i32, has_manager: bool) -> Result<Vec<Pool>, Error> {
    let process = Process::new(pid)
        .map_err(|_| Error::Usage(format!("there is no process {pid}; `ps -e` lists them")))?;
    let maps = process.open_relative("maps").map_err(|_| {
        Error::Usage(format!(
            "process {pid} is another user's, or has ended: what it has mapped is shown to its \
             user and to root only"
        ))
    })?;
    let (mounts, until) = (Mounts::read(), Instant::now() + LOOK);
    let openmp = libraries::of_process(pid, &mounts, until);
    let is_ours = openmp.iter().any(|it| it.ours);
    let mut pools: Vec<Pool> = openmp.iter().map(|it| of_openmp(&it.path, it.ours)).collect();
    let among = among(maps.take(MAPS), until);
    let beside = Beside {
        has_ours: is_ours,
        has_manager,
        has_mkl: among.keys().any(|file| file_name(file).starts_with(MKL)),
        has_other_permits: has_other_permits(pid, &process, &mounts, until),
    };
    for (file, (known, map)) in among {
        let says = libraries::image(pid, &map, &mounts).map(|image| Says::of(&image, known.1));
        pools.push(of_known(&file, known, says.unwrap_or_default(), beside));
    }
    // As the process sees it; its file may be gone.
    let exe = format!("/proc/{pid}/exe");
    if let Ok(image) = Image::open(Path::new(&exe)) {
        pools.extend(inside(&image, &exe));
    }
    // Node's constants are more than is read of a file.
    let is_node = std::fs::read_link(&exe).is_ok_and(|path| path.ends_with("node"));
    if is_node && !pools.iter().any(|pool| pool.name == "libuv") {
        pools.push(libuv(&exe));
    }
    Ok(pools)
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// Whether the process has a library of permits that is not the name for ours.
fn has_other_permits(pid: i32, process: &Process, mounts: &Mounts, until: Instant) -> bool {
    let Ok(maps) = process.open_relative("maps") else { return false };
    let found = libraries::among(maps.take(MAPS), until, |name| name.starts_with("libtcm.so"));
    found.iter().any(|(_, map)| {
        libraries::image(pid, map, mounts).is_some_and(|image| !needs_openmp(&image))
    })
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
            version: None,
            file: shown,
            follows: Follows::Unknown,
            says: "a script: what its interpreter loads is known when it runs; ask \
                   `cpumgr doctor PID` then"
                .into(),
        }]);
    }
    let mut pools = inside(&image, &shown);
    if INTERPRETERS.iter().any(|name| file_name(&shown).starts_with(name)) {
        pools.push(Pool {
            name: "interpreter".into(),
            version: None,
            file: shown.clone(),
            follows: Follows::Unknown,
            says: "what its script loads is known when that runs; ask `cpumgr doctor PID` then"
                .into(),
        });
    }
    let libraries = image.needs().map(|needs| needs.libraries).unwrap_or_default();
    // As it is under `cpumgr run`.
    let beside = Beside {
        has_ours: true,
        has_manager: true,
        has_mkl: libraries.iter().any(|library| library.starts_with(MKL)),
        has_other_permits: false,
    };
    for library in libraries {
        let library = printable(&library);
        if is_openmp(&library) {
            pools.push(Pool {
                name: "OpenMP".into(),
                version: None,
                file: library,
                follows: Follows::Yes,
                says: "under `cpumgr run` it takes the drop-in library, whose teams follow".into(),
            });
        } else if let Some(known) = known(&library) {
            let mut pool = of_known(&library, known, Says::default(), beside);
            if pool.follows == Follows::Yes {
                pool.says = format!("under `cpumgr run --preload always`: {}", pool.says);
            }
            pools.push(pool);
        }
    }
    if preload::has_rights_of_its_own(path) {
        let follows = |it: &&mut Pool| it.follows == Follows::Yes && it.file != shown;
        for pool in pools.iter_mut().filter(follows) {
            pool.follows = Follows::Bound;
            pool.says = "it runs with rights of its file (another user's or group's, or \
                         capabilities): the loader takes no library from another place into it, \
                         so nothing follows; run a copy without them"
                .into();
        }
    }
    Ok(pools)
}

/// What is linked into a program itself.
fn inside(image: &Image, file: &str) -> Vec<Pool> {
    let mut pools = Vec::new();
    let texts = [OURS, LIBGOMP, RAYON, LIBUV];
    let [has_ours, has_libgomp, has_rayon, has_libuv] = image.has_constants(texts);
    if has_ours {
        pools.push(Pool {
            name: "nanothreads".into(),
            version: None,
            file: file.to_owned(),
            follows: Follows::Yes,
            says: "it speaks to the manager itself".into(),
        });
    }
    if has_libgomp && !has_ours {
        pools.push(Pool {
            name: "OpenMP".into(),
            version: None,
            file: file.to_owned(),
            follows: Follows::Bound,
            says: "gcc's OpenMP library is linked into the program: link it with libnanos_omp.a \
                   instead, or with the shared library"
                .into(),
        });
    }
    if has_rayon {
        pools.push(Pool {
            name: "rayon".into(),
            version: None,
            file: file.to_owned(),
            follows: Follows::Bound,
            says: "its pool keeps its size; the crate nanothreads-rayon runs its iterators on \
                   threads that follow"
                .into(),
        });
    }
    if has_libuv {
        pools.push(libuv(file));
    }
    if image.is_go() {
        pools.push(Pool {
            name: "Go".into(),
            version: None,
            file: file.to_owned(),
            follows: Follows::Bound,
            says: "it keeps its size; `cpumgr run --tell-share` tells it at its start".into(),
        });
    }
    pools
}

fn libuv(file: &str) -> Pool {
    Pool {
        name: "libuv".into(),
        version: None,
        file: file.to_owned(),
        follows: Follows::Bound,
        says: "its pool keeps its size, of four threads unless UV_THREADPOOL_SIZE says another \
               number; its threads are bound only"
            .into(),
    }
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
    let (name, file) = ("OpenMP".into(), path.to_owned());
    Pool { name, version: None, file, follows, says: says.into() }
}

/// What a library's file says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Says {
    version: Option<String>,
    /// It has the newer door: OpenBLAS runs its jobs on other threads, oneTBB asks for permits.
    has_door: Option<bool>,
    /// Its threads are OpenMP's.
    is_openmp: bool,
}

impl Says {
    fn of(image: &Image, way: Way) -> Self {
        match way {
            Way::Blas => Self {
                has_door: image.has_name(CALLBACK),
                is_openmp: needs_openmp(image),
                version: image.version_after(b"OpenBLAS "),
            },
            Way::Arenas => Self { has_door: Some(image.has_constant(PERMITS)), ..Self::default() },
            _ => Self { is_openmp: needs_openmp(image), ..Self::default() },
        }
    }
}

fn needs_openmp(image: &Image) -> bool {
    image.needs().is_some_and(|needs| needs.libraries.iter().any(|name| is_openmp(name)))
}

fn of_known(file: &str, (name, way): (&str, Way), known: Says, beside: Beside) -> Pool {
    let Says { version, has_door, is_openmp } = known;
    let (follows, says) = match way {
        Way::None => (Follows::Bound, "its pool keeps its size; its threads are bound only"),
        _ if !beside.has_ours => (
            Follows::Bound,
            "it would follow where the drop-in library is: start the program by `cpumgr run \
             --preload always`",
        ),
        _ if is_openmp => {
            (Follows::Yes, "its threads are OpenMP's, and follow as those of the drop-in library")
        }
        Way::OpenMpLayer => {
            (Follows::Yes, "its threads are OpenMP's, and follow where that is the drop-in library")
        }
        _ if !beside.has_manager => (
            Follows::Bound,
            "no manager manages the program by what it says itself: only a quota that was below \
             its number at its first thread is followed; start the program by `cpumgr run`",
        ),
        Way::Layer if beside.has_mkl => (Follows::Yes, LAYER),
        Way::ArenaLayer if beside.has_mkl => (Follows::Yes, LAYER),
        Way::Layer => (
            Follows::Bound,
            "linked without libmkl_rt, its number is not set: link the program with libmkl_rt, \
             or with libmkl_gnu_thread, whose threads are OpenMP's",
        ),
        Way::ArenaLayer => {
            (Follows::Yes, "its threads are oneTBB's, and follow as the arenas of that do")
        }
        Way::Blas => (Follows::Yes, of_blas(has_door)),
        Way::Number => (Follows::Yes, "the drop-in library sets how many threads it uses"),
        Way::Arenas if beside.has_other_permits => (
            Follows::Unknown,
            "another libtcm.so.1 than the drop-in library's is in the process: with TCM_ENABLE=1 \
             that one gives the permits, and nothing follows; leave TCM_ENABLE unset, or take that \
             library out of the search",
        ),
        Way::Arenas => (Follows::Yes, of_arenas(has_door)),
    };
    Pool { name: name.to_owned(), version, file: file.to_owned(), follows, says: says.into() }
}

/// What is said of a layer that libmkl_rt has loaded.
const LAYER: &str = "libmkl_rt has loaded it, whose number of threads the drop-in library sets";

/// How an OpenBLAS follows.
fn of_blas(has_callback: Option<bool>) -> &'static str {
    match has_callback {
        Some(true) => {
            "its jobs run on the drop-in library's threads, as many as the program has processors; \
             where it began with one thread its number follows, and the threads are its own"
        }
        Some(false) => {
            "its number of threads follows, but the threads are its own and spin between calls: \
             use 0.3.26 or later, whose jobs run on the drop-in library's threads"
        }
        None => {
            "its number of threads follows; from version 0.3.26 its jobs run on the drop-in \
             library's threads, before that its own threads spin between calls"
        }
    }
}

/// How a oneTBB follows.
fn of_arenas(asks_for_permits: Option<bool>) -> &'static str {
    match asks_for_permits {
        Some(true) => "it asks for permits, which follow, also while a loop runs",
        Some(false) => {
            "it is older than permits (2021.10): its max_allowed_parallelism follows, of all \
             arenas together"
        }
        None => {
            "from version 2021.10 it asks for permits, which follow; before that its \
             max_allowed_parallelism does, of all arenas together"
        }
    }
}

fn known(name: &str) -> Option<(&'static str, Way)> {
    let is_it = |(begin, ..): &&(&str, &str, Way)| {
        // `libtbbmalloc` and the like have no threads.
        let rest = name.strip_prefix(begin);
        rest.is_some_and(|rest| !rest.starts_with("malloc") && !rest.starts_with("bind"))
    };
    KNOWN.iter().find(is_it).map(|(_, name, way)| (*name, *way))
}

/// The known libraries among the files that are mapped, each once.
fn among(maps: impl Read, until: Instant) -> BTreeMap<String, ((&'static str, Way), MemoryMap)> {
    let found = libraries::among(maps, until, |name| known(name).is_some());
    let of = |(path, map): (PathBuf, MemoryMap)| {
        let known = known(&path.file_name()?.to_string_lossy())?;
        Some((escape(path.as_os_str().as_encoded_bytes()), (known, map)))
    };
    found.into_iter().filter_map(of).collect()
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
        let found = among(&maps[..], Instant::now() + Duration::from_secs(600));
        let found: Vec<_> = found.iter().map(|(file, it)| (file.as_str(), it.0)).collect();
        assert_eq!(
            found,
            [
                ("/opt/numpy.libs/libscipy_openblas64_-ff.so", ("OpenBLAS", Way::Blas)),
                ("/usr/lib/libopenblas.so.0", ("OpenBLAS", Way::Blas)),
                ("/usr/lib/libtbb.so.12", ("oneTBB", Way::Arenas)),
            ]
        );
    }

    #[test]
    fn pools_that_are_only_bound_have_their_names() {
        let files = ["_polars_runtime.abi3.so", "_duckdb.cpython-311.so", "libjvm.so", "libc.so.6"];
        let named = files.map(|file| known(file).map(|(name, _)| name));
        assert_eq!(named, [Some("polars"), Some("DuckDB"), Some("Java"), None]);
        let pool = of_known("f", ("polars", Way::None), Says::default(), ALL);
        assert_eq!(pool.follows, Follows::Bound);
    }

    const ALL: Beside =
        Beside { has_ours: true, has_manager: true, has_mkl: false, has_other_permits: false };

    #[test]
    fn which_pool_follows_depends_on_the_drop_in_library() {
        let of = |way, has_door, has_ours| {
            let known = Says { has_door, ..Says::default() };
            let pool = of_known("f", ("X", way), known, Beside { has_ours, ..ALL });
            (pool.follows, pool.says)
        };
        assert_eq!(of(Way::Number, None, true).0, Follows::Yes);
        for way in [Way::Number, Way::Blas, Way::Arenas] {
            let (follows, says) = of(way, Some(true), false);
            assert!(follows == Follows::Bound && says.contains("--preload always"), "{says}");
        }
        assert_eq!(of(Way::None, None, true).0, Follows::Bound);
        // As docs/pools.md has it: older ones follow too, in another way.
        for (way, old) in [(Way::Blas, "spin between calls"), (Way::Arenas, "max_allowed")] {
            let (newer, older) = (of(way, Some(true), true), of(way, Some(false), true));
            assert_eq!((newer.0, older.0), (Follows::Yes, Follows::Yes));
            assert!(!newer.1.contains(old) && older.1.contains(old), "{older:?}");
            assert!(of(way, None, true).1.contains(old));
        }
        let openmp = Says { is_openmp: true, ..Says::default() };
        assert!(of_known("f", ("X", Way::Blas), openmp, ALL).says.contains("OpenMP"));
        assert_eq!(of_openmp("f", true).follows, Follows::Yes);
        assert!(of_openmp("f", false).says.contains("cpumgr run"));
    }

    #[test]
    fn without_a_manager_no_pool_but_those_of_openmp_follows() {
        let beside = Beside { has_manager: false, ..ALL };
        for way in [Way::Blas, Way::Number, Way::Arenas, Way::Layer, Way::ArenaLayer] {
            let pool = of_known("f", ("X", way), Says::default(), beside);
            assert_eq!(pool.follows, Follows::Bound, "{way:?}");
            assert!(pool.says.contains("no manager") && pool.says.contains("cpumgr run"));
        }
        let openmp = Says { is_openmp: true, ..Says::default() };
        assert_eq!(of_known("f", ("X", Way::Blas), openmp, beside).follows, Follows::Yes);
    }

    #[test]
    fn layers_of_mkl_and_other_permits_are_told_apart() {
        let of = |file: &str, beside| {
            let pool = of_known(file, known(file).unwrap(), Says::default(), beside);
            (pool.follows, pool.says)
        };
        let (follows, says) = of("libmkl_intel_thread.so.2", ALL);
        assert!(follows == Follows::Bound && says.contains("libmkl_rt"), "{says}");
        for layer in ["libmkl_intel_thread.so.2", "libmkl_tbb_thread.so.2"] {
            let (follows, says) = of(layer, Beside { has_mkl: true, ..ALL });
            assert!(follows == Follows::Yes && says.contains("libmkl_rt"), "{says}");
        }
        assert!(of("libmkl_gnu_thread.so.2", ALL).1.contains("OpenMP"));
        assert!(of("libmkl_tbb_thread.so.2", ALL).1.contains("oneTBB"));
        let (follows, says) = of("libtbb.so.12", Beside { has_other_permits: true, ..ALL });
        assert!(follows == Follows::Unknown && says.contains("TCM_ENABLE"), "{says}");
    }

    #[test]
    fn scripts_and_files_that_are_not_there_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("x");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let pools = of_program(&script).unwrap();
        assert_eq!((pools.len(), pools[0].follows), (1, Follows::Unknown));
        // A program that runs scripts names none of what they load.
        let interpreter = dir.path().join("python3.11");
        std::fs::copy("/proc/self/exe", &interpreter).unwrap();
        let pools = of_program(&interpreter).unwrap();
        assert!(pools.iter().any(|it| it.follows == Follows::Unknown), "{pools:?}");
        assert!(of_program(&dir.path().join("none")).is_err());
        assert!(
            of_process(i32::MAX, false).unwrap_err().to_string().contains("there is no process")
        );
    }
}
