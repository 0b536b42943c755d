//! Initial tasks: what a program thread has before and outside any region. Made at its first call,
//! freed at its end.

use crate::departure;
use crate::frame::Frame;
use crate::icv::{Icvs, settings};
use crate::team::Team;
use crate::tls;
use std::cell::Cell;
use std::ptr;

/// A team of one with its only frame.
struct Root {
    /// Declared first: dropped before the team that it points to.
    frame: Frame,
    _team: Box<Team>,
}

struct Guard(Cell<*mut Root>);

impl Drop for Guard {
    fn drop(&mut self) {
        let root = self.0.replace(ptr::null_mut());
        if root.is_null() {
            return;
        }
        tls::set(ptr::null());
        // SAFETY: - leaked by `create` for this thread, which ends: no region of it is open.
        drop(unsafe { Box::from_raw(root) });
    }
}

thread_local! {
    static GUARD: Guard = const { Guard(Cell::new(ptr::null_mut())) };
}

/// Makes the calling thread's initial frame.
#[cold]
pub(crate) fn create<'a>() -> &'a Frame {
    let root = Box::into_raw(new_root(settings().initial(), Team::of_thread));
    // Fails only while the thread's other destructors run: then the frame is leaked.
    if GUARD.try_with(|guard| guard.0.set(root)).is_ok() {
        departure::expect();
    }
    // SAFETY: - just leaked; freed only at the thread's end.
    let frame = unsafe { &(*root).frame };
    tls::set(frame);
    frame
}

fn new_root(icvs: Icvs, team: impl FnOnce(Icvs) -> Box<Team>) -> Box<Root> {
    let team = team(icvs);
    let root = Box::new(Root { frame: Frame::new(&team, 0, icvs), _team: team });
    root.frame.settle();
    root
}

/// Runs `body` in a fresh initial task, as team `number` of a league of `count`.
pub(crate) fn with_initial(icvs: Icvs, number: u32, count: u32, body: impl FnOnce()) {
    let root = new_root(icvs, |icvs| Team::initial(icvs, number, count));
    let before = tls::set(&raw const root.frame);
    body();
    crate::task::finish_all(&root.frame);
    tls::set(before);
}
