//! A `TeamSizer` whose methods use the engine themselves: regions there have one thread, and
//! disturb no other region.

use engine::sizer::Lease;
use nanothreads::papers::Dispatch;
use nanothreads::{Team, TeamError, TeamSizer, broadcast, builder, groups, join, par_for, scope};
use platform::affinity::{CpuSet, Tid};
use std::cell::Cell;
use std::sync::atomic::{
    AtomicU32, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::time::{Duration, Instant};

/// Calls of each method.
static CALLS: [AtomicUsize; 7] = [const { AtomicUsize::new(0) }; 7];
static EPOCH: AtomicU32 = AtomicU32::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(3);
/// By then each method was called, on any machine.
const LIMIT_OF_TIME: Duration = Duration::from_secs(60);

fn deep(levels: usize) {
    if levels > 0 {
        Team::at_most(2).expect("not 0").install(|| deep(levels - 1));
    }
}

/// What the engine offers, in the middle of what the engine does now.
fn use_the_engine(method: usize) {
    thread_local! {
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    assert!(!INSIDE.replace(true), "the sizer is asked inside its own answer");
    // All of it now and then; every call costs something else otherwise.
    let call = CALLS[method].fetch_add(1, Relaxed);
    assert_eq!(Team::available().size(), 1);
    assert_eq!(par_for(0..10).reduce(0, |i| i, |a, b| a + b), 45);
    if call % 64 < 2 {
        let asked = 3;
        assert_eq!(Team::exact(asked).expect_err("one thread"), TeamError::Alone { asked });
        assert_eq!(join(|| 1, || 2), (1, 2));
        let sum = AtomicUsize::new(0);
        broadcast(|member| _ = sum.fetch_add(member.size as usize, Relaxed));
        scope(|s| {
            (0..3)
                .for_each(|_| s.spawn(|s| s.group(|s| s.spawn(|_| _ = sum.fetch_add(1, Relaxed)))))
        });
        assert_eq!(sum.into_inner(), 4);
        assert_eq!(groups().equal(2).map(|group| (group.index(), group.size())), [(0, 1), (1, 1)]);
        deep(40);
    }
    INSIDE.set(false);
}

struct Reentrant;

impl TeamSizer for Reentrant {
    fn limit(&self) -> usize {
        use_the_engine(0);
        LIMIT.load(Relaxed)
    }
    fn request(&self, _: usize) {
        use_the_engine(1);
    }
    fn lease(&self) -> Lease {
        use_the_engine(2);
        Lease::Unmanaged
    }
    fn epoch(&self) -> u32 {
        use_the_engine(3);
        EPOCH.load(Relaxed)
    }
    fn processors(&self) -> Option<CpuSet> {
        use_the_engine(4);
        None
    }
    fn enlist(&self, _: usize, _: Tid) {
        use_the_engine(5);
    }
    fn refresh(&self) {
        use_the_engine(6);
    }
}

/// Regions of changing sizes, inner ones included, by lines and by broadcast.
fn regions(rounds: usize) {
    for round in 0..rounds {
        if round % 5 == 0 {
            EPOCH.fetch_add(1, Relaxed);
            LIMIT.store(1 + round % 6, Relaxed);
        }
        for dispatch in [Dispatch::Lines, Dispatch::Broadcast] {
            let team = Team::exact(2 + round % 4).expect("threads").dispatched(dispatch);
            let sizes = team.map(|member| {
                let inner =
                    Team::exact(2).expect("threads").map(|inner| (inner.id(), inner.size()));
                assert_eq!(inner, [(0, 2), (1, 2)]);
                member.barrier();
                member.size()
            });
            assert_eq!(sizes, vec![2 + round % 4; 2 + round % 4]);
        }
        assert_eq!(par_for(0..1000).reduce(0, |i| i, |a, b| a + b), 499_500);
        groups()
            .weights(&[2, 1])
            .run(|_| assert_eq!(par_for(0..100).reduce(0, |i| i, |a, b| a + b), 4_950));
        Team::at_most(3).expect("not 0").install(|| {
            scope(|s| (0..20).for_each(|_| s.spawn(|s| s.yield_now())));
        });
    }
}

// One test in this program: the sizer and its counts are those of the process.
#[test]
fn regions_are_right_while_the_sizer_itself_forks() {
    own_process!();
    assert_eq!(builder().sizer(Reentrant).install(), Ok(()));
    // Which methods the engine asks depends on which thread waits for which: until each was asked.
    let begin = Instant::now();
    loop {
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| regions(12));
            }
        });
        let calls: Vec<usize> = CALLS.iter().map(|calls| calls.load(SeqCst)).collect();
        if calls.iter().all(|&calls| calls > 0) {
            break;
        }
        assert!(
            begin.elapsed() < LIMIT_OF_TIME,
            "each method was called inside something: {calls:?}"
        );
    }
}
