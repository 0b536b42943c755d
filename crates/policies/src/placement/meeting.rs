//! Where applications meet that stay inside different sets: on few processors that are in many of
//! the sets.
//!
//! # Rule
//! They meet on the fewest processors that there are ([`cover`]). Of those the one that most sets
//! have comes first, then the one that most of the others have, and so on. What comes out follows
//! from the sets alone: neither from the order in which their applications arrived, nor from where
//! anything is, for then the same decision again would move something.
//!
//! # The fewest
//! are hard to find in general. First the processor that most sets have is taken, then the one that
//! most of the others have, and so on: those are the fewest nearly always. Then branch and bound
//! looks for fewer. A set needs one of its processors, so each of them is tried; and where sets of
//! which no two have a processor in common are as many as would have to be saved, nothing is. It
//! ends after [`STEPS`] with what was found by then, and is left out where more than [`SETS`] sets
//! are different and none holds another one: these are few processors, and not always the fewest.

use std::cmp::Reverse;

use super::tenants::Room;

/// Looks at a processor of one search: it takes less than 0.1 ms.
const STEPS: usize = 20_000;
/// Different sets of one search.
const SETS: usize = 128;

/// A seat at which several meet.
pub(super) struct Meeting {
    /// Which of them has it, by its place.
    pub(super) host: usize,
    /// What their sets have in common.
    pub(super) room: Room,
}

/// Sets, of which fewer and fewer are looked at.
#[derive(Clone)]
pub(super) struct Sets<'a> {
    rooms: &'a [&'a Room],
    is_left: Vec<bool>,
    /// By processor: how many sets have it of those that are left.
    count: Vec<usize>,
}

impl<'a> Sets<'a> {
    /// Those of these that `is_left` names, on a machine of `processors`.
    pub(super) fn new(rooms: &'a [&'a Room], is_left: Vec<bool>, processors: usize) -> Self {
        let mut count = vec![0; processors];
        let left = rooms.iter().zip(&is_left).filter(|(_, left)| **left);
        left.flat_map(|(room, _)| &room.cpus).for_each(|cpu| count[*cpu] += 1);
        Self { rooms, is_left, count }
    }

    /// The processor of these sets with the least key, by how many of them have it; the first one
    /// of those that are alike. Those without a key do not count.
    pub(super) fn best<K: Ord>(&self, key: impl Fn(usize, usize) -> Option<K>) -> Option<usize> {
        let all = self.count.iter().enumerate().filter(|(_, count)| **count > 0);
        let keyed = all.filter_map(|(cpu, count)| Some((key(cpu, *count)?, cpu)));
        keyed.min().map(|(_, cpu)| cpu)
    }

    /// Those that are left.
    pub(super) fn left(&self) -> impl Iterator<Item = usize> {
        (0..self.rooms.len()).filter(|at| self.is_left[*at])
    }

    /// The sets that have this processor.
    pub(super) fn with(&self, cpu: usize) -> Vec<usize> {
        self.left().filter(|at| self.rooms[*at].has(cpu)).collect()
    }

    /// A set is looked at no longer.
    pub(super) fn leave(&mut self, at: usize) {
        if std::mem::replace(&mut self.is_left[at], false) {
            self.rooms[at].cpus.iter().for_each(|cpu| self.count[*cpu] -= 1);
        }
    }

    /// Those that have this processor meet. The one with the smallest set has the seat: it can be
    /// elsewhere least.
    fn meeting(&self, cpu: usize) -> (Meeting, Vec<usize>) {
        let members = self.with(cpu);
        let size = |at: &usize| (self.rooms[*at].cpus.len(), &self.rooms[*at].cpus);
        let host = members.iter().copied().min_by_key(size).expect("a set has the processor");
        let room = self.rooms[host].common(members.iter().map(|at| self.rooms[*at]));
        (Meeting { host, room }, members)
    }

    /// Few processors so that each set that is left, and has one of those that `may` be, has one:
    /// the fewest, as far as the head says.
    pub(super) fn cover(&self, may: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut open = self.clone();
        let mut best = Vec::new();
        while let Some(cpu) = open.best(|cpu, count| may(cpu).then_some(Reverse(count))) {
            best.push(cpu);
            open.with(cpu).into_iter().for_each(|at| open.leave(at));
        }
        if best.len() < 2 {
            return best;
        }
        let mut allowed = vec![0; self.count.len().div_ceil(64)];
        let counted = self.count.iter().enumerate().filter(|(_, count)| **count > 0);
        for (cpu, _) in counted.filter(|(cpu, _)| may(*cpu)) {
            allowed[cpu / 64] |= 1 << (cpu % 64);
        }
        let rooms = self.left().map(|at| self.rooms[at].words());
        let sets = rooms.map(|words| words.iter().zip(&allowed).map(|(a, b)| a & b).collect());
        match smallest(sets.collect()) {
            Some(sets) => Search::new(&sets, self.count.len(), best).run(),
            None => best,
        }
    }
}

/// Of these sets, in words, those that hold no other one, the smallest first; `None`: too many.
fn smallest(mut sets: Vec<Vec<u64>>) -> Option<Vec<Vec<u64>>> {
    let size = |set: &Vec<u64>| set.iter().map(|word| word.count_ones()).sum::<u32>();
    sets.retain(|set| size(set) > 0);
    sets.sort_by_cached_key(|set| (size(set), set.clone()));
    let mut least: Vec<Vec<u64>> = Vec::new();
    for set in sets {
        let holds = |other: &Vec<u64>| other.iter().zip(&set).all(|(other, set)| other & !set == 0);
        if !least.iter().any(holds) {
            if least.len() == SETS {
                return None;
            }
            least.push(set);
        }
    }
    Some(least)
}

/// Branch and bound; sets of sets are the bits of a number.
struct Search {
    /// The processors of each set.
    sets: Vec<Vec<usize>>,
    /// By processor: the sets that have it.
    with: Vec<u128>,
    /// By set: those that have a processor in common with it.
    beside: Vec<u128>,
    steps: usize,
    chosen: Vec<usize>,
    best: Vec<usize>,
}

impl Search {
    fn new(sets: &[Vec<u64>], processors: usize, best: Vec<usize>) -> Self {
        let has = |set: &[u64], cpu: usize| set[cpu / 64] & 1 << (cpu % 64) != 0;
        let cpus = |set: &Vec<u64>| (0..processors).filter(|&cpu| has(set, cpu)).collect();
        let sets: Vec<Vec<usize>> = sets.iter().map(cpus).collect();
        let mut with = vec![0; processors];
        for (at, set) in sets.iter().enumerate() {
            set.iter().for_each(|cpu| with[*cpu] |= 1 << at);
        }
        let all = |set: &Vec<usize>| set.iter().fold(0, |all, cpu| all | with[*cpu]);
        let beside = sets.iter().map(all).collect();
        Self { sets, with, beside, steps: STEPS, chosen: Vec::new(), best }
    }

    fn run(mut self) -> Vec<usize> {
        self.branch(u128::MAX >> (SETS - self.sets.len()));
        self.best
    }

    /// Tries all that is better than the best so far, for the sets that are open.
    fn branch(&mut self, open: u128) {
        if self.chosen.len() + self.least(open) >= self.best.len() || self.steps == 0 {
            return;
        }
        if open == 0 {
            self.best.clone_from(&self.chosen);
            return;
        }
        // The smallest one, and its processors with most open sets first.
        let set = &self.sets[open.trailing_zeros() as usize];
        let mut ways: Vec<(u128, usize)> =
            set.iter().map(|&cpu| (self.with[cpu] & open, cpu)).collect();
        ways.sort_unstable_by_key(|(met, cpu)| (Reverse(met.count_ones()), *cpu));
        let mut tried: Vec<u128> = Vec::new();
        for (met, cpu) in ways {
            self.steps = self.steps.saturating_sub(1 + tried.len());
            // Another one does as much.
            if tried.iter().any(|other| met & !other == 0) {
                continue;
            }
            tried.push(met);
            self.chosen.push(cpu);
            self.branch(open & !met);
            self.chosen.pop();
        }
    }

    /// So many open sets have no processor in common, two of them each.
    fn least(&self, mut open: u128) -> usize {
        let mut number = 0;
        while open != 0 {
            open &= !self.beside[open.trailing_zeros() as usize];
            number += 1;
        }
        number
    }
}

/// Up to `most` seats for applications with these sets: first so that all sets have one, then
/// others for those that have none of their own, where most of them can be.
pub(super) fn meetings(rooms: &[&Room], most: usize, processors: usize) -> Vec<Meeting> {
    let mut meetings: Vec<Meeting> = Vec::new();
    let (mut is_host, mut is_used) = (vec![false; rooms.len()], vec![false; processors]);
    let mut unmet = Sets::new(rooms, vec![true; rooms.len()], processors);
    let mut is_meant = vec![false; processors];
    unmet.cover(|_| true).into_iter().for_each(|cpu| is_meant[cpu] = true);
    while meetings.len() < most
        && let Some(cpu) = unmet.best(|cpu, count| is_meant[cpu].then_some(Reverse(count)))
    {
        let (meeting, members) = unmet.meeting(cpu);
        members.into_iter().for_each(|at| unmet.leave(at));
        (is_host[meeting.host], is_used[cpu]) = (true, true);
        meetings.push(meeting);
    }
    let others = is_host.iter().map(|it| !it).collect();
    let mut others = Sets::new(rooms, others, processors);
    while meetings.len() < most
        && let Some(cpu) = others.best(|cpu, count| (!is_used[cpu]).then_some(Reverse(count)))
    {
        let (meeting, _) = others.meeting(cpu);
        others.leave(meeting.host);
        is_used[cpu] = true;
        meetings.push(meeting);
    }
    meetings
}
