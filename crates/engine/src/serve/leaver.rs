//! A worker whose thread ends in the middle of a part, by `pthread_exit` or a cancellation.
//!
//! # What becomes of it
//! It is as with gcc's library: the thread ends as any other thread does, with its handlers and
//! the destructors of what the program keeps for each thread; the region that it left waits for it
//! for ever, and so does that region's master. No other thread uses the worker: its master never
//! gives it back. So it only has to be forgotten: the handle by which others move it, its number
//! with a manager, and the thread's state, since destructors of the program may use the engine
//! anew.
//!
//! Nothing of the engine is a point of cancellation
//! ([`Aside`](platform::aside::Aside)), so a worker leaves from the program's own code only. Where
//! panics unwind, an end of that kind is a panic for the frames of Rust on the way, and the process
//! ends by it.

use crate::manager::source;
use crate::program::program;
use crate::thread::current;
use crate::workers::worker::Worker;
use platform::lock::Once;
use platform::pthread;

/// What a library on the engine forgets.
static LIBRARY: Once<fn()> = Once::new();

/// Has `forget` called on each thread of a worker that leaves in the middle of a part. For one
/// library in the process: a second one is not heard.
#[inline]
pub fn on_leaver(forget: fn()) {
    if LIBRARY.get().is_none() {
        // Another thread was first: with the same function, most often.
        let _ = LIBRARY.set(forget);
    }
}

/// Calls `life` on the thread of `worker`; returns when that is over, or the thread left it.
pub(super) fn until_it_leaves(worker: &'static Worker, life: impl FnOnce()) {
    let mut life = Some(life);
    let comes_back = pthread::comes_back(|| {
        if let Some(life) = life.take() {
            life();
        }
    });
    if !comes_back {
        leave(worker);
    }
}

#[cold]
fn leave(worker: &'static Worker) {
    current::let_go();
    if let Some(forget) = LIBRARY.get() {
        forget();
    }
    if let Some(managed) = source::managed_already() {
        managed.spare(worker);
    }
    worker.station().lose_thread();
    program().config().threads.end(worker.number());
}
