//! `taskloop`: the iterations of a loop, dealt out to tasks.

use super::{Request, close_group, create, open_group, reduction};
use crate::frame::Frame;
use crate::schedule::Space;

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

/// The sizes of the tasks: the first `larger` have one iteration more than `size`; `Strictly` counts the other way.
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

/// The clauses of a taskloop besides those of its tasks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clauses {
    /// How many tasks.
    pub(crate) grain: Grain,
    /// `nogroup` was given.
    pub(crate) ungrouped: bool,
    /// The argument block holds reduction data behind the bounds.
    pub(crate) reduces: bool,
}

/// Makes the tasks of one loop, and waits for them unless `nogroup` was given.
///
/// # Safety
/// - `request.data` points to the compiled code's argument block: first the two bounds (8 bytes each), then, when
///   `clauses.reduces`, the address of the reduction data.
pub(crate) unsafe fn run(frame: &Frame, request: &Request<'_>, space: &Space, clauses: Clauses) {
    if !clauses.ungrouped {
        open_group(frame);
    }
    if clauses.reduces {
        // SAFETY: - caller's contract.
        let data = unsafe { request.data.cast::<*mut usize>().add(2).read() };
        // SAFETY: - the compiled code's reduction data.
        unsafe { reduction::register(frame, data) };
    }
    let (tasks, size, larger) = shares(space.trips, clauses.grain, u64::from(frame.size));
    let mut from = 0;
    for number in 0..tasks {
        let to = (from + size + u64::from(number < larger)).min(space.trips);
        if from == to {
            break;
        }
        let (start, end) = space.bounds(&(from..to));
        create(frame, &Request { bounds: Some([start, end]), ..*request });
        from = to;
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
        let (tasks, size, larger) = shares(trips, grain, threads);
        let mut left = trips;
        (0..tasks)
            .map(|number| {
                let share = (size + u64::from(number < larger)).min(left);
                left -= share;
                share
            })
            .collect()
    }

    proptest! {
        #[test]
        fn shares_cover_the_loop(trips in 1_u64..5000, n in 1_u64..300, threads in 1_u64..65, kind in 0..4) {
            let grain = [Grain::Default, Grain::Tasks(n), Grain::Iterations(n), Grain::Strictly(n)][kind as usize];
            let sizes = sizes(trips, grain, threads);
            prop_assert_eq!(sizes.iter().sum::<u64>(), trips);
            match grain {
                Grain::Tasks(n) => prop_assert_eq!(sizes.len() as u64, n.min(trips)),
                Grain::Iterations(n) if trips >= n => prop_assert!(sizes.iter().all(|size| (n..2 * n).contains(size))),
                Grain::Strictly(n) => prop_assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == n)),
                _ => {}
            }
        }
    }
}
