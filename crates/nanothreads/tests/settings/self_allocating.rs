//! A program that finds out by itself how many threads it can run: the builder's word for it, and
//! teams of exact size, which keep theirs. One test, since settings belong to the process.

use nanothreads::{BuildError, Team, broadcast, builder};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[test]
fn teams_without_a_size_follow_what_was_found_out_and_exact_ones_do_not() {
    own_process!();
    // SAFETY: - no other thread of the process runs yet that could read the environment.
    unsafe { std::env::set_var("ASAT_MAX", "1") };
    assert_eq!(builder().adapt(false).self_allocating(true).install(), Ok(()));
    assert_eq!(builder().install(), Err(BuildError::InUse));
    let members = AtomicU32::new(0);
    broadcast(|member| {
        members.fetch_add(member.size, Relaxed);
    });
    assert_eq!(members.into_inner(), 1, "ASAT_MAX is the most");
    assert_eq!(engine::team_limit(), 1);
    let exact = AtomicU32::new(0);
    let team = Team::exact(3).expect("the system gives threads");
    team.run(|member| {
        member.barrier();
        exact.fetch_add(u32::try_from(member.size()).unwrap(), Relaxed);
    });
    assert_eq!(exact.into_inner(), 9);
}
