//! Models of the counts of tasks and of their dependences, on the shipped source.
//! `RUSTFLAGS="--cfg loom" cargo test --profile bench -p omp-shim --test loom_tasks`. Each ordering
//! that loom can judge has a twin in which it is lost.
#![cfg(loom)]

// Loom takes the files themselves: the crate is a library for C, and shows no Rust name.
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/task/counts.rs"]
mod counts;
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/task/depend.rs"]
mod depend;

use counts::TaskCounts;
use depend::{Access, Dependence, Node, Ordered, Table};
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::{Arc, HandCell};
use std::ops::Deref;
use std::ptr::NonNull;

/// What the dependences need of the engine.
mod engine {
    pub(crate) use engine::Addresses;
}

/// A reference to a task; here all of them live as long as the model.
pub(crate) struct Reference(NonNull<Explicit>);

impl Deref for Reference {
    type Target = Explicit;

    fn deref(&self) -> &Explicit {
        // SAFETY: - tasks of a model are kept to its end.
        unsafe { self.0.as_ref() }
    }
}

impl Ordered for Explicit {
    type Reference = Reference;

    fn node(&self) -> &Node<Self> {
        &self.node
    }

    fn refer(&self) -> Reference {
        Reference(NonNull::from(self))
    }

    fn refer_to_fresh(&self) -> Reference {
        self.refer()
    }
}

/// A task: its place in the order, and what it writes.
pub(crate) struct Explicit {
    node: Node<Self>,
    result: HandCell<u32>,
}

impl Explicit {
    fn new() -> Self {
        Self { node: Node::new(true, std::ptr::null_mut(), 0), result: HandCell::default() }
    }

    fn run(&self) {
        // SAFETY: - one thread runs the task; a reader comes after it.
        unsafe { self.result.with_mut(|result| *result += 1) };
    }

    fn result(&self) -> u32 {
        // SAFETY: - the reader comes after the task, which is what the models show.
        unsafe { self.result.with(|result| *result) }
    }
}

/// Tasks that are handed from thread to thread.
struct Tasks<const COUNT: usize>([Explicit; COUNT]);

// SAFETY: - as the crate's tasks: built to be run by any thread, each by one.
unsafe impl<const COUNT: usize> Sync for Tasks<COUNT> {}
// SAFETY: - as above.
unsafe impl<const COUNT: usize> Send for Tasks<COUNT> {}

impl<const COUNT: usize> Tasks<COUNT> {
    fn new() -> Arc<Self> {
        Arc::new(Self(std::array::from_fn(|_| Explicit::new())))
    }

    /// Runs task `number`, ends it, and runs what it lets go: the last one, which has seen the
    /// results of all.
    fn run(&self, number: usize) {
        self.0[number].run();
        self.0[number].node.finish(|next| self.run_last(next));
    }

    fn run_last(&self, next: NonNull<Explicit>) {
        let last = &self.0[COUNT - 1];
        assert_eq!(next, NonNull::from(last), "no other task waits");
        self.check_and_run_last();
    }

    fn check_and_run_last(&self) {
        assert!(
            self.0[..COUNT - 1].iter().all(|task| task.result() == 1),
            "a predecessor has not run"
        );
        self.0[COUNT - 1].run();
    }
}

const WRITE: [Dependence; 1] = [Dependence { address: 8, access: Access::Write }];
const READ: [Dependence; 1] = [Dependence { address: 8, access: Access::Read }];

/// One writer and a reader after it, which is created while the writer may run. The thread that
/// finds it ready runs it, once.
fn one_predecessor() {
    let (tasks, mut table) = (Tasks::<2>::new(), Table::default());
    assert!(depend::register(&mut table, &tasks.0[0], &WRITE), "it waits for no task");
    let other = {
        let tasks = Arc::clone(&tasks);
        thread::spawn(move || tasks.run(0))
    };
    if depend::register(&mut table, &tasks.0[1], &READ) {
        tasks.check_and_run_last();
    }
    other.join().unwrap();
    assert_eq!(tasks.0[1].result(), 1, "the reader runs, and runs once");
}

#[test]
fn a_task_that_is_created_while_its_predecessor_ends_runs_once_and_after_it() {
    explore(one_predecessor);
}

/// Two readers that run at once, and a writer after both, created meanwhile.
fn two_predecessors() {
    let (tasks, mut table) = (Tasks::<3>::new(), Table::default());
    assert!(
        depend::register(&mut table, &tasks.0[0], &READ)
            && depend::register(&mut table, &tasks.0[1], &READ)
    );
    let others = [0, 1].map(|number| {
        let tasks = Arc::clone(&tasks);
        thread::spawn(move || tasks.run(number))
    });
    if depend::register(&mut table, &tasks.0[2], &WRITE) {
        tasks.check_and_run_last();
    }
    others.into_iter().for_each(|other| other.join().unwrap());
    assert_eq!(tasks.0[2].result(), 1, "the writer runs, and runs once");
}

#[test]
fn a_task_runs_once_and_after_both_of_its_predecessors() {
    platform::model::explore_within(2, two_predecessors);
}

/// Two tasks wait for one: both stand in its list, the second added while it may be ending.
#[test]
fn a_thread_that_waits_when_a_task_ends_is_let_go() {
    explore(|| {
        let (tasks, mut table) = (Tasks::<3>::new(), Table::default());
        assert!(depend::register(&mut table, &tasks.0[0], &WRITE));
        let other = {
            let tasks = Arc::clone(&tasks);
            thread::spawn(move || {
                tasks.0[0].run();
                // SAFETY: - tasks of a model are kept to its end.
                tasks.0[0].node.finish(|next| unsafe { next.as_ref() }.run());
            })
        };
        for reader in &tasks.0[1..] {
            if depend::register(&mut table, reader, &READ) {
                reader.run();
            }
        }
        other.join().unwrap();
        assert!(
            tasks.0[1..].iter().all(|reader| reader.result() == 1),
            "a reader was forgotten, or ran twice"
        );
    });
}

/// A thread asks whether a task is done, and uses what it wrote.
fn ask() {
    let (tasks, mut table) = (Tasks::<1>::new(), Table::default());
    assert!(depend::register(&mut table, &tasks.0[0], &WRITE));
    let other = {
        let tasks = Arc::clone(&tasks);
        thread::spawn(move || {
            tasks.0[0].run();
            tasks.0[0].node.finish(|_| panic!("no task waits"));
        })
    };
    if depend::is_ready(&table, &READ) {
        assert_eq!(tasks.0[0].result(), 1);
    }
    other.join().unwrap();
}

#[test]
fn a_task_that_is_said_to_be_done_has_done_its_work() {
    explore(ask);
}

#[test]
fn the_orderings_of_dependences_are_needed() {
    let file = "src/task/depend.rs";
    is_needed(
        "a_task_that_is_said_to_be_done_has_done_its_work",
        file,
        &[("D1", RACE), ("D4", RACE)],
    );
    let created = "a_task_that_is_created_while_its_predecessor_ends_runs_once_and_after_it";
    is_needed(created, file, &[("D2 and D1", RACE), ("D3", RACE)]);
    is_needed("a_task_runs_once_and_after_both_of_its_predecessors", file, &[("D5", RACE)]);
}

/// A task that is let go before its predecessor has written.
#[test]
fn a_task_that_ends_before_its_work_is_caught() {
    is_refuted("a_task_that_ends_before_its_work_is_caught", "", || {
        let (tasks, mut table) = (Tasks::<2>::new(), Table::default());
        depend::register(&mut table, &tasks.0[0], &WRITE);
        let other = {
            let tasks = Arc::clone(&tasks);
            thread::spawn(move || {
                tasks.0[0].node.finish(|_| ());
                tasks.0[0].run();
            })
        };
        if depend::register(&mut table, &tasks.0[1], &READ) {
            tasks.check_and_run_last();
        }
        other.join().unwrap();
    });
}

/// The counts of two members, and what their tasks write.
#[derive(Default)]
struct Region {
    counts: TaskCounts,
    child: HandCell<u32>,
}

// SAFETY: - `child` is written by the task, and read by a thread that knows that all tasks
//           are complete.
unsafe impl Sync for Region {}
// SAFETY: - counts and a number.
unsafe impl Send for Region {}

/// Member 0 created a task; the other one (a member, or for completions a thread of no team) runs
/// it, and the child that it creates. Member 0 asks, by `asks`, whether all are complete.
fn parent_and_child(completes_as: Option<u32>, asks: fn(&TaskCounts) -> bool) {
    let region = Arc::new(Region::default());
    // SAFETY: - no other thread looks yet.
    unsafe { region.counts.make_room(2) };
    let mut is_first = false;
    region.counts.created(0, || is_first = true);
    assert!(is_first && !region.counts.all_complete(2));
    let other = {
        let region = Arc::clone(&region);
        thread::spawn(move || {
            region.counts.created(1, || unreachable!("the parent was the first task"));
            region.counts.complete(completes_as, 1);
            // SAFETY: - no thread reads before this is complete.
            unsafe { region.child.with_mut(|child| *child += 1) };
            region.counts.complete(completes_as, 1);
        })
    };
    if asks(&region.counts) {
        // SAFETY: - all tasks are complete, which is what the model shows.
        assert_eq!(unsafe { region.child.with(|child| *child) }, 1);
    }
    other.join().unwrap();
    assert!(region.counts.all_complete(2));
}

#[test]
fn tasks_are_complete_when_their_children_are() {
    explore(|| parent_and_child(Some(1), |counts| counts.all_complete(2)));
}

#[test]
fn tasks_that_other_threads_complete_are_complete_when_their_children_are() {
    explore(|| parent_and_child(None, |counts| counts.all_complete(2)));
}

#[test]
fn the_orderings_of_counts_are_needed() {
    let file = "src/task/counts.rs";
    is_needed("tasks_are_complete_when_their_children_are", file, &[("T1", RACE), ("T2", RACE)]);
    let elsewhere = "tasks_that_other_threads_complete_are_complete_when_their_children_are";
    is_needed(elsewhere, file, &[("T1 elsewhere", RACE), ("T2 elsewhere", RACE)]);
}

/// As [`TaskCounts::all_complete`], in the other order.
fn creations_first(counts: &TaskCounts) -> bool {
    let (_, created) = counts.sums(2);
    let (completed, _) = counts.sums(2);
    completed == created
}

#[test]
fn a_thread_that_sums_the_creations_first_is_caught() {
    let name = "a_thread_that_sums_the_creations_first_is_caught";
    is_refuted(name, "", || parent_and_child(Some(1), creations_first));
}
