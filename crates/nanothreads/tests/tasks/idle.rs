//! Idle members: they take part as soon as there is work, and use no processor while there is none.
//! A process of its own, because its processor time is measured.

use crate::processor_time::processor_time;
use engine::sizer::Fixed;
use nanothreads::{Completion, scope};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn members_share_the_work_and_sleep_without_any() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(4)).install().is_ok());
    all_members_take_part_even_from_sleep();
    no_task_runs_while_all_wait_for_an_event();
}

fn all_members_take_part_even_from_sleep() {
    for _ in 0..50 {
        let seen = Mutex::new(HashSet::new());
        let arrived = AtomicUsize::new(0);
        scope(|s| {
            // So that the others fall asleep; if they have not yet, this round shows less.
            thread::sleep(Duration::from_millis(2));
            for _ in 0..4 {
                s.spawn(|_| {
                    // Without a suspension: the task keeps its member until all four members have
                    // one.
                    seen.lock().expect("no task panics").insert(thread::current().id());
                    arrived.fetch_add(1, Relaxed);
                    while arrived.load(Relaxed) < 4 {
                        thread::yield_now();
                    }
                });
            }
        });
        assert_eq!(seen.into_inner().expect("no task panics").len(), 4);
    }
}

fn no_task_runs_while_all_wait_for_an_event() {
    const IDLE: Duration = Duration::from_millis(400);
    let (send, receive) = mpsc::channel::<Completion>();
    let outside = thread::spawn(move || {
        let waiting: Vec<Completion> = receive.iter().take(10).collect();
        // The time that is measured, not a synchronisation: longer idling makes the test only
        // stricter.
        let (begin, used) = (Instant::now(), processor_time());
        thread::sleep(IDLE);
        let used = processor_time() - used;
        drop(waiting);
        (begin.elapsed(), used)
    });
    scope(|s| {
        for _ in 0..10 {
            let send = send.clone();
            s.spawn(move |s| {
                s.suspend(|completion| send.send(completion).expect("the other thread receives"))
            });
        }
    });
    let (idle, used) = outside.join().expect("it does not panic");
    assert!(used < idle / 20, "{used:?} of processor time in {idle:?} of waiting");
}
