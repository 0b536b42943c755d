//! What a program sees of others on its processors, where no manager tells it.
//!
//! # Rules
//! Each row is one kind of evidence. All of it decays: it counts for a while, longer where it comes
//! back soon, and is forgotten where it stays away ([`Evidence`](evidence::Evidence)).
//!
//! | module | kept for | counts for | again while it counts | again soon after | a look costs |
//! |---|---|---|---|---|---|
//! | `load` | the process | 0.1 s ([`LOAD`]) | as long | twice as long, up to 0.8 s | nothing |
//! | `stragglers` | a master | 0.05 s ([`LEAVE`]) | as long | twice as long, up to 1.6 s | 10 us |
//! | `stragglers` | a waiting thread | 1 ms ([`BESIDE`]) | as long | twice as long, up to 4 ms | 10 us |
//! | `late_yields` | a thread | 0.1 s ([`YIELDS`]) | as long | 0.1 s | two system calls |
//!
//! `load`. *Seen*: a *hole*, [`HOLE`] between two looks of a thread that only spins; a lost member,
//! as below; a *full machine*, where a thread waits for one on its own processor; a *throttled
//! period*: the control group's count of them grew. *Soon*: within 0.1 s after its end. *What
//! follows*: masters take back what others have not begun ([`crate::protocols::slot`]), and no
//! thread spins longer than [`SHORT`](crate::protocols::wait_point::SHORT). *Cost*: spinning
//! threads read the clock anyway, and the quota is read every 100 ms. D16; M5 for the work that is
//! taken back.
//!
//! `stragglers`. *Seen*: a *lost member*: a master waited [`HOLE`] or longer for it, and it waited
//! for a processor during half of that. *Again*: one member more is left out. *Soon*: within the
//! length of the last time after its end; all that were left out then are left out again. *What
//! follows*: outermost teams without a size of their own have fewer members. *Cost*: once in
//! [`LOOK_INTERVAL`], where a wait is long. D16; P2 section 2.1.
//!
//! `stragglers` of a waiting thread. *Seen*: the thread that it waits for was ready on its own
//! processor. *Soon*: within the length of the last time after its end. *What follows*: it spins
//! for nothing inside a region, and sleeps at once. *Cost*: as above. M5, M14.
//!
//! `late_yields`. *Seen*: a *late yield*: a thread that only yields was away for [`HOLE`] or
//! longer, and the whole process ran for less than half of that; it is one of the [`CLOSE`] waits
//! that follow a long one. It is kept as long as the thread stays on the processor. *What follows*:
//! the thread does not yield where it waits, it sleeps at once ([`crate::waits::spin_policy`]).
//! *Cost*: one wait in [`TIMED`] is timed; two system calls for a close look, at most one part in
//! [`SHARE`] of the time. D15; the papers' machine was dedicated.
//!
//! The decisions are those of `docs/papers.md`. Cost where nothing was seen: one load, of a line
//! that is not written (`load`) or of the thread's own memory.

mod evidence;
mod late_yields;
mod load;
mod stragglers;

use crate::contention::evidence::{Rule, Soon};

pub(crate) use crate::contention::late_yields::{BUDGET, LateYields};
pub(crate) use crate::contention::load::Load;
pub(crate) use crate::contention::stragglers::Stragglers;

/// Microseconds that only a lost processor explains: interrupts are shorter, time slices longer.
pub(crate) const HOLE: u64 = 500;

/// Longer than the time slices of some programs that take turns; short enough that a program is
/// fast again in the moment after the other one ended. Threads that sleep more see others less:
/// each time that they believe to be alone again costs them time slices, hence the growth.
const LOAD: Rule = Rule { first: 100_000, most: 800_000, soon: Soon::First };

/// A program beside a lasting load loses one time slice each second, and one beside a short load
/// has whole teams again at once.
const LEAVE: Rule = Rule { first: 50_000, most: 1_600_000, soon: Soon::Last };

/// Until the next look may be made, and a few of them: the kernel leaves threads together for many
/// milliseconds, and where it parts them a few waits sleep that need not.
const BESIDE: Rule = Rule { first: LOOK_INTERVAL, most: 4 * LOOK_INTERVAL, soon: Soon::Last };

/// Does not grow: the first wait after it is looked at closely.
const YIELDS: Rule = Rule { first: 100_000, most: 100_000, soon: Soon::First };

/// Microseconds between two looks of a master at what the kernel says: they cost some 10 us.
const LOOK_INTERVAL: u64 = 1000;

/// Threads that are looked at in one look.
const FEW: usize = 8;

/// Waits that are looked at closely after one that took long.
const CLOSE: u32 = 8;

/// While nothing was seen, one wait of this many is timed. A prime: otherwise programs whose
/// regions have the same few waits would have the same ones timed in each region.
const TIMED: u32 = 5;

/// After a close look no thread begins another one for this many times as long as the look took.
const SHARE: u64 = 32;

/// The most microseconds that one look is taken to cost: a thread that lost its processor during
/// one was away for longer.
const DEAR: u64 = 50;
