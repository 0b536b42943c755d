//! A program beside a stranger that comes and goes: its team follows.

mod support;

use asat::Settings;
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::until;

/// What tests cost between two looks at most.
#[derive(Default)]
struct Dearest {
    tested: Duration,
    most: Duration,
}

impl Dearest {
    fn look(&mut self) {
        let tested = asat::statistics().map_or(Duration::ZERO, |statistics| statistics.tested);
        self.most = self.most.max(tested - self.tested);
        self.tested = tested;
    }
}

#[test]
fn the_team_shrinks_beside_a_stranger_and_grows_when_that_has_gone() {
    assert!(asat::install(Settings::default().jitter(Some(1))));
    assert!(!asat::install(Settings::paper()), "the first one holds");
    let mask = affinity(None).expect("a mask");
    let most = engine::processors();
    let (begin, mut dearest) = (Instant::now(), Dearest::default());
    if most < 2 {
        assert_eq!(engine::grant_for(4), 1);
        return platform::skip!("one processor: there is nothing to take away");
    }
    let mut comes_to = |limit, is_enough: fn(usize, usize) -> bool| {
        until(most, limit, |size| {
            dearest.look();
            is_enough(size, most)
        })
    };
    comes_to(Duration::from_millis(100), |_, _| false);
    let last = mask.last().expect("a processor");
    let is_over = Arc::new(AtomicBool::new(false));
    // It takes turns with the worker or the master, wherever these are: on each processor one.
    let hogs: Vec<_> = mask
        .iter()
        .map(|cpu| {
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                set_affinity(None, &CpuSet::single(cpu)).expect("a processor of the mask");
                while !is_over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            })
        })
        .collect();
    let took = comes_to(Duration::from_secs(20), |size, most| size < most);
    println!("smaller after {took:?} (stranger also on {last:?})");
    let during = asat::statistics();
    assert!(took.is_some(), "{during:?}");
    let during = during.expect("it was installed");
    assert!(during.bad > 0 && during.dropped > 0 && during.threads < most, "{during}");
    is_over.store(true, Relaxed);
    hogs.into_iter().for_each(|hog| hog.join().expect("it only spins"));
    let took = comes_to(Duration::from_secs(30), |size, most| size == most);
    let after = asat::statistics().expect("it was installed");
    println!("whole again after {took:?}: {after}");
    if took.is_none() {
        return platform::skip!("other programs use the processors: the team stays small");
    }
    assert!(after.added > 0, "{after}");
    // Tests cost one part in a hundred, the credit of the beginning, and the last one's excess: one
    // whose threads have no processor may take any time.
    let limit = begin.elapsed() / 100 + Duration::from_millis(20) + dearest.most;
    assert!(after.tested <= limit, "{after}; {:?} at once", dearest.most);
}
