//! Teams that keep their size.

use super::*;

/// Waits of all threads in a region that ends soon after: ten barriers.
const REST_OF_A_REGION: u64 = 10 * CPUS as u64;

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
fn turns_in_each_slice_are_enough_in_two_windows() {
    let (left, times) = left_in(&mut beside(0.5, 3), 9_000 * MS);
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

#[test]
fn turns_that_are_rarer_than_the_kernels_cost_little() {
    // Each of four threads waits once in four milliseconds.
    let (left, times) = left_in(&mut beside(0.5, 1), 9_000 * MS);
    assert_eq!(times, 1);
    assert!(left > 8_500 * MS, "{left}");
}

#[test]
fn a_team_that_is_beset_on_all_processors_gets_all_back() {
    let mut world = beside(0.5, 20);
    world.strangers.extend((0..CPUS).map(|cpu| (cpu, 0.5)));
    let (left, _) = left_in(&mut world, 9_000 * MS);
    assert!(left <= 8 * QUICK, "{left}");
}

/// A program with this many processors, whose teams have so many threads and took so many turns.
fn program(processors: usize, team: u32, turns: u32) -> Held {
    Held { processors, crowd: Crowd { turns, threads: team }, ..Held::default() }
}

#[test]
fn each_program_gets_what_it_lacks_of_its_own() {
    let sample = |at, turns| Sample {
        at,
        left: 3,
        held: [
            (1, program(1, 2, turns)),
            (2, program(1, 3, turns)),
            // Nothing of this one's was left: others have what it lacks.
            (3, program(1, 2, turns)),
            // It takes no turns.
            (4, program(1, 2, 0)),
            // There are never as many as this one says that it needs.
            (5, program(1, u32::MAX, turns)),
        ]
        .into(),
        ..Sample::default()
    };
    let mut crowds = super::super::crowds::Crowds::default();
    crowds.begin(&sample(0, u32::MAX - 5));
    let left = |program| if program == 3 { 0 } else { 2 };
    assert!(crowds.look(&sample(QUICK - 1, 500), left).is_empty(), "the window is not over");
    assert_eq!(crowds.look(&sample(QUICK, 500), left), [(1, 1), (2, 2)]);
    assert!(crowds.has(1, QUICK) && crowds.has(2, QUICK) && !crowds.has(3, QUICK));
}

#[test]
fn a_known_team_leaves_a_processor_for_a_spare_one() {
    let mut world = beside(0.5, 20);
    left_in(&mut world, 1_000 * MS);
    assert!(world.foreign.left().is_empty());
    world.spare = true;
    world.looks(1_000 * MS);
    assert_eq!(world.foreign.left(), [1]);
}
