//! For how long threads spin that are to stay hot without a manager. One test: the threads of
//! others would be in the way.

use nanothreads::{Team, Waiting, builder};
use platform::affinity::affinity;
use platform::cgroup::{Limits, usable_processors};
use std::time::{Duration, Instant};

/// As long as under a manager that says that the machine is the program's.
const HOT: u64 = 2000;
/// The most where others were seen.
const SHORT: u64 = 50;
/// The most elsewhere.
const LONG: u64 = 190;
const PATIENCE: Duration = Duration::from_secs(10);

/// For how long the members of a team may spin.
fn limits_of(team: &Team) -> Vec<u64> {
    team.map(|_| engine::spin_limit())
}

#[test]
fn an_undisturbed_team_stays_hot_until_there_are_more_threads_than_processors() {
    own_process!();
    let limits = Limits::read().expect("control groups, or none");
    let processors = usable_processors(&affinity(None).expect("this thread's mask"), &limits);
    if processors < 2 {
        platform::skip!("one processor, on which no thread spins for another one");
        return;
    }
    builder()
        .threads(processors)
        .adapt(false)
        .waiting(Waiting::Hot)
        .install()
        .expect("nothing ran before");
    let pair = Team::exact(2).expect("threads");
    // Others on the machine are evidence for a while.
    let begin = Instant::now();
    loop {
        let limits = limits_of(&pair);
        if limits == [HOT, HOT] {
            break;
        }
        // A member that has seen others is short of spin time, and one that has not is hot.
        assert!(limits.iter().all(|limit| *limit == HOT || *limit <= SHORT), "{limits:?}");
        if begin.elapsed() >= PATIENCE {
            platform::skip!(busy: "others were seen on the processors all the time");
            return;
        }
    }
    // A master that has no region would lend its workers. During one, another master's are threads
    // of their own, and stay.
    let other = move || limits_of(&Team::exact(processors).expect("threads"));
    let there: Vec<u64> = pair
        .map(|member| match member.id() {
            0 => std::thread::spawn(other).join().expect("it has threads"),
            _ => Vec::new(),
        })
        .concat();
    assert_eq!(there.len(), processors);
    assert!(there.iter().all(|limit| *limit <= LONG), "{there:?}");
    assert!(limits_of(&pair).iter().all(|limit| *limit <= LONG), "{:?}", limits_of(&pair));
}
