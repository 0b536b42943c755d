//! Two masters and one worker, on the shipped type: the owner's regions against a taker.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib custody::model`. The
//! twins have planted bugs that loom must find.

use crate::protocols::custody::{Custody, Outcome};
use loom::sync::{Arc, Mutex};
use loom::thread;
use platform::model::{RACE, explore, is_needed, is_refuted};
use platform::sync::HandCell;

const FORGOT: &str = "the owner forgot that the worker was taken";

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Twin {
    None,
    /// The owner looks whether the worker was taken before it says that a region is open.
    EarlyLook,
    /// The owner closes its region before it takes its result off the worker's line.
    EarlyClose,
    /// The owner goes on with the worker that it knew, though it was taken.
    NoComingBack,
    /// The owner leads a group, and puts back what it had read before that.
    ReadAndWrite,
}

struct Machine {
    custody: Custody,
    /// The list: the worker stands in it, and the owner does not know that it was taken.
    list: Mutex<(bool, bool)>,
    /// The worker's line: plain memory of its master.
    line: HandCell<u32>,
}

// SAFETY: - what the models are to prove: the protocol orders all accesses.
unsafe impl Sync for Machine {}
// SAFETY: - as above.
unsafe impl Send for Machine {}

impl Machine {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            custody: Custody::new(0),
            list: Mutex::new((true, false)),
            line: HandCell::new(0),
        })
    }

    fn use_worker(&self) {
        // SAFETY: - as above.
        unsafe { self.line.with_mut(|line| *line += 1) };
    }

    /// True when the owner has the worker after that.
    fn come_back(&self) -> bool {
        let mut list = self.list.lock().unwrap();
        let taken = std::mem::take(&mut list.1);
        self.custody.come_back();
        !taken
    }

    /// The owner's region; true when it had the worker.
    fn region(&self, has: bool, twin: Twin) -> bool {
        let early = self.custody.is_root_at(0);
        let depth = self.custody.open();
        let is_own = if twin == Twin::EarlyLook { early } else { self.custody.is_root_at(depth) };
        let has = match (is_own, twin) {
            (true, _) | (false, Twin::NoComingBack) => has,
            (false, _) => self.come_back() && has,
        };
        if has && twin != Twin::EarlyClose {
            self.use_worker();
        }
        self.custody.close(depth);
        if has && twin == Twin::EarlyClose {
            self.use_worker();
        }
        has
    }

    /// The owner leads a group inside a region.
    fn lead(&self, has: bool, twin: Twin) -> bool {
        let depth = self.custody.open();
        let has = if self.custody.is_root_at(depth) { has } else { self.come_back() && has };
        if twin == Twin::ReadAndWrite {
            let before = if self.custody.is_root_at(0) { 0 } else { super::LOST };
            thread::yield_now();
            self.custody.swap_root(1);
            self.custody.swap_root(before);
        } else {
            let before = self.custody.swap_root(1);
            self.custody.swap_root(before);
        }
        self.custody.close(depth);
        has
    }

    /// The taker.
    fn take(&self) {
        let mut list = self.list.lock().unwrap();
        if !list.0 || self.custody.take() != Outcome::Taken {
            return;
        }
        *list = (false, true);
        drop(list);
        self.use_worker();
    }
}

/// Two regions of the owner, the first one of which may lead a group, and a taker.
fn regions(twin: Twin, leads: bool) {
    let machine = Machine::new();
    let taker = {
        let machine = Arc::clone(&machine);
        thread::spawn(move || machine.take())
    };
    let has = if leads { machine.lead(true, twin) } else { machine.region(true, twin) };
    let has = machine.region(has, twin);
    taker.join().unwrap();
    if machine.region(has, twin) {
        let list = machine.list.lock().unwrap();
        assert!(list.0, "{FORGOT}");
    }
}

/// Two takers: one worker is taken once.
fn takers() {
    let machine = Machine::new();
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.take())
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // SAFETY: - all other threads have ended.
    assert_eq!(unsafe { machine.line.with(|line| *line) }, 1);
}

#[test]
fn a_worker_has_one_master_at_a_time() {
    explore(|| regions(Twin::None, false));
}

#[test]
fn so_it_has_when_its_owner_leads_a_group_meanwhile() {
    explore(|| regions(Twin::None, true));
}

#[test]
fn of_two_takers_one_has_it() {
    explore(takers);
}

#[test]
fn orderings_are_needed() {
    let file = "src/protocols/custody.rs";
    is_needed("a_worker_has_one_master_at_a_time", file, &[("D4", RACE), ("T3", RACE)]);
}

#[test]
fn an_early_look_is_refuted() {
    is_refuted("an_early_look_is_refuted", RACE, || regions(Twin::EarlyLook, false));
}

#[test]
fn an_early_close_is_refuted() {
    is_refuted("an_early_close_is_refuted", RACE, || regions(Twin::EarlyClose, false));
}

#[test]
fn an_owner_that_does_not_come_back_is_refuted() {
    is_refuted("an_owner_that_does_not_come_back_is_refuted", FORGOT, || {
        regions(Twin::NoComingBack, false)
    });
}

#[test]
fn a_group_that_writes_back_what_it_read_is_refuted() {
    is_refuted("a_group_that_writes_back_what_it_read_is_refuted", RACE, || {
        regions(Twin::ReadAndWrite, true)
    });
}
