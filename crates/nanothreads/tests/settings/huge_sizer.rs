//! A `TeamSizer` that sets no limit: teams have at most as many threads as any may have.

use engine::sizer::Fixed;
use nanothreads::{Team, par_for, statistics};
use std::thread;

#[test]
fn a_limit_beyond_all_bounds_is_that_of_all_teams() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(usize::MAX)).install().is_ok());
    let sum = || assert_eq!(par_for(0..10).reduce(0, |i| i, |a, b| a + b), 45);
    sum();
    assert!(Team::at_most(3).expect("not 0").size() <= 3);
    let created = statistics().workers;
    assert!(created < engine::largest_team() as u64, "{created} threads");
    // What is asked for again is ready: another reservation would have another number.
    for wanted in [usize::MAX, engine::largest_team() + 1] {
        let reserved = || format!("{:?}", engine::Team::reserve_available(wanted));
        assert_eq!(reserved(), reserved());
    }
    // What one of several masters takes is counted.
    thread::scope(|threads| drop([(); 2].map(|()| threads.spawn(sum))));
}
