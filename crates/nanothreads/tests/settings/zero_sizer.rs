//! A `TeamSizer` that says 0: the caller always is there.

use nanothreads::{Team, TeamSizer, broadcast, builder, groups, join, par_for, scope};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

struct Zero;

impl TeamSizer for Zero {
    fn limit(&self) -> usize {
        0
    }
}

#[test]
fn a_limit_of_nothing_counts_as_one_processor() {
    own_process!();
    assert_eq!(builder().sizer(Zero).install(), Ok(()));
    assert_eq!((engine::team_limit(), engine::grant_for(4)), (1, 1));
    assert_eq!(Team::available().size(), 1);
    let sum = || par_for(0..1000).reduce(0, |i| i, |a, b| a + b);
    assert_eq!(join(sum, sum), (499_500, 499_500));
    let members = AtomicUsize::new(0);
    broadcast(|_| _ = members.fetch_add(1, Relaxed));
    scope(|s| s.spawn(|_| _ = members.fetch_add(1, Relaxed)));
    assert_eq!(members.into_inner(), 2);
    assert_eq!(groups().equal(3).map(|group| (group.size(), sum())), [(1, 499_500); 3]);
    // An exact team has its threads, lends none, and its members have nothing to lead.
    let team = Team::exact(3).expect("threads");
    assert_eq!(
        team.map(|member| (member.id(), Team::available().size())),
        [(0, 1), (1, 1), (2, 1)]
    );
    assert_eq!(
        team.map(|_| Team::exact(2).expect("threads").map(|member| member.id())),
        [[0, 1], [0, 1], [0, 1]]
    );
    team.install(|| {
        assert_eq!(
            groups().weights(&[2, 1]).map(|group| (group.size(), sum())),
            [(2, 499_500), (1, 499_500)]
        )
    });
}
