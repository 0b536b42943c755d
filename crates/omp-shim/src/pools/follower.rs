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

use super::arenas;
use super::libraries::{self, followed};
use crate::settings::settings;
use engine::process::{Born, Owner};
use platform::clock::{monotonic_ns, process_ns};
use platform::futex::PrivateFutex;
use platform::lock::Once;
use platform::pthread::{Pthread, set_name};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
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
static HOME: Owner = Owner::none();
/// Changes when a number was lowered.
static CALL: PrivateFutex = PrivateFutex::new(0);
/// The thread looks less often than each [`TICK`], or not at all.
static IS_SLOW: AtomicBool = AtomicBool::new(false);

/// Starts the thread, once in a process. Where the system refuses it, numbers go down and not up.
pub(super) fn begin() {
    // ORDERING: Relaxed - a number on its own, which the new thread's start orders.
    if !HOME.take(Relaxed) {
        return wake();
    }
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !IS_WATCHED.swap(true, Relaxed) {
        watch_forks();
    }
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
    let home = HOME.get(Relaxed);
    if home != Born::NOWHERE && home.is_parents() {
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

/// There is something to look at each [`TICK`], which the caller has made known. Cost: a load,
/// while the thread does that anyway.
pub(super) fn hurry() {
    // ORDERING: SeqCst - A (the caller) writes that an arena is active and then looks here; B (the
    // thread) writes here that it is slow and then looks for active arenas: one of them sees the
    // other.
    if IS_SLOW.load(SeqCst) {
        wake();
    }
}

/// Has numbers stay as they are while a thread forks, and a child begin this thread where it has
/// something to raise.
///
/// What is registered last is called first before a fork, and has to be: a library ends its threads
/// there. One may register itself after it has made its first thread, so the thread that follows
/// comes here again when there is a new library.
fn watch_forks() {
    extern "C" fn before() {
        libraries::before_fork();
    }
    extern "C" fn in_parent() {
        libraries::after_fork();
    }
    extern "C" fn in_child() {
        if libraries::in_child() {
            begin_in_child();
        }
    }
    // SAFETY: - the functions stay as long as this library, which is never unloaded. Where there is
    // no memory for it, children keep what there is.
    let _ = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Once more, for each library that is new.
fn watch_forks_of_new() {
    static WATCHED: AtomicUsize = AtomicUsize::new(0);
    let count = followed().count();
    // ORDERING: Relaxed - a number on its own.
    if WATCHED.swap(count, Relaxed) < count {
        watch_forks();
    }
}

/// A library was found that has one thread now and may have more soon: `look` is called for
/// [`LATER`].
pub(super) fn look_again(look: fn()) {
    let _ = LOOK.set(look);
    // ORDERING: Relaxed - a number on its own.
    LOOK_END.store(monotonic_ns() + LATER.as_nanos() as u64, Relaxed);
    begin();
}

/// What [`look_again`] was given, and until when it is called, each [`JUDGEMENT`] or pause.
static LOOK: Once<fn()> = Once::new();
static LOOK_END: AtomicU64 = AtomicU64::new(0);
/// How long a library with one thread is looked at again.
pub(super) const LATER: Duration = Duration::from_secs(5);

/// Whether libraries are looked for still.
fn looks_for_more() -> bool {
    // ORDERING: Relaxed - a number on its own; one that becomes larger brings a wake.
    monotonic_ns() < LOOK_END.load(Relaxed)
}

fn look_for_more() {
    if looks_for_more()
        && let Some(look) = LOOK.get()
    {
        look();
    }
}

fn follow(call: &PrivateFutex) -> ! {
    set_name("nanos-pools");
    // A child of a fork most often becomes another program.
    thread::sleep(TICK);
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
            look_for_more();
        }
        watch_forks_of_new();
        let has_nothing = look(is_busy);
        if has_nothing || pause > TICK {
            // ORDERING: SeqCst - see `hurry`.
            IS_SLOW.store(true, SeqCst);
            let most = if !has_nothing {
                Some(pause)
            } else if arenas::are_active() {
                Some(TICK)
            } else {
                None
            };
            let _ = call.wait(seen, most);
            // ORDERING: Relaxed, both - hints.
            IS_SLOW.store(false, Relaxed);
            if has_nothing || call.word().load(Relaxed) != seen {
                // What the process computed meanwhile says nothing of its next call.
                (pause, judged) = (TICK, (monotonic_ns(), process_ns()));
            }
        }
        if pause <= TICK {
            thread::sleep(TICK);
        }
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
    arenas::follow(granted);
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
    // ORDERING: Relaxed - a hint.
    !arenas::are_active()
        && !looks_for_more()
        && followed().all(|library| library.is_ours)
        && (is_busy == Some(false) || lowered().next().is_none())
}
