//! A model of two threads that bind a third one, on the shipped type.
//! `RUSTFLAGS="--cfg loom" cargo test --release --test loom_following`. It has a twin with a planted bug that loom must find.
#![cfg(loom)]

mod planted;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::sync::{Arc, Mutex};
use loom::thread;
use nanothreads::following::{Following, NONE};
use planted::{explore, is_refuted};

/// Epochs of grants.
const FIRST: u32 = 1;
const SECOND: u32 = 3;

/// A virtual processor: the epoch that it follows, the grant's, and where it is: an epoch's place, or none. The kernel binds
/// under a lock.
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

    /// As who sees the manager die; the planted one tells the virtual processor first.
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

/// A virtual processor looks twice while another thread lets it go because of what comes: another grant, or that the manager is
/// gone. At the next look it is where that says.
fn followed(comes: u32, last: bool) {
    let model =
        Arc::new(Model { following: Following::unknown(), grant: AtomicU32::new(FIRST), place: Mutex::new(NONE) });
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
    assert_eq!(*model.place.lock().unwrap(), comes);
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
    is_refuted("who_is_told_before_it_is_put_elsewhere_is_caught", || followed(SECOND, false));
}
