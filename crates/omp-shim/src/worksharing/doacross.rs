//! What a member does about cross-iteration dependences: `depend(source)` and `depend(sink: ...)`.
//! Their state is that of [`crate::construct`].

use crate::construct::Doacross;
use crate::engine;
use crate::frame::Frame;
use crate::worksharing::member;
use ::engine::stage::Stage;
use platform::sync::atomic::Ordering::Acquire;

/// The current nest.
#[inline]
fn current(frame: &Frame) -> Option<&Doacross> {
    member::current(frame)?.shared().doacross.as_ref()
}

/// The iteration with index `at(k)` for loop k, which is asked for the loops of the current nest,
/// is done as far as others wait for it.
#[inline]
pub(crate) fn post(frame: &Frame, at: impl Fn(usize) -> u64) {
    if let Some((counter, value)) = current(frame).and_then(|doacross| doacross.locate(at)) {
        counter.finish_up_to(value);
        frame.team().wait.notify_all();
    }
}

/// Waits until the iteration with index `at(k)` for loop k was posted.
#[inline]
pub(crate) fn wait(frame: &Frame, at: impl Fn(usize) -> u64) {
    // Before this one on the same thread.
    if member::runs(frame, at(0)) {
        return;
    }
    if let Some((counter, value)) = current(frame).and_then(|doacross| doacross.locate(at))
        && !counter.has_finished(value)
    {
        wait_for(frame, counter, value);
    }
}

#[inline(never)]
fn wait_for(frame: &Frame, counter: &Stage, value: u64) {
    if frame.size == 1 {
        // All that comes before has been done. gcc 12 passes a vector that is outside for some
        // sinks of unsigned loops.
        return;
    }
    let team = frame.team();
    // ORDERING: Acquire - pairs with `sync::cancel`.
    engine::wait(&team.wait, || counter.has_finished(value) || team.cancelled.load(Acquire));
}
