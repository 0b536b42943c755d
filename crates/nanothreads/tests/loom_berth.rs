//! Models of a virtual processor that is put somewhere while it runs, on the shipped type.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_berth`. Each has a twin with a planted bug that loom must find.
#![cfg(loom)]

use loom::sync::{Arc, Mutex};
use loom::thread;
use nanothreads::berth::Berth;
use platform::model::{explore, is_needed, is_refuted};

/// Masks of a thread: the program's, that of its home only, and that of what binds it. Nobody's own mask is 0.
const PROGRAMS: u32 = 1;
const HOME: u32 = 2;
const BOUND: u32 = 3;

const BERTH: &str = "src/berth.rs";
const MOVED: &str = "it is not where it is bound";

/// A virtual processor and its mask. The kernel binds under a lock.
struct Model {
    berth: Berth,
    mask: Mutex<u32>,
}

impl Model {
    /// Created by a thread that is bound itself.
    fn born() -> Arc<Self> {
        Arc::new(Self { berth: Berth::new(), mask: Mutex::new(BOUND) })
    }

    /// One that has run, and is free.
    fn free() -> Arc<Self> {
        let model = Self::born();
        model.berth.first(|| model.take(PROGRAMS), || {});
        model.berth.settle(|| model.take(PROGRAMS));
        model
    }

    fn take(&self, mask: u32) {
        *self.mask.lock().unwrap() = mask;
    }

    fn mask(&self) -> u32 {
        *self.mask.lock().unwrap()
    }

    fn wake(&self) {
        self.berth.put(|| self.take(HOME), || self.take(PROGRAMS));
    }

    fn settle(&self) {
        self.berth.settle(|| self.take(PROGRAMS));
    }

    /// Makes a child, which has the mask of the program.
    fn start_a_child(&self) {
        let held = self.berth.hold();
        if held.was_put() {
            self.take(PROGRAMS);
        }
        assert_eq!(self.mask(), PROGRAMS, "the child has another mask");
    }
}

/// Runs `other` beside the virtual processor `own`.
fn beside(model: &Arc<Model>, other: impl FnOnce(&Model) + Send + 'static, own: impl FnOnce(&Model)) {
    let other = {
        let model = Arc::clone(model);
        thread::spawn(move || other(&model))
    };
    own(model);
    other.join().unwrap();
}

/// It runs, makes a child, and runs again at the end.
fn lives(model: &Arc<Model>, other: impl FnOnce(&Model) + Send + 'static) {
    beside(model, other, |vp| {
        vp.settle();
        vp.start_a_child();
    });
    model.settle();
    assert_eq!(model.mask(), PROGRAMS, "it was left where it was put");
    model.start_a_child();
}

#[test]
fn what_it_starts_before_its_creator_has_put_it_has_the_programs_mask() {
    explore(|| lives(&Model::born(), |vp| vp.berth.first(|| vp.take(HOME), || vp.take(PROGRAMS))));
}

#[test]
fn what_it_starts_while_it_is_woken_late_has_the_programs_mask() {
    explore(|| lives(&Model::free(), Model::wake));
}

#[test]
fn a_creator_that_leaves_it_where_it_put_it_is_caught() {
    is_refuted("a_creator_that_leaves_it_where_it_put_it_is_caught", "the child has another mask", || {
        lives(&Model::born(), |vp| vp.berth.first(|| vp.take(HOME), || {}));
    });
}

/// As whoever wakes it did once: it puts it there, whatever it is doing.
#[test]
fn who_puts_it_without_asking_is_caught() {
    is_refuted("who_puts_it_without_asking_is_caught", "it was left where it was put", || {
        lives(&Model::free(), |vp| vp.take(HOME));
    });
}

/// Its master binds it while `other` happens: it is where it was bound.
fn bound(other: fn(&Model), bind: impl FnOnce(&Model)) {
    let model = Model::free();
    model.wake();
    beside(&model, other, bind);
    model.settle();
    model.wake();
    assert_eq!(model.mask(), BOUND, "{MOVED}");
}

fn bind(vp: &Model) {
    vp.berth.bind(true, || vp.take(BOUND));
}

/// The planted one binds it first, and then says so.
fn bind_at_once(vp: &Model) {
    vp.take(BOUND);
    vp.berth.bind(true, || {});
}

#[test]
fn who_is_bound_while_it_is_woken_late_stays_where_it_is_bound() {
    explore(|| bound(Model::wake, bind));
    is_needed("who_is_bound_while_it_is_woken_late_stays_where_it_is_bound", BERTH, &[("B2", MOVED), ("P2", MOVED)]);
}

#[test]
fn who_is_bound_while_it_settles_stays_where_it_is_bound() {
    explore(|| bound(Model::settle, bind));
    is_needed("who_is_bound_while_it_settles_stays_where_it_is_bound", BERTH, &[("S2", MOVED)]);
}

#[test]
fn who_binds_it_without_waiting_is_caught() {
    is_refuted("who_binds_it_without_waiting_is_caught", MOVED, || bound(Model::wake, bind_at_once));
}

#[test]
fn who_binds_it_without_waiting_while_it_settles_is_caught() {
    is_refuted("who_binds_it_without_waiting_while_it_settles_is_caught", MOVED, || {
        bound(Model::settle, bind_at_once);
    });
}
