//! Where applications meet that stay inside different sets: on few processors that are in many of
//! the sets.
//!
//! The fewest possible are hard to find in general. Here the processor that most sets have comes
//! first, then the one that most of the others have, and so on. What comes out follows from the
//! sets alone: neither from the order in which their applications arrived, nor from where anything
//! is, for then the same decision again would move something.

use std::cmp::Reverse;

use super::tenants::Room;

/// A seat at which several meet.
pub(super) struct Meeting {
    /// Which of them has it, by its place.
    pub(super) host: usize,
    /// What their sets have in common.
    pub(super) room: Room,
}

/// Sets, of which fewer and fewer are looked at.
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
}

/// Up to `most` seats for applications with these sets: first so that all sets have one, then
/// others for those that have none of their own, where most of them can be.
pub(super) fn meetings(rooms: &[&Room], most: usize, processors: usize) -> Vec<Meeting> {
    let mut meetings: Vec<Meeting> = Vec::new();
    let (mut is_host, mut is_used) = (vec![false; rooms.len()], vec![false; processors]);
    let mut unmet = Sets::new(rooms, vec![true; rooms.len()], processors);
    while meetings.len() < most
        && let Some(cpu) = unmet.best(|_, count| Some(Reverse(count)))
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
