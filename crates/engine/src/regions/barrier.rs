//! The barrier of a team: gather by member 0, then the release of all.
//!
//! # Protocol
//! Round r of a barrier: each member writes r into its own line (B1). Member 0 waits for all lines
//! (B2) and, if the region has work to finish first (tasks), until `complete` holds; then it writes
//! r back into each line (B3), which is one line out and one back for each member, as a region is
//! ([`crate::protocols::slot`]). Above nine members it writes one word that all of them read: then
//! it stores once, and the members' misses overlap. The others wait for that (B4). Waiting members
//! call `help`.
//!
//! A member other than 0 that does nothing after the barrier but join need not wait for B4
//! ([`Barrier::leave`], B5): member 0 gathers it as ever, and its next round is of a region that
//! member 0 forks when it has left this one. Two members have a protocol of their own ([`pair`]):
//! without work to finish neither releases the other.
//!
//! # Orderings
//! B1 Release with B2 Acquire: what a member did before the barrier is seen by member 0. B3 Release
//! with B4 Acquire: what member 0 saw is seen by all. No read-modify-write: each word has one
//! writer.
//!
//! # Sleeping
//! Member 0 sleeps at `gathering`, the others at `released`, where those that are woken wake others
//! ([`WaitPoint::for_many`]): the release costs member 0 one system call for two threads, not for
//! all. A thread that makes new work that a waiting member could help with calls [`Barrier::stir`].

pub mod pair;

use crate::protocols::wait_point::{Look, WaitPoint};
use crate::regions::occupant::Occupant;
use crate::thread::{Local, local};
use crate::waits::spin_policy;
use pair::Pair;
use platform::sync::CachePadded;
use platform::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::cell::Cell;

/// The most members that are released each by its own line.
const LINES: usize = 9;

/// A member's line.
#[derive(Debug)]
struct Line {
    /// Last round that the member arrived at. Writer: the member.
    arrived: AtomicU64,
    /// Last round that is over, in barriers of at most [`LINES`] members. Writer: member 0.
    released: AtomicU64,
}

/// See the module head.
#[derive(Debug)]
pub struct Barrier {
    /// The protocol of barriers of two; the lines are those of all others.
    pair: Option<Box<Pair>>,
    lines: Box<[CachePadded<Line>]>,
    /// What each member knows of itself.
    own: Box<[CachePadded<Own>]>,
    /// Last round that is over, in larger barriers. Writer: member 0.
    release: CachePadded<AtomicU64>,
    gathering: CachePadded<WaitPoint>,
    released: CachePadded<WaitPoint>,
}

/// A member's own line.
#[derive(Debug, Default)]
struct Own {
    /// How many rounds the member has arrived at. No other thread reads it: a member that looked
    /// into its arrival would wait for that line to come back from its last reader (a cache that is
    /// asked for a written line gives it away whole).
    rounds: AtomicU64,
    /// Read by threads that wait long for the member.
    occupant: Occupant,
}

impl Line {
    fn new() -> Self {
        Self { arrived: AtomicU64::new(0), released: AtomicU64::new(0) }
    }
}

impl Barrier {
    /// A barrier for members 0..`size`.
    pub fn new(size: usize) -> Self {
        Self {
            pair: (size == 2).then(Box::default),
            lines: (0..size).map(|_| CachePadded::new(Line::new())).collect(),
            own: (0..size).map(|_| CachePadded::new(Own::default())).collect(),
            release: CachePadded::new(AtomicU64::new(0)),
            gathering: CachePadded::new(WaitPoint::new()),
            released: CachePadded::new(WaitPoint::for_many()),
        }
    }

    /// Members of the barrier.
    pub fn size(&self) -> usize {
        self.lines.len()
    }

    /// Waits for all members. Call it from each member once a round, with its own number.
    #[inline]
    pub fn wait(&self, id: usize) {
        self.wait_with(id, false, || false, || true);
    }

    /// Waits for all members and until `complete` holds (member 0 asks, after all have arrived).
    /// Meanwhile calls `help`, which says whether it did something. `has_work`: this member knows
    /// of something that `complete` or its effects are needed for; where no member does, `complete`
    /// need not be asked. The thread that makes `complete` hold calls [`stir`](Self::stir) after
    /// that, also inside `help`: a member that looked just before sleeps.
    pub fn wait_with(
        &self,
        id: usize,
        has_work: bool,
        mut help: impl FnMut() -> bool,
        complete: impl Fn() -> bool,
    ) {
        if let Some(pair) = &self.pair {
            return self.meet(pair, id, has_work, help, complete);
        }
        let size = self.size();
        if size == 1 {
            while !complete() {
                help();
            }
            return;
        }
        let round = self.arrive(id);
        let threads = self.note(id).membership().threads;
        if id == 0 {
            let awaited = Cell::new(1);
            let all_arrived = || self.all_arrived(&awaited, round);
            // Members that have arrived may have left tasks: those come first, with all the rules
            // of waiting.
            if !((all_arrived() || spin_policy::holds_soon(threads, all_arrived)) && complete()) {
                let look = || {
                    if all_arrived() && complete() { Look::Ready } else { look_after(&mut help) }
                };
                self.wait_at(&self.gathering, || awaited.get(), look);
            }
            self.release_round(round);
        } else if !spin_policy::holds_soon(threads, || self.is_released(id, round)) {
            let look =
                || if self.is_released(id, round) { Look::Ready } else { look_after(&mut help) };
            self.wait_at(&self.released, || 0, look);
        }
    }

    /// Member `id`, not 0, arrives and does not wait, in a team that takes turns; false where it
    /// has not even arrived, because its team has a processor for each member: there a waiting
    /// member may help, and loses nothing. For a barrier after which it does nothing but end its
    /// part of the region, whose join waits for all. It knows of no work. The others may wait here
    /// as ever (B5, P5).
    #[inline]
    pub fn leave(&self, id: usize) -> bool {
        let threads = self.note(id).membership().threads;
        if !spin_policy::is_oversubscribed(threads) {
            return false;
        }
        if let Some(pair) = &self.pair {
            pair.arrive(id, self.next_round(id), false);
            self.wake_other(id);
        } else {
            self.arrive(id);
        }
        true
    }

    /// The barrier of two: as [`wait_with`](Self::wait_with).
    #[inline]
    fn meet(
        &self,
        pair: &Pair,
        id: usize,
        has_work: bool,
        mut help: impl FnMut() -> bool,
        complete: impl Fn() -> bool,
    ) {
        let round = pair.arrive(id, self.next_round(id), has_work);
        self.wake_other(id);
        let is_over = || pair.is_over(round);
        let threads = self.note(id).membership().threads;
        if is_over() {
            return;
        }
        let may_close = || id == 0 && pair.is_met(round);
        let soon = || is_over() || may_close();
        let met = soon() || spin_policy::holds_soon(threads, soon);
        // Members that have arrived may have left tasks: those come first, with all the rules of
        // waiting.
        if !(met && (is_over() || complete())) {
            let done = || is_over() || (may_close() && complete());
            self.wait_at(
                self.point(id),
                || 1 - id,
                || if done() { Look::Ready } else { look_after(&mut help) },
            );
        }
        if id == 0 && !is_over() {
            pair.close(round);
            self.released.notify_all();
        }
    }

    /// Where member `id` of two sleeps.
    fn point(&self, id: usize) -> &WaitPoint {
        if id == 0 { &self.gathering } else { &self.released }
    }

    /// Member `id` of two has arrived.
    #[inline]
    fn wake_other(&self, id: usize) {
        self.point(1 - id).notify_all();
    }

    /// Waits for all members, unless `gone` comes to hold first: then false, and this round never
    /// ends. The thread that makes `gone` hold calls [`Barrier::stir`].
    pub fn wait_unless(&self, id: usize, gone: impl Fn() -> bool) -> bool {
        if let Some(pair) = &self.pair {
            let round = pair.arrive(id, self.next_round(id), false);
            self.wake_other(id);
            let is_over = || pair.is_over(round);
            let threads = self.note(id).membership().threads;
            if !is_over() && !spin_policy::holds_soon(threads, is_over) {
                self.wait_at(self.point(id), || 1 - id, || (is_over() || gone()).into());
            }
            return is_over();
        }
        let round = self.arrive(id);
        let awaited = Cell::new(usize::from(id == 0));
        let is_over = || {
            if id == 0 { self.all_arrived(&awaited, round) } else { self.is_released(id, round) }
        };
        if !spin_policy::holds_soon(self.note(id).membership().threads, is_over) {
            let point = if id == 0 { &self.gathering } else { &self.released };
            self.wait_at(point, || awaited.get(), || (is_over() || gone()).into());
            if !is_over() {
                return false;
            }
        }
        if id == 0 {
            self.release_round(round);
        }
        true
    }

    /// Wakes members that sleep in the barrier: there is something to help with, or `complete` may
    /// hold now. Cost when no member sleeps: two loads.
    pub fn stir(&self) {
        self.gathering.notify_all();
        self.released.notify_all();
    }

    /// Counts the rounds of member `id`.
    #[inline]
    fn next_round(&self, id: usize) -> u64 {
        let rounds = &self.own[id].rounds;
        // ORDERING: Relaxed, both - the member's own word.
        let round = rounds.load(Relaxed) + 1;
        rounds.store(round, Relaxed);
        round
    }

    /// The calling thread is member `id`; threads that wait long for it are to know.
    #[inline]
    fn note(&self, id: usize) -> &'static Local {
        let local = local();
        self.own[id].occupant.is_me(local);
        local
    }

    /// True when all have arrived; `awaited` is the first one that had not, from 1.
    fn all_arrived(&self, awaited: &Cell<usize>, round: u64) -> bool {
        let arrived =
            (awaited.get()..self.size()).take_while(|&id| self.has_arrived(id, round)).count();
        awaited.set(awaited.get() + arrived);
        awaited.get() == self.size()
    }

    /// Step B1. Returns the round.
    pub fn arrive(&self, id: usize) -> u64 {
        let round = self.next_round(id);
        // ORDERING: Release (B1) - pairs with B2.
        self.lines[id].arrived.store(round, Release);
        if id != 0 {
            self.gathering.notify_all();
        }
        round
    }

    /// Step B2 for one member.
    pub fn has_arrived(&self, id: usize, round: u64) -> bool {
        // ORDERING: Acquire (B2) - pairs with B1.
        self.lines[id].arrived.load(Acquire) >= round
    }

    /// Step B3, by member 0 alone.
    pub fn release_round(&self, round: u64) {
        // ORDERING: Release (B3) - pairs with B4.
        if self.size() <= LINES {
            self.lines[1..].iter().for_each(|line| line.released.store(round, Release));
        } else {
            self.release.store(round, Release);
        }
        self.released.notify_all();
    }

    /// Step B4, for member `id`, which is not 0.
    pub fn is_released(&self, id: usize, round: u64) -> bool {
        let word = if self.size() <= LINES { &self.lines[id].released } else { &self.release };
        // ORDERING: Acquire (B4) - pairs with B3.
        word.load(Acquire) >= round
    }

    /// Waits for the member that `awaited` says.
    fn wait_at(&self, point: &WaitPoint, awaited: impl Fn() -> usize, look: impl FnMut() -> Look) {
        let local = local();
        let threads = local.membership().threads;
        let look_around = || {
            let late = self.own.get(awaited()).and_then(|own| own.occupant.thread());
            spin_policy::beside(local, threads, late.into_iter())
        };
        spin_policy::wait(point, local, threads, look_around, look);
    }
}

fn look_after(help: &mut impl FnMut() -> bool) -> Look {
    if help() { Look::Progress } else { Look::Pending }
}
