//! A thread's place in a region: its number, its team, the task it runs, and how far it is in
//! worksharing.
//!
//! A frame lives on the stack of the thread that runs as that member, from the fork to the join;
//! the frame of an initial task lives in [`crate::root`]. [`crate::tls`] points to the innermost
//! one.
//!
//! # Who touches what
//! All cells: the frame's thread only. Other threads read `id`, `size`, `team` (fixed) and the
//! atomics of `implicit`.

use crate::icv::Icvs;
use crate::legacy::Open;
use crate::root;
use crate::tail::Return;
use crate::task::{Tally, Task};
use crate::team::Team;
use crate::tls;
use crate::worksharing::Progress;
use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// See the module head.
pub(crate) struct Frame {
    /// Thread number.
    pub(crate) id: u32,
    /// Threads of the team.
    pub(crate) size: u32,
    team: *const Team,
    /// The task that the thread runs now: `implicit` or an explicit one.
    task: Cell<*const Task>,
    implicit: Task,
    /// Worksharing constructs that the thread has met in this region, counted on from region to
    /// region.
    pub(crate) constructs: Cell<u64>,
    /// `single` constructs, counted likewise.
    pub(crate) singles: Cell<u32>,
    progress: UnsafeCell<Progress>,
    /// Looks for a task that found none since the last one that did.
    pub(crate) vain_looks: Cell<u32>,
    /// Tasks that it has completed for others and not told them yet.
    pub(crate) tally: Tally,
    /// Tasks that the thread may create before it looks whether there are enough; below 0: tasks
    /// that it runs itself before it looks again.
    pub(crate) task_room: Cell<i32>,
    /// The program was told how many threads its next region of default size has
    /// (`omp_get_max_threads`), and may have dealt its work out by that number: the region has it.
    pub(crate) promised: Cell<bool>,
    /// Where the region's body returns.
    pub(crate) returns: Return,
    /// The region, if it is one in two calls and the frame its caller's; else null.
    pub(crate) opened: Cell<*mut Open>,
}

impl Frame {
    /// The frame of member `id` of `team` with the given control variables.
    ///
    /// The frame is complete once it stands at its final address and [`Frame::settle`] was called.
    #[inline]
    pub(crate) fn new(team: &Team, id: u32, icvs: Icvs) -> Self {
        Self {
            id,
            size: team.size(),
            team: ptr::from_ref(team),
            task: Cell::new(ptr::null()),
            implicit: Task::implicit(icvs, team.group()),
            constructs: Cell::new(team.constructs()),
            singles: Cell::new(team.singles_met()),
            progress: UnsafeCell::new(Progress::NONE),
            vain_looks: Cell::new(0),
            tally: Tally::new(),
            task_room: Cell::new(0),
            promised: Cell::new(false),
            returns: Return::nowhere(),
            opened: Cell::new(ptr::null_mut()),
        }
    }

    /// Makes the implicit task the current one.
    #[inline]
    pub(crate) fn settle(&self) {
        self.task.set(&raw const self.implicit);
    }

    /// The team.
    #[inline]
    pub(crate) fn team(&self) -> &Team {
        // SAFETY: - the team outlives its regions (`Team::close` comes after the join), and initial
        // ones their thread.
        unsafe { &*self.team }
    }

    /// The task that the thread runs now.
    #[inline]
    pub(crate) fn task(&self) -> &Task {
        // SAFETY: - set by `settle` and by whoever runs an explicit task, who keeps it alive
        // meanwhile.
        unsafe { &*self.task.get() }
    }

    /// The implicit task.
    #[inline]
    pub(crate) fn implicit(&self) -> &Task {
        &self.implicit
    }

    /// Makes `task` the current one and returns the one before.
    #[inline]
    pub(crate) fn swap_task(&self, task: *const Task) -> *const Task {
        self.task.replace(task)
    }

    /// The thread's progress in its current worksharing construct.
    #[expect(clippy::mut_from_ref, reason = "thread-owned state; see the safety comment")]
    #[inline]
    pub(crate) fn progress(&self) -> &mut Progress {
        // SAFETY: - frames are touched by their own thread only, and no caller keeps the reference
        //           over a call into user code or into another function that takes it.
        unsafe { &mut *self.progress.get() }
    }

    /// The control variables of the current task.
    #[inline]
    pub(crate) fn icvs(&self) -> Icvs {
        self.task().icvs.get()
    }

    /// Changes the control variables of the current task.
    pub(crate) fn change_icvs(&self, change: impl FnOnce(&mut Icvs)) {
        let cell = &self.task().icvs;
        let mut icvs = cell.get();
        change(&mut icvs);
        cell.set(icvs);
    }
}

/// `enter` with the calling thread's frame, as with [`current`], at the end of a function of few
/// instructions: a thread's first call goes another way, so that all others save no registers and
/// move no stack pointer.
#[inline(always)]
pub(crate) fn with_current<A, R>(argument: A, enter: fn(&Frame, A) -> R) -> R {
    // SAFETY: - the word points to the innermost frame that is entered and not left, which is alive
    // until this call ends.
    match unsafe { tls::get().as_ref() } {
        Some(frame) => enter(frame, argument),
        None => with_new(argument, enter),
    }
}

#[cold]
#[inline(never)]
fn with_new<A, R>(argument: A, enter: fn(&Frame, A) -> R) -> R {
    enter(root::create(), argument)
}

/// The calling thread's frame; a thread that never came here gets an initial one. Cost: two loads.
#[inline]
pub(crate) fn current<'a>() -> &'a Frame {
    let frame = tls::get();
    if frame.is_null() {
        return root::create();
    }
    // SAFETY: - the word points to the innermost frame that is entered and not left, which is
    // alive.
    //         - the lifetime is bounded by the callers: entry points, which end before the frame is left.
    unsafe { &*frame }
}
