//! Members that end before what others wait for: reported, with which one and where, in the place
//! of a wait for ever.

use nanothreads::{Team, TeamMember};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What the master gets of a region that is stuck.
fn report_of(size: usize, body: impl Fn(&TeamMember<'_>) + Sync) -> String {
    let team = Team::exact(size).expect("threads");
    // So that there is a meeting that was used before.
    team.run(|member| member.barrier());
    let caught = catch_unwind(AssertUnwindSafe(|| team.run(&body)));
    let report = *caught.expect_err("it cannot end").downcast::<String>().expect("a text");
    // The threads are there for the next one.
    assert_eq!(team.map(|member| member.id()).len(), size);
    team.run(|member| member.barrier());
    report
}

#[test]
fn a_member_that_leaves_before_a_barrier_is_reported_with_its_name_and_the_barriers_place() {
    own_process!();
    for size in [2, 3, 5, 12] {
        for leaver in [0, 1, size - 1] {
            for before in [0, 1, 4] {
                let report = report_of(size, |member| {
                    (0..before).for_each(|_| member.barrier());
                    if member.id() != leaver {
                        member.barrier();
                    }
                });
                let named = format!("for member {leaver} (thread `");
                assert!(report.contains(&named), "{report}");
                assert!(report.contains(&format!("after {before} of them")), "{report}");
                assert!(report.contains("departures.rs:"), "{report}");
                assert!(report.contains(&format!("team of {size}")), "{report}");
            }
        }
    }
}

#[test]
fn members_that_sleep_at_the_barrier_are_woken_when_the_other_one_leaves() {
    own_process!();
    for _ in 0..3 {
        let report = report_of(2, |member| {
            if member.id() == 1 {
                // Longer than any thread spins.
                std::thread::sleep(std::time::Duration::from_millis(30));
            } else {
                member.barrier();
            }
        });
        assert!(report.contains("member 0 of a team of 2 waits at a barrier"), "{report}");
    }
}

#[test]
fn a_member_that_leaves_before_its_section_is_reported() {
    own_process!();
    let report = report_of(3, |member| {
        member.ordered(|| ());
        if member.id() != 1 {
            member.ordered(|| ());
        }
    });
    assert!(report.contains("its turn of ordered"), "{report}");
    assert!(report.contains("for member 1 (thread `"), "{report}");
}

#[test]
fn a_member_that_leaves_before_a_single_for_all_or_a_step_is_reported() {
    own_process!();
    let report = report_of(3, |member| {
        if member.id() != 2 {
            member.single_for_all(|| 1);
        }
    });
    assert!(report.contains("single_for_all") && report.contains("for member 2"), "{report}");
    let (mut data, mut other) = ([0; 10], [0; 10]);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        Team::exact(3).expect("threads").run_on_two(&mut data, &mut other, |member, buffers| {
            (0..3 + member.id() % 2).for_each(|_| buffers.step(|_, _, _| ()));
        });
    }));
    let report = *caught.expect_err("it cannot end").downcast::<String>().expect("a text");
    assert!(report.contains("the end of a step"), "{report}");
    assert!(report.contains("after 3 of them"), "{report}");
}

#[test]
fn members_that_catch_the_report_and_go_on_leave_nothing_to_the_next_region() {
    own_process!();
    for size in [2, 3, 5] {
        let team = Team::exact(size).expect("threads");
        for leaver in 0..size {
            team.run(|member| {
                member.barrier();
                if member.id() == leaver {
                    return;
                }
                for _ in 0..3 {
                    let waits = [
                        catch_unwind(AssertUnwindSafe(|| member.barrier())),
                        catch_unwind(AssertUnwindSafe(|| _ = member.single_for_all(|| 1))),
                    ];
                    assert!(waits.iter().all(Result::is_err), "it does not come");
                }
            });
            // What the members share is whole.
            let sums = team.map(|member| {
                member.barrier();
                member.ordered(|| ());
                member.single_for_all(|| 7) + member.single_for_all(|| 8)
            });
            assert_eq!(sums, vec![15; size]);
        }
    }
}

#[test]
fn members_that_come_to_all_and_leave_at_different_times_are_no_fault() {
    own_process!();
    let team = Team::exact(4).expect("threads");
    for round in 0..200 {
        team.run(|member| {
            (0..round % 5).for_each(|_| member.barrier());
            if member.id() == round % 4 {
                std::thread::yield_now();
            }
            (0..round % 3).for_each(|_| member.ordered(|| ()));
            member.single_for_all(|| ());
        });
    }
}
