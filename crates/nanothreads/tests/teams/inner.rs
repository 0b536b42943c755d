//! How many threads inner regions have that do not ask for a number: what is lent to them, also
//! after exact teams.

use engine::sizer::Fixed;
use nanothreads::{Team, broadcast, par_for, scope};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Threads of a region without a number.
fn available() -> usize {
    let members = AtomicUsize::new(0);
    broadcast(|_| _ = members.fetch_add(1, Relaxed));
    members.into_inner()
}

/// Four processors, all for the caller.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    static SET: Once = Once::new();
    SET.call_once(|| assert!(nanothreads::builder().sizer(Fixed::new(4)).install().is_ok()));
    let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    // The thread of the test before counts until it has ended (D6).
    while Team::available().size() != 4 {
        std::thread::yield_now();
    }
    one
}

#[test]
fn an_inner_exact_team_leaves_later_inner_regions_their_sizes() {
    own_process!();
    let _alone = alone();
    let (pair, all) = (Team::exact(2).expect("threads"), Team::exact(4).expect("threads"));
    let sizes = || (pair.map(|_| available()), all.map(|_| available()));
    let lent = (vec![2, 2], vec![1; 4]);
    assert_eq!(sizes(), lent);
    for size in [3, 5, 2] {
        for team in [&pair, &all] {
            let inner = team.map(|_| {
                let ran = AtomicU32::new(0);
                let inner = Team::exact(size).expect("threads");
                for _ in 0..2 {
                    inner.run(|member| {
                        ran.fetch_add(1, Relaxed);
                        member.barrier();
                    });
                    assert!(available() <= 2, "also between regions of the exact one");
                }
                ran.into_inner() as usize
            });
            assert_eq!(inner, vec![2 * size; team.size()], "what must be exact is");
            assert_eq!(sizes(), lent, "after inner teams of {size}");
        }
        par_for(0..10).run(|_| ());
        assert_eq!(sizes(), lent, "after another outer region");
    }
}

#[test]
fn a_task_that_runs_an_exact_team_leaves_the_others_their_sizes() {
    own_process!();
    let _alone = alone();
    let largest = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..16 {
            s.spawn(|_| {
                Team::exact(3).expect("threads").run(|member| member.barrier());
                largest.fetch_max(available(), Relaxed);
            });
        }
    });
    assert_eq!(largest.into_inner(), 1, "all processors are the scope's");
}
