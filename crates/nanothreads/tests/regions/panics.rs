//! Panics that are hard to carry: payloads whose destructors panic, too.

use nanothreads::workers::on_each;
use nanothreads::{Schedule, Team, join, par_for, scope, sections};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Barrier;

/// A payload that panics wherever it is dropped, with another one.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Self(self.0 - 1));
        }
    }
}

fn explode() -> ! {
    panic_any(Bomb(3))
}

/// Three threads panic with bombs: the caller gets one of them, and the team works on.
#[track_caller]
fn first_bomb_is_carried(panicking: impl FnOnce(&Team, &Barrier)) {
    let team = Team::exact(3).expect("the system gives threads");
    let caught = catch_unwind(AssertUnwindSafe(|| panicking(&team, &Barrier::new(2))));
    let mut bomb = caught.expect_err("members panicked").downcast::<Bomb>().expect("their payload");
    bomb.0 = 0;
    assert_eq!(team.map(|member| member.id()), [0, 1, 2], "no worker is lost");
}

#[test]
fn payloads_of_members_that_lose_are_discarded_when_their_destructors_panic() {
    own_process!();
    first_bomb_is_carried(|team, _| {
        team.run(|member| {
            member.barrier();
            explode()
        });
    });
}

#[test]
fn payloads_of_iterations_that_lose_are_discarded_when_their_destructors_panic() {
    own_process!();
    for schedule in [Schedule::Static, Schedule::PURE] {
        first_bomb_is_carried(|team, both| {
            team.install(|| {
                par_for(0..2).schedule(schedule).run(|_| {
                    both.wait();
                    explode()
                });
            });
        });
    }
    first_bomb_is_carried(|team, both| {
        let count = |_| {
            both.wait();
            explode()
        };
        team.install(|| par_for(0..2).schedule(Schedule::PURE).reduce(0, count, |a: u32, b| a + b));
    });
}

#[test]
fn payloads_of_sections_and_joins_that_lose_are_discarded_when_their_destructors_panic() {
    own_process!();
    let part = |both: &Barrier| {
        both.wait();
        explode()
    };
    first_bomb_is_carried(|team, both| {
        team.install(|| sections().add(|| part(both)).add(|| part(both)).run())
    });
    first_bomb_is_carried(|team, both| {
        team.install(|| join(|| part(both), || part(both)));
    });
    // Inside another join, where the second half is stolen.
    first_bomb_is_carried(|team, both| {
        team.install(|| join(|| join(|| part(both), || part(both)), || ()));
    });
}

#[test]
fn payloads_of_tasks_that_lose_are_discarded_when_their_destructors_panic() {
    own_process!();
    first_bomb_is_carried(|team, _| {
        team.install(|| scope(|s| (0..6).for_each(|_| s.spawn(|_| explode()))))
    });
    // That of the body goes before those of its tasks.
    first_bomb_is_carried(|team, _| {
        team.install(|| {
            scope(|s| {
                s.spawn(|_| explode());
                explode()
            })
        });
    });
}

#[test]
fn payloads_of_visits_that_lose_are_discarded_when_their_destructors_panic() {
    own_process!();
    first_bomb_is_carried(|_, _| {
        on_each(|_| explode());
    });
}
