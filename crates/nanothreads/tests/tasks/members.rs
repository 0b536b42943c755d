//! Which member a task is told that it is, whatever the stack is in on which it runs.

use engine::sizer::Fixed;
use nanothreads::{Member, Team, broadcast, par_for, scope};
use std::collections::BTreeSet;
use std::sync::Mutex;

#[test]
fn tasks_that_run_on_top_of_inner_regions_see_their_scopes_member_throughout() {
    own_process!();
    assert!(nanothreads::builder().sizer(Fixed::new(3)).install().is_ok());
    for size in [1, 3] {
        let seen = Mutex::new(BTreeSet::new());
        let team = Team::exact(size).expect("threads");
        team.install(|| {
            scope(|s| {
                for k in 0..300 {
                    let seen = &seen;
                    s.spawn(move |s| {
                        let before = Member::current();
                        // SAFETY: - takes no pointers.
                        let thread = unsafe { libc::gettid() };
                        seen.lock().expect("whole").insert((thread, before.id, before.size));
                        match k % 4 {
                            // Others run on top of this while a region is open.
                            0 => scope(|_| s.yield_now()),
                            1 => scope(|_| scope(|_| s.yield_now())),
                            2 => par_for(0..1).run(|_| ()),
                            _ => s.yield_now(),
                        }
                        assert_eq!(Member::current(), before, "task {k} of {size} threads");
                        // Regions of its own show their own members.
                        broadcast(|member| assert_eq!(Member::current(), member));
                        s.group(|s| {
                            s.spawn(move |_| {
                                assert_eq!(Member::current().size as usize, size);
                            })
                        });
                        assert_eq!(Member::current(), before, "task {k} of {size} threads");
                    });
                }
            });
        });
        let seen = seen.into_inner().expect("whole");
        assert!(seen.iter().all(|&(.., of)| of as usize == size), "{seen:?}");
        let threads: BTreeSet<_> = seen.iter().map(|&(thread, ..)| thread).collect();
        let ids: BTreeSet<_> = seen.iter().map(|&(_, id, _)| id).collect();
        assert_eq!((threads.len(), ids.len()), (seen.len(), seen.len()), "one number a thread");
    }
}
