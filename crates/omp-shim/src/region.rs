//! Parallel regions: how large a team is, fork and join.

pub(crate) mod league;
pub(crate) mod legacy;
pub(crate) mod pause;

use crate::body::{self, Body};
use crate::frame::{self, Frame};
use crate::migration::{self, Told};
use crate::process::message;
use crate::query::display;
use crate::settings::{Adapt, Icvs, NO_LIMIT, settings};
use crate::sync;
use crate::tasking;
use crate::team::Team;
use crate::worksharing;
use engine::Member;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What a parallel construct asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Threads; 0 = the default.
    pub(crate) threads: u32,
    /// The number of the proc_bind clause; 0 = none.
    pub(crate) bind: u8,
}

/// The team that a region is to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Threads.
    pub(crate) threads: u32,
    /// The program relies on that number.
    pub(crate) is_exact: bool,
    /// D4: it would have more than its one thread on a machine that no other program uses, and
    ///     counts as active.
    is_shrunk: bool,
    /// What was taken from the thread limit of the contention group.
    taken: u32,
}

impl Size {
    /// The size of the region that `frame` begins. To be given back ([`Size::give_back`]) after the
    /// region's end.
    #[inline]
    pub(crate) fn of(frame: &Frame, icvs: &Icvs, asked: u32) -> Self {
        let (size, need) = team_size(frame, icvs, asked);
        // What an inner region is must not depend on the load of the machine.
        let is_shrunk = size == 1 && is_active(frame, icvs, asked);
        let (threads, taken) = within_thread_limit(frame, icvs, size);
        Self { threads, is_exact: need == Need::Exact, is_shrunk, taken }
    }

    /// The region has `got` threads, and was opened on `team`.
    #[inline]
    pub(crate) fn settle(self, frame: &Frame, team: &Team, got: u32) {
        if got < self.threads && self.is_exact {
            say_refused(self.threads, got);
        }
        if self.is_shrunk {
            team.count_as_active(frame.team());
        }
    }

    /// The region is joined.
    #[inline]
    pub(crate) fn give_back(self, frame: &Frame) {
        if self.taken > 0 {
            frame.team().return_threads(self.taken);
        }
    }
}

/// Runs `body(data)` on a team. `prepare` may lay out the region's first construct. Returns after
/// the join with the size of the team.
#[inline]
pub(crate) fn parallel(
    frame: &Frame,
    body: Body,
    data: *mut c_void,
    ask: Ask,
    prepare: impl FnOnce(&Team),
) -> u32 {
    if migration::is_watched() {
        return watched(frame, body, data, ask, prepare);
    }
    fork(frame, body, data, ask, prepare, |_| {})
}

/// The same for a program of which more is to be known.
#[cold]
#[inline(never)]
fn watched(
    frame: &Frame,
    body: Body,
    data: *mut c_void,
    ask: Ask,
    prepare: impl FnOnce(&Team),
) -> u32 {
    let threads = if ask.threads == 0 { frame.icvs().num_threads } else { ask.threads };
    let told = if active_level(frame) == 0 {
        migration::region_begins(ptr::from_ref(frame).addr(), body as usize, threads as usize)
    } else {
        Told::default()
    };
    let display_affinity = settings().environment.display_affinity;
    let got = fork(frame, body, data, ask, prepare, |team| {
        if display_affinity && team.is_news() {
            team.set_displayed();
        }
    });
    migration::region_ends(told);
    got
}

/// Forks and joins; `after` sees the team before it is closed.
#[inline(always)]
fn fork(
    frame: &Frame,
    body: Body,
    data: *mut c_void,
    ask: Ask,
    prepare: impl FnOnce(&Team),
    after: impl FnOnce(&Team),
) -> u32 {
    let icvs = frame.icvs();
    settings().host.identify_region(body as usize);
    let size = Size::of(frame, &icvs, ask.threads);
    let reserved = settings().host.reserve(size.threads as usize, size.is_exact);
    let got = u32::try_from(reserved.size()).unwrap_or(u32::MAX);
    frame.team().with_child(frame.id, got as usize, |team| {
        frame.open(team, got, body, data, &icvs, ask.bind);
        size.settle(frame, team, got);
        prepare(team);
        // SAFETY: - `member` takes the team, which lives until `close`; it does not unwind (the
        // library aborts on panic).
        //         - the team has one region at a time.
        unsafe { reserved.run(member, ptr::from_ref(team).cast(), team.recall()) };
        after(team);
        team.close();
    });
    size.give_back(frame);
    got
}

/// One member's part of a region.
///
/// # Safety
/// - `data` points to a [`Team`] that is open until all members are joined.
pub(crate) unsafe fn member(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let team = unsafe { &*data.cast::<Team>() };
    let frame = Frame::new(team, member.id, team.member_icvs());
    frame.settle();
    let before = frame::switch(&raw const frame);
    begin(&frame);
    let (run, data) = team.body();
    // SAFETY: - the compiled code's body and argument.
    unsafe { body::call(run, data, &frame.returns) };
    finish(&frame);
    if member.id == 0 {
        team.count_on(frame.constructs.get(), frame.singles.get());
    }
    frame::switch(before);
}

/// What a member does before the region's body: it enters the construct that was laid out ahead, if
/// one was.
#[inline]
pub(crate) fn begin(frame: &Frame) {
    let team = frame.team();
    if team.is_laid_out() {
        worksharing::join_ahead(frame);
    }
    if settings().environment.display_affinity && team.is_news() {
        display::affinity(frame, None);
    }
}

/// The end of a region, before the engine's join: all tasks are completed.
#[inline]
pub(crate) fn finish(frame: &Frame) {
    if frame.team().is_laid_out() {
        // Compiled code deals out a `parallel for schedule(auto)` itself, and does not say that it
        // is over.
        worksharing::leave(frame);
    }
    if frame.team().is_task_free() {
        tasking::finish_all(frame);
    } else {
        frame.implicit().drop_table();
        sync::barrier(frame);
    }
}

/// Whether a team must have its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// The program relies on it.
    Exact,
    /// As many as there are.
    Available,
}

/// The size of the team that `asked` (0 = nothing) leads to (D4). A team of default size shrinks
/// with the grant, unless the program asked for its size since the thread's last such region.
#[inline]
fn team_size(frame: &Frame, icvs: &Icvs, asked: u32) -> (u32, Need) {
    let wanted = if asked == 0 { icvs.num_threads } else { asked };
    let is_promised = asked == 0 && frame.promised.take();
    let level = active_level(frame);
    if wanted <= 1 || level >= icvs.max_active_levels {
        return (1, Need::Exact);
    }
    let outermost = level == 0;
    let granted = if outermost || icvs.dynamic.is_on() {
        u32::try_from(settings().host.grant_for(wanted as usize)).unwrap_or(wanted)
    } else {
        wanted
    };
    let shrinks = match asked {
        // Code that has just asked for the number may have divided its work by it: OpenBLAS does,
        // and hangs in a smaller team, whose members wait for each other's parts (D15).
        0 => icvs.dynamic.is_on() && !is_promised,
        _ => {
            outermost && settings().environment.adapt == Adapt::All && settings().host.is_managed()
        }
    };
    match (shrinks, outermost) {
        (false, _) => (wanted, Need::Exact),
        (true, true) => (granted, Need::Exact),
        (true, false) => (granted, Need::Available),
    }
}

/// True when a region is active by what it asks for.
fn is_active(frame: &Frame, icvs: &Icvs, asked: u32) -> bool {
    let wanted = if asked == 0 { icvs.num_threads } else { asked };
    wanted > 1 && icvs.thread_limit > 1 && active_level(frame) < icvs.max_active_levels
}

/// Active levels around the caller. A thread that is outside all regions of this copy of the
/// library, but in a team of another copy (or of a program that uses the engine itself), is at the
/// first one: its processors are taken (D12).
#[inline]
fn active_level(frame: &Frame) -> u32 {
    let team = frame.team();
    team.active_level() + u32::from(team.is_of_thread() && settings().host.is_in_team())
}

/// `size` within the thread limit of the contention group; the second value is what was taken from
/// the limit.
fn within_thread_limit(frame: &Frame, icvs: &Icvs, size: u32) -> (u32, u32) {
    if icvs.thread_limit == NO_LIMIT || size == 1 {
        return (size, 0);
    }
    let taken = frame.team().take_threads(size - 1, icvs.thread_limit);
    (taken + 1, taken)
}

/// Says once that the team has fewer threads than the program relies on, and why.
#[cold]
fn say_refused(size: u32, got: u32) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if SAID.swap(true, Relaxed) {
        return;
    }
    let reason = if got as usize == settings().host.largest_team() {
        "that is the most that a team may have (look at num_threads, omp_set_num_threads, \
         OMP_NUM_THREADS)"
    } else {
        "the system refused more (look at `ulimit -u`, the pids limit of the cgroup, OMP_STACKSIZE)"
    };
    message::warn(&format!("a team of {size} threads was asked for and has {got}: {reason}"));
}
