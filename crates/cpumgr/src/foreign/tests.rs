use std::collections::BTreeMap;

use platform::affinity::Tid;
use proptest::prelude::*;

use super::*;

mod crowds;
mod rhythms;

const CPUS: u32 = 4;

/// A machine on which one program runs a thread on each processor that is not left, and strangers
/// have parts of some.
struct World {
    foreign: Foreign,
    now: Nanos,
    threads: BTreeMap<u32, Times>,
    busy: BTreeMap<u32, Nanos>,
    ran: Nanos,
    /// The part of each processor that strangers take.
    strangers: BTreeMap<u32, f64>,
    /// What the program's other threads run, in processors; they wait for those of the engine, and
    /// these for them.
    helpers: f64,
    /// The master is not the thread that sits on processor 0, which sleeps.
    foreign_master: bool,
    /// The part of the time in which a quota keeps the program back.
    kept_back: f64,
    /// Where the program has fewer than all processors, its threads wait so often in a millisecond.
    turns_in_ms: u64,
    turned: u64,
    /// The threads of its teams.
    team: u32,
    /// There are processors that no program has.
    spare: bool,
    /// The kernel's turns where a stranger computes all the time, and how much of the first is
    /// over: it counts a wait when it ends.
    turns: Option<Nanos>,
}

/// A turn of a thread of the kernel's.
const TURN: Nanos = 4 * MS;

impl World {
    fn new(seed: u64) -> Self {
        let mut foreign = Foreign::new(seed);
        foreign.look_closely(0);
        let all = || (0..CPUS).map(|cpu| (cpu, 0));
        let threads = (0..CPUS).map(|cpu| (cpu, Times::default())).collect();
        Self {
            foreign,
            now: 0,
            threads,
            busy: all().collect(),
            ran: 0,
            strangers: BTreeMap::new(),
            helpers: 0.0,
            foreign_master: false,
            kept_back: 0.0,
            turns_in_ms: 0,
            turned: 0,
            team: CPUS,
            spare: false,
            turns: None,
        }
    }

    /// What a thread ran and waited, as the kernel counts it, `time` after it came to a stranger
    /// that computes, when `first` of the round of the stranger's turn and its own was over.
    fn in_turns(time: Nanos, first: Nanos) -> Times {
        let turns = |time: Nanos| (time + TURN) / (2 * TURN);
        let ran = |time: Nanos| time / (2 * TURN) * TURN + (time % (2 * TURN)).saturating_sub(TURN);
        let waits = turns(first + time) - turns(first);
        // The first wait is what was left of the stranger's turn.
        let missed = if waits > 0 && first < TURN { first } else { 0 };
        Times { ran: ran(first + time) - ran(first), waited: waits * TURN - missed }
    }

    /// What is left in fact: the program keeps a processor.
    fn left(&self) -> Vec<u32> {
        let mut left = self.foreign.left();
        left.truncate(CPUS as usize - 1);
        left
    }

    fn pass(&mut self, time: Nanos) {
        let part = |share: f64| (time as f64 * share) as Nanos;
        let left = self.left();
        if !left.is_empty() {
            self.turned += self.turns_in_ms * time / MS;
        }
        for (cpu, times) in &mut self.threads {
            let stranger = self.strangers.get(cpu).copied().unwrap_or(0.0);
            let busy = self.busy.get_mut(cpu).unwrap();
            if left.contains(cpu) {
                // Alone a stranger has all that it can use.
                *busy += part(if stranger > 0.0 { (2.0 * stranger).min(1.0) } else { 0.0 });
                continue;
            }
            if self.kept_back > 0.0 {
                times.ran += part(1.0 - self.kept_back);
                times.waited += part(self.kept_back);
                self.ran += part(1.0 - self.kept_back);
                *busy += part(1.0 - self.kept_back);
                continue;
            }
            if self.foreign_master && *cpu == 0 {
                self.ran += time;
                *busy += time;
                continue;
            }
            if let Some(first) = self.turns.filter(|_| stranger > 0.0) {
                let [then, now] = [self.now, self.now + time].map(|at| Self::in_turns(at, first));
                times.ran += now.ran - then.ran;
                times.waited += now.waited - then.waited;
                self.ran += now.ran - then.ran;
                *busy += time;
                continue;
            }
            let others = stranger + self.helpers / f64::from(CPUS);
            times.ran += part(1.0 - others);
            times.waited += part(others);
            self.ran += part(1.0 - stranger);
            *busy += time;
        }
        self.now += time;
    }

    /// Goes on until the next look, and looks.
    fn look(&mut self) {
        let next = self.foreign.next_look().unwrap();
        self.pass(next - self.now);
        let close = self.foreign.is_close();
        let left = self.left();
        let threads = self.threads.iter().filter(|(cpu, _)| !left.contains(cpu));
        let threads =
            threads.map(|(cpu, times)| (*cpu, (Tid(100 + *cpu as i32), *times))).collect();
        let held = Held {
            threads,
            processors: CPUS as usize - left.len(),
            first: 0,
            ran: close.then_some(self.ran),
            crowd: Crowd { turns: self.turned as u32, threads: self.team },
        };
        let left = left.len();
        let held = [(1, held)].into();
        let mut sample =
            Sample { at: self.now, held, left, spare: self.spare, ..Sample::default() };
        if close {
            (sample.busy, sample.ran) = (self.busy.clone(), self.ran);
        }
        self.foreign.look(sample);
    }

    fn looks(&mut self, time: Nanos) {
        let end = self.now + time;
        while self.now < end {
            self.look();
        }
    }
}

#[test]
fn a_machine_of_its_own_is_looked_at_seldom() {
    let mut world = World::new(1);
    world.looks(100 * MS);
    assert!(world.foreign.left().is_empty() && !world.foreign.is_close());
    let before = world.now;
    world.look();
    assert_eq!(world.now - before, PERIOD);
}

#[test]
fn the_processor_of_a_stranger_is_left_within_three_windows_of_an_arrival() {
    let mut world = World::new(1);
    world.strangers.insert(2, 0.5);
    world.looks(3 * QUICK - 1);
    assert_eq!(world.foreign.left(), [2]);
}

#[test]
fn the_processor_of_a_stranger_is_left_within_three_windows_of_the_first_thread_there() {
    let mut world = World::new(1);
    world.strangers.insert(2, 0.5);
    let late = world.threads.remove(&2).unwrap();
    world.looks(2 * PERIOD);
    assert!(world.foreign.left().is_empty() && !world.foreign.is_close(), "no thread waits there");
    world.threads.insert(2, late);
    world.foreign.look_closely(world.now);
    let begin = world.now;
    world.looks(3 * QUICK - 1);
    assert_eq!(world.foreign.left(), [2]);
    assert!(world.now - begin < PERIOD);
}

/// What is left after 15 ms of hasty looks in which a stranger has `part` of a processor, where all
/// had been busy with the program.
fn left_after_hasty_looks(part: f64) -> Vec<u32> {
    let mut world = World::new(1);
    world.look();
    let begin = world.now;
    world.strangers.insert(1, part);
    while world.now < begin + TICKS {
        world.look();
    }
    assert_eq!(world.now - begin, TICKS);
    world.strangers.clear();
    let left = world.foreign.left();
    world.looks(1_000 * MS);
    assert!(world.foreign.left().is_empty());
    left
}

#[test]
fn short_waits_where_a_program_begins_are_accidents() {
    assert_eq!(left_after_hasty_looks(0.5), [1]);
    assert!(left_after_hasty_looks(0.4).is_empty());
}

#[test]
fn a_stranger_in_turns_is_met_in_his_second_or_third_turn_whatever_the_phase() {
    let of_phase = |quarter: u64| {
        let mut world = World::new(1);
        world.strangers.insert(1, 1.0);
        world.turns = Some(quarter * MS / 4);
        while world.foreign.left().is_empty() {
            world.look();
        }
        assert_eq!(world.foreign.left(), [1]);
        world.now
    };
    let latest = (0..32).map(of_phase).max().unwrap();
    assert!(latest <= 4 * TURN + HASTY, "{latest}");
}

#[test]
fn of_two_processors_the_more_contended_one_is_left_first() {
    let mut world = World::new(1);
    world.strangers.extend([(0, 0.5), (2, 0.6)]);
    world.looks(100 * MS);
    assert_eq!(world.foreign.left(), [2, 0]);
}

/// Samples of a program whose second thread is `threads(number of the sample)`; what is left after
/// each. The processors are busy.
fn looks_at(threads: impl Fn(u64) -> Option<(Tid, Times)>) -> Vec<Vec<u32>> {
    let mut foreign = Foreign::new(1);
    foreign.look_closely(0);
    let look = |number: u64| {
        let at = number * QUICK;
        let ran = Times { ran: at, waited: 0 };
        let second = threads(number).map(|thread| (1, thread));
        let ran_by_second = second.map_or(0, |(_, (_, times))| times.ran);
        let threads = [(0, (Tid(10), ran))].into_iter().chain(second).collect();
        let held = [(
            1,
            Held {
                threads,
                processors: 2,
                first: 0,
                ran: Some(at + ran_by_second),
                crowd: Crowd::default(),
            },
        )]
        .into();
        foreign.look(Sample {
            at,
            held,
            busy: [(0, at), (1, at)].into(),
            ran: at + ran_by_second,
            ..Sample::default()
        });
        foreign.left()
    };
    (0..4).map(look).collect()
}

#[test]
fn a_thread_that_begins_after_its_program_came_is_judged_from_its_beginning() {
    // It begins 2 ms after the first look, and has half of the processor.
    let half = |number: u64| (number * QUICK).saturating_sub(2 * MS) / 2;
    let second =
        |number| (number > 0).then(|| (Tid(11), Times { ran: half(number), waited: half(number) }));
    assert_eq!(looks_at(second), [vec![], vec![], vec![1], vec![1]]);
}

#[test]
fn what_a_thread_waited_before_it_came_here_says_nothing() {
    // It comes with a past, of more than the window or from another processor, and waits no more.
    for past in [QUICK, 400 * MS] {
        let second = |number| {
            Some((Tid(11), Times { ran: past + number * QUICK, waited: past }))
                .filter(|_| number > 0)
        };
        assert!(looks_at(second).concat().is_empty(), "{past}");
    }
    let other = |number: u64| {
        Some((
            Tid(if number == 0 { 12 } else { 11 }),
            Times { ran: number * QUICK, waited: 9 * MS },
        ))
    };
    assert!(looks_at(other).concat().is_empty());
}

#[test]
fn a_stranger_that_comes_later_is_met_within_a_period_and_three_windows() {
    let mut world = World::new(1);
    world.looks(1_000 * MS);
    let before = world.now;
    world.strangers.insert(3, 0.5);
    while world.foreign.left().is_empty() {
        world.look();
    }
    assert_eq!(world.foreign.left(), [3]);
    assert!(world.now - before <= PERIOD + 3 * QUICK, "{}", world.now - before);
}

#[test]
fn what_was_left_stays_left_while_it_is_used_and_comes_back_when_it_is_not() {
    let mut world = World::new(1);
    world.strangers.insert(2, 0.5);
    world.looks(3_000 * MS);
    assert_eq!(world.foreign.left(), [2]);
    world.strangers.clear();
    let before = world.now;
    while !world.foreign.left().is_empty() {
        world.look();
    }
    assert!(world.now - before < 4 * PATIENCE);
}

#[test]
fn a_disturbance_of_one_window_is_none() {
    let mut world = World::new(1);
    world.looks(1_000 * MS);
    world.strangers.insert(1, 0.3);
    world.look();
    world.strangers.clear();
    world.looks(1_000 * MS);
    assert!(world.foreign.left().is_empty());
}

#[test]
fn threads_of_the_program_itself_are_no_strangers() {
    let mut world = World::new(1);
    world.helpers = 1.6;
    world.looks(1_000 * MS);
    assert!(world.foreign.left().is_empty());
}

#[test]
fn a_master_that_is_not_the_initial_thread_is_no_helper() {
    let mut world = World::new(1);
    world.foreign_master = true;
    world.strangers.insert(2, 0.5);
    world.looks(100 * MS);
    assert_eq!(world.foreign.left(), [2]);
}

#[test]
fn a_program_that_is_kept_back_by_a_quota_meets_no_stranger() {
    let mut world = World::new(1);
    world.kept_back = 0.6;
    world.looks(1_000 * MS);
    assert!(world.foreign.left().is_empty());
}

#[test]
fn a_look_that_takes_long_is_taken_seldom() {
    let mut foreign = Foreign::new(1);
    foreign.look_closely(0);
    let mut at = 0;
    let windows = [(); 11].map(|()| {
        foreign.look(Sample { at, cost: 3 * MS, ..Sample::default() });
        let begin = at;
        at = foreign.next_look().unwrap();
        at - begin
    });
    assert_eq!(
        windows,
        [60, 60, 60, 60, 60, 60, 60, 60, 60, 600, 600].map(|ms| ms * MS),
        "less seldom while a program may have come with strangers"
    );
}

#[test]
fn a_stranger_that_comes_again_and_again_is_left_for_longer_and_longer() {
    let mut world = World::new(1);
    let mut stays = Vec::new();
    for _ in 0..5 {
        world.strangers.insert(0, 0.5);
        while world.foreign.left().is_empty() {
            world.look();
        }
        world.strangers.clear();
        let left = world.now;
        while !world.foreign.left().is_empty() {
            world.look();
        }
        stays.push(world.now - left);
    }
    assert!(stays[4] > 4 * stays[0], "{stays:?}");
}

#[test]
fn without_programs_nothing_is_looked_at() {
    let mut world = World::new(1);
    world.strangers.insert(2, 0.5);
    world.looks(500 * MS);
    world.foreign.forget();
    assert_eq!((world.foreign.next_look(), world.foreign.left()), (None, vec![]));
}

#[test]
fn a_machine_whose_business_is_not_known_gets_everything_back() {
    let mut world = World::new(1);
    world.strangers.insert(2, 0.5);
    world.looks(100 * MS);
    let end = world.now + 10 * PATIENCE;
    while world.now < end && !world.foreign.left().is_empty() {
        world.pass(PATIENCE);
        world.foreign.look(Sample { at: world.now, ..Sample::default() });
    }
    assert!(world.foreign.left().is_empty());
}

/// Two managers whose programs meet on both of two processors: each is to have one of them.
#[test]
fn two_managers_that_meet_each_other_part() {
    let mut parted = 0;
    const ROUNDS: u64 = 50;
    for seed in 0..ROUNDS {
        let mut managers = [Foreign::new(2 * seed), Foreign::new(2 * seed + 1)];
        managers.iter_mut().for_each(|it| it.look_closely(0));
        let mut times = [[Times::default(); 2]; 2];
        let (mut busy, mut now) = ([0_u64; 2], 0);
        let mut since = None;
        while now < 20_000 * MS {
            // The ledger keeps one processor for each program: the one that was to be left last.
            let has = |it: &Foreign, cpu: u32| it.left().first() != Some(&cpu);
            let on = [0, 1].map(|cpu| [0, 1].map(|who| has(&managers[who], cpu)));
            for cpu in 0..2 {
                let users = on[cpu].iter().filter(|it| **it).count() as u64;
                busy[cpu] += if users > 0 { MS } else { 0 };
                for who in (0..2).filter(|who| on[cpu][*who]) {
                    times[who][cpu].ran += MS / users;
                    times[who][cpu].waited += MS - MS / users;
                }
            }
            now += MS;
            for who in 0..2 {
                if managers[who].next_look().is_none_or(|at| at > now) {
                    continue;
                }
                let threads = (0..2)
                    .filter(|cpu| on[*cpu][who])
                    .map(|cpu| (cpu as u32, (Tid(cpu as i32), times[who][cpu])));
                let ran = times[who].iter().map(|it| it.ran).sum();
                let held = [(
                    1,
                    Held {
                        threads: threads.collect(),
                        processors: 2,
                        first: 0,
                        ran: Some(ran),
                        crowd: Crowd::default(),
                    },
                )]
                .into();
                let busy = [(0, busy[0]), (1, busy[1])].into();
                managers[who].look(Sample { at: now, held, busy, ran, ..Sample::default() });
            }
            let left = [0, 1].map(|who| managers[who].left().first().copied());
            let apart = left[0].is_some() && left[1].is_some() && left[0] != left[1];
            since = if apart { since.or(Some(now)) } else { None };
        }
        parted += u64::from(since.is_some_and(|since| since < 15_000 * MS));
    }
    assert_eq!(parted, ROUNDS);
}

proptest! {
    /// Whatever the kernel says, also backwards and of threads that come and go: no panic, and a
    /// next look in time.
    #[test]
    fn any_numbers_are_survived(samples in prop::collection::vec((0..400_u64, any::<[u64; 8]>(), any::<bool>()), 1..60)) {
        let mut foreign = Foreign::new(7);
        foreign.look_closely(0);
        let mut now = 0;
        for (passed, numbers, close) in samples {
            now += passed * MS;
            match numbers[0] % 7 {
                0 => foreign.look_closely(now),
                1 => {
                    foreign.forget();
                    foreign.look_closely(now);
                }
                _ => {}
            }
            let times = Times { ran: numbers[0], waited: numbers[1] };
            let threads = [(numbers[2] as u32 % 3, (Tid(numbers[3] as i32 % 3), times))].into();
            let team = [0, 1, 2, 3, u32::MAX][numbers[3] as usize % 5];
            let crowd = Crowd { turns: numbers[1] as u32, threads: team };
            let (processors, left) = (numbers[6] as usize % 3, numbers[7] as usize % 3);
            let ran = close.then_some(numbers[5]);
            let held = Held { threads, processors, first: 0, ran, crowd };
            let held = [(numbers[4] % 2, held)].into();
            let busy = if close { [(0, numbers[6]), (1, numbers[7])].into() } else { BTreeMap::new() };
            let ran = numbers[5];
            foreign.look(Sample { at: now, held, busy, left, ran, ..Sample::default() });
            let next = foreign.next_look().unwrap();
            prop_assert!(next > now && next <= now + PERIOD);
        }
    }
}
