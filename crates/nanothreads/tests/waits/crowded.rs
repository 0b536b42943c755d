//! A team that the program made larger than the processors that it was started on takes turns: a
//! thread that waits hands over at once, also where threads are told to spin. One test: the mask is
//! the process's.

use crate::cost::{ROUNDS, Waits, spent, work};
use nanothreads::{Team, Waiting, builder, doacross};
use platform::affinity::{CpuSet, affinity, set_affinity};

#[test]
fn a_team_larger_than_the_mask_hands_over_whatever_number_the_program_gave() {
    own_process!();
    let here = CpuSet::single(
        affinity(None).expect("this thread's mask").first().expect("it runs somewhere"),
    );
    set_affinity(None, &here).expect("a processor of the mask");
    builder()
        .threads(2)
        .adapt(false)
        .waiting(Waiting::Active)
        .install()
        .expect("nothing ran before");
    let team = Team::exact(2).expect("threads");
    assert_eq!(team.map(|_| engine::spin_limit()), [0, 0], "microseconds of spinning");

    let barrier = Waits::default();
    team.run(|member| {
        for _ in 0..ROUNDS {
            if member.id() == 0 {
                work();
                member.barrier();
            } else {
                let begin = spent();
                member.barrier();
                barrier.add(begin);
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
                let begin = spent();
                member.ordered(|| ());
                ordered.add(begin);
            }
        }
    });
    ordered.assert_few("ordered");

    let crossed = Waits::default();
    for _ in 0..ROUNDS {
        doacross(0..2).run(|i, cross| {
            if i == 0 {
                return work();
            }
            let begin = spent();
            cross.wait_back(1);
            crossed.add(begin);
        });
    }
    crossed.assert_few("doacross");
}
