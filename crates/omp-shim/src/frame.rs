//! A thread's place in a region: its number, its team, the task it runs, and how far it is in
//! worksharing.
//!
//! A frame lives on the stack of the thread that runs as that member, from the fork to the join;
//! the frame of an initial task lives in `root`. `word` points to the innermost one of the calling
//! thread, which `current` finds.
//!
//! # Access
//! All cells: the frame's thread only. Other threads read `id`, `size`, `team` (fixed) and the
//! atomics of `implicit`.

mod current;
mod root;
mod word;

pub(crate) use current::{current, with_current};
pub(crate) use root::RootFrame;
pub(crate) use word::{get as innermost, set as switch};

use crate::body::{Body, Return};
use crate::construct::Progress;
use crate::settings::Icvs;
use crate::task::{Tally, Task};
use crate::team::Team;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
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
    /// `region::legacy`, which opens it, knows what is there.
    pub(crate) opened: Cell<*mut ()>,
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

    /// The frame of the thread that forked; none for initial teams.
    pub(crate) fn parent(&self) -> Option<&Frame> {
        // SAFETY: - null or set by `open`; that frame stays until the join of the region that the
        // caller is in.
        unsafe { self.team().parent().cast::<Frame>().as_ref() }
    }

    /// Prepares a region of `size` threads on `team`, which the frame's thread forks. `bind` is the
    /// number of its proc_bind clause, or 0.
    #[inline]
    pub(crate) fn open(
        &self,
        team: &Team,
        size: u32,
        body: Body,
        data: *mut c_void,
        icvs: &Icvs,
        bind: u8,
    ) {
        team.set_parent(ptr::from_ref(self).cast());
        team.open(self.team(), size, body, data, icvs, bind);
    }

    /// The task that the thread runs now.
    #[inline]
    pub(crate) fn task(&self) -> &Task {
        // SAFETY: - set by `settle` and by the code that runs an explicit task, which keeps it
        // alive meanwhile.
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
