//! Settings of a process: installed once, before the first region; what they change, and what the
//! engine then counts. One test, since they belong to the process.

use nanothreads::{BuildError, Team, Waiting, broadcast, builder, par_for, scope, statistics};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[test]
fn settings_are_installed_once_and_before_the_first_region() {
    own_process!();
    assert_eq!(builder().threads(0).install(), Err(BuildError::NoThreads));
    let small =
        builder().threads(3).stack_size(1000).install().expect_err("nothing runs on 1000 bytes");
    assert!(small.to_string().contains("1000 bytes"), "{small}");
    let most = Team::largest();
    let many = builder().threads(most + 1).install();
    assert_eq!(many, Err(BuildError::TooManyThreads { asked: most + 1, largest: most }));
    let text = many.expect_err("above the largest").to_string();
    assert!(text.contains(&format!("at most {most} (Team::largest)")), "{text}");
    let large = builder()
        .threads(3)
        .stack_size(usize::MAX)
        .install()
        .expect_err("no address space has that much");
    assert!(large.to_string().contains(&usize::MAX.to_string()), "{large}");
    let settings = builder().threads(3).waiting(Waiting::Passive).stack_size(1 << 20).adapt(false);
    assert_eq!(settings.install(), Ok(()), "refused settings changed nothing");
    assert_eq!(builder().install(), Err(BuildError::InUse));
    assert_eq!(engine::team_limit(), 3);
    assert!(!engine::is_managed());

    let before = statistics();
    let seen = AtomicUsize::new(0);
    for _ in 0..10 {
        broadcast(|member| {
            assert_eq!(member.size, 3);
            seen.fetch_add(1, Relaxed);
        });
    }
    assert_eq!(seen.into_inner(), 30);
    let team = Team::exact(9).expect("the system gives threads");
    team.run(|member| member.barrier());
    let during = statistics().since(&before);
    assert_eq!(during.regions[..4], [0, 10, 0, 1], "{during}");
    assert_eq!(during.workers, 8, "{during}");
    // Threads that never spin sleep between regions, and are woken for the next, unless others keep
    // them from falling asleep.
    let begin = Instant::now();
    while {
        let during = statistics().since(&before);
        during.parks == 0 || during.wakes == 0 || during.waits == 0
    } {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", statistics().since(&before));
        broadcast(|_| ());
    }
    assert_eq!(builder().threads(5).install(), Err(BuildError::InUse));

    // A region of one thread is a call; inner regions are counted like others.
    let before = statistics();
    par_for(0..1).run(|_| ());
    Team::exact(1).expect("the caller").run(|_| ());
    assert_eq!(statistics().since(&before).all_regions(), 0);
    scope(|s| (0..100).for_each(|_| s.spawn(|_| ())));
    assert_eq!(statistics().since(&before).all_regions(), 1);
}
