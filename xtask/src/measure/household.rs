//! What ends what: this program is the parent of all that its children leave running, and a signal
//! ends a measurement.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};

use super::process::{children, kill, reap};

/// Set by the signal handler; read between waits.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes this process the parent of all processes that its children leave running, and the receiver
/// of the signals that end a run.
pub(crate) struct Household;

impl Household {
    /// Takes over; from here on SIGINT, SIGTERM and SIGHUP make [`run_copies`](super::copies::run_copies) and
    /// [`check_interrupt`] fail.
    pub(crate) fn take_over() -> anyhow::Result<Household> {
        // SAFETY: this option takes one number and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } != 0 {
            return Err(std::io::Error::last_os_error()).context("prctl(PR_SET_CHILD_SUBREAPER)");
        }
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // SAFETY: all zero is a valid sigaction: default handler, empty mask, no flags (so
            // waits are interrupted).
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction =
                note_interrupt as extern "C" fn(libc::c_int) as libc::sighandler_t;
            // SAFETY: the action is initialised, and its handler only stores to an atomic.
            if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
                return Err(std::io::Error::last_os_error()).context("sigaction");
            }
        }
        Ok(Household)
    }
}

impl Drop for Household {
    fn drop(&mut self) {
        // What a child had started becomes our child when that child dies, so look again until none
        // is left.
        for _ in 0..100 {
            let heirs = children();
            if heirs.is_empty() {
                break;
            }
            for pid in heirs {
                kill(pid);
                // A child that cannot be waited for shows up again in the next round.
                let _ = reap(pid);
            }
        }
    }
}

extern "C" fn note_interrupt(_signal: libc::c_int) {
    // Relaxed: a flag that is looked at again and again; nothing else travels with it.
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Whether a signal has asked this program to end.
pub(crate) fn is_interrupted() -> bool {
    // Relaxed: see `note_interrupt`.
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails once a signal has asked this program to end.
pub(crate) fn check_interrupt() -> anyhow::Result<()> {
    if is_interrupted() {
        bail!("interrupted by a signal; every process that was started has been ended");
    }
    Ok(())
}
