//! What a program asks of its manager between its regions: less in a serial phase, and all again at
//! the next region.

use super::seats::threads_of;
use crate::script::{Script, eventually, with_script};
use nanothreads::Team;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[test]
fn a_request_falls_in_a_serial_phase_and_rises_at_the_next_region() {
    own_process!();
    with_script(|script| {
        let [a, b] = script.cpus;
        threads_of(2);
        eventually("the request falls", || script.areas.request().requested == 1);
        assert!(script.areas.released().is_empty(), "no program wants it: it is not given back");
        // As a manager answers, and the other way round while the next fork waits for it.
        script.grant(&[a], true);
        let team = Team::at_most(2).unwrap();
        let asks = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let manager = scope.spawn(|| {
                eventually("the request rises", || script.areas.request().requested == 2);
                asks.store(true, Relaxed);
                script.grant(&[a, b], true);
            });
            eventually("a region has both again", || team.map(|member| member.size()).len() == 2);
            manager.join().unwrap();
        });
        assert!(asks.into_inner());
    });
}

#[test]
fn a_request_falls_in_a_serial_phase_where_others_want_processors_too_and_again_after_a_region_of_one_thread()
 {
    own_process!();
    with_script(|script| {
        let [a, _] = script.cpus;
        threads_of(2);
        script.grant(&[a], false);
        threads_of(2);
        eventually("the request falls", || script.areas.request().requested == 1);
        eventually("a region of one thread asks for all again", || {
            let threads = Team::at_most(2).unwrap().map(|_| ()).len();
            assert_eq!(threads, 1);
            script.areas.request().requested == 2
        });
        eventually("it falls again", || script.areas.request().requested == 1);
    });
}

#[test]
fn a_request_falls_in_a_serial_phase_of_a_program_whose_threads_do_not_spin() {
    own_process!();
    with_script(|script| {
        // More threads than processors: they sleep at once, and come back by the clock to say so.
        let team = Team::exact(3).unwrap();
        let seen_inside = |script: &Script| {
            team.map(|member| {
                let requested = script.areas.request().requested;
                member.barrier();
                requested
            })
        };
        // One that comes back by the clock in this moment lowers, finds its part, and raises the
        // request again.
        eventually("a region that has asked", || seen_inside(script) == [3; 3]);
        eventually("the request falls", || script.areas.request().requested == 1);
        eventually("it rises at a region", || seen_inside(script) == [3; 3]);
    });
}
