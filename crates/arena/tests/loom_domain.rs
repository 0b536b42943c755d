//! Models of a domain's line: each given processor is taken once and no more than were wanted are
//! given, what ran on it before is seen, no sleeper misses a gift, and the receiver has a gift
//! without a gap while it is booked, the giver not at all. The twins of a sleeper that looks too
//! early and of two that land or look in the wrong order are refuted.
//!
//! ```sh
//! RUSTFLAGS="--cfg loom" cargo test --release -p nanothreads-arena --test loom_domain \
//!     --target-dir target/loom
//! ```
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use nanothreads_arena::domain::MemberLine;
use nanothreads_arena::grant::GrantArea;
use platform::affinity::{CpuId, CpuSet};
use platform::model::{DEADLOCK, explore, is_needed, is_refuted};

fn line(wants: u32) -> Arc<MemberLine> {
    let line = Arc::new(MemberLine::default());
    line.offer(1, 1, wants);
    line
}

#[test]
fn one_wish_takes_one_of_two_gifts() {
    explore(|| {
        let line = line(1);
        let givers = [3, 64].map(|cpu| {
            let line = Arc::clone(&line);
            thread::spawn(move || line.give(CpuId(cpu)))
        });
        let given =
            givers.map(|giver| giver.join().unwrap()).into_iter().filter(|given| *given).count();
        assert_eq!(given, 1);
        let taken = [line.take(), line.take()];
        assert!(taken[0].is_some() && taken[1].is_none(), "{taken:?}");
        assert_eq!(line.coming(), [taken[0].unwrap()]);
    });
}

#[test]
fn of_two_takers_one_has_the_gift_and_sees_what_ran_before() {
    explore(|| {
        let line = line(1);
        let work = Arc::new(AtomicU32::new(0));
        let giver = {
            let (line, work) = (Arc::clone(&line), Arc::clone(&work));
            thread::spawn(move || {
                work.store(1, Ordering::Relaxed);
                assert!(line.give(CpuId(0)));
            })
        };
        let sibling = {
            let line = Arc::clone(&line);
            thread::spawn(move || line.take().is_some())
        };
        let mine = line.take().is_some();
        if mine {
            assert_eq!(work.load(Ordering::Relaxed), 1, "the processor came before what ran on it");
            assert_eq!(line.coming(), [CpuId(0)], "the thread that has taken it finds it noted");
        }
        giver.join().unwrap();
        let siblings = sibling.join().unwrap();
        assert!(!(mine && siblings), "taken twice");
        assert!(mine || siblings || line.take().is_some(), "lost");
    });
}

#[test]
fn each_ordering_of_a_gift_is_needed() {
    let early = "the processor came before what ran on it";
    let tags = [("domain.give", early), ("domain.take", early)];
    is_needed("of_two_takers_one_has_the_gift_and_sees_what_ran_before", "src/domain.rs", &tags);
}

/// A taker that sleeps until there is a gift.
fn sleeper(look_again: bool) {
    let line = line(1);
    let giver = {
        let line = Arc::clone(&line);
        thread::spawn(move || assert!(line.give(CpuId(1))))
    };
    let early = line.take();
    line.park.prepare();
    let found = early.or_else(|| if look_again { line.take() } else { None });
    let taken = if found.is_some() {
        line.park.cancel();
        found
    } else {
        // No time in a model: a lost wake is a deadlock.
        line.park.sleep(None);
        line.take()
    };
    giver.join().unwrap();
    assert_eq!(taken.or_else(|| line.take()), Some(CpuId(1)));
}

#[test]
fn no_thread_sleeps_through_a_gift() {
    explore(|| sleeper(true));
}

#[test]
fn a_sleeper_that_looks_only_before_it_says_so_is_refuted() {
    is_refuted("a_sleeper_that_looks_only_before_it_says_so_is_refuted", DEADLOCK, || {
        sleeper(false)
    });
}

/// What a model says of a processor that the receiver does not find.
const GAP: &str = "the receiver has it neither in the air nor in its grant";
/// And of one that the giver finds again.
const TWICE: &str = "the giver counts it as its own again";

/// What is planted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Planted {
    Nothing,
    /// The processor lands before the grants are out.
    LandsEarly,
    /// The program looks at its grant first.
    LooksLate,
}

fn cpus(numbers: &[u32]) -> CpuSet {
    numbers.iter().copied().map(CpuId).collect()
}

/// The program's side: the air, then the grant.
fn look(line: &MemberLine, grant: &GrantArea, is_giver: bool, planted: Planted) {
    // Two processors with it, one without.
    let granted = || grant.read().processors == 2;
    let late = (planted == Planted::LooksLate).then(granted);
    if is_giver {
        let is_away = line.is_coming(CpuId(1));
        assert!(is_away || !late.unwrap_or_else(granted), "{TWICE}");
    } else {
        let is_coming = line.coming().contains(&CpuId(1));
        assert!(is_coming || late.unwrap_or_else(granted), "{GAP}");
    }
}

/// Processor 1 is in the air from a program with 0 and 1 to one with 2, while the manager books it.
fn booking(is_giver: bool, planted: Planted) {
    let line = line(1);
    assert!(line.give(CpuId(1)));
    let (before, after) =
        if is_giver { (cpus(&[0, 1]), cpus(&[0])) } else { (cpus(&[2]), cpus(&[1, 2])) };
    let grant = Arc::new(GrantArea::default());
    grant.publish(before.len() as u32, false, false, before.iter());
    let manager = {
        let (line, grant) = (Arc::clone(&line), Arc::clone(&grant));
        thread::spawn(move || {
            let publish = || grant.publish(after.len() as u32, false, false, after.iter());
            let moved = line.coming();
            if planted == Planted::LandsEarly {
                moved.iter().for_each(|cpu| line.land(*cpu));
                publish();
            } else {
                publish();
                moved.iter().for_each(|cpu| line.land(*cpu));
            }
        })
    };
    let program = {
        let (line, grant) = (Arc::clone(&line), Arc::clone(&grant));
        thread::spawn(move || look(&line, &grant, is_giver, planted))
    };
    program.join().unwrap();
    manager.join().unwrap();
    assert!(line.coming().is_empty());
}

#[test]
fn a_receiver_has_what_is_booked_without_a_gap() {
    explore(|| booking(false, Planted::Nothing));
}

#[test]
fn a_giver_does_not_have_what_is_booked() {
    explore(|| booking(true, Planted::Nothing));
}

#[test]
fn each_ordering_of_a_landing_is_needed() {
    let receiver = [("domain.land", GAP), ("domain.settle", GAP)];
    is_needed("a_receiver_has_what_is_booked_without_a_gap", "src/domain.rs", &receiver);
    let giver = [("domain.land", TWICE), ("domain.landed", TWICE)];
    is_needed("a_giver_does_not_have_what_is_booked", "src/domain.rs", &giver);
}

#[test]
fn a_program_that_lands_a_processor_before_its_grants_is_caught() {
    is_refuted("a_program_that_lands_a_processor_before_its_grants_is_caught", GAP, || {
        booking(false, Planted::LandsEarly)
    });
}

#[test]
fn a_look_at_the_grant_before_the_air_is_caught() {
    is_refuted("a_look_at_the_grant_before_the_air_is_caught", GAP, || {
        booking(false, Planted::LooksLate)
    });
}
