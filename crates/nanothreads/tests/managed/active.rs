//! Threads that are told to stay hot give what they do not use back all the same, where a manager
//! says that others want it.
#![expect(clippy::unwrap_used, reason = "a step of a test that fails is a failed test")]

use crate::processor_time::processor_time;
use crate::script::{self, Script, Setup, eventually, with_script_as};
use arena::layout::VpState;
use nanothreads::{Team, Waiting};
use platform::affinity::CpuSet;
use std::thread;
use std::time::{Duration, Instant};

fn with_an_active_script(test: impl FnOnce(&mut Script) + Send + 'static) {
    with_script_as(Setup { waiting: Waiting::Active, ..Setup::default() }, test);
}

fn is_parked(script: &Script) -> bool {
    script.areas.vps().any(|worker| worker.index == 1 && worker.state == VpState::Parked)
}

/// A region of two, which ends what was before; its second thread spins then.
fn region(script: &Script) {
    Team::exact(2).unwrap().run(|_| ());
    eventually("the second thread is awake", || !is_parked(script));
}

#[test]
fn a_hot_thread_between_regions_gives_its_processor_back_where_others_want_it() {
    own_process!();
    with_an_active_script(|script| {
        let [a, b] = script.cpus;
        region(script);
        script.grant(&[a, b], false);
        eventually("it gives its processor back", || script.areas.released().contains(b));
        eventually("it sleeps", || is_parked(script));
        assert!(!script.areas.released().contains(a), "the master's is not given back");
        // As a manager answers.
        script.grant(&[a], false);
        let released = Team::exact(2).unwrap().map(|_| script.areas.released());
        assert!(released.iter().all(CpuSet::is_empty), "the fork wants it again: {released:?}");
    });
}

#[test]
fn a_hot_thread_keeps_its_processor_where_no_other_thread_wants_it() {
    own_process!();
    with_an_active_script(|script| {
        region(script);
        let (begin, used) = (Instant::now(), processor_time());
        // The master sleeps: it is the other thread that uses processor time.
        while processor_time() - used < Duration::from_millis(20) {
            assert!(begin.elapsed() < script::PATIENCE, "the worker sleeps");
            thread::sleep(Duration::from_millis(1));
        }
        assert!(script.areas.released().is_empty() && !is_parked(script));
        assert_eq!(script.areas.request().requested, 2);
    });
}

#[test]
fn a_hot_thread_that_waits_inside_a_region_stays_hot() {
    own_process!();
    with_an_active_script(|script| {
        let [a, b] = script.cpus;
        script.grant(&[a, b], false);
        Team::exact(2).unwrap().run(|member| {
            if member.id() == 0 {
                let (begin, used) = (Instant::now(), processor_time());
                while processor_time() - used < Duration::from_millis(20) {
                    assert!(begin.elapsed() < script::PATIENCE, "the other one sleeps");
                    thread::sleep(Duration::from_millis(1));
                }
                assert!(script.areas.released().is_empty(), "it is at work");
            }
            member.barrier();
        });
    });
}
