//! Models of a worker that is put somewhere, bound, and let go while it runs, on the shipped type.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib affinity_state::model`.
//! Beside them stand models with planted bugs, which loom must find.

use crate::placement::affinity_state::{AffinityState, NO_GRANT};
use crate::protocols::sleeper::{Preparation, Sleeper};
use crate::protocols::wait_point::Look;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;
use platform::membarrier;
use platform::model::{explore, explore_within, is_needed, is_refuted};

/// Masks of a thread: the program's, that of its home only, and that of what binds it. No mask is
/// 0.
const PROGRAMS: u32 = 1;
const HOME: u32 = 2;
const BOUND: u32 = 3;

const STATE: &str = "src/placement/affinity_state.rs";
const MOVED: &str = "it is not where it is bound";

/// A worker, its mask, and where it sleeps. The kernel binds under a lock.
struct Model {
    affinity: AffinityState,
    mask: Mutex<u32>,
    sleeper: Sleeper<AtomicBool>,
}

/// The waker, and how it wakes: the planted ones do not take back what was in vain, or put the
/// worker without asking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waker {
    Shipped,
    Once,
    Rude,
}

impl Model {
    /// One that was just created, by a thread that is bound itself, and sleeps.
    fn new() -> Self {
        Self {
            affinity: AffinityState::new(),
            mask: Mutex::new(BOUND),
            sleeper: Sleeper::new(AtomicBool::new(false)),
        }
    }

    /// One that has run, and is free.
    fn free() -> Arc<Self> {
        let model = Self::new();
        model.affinity.free_first(|| model.take(PROGRAMS));
        model.settle();
        Arc::new(model)
    }

    fn take(&self, mask: u32) {
        *self.mask.lock().unwrap() = mask;
    }

    fn mask(&self) -> u32 {
        *self.mask.lock().unwrap()
    }

    fn put(&self) {
        self.affinity.put(|| self.take(HOME), || self.free_from());
    }

    /// Unless something else bound it.
    fn free_from(&self) {
        let mut mask = self.mask.lock().unwrap();
        if *mask == HOME {
            *mask = PROGRAMS;
        }
    }

    /// Makes true what it sleeps for, and wakes it.
    fn wake(&self, how: Waker) {
        self.sleeper.who.store(true, Relaxed);
        // ORDERING: light fence - pairs with the sleeper's heavy one.
        membarrier::light();
        if !self.sleeper.may_sleep() {
            return;
        }
        if how == Waker::Rude {
            self.take(HOME)
        } else {
            self.put()
        }
        if !self.sleeper.wake_if_asleep() && how == Waker::Shipped {
            self.affinity.take_back(|| self.free_from());
        }
    }

    /// Sleeps until it is to run, and runs.
    fn runs(&self) {
        self.sleeper
            .sleep_until(|| Look::from(self.sleeper.who.load(Relaxed)), Preparation::only(|_| {}));
        self.settle();
    }

    fn settle(&self) {
        self.affinity.settle(|| self.take(PROGRAMS));
    }

    /// Makes a child, which has the mask of the program.
    fn start_a_child(&self) {
        let _held = self.affinity.hold(|| self.free_from());
        assert_eq!(self.mask(), PROGRAMS, "the child has another mask");
    }
}

/// Runs `other` on a thread of its own beside `own`: one of the two is the worker's.
fn beside(
    model: &Arc<Model>,
    other: impl FnOnce(&Model) + Send + 'static,
    own: impl FnOnce(&Model),
) {
    let other = {
        let model = Arc::clone(model);
        thread::spawn(move || other(&model))
    };
    own(model);
    other.join().unwrap();
}

/// It wakes, runs, and makes children, while it is woken.
fn lives(how: Waker) {
    let model = Model::free();
    let runs = |worker: &Model| {
        worker.runs();
        worker.start_a_child();
    };
    beside(&model, runs, |worker| worker.wake(how));
    assert_eq!(model.mask(), PROGRAMS, "it runs where it was put");
    model.start_a_child();
}

#[test]
fn what_is_woken_while_it_leaves_its_bed_is_free_and_starts_what_is_free() {
    explore(|| lives(Waker::Shipped));
}

#[test]
fn a_waker_that_does_not_take_back_what_it_did_in_vain_is_caught() {
    is_refuted(
        "a_waker_that_does_not_take_back_what_it_did_in_vain_is_caught",
        "it runs where it was put",
        || {
            lives(Waker::Once);
        },
    );
}

#[test]
fn a_waker_that_puts_it_without_asking_is_caught() {
    is_refuted("a_waker_that_puts_it_without_asking_is_caught", "it runs where it was put", || {
        lives(Waker::Rude)
    });
}

/// The system asks what a new one starts before its creator has put it.
fn is_born(put: impl FnOnce(&Model) + Send + 'static) {
    let model = Arc::new(Model::new());
    beside(&model, put, Model::start_a_child);
    model.settle();
    model.start_a_child();
}

#[test]
fn what_it_starts_before_its_creator_has_put_it_has_the_programs_mask() {
    explore(|| is_born(|worker| worker.affinity.put_first(|| worker.take(HOME))));
    explore(|| is_born(|worker| worker.affinity.free_first(|| worker.take(PROGRAMS))));
}

#[test]
fn a_creator_that_says_so_first_is_caught() {
    is_refuted("a_creator_that_says_so_first_is_caught", "the child has another mask", || {
        is_born(|worker| {
            worker.affinity.put_first(|| {});
            worker.take(HOME);
        });
    });
}

/// Its master binds it while `other` happens: it is where it was bound.
fn bound(other: fn(&Model), bind: impl FnOnce(&Model)) {
    let model = Model::free();
    model.put();
    beside(&model, other, bind);
    model.settle();
    model.put();
    assert_eq!(model.mask(), BOUND, "{MOVED}");
}

fn bind(worker: &Model) {
    worker.affinity.bind(|| worker.take(BOUND));
}

/// The planted one binds it first, and then says so.
fn bind_at_once(worker: &Model) {
    worker.take(BOUND);
    worker.affinity.bind(|| {});
}

fn take_back(worker: &Model) {
    worker.affinity.take_back(|| worker.take(PROGRAMS));
}

fn pass_by(worker: &Model) {
    worker.affinity.pass_by(|| {
        worker.take(HOME);
        worker.take(PROGRAMS);
    });
}

fn hold(worker: &Model) {
    drop(worker.affinity.hold(|| worker.take(PROGRAMS)));
}

#[test]
fn a_worker_that_is_bound_while_it_is_woken_late_stays_where_it_is_bound() {
    explore(|| bound(Model::put, bind));
    is_needed(
        "a_worker_that_is_bound_while_it_is_woken_late_stays_where_it_is_bound",
        STATE,
        &[("B2", MOVED), ("P2", MOVED)],
    );
}

#[test]
fn a_worker_that_is_bound_while_it_settles_stays_where_it_is_bound() {
    explore(|| bound(Model::settle, bind));
    is_needed(
        "a_worker_that_is_bound_while_it_settles_stays_where_it_is_bound",
        STATE,
        &[("S2", MOVED)],
    );
}

#[test]
fn a_worker_that_is_bound_while_it_is_taken_back_or_starts_something_stays_where_it_is_bound() {
    explore(|| bound(take_back, bind));
    explore(|| bound(pass_by, bind));
    explore(|| bound(hold, bind));
}

/// What it starts while it is unbound has the mask of the program, if the worker does not know that
/// it is bound; a worker that knows takes that mask itself.
fn is_unbound(unbind: fn(&Model)) {
    let model = Model::free();
    bind(&model);
    beside(&model, unbind, |worker| {
        if !worker.affinity.is_bound() {
            worker.start_a_child();
        }
    });
    assert_eq!(model.mask(), PROGRAMS);
}

#[test]
fn what_it_starts_while_it_is_unbound_has_the_programs_mask() {
    explore(|| is_unbound(|worker| worker.affinity.unbind(|| worker.take(PROGRAMS))));
}

#[test]
fn an_unbinder_that_says_so_too_early_is_caught() {
    is_refuted(
        "an_unbinder_that_says_so_too_early_is_caught",
        "the child has another mask",
        || {
            is_unbound(|worker| {
                worker.affinity.unbind(|| {});
                worker.take(PROGRAMS);
            });
        },
    );
}

#[test]
fn a_binder_that_does_not_wait_is_caught() {
    is_refuted("a_binder_that_does_not_wait_is_caught", MOVED, || bound(Model::put, bind_at_once));
}

#[test]
fn a_binder_that_does_not_wait_while_it_settles_is_caught() {
    is_refuted("a_binder_that_does_not_wait_while_it_settles_is_caught", MOVED, || {
        bound(Model::settle, bind_at_once);
    });
}

/// Epochs of grants, the second of which puts the worker nowhere: it may run where the program may.
const FIRST: u32 = 1;
const SECOND: u32 = 3;

/// A worker that has run, and the grant in force.
struct Granted {
    worker: Arc<Model>,
    grant: AtomicU32,
}

impl Granted {
    fn new() -> Arc<Self> {
        Arc::new(Self { worker: Model::free(), grant: AtomicU32::new(FIRST) })
    }

    /// The mask by the grant in force.
    fn place(&self) -> u32 {
        if self.grant.load(Relaxed) == FIRST { BOUND } else { PROGRAMS }
    }

    /// The worker comes to a safe point.
    fn look(&self) {
        let (affinity, epoch) = (&self.worker.affinity, self.grant.load(Relaxed));
        if !affinity.follows(epoch) {
            affinity.follow(epoch, || match self.place() {
                BOUND => affinity.bind(|| self.worker.take(BOUND)),
                _ => affinity.unbind(|| self.worker.take(PROGRAMS)),
            });
        }
    }

    /// As a thread that sees the manager die; the planted one tells the worker first.
    fn let_go(&self, last: bool) {
        let affinity = &self.worker.affinity;
        let put = || affinity.unbind(|| self.worker.take(PROGRAMS));
        if last {
            affinity.put_elsewhere(put);
        } else {
            affinity.put_elsewhere(|| {});
            put();
        }
    }
}

const AWAY: &str = "it is not where it should be";
const TAKEN: &str = "it is bound, and taken for unbound";

/// A worker looks twice while another thread lets it go. At the next look it is where the grant in
/// force then says: the same one, another one, or none, since the manager is gone.
fn followed(comes: u32, last: bool) {
    let model = Granted::new();
    let other = {
        let model = Arc::clone(&model);
        thread::spawn(move || {
            model.grant.store(comes, Relaxed);
            model.let_go(last);
        })
    };
    model.look();
    model.look();
    other.join().unwrap();
    model.look();
    assert_eq!(model.worker.mask(), model.place(), "{AWAY}");
    assert_eq!(model.worker.affinity.is_bound(), model.place() == BOUND, "{TAKEN}");
}

#[test]
fn a_worker_that_was_put_elsewhere_finds_its_place_again() {
    explore(|| followed(FIRST, true));
    explore(|| followed(SECOND, true));
    is_needed(
        "a_worker_that_was_put_elsewhere_finds_its_place_again",
        STATE,
        &[("F2", TAKEN), ("G2", TAKEN)],
    );
}

#[test]
fn a_worker_that_is_let_go_when_the_manager_dies_is_free_in_the_end() {
    explore(|| followed(NO_GRANT, true));
}

#[test]
fn a_worker_that_is_told_before_it_is_put_elsewhere_is_caught() {
    is_refuted("a_worker_that_is_told_before_it_is_put_elsewhere_is_caught", TAKEN, || {
        followed(FIRST, false);
    });
}

/// What a waker does, what binds it by a grant, and what lets it go, all at once: in the end it is
/// where the grant in force puts it.
#[test]
fn a_worker_that_is_woken_late_while_it_follows_and_is_let_go_finds_its_place() {
    explore_within(2, || {
        let model = Granted::new();
        let others: [fn(&Granted); 2] = [|model| model.worker.put(), |model| model.let_go(true)];
        let others = others.map(|other| {
            let model = Arc::clone(&model);
            thread::spawn(move || other(&model))
        });
        model.worker.settle();
        model.look();
        others.into_iter().for_each(|other| other.join().unwrap());
        model.worker.settle();
        model.look();
        assert_eq!(model.worker.mask(), BOUND, "{AWAY}");
    });
}

/// Masks of two helpers.
const HELPERS: [u32; 2] = [101, 102];

/// Two threads that wait find the same squeezed worker, which comes to a safe point at the same
/// time: one of them helps, and at its next safe point the helped one is in its own place again.
/// The planted ones read a mark of their own, and then write it.
fn helped(swaps: bool) {
    let model = Arc::new((Granted::new(), AtomicU32::new(NO_GRANT), AtomicUsize::new(0)));
    let helpers = HELPERS.map(|processor| {
        let model = Arc::clone(&model);
        thread::spawn(move || {
            let (granted, mark, helps) = &*model;
            let affinity = &granted.worker.affinity;
            let go = || affinity.bind(|| granted.worker.take(processor));
            let is_mine = if swaps {
                affinity.help(FIRST, go)
            } else {
                let is_mine = mark.load(Relaxed) != FIRST;
                mark.store(FIRST, Relaxed);
                if is_mine {
                    affinity.put_elsewhere(go);
                }
                is_mine
            };
            helps.fetch_add(usize::from(is_mine), Relaxed);
        })
    });
    let (granted, _, helps) = &*model;
    granted.look();
    helpers.into_iter().for_each(|helper| helper.join().unwrap());
    assert_eq!(helps.load(Relaxed), 1, "one processor for one squeezed worker");
    granted.look();
    assert_eq!(granted.worker.mask(), BOUND);
}

#[test]
fn a_squeezed_worker_is_helped_by_one_and_finds_its_place_again() {
    explore_within(2, || helped(true));
}

#[test]
fn a_mark_that_is_read_before_it_is_written_is_caught() {
    let name = "a_mark_that_is_read_before_it_is_written_is_caught";
    is_refuted(name, "one processor for one squeezed worker", || helped(false));
}
