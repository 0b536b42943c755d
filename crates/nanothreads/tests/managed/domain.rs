//! What a program does in a domain: an idle processor passes itself to another program, and one
//! that comes is used before a grant names it. The script is the manager, and the other programs.
#![expect(
    clippy::unwrap_used,
    reason = "a step of a test that fails is a failed test, in the helpers, too"
)]

use crate::script::{Script, Setup, eventually, mask_of, with_script_as};
use arena::domain::MemberLine;
use nanothreads::Team;
use platform::affinity::{CpuId, CpuSet, Tid, current_tid};
use std::time::{Duration, Instant};

/// The line of another program.
const OTHER: usize = 1;

fn with_a_domain(test: impl FnOnce(&mut Script) + Send + 'static) {
    with_script_as(Setup { domain: true, ..Setup::default() }, |script| {
        for line in script.domain.as_ref().unwrap().members() {
            line.clear();
        }
        test(script);
    });
}

fn line(script: &Script, index: usize) -> &MemberLine {
    &script.domain.as_ref().unwrap().members()[index]
}

/// As the manager books a pass: the grant first.
fn land(script: &mut Script, index: usize, cpu: CpuId, cpus: &[CpuId]) {
    script.grant(cpus, false);
    line(script, index).land(cpu);
}

/// The size of the next region that may have all that there is.
fn size() -> usize {
    Team::available().map(|_| ()).len()
}

/// Looks for a moment; a region that came in between may have ended what is looked for.
fn is_soon(look: impl Fn() -> bool) -> bool {
    let begin = Instant::now();
    while !look() && begin.elapsed() < Duration::from_millis(50) {
        std::thread::yield_now();
    }
    look()
}

/// The second thread passes `cpu` to the other program, which wants one, and the manager is told.
fn it_passes(script: &Script, cpu: CpuId) {
    let other = line(script, OTHER);
    eventually("it passes its processor", || {
        other.clear();
        other.offer(2, 1, 1);
        Team::exact(2).unwrap().run(|_| ());
        is_soon(|| other.coming() == [cpu] && script.areas.released().contains(cpu))
    });
}

/// The second thread at the next forks, until it is on `cpu`.
fn second_thread_comes_to(cpu: CpuId) -> Tid {
    let mut second = None;
    eventually(&format!("the second thread is on {cpu}"), || {
        let tid = Team::exact(2).unwrap().map(|_| current_tid())[1];
        second = Some(tid);
        mask_of(tid) == CpuSet::single(cpu)
    });
    second.unwrap()
}

#[test]
fn an_idle_processor_passes_itself_to_the_program_that_wants_one_and_is_not_used_while_it_is_in_the_air()
 {
    own_process!();
    with_a_domain(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(b);
        script.grant(&[a, b], false);
        it_passes(script, b);
        assert_eq!(line(script, OTHER).wants(), 0);
        // The books say two, and the other program runs there.
        assert_eq!(size(), 1, "what was passed is not used");
        assert!(script.areas.released().is_empty(), "it wants it again");
        second_thread_comes_to_all(&CpuSet::single(a));
        land(script, OTHER, b, &[a]);
        assert_eq!(size(), 1);
        script.grant(&[a, b], true);
        second_thread_comes_to(b);
        assert_eq!(size(), 2);
    });
}

/// As [`second_thread_comes_to`], of one that shares.
fn second_thread_comes_to_all(cpus: &CpuSet) {
    eventually(&format!("the second thread is on {cpus}"), || {
        let tid = Team::exact(2).unwrap().map(|_| current_tid())[1];
        mask_of(tid) == *cpus
    });
}

#[test]
fn where_no_program_of_the_domain_wants_a_processor_it_is_given_back_to_the_manager() {
    own_process!();
    with_a_domain(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(b);
        script.grant(&[a, b], false);
        eventually("it gives its processor back", || {
            Team::exact(2).unwrap().run(|_| ());
            is_soon(|| script.areas.released().contains(b))
        });
        assert!(line(script, OTHER).coming().is_empty());
        assert_eq!(size(), 2, "the grant stands until the manager says something else");
    });
}

#[test]
fn a_pass_that_was_not_believed_leaves_the_giver_what_it_had() {
    own_process!();
    with_a_domain(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(b);
        script.grant(&[a, b], false);
        it_passes(script, b);
        assert_eq!(size(), 1);
        line(script, OTHER).land(b);
        assert_eq!(size(), 2);
        second_thread_comes_to(b);
    });
}

#[test]
fn a_processor_that_comes_is_used_before_the_grant_names_it_and_after() {
    own_process!();
    with_a_domain(|script| {
        let [a, b] = script.cpus;
        let second = second_thread_comes_to(b);
        script.grant(&[a], false);
        assert_eq!(size(), 1);
        line(script, 0).offer(1, 1, 1);
        assert!(line(script, 0).give(b));
        assert_eq!(size(), 2);
        assert_eq!(second_thread_comes_to(b), second, "thread 1 of a team is the same thread (D3)");
        script.grant(&[a, b], false);
        assert_eq!(size(), 2, "granted and in the air is one processor");
        line(script, 0).land(b);
        assert_eq!(size(), 2);
        second_thread_comes_to(b);
    });
}

#[test]
fn a_processor_that_came_and_was_not_believed_is_left() {
    own_process!();
    with_a_domain(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(b);
        script.grant(&[a], false);
        line(script, 0).offer(1, 1, 1);
        assert!(line(script, 0).give(b));
        second_thread_comes_to(b);
        line(script, 0).land(b);
        assert_eq!(size(), 1);
        second_thread_comes_to_all(&CpuSet::single(a));
    });
}

#[test]
fn a_program_that_another_manager_took_in_passes_and_receives_in_its_domain() {
    own_process!();
    with_a_domain(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(b);
        script.grant(&[a, b], false);
        it_passes(script, b);
        script.is_followed_by_another();
        // What was in the air is the new manager's to say.
        eventually("the new grant is all that counts", || size() == 2);
        second_thread_comes_to(b);
        script.grant(&[a], false);
        assert_eq!(size(), 1);
        line(script, 0).offer(1, 1, 1);
        assert!(line(script, 0).give(b));
        eventually("what comes in the new area is used", || size() == 2);
        second_thread_comes_to(b);
        script.grant(&[a, b], false);
        line(script, 0).land(b);
        it_passes(script, b);
        assert_eq!(size(), 1);
    });
}

#[test]
fn a_manager_that_does_not_let_the_program_in_at_once_is_asked_again() {
    own_process!();
    with_a_domain(|script| {
        let [a, b] = script.cpus;
        second_thread_comes_to(b);
        script.is_followed_by_a_slow_one(2);
        eventually("the new grant is all that counts", || size() == 2);
        script.grant(&[a], false);
        line(script, 0).offer(1, 1, 1);
        assert!(line(script, 0).give(b));
        eventually("what comes in the new area is used", || size() == 2);
        script.grant(&[a, b], false);
        line(script, 0).land(b);
    });
}
