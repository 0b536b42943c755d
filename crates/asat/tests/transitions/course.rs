//! The controller with the rules about time: trial, room and disbelief.

use super::controller::{State, expected};
use super::{BAD, all_rules, any_rules};
use asat::{Attempt, Controller, Counts, Course, Rules, Step, Verdict};
use proptest::prelude::*;
use std::collections::HashSet;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1000 * MS;

/// The text's rules once more: what a course keeps beside the controller's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Model {
    state: State,
    rules: Rules,
    dip_due: u64,
    believed_from: u64,
    disbelief: u64,
    rooms: u32,
    trial: u32,
}

/// What happens at an evaluation.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// Since the last one.
    passed: u64,
    verdict: Verdict,
    has_room: bool,
    attempt: Attempt,
}

impl Model {
    fn new(controller: &Controller, rules: Rules) -> Self {
        let state = State::of(controller);
        let disbelief = 200 * MS;
        Self { state, rules, dip_due: 0, believed_from: 0, disbelief, rooms: 0, trial: 0 }
    }

    fn disbelieve(&mut self, now: u64) {
        self.believed_from = now + self.disbelief;
        self.disbelief = (2 * self.disbelief).min(SECOND);
    }

    fn take(&mut self, event: Event, now: u64) {
        let before = self.state.threads;
        let is_bad = event.verdict != Verdict::Good;
        // Without a test with one thread more: what the controller makes of the verdict.
        let alone = expected(self.state, self.rules, event.verdict, BAD);
        let with_one = expected(self.state, self.rules, event.verdict, Verdict::Good);
        let was_on_trial = self.trial > 0;
        self.trial -= u32::from(was_on_trial);
        if is_bad {
            self.rooms = 0;
        }
        if alone.threads < before && was_on_trial {
            self.trial = 0;
            self.disbelieve(now);
        }
        let is_wished = with_one.threads > before;
        self.state = alone;
        if !is_wished {
            return;
        }
        let has_room = event.has_room && now >= self.believed_from;
        self.rooms = if has_room { self.rooms + 1 } else { 0 };
        if !has_room && now < self.dip_due {
            return;
        }
        let is_good = match event.attempt {
            Attempt::Tested(verdict) => {
                if verdict == Verdict::Good {
                    self.disbelief = 200 * MS;
                }
                verdict == Verdict::Good
            }
            Attempt::Untestable => true,
            Attempt::TooDear if self.rooms >= 2 => {
                self.trial = 3;
                true
            }
            Attempt::TooDear => return,
        };
        self.dip_due = now + SECOND;
        if is_good {
            self.rooms = 0;
            self.state = with_one;
        } else if has_room {
            self.disbelieve(now);
        }
    }

    /// What later events depend on, at `now`.
    fn key(&self, now: u64) -> (usize, u32, u32, bool, u64, u64, u64, u32, u32) {
        let State { threads, bad, good, in_doubt, .. } = self.state;
        let left = |time: u64| time.saturating_sub(now);
        let times = (left(self.dip_due), left(self.believed_from), self.disbelief);
        let (bad, good) = (bad.min(3), good.min(3));
        (threads, bad, good, in_doubt, times.0, times.1, times.2, self.rooms.min(2), self.trial)
    }
}

/// One evaluation of `course` at `now`, as the sizer does it.
fn take(course: &mut Course, event: Event, now: u64) {
    let before = course.controller().threads();
    if let Step::Dip(threads) = course.evaluate(event.verdict, now) {
        assert_eq!(threads, before + 1);
        let has_room = course.believes(now) && event.has_room;
        if course.is_due(has_room, now) {
            let is_more = course.attempted(event.attempt, now);
            assert_eq!(is_more, course.controller().threads() > before);
        }
    }
}

/// Fails unless both are the same, as far as can be seen.
fn compare(course: &Course, model: &Model, now: u64, event: Event) {
    assert_eq!(State::of(course.controller()), model.state, "{event:?}");
    for later in [0, 100 * MS, 200 * MS, 400 * MS, 800 * MS, SECOND] {
        let at = now + later;
        assert_eq!(course.believes(at), at >= model.believed_from, "{event:?} {model:?} {later}");
        let mut course = *course;
        assert_eq!(course.is_due(false, at), at >= model.dip_due, "{event:?} {model:?} {later}");
    }
}

fn all_events() -> Vec<Event> {
    let attempts = [
        Attempt::Tested(Verdict::Good),
        Attempt::Tested(BAD),
        Attempt::Untestable,
        Attempt::TooDear,
    ];
    let mut events = Vec::new();
    for passed in [100 * MS, SECOND] {
        for verdict in [BAD, Verdict::Doubtful { missing: 2 }] {
            events.push(Event { passed, verdict, has_room: true, attempt: Attempt::TooDear });
        }
        for has_room in [false, true] {
            for attempt in attempts {
                events.push(Event { passed, verdict: Verdict::Good, has_room, attempt });
            }
        }
    }
    events
}

/// Each state that a program of two or three threads comes to, with each event in it.
#[test]
fn all_transitions_with_trial_room_and_disbelief_are_those_of_the_text() {
    let events = all_events();
    let mut seen = 0_u64;
    for rules in all_rules().filter(|rules| rules.bad_trigger < 3 && rules.good_trigger != 2) {
        for most in [2, 3] {
            let controller = Controller::new(rules, most, most);
            let course = Course::paced(controller, 0, None);
            let mut open = vec![(course, Model::new(&controller, rules), 0)];
            let mut known = HashSet::new();
            while let Some((course, model, last)) = open.pop() {
                for &event in &events {
                    let now = last + event.passed;
                    let (mut course, mut model) = (course, model);
                    take(&mut course, event, now);
                    model.take(event, now);
                    compare(&course, &model, now, event);
                    seen += 1;
                    if known.insert(model.key(now)) {
                        open.push((course, model, now));
                    }
                }
            }
        }
    }
    println!("{seen} transitions");
    assert!(seen > 100_000, "{seen} transitions");
}

fn any_event() -> impl Strategy<Value = Event> {
    let verdict = prop_oneof![
        3 => Just(Verdict::Good),
        1 => (1_usize..5).prop_map(|missing| Verdict::Bad { missing }),
        1 => (1_usize..5).prop_map(|missing| Verdict::Doubtful { missing }),
    ];
    let attempt = prop_oneof![
        Just(Attempt::Tested(Verdict::Good)),
        Just(Attempt::Tested(BAD)),
        Just(Attempt::Untestable),
        Just(Attempt::TooDear),
    ];
    let passed = prop_oneof![Just(50 * MS), 30 * MS..70 * MS, 0..3 * SECOND];
    (passed, verdict, any::<bool>(), attempt).prop_map(|(passed, verdict, has_room, attempt)| {
        Event { passed, verdict, has_room, attempt }
    })
}

/// The published algorithm, and the default version's.
fn any_course(rules: Rules, begin: usize, most: usize, is_paced: bool) -> Course {
    let controller = Controller::new(rules, begin, most);
    if is_paced { Course::paced(controller, 0, Some(7)) } else { Course::published(controller) }
}

/// Evaluations by which wrong verdicts are counted: as many as take a thread and give it back.
fn round(rules: Rules) -> usize {
    (rules.bad_trigger.max(1) + rules.good_trigger.max(1)) as usize
}

proptest! {
    #[test]
    fn long_lives_are_those_of_the_text(
        rules in any_rules(), most in 1_usize..9,
        events in prop::collection::vec(any_event(), 0..200),
    ) {
        let controller = Controller::new(rules, most, most);
        // The model's triggers are 1 at least.
        let (bad_trigger, good_trigger) = (rules.bad_trigger.max(1), rules.good_trigger.max(1));
        let rules = Rules { bad_trigger, good_trigger, ..rules };
        let (mut course, mut now) = (Course::paced(controller, 0, None), 0);
        let mut model = Model::new(&controller, rules);
        for event in events {
            now += event.passed;
            take(&mut course, event, now);
            model.take(event, now);
            compare(&course, &model, now, event);
        }
    }

    /// Whatever the verdicts are, right or wrong: the number of threads stays in its bounds, and
    /// does not go forth and back by more than one thread within as many evaluations as the
    /// triggers say. With counts that stay it may go on in one direction, but turns once only.
    #[test]
    fn no_verdicts_make_the_threads_oscillate_by_more_than_one_in_a_round(
        rules in any_rules(), most in 1_usize..40, begin in 1_usize..40, is_paced in any::<bool>(),
        events in prop::collection::vec(any_event(), 0..300),
    ) {
        let mut course = any_course(rules, begin, most, is_paced);
        let (mut now, mut sizes) = (0, vec![course.controller().threads()]);
        for event in events {
            now += event.passed;
            take(&mut course, event, now);
            let threads = course.controller().threads();
            prop_assert!((1..=most).contains(&threads));
            sizes.push(threads);
        }
        for window in sizes.windows(round(rules) + 1) {
            let steps = || window.windows(2).map(|pair| (pair[0], pair[1]));
            let ups: usize = steps().map(|(from, to)| to.saturating_sub(from)).sum();
            let downs: usize = steps().map(|(from, to)| from.saturating_sub(to)).sum();
            let mut directions: Vec<bool> =
                steps().filter(|(from, to)| from != to).map(|(from, to)| from < to).collect();
            directions.dedup();
            prop_assert!(directions.len() <= 2, "{window:?}");
            // Several that were dropped at once may come back one by one in as many evaluations,
            // where they were slower to go than to come.
            let is_bounded = rules.counts == Counts::Reset
                && (!rules.several || rules.bad_trigger.max(1) <= rules.good_trigger.max(1));
            prop_assert!(!is_bounded || ups.min(downs) <= 1, "{window:?}");
        }
    }

    /// Under a constant load that leaves room for `room` threads, wrong verdicts of any kind, one
    /// in a round at most, move the program by one thread and no more.
    #[test]
    fn wrong_verdicts_now_and_then_move_it_by_one_thread_at_most(
        rules in any_rules(), most in 2_usize..40, room in 1_usize..45, is_paced in any::<bool>(),
        gaps in prop::collection::vec((0_usize..12, any::<bool>(), any::<bool>()), 0..40),
    ) {
        let target = room.min(most);
        let mut course = any_course(rules, target, most, is_paced);
        let fits = |threads: usize| {
            if threads <= room { Verdict::Good } else { Verdict::Bad { missing: threads - room } }
        };
        // A dip of the default version is up to 1.25 s away: so long it may take to come back.
        let rest = round(rules) + if is_paced { 30 } else { 0 };
        let mut now = 0;
        for (more, is_doubtful, is_of_dip) in gaps {
            for at in 0..rest + more {
                now += 50 * MS;
                let threads = course.controller().threads();
                let is_wrong = at == 0;
                let verdict = match (fits(threads), is_wrong && !is_of_dip) {
                    (Verdict::Good, true) if is_doubtful => Verdict::Doubtful { missing: 1 },
                    (Verdict::Good, true) => BAD,
                    (_, true) => Verdict::Good,
                    (right, false) => right,
                };
                let dip = match (fits(threads + 1), is_wrong && is_of_dip) {
                    (Verdict::Good, true) => BAD,
                    (_, true) => Verdict::Good,
                    (right, false) => right,
                };
                let has_room = threads < room;
                take(&mut course, Event {
                    passed: 0, verdict, has_room, attempt: Attempt::Tested(dip),
                }, now);
                let threads = course.controller().threads();
                prop_assert!(threads.abs_diff(target) <= 1, "{threads} of {target}");
            }
        }
    }
}

/// A count of runnable threads that always has room, and no share for tests: each trial is wrong.
#[test]
fn a_count_that_lies_costs_one_thread_in_a_second_at_most_in_the_end() {
    for counts in [Counts::Reset, Counts::Kept] {
        let rules = Rules { counts, bad_trigger: 1, good_trigger: 3, several: true };
        let mut course = Course::paced(Controller::new(rules, 2, 4), 0, None);
        let mut added = Vec::new();
        for now in (1..=400).map(|evaluation| evaluation * 50 * MS) {
            let before = course.controller().threads();
            let verdict = if before > 2 { BAD } else { Verdict::Good };
            take(
                &mut course,
                Event { passed: 0, verdict, has_room: true, attempt: Attempt::TooDear },
                now,
            );
            assert!((2..=3).contains(&course.controller().threads()));
            if course.controller().threads() > before {
                added.push(now);
            }
        }
        let gaps: Vec<u64> = added.windows(2).map(|pair| (pair[1] - pair[0]) / MS).collect();
        assert!(gaps.len() > 10, "{gaps:?}");
        assert!(gaps.iter().zip([200, 400, 800]).all(|(gap, least)| *gap >= least), "{gaps:?}");
        assert!(gaps[3..].iter().all(|gap| *gap >= 1000), "{gaps:?}");
    }
}
