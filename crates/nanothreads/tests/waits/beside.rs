//! A thread that waits for one on the same processor gives it the processor, also in a team that
//! has one for each and is to stay awake. One test: the threads of others would be in the way.

use crate::cost::{ROUNDS, Waits, spent, work};
use engine::sizer::Fixed;
use nanothreads::{Team, Waiting, broadcast, join, scope};
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

fn wait_until(flag: &AtomicBool) {
    while !flag.load(Relaxed) {
        std::thread::yield_now();
    }
}

#[test]
fn a_wait_in_a_barrier_a_join_or_a_scope_hands_over_to_the_thread_that_shares_the_processor() {
    own_process!();
    assert!(nanothreads::builder().waiting(Waiting::Active).sizer(Fixed::new(2)).install().is_ok());
    let here = CpuSet::single(
        affinity(None).expect("this thread's mask").first().expect("it runs somewhere"),
    );
    // In each region anew: the thread that wakes a worker may place it, where there are many
    // processors.
    let sit = || set_affinity(None, &here).expect("a processor of the mask");
    broadcast(|_| sit());

    let barrier = Waits::default();
    Team::exact(2).expect("threads").run(|member| {
        sit();
        for _ in 0..ROUNDS {
            let begin = spent();
            if member.id() == 0 {
                member.barrier();
                barrier.add(begin);
            } else {
                work();
                member.barrier();
            }
        }
    });
    barrier.assert_few("barrier");

    let released = Waits::default();
    Team::exact(2).expect("threads").run(|member| {
        sit();
        for _ in 0..ROUNDS {
            let begin = spent();
            if member.id() == 1 {
                member.barrier();
                released.add(begin);
            } else {
                work();
                member.barrier();
            }
        }
    });
    released.assert_few("barrier, by the worker");

    let halves = Waits::default();
    for _ in 0..ROUNDS {
        let (began, begin) = (AtomicBool::new(false), AtomicU64::new(0));
        join(
            || {
                wait_until(&began);
                begin.store(spent().as_nanos() as u64, Relaxed);
            },
            || {
                sit();
                began.store(true, Relaxed);
                work();
            },
        );
        halves.add(Duration::from_nanos(begin.into_inner()));
    }
    halves.assert_few("join");

    let tasks = Waits::default();
    for _ in 0..ROUNDS {
        let began = AtomicBool::new(false);
        scope(|s| {
            s.spawn(|_| {
                sit();
                began.store(true, Relaxed);
                work();
            });
            wait_until(&began);
            let begin = spent();
            s.wait();
            tasks.add(begin);
        });
    }
    tasks.assert_few("scope");
}
