//! Calls by which programs and threads are started, under the C library's names and in front of it
//! (`abi/front.s`, [`starters`]).
//!
//! The shared library stands there in programs that are linked with it, which name it first, and in
//! others into which `cpumgr run` preloads it. What the next library has under these names is
//! looked up when this one is loaded, not at the first call: that may be in a child of `vfork`. The
//! one call before that, of a library that starts programs while it is being loaded, looks itself.
//! Where this library is only what another library of the program needs, it may stand after the C
//! library: then no call comes here, and the C library is asked for the names itself.
//!
//! The library's own calls of these names go past the functions here, to the first of the process
//! that is not here.
//!
//! # Limits
//! - The static library shows no such names: two definitions would clash. A preloaded shared one
//!   serves its engine, too.
//! - A library that is loaded late, by `dlopen`, comes after the C library. Calls that the C
//!   library added late (`execveat`, `pidfd_spawn`, `thrd_create`) are left alone: programs look
//!   whether they are there.

mod starters;

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// In the order of the numbers in `abi/front.s`.
const NAMES: [&CStr; 13] = [
    c"execve",
    c"execv",
    c"execvp",
    c"execvpe",
    c"execl",
    c"execle",
    c"execlp",
    c"fexecve",
    c"posix_spawn",
    c"posix_spawnp",
    c"system",
    c"popen",
    c"pthread_create",
];

/// The number of `name`. Only for constants: a name that is not in the table does not compile.
const fn number(name: &CStr) -> usize {
    let (name, mut number) = (name.to_bytes(), 0);
    loop {
        let other = NAMES[number].to_bytes();
        let mut same = 0;
        while same < name.len() && same < other.len() && name[same] == other[same] {
            same += 1;
        }
        if same == name.len() && same == other.len() {
            return number;
        }
        number += 1;
    }
}

type FunctionTable = [AtomicPtr<c_void>; NAMES.len()];

/// What the functions in front go on to: those of these names after this library.
#[unsafe(export_name = "nanos_next_in_front")]
static NEXT: FunctionTable = [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];
/// What this library itself calls by these names.
#[unsafe(export_name = "nanos_own_in_front")]
static OWN: FunctionTable = [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

/// Called by the loader.
#[unsafe(no_mangle)]
extern "C" fn nanos_find_all() {
    for (name, next) in NAMES.iter().zip(&NEXT) {
        // ORDERING: Relaxed - before other threads exist, or what they would find as well.
        next.store(find_next(name), Relaxed);
    }
}

/// What stands after this library under `name`; null where there is none.
fn find_next(name: &CStr) -> *mut c_void {
    // SAFETY: - a C string.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() {
        return next;
    }
    // The C library stands before this one where a library of the program brought this one in, and
    // not the program.
    let found = find_in_c_library(name);
    if found.is_null() { find_first(name) } else { found }
}

/// The C library's own, if that has the name that it has on most systems.
fn find_in_c_library(name: &CStr) -> *mut c_void {
    // SAFETY: - C strings; nothing is loaded.
    unsafe {
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return ptr::null_mut();
        }
        let found = libc::dlsym(library, name.as_ptr());
        // It stays: this library needs it.
        libc::dlclose(library);
        found
    }
}

/// The first of `name` in the process; null where that is this library's own.
fn find_first(name: &CStr) -> *mut c_void {
    // SAFETY: - a C string.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if object_of(first) == object_of(nanos_find_all as *const c_void) {
        ptr::null_mut()
    } else {
        first
    }
}

/// Where the library or program is loaded that `place` is in.
fn object_of(place: *const c_void) -> Option<usize> {
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: - a place for the answer, which is written where there is one.
    unsafe {
        (libc::dladdr(place, found.as_mut_ptr()) != 0).then(|| found.assume_init().dli_fbase.addr())
    }
}

/// Sees to it that the numbered function can be jumped to.
#[unsafe(no_mangle)]
extern "C" fn nanos_find_next(number: usize) {
    // ORDERING: Relaxed - as above.
    if NEXT[number].load(Relaxed).is_null() {
        nanos_find_all();
        // ORDERING: Relaxed - as above.
        if NEXT[number].load(Relaxed).is_null() {
            fail(number);
        }
    }
}

/// Sees to it that this library's own call of the numbered function can be made. It goes to the
/// first function of that name in the process, as any library's call does: a sanitizer or a
/// profiler has to see the threads that are made here. Where the first one is the one in front
/// here, the call goes on to the next.
#[unsafe(no_mangle)]
extern "C" fn nanos_find_own(number: usize) {
    // ORDERING: Relaxed - what other threads would find as well.
    if OWN[number].load(Relaxed).is_null() {
        let first = find_first(NAMES[number]);
        let own = if first.is_null() { find_next(NAMES[number]) } else { first };
        if own.is_null() {
            fail(number);
        }
        // ORDERING: Relaxed - as above.
        OWN[number].store(own, Relaxed);
    }
}

#[cold]
fn fail(number: usize) -> ! {
    crate::process::message::warn(&format!(
        "there is no {} in this process: neither after this library, nor in libc.so.6, nor before \
         it; link the program with the C library as a shared one",
        NAMES[number].to_string_lossy()
    ));
    std::process::abort();
}

/// What the numbered name is after this library; null where that has not been looked up, or is
/// nothing.
fn next(number: usize) -> *mut c_void {
    // ORDERING: Relaxed - as above.
    NEXT[number].load(Relaxed)
}
