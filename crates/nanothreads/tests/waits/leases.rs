//! For how long threads spin by what a manager says of their processors (D7), read and counted. A
//! process of its own: waits of neighbour tests would be counted, too.

use engine::sizer::Lease;
use nanothreads::{Team, TeamSizer, builder, statistics};
use platform::affinity::{affinity, current_tid};
use platform::scheduling::run_delay;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const HOT: u64 = 2000;
const SHORT: u64 = 50;
const ROUNDS: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(10);

/// Two processors, which others want or not.
struct Two;

static WANTED: AtomicBool = AtomicBool::new(false);

impl TeamSizer for Two {
    fn limit(&self) -> usize {
        2
    }

    fn lease(&self) -> Lease {
        if WANTED.load(Relaxed) { Lease::Wanted } else { Lease::Dedicated }
    }
}

/// How often a thread slept while its work was longer in coming than [`SHORT`], in [`ROUNDS`]
/// rounds.
fn parks(team: &Team) -> u64 {
    let before = statistics();
    for _ in 0..ROUNDS {
        team.run(|_| ());
        let begin = Instant::now();
        // A serial part that a hot team spins through.
        while begin.elapsed() < Duration::from_micros(8 * SHORT) {
            std::hint::spin_loop();
        }
    }
    statistics().since(&before).parks
}

#[test]
fn threads_sleep_in_each_serial_part_where_others_want_their_processors_and_in_none_where_no_other_does()
 {
    own_process!();
    if affinity(None).expect("this thread's mask").len() < 2 {
        return platform::skip!("one processor, on which no thread spins for another one");
    }
    builder().sizer(Two).install().expect("nothing ran before");
    let team = Team::exact(2).expect("threads");
    for _ in 0..2 {
        WANTED.store(true, Relaxed);
        assert_eq!(
            team.map(|_| engine::spin_limit()),
            [SHORT, SHORT],
            "others want the processors"
        );
        let slept = parks(&team);
        assert!(
            slept >= u64::from(ROUNDS) / 2,
            "others want the processors, and it slept {slept} times only"
        );
        WANTED.store(false, Relaxed);
        assert_eq!(
            team.map(|_| engine::spin_limit()),
            [HOT, HOT],
            "no program wants the processors"
        );
        // A thread that loses its processor for longer than a hot wait sleeps for once.
        let (begin, before) = (Instant::now(), run_delay(current_tid()));
        while parks(&team) != 0 {
            if begin.elapsed() < PATIENCE {
                continue;
            }
            let delay = run_delay(current_tid())
                .zip(before)
                .map(|(now, before)| now.saturating_sub(before));
            assert!(
                delay.is_some_and(|delay| delay > PATIENCE / 10),
                "hot threads sleep: delayed for {delay:?}"
            );
            return platform::skip!(busy: "others had the processors of a hot team for {delay:?}");
        }
    }
}
