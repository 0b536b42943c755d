//! A process that is forked beside detached tasks: its own run, its parent's cannot be asked for.

use crate::forked::assert_in_child;
use engine::sizer::Fixed;
use nanothreads::{Spawned, spawn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;

#[test]
fn a_child_has_detached_tasks_of_its_own_and_refuses_its_parents() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(3)).install().is_ok());
    for _ in 0..20 {
        let ended = spawn(|| 1);
        while !ended.is_finished() {
            std::thread::yield_now();
        }
        let (go, gone) = channel::<()>();
        let (began, begin) = channel();
        let running = spawn(move || {
            began.send(()).expect("the test waits");
            gone.recv().is_err()
        });
        begin.recv().expect("it begins");
        let waiting: Vec<_> = (0..50).map(|i| spawn(move || i)).collect();
        let refused = spawn(|| 3);
        let mut handles = Some((running, refused));
        assert_in_child("runs its own tasks, and no one else's", || {
            let own: Vec<_> = (0..20).map(|i| spawn(move || i)).collect();
            while !own.iter().all(Spawned::is_finished) {
                std::thread::yield_now();
            }
            let sum: usize = own.into_iter().map(Spawned::wait).sum();
            let (running, refused) = handles.take().expect("once");
            running.canceller().cancel();
            drop(running);
            let told = catch_unwind(AssertUnwindSafe(|| refused.wait())).expect_err("the parent's");
            let told = told.downcast_ref::<&str>().is_some_and(|text| text.contains("parent's"));
            sum == 190 && told
        });
        drop(go);
        let (running, refused) = handles.take().expect("the parent's");
        assert!(running.wait() && refused.wait() == 3 && ended.wait() == 1);
        assert_eq!(waiting.into_iter().map(Spawned::wait).sum::<usize>(), 1225);
    }
}
