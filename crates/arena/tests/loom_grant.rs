//! Models of the grant: a reader never sees the processors of one epoch with the number of another,
//! and a master outside its turn knows that, or finds the grant of the turn that came meanwhile.
//! The twins in which an access orders nothing are refuted.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-arena --test loom_grant`
#![cfg(loom)]

use loom::sync::Arc;
use nanothreads_arena::grant::{Grant, GrantArea, Turn};
use platform::affinity::{CpuId, CpuSet};
use platform::model::{explore, is_needed};

/// Epoch `e` grants `e` processors, `e` of each word: number and bitmap tell on each other.
fn processors(epoch: u32) -> CpuSet {
    (0..epoch).flat_map(|cpu| [CpuId(cpu), CpuId(64 + cpu)]).collect()
}

#[test]
fn number_and_processors_are_of_one_epoch() {
    explore(|| {
        let area = Arc::new(GrantArea::default());
        let written = Arc::clone(&area);
        let manager = loom::thread::spawn(move || {
            for epoch in 1..=3 {
                written.publish(epoch, false, false, processors(epoch).iter());
            }
        });
        let (grant, cpus) = area.read_with_cpus();
        assert_eq!(cpus, processors(grant.epoch), "the processors of another epoch");
        assert_eq!(grant.processors, grant.epoch.max(1));
        manager.join().unwrap();
        assert_eq!(area.read_with_cpus(), (area.read(), processors(3)));
    });
}

#[test]
fn each_ordering_of_a_grant_is_needed() {
    let other = "the processors of another epoch";
    let tags = [
        ("grant.publish", other),
        ("grant.read", other),
        ("grant.reuse", other),
        ("grant.recheck", other),
    ];
    is_needed("number_and_processors_are_of_one_epoch", "src/grant.rs", &tags);
}

/// A shared processor outside the turn, three in it.
fn grant(area: &GrantArea, shared: bool) {
    area.publish(if shared { 1 } else { 3 }, false, shared, std::iter::empty());
}

/// What a master does that is about to fork: steps (1) and (2). The grant with which it forks, and
/// whether it knew that it is outside its turn.
fn fork(area: &GrantArea) -> (Grant, bool) {
    let before = area.read();
    let is_out = before.shared && matches!(area.turn(), Turn::At(_));
    (area.read(), is_out)
}

#[test]
fn a_master_that_does_not_know_that_it_is_outside_its_turn_has_what_the_turn_brings() {
    explore(|| {
        let area = Arc::new(GrantArea::default());
        area.set_turn(Turn::At(5));
        grant(&area, true);
        let written = Arc::clone(&area);
        let manager = loom::thread::spawn(move || {
            grant(&written, false);
            written.set_turn(Turn::Now);
        });
        let (found, is_out) = fork(&area);
        assert!(is_out || !found.shared, "it forks alone in its turn");
        manager.join().unwrap();
    });
}

#[test]
fn a_master_whose_turn_is_over_knows_when_the_next_one_comes() {
    explore(|| {
        let area = Arc::new(GrantArea::default());
        grant(&area, false);
        area.set_turn(Turn::Now);
        let written = Arc::clone(&area);
        let manager = loom::thread::spawn(move || {
            written.set_turn(Turn::At(5));
            grant(&written, true);
        });
        let before = area.read();
        let is_known = matches!(area.turn(), Turn::At(_));
        assert!(is_known || !before.shared, "it does not know that its turn is over");
        manager.join().unwrap();
    });
}

#[test]
fn each_ordering_of_a_turn_is_needed() {
    is_needed(
        "a_master_that_does_not_know_that_it_is_outside_its_turn_has_what_the_turn_brings",
        "src/grant.rs",
        &[("turn.say", "it forks alone in its turn"), ("turn.hear", "it forks alone in its turn")],
    );
    is_needed(
        "a_master_whose_turn_is_over_knows_when_the_next_one_comes",
        "src/grant.rs",
        &[
            ("grant.publish", "it does not know that its turn is over"),
            ("grant.read", "it does not know that its turn is over"),
        ],
    );
}
