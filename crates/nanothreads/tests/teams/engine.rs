//! Teams of `engine` that are kept, and run after others were reserved, or elsewhere on their
//! thread. In a forked child: `forks::teams`.

use engine::{Dispatch, Member, Team};
use nanothreads::{broadcast, builder, par_for};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn configure() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| assert_eq!(builder().threads(6).install(), Ok(())));
}

/// Runs `body` on the members of `team`.
fn run<F: Fn(Member) + Sync>(team: &Team, body: F) {
    /// # Safety
    /// - `data` points to a live `F`.
    unsafe fn call<F: Fn(Member) + Sync>(data: *const (), member: Member) {
        // SAFETY: - `run` passes its own closure, which outlives the join.
        let body = unsafe { &*data.cast::<F>() };
        if catch_unwind(AssertUnwindSafe(|| body(member))).is_err() {
            std::process::abort();
        }
    }
    // SAFETY: - `call::<F>` takes that closure; `F: Sync`; it does not unwind.
    unsafe { team.run(call::<F>, ptr::from_ref(&body).cast()) };
}

fn assert_runs(team: &Team) {
    let seen: Vec<AtomicUsize> = (0..team.size()).map(|_| AtomicUsize::new(0)).collect();
    run(team, |member| {
        assert_eq!(member.size as usize, seen.len());
        seen[member.id as usize].fetch_add(1, Relaxed);
    });
    assert!(seen.iter().all(|seen| seen.load(Relaxed) == 1), "{seen:?}");
}

/// What masters inside a region do with what is lent to them.
fn fork_inside() {
    for _ in 0..5 {
        assert_eq!(par_for(0..100).reduce(0, |i| i, |a, b| a + b), 4_950);
        broadcast(|_| ());
    }
}

#[test]
fn a_team_that_was_reserved_before_a_smaller_one_shares_no_member_with_masters_inside() {
    own_process!();
    configure();
    for dispatch in [Dispatch::Lines, Dispatch::Broadcast] {
        for _ in 0..100 {
            let large = Team::reserve(6).dispatched(dispatch);
            // What this one does not use is lent to the members' own regions.
            let small = Team::reserve(2).dispatched(dispatch);
            run(&large, |_| fork_inside());
            run(&small, |_| fork_inside());
            run(&large, |_| fork_inside());
        }
    }
}

#[test]
fn a_team_runs_deeper_and_further_out_than_it_was_reserved() {
    own_process!();
    configure();
    let outer = Team::reserve(3);
    for _ in 0..20 {
        let kept = nanothreads::Team::exact(2).expect("threads").install(|| {
            assert_runs(&outer);
            let inner = Team::reserve(4);
            assert_runs(&outer);
            assert_runs(&inner);
            inner
        });
        assert_runs(&kept);
        assert_runs(&outer);
    }
}

#[test]
fn a_team_that_a_virtual_processor_keeps_from_one_region_is_made_ready_anew_in_the_next() {
    own_process!();
    thread_local! {
        static KEPT: RefCell<Option<Team>> = const { RefCell::new(None) };
    }
    configure();
    let outer = Team::reserve(3);
    for round in 0..50 {
        run(&outer, |member| {
            // Exact: in some rounds of threads that are lent, in others of others.
            let kept = KEPT.take().unwrap_or_else(|| Team::reserve(2));
            assert_runs(&kept);
            KEPT.set((round % 7 != 6).then_some(kept));
            if member.id == 1 && round % 3 == 0 {
                fork_inside();
            }
        });
        // The same workers, for other masters.
        run(&Team::reserve(6), |_| fork_inside());
    }
}

#[test]
fn a_team_that_cannot_be_had_again_is_refused_before_it_begins() {
    own_process!();
    configure();
    let team = Team::reserve_available(4);
    let begun = AtomicUsize::new(0);
    // On a thread with no processors left for it.
    nanothreads::Team::exact(2).expect("threads").install(|| {
        let outcome =
            catch_unwind(AssertUnwindSafe(|| run(&team, |_| _ = begun.fetch_add(1, Relaxed))));
        let message = outcome.expect_err("refused").downcast::<String>().expect("a message");
        assert!(
            message.contains("a team of 4 threads") && message.contains("reserve it again"),
            "{message}"
        );
    });
    assert_eq!(begun.load(Relaxed), 0);
    assert_runs(&team);
}
