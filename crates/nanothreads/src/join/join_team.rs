//! The members of one outermost join, and how those that have nothing to do find halves to run.
//!
//! # What runs where
//! A member without work (it has come to the region, and the half it ran is over) steals the oldest
//! half of any member, near ones first. A joiner whose half was stolen steals from the thief only,
//! and only what was pushed for that very half (the deque's tag): what it runs meanwhile is a part
//! of what it waits for. So
//! - a lock that the joiner holds cannot be wanted by what it runs, unless its own second half
//!   wants it, too;
//! - its stack grows no deeper than the recursion would without a thief.
//!
//! # Small halves
//! What is stolen from a member whose older halves are gone is what its next join offers, deep in
//! its recursion: often less work than the theft costs both. So a thief whose half was less than
//! [`SMALL`] rests before it steals again, twice as long each time; meanwhile the victim gets on to
//! larger halves. A rest ends with what the member waits for.
//!
//! # In a scope
//! The members of a scope are a join team, too: joins inside tasks offer halves to members that
//! find no task ([`JoinSeat::run_any`]). These wait in the scope's way, so the join team tells the
//! scope of a half that was offered ([`ScopeHooks`]).
//!
//! # Waiting
//! By the rules of [`spin_policy`]. A member that sleeps has its bit set in [`Idle`] and says in
//! `wants` what it may take; a member that pushes a half wakes one that may take it. A missed wake
//! of this kind costs time only, because the owner runs what is not stolen. The wake that counts,
//! when a half is done or the region over, is that of [`WaitPoint`].
//!
//! # What touches what
//! `MemberSlot::deque`: see there. `tags`, `rest`: the member. `wants`: written by the member.
//! `Course`: written by member 0.
//!
//! # Papers
//! Wagner and Calder, Leapfrogging, PPoPP 1993 (steal back from the thief); Faxén, Wool, 2008
//! (direct stacks). The tag makes the first exact: a thief that has gone on to other work is not
//! followed.

use crate::idle::Idle;
use crate::join::deque::Deque;
use crate::join::half::{Frame, Runner, State};
use engine::local::local;
use engine::nearness::Nearness;
use engine::occupant::Occupant;
use engine::process::Born;
use engine::safe_point;
use engine::spin_policy;
use engine::wait_point::{Look, WaitPoint};
use engine::worker::Worker;
use platform::affinity::Tid;
use platform::clock::Ticks;
use platform::sync::CachePadded;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// What a member without work may take: anything.
const ANYTHING: u64 = 0;

/// Microseconds of work that a theft is worth, with its six or so transfers of a cache line; and
/// the first rest.
const SMALL: u64 = 3;
/// The longest rest, in microseconds.
const LONGEST_REST: u64 = 12;

/// See the module head.
#[derive(Debug)]
pub(crate) struct JoinTeam {
    slots: Box<[MemberSlot]>,
    idle: Idle,
    /// The scope whose members these are.
    hooks: Option<ScopeHooks>,
    /// From which members a member steals first. Changes between regions.
    nearness: Nearness,
    /// Where the region was forked.
    born: Born,
}

/// How far an outermost join is. Written by member 0, polled by those without work. It stands in
/// one cache line with the state of the second half: a member that finds nothing to do reads that
/// line and no other.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// The second half is done: nothing is left to steal.
    ended: AtomicBool,
    /// The first half is done: the member that runs the second one has finished the region with it.
    first_is_done: AtomicBool,
}

/// What a join team asks of the scope whose members it consists of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeHooks {
    /// The scope's scheduler.
    pub(crate) scope: *const (),
    /// Wakes another member than this one: a half was offered.
    pub(crate) wake: unsafe fn(*const (), usize),
    /// How many tasks this member has that others could take.
    pub(crate) tasks: unsafe fn(*const (), usize) -> usize,
}

// SAFETY: - both functions may be called on any thread: the scheduler is `Sync`.
unsafe impl Send for ScopeHooks {}
// SAFETY: - as above.
unsafe impl Sync for ScopeHooks {}

#[derive(Debug)]
struct MemberSlot {
    deque: Deque<Frame>,
    rare: CachePadded<Rare>,
}

#[derive(Debug)]
struct Rare {
    /// Where the member sleeps.
    point: WaitPoint,
    /// Read by a member that waits long for this one.
    occupant: Occupant,
    /// [`ANYTHING`], or the [`Runner`] that it may steal from, while it looks for work.
    wants: AtomicU64,
    /// Pieces of work that the member began; its own.
    tags: Cell<u32>,
    /// Microseconds that the member rested after the last half that it stole; its own.
    rest: Cell<u64>,
}

// SAFETY: - `tags` and `rest` are touched by the member's thread only, through a `JoinSeat`;
//           all other fields are `Sync`. Members of one region follow those of another after
//           that is joined.
unsafe impl Sync for Rare {}

thread_local! {
    /// The join team that the calling thread led last.
    static SPARE: RefCell<Option<Box<JoinTeam>>> = const { RefCell::new(None) };
}

impl JoinTeam {
    pub(crate) fn new(size: usize) -> Box<Self> {
        let slot = || MemberSlot {
            deque: Deque::new(),
            rare: CachePadded::new(Rare {
                point: WaitPoint::new(),
                occupant: Occupant::default(),
                wants: AtomicU64::new(ANYTHING),
                tags: Cell::new(0),
                rest: Cell::new(0),
            }),
        };
        let slots = (0..size).map(|_| slot()).collect();
        Box::new(Self {
            slots,
            idle: Idle::new(size),
            hooks: None,
            nearness: Nearness::default(),
            born: Born::now(),
        })
    }

    /// A join team for a region that the caller is about to fork with `workers`: the one that it
    /// led last, or a new one.
    pub(super) fn take(workers: &[&'static Worker]) -> Box<Self> {
        let size = workers.len() + 1;
        // The store is gone while the thread's destructors run.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().take()).ok().flatten();
        let spare =
            spare.filter(|join_team| join_team.slots.len() == size && !join_team.is_parents());
        let mut join_team = spare.unwrap_or_else(|| Self::new(size));
        join_team.nearness.update(workers);
        join_team.slots[0].rare.occupant.is_me(local());
        join_team
    }

    /// Makes the join team ready for the members of a scope: the caller and `workers`, or as many
    /// members as it has, of which none is known.
    ///
    /// # Safety
    /// - The scheduler that `hooks` tells of outlives the join team, and its functions may be
    ///   called with it.
    pub(crate) unsafe fn serve(&mut self, hooks: ScopeHooks, workers: &[&'static Worker]) {
        self.hooks = Some(hooks);
        self.born = Born::now();
        self.nearness.update(workers);
    }

    /// How many members it has.
    pub(super) fn size(&self) -> usize {
        self.slots.len()
    }

    /// Keeps a join team for the calling thread's next region; its own is joined.
    pub(super) fn give_back(self: Box<Self>) {
        if self.is_parents() {
            // Other threads of the parent may have been changing it when this copy was made.
            std::mem::forget(self);
            return;
        }
        let _ = SPARE.try_with(|spare| *spare.borrow_mut() = Some(self));
    }

    /// True in a child that was forked inside the region: the other members exist in its parent
    /// only.
    fn is_parents(&self) -> bool {
        self.born.is_parents()
    }

    /// The place of member `index`.
    ///
    /// # Safety
    /// - The calling thread is that member, and stays it while the seat is used.
    pub(crate) unsafe fn seat(&self, index: u32) -> JoinSeat<'_> {
        JoinSeat { join_team: self, index, here: PhantomData }
    }
}

/// A member's place in a join team, on the member's thread.
#[derive(Clone, Copy)]
pub(crate) struct JoinSeat<'a> {
    join_team: &'a JoinTeam,
    index: u32,
    here: PhantomData<*const ()>,
}

impl<'a> JoinSeat<'a> {
    pub(super) fn join_team(self) -> &'a JoinTeam {
        self.join_team
    }

    pub(crate) fn index(self) -> u32 {
        self.index
    }

    fn slot(self) -> &'a MemberSlot {
        &self.join_team.slots[self.index as usize]
    }

    /// The other members, near ones first.
    #[inline]
    fn others(self) -> impl Iterator<Item = usize> + use<'a> {
        self.join_team.nearness.others(self.index as usize, self.join_team.slots.len())
    }

    pub(super) fn deque(self) -> &'a Deque<Frame> {
        &self.slot().deque
    }

    /// True when a half may be offered: less are open than thieves want.
    pub(crate) fn may_offer(self) -> bool {
        !self.deque().is_full()
    }

    /// Offers a half to the others, and wakes one that sleeps. Cost when none does: two stores and
    /// a load for 64 members.
    ///
    /// # Safety
    /// - `frame`'s half stays in place until [`Self::take_back`] returned true, or
    ///   [`Self::wait_for`] has returned.
    /// - The deque is not full.
    pub(crate) unsafe fn offer(self, frame: *const Frame) {
        let deque = self.deque();
        // SAFETY: - caller's contract; the seat is on its owner's thread.
        unsafe { deque.push(frame) };
        let me = Runner { member: self.index, tag: deque.tag() }.pack();
        let may_take = |&member: &usize| {
            // ORDERING: Relaxed - see Waiting in the module head.
            let wants = self.join_team.slots[member].rare.wants.load(Relaxed);
            wants == ANYTHING || wants == me
        };
        let candidates = self.others().filter(may_take);
        self.join_team.idle.wake_one(candidates, |member| &self.join_team.slots[member].rare.point);
        if let Some(ScopeHooks { scope, wake, .. }) = self.join_team.hooks {
            // SAFETY: - `serve`'s contract.
            unsafe { wake(scope, self.index as usize) };
        }
    }

    /// What the member has for others that is larger than what it would offer them now: for each of
    /// these one of them will have something to do.
    pub(super) fn tasks(self) -> usize {
        self.join_team.hooks.map_or(0, |ScopeHooks { scope, tasks, .. }| {
            // SAFETY: - `serve`'s contract.
            unsafe { tasks(scope, self.index as usize) }
        })
    }

    /// The calling thread is the member; those that wait long for it are to know.
    pub(crate) fn is_here(self) {
        self.slot().rare.occupant.is_me(local());
    }

    /// True when some member may have offered a half that [`JoinSeat::run_any`] would run.
    pub(crate) fn may_run_any(self) -> bool {
        self.deque().is_empty()
            && self.others().any(|victim| !self.join_team.slots[victim].deque.is_empty())
    }

    /// Runs a half that another member offered, by a member that waits in a way of its own. False
    /// when there is none, or when this member has offered some itself: what it runs has a tag, and
    /// a tag is changed only while there is no half. Until `is_over` it may rest after a small one.
    pub(crate) fn run_any(self, begin: impl FnOnce(), is_over: impl Fn() -> bool) -> bool {
        if !self.may_run_any() {
            return false;
        }
        let slots = &self.join_team.slots;
        let steal = |victim: usize| slots[victim].deque.steal(None);
        let Some(frame) = self.others().find_map(steal) else { return false };
        begin();
        self.run_stolen(frame, is_over);
        true
    }

    /// Takes the half that was offered last back; false when it was stolen.
    ///
    /// # Safety
    /// - Each half that was offered is asked for once, newest first.
    pub(crate) unsafe fn take_back(self) -> bool {
        // SAFETY: - caller's contract; the seat is on its owner's thread.
        unsafe { self.deque().pop() }
    }

    /// Waits until `frame`, which this member offered, is done. False when it never will be: the
    /// caller is in a child that was forked meanwhile, and the thief is a thread of its parent.
    pub(crate) fn wait_for(self, frame: &Frame) -> bool {
        let mut done = true;
        let thief = || match frame.state() {
            State::Runs(thief) => {
                self.join_team.slots[thief.member as usize].rare.occupant.thread()
            }
            _ => None,
        };
        self.wait(thief, || match frame.state() {
            State::Done => Look::Ready,
            _ if self.join_team.is_parents() => {
                done = false;
                Look::Ready
            }
            State::Open => Look::Pending,
            State::Runs(thief) => self.look_at(thief, || frame.state() == State::Done),
        });
        done
    }

    /// Runs what others offer until the region is over; first of all `second`, the second half of
    /// the outermost join.
    pub(super) fn work(self, second: &Frame, course: &Course) {
        self.slot().rare.occupant.is_me(local());
        let tag = self.begin();
        if second.claim(Runner { member: self.index, tag: self.deque().tag() }) {
            // SAFETY: - claimed just now; the half lives until the region is joined.
            self.run(second);
            // ORDERING: Relaxed - lets this member go at once; otherwise `ended` will.
            if course.first_is_done.load(Relaxed) {
                return;
            }
        }
        self.end(tag);
        safe_point::between_pieces();
        let nobody = || None;
        self.wait(nobody, || {
            // ORDERING: Acquire - pairs with the Release in `end_region`.
            let has_ended = || course.ended.load(Acquire);
            if has_ended() || self.join_team.is_parents() {
                return Look::Ready;
            }
            self.look_around(has_ended)
        });
    }

    /// By member 0, when the first half is done: takes the second one if no member has begun it.
    pub(super) fn claim_second(self, second: &Frame, course: &Course) -> bool {
        let claimed = second.claim_back();
        // ORDERING: Relaxed - a hint for the member that runs the second half.
        course.first_is_done.store(true, Relaxed);
        claimed
    }

    /// By member 0, when both halves are done: lets all members go.
    pub(super) fn end_region(self, course: &Course) {
        // ORDERING: Release - pairs with `work`.
        course.ended.store(true, Release);
        for slot in &self.join_team.slots[1..] {
            slot.rare.point.notify_all();
        }
    }

    /// A look for something that belongs to what `thief` runs, by a member that waits until
    /// `is_over`.
    fn look_at(self, thief: Runner, is_over: impl Fn() -> bool) -> Look {
        match self.join_team.slots[thief.member as usize].deque.steal(Some(thief.tag)) {
            Some(frame) => self.run_stolen(frame, is_over),
            None => self.go_idle(thief.pack()),
        }
    }

    /// A look for anything, likewise.
    fn look_around(self, is_over: impl Fn() -> bool) -> Look {
        let slots = &self.join_team.slots;
        let stolen = self.others().find_map(|victim| slots[victim].deque.steal(None));
        match stolen {
            Some(frame) => self.run_stolen(frame, is_over),
            None => self.go_idle(ANYTHING),
        }
    }

    fn go_idle(self, wants: u64) -> Look {
        let rare = &self.slot().rare;
        // ORDERING: Relaxed - see Waiting in the module head.
        if rare.wants.load(Relaxed) != wants {
            rare.wants.store(wants, Relaxed);
        }
        self.join_team.idle.look(self.index as usize)
    }

    /// Waits for the thread that `awaited` says, if any.
    fn wait(self, awaited: impl Fn() -> Option<Tid>, look: impl FnMut() -> Look) {
        let local = local();
        let threads = local.membership().threads;
        let look_around = || spin_policy::beside(local, threads, awaited().into_iter());
        spin_policy::wait(&self.slot().rare.point, local, threads, look_around, look);
        self.join_team.idle.take(self.index as usize);
    }

    fn run_stolen(self, frame: *const Frame, is_over: impl Fn() -> bool) -> Look {
        local().counters().stole();
        self.join_team.idle.take(self.index as usize);
        let outer = self.begin();
        // SAFETY: - stolen just now: its joiner waits for it.
        let this = unsafe { &*frame };
        this.begin(Runner { member: self.index, tag: self.deque().tag() });
        let start = Ticks::now();
        self.run(frame);
        self.end(outer);
        safe_point::between_pieces();
        self.rest_after(start.elapsed_ticks(), is_over);
        Look::Progress
    }

    /// Rests after a theft that was worth `work` ticks.
    fn rest_after(self, work: u64, is_over: impl Fn() -> bool) {
        let rest = &self.slot().rare.rest;
        if work >= Ticks::about_us(SMALL) || !spin_policy::may_spin(local().membership().threads) {
            rest.set(0);
            return;
        }
        rest.set((2 * rest.get()).clamp(SMALL, LONGEST_REST));
        let (start, length) = (Ticks::now(), Ticks::about_us(rest.get()));
        while !is_over() && start.elapsed_ticks() < length {
            platform::sync::pause();
        }
    }

    /// Begins a piece of work: a fresh tag. Returns the tag of what the member was at.
    fn begin(self) -> u32 {
        let tags = &self.slot().rare.tags;
        tags.set(tags.get().wrapping_add(1).max(1));
        // SAFETY: - the seat is on its owner's thread. Its items are gone: it waits for a half that
        //           was stolen, and with that all older ones were; or it has not pushed any.
        unsafe { self.deque().retag(tags.get()) }
    }

    /// Ends it: the member is at `outer` again.
    fn end(self, outer: u32) {
        // SAFETY: - as in `begin`: each join below has taken its half back, or waited for it.
        unsafe { self.deque().retag(outer) };
    }

    /// Runs a half that was stolen or claimed, and tells its joiner.
    fn run(self, frame: *const Frame) {
        // SAFETY: - the callers took it just now.
        let joiner = unsafe { Frame::run(frame) };
        self.join_team.slots[joiner as usize].rare.point.notify_all();
    }
}
