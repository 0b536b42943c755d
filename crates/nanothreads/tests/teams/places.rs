//! Where the threads of inner teams run for which there is no processor. One test: the threads of
//! others would be in the way.

use engine::sizer::Fixed;
use nanothreads::Team;
use platform::affinity::{CpuId, affinity, current_cpu};
use std::time::{Duration, Instant};

const REGIONS: usize = 100;
/// The kernel may have put others on one of the processors for a while.
const TRIES: usize = 10;

fn work() {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_micros(200) {
        std::hint::spin_loop();
    }
}

/// Where the two members of an inner team are at the end of their work.
fn inner() -> Vec<CpuId> {
    Team::exact(2).expect("threads").map(|member| {
        member.barrier();
        work();
        current_cpu()
    })
}

/// In how many of the regions both threads of an inner team, of one member in turn out of
/// `masters`, ended on one processor.
fn crammed(team: &Team, masters: usize) -> usize {
    let crammed = |region| {
        let places =
            team.map(|member| if member.id() == region % masters { inner() } else { Vec::new() });
        places.iter().any(|inner| inner.len() == 2 && inner[0] == inner[1])
    };
    (0..REGIONS).filter(|&region| crammed(region)).count()
}

#[test]
fn a_team_that_is_the_only_inner_one_uses_the_other_processors_whatever_was_before() {
    own_process!();
    if affinity(None).expect("this thread's mask").len() < 2 {
        platform::skip!("one processor, which all threads share");
        return;
    }
    assert!(nanothreads::builder().adapt(false).sizer(Fixed::new(2)).install().is_ok());
    let team = Team::exact(2).expect("threads");
    let mut found = Vec::new();
    for _ in 0..TRIES {
        (0..20).for_each(|_| team.run(|_| _ = inner()));
        let of_one = crammed(&team, 1);
        (0..20).for_each(|_| team.run(|_| _ = inner()));
        let of_either = crammed(&team, 2);
        found.push((of_one, of_either));
        let least = |of: fn(&(usize, usize)) -> usize| {
            found.iter().map(of).min().is_some_and(|least| least < REGIONS / 2)
        };
        if least(|found| found.0) && least(|found| found.1) {
            println!("on one processor, of {REGIONS}: {found:?}");
            return;
        }
    }
    panic!("inner threads shared a processor while another one was idle: {found:?} of {REGIONS}");
}
