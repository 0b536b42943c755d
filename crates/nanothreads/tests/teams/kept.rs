//! Kept teams: exact sizes, what members do together, panics of a member for which others wait,
//! storage per worker.

use engine::sizer::Fixed;
use nanothreads::papers::Dispatch;
use nanothreads::{
    PerThread, Team, TeamError, TeamMember, broadcast, groups, join, par_for, scope,
};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Once};
use std::thread;
use std::time::{Duration, Instant};

/// All tests of this process see three processors.
fn three() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| assert!(nanothreads::builder().sizer(Fixed::new(3)).install().is_ok()));
}

fn exact(size: usize) -> Team {
    Team::exact(size).expect("the system gives threads")
}

#[test]
fn an_exact_team_keeps_its_size_and_threads_whatever_there_is() {
    own_process!(alone);
    three();
    for size in [1, 2, 5, 16] {
        let team = exact(size);
        let first = team.map(|member| (member.id(), member.size(), thread::current().id()));
        assert_eq!(first.len(), size);
        assert!(first.iter().enumerate().all(|(i, &(id, all, _))| id == i && all == size));
        for _ in 0..20 {
            assert_eq!(
                team.map(|member| (member.id(), member.size(), thread::current().id())),
                first
            );
        }
    }
}

#[test]
fn impossible_teams_are_errors_that_say_what_to_do() {
    own_process!();
    three();
    assert_eq!(Team::exact(0).expect_err("empty"), TeamError::Empty);
    assert_eq!(Team::at_most(0).expect_err("empty"), TeamError::Empty);
    let largest = Team::largest();
    let error = Team::exact(largest + 1).expect_err("too large");
    assert_eq!(error, TeamError::TooLarge { asked: largest + 1, largest });
    let (asked, most) = (format!("{} threads", largest + 1), format!("at most {largest}"));
    let text = error.to_string();
    assert!(text.contains(&asked) && text.contains(&most), "{text}");
    assert!(text.contains("Team::largest") && text.contains("Team::available"), "{text}");
    let text = TeamError::Alone { asked: 7 }.to_string();
    assert!(text.contains("7 threads") && text.contains("ask for 1"), "{text}");
}

#[test]
fn other_teams_have_at_most_what_the_program_has() {
    own_process!();
    three();
    thread::spawn(|| {
        assert!((1..=2).contains(&Team::at_most(2).expect("not empty").size()));
        assert!((1..=3).contains(&Team::at_most(100).expect("not empty").size()));
        assert!((1..=3).contains(&Team::available().size()));
    })
    .join()
    .expect("no assertion fails");
}

#[test]
fn a_barrier_shows_all_members_what_each_wrote_over_many_regions() {
    own_process!();
    three();
    for (size, dispatch) in [
        (1, Dispatch::Lines),
        (2, Dispatch::Broadcast),
        (3, Dispatch::Lines),
        (7, Dispatch::Broadcast),
        (7, Dispatch::Lines),
    ] {
        let team = exact(size).dispatched(dispatch);
        let cells: Vec<_> = (0..size).map(|_| AtomicUsize::new(0)).collect();
        for region in 0..30 {
            team.run(|member| {
                for round in 1..=10 {
                    cells[member.id()].store(region * 10 + round, Relaxed);
                    member.barrier();
                    assert!(cells.iter().all(|cell| cell.load(Relaxed) == region * 10 + round));
                    member.barrier();
                }
            });
        }
    }
}

#[test]
fn each_single_runs_on_one_member() {
    own_process!();
    three();
    let team = exact(4);
    for _ in 0..50 {
        let count = AtomicUsize::new(0);
        let results = team.map(|member| {
            let first = member.single(|| count.fetch_add(1, Relaxed));
            let all = member.single_for_all(|| count.fetch_add(1, Relaxed));
            let last = member.single(|| count.fetch_add(1, Relaxed));
            member.barrier();
            (first.is_some(), all, last.is_some(), count.load(Relaxed))
        });
        assert_eq!(results.iter().filter(|result| result.0).count(), 1);
        assert_eq!(results.iter().filter(|result| result.2).count(), 1);
        assert!(results.iter().all(|result| result.1 == results[0].1 && result.3 == 3));
    }
}

#[test]
fn what_a_single_hands_to_all_is_dropped_at_the_end_of_the_region() {
    own_process!();
    let (value, team) = (Arc::new(()), exact(2));
    team.run(|member| drop(member.single_for_all(|| Arc::clone(&value))));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn ordered_bodies_run_in_the_order_of_the_members_round_after_round() {
    own_process!();
    three();
    let team = exact(5);
    for _ in 0..20 {
        let line = Mutex::new(Vec::new());
        team.run(|member| {
            for round in 0..3 {
                member.ordered(|| line.lock().expect("no body panics").push((round, member.id())));
            }
        });
        let expected: Vec<_> = (0..3).flat_map(|round| (0..5).map(move |id| (round, id))).collect();
        assert_eq!(line.into_inner().expect("no body panics"), expected);
    }
}

#[test]
fn the_master_is_member_0_and_blocks_cover_the_range() {
    own_process!();
    three();
    let team = exact(3);
    let caller = thread::current().id();
    let results =
        team.map(|member| (member.master(|| thread::current().id()), member.block(10..20)));
    assert_eq!(results[0].0, Some(caller));
    assert_eq!(results[1].0, None);
    assert_eq!(
        results.into_iter().flat_map(|(_, block)| block).collect::<Vec<_>>(),
        (10..20).collect::<Vec<_>>()
    );
}

#[test]
fn a_panic_frees_members_that_wait_for_the_guilty_one_and_loses_no_member() {
    own_process!(alone);
    three();
    type Wait = fn(&TeamMember<'_>);
    let waits: [Wait; 3] = [
        |member| member.barrier(),
        |member| member.ordered(|| ()),
        |member| member.single_for_all(|| ()),
    ];
    for size in [2, 4] {
        let team = exact(size);
        let whole = team.map(|_| thread::current().id());
        for wait in waits {
            for guilty in 0..size {
                let run = || {
                    team.run(|member| {
                        wait(member);
                        assert!(member.id() != guilty, "planted");
                        wait(member);
                    });
                };
                let payload =
                    catch_unwind(AssertUnwindSafe(run)).expect_err("the panic is passed on");
                assert!(
                    payload.downcast_ref::<&str>().is_some_and(|text| text.contains("planted"))
                );
                for _ in 0..100 {
                    assert_eq!(
                        team.map(|member| (member.barrier(), thread::current().id()).1),
                        whole
                    );
                }
            }
        }
    }
}

/// The text of what `body` panics with.
fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("it panics");
    payload.downcast_ref::<&str>().map(ToString::to_string).expect("the panic has a text")
}

#[test]
fn a_section_whose_panic_its_member_catches_does_not_keep_the_turn() {
    own_process!();
    three();
    for size in [2, 4] {
        for guilty in 0..size {
            let (team, line) = (exact(size), Mutex::new(Vec::new()));
            team.run(|member| {
                for round in 0..3 {
                    let section = || {
                        if (member.id(), round) == (guilty, 1) {
                            panic!("planted");
                        }
                        line.lock()
                            .expect("no section panics with the lock")
                            .push((round, member.id()));
                    };
                    assert_eq!(
                        catch_unwind(AssertUnwindSafe(|| member.ordered(section))).is_err(),
                        (member.id(), round) == (guilty, 1)
                    );
                }
                member.barrier();
                // And where nothing follows but the end.
                _ = catch_unwind(AssertUnwindSafe(|| {
                    member.ordered(|| assert!(member.id() != guilty, "planted"))
                }));
            });
            let all = (0..3).flat_map(|round| (0..size).map(move |id| (round, id)));
            let expected: Vec<_> = all.filter(|&turn| turn != (1, guilty)).collect();
            assert_eq!(line.into_inner().expect("no section panics with the lock"), expected);
        }
    }
}

#[test]
fn a_single_that_panics_fails_for_all_that_wait_for_its_result() {
    own_process!(alone);
    three();
    for size in [2, 4] {
        let team = exact(size);
        let whole = team.map(|_| thread::current().id());
        let single =
            |member: &TeamMember<'_>| member.single_for_all(|| -> u32 { panic!("planted") });
        // Each member catches it, and all is as it was.
        let texts = team.map(|member| {
            assert_eq!(member.single_for_all(|| 7), 7);
            let text = panic_of(|| _ = single(member));
            assert_eq!(member.single_for_all(|| 8), 8);
            member.barrier();
            text
        });
        assert_eq!(texts.iter().filter(|text| *text == "planted").count(), 1, "{texts:?}");
        assert_eq!(
            texts
                .iter()
                .filter(|text| text.contains("the body panicked") || *text == "planted")
                .count(),
            size
        );
        // No member does: the caller gets the first cause. Then only the member that ran the body
        // does.
        assert_eq!(panic_of(|| team.run(|member| _ = single(member))), "planted");
        let text = panic_of(|| {
            team.run(|member| {
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| single(member)))
                    && payload.downcast_ref::<&str>() != Some(&"planted")
                {
                    resume_unwind(payload);
                }
                member.barrier();
            });
        });
        assert!(text.contains("single_for_all: the member that ran the body panicked"), "{text}");
        assert_eq!(team.map(|member| (member.barrier(), thread::current().id()).1), whole);
    }
}

#[test]
fn a_result_that_cannot_be_cloned_for_a_member_fails_for_that_one() {
    own_process!();
    #[derive(Debug)]
    struct Reluctant(Arc<AtomicUsize>);
    impl Clone for Reluctant {
        fn clone(&self) -> Self {
            assert!(self.0.fetch_add(1, Relaxed) != 1, "planted");
            Self(Arc::clone(&self.0))
        }
    }
    three();
    let (team, count) = (exact(3), Arc::new(AtomicUsize::new(0)));
    let results = team.map(|member| {
        let single = || member.single_for_all(|| Reluctant(Arc::clone(&count)));
        let is_refused = catch_unwind(AssertUnwindSafe(single)).is_err();
        member.barrier();
        is_refused
    });
    assert_eq!(results.iter().filter(|is_refused| **is_refused).count(), 1);
}

#[test]
fn what_is_forked_in_an_installed_team_has_its_threads() {
    own_process!(alone);
    three();
    for size in [1, 2, 6] {
        let team = exact(size);
        let whole = team.map(|_| thread::current().id());
        for _ in 0..10 {
            let seen = team.install(|| {
                let seen = Mutex::new(Vec::new());
                broadcast(|member| {
                    seen.lock().expect("no member panics").push((member.id, thread::current().id()))
                });
                let sum = par_for(0..1000).reduce(0, |i| i, |a, b| a + b);
                assert_eq!((sum, join(|| 1, || 2)), (499_500, (1, 2)));
                scope(|s| s.spawn(|_| ()));
                let groups: usize = groups().equal(2).map(|group| group.size()).into_iter().sum();
                assert_eq!(groups, size.max(2), "with one thread the groups run after one another");
                seen.into_inner().expect("no member panics")
            });
            let mut seen = seen;
            seen.sort_by_key(|&(id, _)| id);
            assert_eq!(seen.into_iter().map(|(_, thread)| thread).collect::<Vec<_>>(), whole);
        }
        assert_eq!(team.map(|_| thread::current().id()), whole);
    }
}

/// Two halves that each wait until the other one runs, or are tired of it; true when they met.
fn halves_meet(patience: Duration) -> bool {
    let there = AtomicUsize::new(0);
    let half = || {
        there.fetch_add(1, Relaxed);
        let begin = Instant::now();
        while there.load(Relaxed) < 2 && begin.elapsed() < patience {
            std::hint::spin_loop();
        }
        thread::current().id()
    };
    let (first, second) = join(half, half);
    first != second
}

#[test]
fn joins_in_an_installed_team_or_a_group_have_its_threads_inside_a_join_too() {
    own_process!();
    three();
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(3);
    let (narrow, wide) = (|| Team::at_most(1).expect("a team"), exact(4));
    for _ in 0..20 {
        let (met, ()) = wide.install(|| join(|| narrow().install(|| halves_meet(SHORT)), || ()));
        assert!(!met, "a team of one inside a join of four");
        let (groups, ()) =
            wide.install(|| join(|| groups().equal(4).map(|_| halves_meet(SHORT)), || ()));
        assert_eq!(groups, [false; 4], "groups of one thread");
        let (met, ()) = narrow().install(|| join(|| exact(4).install(|| halves_meet(LONG)), || ()));
        assert!(met, "a team of four inside a join of one");
        // The join around goes on as it was.
        let (met, ()) = wide.install(|| {
            join(
                || {
                    narrow().install(|| join(|| (), || ()));
                    halves_meet(LONG)
                },
                || (),
            )
        });
        assert!(met, "after an installed team");
    }
}

#[test]
fn an_ordered_section_inside_one_of_the_same_member_is_refused() {
    own_process!();
    three();
    let inner = catch_unwind(AssertUnwindSafe(|| {
        exact(2).run(|member| member.ordered(|| member.ordered(|| ())))
    }));
    let payload = inner.expect_err("it would wait for itself");
    let text = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or(payload.downcast_ref::<String>().cloned());
    assert!(text.is_some_and(|text| text.contains("called inside a section of its own")));
}

#[test]
fn a_panic_in_an_installed_team_leaves_everything_as_it_was() {
    own_process!(alone);
    three();
    let team = exact(4);
    let before = team.map(|_| thread::current().id());
    for _ in 0..20 {
        let install = || team.install(|| par_for(0..100).run(|i| assert!(i != 57, "planted")));
        assert!(catch_unwind(AssertUnwindSafe(install)).is_err());
        assert_eq!(team.map(|_| thread::current().id()), before);
    }
}

#[test]
fn a_team_is_used_again_inside_its_own_region() {
    own_process!();
    three();
    thread_local!(static TEAM: Team = exact(2));
    let inner = TEAM.with(|team| {
        team.map(|member| {
            member.barrier();
            // Of this thread's own handle, which on member 0 is the one that runs.
            let inner = TEAM.with(|team| team.map(|member| (member.barrier(), member.id()).1));
            member.barrier();
            inner
        })
    });
    assert_eq!(inner, [[0, 1], [0, 1]]);
}

#[test]
fn every_member_has_one_value_and_sums_agree() {
    own_process!(alone);
    three();
    let counts: PerThread<usize> = PerThread::default();
    let team = exact(4);
    for _ in 0..10 {
        team.run(|member| {
            member.block(0..1000).for_each(|_| counts.with(|own| *own += 1));
            // Re-entered from an inner region on the same thread.
            counts.with(|_| assert!(counts.try_with(|own| *own += 1_000_000).is_none()));
        });
    }
    let values: Vec<_> = counts.into_values().collect();
    assert_eq!(values, [2500; 4]);
}

#[test]
fn tasks_that_wait_inside_a_value_do_not_share_it() {
    own_process!();
    three();
    let values = PerThread::new(|| 0);
    let refused = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..20 {
            s.spawn(|s| {
                let own = values.try_with(|own| {
                    *own += 1;
                    s.yield_now();
                });
                if own.is_none() {
                    refused.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert_eq!(values.into_values().sum::<usize>() + refused.into_inner(), 20);
}
