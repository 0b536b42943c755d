//! Which regions create tasks, as far as a team remembers its bodies.
//!
//! A member that is done must stay to help with tasks that others still create, which costs a
//! barrier before the join: two switches more of a team that shares a processor. Most regions never
//! create a task: one whose body ran [`QUIET`] times without any is *task-free* and skips that
//! barrier. When it does create a task later, the members that have left are called back for it
//! (`Team::call_back`): the member that created it may wait for it in the program's own code, and
//! so may all members that have not left. The body is never task-free again.
//!
//! # What is remembered
//! [`BODIES`] bodies, in sets of [`WAYS`] that each fill a cache line. A program that goes round
//! between a few bodies (those of a library's inner loop) must find all of them again, wherever its
//! compiler put them: in sets of one, two that met would each push the other out at every region,
//! and neither would ever be task-free. A body that is forgotten only has its barrier again, twice.

use std::cell::Cell;

/// Regions without a task that make a body task-free.
const QUIET: u8 = 2;
/// The count of a body that had tasks.
const NEVER: u8 = u8::MAX;
/// Bodies of a set.
const WAYS: usize = 4;
const SETS: usize = 16;
/// Bodies that are remembered.
#[cfg(test)]
const BODIES: usize = WAYS * SETS;

/// A body's address, and how often it ran without a task; 0: nothing.
type Known = (usize, u8);

/// See the module head. For the thread that forks.
#[derive(Debug, Default)]
pub(super) struct TaskFree([Set; SETS]);

/// Those in front came first, and give way first.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([Cell<Known>; WAYS]);

impl TaskFree {
    /// Bodies begin at multiples of 16; what is above that says little beside the rest of the
    /// address.
    #[inline]
    fn set(&self, body: usize) -> &Set {
        const SPREAD: usize = 0x9e37_79b9_7f4a_7c15_u64 as usize;
        &self.0[(body >> 4).wrapping_mul(SPREAD) >> (usize::BITS - SETS.ilog2())]
    }

    /// True when members may leave a region of `body` without a last barrier. Cost: a load or two
    /// of one line.
    #[inline]
    pub(super) fn is_task_free(&self, body: usize) -> bool {
        let known = self.set(body).find(body).map(|way| way.get().1);
        known.is_some_and(|count| (QUIET..NEVER).contains(&count))
    }

    /// A region of `body` is over.
    #[inline]
    pub(super) fn learn(&self, body: usize, had_tasks: bool) {
        let set = self.set(body);
        let way = set.find(body).unwrap_or_else(|| set.give_way());
        let (known, count) = way.get();
        let count = if known == body { count } else { 0 };
        let count = if had_tasks || count == NEVER { NEVER } else { (count + 1).min(QUIET) };
        if way.get() != (body, count) {
            way.set((body, count));
        }
    }
}

impl Set {
    #[inline]
    fn find(&self, body: usize) -> Option<&Cell<Known>> {
        self.0.iter().find(|way| way.get().0 == body)
    }

    /// A place for another body: a free one, or else that of the one that came first.
    #[cold]
    fn give_way(&self) -> &Cell<Known> {
        if let Some(free) = self.find(0) {
            return free;
        }
        for pair in self.0.windows(2) {
            pair[0].set(pair[1].get());
        }
        &self.0[WAYS - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a region of each body in turn, and says how many of them were task-free.
    fn round(task_free: &TaskFree, bodies: &[usize]) -> usize {
        bodies
            .iter()
            .filter(|body| {
                let is_free = task_free.is_task_free(**body);
                task_free.learn(**body, false);
                is_free
            })
            .count()
    }

    #[test]
    fn a_body_without_tasks_is_task_free_from_its_third_region_on() {
        let task_free = TaskFree::default();
        let rounds = [(); 4].map(|()| round(&task_free, &[0x5000]));
        assert_eq!(rounds, [0, 0, 1, 1]);
    }

    #[test]
    fn a_body_that_had_tasks_is_never_task_free_again() {
        let task_free = TaskFree::default();
        round(&task_free, &[0x5000; 3]);
        task_free.learn(0x5000, true);
        assert_eq!(round(&task_free, &[0x5000; 5]), 0);
    }

    #[test]
    fn bodies_that_take_turns_are_all_remembered_up_to_a_set_of_them() {
        let task_free = TaskFree::default();
        // Those that meet in one set.
        let meets = |body: &usize| std::ptr::eq(task_free.set(*body), task_free.set(0x5000));
        let bodies: Vec<usize> = (0x500..).map(|at| at << 4).filter(meets).take(WAYS + 1).collect();
        let found = || (0..5).map(|_| round(&task_free, &bodies[..WAYS])).last();
        assert_eq!(found(), Some(WAYS));
        // One more pushes out the one that came first.
        round(&task_free, &bodies[WAYS..]);
        assert!(!task_free.is_task_free(bodies[0]));
        assert!(bodies[1..WAYS].iter().all(|body| task_free.is_task_free(*body)));
    }

    /// The bodies of scikit-learn's HistGradientBoosting, where they were loaded once: in eight
    /// places of one each, four of them met.
    #[test]
    fn the_bodies_of_a_library_are_found_again() {
        let task_free = TaskFree::default();
        let bodies = [
            0x4000, 0x33_8c60, 0xc_c0e0, 0x7_37a0, 0x6_db70, 0x6_df60, 0xc_3de0, 0xc_3bf0,
            0x12_3090, 0xa_5bc0,
        ];
        let loaded = bodies.map(|body| 0x7f6b_1460_0000 + body);
        assert_eq!((0..3).map(|_| round(&task_free, &loaded)).last(), Some(loaded.len()));
    }

    #[test]
    fn addresses_in_a_row_are_spread_over_all_sets() {
        let task_free = TaskFree::default();
        // As the functions of one file, and as those of files far from each other.
        for step in [0x10, 0x40, 0x3f0, 0x1000, 0x1_0000, 0x10_0000] {
            let sets: std::collections::BTreeSet<_> = (0..BODIES)
                .map(|at| std::ptr::from_ref(task_free.set(0x7f00_0000_0000 + at * step)))
                .collect();
            assert!(sets.len() > SETS / 2, "{step:#x}: {} sets", sets.len());
        }
    }
}
