//! Calls of the C library's names, in front of the C library (`abi/front.s`): those by which programs and threads are started
//! ([`starters`]), and those that are about the calling thread alone ([`personal`]).
//!
//! The shared library stands there in programs that are linked with it, which name it first, and in others into which
//! `cpumgr run` preloads it. What the next library has under these names is looked up when this one is loaded, not at the first
//! call: that may be in a child of `vfork`. The one call before that, of a library that starts programs while it is being
//! loaded, looks itself.
//!
//! # Limits
//! - The static library shows no such names: two definitions would clash. A preloaded shared one serves its engine, too.
//! - A library that is loaded late, by `dlopen`, is behind the C library. Calls that the C library added late
//!   (`execveat`, `pidfd_spawn`, `thrd_create`) are left alone: programs look whether they are there.

mod personal;
mod starters;

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// In the order of the numbers in `abi/front.s`.
const NAMES: [&CStr; 44] = [
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
    c"sigprocmask",
    c"pthread_sigmask",
    c"sigwait",
    c"sigwaitinfo",
    c"sigtimedwait",
    c"sigsuspend",
    c"sigaltstack",
    c"setuid",
    c"setgid",
    c"seteuid",
    c"setegid",
    c"setreuid",
    c"setregid",
    c"setresuid",
    c"setresgid",
    c"setgroups",
    c"setfsuid",
    c"setfsgid",
    c"sched_setaffinity",
    c"sched_setscheduler",
    c"sched_setparam",
    c"setpriority",
    c"prctl",
    c"unshare",
    c"setns",
    c"nice",
    c"pthread_setname_np",
    c"initgroups",
    c"personality",
    c"pthread_kill",
    c"pthread_sigqueue",
];
/// The first of those behind which a signal goes to a thread of the caller's choice.
const PTHREAD_KILL: usize = number(c"pthread_kill");

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

/// The functions of these names behind this library.
#[unsafe(export_name = "nanos_next_in_front")]
static NEXT: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

/// Called by the loader.
#[unsafe(no_mangle)]
extern "C" fn nanos_find_all() {
    for (name, next) in NAMES.iter().zip(&NEXT) {
        // SAFETY: - a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        // ORDERING: Relaxed - before other threads exist, or what they would find as well.
        next.store(found, Relaxed);
    }
}

/// True where the program's calls of these names come here first: in the shared library, when it was loaded with the program.
pub(crate) fn are_in_front() -> bool {
    // ORDERING: Relaxed - written when the library was loaded, or never.
    if NEXT[PTHREAD_KILL].load(Relaxed).is_null() {
        return false;
    }
    let object_of = |place: *const c_void| {
        let mut found = std::mem::MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: - a place for the answer, which is written where there is one.
        unsafe { (libc::dladdr(place, found.as_mut_ptr()) != 0).then(|| found.assume_init().dli_fbase.addr()) }
    };
    // SAFETY: - a C string.
    let first = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAMES[PTHREAD_KILL].as_ptr()) };
    let own = object_of(nanos_find_all as *const c_void);
    own.is_some() && object_of(first) == own
}

/// Sees to it that the numbered function can be jumped to.
#[unsafe(no_mangle)]
extern "C" fn nanos_find_next(number: usize) {
    // ORDERING: Relaxed - as above.
    if NEXT[number].load(Relaxed).is_null() {
        nanos_find_all();
        // ORDERING: Relaxed - as above.
        if NEXT[number].load(Relaxed).is_null() {
            crate::message::warn(&format!("there is no {} behind this library", NAMES[number].to_string_lossy()));
            std::process::abort();
        }
    }
}

/// What the numbered name is behind this library; null where that has not been looked up, or is nothing.
fn next(number: usize) -> *mut c_void {
    // ORDERING: Relaxed - as above.
    NEXT[number].load(Relaxed)
}
