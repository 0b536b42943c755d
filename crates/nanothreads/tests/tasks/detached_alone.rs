//! Detached tasks of a program that has one processor.

use nanothreads::{builder, spawn};
use std::thread;

#[test]
fn a_program_with_one_processor_runs_detached_tasks_beside_itself() {
    own_process!();
    builder().threads(1).thread_names("alone").install().expect("first");
    let tasks: Vec<_> =
        (0..200).map(|i| spawn(move || (i, thread::current().name().map(String::from)))).collect();
    // Not by `wait`, which may run them here.
    while !tasks.iter().all(nanothreads::Spawned::is_finished) {
        thread::yield_now();
    }
    for (i, task) in tasks.into_iter().enumerate() {
        assert_eq!(task.wait(), (i, Some("nanos-spawn".into())));
    }
}
