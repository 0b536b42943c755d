//! Calls that change or ask something of the calling thread in the kernel, or wait for its signals, and those that change the
//! process's user, for which the C library has each thread act: they are jumps behind a call of [`nanos_before_personal`].
//! A part of a region that runs on another kernel thread than its own ([`engine::stands_in`]) must not make them there.

use super::{PTHREAD_KILL, nanos_find_next};
use nanothreads::engine;

/// In front of calls that are about the calling thread, for the kernel: a part that its master runs in its stead goes on by its
/// own thread, and no part is run so any more. Nor is one behind signals that are sent to single threads, which would interrupt
/// the master or nobody. Changes neither errno nor arguments. May be called in signal handlers and in children of `vfork`.
#[unsafe(no_mangle)]
extern "C" fn nanos_before_personal(number: usize) {
    nanos_find_next(number);
    if number >= PTHREAD_KILL {
        engine::end_standing_in();
    }
    engine::on_own_thread_for_good();
}
