//! What closures capture, in teams of two: small closures are moved into the worker's dispatch
//! line, large ones stay on the master's stack. Either way there is one closure, and it is dropped
//! once, by the caller.

use engine::sizer::Fixed;
use nanothreads::papers::Dispatch;
use nanothreads::{Schedule, Team, broadcast, par_for};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

fn two() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        assert!(
            nanothreads::builder().dispatch(Dispatch::Lines).sizer(Fixed::new(2)).install().is_ok()
        );
    });
}

/// Uses and drops.
type Told = [AtomicU32; 2];

/// Counts its uses in itself, and tells the number when it is dropped.
struct Witness<'a, const FILL: usize> {
    uses: AtomicU32,
    told: &'a Told,
    _fill: [u64; FILL],
}

impl<const FILL: usize> Witness<'_, FILL> {
    fn use_once(&self) {
        self.uses.fetch_add(1, Relaxed);
    }
}

impl<const FILL: usize> Drop for Witness<'_, FILL> {
    fn drop(&mut self) {
        self.told[0].fetch_add(*self.uses.get_mut(), Relaxed);
        self.told[1].fetch_add(1, Relaxed);
    }
}

/// Runs `region` on a witness; returns how often it was used and dropped.
fn uses_and_drops<const FILL: usize>(region: impl FnOnce(Witness<'_, FILL>)) -> (u32, u32) {
    let told = Told::default();
    region(Witness { uses: AtomicU32::new(0), told: &told, _fill: [0; FILL] });
    told.map(AtomicU32::into_inner).into()
}

/// All forms of a region, with captures of 16 bytes and `FILL` words.
fn one_closure_for_all<const FILL: usize>() {
    let team = Team::exact(2).expect("two threads can be had");
    for round in 0..200 {
        // With other tests' threads as masters beside this one, its team may have one thread.
        let size = AtomicU32::new(0);
        let found = uses_and_drops::<FILL>(|witness| {
            let size = &size;
            broadcast(move |member| {
                size.store(member.size, Relaxed);
                witness.use_once();
            });
        });
        assert_eq!(found, (size.into_inner(), 1), "broadcast, round {round}");
        let found = uses_and_drops::<FILL>(|witness| team.run(move |_| witness.use_once()));
        assert_eq!(found, (2, 1), "team, round {round}");
        let found = uses_and_drops::<FILL>(|witness| {
            par_for(0..10).schedule(Schedule::Static).run(move |_| witness.use_once());
        });
        assert_eq!(found, (10, 1), "loop, round {round}");
    }
}

#[test]
fn a_captured_atomic_is_one_for_both_members_and_dropped_once() {
    own_process!();
    two();
    one_closure_for_all::<0>();
    one_closure_for_all::<1>();
    one_closure_for_all::<9>();
}

#[test]
fn what_is_captured_by_reference_is_seen_by_both() {
    own_process!();
    two();
    let team = Team::exact(2).unwrap();
    let seen: [AtomicU32; 6] = std::array::from_fn(|_| AtomicU32::new(0));
    let [a, b, c, d, e, f] = &seen;
    let add = |seen: &AtomicU32, id: usize| _ = seen.fetch_add(id as u32 + 1, Relaxed);
    for _ in 0..200 {
        team.run(|member| add(a, member.id()));
        team.run(|member| [a, b].iter().for_each(|seen| add(seen, member.id())));
        team.run(|member| [a, b, c].iter().for_each(|seen| add(seen, member.id())));
        team.run(|member| [a, b, c, d, e, f].iter().for_each(|seen| add(seen, member.id())));
    }
    assert_eq!(seen.map(AtomicU32::into_inner), [2400, 1800, 1200, 600, 600, 600]);
}

#[test]
fn a_panic_of_either_member_reaches_the_caller_and_the_captures_are_dropped() {
    own_process!();
    static GUILTY: AtomicUsize = AtomicUsize::new(0);
    two();
    let team = Team::exact(2).unwrap();
    for guilty in [0_usize, 1] {
        for _ in 0..20 {
            let found = uses_and_drops::<0>(|witness| {
                let caught = catch_unwind(AssertUnwindSafe(|| {
                    // Not captured, so that the closure is small.
                    GUILTY.store(guilty, Relaxed);
                    team.run(move |member| {
                        witness.use_once();
                        if member.id() == GUILTY.load(Relaxed) {
                            panic_any(member.id());
                        }
                    });
                }));
                assert_eq!(caught.unwrap_err().downcast_ref(), Some(&guilty));
            });
            assert_eq!(found, (2, 1));
        }
    }
    // Nothing of it is left for the next region.
    team.run(|_| ());
}

#[test]
fn panics_of_both_members_and_of_regions_inside_are_carried_once() {
    own_process!();
    two();
    let team = Team::exact(2).unwrap();
    let caught = AtomicU32::new(0);
    for _ in 0..20 {
        team.run(|_| {
            let inner = Team::exact(2).unwrap();
            let inner =
                catch_unwind(AssertUnwindSafe(|| inner.run(|member| panic_any(member.id()))));
            assert!(inner.unwrap_err().is::<usize>());
            caught.fetch_add(1, Relaxed);
        });
    }
    assert_eq!(caught.into_inner(), 40);
}
