//! Model of the grant: a reader never sees the processors of one epoch with the number of another.
//! The twins in which an access orders nothing are refuted.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-arena --test loom_grant`
#![cfg(loom)]

use loom::sync::Arc;
use nanothreads_arena::grant::GrantArea;
use platform::affinity::{CpuId, CpuSet};
use platform::model::{explore, is_needed};

/// Epoch `e` grants `e` processors, `e` of each word: number and bitmap tell on each other.
fn processors(epoch: u32) -> CpuSet {
    (0..epoch).flat_map(|cpu| [CpuId(cpu), CpuId(64 + cpu)]).collect()
}

#[test]
fn number_and_processors_are_of_one_epoch() {
    explore(|| {
        let area = Arc::new(GrantArea::default());
        let written = Arc::clone(&area);
        let manager = loom::thread::spawn(move || {
            for epoch in 1..=3 {
                written.publish(epoch, false, false, processors(epoch).iter());
            }
        });
        let (grant, cpus) = area.read_with_cpus();
        assert_eq!(cpus, processors(grant.epoch), "the processors of another epoch");
        assert_eq!(grant.processors, grant.epoch.max(1));
        manager.join().unwrap();
        assert_eq!(area.read_with_cpus(), (area.read(), processors(3)));
    });
}

#[test]
fn each_ordering_of_a_grant_is_needed() {
    let other = "the processors of another epoch";
    let tags = [
        ("grant.publish", other),
        ("grant.read", other),
        ("grant.reuse", other),
        ("grant.recheck", other),
    ];
    is_needed("number_and_processors_are_of_one_epoch", "src/grant.rs", &tags);
}
