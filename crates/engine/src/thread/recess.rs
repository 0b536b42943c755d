//! A master that waits at a fork until its program's turn comes.
//!
//! Under policies by which programs take turns (`gang`, `rr`, the sliding windows) a program
//! outside its turn has its master on a shared processor. A region that the master forks there has
//! one thread, and keeps it when the turn comes: where it takes long alone, the turn's processors
//! have nothing to do.
//!
//! # Rule
//! - K1 The master waits where the region would end later if it began now: when alone it takes
//!   longer than the time until the turn and the region in the turn together. Regions that are over
//!   before the turn run alone.
//! - K2 It waits for a quantum beyond the time that the manager announced at most, and never longer
//!   than the region would take alone. When that is over it forks as it is, and does not wait again
//!   before the program has had its turn.
//! - K3 How long a region takes in the turn and outside is what it took last, by its site (the
//!   compiled code of its body, where the runtime says it). Outside the turn, what was measured
//!   holds as long as the region's time in the turn stays about the same. Where nothing was
//!   measured there, all that its threads did in the turn is one thread's. Of what never ran in a
//!   turn nothing is known: it does not wait.
//! - K4 One thread of a program waits at a time: the only master.
//!
//! # Protocol
//! (1) The master has said what the program wants: for that it gets its turn. (2) It reads where
//! the program stands ([`Managed::standing`]). (3) Outside the turn it sleeps at the park word of
//! seat 0 ([`Managed::await_turn`]), which looks again after it has said that it sleeps. The
//! manager (a) publishes the grant of the turn, (b) wakes the seats that have a processor. No wake
//! is lost by the park word's protocol (`arena::park`). A manager that dies is noticed by the
//! client's watcher, which wakes all; one that hangs is no longer waited for after K2's time.
//!
//! # Races
//! *Two masters.* A and B fork for the first time: each has enrolled itself before it asks whether
//! it is the only one. Of two the one that enrolled later sees both, so at most one waits.
//!
//! *The turn comes before the wait.* A finds the program outside its turn, B (the manager)
//! publishes the turn's grant. A marks its park word, and looks again: it finds the grant, or B
//! finds the mark.
//!
//! *An idle worker.* While A waits its workers find no work, as in a serial phase, in which one of
//! them asks for a processor less (`protocols::wishes`): A's turn would be one processor. So they
//! ask for nothing while a master waits.
//!
//! # Papers
//! P0 section 3: masters always run; the papers' gangs have no master outside their turn.

use crate::manager::{Managed, Standing};
use crate::program::program;
use platform::clock::monotonic_ns;
use std::cell::Cell;

/// Sites of which a master remembers times. Two that meet at one place forget each other's.
const SITES: usize = 16;

/// See the module head. Touched by its thread alone.
#[derive(Debug, Default)]
pub(super) struct Recess {
    /// The region that is open is timed.
    is_timed: Cell<bool>,
    open: Cell<Open>,
    sites: [Cell<Site>; SITES],
    /// It waited until the time was over, and the program has not had its turn since (K2).
    in_vain: Cell<bool>,
}

/// A region that is open.
#[derive(Clone, Copy, Debug, Default)]
struct Open {
    region: usize,
    began_ns: u64,
    /// The threads that it may have in the turn; 0: it began outside.
    threads: u32,
}

/// What the last regions of one site took (K3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Site {
    region: usize,
    /// In the turn, with `threads`; 0: not known.
    in_turn_ns: u64,
    threads: u32,
    /// Outside; 0: not known.
    alone_ns: u64,
}

impl Recess {
    /// A fork of `region`, which could use `wanted` threads. Cost while programs take no turns: two
    /// loads of the grant's line.
    #[inline]
    pub(super) fn at_fork(&self, managed: &Managed, region: usize, wanted: usize) {
        self.is_timed.set(false);
        if let Some(standing) = managed.standing() {
            self.at_fork_in_turns(managed, standing, region, wanted);
        }
    }

    #[cold]
    fn at_fork_in_turns(
        &self,
        managed: &Managed,
        standing: Standing,
        region: usize,
        wanted: usize,
    ) {
        // K1: a region of one thread loses nothing.
        if wanted <= 1 {
            return;
        }
        let mut standing = Some(standing);
        match standing {
            Some(Standing::Outside { comes_ns })
                if !self.in_vain.get() && program().masters().are_one() =>
            {
                let site = self.site(region).get();
                let now = monotonic_ns();
                let known = Some(site).filter(|site| site.region == region);
                let until = known.and_then(|site| site.waits(now, comes_ns, managed.quantum_ns()));
                if let Some(until) = until {
                    self.in_vain.set(!managed.await_turn(until));
                    standing = managed.standing();
                }
            }
            Some(Standing::InTurn { .. }) => self.in_vain.set(false),
            _ => {}
        }
        let threads = match standing {
            Some(Standing::InTurn { processors }) => {
                processors.min(u32::try_from(wanted).unwrap_or(u32::MAX))
            }
            Some(Standing::Outside { .. }) => 0,
            None => return,
        };
        self.open.set(Open { region, began_ns: monotonic_ns(), threads });
        self.is_timed.set(true);
    }

    fn site(&self, region: usize) -> &Cell<Site> {
        // Code lies at multiples of 16.
        &self.sites[(region >> 4) % SITES]
    }

    /// The outermost region is joined. Cost while programs take no turns: a load.
    #[inline]
    pub(super) fn ends(&self) {
        if self.is_timed.get() {
            self.note();
        }
    }

    #[cold]
    fn note(&self) {
        self.is_timed.set(false);
        let Open { region, began_ns, threads } = self.open.get();
        let took = monotonic_ns().saturating_sub(began_ns).max(1);
        let cell = self.site(region);
        let before = Some(cell.get()).filter(|site| site.region == region);
        cell.set(Site { region, ..before.unwrap_or_default() }.after(took, threads));
    }

    /// No region follows.
    pub(super) fn drops(&self) {
        self.is_timed.set(false);
    }

    /// In the child of a fork: it is another program.
    pub(super) fn forget(&self) {
        self.is_timed.set(false);
        self.in_vain.set(false);
    }
}

impl Site {
    /// Another region took that time, in the turn with `threads`, or outside (0).
    fn after(mut self, took: u64, threads: u32) -> Self {
        if threads == 0 {
            self.alone_ns = took;
            return self;
        }
        let is_alike = took / 2 <= self.in_turn_ns && self.in_turn_ns / 2 <= took;
        if !is_alike || threads != self.threads {
            self.alone_ns = 0;
        }
        Self { in_turn_ns: took, threads, ..self }
    }

    /// Until when the master waits at most, if it does (K1, K2).
    fn waits(self, now: u64, comes_ns: u64, quantum_ns: u64) -> Option<u64> {
        if self.in_turn_ns == 0 {
            return None;
        }
        let all_threads = self.in_turn_ns.saturating_mul(self.threads.into());
        let alone = if self.alone_ns == 0 { all_threads } else { self.alone_ns };
        let comes = comes_ns.max(now);
        let pays = alone > (comes - now).saturating_add(self.in_turn_ns);
        pays.then(|| comes.saturating_add(quantum_ns).min(now.saturating_add(alone)))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn site(in_turn_ms: u64, threads: u32, alone_ms: u64) -> Site {
        Site { region: 7, in_turn_ns: in_turn_ms * MS, threads, alone_ns: alone_ms * MS }
    }

    #[test]
    fn a_region_that_is_over_before_the_turn_is_not_kept_waiting() {
        let waits = |alone: u64| site(10, 8, alone).waits(0, 200 * MS, 100 * MS);
        assert_eq!(waits(210), None);
        assert_eq!(waits(211), Some(211 * MS), "no longer than it takes alone");
        assert_eq!(waits(5_000), Some(300 * MS), "a quantum beyond what was announced");
        // An announced time that has passed.
        assert_eq!(site(10, 8, 50).waits(900 * MS, 200 * MS, 100 * MS), Some(950 * MS));
    }

    #[test]
    fn what_was_never_measured_alone_is_what_its_threads_did_together() {
        assert_eq!(site(10, 8, 0).waits(0, 69 * MS, 100 * MS), Some(80 * MS));
        assert_eq!(site(10, 8, 0).waits(0, 70 * MS, 100 * MS), None);
        assert_eq!(site(0, 0, 900).waits(0, MS, 100 * MS), None, "it never ran in a turn");
    }

    #[test]
    fn a_region_that_changed_is_measured_alone_anew() {
        let known = site(10, 8, 90);
        assert_eq!(known.after(12 * MS, 8), site(12, 8, 90));
        assert_eq!(known.after(30 * MS, 8), site(30, 8, 0));
        assert_eq!(known.after(4 * MS, 8), site(4, 8, 0));
        assert_eq!(known.after(10 * MS, 4), site(10, 4, 0));
        assert_eq!(known.after(70 * MS, 0), site(10, 8, 70));
    }

    proptest! {
        #[test]
        fn no_wait_is_longer_than_the_region_alone_or_ends_later_than_a_quantum_after_the_turn(
            in_turn: u64, threads: u32, alone: u64, now in 0_u64..u64::MAX / 2, comes: u64, quantum: u64,
        ) {
            let site = Site { region: 7, in_turn_ns: in_turn, threads, alone_ns: alone };
            if let Some(until) = site.waits(now, comes, quantum) {
                prop_assert!(until >= now && until <= comes.max(now).saturating_add(quantum));
                let alone = if alone == 0 { in_turn.saturating_mul(threads.into()) } else { alone };
                prop_assert!(until - now <= alone);
            }
        }
    }
}
