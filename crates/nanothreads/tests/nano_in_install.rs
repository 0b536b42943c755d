//! Nano-threads that wait inside a frame which holds state of its thread: `Team::install`.
#![cfg(not(loom))]

use nanothreads::{Team, par_for, scope};

fn assert_outside_is_as_before() {
    assert_eq!(Team::exact(3).expect("three").map(|m| m.id()), [0, 1, 2]);
    assert_eq!(par_for(0..100).reduce(0, |i| i, |a, b| a + b), 4_950);
}

#[test]
fn tasks_that_yield_inside_install_leave_the_thread_as_it_was() {
    for _ in 0..100 {
        Team::exact(2).expect("two").install(|| {
            scope(|s| {
                for k in 0..4 {
                    s.spawn(move |s| {
                        Team::at_most(1).expect("one").install(|| (0..=k).for_each(|_| s.yield_now()));
                    });
                }
            });
        });
    }
    assert_outside_is_as_before();
}

#[test]
fn a_scope_body_that_yields_inside_install_leaves_the_thread_as_it_was() {
    scope(|s| {
        s.spawn(|s| Team::at_most(1).expect("one").install(|| (0..3).for_each(|_| s.yield_now())));
        Team::at_most(1).expect("one").install(|| s.yield_now());
    });
    assert_outside_is_as_before();
}
