//! Models of two threads that bind a third one, on the shipped types.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib following::model`. Each
//! has a twin with a planted bug that loom must find, but no weakened ordering: the accesses are
//! Relaxed, and the kernel's lock and the exchange order what matters.

use crate::placement::following::{Following, Helped, NONE};
use loom::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;
use platform::model::{explore, is_refuted};

/// Epochs of grants.
const FIRST: u32 = 1;
const SECOND: u32 = 3;

/// A worker: the epoch that it follows, the grant's, and where it is: an epoch's place, or none.
/// The kernel binds under a lock.
struct Model {
    following: Following,
    grant: AtomicU32,
    place: Mutex<u32>,
}

impl Model {
    fn look(&self) {
        let epoch = self.grant.load(Relaxed);
        if !self.following.is(epoch) {
            self.following.follow(epoch, || *self.place.lock().unwrap() = self.grant.load(Relaxed));
        }
    }

    /// As a thread that sees the manager die; the planted one tells the worker first.
    fn let_go(&self, last: bool) {
        let put = || *self.place.lock().unwrap() = NONE;
        if last {
            self.following.put_elsewhere(put);
        } else {
            self.following.put_elsewhere(|| {});
            put();
        }
    }
}

/// A worker looks twice while another thread lets it go because of what comes: another
/// grant, or that the manager is gone. At the next look it is where that says.
fn followed(comes: u32, last: bool) {
    let model = Arc::new(Model {
        following: Following::unknown(),
        grant: AtomicU32::new(FIRST),
        place: Mutex::new(NONE),
    });
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
    assert_eq!(*model.place.lock().unwrap(), comes, "it is not where it should be");
}

#[test]
fn who_was_put_elsewhere_finds_its_place_again() {
    explore(|| followed(SECOND, true));
}

#[test]
fn who_is_let_go_when_the_manager_dies_is_nowhere_in_the_end() {
    explore(|| followed(NONE, true));
}

#[test]
fn who_is_told_before_it_is_put_elsewhere_is_caught() {
    is_refuted(
        "who_is_told_before_it_is_put_elsewhere_is_caught",
        "it is not where it should be",
        || followed(SECOND, false),
    );
}

/// The processors of two helpers, as places.
const HELPERS: [u32; 2] = [101, 102];

/// What decides which thread helps: the shipped mark, or the planted one, which is read and then
/// written.
trait Mark: Send + Sync + 'static {
    fn take(&self, epoch: u32) -> bool;
}

impl Mark for Helped {
    fn take(&self, epoch: u32) -> bool {
        Helped::take(self, epoch)
    }
}

struct ReadFirst(AtomicU32);

impl Mark for ReadFirst {
    fn take(&self, epoch: u32) -> bool {
        let is_mine = self.0.load(Relaxed) != epoch;
        self.0.store(epoch, Relaxed);
        is_mine
    }
}

/// Two threads that wait find the same squeezed worker, which comes to a safe point at the same
/// time: one of them helps, and at its next safe point the helped one is in its own place again.
fn helped(mark: impl Mark) {
    let model = Arc::new((
        Model {
            following: Following::unknown(),
            grant: AtomicU32::new(FIRST),
            place: Mutex::new(NONE),
        },
        mark,
        AtomicUsize::new(0),
    ));
    let helpers = HELPERS.map(|processor| {
        let model = Arc::clone(&model);
        thread::spawn(move || {
            let (worker, mark, helps) = &*model;
            if mark.take(FIRST) {
                worker.following.put_elsewhere(|| *worker.place.lock().unwrap() = processor);
                helps.fetch_add(1, Relaxed);
            }
        })
    });
    let (worker, _, helps) = &*model;
    worker.look();
    helpers.into_iter().for_each(|helper| helper.join().unwrap());
    assert_eq!(helps.load(Relaxed), 1, "one processor for one squeezed worker");
    worker.look();
    assert_eq!(*worker.place.lock().unwrap(), FIRST);
}

#[test]
fn who_was_squeezed_is_helped_by_one_and_finds_its_place_again() {
    explore(|| helped(Helped::never()));
}

#[test]
fn a_mark_that_is_read_before_it_is_written_is_caught() {
    is_refuted(
        "a_mark_that_is_read_before_it_is_written_is_caught",
        "one processor for one squeezed worker",
        || helped(ReadFirst(AtomicU32::new(NONE))),
    );
}
