//! Models of a domain's line: each given processor is taken once and no more than were wanted are given, what ran on it
//! before is seen, and nobody sleeps through a gift. The twin of a sleeper that looks too early is refuted.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-arena --test loom_domain --target-dir target/loom`
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use nanothreads_arena::domain::Member;
use platform::affinity::CpuId;
use platform::model::{DEADLOCK, explore, is_needed, is_refuted};

fn line(wants: u32) -> Arc<Member> {
    let line = Arc::new(Member::default());
    line.offer(1, 1, wants);
    line
}

#[test]
fn one_wish_takes_one_of_two_gifts() {
    explore(|| {
        let line = line(1);
        let givers = [3, 64].map(|cpu| {
            let line = Arc::clone(&line);
            thread::spawn(move || line.give(CpuId(cpu)))
        });
        let given = givers.map(|giver| giver.join().unwrap()).into_iter().filter(|given| *given).count();
        assert_eq!(given, 1);
        let taken = [line.take(), line.take()];
        assert!(taken[0].is_some() && taken[1].is_none(), "{taken:?}");
        assert_eq!(line.settle(), [taken[0].unwrap()]);
    });
}

#[test]
fn of_two_takers_one_has_the_gift_and_sees_what_ran_before() {
    explore(|| {
        let line = line(1);
        let work = Arc::new(AtomicU32::new(0));
        let giver = {
            let (line, work) = (Arc::clone(&line), Arc::clone(&work));
            thread::spawn(move || {
                work.store(1, Ordering::Relaxed);
                assert!(line.give(CpuId(0)));
            })
        };
        let sibling = {
            let line = Arc::clone(&line);
            thread::spawn(move || line.take().is_some())
        };
        let mine = line.take().is_some();
        if mine {
            assert_eq!(work.load(Ordering::Relaxed), 1, "the processor came before what ran on it");
            assert_eq!(line.settle(), [CpuId(0)], "who has taken it finds it noted");
        }
        giver.join().unwrap();
        let siblings = sibling.join().unwrap();
        assert!(!(mine && siblings), "taken twice");
        assert!(mine || siblings || line.take().is_some(), "lost");
    });
}

#[test]
fn each_ordering_of_a_gift_is_needed() {
    let early = "the processor came before what ran on it";
    let tags = [("domain.give", early), ("domain.take", early)];
    is_needed("of_two_takers_one_has_the_gift_and_sees_what_ran_before", "src/domain.rs", &tags);
}

/// A taker that sleeps until there is a gift.
fn sleeper(look_again: bool) {
    let line = line(1);
    let giver = {
        let line = Arc::clone(&line);
        thread::spawn(move || assert!(line.give(CpuId(1))))
    };
    let early = line.take();
    line.park.prepare();
    let found = early.or_else(|| if look_again { line.take() } else { None });
    let taken = if found.is_some() {
        line.park.cancel();
        found
    } else {
        // No time in a model: a lost wake is a deadlock.
        line.park.sleep(None);
        line.take()
    };
    giver.join().unwrap();
    assert_eq!(taken.or_else(|| line.take()), Some(CpuId(1)));
}

#[test]
fn nobody_sleeps_through_a_gift() {
    explore(|| sleeper(true));
}

#[test]
fn a_sleeper_that_looks_only_before_it_says_so_is_refuted() {
    is_refuted("a_sleeper_that_looks_only_before_it_says_so_is_refuted", DEADLOCK, || sleeper(false));
}
