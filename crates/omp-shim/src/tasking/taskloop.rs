//! `taskloop`: the iterations of a loop, dealt out to tasks.

use super::creation::create;
use super::execution::is_cancelled;
use super::included::run_included;
use super::reduction;
use super::taskgroup::{close_group, open_group};
use crate::frame::{self, Frame};
use crate::schedule::Space;
use crate::task::TaskRequest;
use std::alloc::Layout;
use std::ffi::c_void;
use std::ops::Range;

/// How many tasks to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// As the runtime likes.
    Default,
    /// This many.
    Tasks(u64),
    /// At least this many iterations each.
    Iterations(u64),
    /// This many iterations each, the last one fewer.
    Strictly(u64),
}

/// Tasks for each thread when the program says nothing.
const TASKS_PER_THREAD: u64 = 4;

/// The sizes of the tasks: the first `larger` have one iteration more than `size`; `Strictly`
/// counts the other way.
fn shares(trips: u64, grain: Grain, threads: u64) -> (u64, u64, u64) {
    let tasks = match grain {
        Grain::Default => threads * TASKS_PER_THREAD,
        Grain::Tasks(tasks) => tasks,
        Grain::Iterations(least) => trips / least.max(1),
        Grain::Strictly(size) => {
            let size = size.max(1);
            return (trips.div_ceil(size), size, 0);
        }
    };
    let tasks = tasks.clamp(1, trips.max(1));
    (tasks, trips / tasks, trips % tasks)
}

/// Which task gets which iterations.
#[derive(Clone, Copy)]
struct Dealt<'a> {
    space: &'a Space,
    tasks: u64,
    size: u64,
    larger: u64,
}

impl<'a> Dealt<'a> {
    fn new(space: &'a Space, grain: Grain, threads: u64) -> Self {
        let (tasks, size, larger) = shares(space.trips, grain, threads);
        Self { space, tasks, size, larger }
    }

    /// Calls `task` with the bounds of each of these tasks that has iterations.
    fn each(&self, tasks: Range<u64>, mut task: impl FnMut([u64; 2])) {
        let Self { space, size, larger, .. } = *self;
        let mut from = (tasks.start * size + tasks.start.min(larger)).min(space.trips);
        for number in tasks {
            let to = (from + size + u64::from(number < larger)).min(space.trips);
            if from == to {
                break;
            }
            let (start, end) = space.bounds(&(from..to));
            task([start, end]);
            from = to;
        }
    }
}

/// Bundles of tasks for each thread.
const BUNDLES_PER_THREAD: u64 = 16;

/// Consecutive tasks that one thread runs one after the other: they are queued and counted as one.
#[derive(Clone, Copy)]
struct Bundle<'a> {
    request: &'a TaskRequest<'a>,
    dealt: &'a Dealt<'a>,
    first: u64,
    end: u64,
}

/// Makes one queued task of many tasks of the loop: those are included tasks of it.
fn deal_in_bundles(frame: &Frame, request: &TaskRequest<'_>, dealt: &Dealt<'_>, bundles: u64) {
    let part = |number: u64| number * (dealt.tasks / bundles) + number.min(dealt.tasks % bundles);
    for number in 0..bundles {
        let mut bundle = Bundle { request, dealt, first: part(number), end: part(number + 1) };
        let whole = TaskRequest {
            body: run_bundle,
            data: (&raw mut bundle).cast(),
            block: Layout::new::<Bundle<'_>>(),
            // What the program sees as final are the tasks in it.
            is_final: false,
            ..*request
        };
        create(frame, &whole);
    }
}

/// # Safety
/// - `data` is a [`Bundle`] whose creator waits for it.
unsafe extern "C" fn run_bundle(data: *mut c_void) {
    // SAFETY: - caller's contract.
    let bundle = unsafe { data.cast::<Bundle<'_>>().read() };
    let frame = frame::current();
    let group = frame.task().group();
    bundle.dealt.each(bundle.first..bundle.end, |bounds| {
        if !is_cancelled(frame.team(), group) {
            run_included(frame, &TaskRequest { bounds: Some(bounds), ..*bundle.request });
        }
    });
}

/// The clauses of a taskloop besides those of its tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clauses {
    /// How many tasks.
    pub(crate) grain: Grain,
    /// `nogroup` was given.
    pub(crate) ungrouped: bool,
    /// The argument block holds reduction data after the bounds.
    pub(crate) reduces: bool,
}

/// Makes the tasks of one loop, and waits for them unless `nogroup` was given.
///
/// # Safety
/// - `request.data` points to the compiled code's argument block: first the two bounds (8 bytes
///   each), then, when `clauses.reduces`, the address of the reduction data.
pub(crate) unsafe fn run(
    frame: &Frame,
    request: &TaskRequest<'_>,
    space: &Space,
    clauses: Clauses,
) {
    if !clauses.ungrouped {
        open_group(frame);
    }
    if clauses.reduces {
        // SAFETY: - caller's contract.
        let data = unsafe { request.data.cast::<*mut usize>().add(2).read() };
        // SAFETY: - the compiled code's reduction data.
        unsafe { reduction::register(frame, data) };
    }
    let dealt = Dealt::new(space, clauses.grain, u64::from(frame.size));
    let bundles = u64::from(frame.size) * BUNDLES_PER_THREAD;
    // The creator must still be there, with the block, when a bundle runs; and blocks with copy
    // constructors are copied by the creator.
    let may_bundle =
        frame.size > 1 && !clauses.ungrouped && request.deferrable && request.copy.is_none();
    if may_bundle && dealt.tasks > bundles {
        deal_in_bundles(frame, request, &dealt, bundles);
    } else {
        dealt.each(0..dealt.tasks, |bounds| {
            create(frame, &TaskRequest { bounds: Some(bounds), ..*request })
        });
    }
    if !clauses.ungrouped {
        close_group(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(trips: u64, grain: Grain, threads: u64) -> Vec<u64> {
        let space = Space::signed(0, trips.cast_signed(), 1);
        let dealt = Dealt::new(&space, grain, threads);
        let mut sizes = Vec::new();
        dealt.each(0..dealt.tasks, |[start, end]| sizes.push(end - start));
        sizes
    }

    proptest! {
        #[test]
        fn shares_cover_the_loop(trips in 1_u64..5000, n in 1_u64..300, threads in 1_u64..65, kind in 0..4) {
            let grain = [Grain::Default, Grain::Tasks(n), Grain::Iterations(n), Grain::Strictly(n)][kind as usize];
            let sizes = sizes(trips, grain, threads);
            prop_assert_eq!(sizes.iter().sum::<u64>(), trips);
            let space = Space::signed(0, trips.cast_signed(), 1);
            let dealt = Dealt::new(&space, grain, threads);
            let mut parts = Vec::new();
            for (first, end) in [(0, dealt.tasks / 3), (dealt.tasks / 3, dealt.tasks)] {
                dealt.each(first..end, |[start, end]| parts.push(end - start));
            }
            prop_assert_eq!(&parts, &sizes, "dealt in parts");
            match grain {
                Grain::Tasks(n) => prop_assert_eq!(sizes.len() as u64, n.min(trips)),
                Grain::Iterations(n) if trips >= n => prop_assert!(sizes.iter().all(|size| (n..2 * n).contains(size))),
                Grain::Strictly(n) => prop_assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == n)),
                _ => {}
            }
        }
    }
}
