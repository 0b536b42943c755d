//! The grant: how many processors a program has now, and which, as one word and two bitmaps in
//! shared memory.
//!
//! # Protocol
//! 1. The manager (the only writer) writes the processors of epoch `e + 1` into the bitmap that
//!    epoch `e` does not use.
//! 2. It stores the grant word of epoch `e + 1`.
//!
//! A reader loads the grant word, and that is all it needs for the number. For the processors it
//! reads the bitmap that the epoch names and looks at the word again: an unchanged epoch proves
//! that the manager did not write that bitmap meanwhile.
//!
//! *Turns.* A second word of the grant's line says whether programs take turns, and when this one's
//! comes ([`Turn`]). Where a turn ends, the manager (a) stores the time of the next one, (b) the
//! grant word of the shared processor. Where it begins: (c) the grant word, (d) [`Turn::Now`]. A
//! master that is about to fork (1) loads the grant word, (2) the turn. Of a shared grant it finds
//! the time (b was stored after a), or hears of a turn that came meanwhile, and then finds the
//! grant of that turn when it looks again (d was stored after c).
//!
//! # Invariants
//! - G1 The bitmap of the published epoch is never written: a manager that dies at any step leaves
//!   a readable grant.
//! - G2 Between two writes of one bitmap lies a store of the grant word (epochs use the bitmaps in
//!   turn).
//!
//! # Access
//! All words: written by the manager's scheduler thread, read by any thread of the program.

use platform::affinity::{CpuId, CpuSet};
use platform::sync::atomic::{AtomicU64, Ordering, fence};

/// The words of a processor bitmap; loom explores two.
#[cfg(not(loom))]
pub const CPU_WORDS: usize = 16;
/// The words of a processor bitmap; loom explores two.
#[cfg(loom)]
pub const CPU_WORDS: usize = 2;

/// Processor numbers that the arena can name are below this.
pub const MAX_CPUS: u32 = 64 * CPU_WORDS as u32;

const PROCESSORS_MASK: u64 = 0xffff;
const DEDICATED: u64 = 1 << 16;
const SHARED: u64 = 1 << 17;
const FIXED_TEAM: u64 = 1 << 18;
const EPOCH_SHIFT: u32 = 32;
const _: () = assert!(
    MAX_CPUS as u64 <= PROCESSORS_MASK
        && DEDICATED > PROCESSORS_MASK
        && FIXED_TEAM < 1 << EPOCH_SHIFT
);

/// How many times a reader of the processors looks again before it takes what it has. A manager
/// changes a grant at most some hundred times a second and a look takes well under a microsecond,
/// so the limit only stops a reader whose manager is hostile.
const LOOKS: usize = 64;

/// What a program may use now.
///
/// As one word: bits 0-15 processors, bit 16 dedicated, bit 17 shared, bit 18 fixed team,
/// bits 32-63 epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The processors that the program may use, at least one.
    pub processors: u32,
    /// No other program wants processors: a team may wait hot.
    pub dedicated: bool,
    /// Its processors are used by several programs in turn: the only one that it has, or any under
    /// a grant that binds nothing.
    pub shared: bool,
    /// The program's teams of no number of their own keep their size, whatever is granted: its
    /// threads share the processors that it has.
    pub fixed_team: bool,
    /// Changes with each new grant.
    pub epoch: u32,
}

impl Grant {
    /// The grant as one word.
    pub const fn pack(self) -> u64 {
        (self.processors as u64 & PROCESSORS_MASK)
            | if self.dedicated { DEDICATED } else { 0 }
            | if self.shared { SHARED } else { 0 }
            | if self.fixed_team { FIXED_TEAM } else { 0 }
            | (self.epoch as u64) << EPOCH_SHIFT
    }

    /// The grant that a word says; a number of processors that makes no sense is clamped to
    /// `1..=MAX_CPUS`.
    #[inline]
    pub const fn unpack(word: u64) -> Self {
        let processors = (word & PROCESSORS_MASK) as u32;
        let processors = if processors == 0 {
            1
        } else if processors > MAX_CPUS {
            MAX_CPUS
        } else {
            processors
        };
        Self {
            processors,
            dedicated: word & DEDICATED != 0,
            shared: word & SHARED != 0,
            fixed_team: word & FIXED_TEAM != 0,
            epoch: (word >> EPOCH_SHIFT) as u32,
        }
    }
}

/// Whether programs take turns, and when this one's comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Turn {
    /// The policy gives no turns, or none at present.
    #[default]
    None,
    /// Programs take turns, and this one has its own.
    Now,
    /// It is outside its turn, which comes at this time of the monotonic clock, in ns, as far as
    /// the manager can tell.
    At(u64),
}

impl Turn {
    /// As one word: 0 none, 1 now, otherwise the time.
    const fn pack(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Now => 1,
            Self::At(ns) => {
                if ns < 2 {
                    2
                } else {
                    ns
                }
            }
        }
    }

    const fn unpack(word: u64) -> Self {
        match word {
            0 => Self::None,
            1 => Self::Now,
            ns => Self::At(ns),
        }
    }
}

/// The grant word, with the turn's: the line that a fork reads.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct GrantLine {
    word: AtomicU64,
    turn: AtomicU64,
}

/// A processor bitmap: bit `i` of word `w` is processor `64 w + i`.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CpuLine {
    words: [AtomicU64; CPU_WORDS],
}

impl CpuLine {
    /// The one writer's side: writes the whole bitmap, word by word.
    pub(crate) fn write(&self, cpus: impl Iterator<Item = CpuId>) {
        for (word, value) in self.words.iter().zip(bitmap(cpus)) {
            // ORDERING: Relaxed - published by the caller.
            word.store(value, Ordering::Relaxed);
        }
    }

    /// The bitmap, word by word.
    pub(crate) fn read(&self) -> CpuSet {
        let mut cpus = CpuSet::new();
        for (index, word) in self.words.iter().enumerate() {
            // ORDERING: Relaxed - ordered by the caller: by the loads of the grant word before and
            // after, or by a fence.
            let mut bits = word.load(Ordering::Relaxed);
            while bits != 0 {
                cpus.insert(CpuId(index as u32 * 64 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        cpus
    }

    /// Adds a processor; true when it was not there and can be named.
    pub(crate) fn insert(&self, cpu: CpuId) -> bool {
        let bit = 1 << (cpu.0 % 64);
        let word = self.words.get(cpu.0 as usize / 64);
        // ORDERING(release.add): Release - what the virtual processor did on it; pairs with
        // ORDERING(release.read).
        word.is_some_and(|word| word.fetch_or(bit, Ordering::Release) & bit == 0)
    }

    /// Empties the bitmap; true when it was not empty.
    pub(crate) fn clear(&self) -> bool {
        let mut any = false;
        for word in &self.words {
            // ORDERING: Relaxed - wanting everything again publishes nothing; the doorbell follows.
            // The load spares a line that no thread wrote.
            any |= word.load(Ordering::Relaxed) != 0 && word.swap(0, Ordering::Relaxed) != 0;
        }
        any
    }
}

/// The grant word and the bitmaps of even and odd epochs.
#[derive(Debug, Default)]
#[repr(C)]
pub struct GrantArea {
    line: GrantLine,
    cpus: [CpuLine; 2],
}

impl GrantArea {
    /// The number of processors and the flags. One load.
    #[inline]
    pub fn read(&self) -> Grant {
        // ORDERING(grant.read): Acquire - the bitmap of this epoch; pairs with
        // ORDERING(grant.publish).
        Grant::unpack(self.line.word.load(Ordering::Acquire))
    }

    /// The grant together with its processors, of one epoch. At most `LOOKS` looks.
    pub fn read_with_cpus(&self) -> (Grant, CpuSet) {
        let mut grant = self.read();
        for _ in 0..LOOKS {
            let cpus = self.read_cpus(grant.epoch);
            // ORDERING(grant.recheck): Acquire fence - a bitmap word of a later epoch brings that
            // epoch's predecessor in the grant word with it; pairs with ORDERING(grant.reuse).
            fence(Ordering::Acquire);
            let again = self.read();
            if again.epoch == grant.epoch {
                return (again, cpus);
            }
            grant = again;
        }
        (grant, self.read_cpus(grant.epoch))
    }

    /// Publishes the next epoch and returns it. The manager's side, one thread only.
    pub fn publish(
        &self,
        processors: u32,
        dedicated: bool,
        shared: bool,
        cpus: impl Iterator<Item = CpuId>,
    ) -> Grant {
        // ORDERING: Relaxed - this thread is the word's only writer.
        let before = Grant::unpack(self.line.word.load(Ordering::Relaxed));
        let epoch = before.epoch.wrapping_add(1);
        // ORDERING(grant.reuse): Release fence - a reader that sees a word of the bitmap that is
        // now written again also sees that its old epoch is over (G2); pairs with
        // ORDERING(grant.recheck).
        fence(Ordering::Release);
        // Published by the store of the grant word below.
        self.cpus[epoch as usize % 2].write(cpus);
        let grant =
            Grant { processors: processors.clamp(1, MAX_CPUS), dedicated, shared, epoch, ..before };
        // ORDERING(grant.publish): Release - the bitmap before its epoch; pairs with
        // ORDERING(grant.read).
        self.line.word.store(grant.pack(), Ordering::Release);
        grant
    }

    /// Whether programs take turns, and when this one's comes: a time before the grant of what it
    /// has until then (step a), anything else after the grant (step d). The manager's side, one
    /// thread only.
    /// True when that is new.
    pub fn set_turn(&self, turn: Turn) -> bool {
        // ORDERING: Relaxed - this thread is the word's only writer.
        let is_new = self.line.turn.load(Ordering::Relaxed) != turn.pack();
        if is_new {
            // ORDERING(turn.say): Release - the grant of a turn that has come; pairs with
            // ORDERING(turn.hear).
            self.line.turn.store(turn.pack(), Ordering::Release);
        }
        is_new
    }

    /// What [`GrantArea::set_turn`] said last. To be read after the grant. One load, of the grant's
    /// line.
    #[inline]
    pub fn turn(&self) -> Turn {
        // ORDERING(turn.hear): Acquire - a program that hears that its turn has come finds what it
        // was granted for it; pairs with ORDERING(turn.say).
        Turn::unpack(self.line.turn.load(Ordering::Acquire))
    }

    /// Whether teams keep their size, from now on: the same epoch, since what is granted is the
    /// same. The manager's side, one thread only.
    pub fn set_fixed_team(&self, fixed_team: bool) {
        // ORDERING: Relaxed - this thread is the word's only writer.
        let grant = Grant::unpack(self.line.word.load(Ordering::Relaxed));
        // ORDERING(grant.publish): Release - as of a grant; the bitmap is the one that is there.
        self.line.word.store(Grant { fixed_team, ..grant }.pack(), Ordering::Release);
    }

    /// The manager's side, before the program gets the area: the epoch that the next one follows.
    /// So a program that was told another epoch by another manager sees a new one.
    pub fn begin_after(&self, epoch: u32) {
        let grant = Grant { epoch, ..self.read() };
        // ORDERING: Relaxed - the area travels through the socket afterwards.
        self.line.word.store(grant.pack(), Ordering::Relaxed);
    }

    fn read_cpus(&self, epoch: u32) -> CpuSet {
        self.cpus[epoch as usize % 2].read()
    }
}

fn bitmap(cpus: impl Iterator<Item = CpuId>) -> [u64; CPU_WORDS] {
    let mut bits = [0; CPU_WORDS];
    for CpuId(cpu) in cpus.filter(|cpu| cpu.0 < MAX_CPUS) {
        bits[cpu as usize / 64] |= 1 << (cpu % 64);
    }
    bits
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_fresh_area_grants_one_processor() {
        let area = GrantArea::default();
        let fresh =
            Grant { processors: 1, dedicated: false, shared: false, fixed_team: false, epoch: 0 };
        assert_eq!(area.read(), fresh);
        assert!(area.read_with_cpus().1.is_empty());
    }

    #[test]
    fn each_publish_is_a_new_epoch_with_its_own_processors() {
        let area = GrantArea::default();
        for round in 0..5_u32 {
            let cpus: CpuSet = [CpuId(round), CpuId(1023 - round)].into_iter().collect();
            let published = area.publish(2, round % 2 == 0, round % 2 == 1, cpus.iter());
            assert_eq!(published.epoch, round + 1);
            let (grant, seen) = area.read_with_cpus();
            assert_eq!((grant, seen), (published, cpus));
        }
    }

    #[test]
    fn a_class_stays_what_it_was_when_a_grant_is_published_and_changes_no_grant() {
        let area = GrantArea::default();
        let cpus: CpuSet = [CpuId(3), CpuId(4)].into_iter().collect();
        area.set_fixed_team(true);
        assert!(area.publish(2, true, false, cpus.iter()).fixed_team);
        let before = area.read();
        area.set_fixed_team(false);
        assert_eq!(area.read_with_cpus(), (Grant { fixed_team: false, ..before }, cpus));
        area.set_fixed_team(true);
        area.begin_after(9);
        assert_eq!((area.read().fixed_team, area.read().epoch), (true, 9));
    }

    #[test]
    fn a_turn_is_none_now_or_at_a_time() {
        let area = GrantArea::default();
        assert_eq!(area.turn(), Turn::None);
        for turn in [Turn::Now, Turn::At(2), Turn::At(u64::MAX), Turn::None] {
            area.set_turn(turn);
            assert_eq!(area.turn(), turn);
        }
        area.set_turn(Turn::At(0));
        assert_eq!(area.turn(), Turn::At(2), "no time is taken for another word");
    }

    #[test]
    fn an_epoch_wraps_around() {
        let area = GrantArea::default();
        area.line.word.store(Grant { epoch: u32::MAX, ..area.read() }.pack(), Ordering::Relaxed);
        assert_eq!(area.publish(1, false, false, [CpuId(7)].into_iter()).epoch, 0);
        assert_eq!(area.read_with_cpus().1, CpuSet::single(CpuId(7)));
    }

    /// A manager that dies while it writes the next epoch's processors, or when it has written them
    /// (G1).
    #[test]
    fn a_grant_that_was_never_published_is_not_seen() {
        let area = GrantArea::default();
        for _ in 0..3 {
            let published = area.publish(2, false, false, [CpuId(1), CpuId(1000)].into_iter());
            area.cpus[(published.epoch as usize + 1) % 2].words[0]
                .store(u64::MAX, Ordering::Relaxed);
            assert_eq!(
                area.read_with_cpus(),
                (published, [CpuId(1), CpuId(1000)].into_iter().collect())
            );
        }
    }

    /// The reader beside a writer that overtakes it: two epochs at once, so that the second is
    /// written where it reads. Every word of a bitmap says which epoch it is of.
    #[test]
    fn a_reader_that_is_overtaken_has_the_number_and_the_processors_of_one_epoch() {
        // A reader under a sanitizer is many times slower, the pause is not.
        const BURSTS: u32 = if cfg!(tsan) { 1_000 } else { 20_000 };
        const PAUSES: u32 = if cfg!(tsan) { 20_000 } else { 300 };
        let cpus =
            |epoch: u32| (0..CPU_WORDS as u32).map(move |word| CpuId(64 * word + epoch % 64));
        let area = GrantArea::default();
        area.publish(1, false, false, cpus(1));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..BURSTS {
                    for _ in 0..2 {
                        let next = area.read().epoch + 1;
                        area.publish(next % MAX_CPUS + 1, false, false, cpus(next));
                    }
                    // A reader that looks [`LOOKS`] times in vain takes what it has.
                    (0..PAUSES).for_each(|_| platform::sync::pause());
                }
            });
            while !writer.is_finished() {
                let (grant, seen) = area.read_with_cpus();
                assert_eq!(seen, cpus(grant.epoch).collect(), "torn: epoch {}", grant.epoch);
                assert!(
                    grant.epoch == 1 || grant.processors == grant.epoch % MAX_CPUS + 1,
                    "{grant:?}"
                );
            }
        });
    }

    proptest! {
        #[test]
        fn pack_and_unpack_agree(processors in 1..=MAX_CPUS, dedicated: bool, shared: bool, fixed_team: bool, epoch: u32) {
            let grant = Grant { processors, dedicated, shared, fixed_team, epoch };
            prop_assert_eq!(Grant::unpack(grant.pack()), grant);
        }

        #[test]
        fn any_word_is_a_grant_within_bounds(word: u64) {
            let grant = Grant::unpack(word);
            prop_assert!((1..=MAX_CPUS).contains(&grant.processors));
        }
    }
}
