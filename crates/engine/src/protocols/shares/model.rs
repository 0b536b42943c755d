//! A model of masters that share processors: one forks and joins while others fork, and look
//! whether it runs. On the shipped type.
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-engine --lib shares::model`. Its
//! twin with a planted bug loom must find.

use crate::protocols::shares::Shares;
use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::thread;
use platform::model::{explore, is_refuted};
use std::sync::Arc;

const LIMIT: usize = 3;
const LOST: &str = "the sum is not what they hold";

#[test]
fn what_two_forks_take_at_once_is_what_there_is() {
    explore(|| {
        let shares = Arc::new(Shares::new());
        let [a, b] = [0; 2].map(|_| shares.enroll(None));
        let other = {
            let (shares, b) = (Arc::clone(&shares), Arc::clone(&b));
            thread::spawn(move || shares.take(&b, LIMIT, LIMIT))
        };
        let mine = shares.take(&a, LIMIT, LIMIT);
        let others = other.join().unwrap();
        assert!((mine, others) == (2, 1) || (mine, others) == (1, 2), "{mine} and {others}");
        assert_eq!(shares.busy(), LIMIT);
    });
}

#[test]
fn a_master_that_forks_while_it_is_looked_at_is_counted_once() {
    explore(|| {
        let shares = Arc::new(Shares::new());
        let [a, b] = [0; 2].map(|_| shares.enroll(None));
        let looker = {
            let (shares, a) = (Arc::clone(&shares), Arc::clone(&a));
            thread::spawn(move || {
                shares.saw(&a, false);
                shares.saw(&a, true);
            })
        };
        shares.take(&a, LIMIT, LIMIT);
        shares.set(&a, 1);
        looker.join().unwrap();
        assert_eq!(shares.busy(), a.held() + b.held(), "{LOST}");
    });
}

/// The words of [`Shares`], changed by a load and a store in the place of an exchange.
#[derive(Default)]
struct Stored {
    held: AtomicUsize,
    busy: AtomicUsize,
}

#[test]
fn a_look_by_a_load_and_a_store_is_caught() {
    is_refuted("a_look_by_a_load_and_a_store_is_caught", LOST, || {
        let twin = Arc::new(Stored::default());
        twin.held.store(1, Relaxed);
        twin.busy.store(1, Relaxed);
        let looker = {
            let twin = Arc::clone(&twin);
            thread::spawn(move || {
                if twin.held.load(Relaxed) == 1 {
                    twin.held.store(0, Relaxed);
                    twin.busy.fetch_sub(1, Relaxed);
                }
            })
        };
        let before = twin.held.swap(2, Relaxed);
        twin.busy.fetch_add(2_usize.wrapping_sub(before), Relaxed);
        looker.join().unwrap();
        assert_eq!(twin.busy.load(Relaxed), twin.held.load(Relaxed), "{LOST}");
    });
}
