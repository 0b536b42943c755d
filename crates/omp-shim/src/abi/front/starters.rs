//! Programs that a member of a region starts, and threads that it makes: they have the mask that
//! this program was started with (D2), not that of a thread which is bound under a manager, or was
//! put on one processor when it was woken. What `fork` makes has it anyway (`engine::unbound`'s
//! module).
//!
//! - `exec*` are jumps to the C library's ones after a call of [`nanos_before_exec`]: arguments,
//!   result and errno are the C library's own. That serves every way to make the child: `vfork`,
//!   `clone`, a spawn of the program's own. It calls nothing but the kernel, since a child of
//!   `vfork` or a signal handler may be there.
//! - `posix_spawn`, `posix_spawnp`, `system`, `popen` and `pthread_create` make their child inside
//!   the C library, where no other library comes in. On threads that are none of the engine's they
//!   are jumps as well, so that a thread that is cancelled in `system` finds no frame of ours; on
//!   those that are, the functions here lend the thread the program's mask for as long as the call
//!   takes.
//!
//! # Limits
//! - A child of `vfork` that binds itself to the very processor of the thread that made it is taken
//!   for one that inherited it.
//! - A manager that squeezes a thread in the instant in which it has the program's mask and makes a
//!   child takes that from the child, too. Children of `vfork` are out of its reach.

use super::{nanos_find_next, next, number};
use crate::pools;
use crate::settings::settings;
use std::ffi::{c_char, c_int, c_void};

const POSIX_SPAWN: usize = number(c"posix_spawn");
const POSIX_SPAWNP: usize = number(c"posix_spawnp");
const SYSTEM: usize = number(c"system");
const POPEN: usize = number(c"popen");
const PTHREAD_CREATE: usize = number(c"pthread_create");

/// In front of each exec.
#[unsafe(no_mangle)]
extern "C" fn nanos_before_exec(number: usize) {
    nanos_find_next(number);
    settings().host.before_exec();
}

/// In front of the other calls: whether they go through the functions below. `third` is the third
/// argument of the call.
#[unsafe(no_mangle)]
extern "C" fn nanos_needs_unbound(number: usize, third: *const c_void) -> bool {
    nanos_find_next(number);
    if number == PTHREAD_CREATE {
        pools::at_thread(third);
    }
    settings().host.needs_unbound()
}

/// Calls the numbered function with the mask of the program; errno is that of the call.
fn lend<R>(number: usize, call: impl FnOnce(*mut c_void) -> R) -> R {
    let next = next(number);
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
        let next = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> c_int>(next)
        };
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
    type Create = unsafe extern "C" fn(
        *mut libc::pthread_t,
        *const libc::pthread_attr_t,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    lend(PTHREAD_CREATE, |next| {
        // SAFETY: - the C library's function of that name.
        let next = unsafe { std::mem::transmute::<*mut c_void, Create>(next) };
        // SAFETY: - the arguments of our caller.
        unsafe { next(thread, attributes, begin, argument) }
    })
}
