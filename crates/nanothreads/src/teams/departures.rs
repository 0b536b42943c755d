//! Members that have ended their bodies: one that others still wait for is reported, where they
//! would wait for ever.
//!
//! # Protocol
//! - D1 A member that returns from its body writes what it has come to (barriers, ordered sections)
//!   into its own line, then the region's number (Release), and wakes the members that sleep.
//! - D2 A member that waits reads the lines of all others, besides what it waits for; the numbers
//!   with Acquire. One that has ended before it came to what is waited for never comes.
//! - D3 The first member that finds this panics with a report; the others end by unwinding.
//!
//! The number of the region makes old marks void. Members are told it with the body: a word here
//! that the master changes would cost each of them the transfer of a line in each region.
//!
//! # Cost
//! A store into a line of the member's own, which others read only in waits that last. No
//! read-modify-write.

use engine::local::local;
use engine::occupant::Occupant;
use platform::sync::CachePadded;
use std::fmt;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// See the module head.
#[derive(Debug)]
pub(super) struct Departures {
    marks: Box<[CachePadded<Mark>]>,
}

/// A member's line. Writer: the member.
#[derive(Debug, Default)]
struct Mark {
    /// The region whose body it has ended last.
    region: AtomicU64,
    barriers: AtomicU64,
    sections: AtomicU64,
    occupant: Occupant,
}

/// A member's view of them in its region, which has this number, from 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegionDepartures<'a> {
    departures: &'a Departures,
    number: u64,
}

/// A member that ended too early.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) member: usize,
    /// What it had come to, of what is waited for.
    pub(super) came_to: u64,
    /// Its thread's name, as the system has it.
    thread: Option<String>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}", self.member)?;
        match &self.thread {
            Some(name) => write!(f, " (thread `{name}`)"),
            None => Ok(()),
        }
    }
}

impl Departures {
    /// Of a team of `size`.
    pub(super) fn new(size: usize) -> Self {
        Self { marks: (0..size).map(|_| CachePadded::default()).collect() }
    }

    /// In region `number`, from 1; each has a number of its own.
    #[inline]
    pub(super) fn of_region(&self, number: u64) -> RegionDepartures<'_> {
        RegionDepartures { departures: self, number }
    }
}

impl<'a> RegionDepartures<'a> {
    /// D1: member `id`, which calls, has ended its body. The caller then wakes members that sleep.
    #[inline]
    pub(super) fn note(&self, id: usize, barriers: u64, sections: u64) {
        let mark = &self.departures.marks[id];
        mark.occupant.is_me(local());
        // ORDERING: Relaxed, both - published by the number below.
        mark.barriers.store(barriers, Relaxed);
        mark.sections.store(sections, Relaxed);
        // ORDERING: Release (D1) - pairs with D2.
        mark.region.store(self.number, Release);
    }

    /// D2: a member that has ended and did not come to its barrier number `number` (from 1).
    pub(super) fn before_barrier(&self, number: u64) -> Option<Missing> {
        self.find(|_, mark| &mark.barriers, |_| number)
    }

    /// D2: a member that has ended and did not come to a section that is before number `section`
    /// (from 0, counted over all members).
    pub(super) fn before_section(&self, section: u64) -> Option<Missing> {
        let size = self.departures.marks.len() as u64;
        self.find(|_, mark| &mark.sections, |member| (section + size - 1 - member) / size)
    }

    #[inline]
    fn find(
        &self,
        count: impl Fn(usize, &'a Mark) -> &'a AtomicU64,
        due: impl Fn(u64) -> u64,
    ) -> Option<Missing> {
        let mut marks = self.departures.marks.iter().enumerate();
        let (member, mark) = marks.find(|&(member, mark)| {
            // ORDERING: Acquire (D2) - pairs with D1.
            mark.region.load(Acquire) == self.number
                // ORDERING: Relaxed - published by the number.
                && count(member, mark).load(Relaxed) < due(member as u64)
        })?;
        // ORDERING: Relaxed - as above.
        let came_to = count(member, mark).load(Relaxed);
        Some(Missing { member, came_to, thread: mark.occupant.thread().and_then(name_of) })
    }
}

#[cold]
fn name_of(platform::affinity::Tid(tid): platform::affinity::Tid) -> Option<String> {
    let name = platform::file::read(format!("/proc/self/task/{tid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_missing_when_it_ended_before_what_is_waited_for() {
        let departures = Departures::new(3);
        let region = departures.of_region(1);
        assert_eq!(region.before_barrier(1), None, "nothing has ended");
        region.note(1, 2, 1);
        assert_eq!(region.before_barrier(2), None, "it came to both");
        let missing = region.before_barrier(3).expect("it comes to no third one");
        assert_eq!((missing.member, missing.came_to), (1, 2));
        assert!(missing.to_string().contains("member 1 (thread `"), "{missing}");
        let next = departures.of_region(2);
        assert_eq!(next.before_barrier(3), None, "that was another region");
    }

    #[test]
    fn a_section_waits_for_those_of_all_members_before_it_and_for_no_later_ones() {
        // Member 1 of 3 ended after its first section, which is number 1.
        let departures = Departures::new(3);
        let region = departures.of_region(1);
        region.note(1, 0, 1);
        let missing: Vec<_> =
            (0..8).map(|section| region.before_section(section).is_some()).collect();
        assert_eq!(missing, [false, false, false, false, false, true, true, true]);
    }
}
