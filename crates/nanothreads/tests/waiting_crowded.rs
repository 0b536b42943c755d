//! A team that the program made larger than the processors that it was started on takes turns: who waits hands over at once,
//! also where threads are told to spin. One test: the mask is the process's.
#![cfg(all(not(loom), target_os = "linux"))]

use nanothreads::{Team, Waiting, builder, doacross, engine};
use platform::affinity::{CpuSet, affinity, set_affinity};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

const ROUNDS: u32 = 20;
const WORK: Duration = Duration::from_millis(2);

/// The processor time of the calling thread.
fn spent() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - writes to the timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn work() {
    let end = spent() + WORK;
    while spent() < end {}
}

/// Sums up what waits cost who waits.
#[derive(Default)]
struct Waits(AtomicU64);

impl Waits {
    fn of(&self, wait: impl FnOnce()) {
        let begin = spent();
        wait();
        self.0.fetch_add((spent() - begin).as_nanos() as u64, Relaxed);
    }

    fn assert_few(self, what: &str) {
        let waited = Duration::from_nanos(self.0.into_inner());
        println!("{what}: waited for {waited:?} of processor time beside {:?} of work", WORK * ROUNDS);
        // Who keeps the processor from the other one gets as much of it as that.
        assert!(waited < WORK * ROUNDS / 2, "{what}: {waited:?}");
    }
}

#[test]
fn a_team_larger_than_the_mask_hands_over_whatever_number_the_program_gave() {
    let here = CpuSet::single(affinity(None).expect("this thread's mask").first().expect("it runs somewhere"));
    set_affinity(None, &here).expect("a processor of the mask");
    builder().threads(2).adapt(false).waiting(Waiting::Active).install().expect("nothing ran before");
    let team = Team::exact(2).expect("threads");
    assert_eq!(team.map(|_| engine::patience()), [0, 0], "microseconds of spinning");

    let barrier = Waits::default();
    team.run(|member| {
        for _ in 0..ROUNDS {
            if member.id() == 0 {
                work();
                member.barrier();
            } else {
                barrier.of(|| member.barrier());
            }
        }
    });
    barrier.assert_few("barrier");

    let ordered = Waits::default();
    team.run(|member| {
        for _ in 0..ROUNDS {
            if member.id() == 0 {
                work();
                member.ordered(|| ());
            } else {
                ordered.of(|| member.ordered(|| ()));
            }
        }
    });
    ordered.assert_few("ordered");

    let crossed = Waits::default();
    for _ in 0..ROUNDS {
        doacross(0..2).run(|i, cross| if i == 0 { work() } else { crossed.of(|| cross.wait_back(1)) });
    }
    crossed.assert_few("doacross");
}
