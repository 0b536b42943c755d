//! A region of two workers, one of which calls the other; on the shipped types.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib summons::model`. The
//! twins have planted bugs that loom must find.

use crate::protocols::open_ring::OpenRing;
use crate::protocols::slot::{Slot, Supplied};
use crate::protocols::summons::Summons;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering::Relaxed};
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;
use std::ptr::NonNull;

/// What a call holds: plain memory.
struct Call(HandCell<u32>);

// SAFETY: - what the models are to prove: the protocol orders all accesses.
unsafe impl Sync for Call {}
// SAFETY: - as above.
unsafe impl Send for Call {}

impl Call {
    fn content(&self) -> u32 {
        // SAFETY: - as above.
        unsafe { self.0.with(|content| *content) }
    }
}

struct Machine {
    summons: Summons<Call>,
    lines: [Slot<u32>; 2],
    /// Of the second worker.
    offers: OpenRing<u32>,
    /// The second worker's part is done.
    has_run: AtomicBool,
}

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Twin {
    None,
    /// The master says that all work is supplied after the first line.
    EarlySupplied,
    /// The second worker takes an offer as soon as it finds one.
    NoSecondLook,
    /// The master does not wait until the offer is done.
    NoWaitForHelp,
}

const UNSERVED: &str = "helped before its own part";

impl Machine {
    /// The first worker: its part calls the second.
    fn caller(&self) {
        let call = Box::new(Call(HandCell::new(0)));
        // SAFETY: - no other thread knows it.
        unsafe { call.0.with_mut(|content| *content = 7) };
        // SAFETY: - this thread plays the worker.
        assert_ne!(unsafe { self.lines[0].poll(0) }, Supplied::Nothing, "supplied before");
        assert!(self.summons.make(call).is_ok(), "it is the first");
        assert!(self.offers.offer(1).is_some(), "the ring has room");
        // SAFETY: - this thread plays the worker, and is done with what it polled.
        unsafe { self.lines[0].finish(1) };
    }

    /// The second worker's look at its line.
    fn part(&self) {
        // SAFETY: - this thread plays the worker, and is done with what it polled.
        unsafe {
            if !self.has_run.load(Relaxed) && self.lines[1].poll(0) != Supplied::Nothing {
                self.has_run.store(true, Relaxed);
                self.lines[1].finish(1);
            }
        }
    }

    /// The second worker, one turn: its part, then the offer.
    fn called(&self, twin: Twin) {
        self.part();
        // SAFETY: - one thread takes the offer.
        if unsafe { self.offers.poll(0) }.is_none() {
            return;
        }
        if twin != Twin::NoSecondLook {
            self.part();
        }
        assert!(self.has_run.load(Relaxed), "{UNSERVED}");
        let call = self.summons.call().expect("it is offered");
        if !self.summons.is_over() {
            // SAFETY: - the master waits for the end of the offer.
            assert_eq!(unsafe { call.as_ref() }.content(), 7);
        }
        // SAFETY: - this thread took the offer.
        unsafe { self.offers.finish(0) };
    }

    /// The master, when all have arrived: takes the call back when no thread answers it any more.
    fn end(&self, twin: Twin) -> Option<NonNull<Call>> {
        if !self.lines.iter().all(Slot::is_joined) {
            return None;
        }
        self.summons.end();
        if twin != Twin::NoWaitForHelp && !self.offers.is_done(0) {
            return None;
        }
        let call = self.summons.forget().expect("the arrivals show it");
        // SAFETY: - as told above, unless the twin does not wait.
        unsafe { call.as_ref().0.with_mut(|content| *content = 0) };
        Some(call)
    }
}

fn run(twin: Twin) {
    let machine = Arc::new(Machine {
        summons: Summons::new(),
        lines: [Slot::new(0), Slot::new(0)],
        offers: OpenRing::new(0),
        has_run: AtomicBool::new(false),
    });
    let Machine { summons, lines, .. } = &*machine;
    summons.begin();
    // SAFETY: - one master; both are joined below.
    unsafe { lines[0].supply(1, false) };
    let (first, second) = (Arc::clone(&machine), Arc::clone(&machine));
    let first = thread::spawn(move || first.caller());
    let second = thread::spawn(move || second.called(twin));
    if twin == Twin::EarlySupplied {
        summons.supplied();
    }
    // SAFETY: - as above.
    unsafe { lines[1].supply(1, false) };
    summons.supplied();
    if let Some(call) = summons.call() {
        // SAFETY: - the master has not taken it back.
        assert_eq!(unsafe { call.as_ref() }.content(), 7);
    }
    let early = machine.end(twin);
    first.join().expect("it ends");
    let early = early.or_else(|| machine.end(twin));
    second.join().expect("it ends");
    let call = early.unwrap_or_else(|| {
        // The worker's next turn, unless it has taken the offer.
        if !machine.offers.is_done(0) {
            machine.called(twin);
        }
        machine.end(twin).expect("all have arrived, and left")
    });
    assert!(!summons.is_called() && !summons.is_over(), "the next region has none");
    // SAFETY: - made from a box; both threads have ended.
    drop(unsafe { Box::from_raw(call.as_ptr()) });
}

#[test]
fn a_member_that_is_called_has_done_its_part_and_finds_the_call() {
    explore(|| run(Twin::None));
}

#[test]
fn each_ordering_of_a_call_is_needed() {
    let tags = [("R2", RACE), ("R3", RACE), ("R6", UNSERVED), ("R7", UNSERVED)];
    is_needed(
        "a_member_that_is_called_has_done_its_part_and_finds_the_call",
        "src/protocols/summons.rs",
        &tags,
    );
}

#[test]
fn a_master_that_names_its_work_supplied_too_early_is_caught() {
    is_refuted("a_master_that_names_its_work_supplied_too_early_is_caught", UNSERVED, || {
        run(Twin::EarlySupplied)
    });
}

#[test]
fn a_worker_that_does_not_look_at_its_line_again_is_caught() {
    is_refuted("a_worker_that_does_not_look_at_its_line_again_is_caught", UNSERVED, || {
        run(Twin::NoSecondLook)
    });
}

#[test]
fn a_master_that_does_not_wait_for_its_helpers_is_caught() {
    is_refuted("a_master_that_does_not_wait_for_its_helpers_is_caught", RACE, || {
        run(Twin::NoWaitForHelp)
    });
}
