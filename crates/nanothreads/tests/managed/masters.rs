//! Several masters of one program share what a manager grants (D6).

use crate::script::{eventually, with_script};
use nanothreads::Team;
use platform::affinity::CpuId;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, TryRecvError};
use std::thread;
use std::time::Duration;

/// The size of the next region that may have all that there is.
fn size() -> usize {
    Team::available().map(|_| ()).len()
}

/// The sizes of the regions of `masters` masters that are out at once.
fn sizes_at_once(masters: usize) -> Vec<usize> {
    let (begin, are_out) = (Barrier::new(masters), Barrier::new(masters));
    thread::scope(|scope| {
        let begin = &begin;
        let are_out = &are_out;
        let master = |_| {
            scope.spawn(move || {
                // From here on it is one.
                size();
                begin.wait();
                let sizes = Team::available().map(|member| {
                    if member.id() == 0 {
                        are_out.wait();
                    }
                    member.size()
                });
                sizes[0]
            })
        };
        let masters: Vec<_> = (0..masters).map(master).collect();
        masters.into_iter().map(|master| master.join().expect("a master ends")).collect()
    })
}

/// Masters that waited long for each other on a busy machine were seen asleep, and hold nothing
/// then: tried until they were not.
fn they_share(masters: usize, processors: usize) {
    let expected = processors.max(masters);
    eventually(&format!("{masters} masters share {processors}"), || {
        let sizes = sizes_at_once(masters);
        assert!(sizes.iter().all(|size| (1..=processors.max(1)).contains(size)), "{sizes:?}");
        sizes.iter().sum::<usize>() == expected
    });
}

#[test]
fn masters_that_fork_at_once_share_the_grant() {
    own_process!();
    with_script(|script| {
        let [a, b] = script.cpus;
        for masters in [2, 3] {
            script.grant(&[a], false);
            they_share(masters, 1);
            script.grant(&[a, b], false);
            they_share(masters, 2);
        }
        let all: Vec<CpuId> = script.whole.iter().collect();
        script.grant(&all, false);
        they_share(3, all.len());
    });
}

#[test]
fn a_master_that_sleeps_leaves_its_processor_to_the_others() {
    own_process!();
    with_script(|script| {
        let all = script.cpus.len();
        eventually("this one has forked", || size() == all);
        thread::scope(|scope| {
            scope.spawn(|| {
                eventually("the other one has all while this one waits for it", || size() == all)
            });
        });
    });
}

#[test]
fn a_master_that_computes_outside_regions_keeps_its_processor() {
    own_process!();
    const FORKS: usize = 2_000;
    with_script(|_| {
        eventually("this one has forked", || size() == 2);
        let forks = AtomicUsize::new(0);
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                let alone = (0..FORKS).filter(|_| {
                    forks.fetch_add(1, Relaxed);
                    size() == 1
                });
                alone.count()
            });
            while forks.load(Relaxed) < FORKS {
                std::hint::spin_loop();
            }
            let alone = other.join().expect("it ends");
            // Where the machine has no time for this one it is taken for one that sleeps.
            assert!(alone > FORKS / 2, "{alone} of {FORKS} regions had one thread");
        });
        eventually("it is alone again", || size() == 2);
    });
}

#[test]
fn the_request_of_several_masters_that_sleep_falls_and_rises_at_the_next_fork_of_any() {
    own_process!();
    for is_dedicated in [true, false] {
        with_script(move |script| {
            let cpus = script.cpus;
            script.grant(&cpus, is_dedicated);
            eventually("this one has forked", || size() == 2);
            thread::scope(|scope| {
                // The other one ends when the sender is gone.
                let (go, wait) = mpsc::channel();
                let (falls_asleep, hear) = mpsc::channel();
                scope.spawn(move || {
                    let pair = Team::exact(2).expect("threads");
                    pair.run(|_| ());
                    falls_asleep.send(()).expect("it is waited for");
                    let may_fork: Result<(), _> = wait.recv();
                    while may_fork.is_ok() && wait.try_recv() == Err(TryRecvError::Empty) {
                        pair.run(|_| ());
                    }
                });
                hear.recv().expect("it has forked");
                let requested = || script.areas.request().requested;
                eventually("the request falls", || {
                    // A thread that looked all the time would be seen to run.
                    thread::sleep(Duration::from_millis(5));
                    requested() <= 1
                });
                go.send(()).expect("it waits");
                eventually("it rises", || requested() >= 2);
            });
        });
    }
}
