//! Programs that a member of a region starts, and threads that it makes: they have the mask that this program was started with
//! (D2), not that of a thread which is bound under a manager, or was put on one processor when it was woken. What `fork` makes has
//! it anyway (`nanothreads::unbound`'s module).
//!
//! The shared library stands in front of the C library (programs that are linked with it name it first, and `cpumgr run`
//! preloads it into others), and shows calls of the C library's names, in `abi/starters.s`:
//! - `exec*` are jumps to the C library's ones behind a call of [`nanos_before_exec`]: arguments, result and errno are the C
//!   library's own. That serves whoever made the child: `vfork`, `clone`, a spawn of the program's own. It calls nothing but
//!   the kernel, since a child of `vfork` or a signal handler may be there.
//! - `posix_spawn`, `posix_spawnp`, `system`, `popen` and `pthread_create` make their child inside the C library, where nobody
//!   else comes in. On threads that are none of the engine's they are jumps as well, so that who is cancelled in `system` finds
//!   no frame of ours; on those that are, the functions here lend the thread the program's mask for as long as the call takes.
//!
//! A third kind is *personal*: calls that change or ask something of the calling thread in the kernel, or wait for its signals, and
//! those that change the process's user, for which the C library has each thread act. They are jumps behind a call of
//! [`nanos_before_personal`].
//!
//! What the next library has under these names is looked up when this one is loaded, not at the first call: that may be in a
//! child of `vfork`. The one call before that, of a library that starts programs while it is being loaded, looks itself.
//!
//! # Limits
//! - The static library shows no such names: two definitions would clash. A preloaded shared one serves its engine, too.
//! - A library that is loaded late, by `dlopen`, is behind the C library. Calls that the C library added late
//!   (`execveat`, `pidfd_spawn`, `thrd_create`) are left alone: programs look whether they are there.
//! - A child of `vfork` that binds itself to the very processor of the thread that made it is taken for one that inherited it.
//! - A manager that squeezes a thread in the instant in which it has the program's mask and makes a child takes that from the
//!   child, too. Children of `vfork` are out of its reach.

use crate::icv::settings;
use nanothreads::engine;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// In the order of the numbers in `abi/starters.s`.
const NAMES: [&CStr; 40] = [
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
    c"pthread_kill",
    c"pthread_sigqueue",
];
const POSIX_SPAWN: usize = 8;
const POSIX_SPAWNP: usize = 9;
const SYSTEM: usize = 10;
const POPEN: usize = 11;
const PTHREAD_CREATE: usize = 12;
/// The first of those behind which a signal goes to a thread of the caller's choice.
const PTHREAD_KILL: usize = 38;

/// The functions of these names behind this library.
#[unsafe(export_name = "nanos_next_starters")]
static NEXT: [AtomicPtr<c_void>; NAMES.len()] = [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

/// Called by the loader.
#[unsafe(no_mangle)]
extern "C" fn nanos_find_starters() {
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
    let own = object_of(nanos_find_starters as *const c_void);
    own.is_some() && object_of(first) == own
}

/// Sees to it that the numbered function can be jumped to.
#[unsafe(no_mangle)]
extern "C" fn nanos_find_starter(number: usize) {
    // ORDERING: Relaxed - as above.
    if NEXT[number].load(Relaxed).is_null() {
        nanos_find_starters();
        // ORDERING: Relaxed - as above.
        if NEXT[number].load(Relaxed).is_null() {
            crate::message::warn(&format!("there is no {} behind this library", NAMES[number].to_string_lossy()));
            std::process::abort();
        }
    }
}

/// In front of each exec.
#[unsafe(no_mangle)]
extern "C" fn nanos_before_exec(number: usize) {
    nanos_find_starter(number);
    settings().host.before_exec();
}

/// In front of calls that are about the calling thread, for the kernel: a part that its master runs in its stead goes on by its
/// own thread, and no part is run so any more. Nor is one behind signals that are sent to single threads, which would interrupt
/// the master or nobody. Changes neither errno nor arguments. May be called in signal handlers and in children of `vfork`.
#[unsafe(no_mangle)]
extern "C" fn nanos_before_personal(number: usize) {
    nanos_find_starter(number);
    if number >= PTHREAD_KILL {
        engine::end_standing_in();
    }
    engine::on_own_thread_for_good();
}

/// In front of the other calls: whether they go through the functions below.
#[unsafe(no_mangle)]
extern "C" fn nanos_needs_unbound(number: usize) -> bool {
    nanos_find_starter(number);
    settings().host.needs_unbound()
}

/// Calls the numbered function with the mask of the program; errno is that of the call.
fn lend<R>(number: usize, call: impl FnOnce(*mut c_void) -> R) -> R {
    // ORDERING: Relaxed - as above.
    let next = NEXT[number].load(Relaxed);
    // SAFETY: - the C library's word of this thread.
    let errno = unsafe { libc::__errno_location() };
    let (result, said) = settings().host.unbound(|| {
        let result = call(next);
        // SAFETY: - as above.
        (result, unsafe { errno.read() })
    });
    // SAFETY: - as above.
    unsafe { errno.write(said) };
    result
}

type Spawn = unsafe extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const libc::posix_spawn_file_actions_t,
    *const libc::posix_spawnattr_t,
    *const *mut c_char,
    *const *mut c_char,
) -> c_int;

macro_rules! spawn {
    ($($name:ident, $number:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            pid: *mut libc::pid_t,
            program: *const c_char,
            actions: *const libc::posix_spawn_file_actions_t,
            attributes: *const libc::posix_spawnattr_t,
            arguments: *const *mut c_char,
            environment: *const *mut c_char,
        ) -> c_int {
            lend($number, |next| {
                // SAFETY: - the C library's function of that name.
                let next = unsafe { std::mem::transmute::<*mut c_void, Spawn>(next) };
                // SAFETY: - the arguments of our caller.
                unsafe { next(pid, program, actions, attributes, arguments, environment) }
            })
        }
    )*};
}

// They differ in where the program is looked for.
spawn! {
    nanos_posix_spawn, POSIX_SPAWN;
    nanos_posix_spawnp, POSIX_SPAWNP;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanos_system(command: *const c_char) -> c_int {
    lend(SYSTEM, |next| {
        // SAFETY: - the C library's function of that name.
        let next = unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(next) };
        // SAFETY: - the argument of our caller.
        unsafe { next(command) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanos_popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    type Open = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
    lend(POPEN, |next| {
        // SAFETY: - the C library's function of that name.
        let next = unsafe { std::mem::transmute::<*mut c_void, Open>(next) };
        // SAFETY: - the arguments of our caller.
        unsafe { next(command, mode) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nanos_pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    begin: *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Create =
        unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, *mut c_void, *mut c_void) -> c_int;
    lend(PTHREAD_CREATE, |next| {
        // SAFETY: - the C library's function of that name.
        let next = unsafe { std::mem::transmute::<*mut c_void, Create>(next) };
        // SAFETY: - the arguments of our caller.
        unsafe { next(thread, attributes, begin, argument) }
    })
}
