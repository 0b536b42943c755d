//! Teams that keep their size.

use super::*;

/// The barriers of a region that ends soon after.
const REST_OF_A_REGION: u64 = 10;

/// A program whose threads wait so often in a millisecond where they take turns, beside a stranger
/// that has this share of a processor.
fn beside(share: f64, turns_in_ms: u64) -> World {
    let mut world = World::new(1);
    world.turns_in_ms = turns_in_ms;
    world.strangers.insert(1, share);
    world
}

/// For how long of `time` something was left, in nanoseconds, and how often that began.
fn left_in(world: &mut World, time: Nanos) -> (Nanos, u32) {
    let (mut sum, mut times) = (0, 0);
    let end = world.now + time;
    while world.now < end {
        let (before, was) = (world.now, !world.foreign.left().is_empty());
        world.look();
        sum += if was { world.now - before } else { 0 };
        times += u32::from(!was && !world.foreign.left().is_empty());
    }
    (sum, times)
}

#[test]
fn a_team_that_takes_many_turns_gets_its_processor_back_and_keeps_it() {
    let (left, times) = left_in(&mut beside(0.5, 20), 9_000 * MS);
    assert_eq!(times, 1);
    assert!(left <= 2 * QUICK, "{left}");
}

#[test]
fn a_few_turns_in_each_slice_are_enough_in_two_windows() {
    let (left, times) = left_in(&mut beside(0.5, 1), 9_000 * MS);
    assert_eq!(times, 1);
    assert!(left <= 3 * QUICK, "{left}");
}

#[test]
fn a_team_without_turns_does_without_the_processor() {
    let (left, times) = left_in(&mut beside(0.5, 0), 9_000 * MS);
    assert_eq!(times, 1);
    assert!(left > 8_500 * MS, "{left}");
}

#[test]
fn the_rest_of_a_region_is_not_enough() {
    let mut world = beside(0.5, 0);
    while world.foreign.left().is_empty() {
        world.look();
    }
    world.turned += REST_OF_A_REGION;
    world.looks(1_000 * MS);
    assert_eq!(world.foreign.left(), [1]);
}

#[test]
fn it_is_tried_again_from_time_to_time() {
    let (left, times) = left_in(&mut beside(0.5, 20), 60_000 * MS);
    assert!((5..=7).contains(&times), "{times}");
    assert!(left <= u64::from(times) * 2 * QUICK, "{left}");
}

#[test]
fn a_processor_that_strangers_have_nearly_for_themselves_is_left_all_the_same() {
    let (left, times) = left_in(&mut beside(0.8, 20), 9_000 * MS);
    assert!(times <= 2, "{times}");
    assert!(left > 8_500 * MS, "{left}");
}

#[test]
fn a_team_for_which_there_are_never_enough_processors_is_like_any_other() {
    let mut world = beside(0.5, 20);
    world.team = CPUS + 1;
    let (left, times) = left_in(&mut world, 9_000 * MS);
    assert_eq!(times, 1);
    assert!(left > 8_500 * MS, "{left}");
}
