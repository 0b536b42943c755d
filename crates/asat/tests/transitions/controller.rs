//! The controller alone.

use super::{BAD, all_rules, any_rules};
use asat::{Controller, Counts, Rules, Step, Verdict};
use proptest::prelude::*;

/// All that a state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) threads: usize,
    most: usize,
    pub(super) bad: u32,
    pub(super) good: u32,
    pub(super) in_doubt: bool,
}

impl State {
    pub(super) fn of(controller: &Controller) -> Self {
        let (bad, good) = controller.counts();
        let in_doubt = controller.is_in_doubt();
        Self { threads: controller.threads(), most: controller.most(), bad, good, in_doubt }
    }
}

/// The text's sentences once more, one after the other. `dip`: what the test with one more thread
/// finds, if there is one.
pub(super) fn expected(state: State, rules: Rules, verdict: Verdict, dip: Verdict) -> State {
    let State { threads, most, bad, good, in_doubt } = state;
    let state = |threads, bad, good| State { threads, most, bad, good, in_doubt: false };
    let begin_anew = |threads, bad, good| match rules.counts {
        Counts::Kept => state(threads, bad, good),
        Counts::Reset => state(threads, 0, 0),
    };
    match verdict {
        // A second one in sequence is bad.
        Verdict::Doubtful { missing } if in_doubt => {
            expected(state(threads, bad, good), rules, Verdict::Bad { missing }, dip)
        }
        Verdict::Doubtful { .. } => State { threads, most, bad, good, in_doubt: true },
        Verdict::Bad { missing } => {
            let bad = bad + 1;
            if bad >= rules.bad_trigger && threads > 1 {
                let fewer = if rules.several { missing.max(1).min(threads / 2) } else { 1 };
                begin_anew(threads - fewer, bad, 0)
            } else {
                state(threads, bad, 0)
            }
        }
        Verdict::Good => {
            let good = good + 1;
            if good >= rules.good_trigger && threads < most && dip == Verdict::Good {
                begin_anew(threads + 1, 0, good)
            } else {
                state(threads, 0, good)
            }
        }
    }
}

fn step(controller: &mut Controller, verdict: Verdict, dip: Verdict) {
    if let Step::Dip(threads) = controller.evaluate(verdict) {
        assert_eq!(threads, controller.threads() + 1);
        controller.dipped(dip);
    }
}

/// Each state that up to six evaluations lead to, with each verdict in it.
#[test]
fn all_transitions_of_small_programs_are_those_of_the_text() {
    let mut seen = 0_u64;
    for most in 1..=4 {
        for rules in all_rules() {
            let mut open =
                vec![Controller::new(rules, most, most), Controller::new(rules, 1, most)];
            let mut known = open.clone();
            for _ in 0..6 {
                let mut next = Vec::new();
                for controller in open {
                    for (verdict, dip) in all_verdicts() {
                        let before = State::of(&controller);
                        let mut after = controller;
                        step(&mut after, verdict, dip);
                        assert_eq!(
                            State::of(&after),
                            expected(before, rules, verdict, dip),
                            "{rules:?} {before:?} {verdict:?}, dip {dip:?}"
                        );
                        seen += 1;
                        if !known.contains(&after) {
                            known.push(after);
                            next.push(after);
                        }
                    }
                }
                open = next;
            }
        }
    }
    assert!(seen > 10_000, "{seen} transitions");
}

fn all_verdicts() -> impl Iterator<Item = (Verdict, Verdict)> {
    let doubtful = [1, 3].map(|missing| Verdict::Doubtful { missing });
    let bad = [0, 1, 3].map(|missing| Verdict::Bad { missing });
    let verdicts = [Verdict::Good].into_iter().chain(bad).chain(doubtful);
    verdicts.flat_map(|verdict| [Verdict::Good, BAD].map(|dip| (verdict, dip)))
}

#[test]
fn the_paper_s_counts_take_the_next_thread_at_once_and_dip_each_time() {
    let rules = Rules { counts: Counts::Kept, bad_trigger: 2, good_trigger: 3, several: false };
    let mut controller = Controller::new(rules, 4, 4);
    let sizes = [BAD, BAD, BAD].map(|verdict| {
        step(&mut controller, verdict, BAD);
        controller.threads()
    });
    assert_eq!(sizes, [4, 3, 2]);
    let sizes = [Verdict::Good; 4].map(|verdict| {
        step(&mut controller, verdict, Verdict::Good);
        controller.threads()
    });
    assert_eq!(sizes, [2, 2, 3, 4]);
}

#[test]
fn a_new_most_counts_at_once_where_it_is_less_and_for_those_that_had_all() {
    let rules = Rules { counts: Counts::Reset, bad_trigger: 1, good_trigger: 1, several: false };
    let mut controller = Controller::new(rules, 9, 4);
    assert_eq!((controller.threads(), controller.most()), (4, 4));
    controller.set_most(2);
    assert_eq!(controller.threads(), 2);
    controller.set_most(8);
    assert_eq!(controller.threads(), 8);
    controller.evaluate(BAD);
    controller.set_most(16);
    assert_eq!(controller.threads(), 7);
    controller.set_most(0);
    assert_eq!((controller.threads(), controller.most()), (1, 1));
}

proptest! {
    #[test]
    fn never_below_one_nor_above_the_most_and_one_step_at_a_time(
        rules in any_rules(),
        most in 0_usize..70,
        begin in 0_usize..80,
        steps in prop::collection::vec(
            (0_usize..5, any::<bool>(), any::<bool>(), prop::option::of(0_usize..70)), 0..300
        ),
    ) {
        let mut controller = Controller::new(rules, begin, most);
        for (missing, is_doubtful, is_bad, new_most) in steps {
            if let Some(most) = new_most {
                controller.set_most(most);
            }
            let before = controller.threads();
            let verdict = match missing {
                0 => Verdict::Good,
                _ if is_doubtful => Verdict::Doubtful { missing },
                _ => Verdict::Bad { missing },
            };
            let dip = if is_bad { BAD } else { Verdict::Good };
            step(&mut controller, verdict, dip);
            let (bad, good) = controller.counts();
            prop_assert!((1..=controller.most()).contains(&controller.threads()));
            prop_assert!(bad == 0 || good == 0);
            prop_assert!(controller.threads() <= before + 1);
            let most_fewer = if rules.several { (before / 2).max(1) } else { 1 };
            prop_assert!(controller.threads() + most_fewer >= before);
        }
    }

    /// A load that stays leaves room for `room` threads: the program comes to them, or to all it
    /// may have, and then stays within one thread of them for ever.
    #[test]
    fn a_constant_load_is_found_and_kept(
        rules in any_rules(), most in 1_usize..65, begin in 1_usize..65, room in 1_usize..70,
    ) {
        let mut controller = Controller::new(rules, begin, most);
        let fits = |threads: usize| {
            if threads <= room { Verdict::Good } else { Verdict::Bad { missing: threads - room } }
        };
        let target = room.min(most);
        let evaluate = |controller: &mut Controller| {
            let (now, more) = (fits(controller.threads()), fits(controller.threads() + 1));
            step(controller, now, more);
        };
        let longest = 70 * (rules.bad_trigger.max(1) + rules.good_trigger.max(1)) * 2;
        for _ in 0..longest {
            evaluate(&mut controller);
        }
        prop_assert!(controller.threads() == target, "{} {target}", controller.threads());
        for _ in 0..100 {
            evaluate(&mut controller);
            prop_assert_eq!(controller.threads(), target);
        }
    }

    /// Tests that err now and then move the program by no more than one thread in as many
    /// evaluations as the triggers say, once it has found its number.
    #[test]
    fn a_lone_wrong_verdict_moves_it_by_one_thread_and_it_comes_back(
        room in 2_usize..32, good_trigger in 1_u32..6,
    ) {
        let rules = Rules { counts: Counts::Reset, bad_trigger: 1, good_trigger, several: false };
        let mut controller = Controller::new(rules, room, room);
        step(&mut controller, BAD, BAD);
        prop_assert_eq!(controller.threads(), room - 1);
        let mut changes = 0;
        for at in 1..=4 * good_trigger {
            let before = controller.threads();
            step(&mut controller, Verdict::Good, Verdict::Good);
            changes += u32::from(controller.threads() != before);
            prop_assert_eq!(controller.threads() == room, at >= good_trigger);
        }
        prop_assert_eq!(changes, 1);
    }
}
