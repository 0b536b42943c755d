//! Initial tasks: what a program thread has before and outside any region. Made at its first call,
//! freed at its end.

use super::{Frame, word};
use crate::process::departure;
use crate::settings::{Icvs, settings};
use crate::team::Team;
use std::cell::Cell;
use std::ptr;

/// A team of one with its only frame.
pub(crate) struct RootFrame {
    /// Declared first: dropped before the team that it points to.
    frame: Frame,
    _team: Box<Team>,
}

struct Guard(Cell<*mut RootFrame>);

impl Drop for Guard {
    fn drop(&mut self) {
        let root = self.0.replace(ptr::null_mut());
        if root.is_null() {
            return;
        }
        // SAFETY: - leaked by `create` for this thread.
        let is_outside = word::set(ptr::null()) == unsafe { &raw const (*root).frame };
        if is_outside {
            // SAFETY: - as above; the thread ends, and no region of it is open.
            drop(unsafe { Box::from_raw(root) });
        }
        // Else it left a region for good (`pthread_exit`, a cancellation), whose members may be at
        // work: what they look at stays.
    }
}

thread_local! {
    static GUARD: Guard = const { Guard(Cell::new(ptr::null_mut())) };
}

/// Makes the calling thread's initial frame.
#[cold]
pub(super) fn create<'a>() -> &'a Frame {
    let icvs = settings().initial();
    let root = Box::into_raw(RootFrame::new(icvs, Team::of_thread(icvs)));
    // Fails only while the thread's other destructors run: then the frame is leaked.
    if GUARD.try_with(|guard| guard.0.set(root)).is_ok() {
        departure::expect();
    }
    // The frame of the part that the thread of a worker leaves is gone with its stack.
    engine::on_leaver(|| _ = word::set(ptr::null()));
    // SAFETY: - just leaked; freed only at the thread's end.
    let frame = unsafe { &(*root).frame };
    word::set(frame);
    frame
}

impl RootFrame {
    /// An initial task with the control variables `icvs`, in `team`, which was made for it.
    pub(crate) fn new(icvs: Icvs, team: Box<Team>) -> Box<Self> {
        let root = Box::new(Self { frame: Frame::new(&team, 0, icvs), _team: team });
        root.frame.settle();
        root
    }

    /// Its only frame.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }
}
