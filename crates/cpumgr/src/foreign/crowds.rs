//! Programs whose teams have to keep their size, and what those gain from a processor that a
//! stranger uses, too.
//!
//! # Why
//! A program that leaves one of its two processors has half of its speed where its teams follow,
//! and no thread of it is late. A team of two threads that has to have two (`num_threads(2)`, or a
//! region that began before and has barriers) has half of that speed as well, but its threads
//! take turns on what is left, with some switches for each barrier, while beside the stranger it
//! waits for half of the time and takes no turns. lightgbm's regions of 50 us take longer by
//! leaving than by staying.
//!
//! # Rule
//! 1. A program counts how often threads of such teams wait inside their regions
//!    ([`Crowd::turns`](arena::layout::Crowd)). Windows are of [`QUICK`] or more, and begin anew
//!    when something is left. A program takes turns in one in which each thread of the team waited
//!    more often than once in a turn of the kernel's ([`SLICE`]): where turns are rarer they cost
//!    little. That counts when each thread did so [`MANY`] times, which is more than the rest of
//!    a region, or in a second window.
//! 2. Then the program gets back as many processors as the team lacks, of those that it left
//!    itself. Where these are fewer the team would take turns in any case.
//! 3. For [`MEMORY`] after that the program leaves a processor only to strangers that take
//!    [`CONTENDED`] of it, with which it has less than by turns, or for a spare one. After that
//!    time it is tried again, which costs two windows.

use std::collections::BTreeMap;

use super::{MS, Nanos, QUICK, Sample};

/// Share of strangers that makes a processor worth leaving nevertheless: by turns short regions
/// keep a third of their speed.
pub(super) const CONTENDED: f64 = 0.7;
/// So many turns of a thread are more than the rest of a region.
const MANY: u64 = 15;
/// A turn of the kernel's.
const SLICE: Nanos = 4 * MS;
/// For how long a program's teams are known to keep their size.
const MEMORY: Nanos = 10_000 * MS;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Crowds {
    /// Until when each is known.
    known: BTreeMap<u64, Nanos>,
    /// Since when turns are counted, and what had been counted then.
    window: Option<(Nanos, BTreeMap<u64, u32>)>,
    /// Those that took turns in the last window.
    suspects: Vec<u64>,
}

impl Crowds {
    /// The teams of `program` are known to have to keep their size.
    pub(super) fn has(&self, program: u64, now: Nanos) -> bool {
        self.known.get(&program).is_some_and(|until| now < *until)
    }

    /// Something was left: a window begins.
    pub(super) fn begin(&mut self, sample: &Sample) {
        self.suspects.clear();
        self.count_from(sample);
    }

    fn count_from(&mut self, sample: &Sample) {
        let turns = sample.held.iter().map(|(program, held)| (*program, held.crowd.turns));
        self.window = Some((sample.at, turns.collect()));
    }

    /// Looks at what programs counted, each of which has `left` that many processors; returns which
    /// of them lack how many of those.
    pub(super) fn look(
        &mut self,
        sample: &Sample,
        left: impl Fn(u64) -> usize,
    ) -> Vec<(u64, usize)> {
        self.known.retain(|_, until| sample.at < *until);
        let Some((since, before)) = self.window.take() else { return Vec::new() };
        let passed = sample.at.saturating_sub(since);
        if passed < QUICK {
            self.window = Some((since, before));
            return Vec::new();
        }
        self.count_from(sample);
        let suspects = std::mem::take(&mut self.suspects);
        let mut lacking = Vec::new();
        for (program, held) in &sample.held {
            // What a program leaves that is known it leaves in spite of that.
            let (Some(before), false) = (before.get(program), self.known.contains_key(program))
            else {
                continue;
            };
            let turns = u64::from(held.crowd.turns.wrapping_sub(*before));
            let team = held.crowd.threads.into();
            let lacks = usize::try_from(team).unwrap_or(usize::MAX);
            let lacks = lacks.saturating_sub(held.processors);
            // A team of a few at most, from here on.
            let is_to_be_had = (1..=left(*program).min(sample.left)).contains(&lacks);
            if !is_to_be_had || turns * SLICE <= passed.saturating_mul(team) {
                continue;
            }
            if turns >= MANY * team || suspects.contains(program) {
                self.known.insert(*program, sample.at + MEMORY);
                lacking.push((*program, lacks));
            } else {
                self.suspects.push(*program);
            }
        }
        lacking
    }
}
