//! What this process inherited, and `run` passes on: whether SIGPIPE is ignored. A Rust program
//! ignores it from its first moment, and gives a program that it becomes by exec the default,
//! whatever its starter wanted (services of systemd ignore it unless they say otherwise).
//!
//! # Orderings
//! `IGNORED` is written before `main`, by the only thread.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;

/// SIGPIPE was ignored when this process began.
static IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before Rust's own beginning, which ignores the signal.
extern "C" fn look() {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: - without a new action sigaction only fills in the one that there is; `action` lives
    //           through the call, and all zeros is one.
    let action = unsafe {
        (
            libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()),
            action.assume_init(),
        )
    };
    if action.0 == 0 {
        // ORDERING: Relaxed - there is no other thread yet.
        IGNORED.store(action.1.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// `command` becomes another program that ignores what this one was started to ignore.
pub(crate) fn pass_on(command: &mut Command) {
    // ORDERING: Relaxed - written before any thread began.
    if !IGNORED.load(Ordering::Relaxed) {
        return;
    }
    let ignore = || {
        // SAFETY: - ignoring a signal runs no code of ours.
        let before = unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        if before == libc::SIG_ERR { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    // SAFETY: - the call is one system call: it allocates nothing and takes no lock. It comes
    //           after what the standard library does with the signal, by exec's own order.
    unsafe { command.pre_exec(ignore) };
}
