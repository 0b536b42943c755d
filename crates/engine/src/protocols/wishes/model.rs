//! A model of a program whose request falls and rises: a worker that falls asleep lowers it while
//! its master forks. On the shipped types: wishes and sleeper.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib wishes::model`. Each
//! has a twin with a planted bug that loom must find.

use crate::protocols::sleeper::{Preparation, Sleeper, wake};
use crate::protocols::wait_point::Look;
use crate::protocols::wishes::{Asks, SERIAL, Wishes};
use crate::sizer::Lease;
use loom::sync::Arc;
use loom::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use loom::thread;
use platform::affinity::CpuId;
use platform::membarrier;
use platform::model::{DEADLOCK, explore, is_needed, is_refuted};

/// What the masters want.
const WANTED: u32 = 2;

/// What a model says of a region that has less than it wants.
const DOWN: &str = "a region is out, and the wish is down";

/// What the manager was told last.
struct Told {
    requested: AtomicU32,
    released: AtomicBool,
}

impl Asks for Told {
    fn request(&self, processors: u32) {
        self.requested.store(processors, Relaxed);
    }
    fn request_for_now(&self, processors: u32) {
        self.request(processors);
    }
    fn release(&self, _: CpuId) {
        self.released.store(true, Relaxed);
    }
    fn resume(&self) {
        self.released.store(false, Relaxed);
    }
    fn cpu_of(&self, seat: usize) -> Option<CpuId> {
        (seat == 1).then_some(CpuId(1))
    }
    fn granted(&self) -> u32 {
        WANTED
    }
    fn await_grant(&self, _: u32) {}
}

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// A worker that lowered and then found work does not rise.
    StaysDown,
    /// It lowers when it has looked for the last time, after the mark by which its master sees that
    /// it sleeps.
    LowersUnseen,
    /// What is asked for is said when the lock is free again.
    SaysItLater,
}

/// Says what is asked for only when it is told to: outside the lock.
struct Later<'a>(&'a Told, std::cell::Cell<Option<u32>>);

impl<'a> Later<'a> {
    fn of(told: &'a Told) -> Self {
        Self(told, std::cell::Cell::new(None))
    }

    fn say(&self) {
        if let Some(processors) = self.1.take() {
            self.0.request(processors);
        }
    }
}

impl Asks for Later<'_> {
    fn request(&self, processors: u32) {
        self.1.set(Some(processors));
    }
    fn request_for_now(&self, processors: u32) {
        self.request(processors);
    }
    fn release(&self, cpu: CpuId) {
        self.0.release(cpu);
    }
    fn resume(&self) {
        self.0.resume();
    }
    fn cpu_of(&self, seat: usize) -> Option<CpuId> {
        self.0.cpu_of(seat)
    }
    fn granted(&self) -> u32 {
        WANTED
    }
    fn await_grant(&self, _: u32) {}
}

struct Model {
    told: Told,
    wishes: Wishes,
    sleeper: Sleeper<()>,
    supplied: AtomicBool,
    lease: Lease,
    planted: Planted,
}

impl Model {
    fn lower(&self) {
        if self.planted == Planted::SaysItLater {
            let later = Later::of(&self.told);
            self.wishes.lower(&later, 1, self.lease, SERIAL, 0);
            later.say();
        } else {
            self.wishes.lower(&self.told, 1, self.lease, SERIAL, 0);
        }
    }

    fn rise(&self) {
        if self.wishes.are_down() {
            self.wishes.rise(&self.told, WANTED as usize);
        }
    }

    /// As `Worker::sleep`.
    fn wait_for_work(&self) {
        let mut is_told = false;
        let look = || {
            if self.supplied.load(Acquire) {
                return Look::Ready;
            }
            if !is_told {
                is_told = true;
                self.lower();
            }
            Look::Pending
        };
        self.sleeper.sleep_until(look, Preparation::only(|()| {}));
        if self.planted == Planted::LowersUnseen {
            self.lower();
        } else if is_told && self.planted != Planted::StaysDown {
            self.rise();
        }
    }
}

/// A worker has nothing to do, while its master forks: the region has what the program
/// wants when both are in it.
fn region_while_it_falls(lease: Lease, planted: Planted) {
    let told = Told { requested: AtomicU32::new(0), released: AtomicBool::new(false) };
    let sleeper = Sleeper::new(());
    let model = Model {
        told,
        wishes: Wishes::new(),
        sleeper,
        supplied: AtomicBool::new(false),
        lease,
        planted,
    };
    // The sleeper's wake wants it for ever.
    let model: &'static Model = Box::leak(Box::new(model));
    model.wishes.ask(&model.told, WANTED as usize);
    let worker = thread::spawn(move || model.wait_for_work());
    model.rise();
    model.supplied.store(true, Release);
    membarrier::light();
    if model.sleeper.may_sleep() {
        wake(&[&model.sleeper], Preparation::only(|()| {}));
    }
    worker.join().unwrap();
    assert!(!model.wishes.are_down(), "{DOWN}");
    assert_eq!(model.told.requested.load(Relaxed), WANTED, "the request stays down");
    assert!(!model.told.released.load(Relaxed), "a processor stays given back");
}

#[test]
fn a_request_that_falls_beside_a_fork_rises_again() {
    explore(|| region_while_it_falls(Lease::Dedicated, Planted::Nothing));
}

#[test]
fn a_processor_that_is_given_back_beside_a_fork_is_wanted_again() {
    explore(|| region_while_it_falls(Lease::Wanted, Planted::Nothing));
}

#[test]
fn a_thread_that_lowered_and_does_not_rise_when_it_finds_work_is_caught() {
    is_refuted(
        "a_thread_that_lowered_and_does_not_rise_when_it_finds_work_is_caught",
        DOWN,
        || {
            region_while_it_falls(Lease::Dedicated, Planted::StaysDown);
        },
    );
}

#[test]
fn a_thread_that_lowers_after_its_last_look_is_caught() {
    is_refuted("a_thread_that_lowers_after_its_last_look_is_caught", DOWN, || {
        region_while_it_falls(Lease::Wanted, Planted::LowersUnseen);
    });
}

#[test]
fn a_thread_about_to_sleep_needs_its_fence_before_it_lowers() {
    is_needed(
        "a_request_that_falls_beside_a_fork_rises_again",
        "src/protocols/sleeper.rs",
        &[("W2", DEADLOCK)],
    );
}

/// A worker lowers while the master rises after an earlier fall: what was said last is what the
/// state says.
fn fall_and_rise(planted: Planted) {
    let model = Arc::new(Model {
        told: Told { requested: AtomicU32::new(0), released: AtomicBool::new(false) },
        wishes: Wishes::new(),
        sleeper: Sleeper::new(()),
        supplied: AtomicBool::new(false),
        lease: Lease::Dedicated,
        planted,
    });
    model.wishes.ask(&model.told, WANTED as usize);
    let worker = {
        let model = Arc::clone(&model);
        thread::spawn(move || model.lower())
    };
    model.rise();
    worker.join().unwrap();
    let expected = if model.wishes.are_down() { 1 } else { WANTED };
    assert_eq!(model.told.requested.load(Relaxed), expected, "no master will ever ask again");
}

#[test]
fn what_was_said_last_is_what_the_state_says() {
    explore(|| fall_and_rise(Planted::Nothing));
}

#[test]
fn a_word_outside_the_lock_is_caught() {
    is_refuted("a_word_outside_the_lock_is_caught", "no master will ever ask again", || {
        fall_and_rise(Planted::SaysItLater)
    });
}
