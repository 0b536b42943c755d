//! Foreign load: processors on which programs run that are not managed, and which are left to those
//! for a while (D9).
//!
//! # Why
//! Members of a team wait for each other. One that shares its processor with a stranger (another
//! user's program, one without a manager, a virtual machine) is late by a time slice, and all wait
//! for it: two processors of which one is shared are worth less than one. So such a processor is
//! left to the stranger, which gains, too.
//!
//! # Rule
//! 1. The kernel counts for each thread how long it ran and how long it *waited* for a processor.
//!    On a processor that one program holds alone, the stranger's share is what the thread that is
//!    meant to run there waited, less what the program's other threads ran. Those are members
//!    without a processor of their own, and threads that are none of the engine's. The initial
//!    thread counts as the master, and where it does not run itself, so does one processor of what
//!    other threads run.
//! 2. A share that is worth it (`worth`), [`CONTENDED`] or more, makes a suspect. A second window
//!    with as much, in which the processor was busy, decides. Where a program comes or threads
//!    begin the decision is made sooner, since a team of two stands still for most of the time
//!    until a hog's processor is left to it: by [`CERTAIN`] waiting in the last [`TICKS`], or since
//!    the thread began, on a processor that was busy. (The kernel counts a wait when it ends, and
//!    turns are of 4 ms: short windows one by one would see one in every second. Less than two
//!    turns may be the program's own threads, which the kernel packs on one processor when they
//!    begin; the time before says that others ran, not where.) Of several processors the most
//!    contended is left first.
//! 3. What was left comes back when no stranger uses it: its own busy time, or that of the whole
//!    machine without what the programs ran, is below [`CALM`] for a time of patience. That time
//!    doubles whenever the stranger was back at once. A processor also comes back when its stranger
//!    uses so little of it that a team loses less by waiting for the stranger than by having one
//!    processor less (`worth`): one of two is left only to a stranger that uses most of it. Then
//!    the stranger is known to work in a rhythm: from then on what it takes in [`RHYTHM`] decides,
//!    and not its next turn, until it has gone.
//! 4. Two managers that leave the same processor to each other would come back at once, too:
//!    patience has a part that each draws for itself.
//! 5. A team that has to keep its size (`num_threads(2)`, a region that lasts) gains nothing where
//!    its program has fewer processors: its threads take turns on them. What such a team needs
//!    comes back, and is left only to a stranger that takes most of it (`crowds`).
//! 6. Each program keeps a processor (`Ledger::leave_to_others`): leaving one never makes programs
//!    share another.
//!
//! Looks are close to each other while a program is new ([`HASTY`], then [`QUICK`]), otherwise
//! there is one in [`PERIOD`]. A look reads one small file for each processor that is held. Looks
//! never take more than a two-hundredth of the manager's time, or a twentieth in the few windows
//! after an arrival, since a look takes a third of a millisecond where memory is cold. Processes of
//! lower priority (`nice`) make no program wait, and are no strangers.
//!
//! # Papers
//! None: the papers' machine was dedicated. D9 wants it for two managers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use arena::layout::Crowd;
use platform::affinity::Tid;

use crowds::Crowds;

mod crowds;

/// Nanoseconds on the monotonic clock, or of a processor.
type Nanos = u64;

const MS: Nanos = 1_000_000;
/// Share of a stranger that makes a processor worth leaving.
pub const CONTENDED: f64 = 0.25;
/// The same where a team of two would be one of one. A program that leaves one of its processors
/// loses that part of its speed; one that stays loses the stranger's share. Below a half, since
/// what is left is all the stranger's.
const CONTENDED_OF_TWO: f64 = 0.4;
/// Share below which a processor is unused.
pub const CALM: f64 = 0.15;
/// What of its worth a processor may be used by others when it comes back.
const CAUTION: f64 = 0.9;
/// What a stranger with a rhythm takes is known over this time.
pub const RHYTHM: Nanos = 500 * MS;
/// The time between looks where something begins.
pub const HASTY: Nanos = 3_750_000;
/// The number of these looks.
const HASTY_LOOKS: u32 = 6;
/// This much waiting in [`TICKS`] shows a stranger: two of its turns.
pub const CERTAIN: Nanos = 7 * MS;
/// A window while something is being found out.
pub const QUICK: Nanos = 15 * MS;
/// The windows of that kind after those.
const QUICK_WINDOWS: u32 = 3;
/// How busy a processor was is known over this time: the kernel counts that in ticks of up to two
/// thirds of it.
pub const TICKS: Nanos = 15 * MS;
/// A window is at least this many times as long as a look.
const REST: Nanos = 200;
/// The same for the few windows after an arrival.
const QUICK_REST: Nanos = 20;
/// A processor on which two compete is never idle.
const BUSY: f64 = 0.5;
/// A window otherwise: a sign of life is due as often.
pub const PERIOD: Nanos = 250 * MS;
/// For how long a processor must be unused before it comes back; at most.
const PATIENCE: Nanos = 100 * MS;
const LONGEST_PATIENCE: Nanos = 1_600 * MS;
/// A stranger that is met again within this time after a processor came back had not gone.
const RELAPSE: Nanos = 1_000 * MS;

/// What the kernel counts of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// How long it ran.
    pub ran: Nanos,
    /// How long it could have run and had no processor.
    pub waited: Nanos,
}

/// A program and the processors that it alone holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The thread that is meant to run on each.
    pub threads: BTreeMap<u32, (Tid, Times)>,
    /// How many they are.
    pub processors: usize,
    /// The processor of the master. Which thread that is, is not known: the initial one, or another
    /// one that is none of `threads`.
    pub first: u32,
    /// What all its threads ran together; in a close look.
    pub ran: Option<Nanos>,
    /// What it says of teams that are larger than that.
    pub crowd: Crowd,
}

/// The machine at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// When.
    pub at: Nanos,
    /// By program.
    pub held: BTreeMap<u64, Held>,
    /// How long each managed processor was busy; in a close look.
    pub busy: BTreeMap<u32, Nanos>,
    /// What all programs ran together; in a close look.
    pub ran: Nanos,
    /// How many of those that are to be left are left in fact.
    pub left: usize,
    /// There are processors that no program holds: a program that leaves one gets another one.
    pub spare: bool,
    /// What it took to find this out.
    pub cost: Nanos,
}

impl Sample {
    /// How long all managed processors together were busy.
    fn busy_in_all(&self) -> Nanos {
        self.busy.values().fold(0, |sum, busy| sum.saturating_add(*busy))
    }
}

/// A processor that is left to others.
#[derive(Clone, Copy, Debug)]
struct Left {
    cpu: u32,
    /// The program that it was taken from.
    program: Option<u64>,
    /// The window in which it must be unused: where it began, with the sample of then.
    since: Nanos,
    busy: Nanos,
    busy_machine: Nanos,
    ran: Nanos,
    patience: Nanos,
}

impl Left {
    /// Begins a window of patience for one that was left, or that is.
    fn since(sample: &Sample, cpu: u32, program: Option<u64>, patience: Nanos) -> Self {
        let busy = sample.busy.get(&cpu).copied().unwrap_or(0);
        Self {
            cpu,
            program,
            since: sample.at,
            busy,
            busy_machine: sample.busy_in_all(),
            ran: sample.ran,
            patience,
        }
    }
}

/// What a stranger with a rhythm took of a processor that came back.
#[derive(Clone, Copy, Debug, Default)]
struct Rhythm {
    /// In this time.
    passed: f64,
    taken: f64,
}

/// What came back, and may have to go again.
#[derive(Clone, Copy, Debug)]
struct Returned {
    at: Nanos,
    patience: Nanos,
}

/// Finds processors on which strangers run.
#[derive(Debug)]
pub struct Foreign {
    left: Vec<Left>,
    returned: BTreeMap<u32, Returned>,
    /// Those that came back although a stranger uses a part of them.
    rhythms: BTreeMap<u32, Rhythm>,
    /// Programs whose teams have to keep their size.
    crowds: Crowds,
    /// Those with a stranger in the last window.
    suspects: BTreeSet<u32>,
    /// The samples back to one that is [`TICKS`] old.
    past: VecDeque<Sample>,
    /// Looks that are left of those after an arrival: [`HASTY`] ones, and then [`QUICK_WINDOWS`].
    quick: u32,
    next: Option<Nanos>,
    /// No sooner, for the cost of the last look.
    rests_until: Nanos,
    /// Draws the random part of patience.
    dice: u64,
}

impl Foreign {
    /// Nothing is known yet. Managers on one machine have different seeds.
    pub fn new(seed: u64) -> Self {
        // A generator of xorshift's kind stays at 0 for ever.
        let dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Self {
            left: Vec::new(),
            returned: BTreeMap::new(),
            rhythms: BTreeMap::new(),
            crowds: Crowds::default(),
            suspects: BTreeSet::new(),
            past: VecDeque::new(),
            quick: 0,
            next: None,
            rests_until: 0,
            dice,
        }
    }

    /// When to look again; `None` without programs.
    pub fn next_look(&self) -> Option<Nanos> {
        self.next
    }

    /// The processors that are left to others, the most contended first.
    pub fn left(&self) -> Vec<u32> {
        self.left.iter().map(|it| it.cpu).collect()
    }

    /// A program came, or its threads begin: look closely for a while.
    pub fn look_closely(&mut self, now: Nanos) {
        // The first sample is of now: windows that began earlier say nothing about the newcomer.
        let soon =
            if self.quick == 0 { now } else { now.saturating_add(HASTY).max(self.rests_until) };
        self.next = Some(self.next.map_or(soon, |next| next.min(soon)));
        // And the look that begins the first window.
        self.quick = HASTY_LOOKS + QUICK_WINDOWS + 1;
    }

    /// No program is there: nothing is left to others, and nothing is looked at.
    pub fn forget(&mut self) {
        (self.quick, self.next) = (0, None);
        self.past.clear();
        self.left.clear();
        self.returned.clear();
        self.rhythms.clear();
        self.crowds = Crowds::default();
        self.suspects.clear();
    }

    /// The next sample is to be a close look.
    pub fn is_close(&self) -> bool {
        self.quick > 0
            || !self.left.is_empty()
            || !self.suspects.is_empty()
            || !self.rhythms.is_empty()
    }

    /// Takes a sample in.
    pub fn look(&mut self, sample: Sample) {
        let before = self.left();
        let age = |then: &Sample| sample.at.saturating_sub(then.at);
        while self.past.get(1).is_some_and(|then| age(then) >= TICKS) {
            self.past.pop_front();
        }
        let ticks = self.past.front().filter(|then| age(then) >= TICKS);
        let is_hasty = self.quick > QUICK_WINDOWS;
        let recent =
            self.past.iter().find(|then| is_hasty && age(then) <= TICKS).or(self.past.back());
        let is_of = |it: &&Left, program| it.program == Some(program);
        let left_by = |program| self.left.iter().filter(|it| is_of(it, program)).count();
        let lacking = self.crowds.look(&sample, left_by);
        let stays = |program| self.crowds.has(program, sample.at);
        let shares = recent.map(|recent| (age(recent), shares(recent, &sample, ticks, stays)));
        let (passed, mut shares) = shares.unwrap_or_default();
        let mut rhythmic = if is_hasty { Vec::new() } else { self.listen(&shares, passed) };
        shares.retain(|cpu, it| {
            it.share >= it.worth && !before.contains(cpu) && !self.rhythms.contains_key(cpu)
        });
        let is_found = |cpu: &u32, it: &Share| {
            let is_certain = it.share * passed as f64 >= CERTAIN as f64;
            it.was_busy && if is_hasty { is_certain } else { self.suspects.contains(cpu) }
        };
        let mut found: Vec<(u32, f64)> = shares
            .iter()
            .filter(|(cpu, it)| is_found(cpu, it))
            .map(|(cpu, it)| (*cpu, it.share))
            .collect();
        found.sort_by(|a, b| b.1.total_cmp(&a.1));
        let found: Vec<u32> = found.into_iter().map(|(cpu, _)| cpu).collect();
        rhythmic.retain(|cpu| !before.contains(cpu));
        self.rhythms.retain(|cpu, _| !rhythmic.contains(cpu));
        self.suspects = shares.into_keys().filter(|cpu| !found.contains(cpu)).collect();
        for (program, processors) in lacking {
            self.give_back(program, processors, &sample);
        }
        for cpu in found.iter().chain(&rhythmic) {
            self.leave(*cpu, &sample);
        }
        self.take_back(&sample);
        self.quick = self.quick.saturating_sub(1);
        let window = if self.quick > QUICK_WINDOWS {
            HASTY
        } else if !self.suspects.is_empty() || self.quick > 0 {
            QUICK
        } else if self.left.is_empty() && self.rhythms.is_empty() {
            PERIOD
        } else {
            PATIENCE
        };
        let rest = if self.quick > 0 { QUICK_REST } else { REST };
        self.rests_until = sample.at + sample.cost.saturating_mul(rest);
        self.next = Some(self.rests_until.max(sample.at + window));
        self.past.push_back(sample);
    }

    /// Adds what strangers with a rhythm took in a window; returns the processors whose strangers
    /// took enough in the time of a rhythm to have none.
    fn listen(&mut self, shares: &BTreeMap<u32, Share>, passed: Nanos) -> Vec<u32> {
        let mut found = Vec::new();
        self.rhythms.retain(|cpu, rhythm| {
            let Some(share) = shares.get(cpu) else { return true };
            rhythm.passed += passed as f64;
            rhythm.taken += share.share.max(0.0) * passed as f64;
            if rhythm.passed < RHYTHM as f64 {
                return true;
            }
            let taken = rhythm.taken / rhythm.passed;
            if taken >= share.worth && share.was_busy {
                found.push(*cpu);
            }
            *rhythm = Rhythm::default();
            // A stranger that takes next to nothing has gone.
            taken >= CALM / 2.0
        });
        found
    }

    fn leave(&mut self, cpu: u32, sample: &Sample) {
        let relapse =
            self.returned.get(&cpu).filter(|it| sample.at.saturating_sub(it.at) < RELAPSE);
        let patience = relapse.map_or(PATIENCE, |it| (it.patience * 2).min(LONGEST_PATIENCE));
        let holds = |(_, held): &(&u64, &Held)| held.threads.contains_key(&cpu);
        let program = sample.held.iter().find(holds).map(|(program, _)| *program);
        self.left.push(Left::since(sample, cpu, program, patience));
        self.crowds.begin(sample);
        // Whether its program can do without is soon seen.
        self.quick = self.quick.max(QUICK_WINDOWS);
    }

    /// A program gets back processors that it left. What is to be left and is not (the ledger keeps
    /// what was to be left last) goes first.
    fn give_back(&mut self, program: u64, processors: usize, sample: &Sample) {
        let mut missing = processors + self.left.len().saturating_sub(sample.left);
        for at in (0..self.left.len()).rev() {
            if missing > 0 && self.left[at].program == Some(program) {
                self.come_back(at, sample);
                missing -= 1;
            }
        }
    }

    /// What was left as the number `at` comes back.
    fn come_back(&mut self, at: usize, sample: &Sample) {
        let left = self.left.remove(at);
        self.returned.insert(left.cpu, Returned { at: sample.at, patience: left.patience });
        self.quick = self.quick.max(QUICK_WINDOWS);
    }

    fn take_back(&mut self, sample: &Sample) {
        // Of the largest team that may have it.
        let team = sample.held.values().map(|held| held.threads.len()).max().unwrap_or(0) + 1;
        let worth = worth(team, sample.spare);
        // Where all that is left costs little, no program comes back to a stranger.
        let calm = if worth > CONTENDED { CAUTION * worth } else { CALM };
        // The one that was left last comes back first.
        for at in (0..self.left.len()).rev() {
            let left = self.left[at];
            let passed = sample.at.saturating_sub(left.since);
            let wait = left.patience + self.draw(left.patience / 2);
            if passed < wait {
                continue;
            }
            let share = |from: Nanos, to: Nanos| to.saturating_sub(from) as f64 / passed as f64;
            let busy = share(left.busy, sample.busy.get(&left.cpu).copied().unwrap_or(0));
            let strangers =
                share(left.busy_machine, sample.busy_in_all()) - share(left.ran, sample.ran);
            // What strangers use fills those that were left before this one.
            let is_rhythm = busy >= CALM && busy < calm;
            if busy < calm || strangers < at as f64 + CALM {
                if is_rhythm {
                    self.rhythms.insert(left.cpu, Rhythm::default());
                }
                self.come_back(at, sample);
            } else {
                self.left[at] = Left::since(sample, left.cpu, left.program, left.patience);
            }
        }
    }

    /// A number below `bound`, or 0.
    fn draw(&mut self, bound: u64) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        self.dice.checked_rem(bound).unwrap_or(0)
    }
}

/// What strangers had of a processor.
struct Share {
    share: f64,
    /// From this share on it is worth leaving.
    worth: f64,
    /// It was busy, and what the program's other threads ran is known: a thread that waits though
    /// its processor is idle is kept back by something else, as the quota of a control group.
    was_busy: bool,
}

/// The share of a stranger from which a program that runs on this many `processors` gains by
/// leaving one of them: it loses that one's part of its speed, unless another one is `spare`, and
/// would lose the share. Members of a team wait for each other.
fn worth(processors: usize, spare: bool) -> f64 {
    if spare || processors < 2 {
        return CONTENDED;
    }
    (2.0 * CONTENDED_OF_TWO / processors as f64).clamp(CONTENDED, CONTENDED_OF_TWO)
}

/// What the kernel had counted of `thread` when the window of length `passed` began, as far as that
/// says something of `cpu`. A thread that was not known then, and whose whole life fits into the
/// window, began in it: those of a new program do, and its first window counts. A processor that
/// went to another thread meanwhile says nothing.
fn base(before: &Held, cpu: u32, (thread, times): (Tid, Times), passed: Nanos) -> Option<Times> {
    match before.threads.get(&cpu) {
        Some((who, then)) if *who == thread => return Some(*then),
        Some(_) => return None,
        None => {}
    }
    let is_new = before.threads.values().all(|(who, _)| *who != thread);
    (is_new && times.ran.saturating_add(times.waited) <= passed).then(Times::default)
}

/// What strangers had of each processor between two samples (rule 1). `ticks`: one that is long
/// enough ago to say how busy a processor was; `stays`: the teams of that program have to keep
/// their size.
fn shares(
    last: &Sample,
    now: &Sample,
    ticks: Option<&Sample>,
    stays: impl Fn(u64) -> bool,
) -> BTreeMap<u32, Share> {
    let passed = now.at.saturating_sub(last.at) as f64;
    let part = |from: Nanos, to: Nanos| to.saturating_sub(from) as f64 / passed;
    let was_busy = |cpu| {
        let Some(ticks) = ticks else { return false };
        let Some((then, busy)) = ticks.busy.get(&cpu).zip(now.busy.get(&cpu)) else { return false };
        busy.saturating_sub(*then) as f64 >= BUSY * now.at.saturating_sub(ticks.at) as f64
    };
    let mut shares = BTreeMap::new();
    for (program, held) in &now.held {
        let Some(before) = last.held.get(program).filter(|_| passed > 0.0) else { continue };
        let mut on = Vec::new();
        let (mut seated, mut first) = (0.0, 0.0);
        for (cpu, (tid, times)) in &held.threads {
            let Some(then) = base(before, *cpu, (*tid, *times), now.at.saturating_sub(last.at))
            else {
                continue;
            };
            let ran = part(then.ran, times.ran);
            seated += ran;
            if *cpu == held.first {
                first = ran;
            }
            on.push((*cpu, part(then.waited, times.waited).min(1.0 - ran)));
        }
        let all = held.ran.zip(before.ran).map(|(now, then)| part(then, now));
        // Its other threads may have run anywhere; one of them is the master where the initial
        // thread is not.
        let master = if first < 1.0 { 1.0 - first } else { 0.0 };
        let others = all.map_or(0.0, |all| (all - seated - master).max(0.0));
        for (cpu, share) in on {
            let was_busy = all.is_some() && was_busy(cpu);
            let worth = match stays(*program) && !now.spare {
                true => crowds::CONTENDED,
                false => worth(held.threads.len(), now.spare),
            };
            shares.insert(cpu, Share { share: share - others, worth, was_busy });
        }
    }
    shares
}

#[cfg(test)]
mod tests;
