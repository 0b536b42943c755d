//! The thread `nanos-pools`: it raises the numbers of threads of libraries whose calls do not tell.
//!
//! A library that is down to one thread runs its calls in the caller, and no code of ours sees
//! them. So while a library has fewer threads than the program wants, this thread looks each
//! [`TICK`] what is granted, and raises the number when it is more. The engine takes a program that
//! forks no region for one that computes in one thread, and asks for one processor: each
//! [`JUDGEMENT`] in which the process computes, this thread asks for all again. Where the
//! processors were taken by other threads' calls of the same program, and not by other programs,
//! the number is raised as often, and the next call tells whether they still are.
//!
//! When the process does not compute, its next call may have two threads: it tells, and this thread
//! sleeps until then, as it does while each library has what the program wants. Libraries whose
//! calls are not run here are looked at as long as the process computes, and less and less often
//! while it does not.

use super::libraries::{FORKING, followed};
use crate::settings::settings;
use platform::clock::{monotonic_ns, process_ns};
use platform::futex::PrivateFutex;
use platform::pthread::{Pthread, set_name};
use std::mem::MaybeUninit;
use std::process;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A library with much thread-local data takes some of it.
const STACK: usize = 1 << 20;
/// Between two looks at what is granted.
const TICK: Duration = Duration::from_millis(5);
/// The longest pause, in a process that does not compute.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks whether the process computes. Programs that share a processor may have none
/// for some ticks.
const JUDGEMENT: Duration = Duration::from_millis(100);
/// The part of the time in which a process that computes has a processor, at least.
const PART: u64 = 32;

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
    // A library that runs its calls here may need no threads of its own in a child.
    begin_in_child();
    // ORDERING: Relaxed - the system call that follows orders it before the sleeper's look.
    CALL.word().fetch_add(1, Relaxed);
    CALL.wake(1);
}

/// A child of a fork begins with the numbers that the program wants: until its first call of
/// several threads nothing there could raise them.
fn open_before_fork() {
    extern "C" fn open() {
        // ORDERING: Relaxed, all - see `is_forking`; the fork orders what the child sees.
        FORKING.fetch_add(1, Relaxed);
        for library in followed() {
            while !library.turn(usize::MAX) {
                thread::yield_now();
            }
        }
    }
    extern "C" fn in_parent() {
        FORKING.fetch_sub(1, Relaxed);
    }
    extern "C" fn in_child() {
        FORKING.store(0, Relaxed);
    }
    static ONCE: AtomicU32 = AtomicU32::new(0);
    // ORDERING: Relaxed - a flag on its own.
    if ONCE.swap(1, Relaxed) == 0 {
        // SAFETY: - the functions stay as long as this library, which is never unloaded. Where
        // there is no memory for it, children keep what there is.
        let _ = unsafe { libc::pthread_atfork(Some(open), Some(in_parent), Some(in_child)) };
    }
}

fn follow(call: &PrivateFutex) -> ! {
    set_name("nanos-pools");
    let mut pause = TICK;
    let mut judged = (monotonic_ns(), process_ns());
    loop {
        // ORDERING: Relaxed - a change after this makes the wait return.
        let seen = call.word().load(Relaxed);
        let mut is_busy = None;
        let now = (monotonic_ns(), process_ns());
        if now.0 - judged.0 >= JUDGEMENT.as_nanos() as u64 {
            let is_so = (now.1 - judged.1) * PART >= now.0 - judged.0;
            pause = if is_so { TICK } else { (pause * 2).min(PAUSE) };
            (judged, is_busy) = (now, Some(is_so));
        }
        if look(is_busy) {
            let _ = call.wait(seen, None);
            // What the process computed meanwhile says nothing of its next call.
            (pause, judged) = (TICK, (monotonic_ns(), process_ns()));
        }
        thread::sleep(pause);
    }
}

/// Looks at all libraries; `is_busy`: whether the process computes, where that was judged now.
/// True when none has to be looked at again before a call of it tells.
fn look(is_busy: Option<bool>) -> bool {
    let host = settings().host;
    let lowered = || followed().filter(|it| it.dial.shown() < it.dial.limit());
    if is_busy == Some(true) && lowered().next().is_some() {
        host.ask_again();
    }
    let granted = host.limit();
    followed().filter(|library| !library.is_ours).for_each(|library| library.follow(granted));
    for library in lowered().filter(|library| library.is_ours) {
        match is_busy {
            Some(false) => {
                library.follow(granted.max(2));
                continue;
            }
            // ORDERING: Relaxed, both - a hint.
            Some(true) => library.is_crowded.store(false, Relaxed),
            None if library.is_crowded.load(Relaxed) => continue,
            None => {}
        }
        library.follow(granted);
    }
    followed().all(|library| library.is_ours)
        && (is_busy == Some(false) || lowered().next().is_none())
}
