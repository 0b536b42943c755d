//! Passive evidence: what the kernel and the engine say of the team's threads since the last look.
//!
//! A look reads two small files for each of a few threads, some 20 us each; in teams of more than
//! [`FEW`] threads the master and the next few take turns. Files are opened at each look: a
//! descriptor that was kept would be some other file once the program closed all that it does not
//! know, and the child of a fork would read of the parent's threads. No look allocates.

use crate::judgement::{Sample, Share};
use platform::affinity::Tid;
use platform::scheduling::{self, Experience};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::Duration;

/// Threads that are looked at in one look.
const FEW: usize = 8;

/// Workers that are known: what a team has beyond is not looked at.
const MOST: usize = 1023;

/// The kernel threads of the program's workers, as the engine tells them.
#[derive(Debug)]
pub(crate) struct Roster {
    /// By number, from 1; 0: none.
    tids: Box<[AtomicI32]>,
}

impl Roster {
    pub(crate) fn new() -> Self {
        Self { tids: (0..MOST).map(|_| AtomicI32::new(0)).collect() }
    }

    /// Worker `number` is thread `tid`.
    pub(crate) fn enlist(&self, number: usize, tid: Tid) {
        if let Some(place) = number.checked_sub(1).and_then(|at| self.tids.get(at)) {
            // ORDERING: Relaxed - a number on its own; a look that misses it takes the next one.
            place.store(tid.0, Relaxed);
        }
    }

    fn worker(&self, number: usize) -> Option<Tid> {
        // ORDERING: Relaxed - as above.
        let tid = self.tids.get(number.checked_sub(1)?)?.load(Relaxed);
        (tid != 0).then_some(Tid(tid))
    }
}

/// What a thread had come to at the last look.
#[derive(Clone, Copy, Debug)]
struct Known {
    tid: Tid,
    experience: Experience,
    switches: u64,
}

/// See the module head.
#[derive(Debug)]
pub(crate) struct Witness {
    known: [Option<Known>; FEW],
    shares: [Share; FEW],
    absences: u64,
    /// When the last look was, in nanoseconds.
    looked: u64,
    /// The first worker that is looked at.
    from: usize,
    /// The next look at them is the second one.
    is_second: bool,
}

impl Witness {
    /// Begins at `now`, when the engine had seen `absences`.
    pub(crate) fn new(now: u64, absences: u64) -> Self {
        let shares = [Share::default(); FEW];
        Self { known: [None; FEW], shares, absences, looked: now, from: 1, is_second: false }
    }

    /// What happened since the last look to a team of `threads`, the calling master and the first
    /// workers of `roster`.
    pub(crate) fn look(
        &mut self,
        roster: &Roster,
        (master, threads): (Tid, usize),
        now: u64,
        absences: u64,
    ) -> Sample<'_> {
        let (workers, seats) = (threads.saturating_sub(1), FEW - 1);
        let mut count = 0;
        for at in 0..threads.min(FEW) {
            let tid = match at {
                0 => Some(master),
                _ => roster.worker(1 + (self.from - 1 + at - 1) % workers),
            };
            let share = tid.and_then(|tid| share_of(&mut self.known[at], tid));
            if let Some(share) = share {
                self.shares[count] = share;
                count += 1;
            }
        }
        self.turn(workers, seats);
        let length = Duration::from_nanos(now.saturating_sub(self.looked));
        let seen = absences.saturating_sub(self.absences);
        (self.looked, self.absences) = (now, absences);
        Sample { length, shares: &self.shares[..count], absences: seen }
    }

    /// Where there are more workers than seats: a share needs two looks at the same ones, then it
    /// is the next ones' turn.
    fn turn(&mut self, workers: usize, seats: usize) {
        self.is_second = workers > seats && !self.is_second;
        if workers <= seats {
            self.from = 1;
        } else if !self.is_second {
            self.from = 1 + (self.from - 1 + seats) % workers;
            self.known[1..].fill(None);
        }
    }
}

/// What came to thread `tid` since the last look at it, if that was the one before.
fn share_of(known: &mut Option<Known>, tid: Tid) -> Option<Share> {
    let experience = scheduling::experience(tid)?;
    let switches = scheduling::involuntary_switches(tid).unwrap_or(0);
    let last = known.replace(Known { tid, experience, switches });
    let last = last.filter(|last| last.tid == tid)?;
    Some(Share {
        ran: experience.ran.saturating_sub(last.experience.ran),
        delayed: experience.delayed.saturating_sub(last.experience.delayed),
        switches: switches.saturating_sub(last.switches),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::affinity::current_tid;

    #[test]
    fn the_second_look_at_a_thread_tells_what_came_to_it_between_both() {
        let (roster, own) = (Roster::new(), current_tid());
        let mut witness = Witness::new(0, 5);
        assert_eq!(witness.look(&roster, (own, 1), 10, 5).shares, []);
        let sample = witness.look(&roster, (own, 1), 30, 7);
        assert_eq!((sample.length, sample.absences), (Duration::from_nanos(20), 2));
        if scheduling::experience(own).is_none() {
            return platform::skip!("the kernel does not count the time of threads");
        }
        assert_eq!(sample.shares.len(), 1);
        assert!(sample.shares[0].ran < Duration::from_secs(3600), "{sample:?}");
    }

    #[test]
    fn a_thread_that_ended_and_a_worker_that_was_never_told_of_have_no_share() {
        let roster = Roster::new();
        roster.enlist(1, Tid(i32::MAX));
        roster.enlist(0, Tid(1));
        roster.enlist(usize::MAX, Tid(1));
        let mut witness = Witness::new(0, 0);
        for now in 1..4 {
            assert!(witness.look(&roster, (current_tid(), 3), now, 0).shares.len() <= 1);
        }
    }

    #[test]
    fn the_workers_of_a_large_team_take_turns() {
        let (roster, own) = (Roster::new(), current_tid());
        (1..=20).for_each(|number| roster.enlist(number, own));
        let mut witness = Witness::new(0, 0);
        let firsts: Vec<_> = (1..=12)
            .map(|now| {
                witness.look(&roster, (own, 21), now, 0);
                witness.from
            })
            .collect();
        assert_eq!(firsts, [1, 8, 8, 15, 15, 2, 2, 9, 9, 16, 16, 3]);
        witness.look(&roster, (own, 4), 13, 0);
        assert_eq!(witness.from, 1);
    }
}
