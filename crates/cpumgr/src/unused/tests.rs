use proptest::prelude::*;

use super::*;

/// A program of the tests: what it uses of what it has.
#[derive(Clone, Copy, Debug)]
struct Played {
    program: Program,
    /// Processors on which it could run, at most.
    works: f64,
    /// The part of its time in which it is kept from running.
    waits: f64,
}

/// Programs on a machine; the curbs are obeyed at once: a program that is curbed has that number of
/// processors, the others have all that they had.
#[derive(Default)]
struct World {
    unused: Unused,
    now: Nanos,
    programs: BTreeMap<u64, Played>,
    /// What each has without a curb.
    shares: BTreeMap<u64, u32>,
    uncontended: bool,
}

impl World {
    /// Programs by the number of processors that each has, and the number on which it works.
    fn of(programs: &[(u32, f64)]) -> Self {
        let mut world = Self::default();
        for (id, (held, works)) in (1..).zip(programs) {
            let program = Program { held: *held, ..Program::default() };
            world.programs.insert(id, Played { program, works: *works, waits: 0.0 });
            world.shares.insert(id, *held);
        }
        world.unused.begin(0);
        world
    }

    /// Goes on until the next look, and looks. False: nothing is looked at any more.
    fn look(&mut self) -> bool {
        let Some(next) = self.unused.next_look() else { return false };
        let passed = (next - self.now) as f64;
        self.now = next;
        let mut sample = Sample { at: next, contended: !self.uncontended, ..Sample::default() };
        for (id, played) in &mut self.programs {
            let program = &mut played.program;
            // A program that sleeps has a processor to share.
            let room = f64::from(program.held.max(1));
            let runs = played.works.min(room);
            program.ran += (passed * runs * (1.0 - played.waits)) as Nanos;
            let waited = program.waited.unwrap_or(0) + (passed * runs * played.waits) as Nanos;
            program.waited = Some(waited);
            let known =
                Program { waited: program.waited.filter(|_| self.unused.asks(*id)), ..*program };
            sample.programs.insert(*id, known);
        }
        for (id, curb) in self.unused.look(sample) {
            self.curb(id, curb);
        }
        true
    }

    fn curb(&mut self, id: u64, curb: Option<Curb>) {
        let program = &mut self.programs.get_mut(&id).unwrap().program;
        program.curb = curb;
        program.held = curb.map_or(self.shares[&id], |curb| curb.processors.min(self.shares[&id]));
        program.shared = program.held == 0;
    }

    fn looks(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end && self.look() {}
    }

    fn works(&mut self, id: u64, works: f64) {
        self.programs.get_mut(&id).unwrap().works = works;
    }

    fn curbed_to(&self, id: u64) -> Option<u32> {
        self.programs[&id].program.curb.map(|curb| curb.processors)
    }

    /// As the books do when a program asks for more than before.
    fn asks(&mut self, id: u64) {
        if self.programs[&id].program.curb.is_some_and(|curb| !curb.firm) {
            self.curb(id, None);
        }
    }
}

#[test]
fn a_program_that_uses_nothing_sleeps_while_another_is_hungry() {
    let mut world = World::of(&[(1, 0.0), (1, 1.0)]);
    world.looks(800 * MS);
    assert_eq!((world.curbed_to(1), world.curbed_to(2)), (Some(0), None));
}

#[test]
fn a_program_that_uses_nothing_loses_nothing_while_no_other_is_hungry() {
    let mut world = World::of(&[(4, 0.0), (4, 0.0), (4, 2.9)]);
    world.looks(5_000 * MS);
    assert!((1..=3).all(|id| world.curbed_to(id).is_none()));
}

#[test]
fn a_program_that_uses_a_part_is_curbed_to_that_and_one_more() {
    for (works, curb) in
        [(0.5, Some(2)), (1.0, Some(2)), (3.2, Some(5)), (5.9, Some(7)), (6.5, None), (8.0, None)]
    {
        let mut world = World::of(&[(8, works), (8, 8.0)]);
        world.looks(2_000 * MS);
        assert_eq!(world.curbed_to(1), curb, "{works}");
    }
}

#[test]
fn a_program_that_works_in_one_of_three_windows_is_not_curbed_below_that() {
    let mut world = World::of(&[(4, 0.0), (4, 4.0)]);
    for look in 0..60 {
        world.works(1, if look % 3 == 0 { 3.4 } else { 0.0 });
        world.look();
        assert_eq!(world.curbed_to(1), None);
    }
}

#[test]
fn a_program_that_is_kept_from_running_uses_what_it_has() {
    let mut world = World::of(&[(2, 2.0), (2, 2.0)]);
    world.programs.get_mut(&1).unwrap().waits = 0.99;
    world.looks(3_000 * MS);
    assert_eq!(world.curbed_to(1), None);
}

#[test]
fn a_program_that_works_again_has_its_request_back_within_two_windows() {
    for (before, after) in [(0.0, 0.1), (0.0, 4.0), (1.0, 4.0)] {
        let mut world = World::of(&[(4, before), (4, 4.0)]);
        world.looks(2_000 * MS);
        assert!(world.curbed_to(1).is_some());
        world.works(1, after);
        let begin = world.now;
        while world.curbed_to(1).is_some() {
            world.look();
        }
        assert!(world.now - begin <= 2 * PERIOD, "{before} {after}");
    }
}

#[test]
fn sleepers_that_wake_at_once_and_crowd_a_processor_come_back() {
    let mut world = World::of(&[(2, 0.0), (2, 0.0), (4, 4.0)]);
    world.looks(2_000 * MS);
    assert_eq!((world.curbed_to(1), world.curbed_to(2)), (Some(0), Some(0)));
    // Each runs for a fiftieth of its time among all the others, and waits for the rest.
    for id in [1, 2] {
        world.works(id, 1.0);
        world.programs.get_mut(&id).unwrap().waits = 0.98;
    }
    world.looks(3 * PERIOD);
    assert_eq!((world.curbed_to(1), world.curbed_to(2)), (None, None));
}

#[test]
fn a_program_that_asks_and_works_is_not_curbed_again() {
    let mut world = World::of(&[(4, 0.0), (4, 4.0)]);
    world.looks(2_000 * MS);
    world.asks(1);
    world.works(1, 3.5);
    world.looks(2_000 * MS);
    assert_eq!(world.curbed_to(1), None);
}

#[test]
fn a_program_that_asks_and_does_nothing_is_curbed_soon_and_in_the_end_not_heard() {
    let mut world = World::of(&[(4, 0.0), (4, 4.0)]);
    world.looks(2_000 * MS);
    let mut curbed = 0;
    for _ in 0..10_000 / 50 {
        world.asks(1);
        world.looks(50 * MS);
        curbed += u32::from(world.curbed_to(1).is_some());
    }
    let firm = world.programs[&1].program.curb.is_some_and(|curb| curb.firm);
    assert!(firm && curbed > 180, "{firm} {curbed}");
    // Work alone is heard.
    world.works(1, 4.0);
    world.looks(2 * PERIOD);
    assert_eq!(world.curbed_to(1), None);
}

#[test]
fn curbs_end_with_the_programs_that_they_serve() {
    let mut world = World::of(&[(4, 0.0), (4, 4.0)]);
    world.looks(2_000 * MS);
    // A pause in which no program is hungry changes nothing.
    world.works(2, 0.0);
    world.looks(CALM / 2);
    assert_eq!(world.curbed_to(1), Some(0));
    world.works(2, 4.0);
    world.looks(CALM / 2);
    assert_eq!(world.curbed_to(1), Some(0));
    world.works(2, 0.0);
    world.looks(2 * CALM);
    assert_eq!(world.curbed_to(1), None);
    assert!(world.unused.next_look().is_some(), "they want more than there is still");
    world.uncontended = true;
    world.looks(2 * CALM);
    assert_eq!(world.unused.next_look(), None);
}

#[test]
fn where_all_programs_work_a_look_is_seldom_and_costs_little() {
    let mut world = World::of(&[(2, 2.0), (2, 1.5)]);
    world.looks(1_000 * MS);
    let before = world.now;
    world.look();
    assert_eq!(world.now - before, SLOW);
    let mut unused = Unused::default();
    unused.begin(0);
    unused.look(Sample { at: 0, cost: 5 * MS, contended: true, ..Sample::default() });
    assert_eq!(unused.next_look(), Some(1_000 * MS));
}

proptest! {
    /// Whatever the kernel says, also backwards, of programs that come and go: no panic, a next
    /// look in time, and a program that is curbed has left something unused.
    #[test]
    fn any_numbers_are_survived(looks in prop::collection::vec((0..400_u64, any::<[u64; 6]>(), any::<bool>()), 1..60)) {
        let mut unused = Unused::default();
        let mut curbs: BTreeMap<u64, Curb> = BTreeMap::new();
        let mut now = 0;
        for (passed, numbers, contended) in looks {
            now += passed * MS;
            unused.begin(now);
            let mut sample = Sample { at: now, contended, ..Sample::default() };
            for id in 0..3 {
                let number = numbers[id as usize];
                if number % 7 == 0 {
                    curbs.remove(&id);
                    continue;
                }
                let held = (number % 5) as u32;
                let (ran, waited) = (numbers[3 + id as usize], Some(number).filter(|it| it % 2 == 0));
                let program = Program { held, shared: number % 3 == 0, curb: curbs.get(&id).copied(), ran, waited };
                sample.programs.insert(id, program);
            }
            let known: Vec<u64> = sample.programs.keys().copied().collect();
            for (id, curb) in unused.look(sample) {
                prop_assert!(known.contains(&id) || curb.is_none());
                match curb {
                    Some(curb) => curbs.insert(id, curb),
                    None => curbs.remove(&id),
                };
            }
            if let Some(next) = unused.next_look() {
                prop_assert!(next > now && next <= now + SLOW);
            }
        }
    }

    /// A program that uses all that it has is never curbed, whatever the others do.
    #[test]
    fn a_program_that_works_is_left_alone(
        works in 1..9_u32,
        others in prop::collection::vec((1..9_u32, prop::collection::vec(0.0..9.0_f64, 1..5)), 1..5),
    ) {
        let mut programs = vec![(works, f64::from(works))];
        programs.extend(others.iter().map(|(held, _)| (*held, 0.0)));
        let mut world = World::of(&programs);
        for look in 0..40 {
            for (id, (_, works)) in (2..).zip(&others) {
                world.works(id, works[look % works.len()]);
            }
            world.look();
            prop_assert_eq!(world.curbed_to(1), None);
        }
    }
}
