//! Peers that are no crates: the programs of `benches/peers`, compiled when a bench starts, loaded
//! by its samples.
//!
//! # One compiler, three OpenMP libraries
//! `openmp.c` and `overheads.c` are compiled by gcc, for libgomp. LLVM's libomp has libgomp's entry
//! points too: a sample that finds it under libgomp's name runs the same machine code on it. So
//! does one that finds our drop-in library, which `cargo xtask shim` makes. Which library was
//! really loaded is read from `/proc/self/maps`.
//!
//! # Packages
//! oneTBB and libomp are Debian packages. They are installed when the bench runs as root with
//! apt-get; else their rows name the command.

use super::Runtime;
use procfs::process::{MMapPath, Process};
use std::ffi::{CStr, CString, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const LIBOMP_PACKAGES: [&str; 2] = ["libomp-19-dev", "libomp-16-dev"];
const TBB_PACKAGE: &str = "libtbb-dev";

/// Where what is compiled and linked goes.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("peers")
}

/// A directory with a `libgomp.so.1` that is LLVM's library.
fn libomp_folder() -> PathBuf {
    folder().join("libomp")
}

fn library(runtime: Runtime) -> PathBuf {
    folder().join(if runtime == Runtime::Tbb { "tbb.so" } else { "openmp.so" })
}

/// The directory of our drop-in `libgomp.so.1`.
fn shim_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("shim")
}

/// Environment of a sample on `runtime`.
pub(crate) fn environment(runtime: Runtime) -> Vec<(&'static str, PathBuf)> {
    match runtime {
        Runtime::Libomp => vec![("LD_LIBRARY_PATH", libomp_folder())],
        Runtime::Shim => vec![("LD_LIBRARY_PATH", shim_folder())],
        _ => Vec::new(),
    }
}

/// Compiles what `runtimes` need, as far as it can be done here. What is missing is said here, and
/// again in the rows.
pub(crate) fn prepare(runtimes: impl Iterator<Item = Runtime>) {
    let wanted: Vec<Runtime> = runtimes.collect();
    let wants = |runtime| wanted.contains(&runtime);
    let mut results = Vec::new();
    if [Runtime::Libgomp, Runtime::Libomp, Runtime::Shim].into_iter().any(wants) {
        let sources = &["openmp.c", "overheads.c"];
        results.push(compile("gcc", &["-std=gnu11", "-fopenmp"], sources, Runtime::Libgomp, &[]));
    }
    if wants(Runtime::Libomp) {
        results.push(link_libomp());
    }
    if wants(Runtime::Tbb) {
        if !Path::new("/usr/include/tbb/tbb.h").exists() {
            results.push(install(TBB_PACKAGE));
        }
        results.push(compile("g++", &["-std=c++17"], &["tbb.cpp"], Runtime::Tbb, &["-ltbb"]));
    }
    for why in results.into_iter().filter_map(Result::err) {
        eprintln!("{why}");
    }
}

/// Compiles one peer, unless what is there is younger than its sources.
fn compile(
    compiler: &str,
    flags: &[&str],
    sources: &[&str],
    runtime: Runtime,
    libraries: &[&str],
) -> Result<(), String> {
    let folder_of_sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers");
    let sources: Vec<PathBuf> =
        sources.iter().map(|source| folder_of_sources.join(source)).collect();
    let target = library(runtime);
    let age = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified());
    let is_older = |source: &PathBuf| matches!((age(source), age(&target)), (Ok(written), Ok(built)) if written < built);
    if sources.iter().all(is_older) {
        return Ok(());
    }
    fs::create_dir_all(folder()).map_err(|error| format!("{}: {error}", folder().display()))?;
    let mut command = Command::new(compiler);
    command
        .args(["-O2", "-shared", "-fPIC", "-Wall", "-o"])
        .arg(&target)
        .args(flags)
        .args(&sources)
        .args(libraries);
    let output = command
        .output()
        .map_err(|error| format!("{compiler}: {error}; install it (build-essential)"))?;
    if output.status.success() {
        return Ok(());
    }
    let names: Vec<String> = sources.iter().map(|source| source.display().to_string()).collect();
    Err(format!("{compiler} {}: {}", names.join(" "), String::from_utf8_lossy(&output.stderr)))
}

/// Makes LLVM's library available under libgomp's name.
fn link_libomp() -> Result<(), String> {
    let found = || {
        let versions =
            (14..30).rev().map(|version| format!("/usr/lib/llvm-{version}/lib/libomp.so.5"));
        versions.map(PathBuf::from).find(|path| path.exists())
    };
    let path = match found() {
        Some(path) => path,
        None => {
            let tried: Vec<String> =
                LIBOMP_PACKAGES.iter().filter_map(|package| install(package).err()).collect();
            found().ok_or(tried.join("; "))?
        }
    };
    let folder = libomp_folder();
    let link = folder.join("libgomp.so.1");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if fs::read_link(&link).is_ok_and(|known| known == path) {
        return Ok(());
    }
    // None yet, or one to another version.
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&path, &link).map_err(|error| format!("{}: {error}", link.display()))
}

fn install(package: &str) -> Result<(), String> {
    eprintln!("installing {package}");
    let result = Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends", package])
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output();
    match result {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(format!("{package} is missing; as root: apt-get install {package}")),
    }
}

/// A function of a peer. All take numbers (or pointers to what outlives the call, or to C
/// functions) and return one.
#[derive(Clone, Copy)]
pub(crate) struct Entry(unsafe extern "C" fn(usize, usize, usize) -> usize);

impl Entry {
    /// Calls it.
    #[inline]
    pub(crate) fn call(self, a: usize, b: usize, c: usize) -> usize {
        // SAFETY: - the programs of benches/peers define all entries with this signature, and what
        //           each takes is said there; the cases pass that.
        unsafe { (self.0)(a, b, c) }
    }
}

/// The function `name` of the peer `runtime`; why there is none, if so.
pub(crate) fn entry(runtime: Runtime, name: &str) -> Result<Entry, String> {
    let path = library(runtime);
    if runtime == Runtime::Libomp && !libomp_folder().join("libgomp.so.1").exists() {
        return Err(format!("needs libomp: as root, apt-get install {}", LIBOMP_PACKAGES[0]));
    }
    if runtime == Runtime::Shim && !shim_folder().join("libgomp.so.1").exists() {
        return Err(format!("needs {}/libgomp.so.1: cargo xtask shim", shim_folder().display()));
    }
    let c_path =
        CString::new(path.as_os_str().as_encoded_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: - a C string; the peers' constructors are those of their libraries.
    let handle = unsafe { libc::dlopen(c_path.as_ptr(), libc::RTLD_NOW) };
    if handle.is_null() {
        return Err(loader_message());
    }
    check_library(runtime)?;
    let c_name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: - an open handle and a C string.
    let symbol = unsafe { libc::dlsym(handle, c_name.as_ptr()) };
    if symbol.is_null() {
        return Err(loader_message());
    }
    // SAFETY: - all entries of the peers have this signature.
    Ok(Entry(unsafe {
        std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(usize, usize, usize) -> usize>(
            symbol,
        )
    }))
}

fn loader_message() -> String {
    // SAFETY: - after a failed dlopen or dlsym the message is a C string.
    unsafe { CStr::from_ptr(libc::dlerror().cast_const().cast::<c_char>()) }
        .to_string_lossy()
        .into_owned()
}

/// Fails unless the OpenMP library in this process is the one that the row says.
fn check_library(runtime: Runtime) -> Result<(), String> {
    let maps =
        Process::myself().and_then(|process| process.maps()).map_err(|error| error.to_string())?;
    let files = maps.into_iter().filter_map(|map| match map.pathname {
        MMapPath::Path(path) => Some(path),
        _ => None,
    });
    let files: Vec<PathBuf> = files.collect();
    let begins = |path: &PathBuf, part: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(part))
    };
    let has = |part: &str| files.iter().any(|path| begins(path, part));
    let (gomp, omp) = (has("libgomp"), has("libomp"));
    let ours = files.contains(&shim_folder().join("libgomp.so.1"));
    match runtime {
        Runtime::Shim if !ours || omp => Err("our library was not the one loaded".into()),
        Runtime::Libgomp if ours => Err("our library was loaded instead of libgomp".into()),
        Runtime::Libgomp if !gomp || omp => Err("libgomp was not the library loaded".into()),
        Runtime::Libomp if !omp || gomp => Err("libomp was not the library loaded".into()),
        _ => Ok(()),
    }
}
