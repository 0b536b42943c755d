//! What regions inside want is asked for as well, and no longer than they want it (M1, M2).

use nanothreads::{Team, TeamSizer};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Gives four processors, and notes what is asked for.
struct Notes;

static REQUESTED: AtomicUsize = AtomicUsize::new(0);

impl TeamSizer for Notes {
    fn limit(&self) -> usize {
        4
    }

    fn request(&self, wanted: usize) {
        REQUESTED.store(wanted, Relaxed);
    }
}

#[test]
fn regions_inside_raise_the_request_and_it_falls_when_there_are_none() {
    own_process!();
    nanothreads::builder().sizer(Notes).install().expect("nothing was used before");
    let pair = Team::exact(2).expect("threads");
    let sizes = || pair.map(|_| Team::at_most(2).expect("two").map(|member| member.size()).len());
    pair.run(|_| ());
    assert_eq!(REQUESTED.load(Relaxed), 2);
    sizes();
    assert_eq!(REQUESTED.load(Relaxed), 2, "it is not known yet");
    assert_eq!(sizes(), [2, 2]);
    assert_eq!(REQUESTED.load(Relaxed), 4, "two threads that want two each");
    let mut regions = 0;
    while REQUESTED.load(Relaxed) > 2 {
        pair.run(|_| ());
        regions += 1;
        assert!(regions < 100, "it does not fall");
    }
    assert!(regions >= 16, "a region without others inside is no reason: {regions}");
}
