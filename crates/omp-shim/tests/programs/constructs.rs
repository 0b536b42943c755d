//! The constructs: regions, loops, synchronisation, tasks, cancellation.

use crate::drop_in::{finish, must_say};
use crate::{Subject, run, take_turns};

#[test]
fn regions_have_the_size_and_the_threads_that_they_ask_for() {
    run("regions", &[]);
}

#[test]
fn regions_behave_the_same_bound_and_waiting_actively_or_passively() {
    run("regions", &[("OMP_PROC_BIND", "true")]);
    run("regions", &[("OMP_WAIT_POLICY", "active"), ("OMP_NUM_THREADS", "1")]);
    run("regions", &[("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "64")]);
}

#[test]
fn the_smallest_stacks_are_enough_and_thousands_of_regions_fit_into_each_other() {
    run("stacks", &[("OMP_STACKSIZE", "16K")]);
    run(
        "stacks",
        &[("OMP_STACKSIZE", "16K"), ("OMP_WAIT_POLICY", "passive"), ("OMP_PROC_BIND", "true")],
    );
}

#[test]
fn a_task_at_the_very_start_of_a_part_finds_the_others_at_theirs() {
    run("early_task", &[]);
    run("early_task", &[("OMP_WAIT_POLICY", "active")]);
}

#[test]
fn a_threads_errno_is_the_same_after_every_construct() {
    run("errno", &[]);
    run("errno", &[("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true")]);
    run("errno", &[("OMP_WAIT_POLICY", "passive"), ("OMP_NUM_THREADS", "64")]);
}

#[test]
fn two_threads_on_one_processor_take_no_more_turns_than_their_barriers_need() {
    take_turns("turns", &[]);
    take_turns("turns", &[("OMP_WAIT_POLICY", "active")]);
}

#[test]
fn two_threads_on_one_processor_wait_for_each_other_in_any_way_and_share_no_state() {
    take_turns("one_processor", &[]);
    take_turns("one_processor", &[("OMP_WAIT_POLICY", "active")]);
    take_turns("one_processor", &[("OMP_WAIT_POLICY", "passive")]);
    take_turns("one_processor", &[("OMP_PROC_BIND", "true"), ("OMP_CANCELLATION", "true")]);
}

#[test]
fn a_barrier_at_the_end_of_a_region_is_met_by_members_that_wait_elsewhere_and_ends_its_tasks() {
    run("tails", &[]);
    run("tails", &[("TAILS_TAKE_TURNS", "1")]);
    run("tails", &[("TAILS_TAKE_TURNS", "1"), ("OMP_CANCELLATION", "true")]);
    run("tails", &[("OMP_WAIT_POLICY", "passive"), ("OMP_CANCELLATION", "true")]);
    run("tails", &[("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true")]);
}

#[test]
fn loops_run_each_iteration_once() {
    run("loops", &[]);
}

#[test]
fn synchronisation_excludes_elects_separates_and_adds_up() {
    run("synchronisation", &[]);
}

#[test]
fn tasks_run_once_and_in_the_order_of_their_dependences() {
    run("tasks", &[]);
}

#[test]
fn a_thread_that_waits_for_tasks_that_helpers_run_is_told_in_time() {
    run("helpers", &[]);
    run("helpers", &[("OMP_WAIT_POLICY", "passive")]);
}

#[test]
fn a_member_that_is_done_comes_back_for_the_first_task_of_a_body_that_had_none() {
    run("surprises", &[]);
    run("surprises", &[("OMP_WAIT_POLICY", "passive")]);
    run("surprises", &[("OMP_WAIT_POLICY", "active"), ("OMP_PROC_BIND", "true")]);
}

#[test]
fn tasks_run_in_the_order_of_their_priorities() {
    run("priorities", &[("OMP_MAX_TASK_PRIORITY", "5")]);
}

#[test]
fn a_sleeping_thread_is_woken_for_every_task() {
    run("asleep", &[]);
    run("asleep", &[("OMP_WAIT_POLICY", "passive")]);
}

#[test]
fn cancelled_constructs_end_early_and_the_next_ones_are_whole() {
    run("cancellation", &[("OMP_CANCELLATION", "true")]);
}

#[test]
fn a_member_that_sleeps_at_a_barrier_is_woken_by_cancel_parallel() {
    let Some(subject) = Subject::new("cancelled_asleep", &[]) else { return };
    // An active thread would not sleep.
    for policy in [None, Some("passive")] {
        let mut command = subject.command();
        command
            .env("OMP_CANCELLATION", "true")
            .envs(policy.map(|policy| ("OMP_WAIT_POLICY", policy)));
        let output = finish(command);
        if output.status.code() == Some(3) {
            platform::skip!("this kernel does not say in which call a thread sleeps");
            break;
        }
        must_say(&output, "ok\n", &format!("{policy:?}"));
    }
}

#[test]
fn programs_of_old_compilers_run() {
    run("old", &[]);
}

#[test]
fn allocators_leagues_and_target_regions_work_on_the_host() {
    run("memory", &[]);
}
