//! The thread `nanos-pools`: it raises the numbers of threads of libraries whose calls do not tell.
//!
//! A library that is down to one thread runs its calls in the caller, and no code of ours sees
//! them. So while a library has fewer threads than the program wants, this thread looks each
//! [`TICK`] what is granted. A program that computes in one thread asks for no processors, and is
//! granted none: each [`PROBE`] in which the process computes, the next call gets two threads, and
//! thereby asks (`engine::grant_for`); if there is nothing for it, that call alone had two.
//!
//! While each library has what the program wants, or an outstanding probe, this thread sleeps; the
//! end of the call that lowers a number wakes it. Libraries whose calls are not run here are looked
//! at as long as the process computes, and less and less often while it does not.

use super::followed;
use crate::settings::settings;
use platform::clock::process_ns;
use platform::futex::PrivateFutex;
use platform::pthread::{Pthread, set_name};
use std::mem::MaybeUninit;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const STACK: usize = 64 << 10;
/// Between two looks at what is granted.
const TICK: Duration = Duration::from_millis(5);
/// The longest pause, in a process that does not compute.
const PAUSE: Duration = Duration::from_secs(1);
/// Ticks between two probes.
const PROBE: u32 = 20;

/// The process in which the thread is.
static HOME: AtomicU32 = AtomicU32::new(0);
/// Changes when a number was lowered.
static CALL: PrivateFutex = PrivateFutex::new(0);

/// Starts the thread, once in a process. Where the system refuses it, numbers go down and not up.
pub(super) fn begin() {
    // ORDERING: Relaxed - a number on its own, which the new thread's start orders.
    let is_first = HOME.swap(process::id(), Relaxed) != process::id();
    if !is_first {
        return wake();
    }
    open_before_fork();
    // The program's signals are for the program's threads.
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: - places for two sets, written before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let _ = Pthread::start(STACK, &CALL, |call| follow(call));
    // SAFETY: - written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}

/// In the child of a fork, which has libraries and not the thread: it begins there when a library
/// makes its threads anew.
#[inline]
pub(super) fn begin_in_child() {
    // ORDERING: Relaxed - as in `begin`.
    let home = HOME.load(Relaxed);
    if home != 0 && home != process::id() {
        begin();
    }
}

/// A number was lowered.
pub(super) fn wake() {
    // ORDERING: Relaxed - the system call that follows orders it before the sleeper's look.
    CALL.word().fetch_add(1, Relaxed);
    CALL.wake(1);
}

/// A child of a fork begins with the numbers that the program wants: until its first call of
/// several threads nothing there could raise them.
fn open_before_fork() {
    extern "C" fn open() {
        for library in followed() {
            library.follow(usize::MAX);
        }
    }
    static ONCE: AtomicU32 = AtomicU32::new(0);
    // ORDERING: Relaxed - a flag on its own.
    if ONCE.swap(1, Relaxed) == 0 {
        // SAFETY: - `open` stays as long as this library, which is never unloaded. Where there is no
        // memory for it, children keep what there is.
        let _ = unsafe { libc::pthread_atfork(Some(open), None, None) };
    }
}

fn follow(call: &PrivateFutex) -> ! {
    set_name("nanos-pools");
    let (mut computed, mut pause, mut ticks) = (process_ns(), TICK, 0_u32);
    loop {
        // ORDERING: Relaxed - pairs by the futex: a change since makes the wait return.
        let seen = call.word().load(Relaxed);
        let now = process_ns();
        let is_busy = now - std::mem::replace(&mut computed, now) > pause.as_nanos() as u64 / 8;
        pause = if is_busy { TICK } else { (pause * 2).min(PAUSE) };
        ticks = if is_busy { ticks + 1 } else { PROBE };
        let is_open = look(ticks >= PROBE);
        if ticks >= PROBE {
            ticks = 0;
        }
        if is_open {
            // What the process computed meanwhile says nothing of its next call.
            let _ = call.wait(seen, None);
            (computed, pause, ticks) = (process_ns(), TICK, 0);
        }
        thread::sleep(pause);
    }
}

/// Looks at all libraries, with a probe where one is due; true when none has to be looked at again
/// before a call of it tells.
fn look(is_probe: bool) -> bool {
    let granted = settings().host.limit();
    let mut is_open = true;
    for library in followed() {
        if !library.is_ours {
            library.follow(granted);
            is_open = false;
        } else if library.dial.shown() < library.dial.limit() {
            if is_probe {
                library.follow(granted.max(2));
            } else {
                library.follow(granted);
                is_open &= library.dial.shown() >= library.dial.limit();
            }
        }
    }
    is_open
}
