//! Programs whose teams have to keep their size, and what those gain from a processor that a
//! stranger uses, too.
//!
//! # Why
//! A program that leaves one of its two processors has half of its speed where its teams follow,
//! and no thread of it is late. A team of two threads that has to have two (`num_threads(2)`, or a
//! region that began before and has barriers) has half of that speed as well, but its threads
//! take turns on what is left, with some switches for each barrier, while beside the stranger it
//! waits for half of the time and takes no turns. lightgbm's regions of 50 us take twice as long
//! by leaving as by staying.
//!
//! # Rule
//! A program counts how often threads of such teams wait ([`Crowd::turns`]). Where it does so
//! [`MANY`] times in the first window after a processor was left, or in a later one more often than
//! once in a turn of the kernel's ([`SLICE`]; where turns are rarer they cost little), and the
//! processors that are left would do for the team, it gets them back. For [`MEMORY`] after that one
//! is left only to strangers that take [`CONTENDED`] of it, with which the program has less than by
//! turns. After that time it is tried again, which costs two windows.

use std::collections::BTreeMap;

use super::{MS, Nanos, Sample};

/// Share of strangers that makes a processor worth leaving nevertheless: by turns short regions
/// keep a third of their speed.
pub(super) const CONTENDED: f64 = 0.7;
/// So many turns are more than the rest of a region.
const MANY: u32 = 15;
/// A turn of the kernel's.
const SLICE: Nanos = 4 * MS;
/// For how long a program's teams are known to keep their size.
const MEMORY: Nanos = 10_000 * MS;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    /// Until when each is known.
    known: BTreeMap<u64, Nanos>,
    /// Those that took turns in the last window.
    suspects: Vec<u64>,
}

impl Crowds {
    /// The teams of `program` are known to have to keep their size.
    pub(super) fn has(&self, program: u64, now: Nanos) -> bool {
        self.known.get(&program).is_some_and(|until| now < *until)
    }

    /// Takes in what programs said in a window in which `left` processors were left to others;
    /// returns how many of those have to come back.
    pub(super) fn look(&mut self, last: &Sample, now: &Sample, left: usize) -> usize {
        self.known.retain(|_, until| now.at < *until);
        let suspects = std::mem::take(&mut self.suspects);
        let mut missing = 0;
        for (program, held) in &now.held {
            // What is left by a program that is known is left in spite of that.
            let may_miss = left > 0 && !self.known.contains_key(program);
            let Some(before) = last.held.get(program).filter(|_| may_miss) else { continue };
            let turns = held.crowd.turns.wrapping_sub(before.crowd.turns);
            let team = usize::try_from(held.crowd.threads).unwrap_or(usize::MAX);
            let more = team.saturating_sub(held.threads.len());
            let often = u64::from(turns) * SLICE > now.at.saturating_sub(last.at);
            if !often || !(1..=left).contains(&more) {
                continue;
            }
            if turns >= MANY || suspects.contains(program) {
                self.known.insert(*program, now.at + MEMORY);
                missing = missing.max(more);
            } else {
                self.suspects.push(*program);
            }
        }
        missing
    }
}
