//! Teams follow the program's affinity mask while it runs, down and up again.

use nanothreads::broadcast;
use platform::affinity::{CpuSet, Tid, affinity, set_affinity};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Threads of a region now.
fn size() -> u32 {
    let size = AtomicU32::new(0);
    broadcast(|member| size.store(member.size, Relaxed));
    size.into_inner()
}

/// Forks regions until they have `wanted` threads; the mask is looked at some times a second.
fn becomes(wanted: u32) -> bool {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        if size() == wanted {
            return true;
        }
    }
    false
}

/// A region's time, as coarse programs have them: that it passes is what is tested.
fn pass(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::thread::yield_now();
    }
}

#[test]
fn a_mask_that_narrows_and_widens_again_is_followed() {
    own_process!();
    assert!(nanothreads::builder().adapt(false).install().is_ok());
    let initial = Some(Tid(std::process::id().cast_signed()));
    let whole = affinity(initial).expect("the own mask");
    let before = size();
    if before < 2 {
        return platform::skip!("this process has one processor (mask {whole}, or a quota)");
    }
    set_affinity(initial, &CpuSet::single(whole.first().expect("a mask has a processor")))
        .expect("narrower");
    let narrowed = becomes(1);
    set_affinity(initial, &whole).expect("as before");
    assert!(narrowed, "the narrow mask was not noticed");
    assert!(becomes(before), "the widened mask was not noticed");

    // Wider again while nothing is forked: a master that gets less than it could use does not wait
    // for its sixteenth region.
    for round in 0..5 {
        set_affinity(initial, &CpuSet::single(whole.first().expect("a mask has a processor")))
            .expect("narrower");
        let narrowed = becomes(1);
        set_affinity(initial, &whole).expect("as before");
        assert!(narrowed, "the narrow mask was not noticed");
        pass(Duration::from_millis(200));
        let sizes: Vec<_> = (0..3).map(|_| size()).collect();
        assert!(
            sizes.contains(&before),
            "round {round}: {before} processors, regions of {sizes:?} threads"
        );
    }
}
