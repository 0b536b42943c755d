//! The drop-in OpenMP library: `target/shim/libgomp.so.1`, and `libnanos_omp.a` for static linking
//! with the pkg-config file that says how; `libnanos_asat.so` and `asat.h` for programs with
//! threads of their own; `upm.h` for programs that have their pages moved; `libtcm.so.1`, the name
//! under which oneTBB looks for what grants its arenas workers; `libnanos_count.so` for
//! `cpumgr run --tell-share`. Two forms of the same
//! code: the one that is shipped is linked as a whole, which takes a processor half a minute; the
//! one that tests load on the way is not.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::setup::{Workspace, must_succeed};

/// The variable that tells tests in which folder the library stands; without it they take the
/// shipped one.
pub(crate) const FOLDER: &str = "NANOS_TEST_SHIM";

/// What is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// What programs are given: `target/shim`.
    Shipped,
    /// The same, without optimisation across crates: `target/shim-test`.
    Tested,
}

impl Form {
    /// The profile of the root manifest: not named as the folder, since cargo builds into one of
    /// its name.
    fn profile(self) -> &'static str {
        match self {
            Form::Shipped => "drop-in",
            Form::Tested => "drop-in-test",
        }
    }

    /// Of the target folder.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Form::Shipped => "shim",
            Form::Tested => "shim-test",
        }
    }
}

/// What a program's build needs to link the static library, found beside this file wherever the
/// folder is put. `-fopenmp` also links the compiler's own library; it comes last and finds nothing
/// left to give.
const PKG_CONFIG: &str = concat!(
    "prefix=${pcfiledir}\n\n",
    "Name: nanos_omp\n",
    "Description: OpenMP runtime that follows the processors that a program has now\n",
    "Version: ",
    env!("CARGO_PKG_VERSION"),
    "\n",
    "Cflags: -fopenmp\n",
    "Libs: -L${prefix} -lnanos_omp -lpthread -ldl -lm\n",
);

/// Builds the files and returns their folder.
pub(crate) fn run(workspace: &Workspace, form: Form) -> anyhow::Result<PathBuf> {
    must_succeed(&mut workspace.cargo([
        "build",
        "--profile",
        form.profile(),
        "--package",
        "omp-shim",
    ]))?;
    let archive = workspace.target.join(form.profile()).join("libnanos_omp.a");
    let abi = workspace.root.join("crates/omp-shim/abi");
    let folder = workspace.target.join(form.folder());
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    let private = tempfile::tempdir().context("cannot make a temporary folder")?;
    shared(&archive, &abi, private.path(), &folder.join("libgomp.so.1"))?;
    fixed(&archive, private.path(), &folder.join("libnanos_omp.a"))?;
    without_openmp(&abi, &folder)?;
    for_arenas(&folder)?;
    for_strangers(&abi, &folder)?;
    copied(&abi, "upm.h", &folder)?;
    let description = folder.join("nanos_omp.pc");
    std::fs::write(&description, PKG_CONFIG)
        .with_context(|| format!("cannot write {}", description.display()))?;
    Ok(folder)
}

/// Links the shared library with the version nodes of the map, both versions of the lock
/// functions, and the calls that start programs and threads.
fn shared(archive: &Path, abi: &Path, private: &Path, library: &Path) -> anyhow::Result<()> {
    let (locks, front) = (abi.join("versioned_locks.s"), abi.join("front.s"));
    let renames = renames(&locks, &["versioned"], "nanos_new_")?
        + &renames(&front, &["exec", "spawn"], "nanos_own_")?;
    let (list, renamed) = (private.join("renames"), private.join("renamed.a"));
    std::fs::write(&list, renames).with_context(|| format!("cannot write {}", list.display()))?;
    must_succeed(tool("objcopy").arg("--redefine-syms").arg(&list).arg(archive).arg(&renamed))?;

    // Linked beside its place and moved there: a program that starts meanwhile sees the old file or
    // the new one.
    let fresh = library.with_extension("new");
    let mut link = tool("gcc");
    link.args([
        "-shared",
        "-Wl,-soname,libgomp.so.1",
        "-Wl,--gc-sections",
        "-Wl,--strip-debug",
        "-Wl,-z,nodelete,-z,relro,-z,now",
    ]);
    link.arg(format!("-Wl,--version-script={}", abi.join("libgomp.map").display()));
    link.arg(&locks)
        .arg(&front)
        .arg("-Wl,--whole-archive")
        .arg(&renamed)
        .arg("-Wl,--no-whole-archive");
    link.args(["-lpthread", "-ldl", "-lm", "-lgcc_s", "-o"]).arg(&fresh);
    must_succeed(&mut link)?;
    std::fs::rename(&fresh, library)
        .with_context(|| format!("cannot put {} in its place", library.display()))
}

/// What programs without OpenMP link for `asat_adjust_threads`, and the header that declares it.
fn without_openmp(abi: &Path, folder: &Path) -> anyhow::Result<()> {
    let library = folder.join("libnanos_asat.so");
    let fresh = library.with_extension("new");
    let mut link = tool("gcc");
    link.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wl,-soname,libnanos_asat.so", "-o"])
        .arg(&fresh)
        .arg(abi.join("asat.c"))
        .arg("-ldl");
    must_succeed(&mut link)?;
    std::fs::rename(&fresh, &library)
        .with_context(|| format!("cannot put {} in its place", library.display()))?;
    copied(abi, "asat.h", folder)
}

/// What `cpumgr run --tell-share` puts in front of programs that ask how many processors there are.
fn for_strangers(abi: &Path, folder: &Path) -> anyhow::Result<()> {
    let library = folder.join("libnanos_count.so");
    let fresh = library.with_extension("new");
    let mut link = tool("gcc");
    link.args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra"]);
    link.args(["-Wl,-soname,libnanos_count.so", "-o"]).arg(&fresh);
    must_succeed(link.arg(abi.join("count.c")).arg("-ldl"))?;
    std::fs::rename(&fresh, &library)
        .with_context(|| format!("cannot put {} in its place", library.display()))
}

/// A name for the shared library, and nothing else: what asks for this one finds that one's
/// functions. One that is in the process under its own name already is not loaded again.
fn for_arenas(folder: &Path) -> anyhow::Result<()> {
    let library = folder.join("libtcm.so.1");
    let fresh = library.with_extension("new");
    let mut link = tool("gcc");
    link.args(["-shared", "-nostdlib", "-Wl,-soname,libtcm.so.1", "-Wl,-rpath,$ORIGIN"]);
    link.args(["-Wl,--no-as-needed", "-o"]).arg(&fresh).arg(folder.join("libgomp.so.1"));
    must_succeed(&mut link)?;
    std::fs::rename(&fresh, &library)
        .with_context(|| format!("cannot put {} in its place", library.display()))
}

/// Puts a header beside the libraries.
fn copied(abi: &Path, name: &str, folder: &Path) -> anyhow::Result<()> {
    let header = folder.join(name);
    std::fs::copy(abi.join("../include").join(name), &header)
        .map(drop)
        .with_context(|| format!("cannot write {}", header.display()))
}

/// What objcopy is to rename: the first argument of each use of these macros in an assembler file,
/// with a prefix.
fn renames(file: &Path, macros: &[&str], prefix: &str) -> anyhow::Result<String> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let name = |line: &str| {
        let mut words = line.split([' ', '\t', ',']).filter(|word| !word.is_empty());
        words
            .next()
            .filter(|word| macros.contains(word))
            .and_then(|_| words.next().map(str::to_owned))
    };
    Ok(text.lines().filter_map(name).map(|name| format!("{name} {prefix}{name}\n")).collect())
}

/// Makes one object of the archive that shows OpenMP names only, so that it links together with
/// other Rust libraries.
fn fixed(archive: &Path, private: &Path, library: &Path) -> anyhow::Result<()> {
    let object = private.join("nanos_omp.o");
    // Without section groups: another Rust library's groups of the same names would be dropped in
    // favour of ours, whose symbols are hidden below.
    let mut join = tool("ld");
    join.args(["-r", "--force-group-allocation", "--whole-archive"])
        .arg(archive)
        .arg("-o")
        .arg(&object);
    must_succeed(&mut join)?;
    let mut hide = tool("objcopy");
    hide.args([
        "--wildcard",
        // Bitcode of the standard library: merged it is garbage, on which linker plugins choke.
        "--remove-section=.llvmbc",
        "--remove-section=.llvmcmd",
        "--strip-debug",
        "--keep-global-symbol=omp_*",
        "--keep-global-symbol=GOMP_*",
        "--keep-global-symbol=asat_*",
        "--keep-global-symbol=upmlib_*",
        "--keep-global-symbol=num_migrations",
        "--keep-global-symbol=num_migrations_",
    ])
    .arg(&object);
    must_succeed(&mut hide)?;
    // `ar` adds to an archive that is there; what an older build had must not stay.
    match std::fs::remove_file(library) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", library.display()));
        }
        _ => {}
    }
    must_succeed(tool("ar").arg("crs").arg(library).arg(&object))
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(name);
    command.stdin(Stdio::null());
    command
}
