//! Models of a master that takes a virtual processor's part in its guise, on the shipped types.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_guise`. Beside them stand models with planted bugs, which loom must find.
#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use nanothreads::guise::Guise;
use nanothreads::slot::{Slot, Supplied};
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;

const GUISE: &str = "src/guise.rs";
const TWICE: &str = "a part was run twice, or never";

/// What a region tells its member: the last one to end.
const END: u32 = 0;
const WORK: u32 = 1;

/// A virtual processor: its line, its guise, and what belongs to it, here the parts that it has run.
struct Model {
    slot: Slot<u32>,
    guise: Guise<u32>,
    own: HandCell<u32>,
}

// SAFETY: - what this tests: `own` goes with the guise.
unsafe impl Sync for Model {}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// The own thread touches what it has lent.
    Touches,
    /// The master does not look whether the part is done.
    Blind,
}

impl Model {
    fn run_part(&self) {
        // SAFETY: - what loom checks.
        unsafe { self.own.with_mut(|parts| *parts += 1) };
    }

    /// The own thread: runs what it finds, and lends its guise while it finds nothing.
    fn lives(&self, planted: Planted) {
        let mut line = 0;
        loop {
            // SAFETY: - the slot's virtual processor.
            match unsafe { self.slot.poll(line) } {
                Supplied::Work(_, END) => return,
                Supplied::Work(number, _) => {
                    line = number;
                    self.run_part();
                    // SAFETY: - polled and run.
                    unsafe { self.slot.finish(number) };
                }
                Supplied::TakenBack(number) => line = number,
                Supplied::Nothing => {
                    let rest = || {
                        if planted == Planted::Touches {
                            // SAFETY: - planted.
                            unsafe { self.own.with_mut(|_| {}) };
                        }
                        thread::yield_now();
                    };
                    // SAFETY: - the own thread, which wears it; what `rest` touches is planted.
                    unsafe { self.guise.while_hung(|noted| *noted += 1, rest) };
                    line = line.max(self.slot.finished());
                }
            }
        }
    }

    /// The master supplies a part, and takes it if it can.
    fn forks(&self, planted: Planted) {
        // SAFETY: - the only master; joined below.
        unsafe { self.slot.supply(WORK, false) };
        let run = |noted: *mut u32| {
            // SAFETY: - taken.
            unsafe { assert!(*noted > 0, "nothing was noted") };
            if planted == Planted::Blind || !self.slot.is_joined() {
                self.run_part();
                // SAFETY: - supplied above, and not begun.
                unsafe { self.slot.finish_in_its_guise() };
            }
        };
        // SAFETY: - the only one beside the own thread.
        let _ = unsafe { self.guise.take(run) };
        while !self.slot.is_joined() {
            thread::yield_now();
        }
    }
}

/// So many regions.
fn regions(count: u32, planted: Planted) {
    let model = Arc::new(Model { slot: Slot::new(END), guise: Guise::new(0), own: HandCell::new(0) });
    let own = {
        let model = Arc::clone(&model);
        thread::spawn(move || model.lives(planted))
    };
    (0..count).for_each(|_| model.forks(planted));
    // SAFETY: - joined.
    unsafe { model.slot.supply(END, false) };
    own.join().expect("it does not panic");
    // SAFETY: - the other thread has ended.
    unsafe { model.own.with(|parts| assert_eq!(*parts, count, "{TWICE}")) };
}

#[test]
fn each_part_is_run_once_by_the_own_thread_or_in_its_guise() {
    explore(|| regions(2, Planted::Nothing));
    let name = "each_part_is_run_once_by_the_own_thread_or_in_its_guise";
    is_needed(name, GUISE, &[("G1", RACE), ("G2", RACE), ("G3", RACE), ("G4", RACE)]);
}

#[test]
fn an_own_thread_that_touches_what_it_has_lent_is_caught() {
    is_refuted("an_own_thread_that_touches_what_it_has_lent_is_caught", RACE, || regions(1, Planted::Touches));
}

#[test]
fn a_master_that_does_not_look_whether_the_part_is_done_is_caught() {
    is_refuted("a_master_that_does_not_look_whether_the_part_is_done_is_caught", TWICE, || regions(1, Planted::Blind));
}
