//! Storage of threads in a process that is forked while other threads use it (D13). One test: what
//! it forks would otherwise be a copy of a process in which another test is at work.

use crate::forked::{assert_right, forked, leave};
use nanothreads::{PerThread, Team, par_for};
use std::sync::Barrier;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Sums in storage of its own.
fn sums() -> bool {
    let sums = PerThread::new(|| 0);
    par_for(0..100).run(|i| sums.with(|own| *own += i));
    sums.into_values().sum::<usize>() == 4950
}

#[test]
fn a_child_has_storage_of_its_own_and_none_that_another_thread_was_writing() {
    own_process!();
    let team = Team::exact(2).expect("threads");
    for takes in [false, true] {
        let (pid, met) = (AtomicI32::new(-1), Barrier::new(2));
        let mut values = PerThread::new(String::new);
        team.run(|member| {
            if member.id() == 0 {
                values.with(|own| own.push('a'));
                met.wait();
                pid.store(forked(), Relaxed);
                if pid.load(Relaxed) != 0 {
                    met.wait();
                }
            } else {
                values.with(|own| {
                    met.wait();
                    met.wait();
                    own.push('b');
                });
            }
        });
        let pid = pid.into_inner();
        if pid == 0 {
            // In this copy the other member uses its value for ever.
            team.run(|member| {
                values.with(|own| own.push(if member.id() == 0 { 'c' } else { 'd' }))
            });
            let mut found: Vec<_> = values.values_mut().map(|own| own.clone()).collect();
            found.sort();
            if takes {
                found.retain(|own| own != "d");
                found.extend(values.into_values().filter(|own| own == "d"));
            } else {
                drop(values);
            }
            leave(found == ["ac", "d"] && sums());
        }
        let mut found: Vec<_> = values.into_values().collect();
        found.sort();
        assert_eq!(found, ["a", "b"]);
        assert_right(pid, "has its thread's values, and those of its own threads");
    }
}
