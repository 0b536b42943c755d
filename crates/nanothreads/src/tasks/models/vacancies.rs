//! A place at a scope that one thread leaves and another one takes.

use super::Data;
use crate::tasks::vacancies::Vacancies;
use loom::sync::Arc;
use loom::thread;
use platform::model::{RACE, explore, is_needed};

fn what_was_left() {
    let shared = Arc::new((Vacancies::new(2), Data::default()));
    let last = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || {
            shared.1.set(7);
            shared.0.leave(1);
        })
    };
    let other = {
        let shared = Arc::clone(&shared);
        thread::spawn(move || shared.0.take().map(|member| (member, shared.1.get())))
    };
    let here = shared.0.take().map(|member| (member, shared.1.get()));
    let there = other.join().unwrap();
    assert!(here.is_none() || there.is_none(), "a place is taken once");
    for taken in [here, there].into_iter().flatten() {
        assert_eq!(taken, (1, 7));
    }
    last.join().unwrap();
}

#[test]
fn a_place_is_taken_once_with_all_that_was_left_there() {
    explore(what_was_left);
}

#[test]
fn the_bit_of_a_place_orders_what_was_left_there() {
    is_needed(
        "a_place_is_taken_once_with_all_that_was_left_there",
        "src/tasks/vacancies.rs",
        &[("V1", RACE), ("V2", RACE)],
    );
}
