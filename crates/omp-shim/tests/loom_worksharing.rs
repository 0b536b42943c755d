//! Models of worksharing constructs in flight, their ordered regions and their cross-iteration
//! dependences, on the shipped source.
//! `RUSTFLAGS="--cfg loom" cargo test --profile bench -p omp-shim --test loom_worksharing`. Each
//! ordering that loom can judge has a twin in which it is lost.
#![cfg(loom)]

// Loom takes the files themselves: the crate is a library for C, and shows no Rust name.
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/worksharing/doacross.rs"]
mod doacross;
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/worksharing/member.rs"]
mod member;
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/construct/doacross.rs"]
mod nest;
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/construct/progress.rs"]
mod progress;
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/construct/ring.rs"]
mod ring;
#[allow(dead_code, unreachable_pub, reason = "the models use a part of it")]
#[path = "../src/schedule.rs"]
mod schedule;

use construct::{Doacross, Plan};
use frame::Frame;
use loom::thread;
use platform::model::{DEADLOCK, RACE, explore_within, is_needed, is_refuted};
use platform::sync::{Arc, HandCell};
use schedule::{Kind, Schedule, Space};
use team::Team;
use worksharing::{enter, leave, next, wait_for_turn};

/// The files' names in the crate.
#[allow(unused_imports, reason = "as the crate's, which uses all of it")]
mod construct {
    pub(crate) use crate::nest::Doacross;
    pub(crate) use crate::progress::Progress;
    pub(crate) use crate::ring::{Construct, ConstructData, ConstructRing, Encounter, Plan};
}

/// As above.
mod worksharing {
    pub(crate) use crate::member::{self, current, enter, leave, next, wait_for_turn};
}

/// The engine's waits, without spinning: what ends them must wake the sleepers.
mod engine {
    use engine::wait_point::WaitPoint;

    pub(crate) fn wait(point: &WaitPoint, mut done: impl FnMut() -> bool) {
        point.sleep_until(|| done().into());
    }

    pub(crate) fn is_to_follow() -> bool {
        false
    }

    pub(crate) fn between_pieces() {}
}

/// What worksharing needs of a team.
mod team {
    use crate::construct::ConstructRing;
    use engine::wait_point::WaitPoint;
    use platform::sync::atomic::AtomicBool;

    pub(crate) struct Team {
        pub(crate) ring: Box<ConstructRing>,
        pub(crate) wait: WaitPoint,
        pub(crate) cancelled: AtomicBool,
    }

    impl Team {
        pub(crate) fn new() -> Self {
            let mut ring = Box::new_uninit();
            // SAFETY: - a box's memory is valid and aligned.
            unsafe { ConstructRing::init(ring.as_mut_ptr()) };
            // SAFETY: - made by `init`.
            let ring = unsafe { ring.assume_init() };
            Self { ring, wait: WaitPoint::new(), cancelled: AtomicBool::new(false) }
        }

        pub(crate) fn constructs(&self) -> u64 {
            0
        }

        pub(crate) fn set_laid_out(&self) {}
    }
}

/// A member's place in the region.
mod frame {
    use crate::construct::Progress;
    use crate::team::Team;
    use platform::sync::Arc;
    use std::cell::{Cell, UnsafeCell};

    pub(crate) struct Frame {
        pub(crate) id: u32,
        pub(crate) size: u32,
        pub(crate) constructs: Cell<u64>,
        team: Arc<Team>,
        progress: UnsafeCell<Progress>,
    }

    impl Frame {
        pub(crate) fn new(team: Arc<Team>, id: u32, size: u32) -> Self {
            Self {
                id,
                size,
                constructs: Cell::new(0),
                team,
                progress: UnsafeCell::new(Progress::NONE),
            }
        }

        pub(crate) fn team(&self) -> &Team {
            &self.team
        }

        #[expect(clippy::mut_from_ref, reason = "as the crate's: the frame is its thread's")]
        pub(crate) fn progress(&self) -> &mut Progress {
            // SAFETY: - the thread's own, and used by one function at a time.
            unsafe { &mut *self.progress.get() }
        }
    }
}

/// Runs `body` as each member of a team of two; `shared` is what they hand each other.
fn region<S: Default + Send + Sync + 'static>(body: fn(&Frame, &S)) {
    region_of([2, 2], body);
}

/// As [`region`], whose members believe that the team has so many.
fn region_of<S: Default + Send + Sync + 'static>(sizes: [u32; 2], body: fn(&Frame, &S)) {
    let (team, shared) = (Arc::new(Team::new()), Arc::new(S::default()));
    let other = {
        let (team, shared) = (Arc::clone(&team), Arc::clone(&shared));
        thread::spawn(move || body(&Frame::new(team, 1, sizes[1]), &shared))
    };
    body(&Frame::new(team, 0, sizes[0]), &shared);
    other.join().unwrap();
}

/// Plain memory for each iteration.
#[derive(Default)]
struct Cells([HandCell<u32>; 3]);

// SAFETY: - each cell is handed from thread to thread by what the models are about.
unsafe impl Sync for Cells {}
// SAFETY: - numbers.
unsafe impl Send for Cells {}

impl Cells {
    fn add(&self, at: u64) {
        // SAFETY: - no other thread is at it, which is what the models show.
        unsafe { self.0[at as usize].with_mut(|cell| *cell += 1) };
    }

    fn get(&self, at: u64) -> u32 {
        // SAFETY: - as above.
        unsafe { self.0[at as usize].with(|cell| *cell) }
    }
}

fn iterations(count: u64) -> Space {
    Space::unsigned(true, 0, count, 1)
}

const SINGLE: Schedule = Schedule::new(Kind::Dynamic, 1);

/// As many constructs without a barrier as there are slots, and one more, which is in the first
/// one's slot. Each has an iteration more than the one before: a thread that reads another
/// construct's plan, or its counter, finds another number.
fn constructs_in_a_row(frame: &Frame, cells: &Cells) {
    for number in 0..3 {
        enter(frame, || Plan::new(iterations(1), SINGLE), |_| ());
        while let Some((begin, end)) = next(frame) {
            assert_eq!((begin, end), (0, 1), "another construct's plan");
            cells.add(number);
        }
        leave(frame);
    }
}

fn three_constructs() {
    region(|frame, cells: &Cells| {
        constructs_in_a_row(frame, cells);
    });
}

#[test]
fn members_that_run_ahead_by_a_whole_ring_find_each_construct_as_it_was_laid_out() {
    explore_within(2, three_constructs);
}

/// One construct with memory of its own, which both members look at.
fn one_construct() {
    region(|frame, _: &()| {
        enter(frame, || Plan::new(iterations(2), SINGLE), |shared| shared.memory = vec![7]);
        let shared = worksharing::current(frame).expect("it is in one").shared();
        assert_eq!(shared.memory, [7], "what the first member made");
        leave(frame);
    });
}

#[test]
fn a_member_that_enters_a_construct_sees_what_the_first_member_made() {
    explore_within(3, one_construct);
}

#[test]
fn the_orderings_of_constructs_are_needed() {
    let file = "src/construct/ring.rs";
    is_needed(
        "a_member_that_enters_a_construct_sees_what_the_first_member_made",
        file,
        &[("C2", RACE), ("C3", RACE)],
    );
    let ahead = "members_that_run_ahead_by_a_whole_ring_find_each_construct_as_it_was_laid_out";
    is_needed(ahead, file, &[("C4", RACE), ("C5", RACE), ("C1 and C3", RACE)]);
}

/// A member that frees the slot when it leaves, though the other one may be in the construct.
#[test]
fn a_member_that_does_not_wait_for_the_last_one_is_caught() {
    let name = "a_member_that_does_not_wait_for_the_last_one_is_caught";
    is_refuted(name, "", || region_of([1, 2], constructs_in_a_row));
}

/// A loop of three iterations with ordered regions, whose results are in one cell.
fn ordered() {
    region(|frame, cells: &Cells| {
        enter(frame, || Plan::ordered(iterations(3), SINGLE), |_| ());
        while let Some((begin, _)) = next(frame) {
            wait_for_turn(frame);
            assert_eq!(u64::from(cells.get(0)), begin, "out of turn");
            cells.add(0);
        }
        leave(frame);
    });
}

#[test]
fn ordered_regions_take_their_turns_and_see_those_before() {
    explore_within(2, ordered);
}

#[test]
fn the_orderings_of_turns_are_needed() {
    let name = "ordered_regions_take_their_turns_and_see_those_before";
    is_needed(name, "../engine/src/protocols/turn.rs", &[("T1", RACE), ("T2", RACE)]);
}

#[test]
fn a_member_that_does_not_wait_for_its_turn_is_caught() {
    is_refuted("a_member_that_does_not_wait_for_its_turn_is_caught", "", || {
        region(|frame, cells: &Cells| {
            enter(frame, || Plan::ordered(iterations(2), SINGLE), |_| ());
            while next(frame).is_some() {
                cells.add(0);
            }
            leave(frame);
        });
    });
}

/// A nest in which iteration j needs what j - 1 wrote. `posts`: each says that it is done.
fn chain(posts: bool) {
    let body: fn(&Frame, &Cells) = if posts {
        |frame, cells| doacross_by(frame, cells, true)
    } else {
        |frame, cells| doacross_by(frame, cells, false)
    };
    region(body);
}

fn doacross_by(frame: &Frame, cells: &Cells, posts: bool) {
    let plan = || Plan::new(iterations(3), SINGLE);
    enter(frame, plan, |shared| shared.doacross = Some(Doacross::new(&[3], SINGLE, 2)));
    while let Some((j, _)) = next(frame) {
        if j > 0 {
            doacross::wait(frame, |_| j - 1);
            assert_eq!(cells.get(j - 1), 1, "the iteration before has not run");
        }
        cells.add(j);
        if posts {
            doacross::post(frame, |_| j);
        }
    }
    leave(frame);
}

#[test]
fn an_iteration_sees_what_the_one_that_it_waits_for_did() {
    explore_within(2, || chain(true));
}

#[test]
fn the_orderings_of_cross_iteration_dependences_are_needed() {
    let name = "an_iteration_sees_what_the_one_that_it_waits_for_did";
    is_needed(name, "../engine/src/protocols/stage.rs", &[("P1", RACE), ("P2", RACE)]);
}

#[test]
fn an_iteration_that_is_never_posted_is_waited_for_for_ever() {
    let name = "an_iteration_that_is_never_posted_is_waited_for_for_ever";
    is_refuted(name, DEADLOCK, || chain(false));
}
