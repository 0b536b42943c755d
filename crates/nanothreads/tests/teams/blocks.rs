//! Kept teams on slices: blocks, two buffers that change places; teams that several threads share.

use nanothreads::Team;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

fn exact(size: usize) -> Team {
    Team::exact(size).expect("the system gives threads")
}

#[test]
fn each_member_has_its_block_and_no_element_is_left_out() {
    own_process!();
    for size in [1, 2, 3, 7] {
        for length in [0, 1, size - 1, size, 10 * size + 1] {
            let mut data = vec![usize::MAX; length];
            exact(size).run_on(&mut data, |member, block| {
                let own = member.block(0..length);
                assert_eq!(block.len(), own.len());
                block.iter_mut().zip(own).for_each(|(x, i)| *x = i * size + member.id());
            });
            for (i, &x) in data.iter().enumerate() {
                assert_eq!(x / size, i, "{size} members, {length} elements");
            }
        }
    }
}

/// A cellular automaton, whose cells depend on their neighbours' last states.
fn next(old: &[u32], i: usize) -> u32 {
    let at = |k: usize| old[k % old.len()];
    at(i + old.len() - 1).wrapping_mul(3) ^ at(i).rotate_left(5) ^ at(i + 1)
}

#[test]
fn two_buffers_change_places_as_one_thread_would_do_it() {
    own_process!();
    for size in [1, 2, 3, 5] {
        for steps in [0, 1, 2, 17, 200] {
            let begin: Vec<u32> = (0..101_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
            let (mut data, mut other) = (begin.clone(), vec![0; begin.len()]);
            let sums = AtomicUsize::new(0);
            let result = exact(size).run_on_two(&mut data, &mut other, |member, buffers| {
                for _ in 0..steps {
                    buffers.step(|old, begin, new| {
                        new.iter_mut().enumerate().for_each(|(k, x)| *x = next(old, begin + k));
                    });
                    // Barriers of the team do not stand for those of the buffers.
                    member.barrier();
                }
                let sum: usize = buffers.latest().iter().map(|&x| x as usize).sum();
                sums.fetch_add(sum, Relaxed);
            });
            let mut expected = begin;
            for _ in 0..steps {
                expected = (0..expected.len()).map(|i| next(&expected, i)).collect();
            }
            assert_eq!(result, expected, "{size} members, {steps} steps");
            let sum: usize = expected.iter().map(|&x| x as usize).sum();
            assert_eq!(sums.into_inner(), size * sum, "each member sees all of it");
        }
    }
}

#[test]
fn slices_of_elements_without_size_may_be_as_long_as_can_be() {
    own_process!();
    let (mut data, mut other) = (vec![(); usize::MAX], vec![(); usize::MAX]);
    for size in [1, 2, 3] {
        let sum = AtomicUsize::new(0);
        exact(size).run_on(&mut data, |_, block| _ = sum.fetch_add(block.len(), Relaxed));
        assert_eq!(sum.load(Relaxed), usize::MAX);
        let result = exact(size).run_on_two(&mut data, &mut other, |_, buffers| {
            for _ in 0..5 {
                buffers.step(|old, begin, new| {
                    assert!(begin.checked_add(new.len()).is_some_and(|end| end <= old.len()));
                });
            }
        });
        assert_eq!(result.len(), usize::MAX);
    }
}

#[test]
fn a_panic_in_a_step_ends_the_others_also_where_bodies_catch_it() {
    own_process!();
    for who in 0..3 {
        for catches in [false, true] {
            let (mut data, mut other) = ([0_u32; 30], [0; 30]);
            let caught = catch_unwind(AssertUnwindSafe(|| {
                exact(3).run_on_two(&mut data, &mut other, |member, buffers| {
                    for step in 0.. {
                        let mut go = || {
                            buffers.step(|_, _, new| {
                                assert!(step < 5 || member.id() != who, "planted");
                                new.fill(step);
                            });
                        };
                        if !catches {
                            go();
                        } else if let Err(payload) = catch_unwind(AssertUnwindSafe(&mut go)) {
                            // It may try as often as it likes: there is no other step.
                            assert!(catch_unwind(AssertUnwindSafe(&mut go)).is_err());
                            assert!(
                                catch_unwind(AssertUnwindSafe(|| buffers.latest().len())).is_err()
                            );
                            resume_unwind(payload);
                        }
                    }
                });
            }));
            let payload = caught.expect_err("a member panicked");
            assert_eq!(payload.downcast_ref::<&str>(), Some(&"planted"));
        }
    }
}

#[test]
fn a_member_that_catches_its_panic_and_goes_on_fails_the_region() {
    own_process!();
    for failing in 0..2 {
        let (mut data, mut other) = ([0_u32; 30], [0; 30]);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            exact(2).run_on_two(&mut data, &mut other, |member, buffers| {
                if member.id() == failing {
                    let own = AssertUnwindSafe(|| buffers.step(|_, _, _| panic!("planted")));
                    assert!(catch_unwind(own).is_err());
                }
                buffers.step(|_, _, new| new.fill(1));
            });
        }));
        let text = caught.expect_err("half a step is no result").downcast::<String>();
        let text = text.expect("a text");
        assert!(text.contains(&format!("member {failing} left a step by a panic")), "{text}");
    }
}

#[test]
fn buffers_of_different_lengths_are_refused() {
    own_process!();
    let caught = catch_unwind(|| {
        exact(2).run_on_two(&mut [1, 2], &mut [1], |_, _| ());
    });
    let text = caught.expect_err("refused").downcast::<String>().expect("a text");
    assert!(text.contains("2 and 1 elements"), "{text}");
}

#[test]
fn threads_run_one_team_at_the_same_time_each_with_threads_of_its_own() {
    own_process!();
    static TEAM: LazyLock<Team> = LazyLock::new(|| exact(3));
    thread::scope(|threads| {
        for own in 0..4_usize {
            threads.spawn(move || {
                for round in 0..100 {
                    let cells: Vec<_> = (0..3).map(|_| AtomicUsize::new(0)).collect();
                    TEAM.run(|member| {
                        for step in 1..4 {
                            let mark = own * 1_000_000 + round * 10 + step;
                            cells[member.id()].store(mark, Relaxed);
                            member.barrier();
                            assert!(cells.iter().all(|cell| cell.load(Relaxed) == mark));
                            member.barrier();
                        }
                        // Inside: the same team once more, of another master.
                        if member.id() == 0 {
                            TEAM.run(|inner| inner.barrier());
                        }
                    });
                }
            });
        }
    });
}
