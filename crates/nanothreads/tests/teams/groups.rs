//! Explicit groups: contiguous members, exact sizes at every depth, shrinking grants, and what
//! comes after them. As `groups_broadcast` with teams supplied by broadcast.

use engine::split::split;
use nanothreads::papers::Dispatch;
use nanothreads::{Group, Team, TeamSizer, broadcast, groups, join, par_for, scope, sections};
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread::{self, ThreadId};

/// Processors that this process believes to have.
static GRANT: AtomicUsize = AtomicUsize::new(16);

struct Elastic;

impl TeamSizer for Elastic {
    fn limit(&self) -> usize {
        GRANT.load(Relaxed)
    }
}

/// The only master of the process, with `grant` processors.
fn alone_with(grant: usize) -> MutexGuard<'static, ()> {
    static ONCE: Once = Once::new();
    static ALONE: Mutex<()> = Mutex::new(());
    ONCE.call_once(|| {
        let dispatch = if module_path!().ends_with("::groups_broadcast") {
            Dispatch::Broadcast
        } else {
            Dispatch::Lines
        };
        assert!(nanothreads::builder().dispatch(dispatch).sizer(Elastic).install().is_ok());
    });
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    GRANT.store(grant, Relaxed);
    // The thread of the test before counts until it has ended (D6).
    while Team::available().size() != grant {
        thread::yield_now();
    }
    alone
}

/// Threads that a region of the caller has now, by member.
fn team() -> Vec<ThreadId> {
    let ids = Mutex::new(Vec::new());
    broadcast(|member| {
        ids.lock().expect("no member panics").push((member.id, member.size, thread::current().id()))
    });
    let mut ids = ids.into_inner().expect("no member panics");
    ids.sort_by_key(|&(id, ..)| id);
    assert!(
        ids.iter()
            .enumerate()
            .all(|(i, &(id, size, _))| id as usize == i && size as usize == ids.len())
    );
    ids.into_iter().map(|(_, _, id)| id).collect()
}

/// What each group saw: itself, and the threads of a region inside.
fn teams_inside(weights: &[usize]) -> Vec<(Group, Vec<ThreadId>)> {
    groups().weights(weights).map(|group| (group, team()))
}

#[test]
fn more_groups_than_memory_has_words_for_run_one_after_another_until_one_stops_them() {
    own_process!();
    let _alone = alone_with(4);
    let seen = AtomicUsize::new(0);
    let all = catch_unwind(AssertUnwindSafe(|| {
        groups().equal(1 << 45).run(|group| {
            assert!(group.index() < 100, "enough");
            seen.fetch_add(1, Relaxed);
        });
    }));
    assert!(all.is_err());
    assert!((100..=100 + 64).contains(&seen.load(Relaxed)), "{seen:?}");
}

#[test]
fn sixteen_processors_as_four_groups_have_the_masters_0_4_8_and_12() {
    own_process!();
    let _alone = alone_with(16);
    let whole = team();
    assert_eq!(whole.len(), 16);
    for _ in 0..50 {
        let inside = groups().equal(4).map(|group| (group, thread::current().id(), team(), team()));
        for (k, (group, master, first, second)) in inside.into_iter().enumerate() {
            assert_eq!((group.index(), group.count(), group.size()), (k, 4, 4));
            assert_eq!(group.members(), 4 * k..4 * k + 4);
            assert_eq!(master, whole[4 * k]);
            assert_eq!(first, whole[4 * k..4 * k + 4]);
            assert_eq!(second, first, "an inner team is kept");
        }
        // F7: all cooperate again outside the sections, each thread in its old place.
        assert_eq!(team(), whole);
    }
}

#[test]
fn four_sections_of_loops_sum_what_one_loop_does() {
    own_process!();
    let _alone = alone_with(16);
    let cells: Vec<AtomicU32> = (0..4096).map(|_| AtomicU32::new(0)).collect();
    let mut list = sections();
    for k in 0..4 {
        let cells = &cells;
        list = list.add(move || {
            for _ in 0..5 {
                par_for(k * 1024..(k + 1) * 1024).run(|i| {
                    cells[i].fetch_add(1, Relaxed);
                });
            }
        });
    }
    list.run();
    par_for(0..4096).run(|i| {
        cells[i].fetch_add(1, Relaxed);
    });
    assert!(cells.iter().all(|cell| cell.load(Relaxed) == 6));
}

#[test]
fn weights_make_contiguous_groups_of_proportional_size() {
    own_process!();
    let _alone = alone_with(8);
    let whole = team();
    let huge = [usize::MAX, usize::MAX, 1];
    for weights in [&[3, 1][..], &[1, 1, 1], &[5, 2, 1], &[1; 8], &[100, 1], &[0, 0], &[1], &huge] {
        let sizes = split(8, weights);
        let mut end = 0;
        for ((group, inside), size) in teams_inside(weights).into_iter().zip(sizes) {
            assert_eq!(group.members(), end..end + size);
            assert_eq!(inside, whole[end..end + size]);
            end += size;
        }
        assert_eq!(end, 8);
    }
}

#[test]
fn weighted_sections_get_their_share() {
    own_process!();
    let _alone = alone_with(8);
    let (mut small, mut large) = (0, 0);
    sections().add(|| small = team().len()).add_weighted(3, || large = team().len()).run();
    assert_eq!((small, large), (2, 6));
}

#[test]
fn groups_in_groups_divide_what_their_group_has() {
    own_process!();
    let _alone = alone_with(12);
    let whole = team();
    let inside = groups().weights(&[2, 1]).map(|outer| {
        let begin = outer.members().start;
        let inner = groups().equal(2).map(|inner| {
            let deepest = groups().equal(2).map(|_| team());
            (inner.members(), team(), deepest.concat())
        });
        (begin, team(), inner)
    });
    for (begin, after, inner) in inside {
        assert_eq!(after, whole[begin..begin + after.len()]);
        for (members, team, deepest) in inner {
            assert_eq!(team, whole[begin + members.start..begin + members.end]);
            assert_eq!(deepest, team, "two groups of it are all of it");
        }
    }
}

#[test]
fn every_construct_inside_a_group_stays_in_it() {
    own_process!();
    let _alone = alone_with(8);
    let whole = team();
    let seen: Vec<Mutex<HashSet<ThreadId>>> = (0..2).map(|_| Mutex::default()).collect();
    let note = |k: usize| {
        seen[k].lock().unwrap().insert(thread::current().id());
    };
    for _ in 0..20 {
        groups().equal(2).run(|group| {
            let k = group.index();
            par_for(0..100).run(|_| note(k));
            join(|| note(k), || note(k));
            scope(|s| (0..50).for_each(|_| s.spawn(move |_| note(k))));
            sections().add(|| note(k)).add(|| broadcast(|_| note(k))).run();
            broadcast(|_| par_for(0..10).run(|_| note(k)));
        });
    }
    for (k, seen) in seen.into_iter().enumerate() {
        let own: HashSet<_> = whole[4 * k..4 * k + 4].iter().copied().collect();
        assert!(seen.into_inner().unwrap().is_subset(&own), "group {k}");
    }
}

#[test]
fn members_of_a_group_that_fork_share_what_its_team_leaves() {
    own_process!();
    let _alone = alone_with(8);
    let running = AtomicUsize::new(0);
    let most = AtomicUsize::new(0);
    for _ in 0..20 {
        groups().equal(2).run(|_| {
            // Two of four work; each may have one of the two that are left, or the first one both,
            // when it runs what the other has not begun.
            par_for(0..2).run(|_| {
                broadcast(|member| {
                    assert!(member.size <= 3);
                    let now = running.fetch_add(1, SeqCst) + 1;
                    most.fetch_max(now, SeqCst);
                    thread::yield_now();
                    running.fetch_sub(1, SeqCst);
                });
            });
            assert_eq!(team().len(), 4, "what was lent is back");
        });
        assert_eq!(team().len(), 8);
    }
    assert!(most.into_inner() <= 8);
}

#[test]
fn more_groups_than_processors_run_after_one_another() {
    own_process!();
    for grant in [1, 2, 3] {
        let _alone = alone_with(grant);
        let whole: HashSet<_> = team().into_iter().collect();
        let inside = groups().equal(7).map(|group| (group.index(), group.size(), team()));
        assert_eq!(inside.len(), 7);
        for (k, (index, size, inside)) in inside.into_iter().enumerate() {
            assert_eq!((index, size, inside.len()), (k, 1, 1));
            assert!(whole.contains(&inside[0]));
        }
    }
}

#[test]
fn no_group_at_all_runs_nothing() {
    own_process!();
    let _alone = alone_with(4);
    groups().weights(&[]).run(|_| unreachable!());
    assert!(groups().equal(0).map(|group| group.index()).is_empty());
    sections().run();
}

#[test]
fn groups_by_cache_and_node_cover_all_processors_once() {
    own_process!();
    let _alone = alone_with(6);
    for division in [groups(), groups().by_cache(), groups().by_node()] {
        let inside = division.map(|group| (group, team().len()));
        let mut end = 0;
        for (group, size) in inside {
            assert_eq!((group.members().start, group.size()), (end, size));
            end += size;
        }
        assert_eq!(end, 6);
    }
}

#[test]
fn open_groups_shrink_with_the_grant_and_grow_back() {
    own_process!();
    let _alone = alone_with(8);
    let met = std::sync::Barrier::new(2);
    let sizes = groups().weights(&[3, 1]).map(|_| {
        let mut sizes = vec![team().len()];
        for grant in [4, 2, 1, 6, 8, 20] {
            // Both groups stand still while the grant changes. Two threads of a team of eight may
            // wait for each other.
            if met.wait().is_leader() {
                GRANT.store(grant, Relaxed);
            }
            met.wait();
            sizes.push(team().len());
        }
        sizes
    });
    assert_eq!(sizes, [[6, 3, 1, 1, 5, 6, 6], [2, 1, 1, 1, 1, 2, 2]]);
    GRANT.store(3, Relaxed);
    assert_eq!(team().len(), 3);
    assert_eq!(
        teams_inside(&[1, 1]).iter().map(|(_, team)| team.len()).collect::<Vec<_>>(),
        [2, 1]
    );
}

#[test]
fn a_panic_in_a_group_reaches_the_caller_and_loses_no_processor() {
    own_process!();
    let _alone = alone_with(8);
    let whole = team();
    for guilty in 0..4 {
        let run = || {
            groups().equal(4).run(|group| {
                broadcast(|member| assert!(group.index() != guilty || member.id != 1, "planted"));
            });
        };
        let payload = catch_unwind(AssertUnwindSafe(run)).expect_err("the panic is passed on");
        assert!(payload.downcast_ref::<&str>().is_some_and(|text| text.contains("planted")));
        for _ in 0..25 {
            assert_eq!(team(), whole);
            assert_eq!(teams_inside(&[1, 1]).len(), 2);
        }
    }
    let begun = AtomicUsize::new(0);
    GRANT.store(1, Relaxed);
    let run = || {
        groups().equal(5).run(|group| {
            begun.fetch_add(1, Relaxed);
            assert!(group.index() != 1, "second");
        });
    };
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
    assert_eq!(begun.into_inner(), 2, "nothing is begun after a panic");
}

#[test]
fn several_masters_have_groups_at_the_same_time() {
    own_process!();
    let _alone = alone_with(16);
    let count = AtomicUsize::new(0);
    thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..100 {
                    let seen = groups().weights(&[2, 1]).map(|group| {
                        let own = thread::current().id();
                        let team = team();
                        assert_eq!(team[0], own);
                        assert!(team.len() <= group.size());
                        team
                    });
                    let all: Vec<_> = seen.concat();
                    let distinct: HashSet<_> = all.iter().collect();
                    // With one processor left both groups run on it, one after the other.
                    assert!(distinct.len() == all.len() || distinct.len() == 1);
                    count.fetch_add(1, Relaxed);
                }
            });
        }
    });
    assert_eq!(count.into_inner(), 300);
}

#[test]
fn groups_of_an_inner_master_divide_what_it_borrowed() {
    own_process!();
    let _alone = alone_with(8);
    for _ in 0..20 {
        let seen = Mutex::new(Vec::new());
        let masters = Mutex::new(HashSet::new());
        par_for(0..2).run(|_| {
            let inside = groups().equal(2).map(|_| team());
            masters.lock().unwrap().insert(thread::current().id());
            seen.lock().unwrap().extend(inside.concat());
        });
        let all = seen.into_inner().unwrap();
        let distinct: HashSet<_> = all.iter().collect();
        // One master when it ran what the other had not begun: then the groups of both iterations
        // are its own.
        let times = 2 / masters.into_inner().unwrap().len();
        assert!(all.len() <= distinct.len() * times, "no thread is in two groups");
        assert!(distinct.len() <= 8);
        assert_eq!(team().len(), 8);
    }
}

#[test]
fn teams_are_whole_before_and_after_groups_at_every_depth() {
    own_process!();
    let _alone = alone_with(9);
    for _ in 0..20 {
        let whole = team();
        // An inner master that borrowed: its team, groups of it, and the team again.
        par_for(0..3).run(|_| {
            let own = team();
            // Of the size that there is: nothing is missing, so nothing is looked for before it
            // runs.
            let kept = Team::at_most(own.len()).expect("not empty");
            let kept_threads = || kept.map(|_| thread::current().id());
            assert_eq!(kept_threads(), own);
            let inside = groups().equal(2).map(|_| (team(), team()));
            assert!(inside.iter().all(|(first, second)| first == second));
            assert_eq!(
                inside.into_iter().flat_map(|(team, _)| team).collect::<HashSet<_>>(),
                own.iter().copied().collect()
            );
            assert_eq!(kept_threads(), own);
            assert_eq!(team(), own);
            // The same neighbours in other groups: other numbers in other teams.
            assert_eq!(groups().weights(&[1, 5]).map(|_| team()).concat().len(), own.len().max(2));
            assert_eq!(team(), own);
        });
        assert_eq!(team(), whole);
        groups().weights(&[1, 2]).run(|group| assert_eq!(team(), whole[group.members()]));
        groups().weights(&[2, 1]).run(|group| assert_eq!(team(), whole[group.members()]));
        assert_eq!(team(), whole);
    }
}

/// What the stress test's seed 884255746 came upon: the members of a team that is supplied by
/// broadcast had followed the rings of their groups' masters, and the team's own master published
/// to no member, for ever.
#[test]
fn members_that_followed_their_groups_rings_follow_their_masters_again() {
    own_process!();
    let _alone = alone_with(9);
    let team = |size| Team::exact(size).expect("threads").dispatched(Dispatch::Broadcast);
    let run =
        |size| assert_eq!(team(size).map(|member| member.id()), (0..size).collect::<Vec<_>>());
    for round in 0..20 {
        run(9);
        groups().weights(&[4, 5]).run(|group| {
            run(group.size());
            groups().equal(2).run(|inner| (2..=inner.size()).for_each(run));
            run(group.size());
        });
        run(9);
        Team::exact(6).expect("threads").install(|| {
            run(6);
            run(2 + round % 5);
        });
        run(9);
        // The members as masters of what is left to them.
        team(3).run(|member| {
            run(2 + round % 2);
            member.barrier();
            groups().equal(2).run(|_| run(2));
            run(3);
        });
    }
}
