//! Places at a scope that a member offers again to the threads of the join or scope around.
//!
//! The members of a scope inside a join, or inside another scope, are its *parts*
//! ([`crate::parts`]): threads of the join team around take them, and leave when they find nothing
//! to do. When there are tasks later, the member that queues them offers what was left as halves of
//! joins, in its own deque of the join team around: a thread of that join team which has nothing to
//! do steals one, as it stole the part before.
//!
//! # Invariants
//! I1  Nothing else is pushed to that deque while the member's thread is at the scope: what runs
//!     there has its joins in the scope's own join team. So halves are asked for newest first, as
//!     the deque wants it.
//! I2  A member has settled all its halves ([`Offers::settle`]) before its thread is done with the
//!     scope, and nothing that the scope's master holds is used by them later.
//!
//! # Races
//! *A member that wants to leave.* It takes back what no thread has stolen, and gives the places
//! back; while a thief runs one it stays ([`Offers::withdraw`]): its own half is on that thief.
//! *The end.* Member 0 has said that the scope is over before it waits for thieves; a thief that
//! begins then finds that and is done.

use crate::join::half::{Half, State};
use crate::join::join_team;
use engine::local::local;
use engine::work::{Member, Work};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

/// What runs a place of a scope: its region's work, and where that region is.
#[derive(Clone, Copy)]
pub(crate) struct ScopeWork {
    /// What the members of the scope's region run, and with what.
    pub(crate) work: Work,
    /// See `work`.
    pub(crate) data: *const (),
    /// That region's level, and the threads that run at the same time.
    pub(crate) place: (u32, u32),
    /// How many members it has.
    pub(crate) size: u32,
}

// SAFETY: - `work` may be called with `data` on the threads of all members (`parts::run_work`).
unsafe impl Send for ScopeWork {}

impl ScopeWork {
    /// Runs the place of `id`.
    ///
    /// # Safety
    /// - The place has no thread, and the scope's region is not joined yet.
    unsafe fn run(self, id: u32) {
        let member = Member { id, size: self.size };
        // SAFETY: - caller's contract; `work` does not unwind (`parts::run_work`).
        unsafe { local().run_part(member, self.place, self.work, self.data) };
    }
}

type PartHalf = ManuallyDrop<Half<Box<dyn FnOnce() + Send>, ()>>;

/// A place that was offered.
struct Offer {
    /// In a place of its own: thieves have its address.
    half: Box<PartHalf>,
    member: usize,
    /// It was asked back, in vain.
    is_stolen: bool,
}

/// What a member has offered. Touched by the member's thread only.
#[derive(Default)]
pub(super) struct Offers {
    /// The member's seat in the join team around, while its thread is at the scope.
    around: Cell<Option<(join_team::JoinSeat<'static>, ScopeWork)>>,
    open: RefCell<Vec<Offer>>,
}

impl Offers {
    /// The member's thread has come to the scope, from `around`.
    pub(super) fn begin(&self, around: Option<join_team::JoinSeat<'static>>, part: ScopeWork) {
        debug_assert!(self.open.borrow().is_empty(), "I2");
        self.around.set(around.map(|seat| (seat, part)));
    }

    /// Offers the place that `take` gives, where the join team around takes one more. By a member
    /// that has queued a task.
    #[cold]
    pub(super) fn add(&self, take: impl FnOnce() -> Option<usize>) {
        let Some((seat, part)) = self.around.get() else { return };
        self.forget_done(seat);
        if !seat.may_offer() {
            return;
        }
        let Some(member) = take() else { return };
        let id = u32::try_from(member).expect("teams have less than 2^32 members");
        // SAFETY: - the place was taken for this half, which is settled before the region is joined
        //           (I2); a closure that was taken back is dropped, and not called.
        let run: Box<dyn FnOnce() + Send> = Box::new(move || unsafe { part.run(id) });
        let half = Box::new(Half::new(run, seat.index()));
        let frame = half.frame();
        self.open.borrow_mut().push(Offer { half, member, is_stolen: false });
        // SAFETY: - the half stays in its box until it was taken back, or is done (`forget_done`,
        //           `withdraw`, `settle`); there was room.
        unsafe { seat.offer(frame) };
    }

    /// Forgets the newest ones that thieves have done.
    fn forget_done(&self, seat: join_team::JoinSeat) {
        let mut open = self.open.borrow_mut();
        while let Some(last) = open.last()
            // SAFETY: - the half is in its box.
            && unsafe { &*last.half.frame() }.state() == State::Done
        {
            let last = open.pop().expect("seen just now");
            // SAFETY: - I1: asked for once, newest first.
            let is_back = !last.is_stolen && unsafe { seat.take_back() };
            debug_assert!(!is_back, "a half that was run was stolen");
        }
    }

    /// The member wants to leave: takes back what no thread has stolen, and gives those places to
    /// `leave`. False when a thief runs one: the member has to stay.
    pub(super) fn withdraw(&self, leave: impl Fn(usize)) -> bool {
        let Some((seat, _)) = self.around.get() else { return true };
        loop {
            self.forget_done(seat);
            let mut open = self.open.borrow_mut();
            let Some(last) = open.last_mut() else { return true };
            // SAFETY: - I1: asked for once, newest first.
            if last.is_stolen || !unsafe { seat.take_back() } {
                last.is_stolen = true;
                return false;
            }
            let last = open.pop().expect("seen just now");
            leave(last.member);
            drop_closure(&last);
        }
    }

    /// The scope is over: nothing is left to others when this returns.
    pub(super) fn settle(&self) {
        let Some((seat, _)) = self.around.take() else { return };
        loop {
            // Not borrowed while the thread waits: it may run another place of the scope then.
            let Some(last) = self.open.borrow_mut().pop() else { return };
            // SAFETY: - I1: asked for once, newest first.
            if !last.is_stolen && unsafe { seat.take_back() } {
                drop_closure(&last);
            // SAFETY: - the half is in its box.
            } else if !seat.wait_for(unsafe { &*last.half.frame() }) {
                // A forked child: the thief, and what it runs, are the parent's.
                std::mem::forget(last);
            }
        }
    }
}

fn drop_closure(offer: &Offer) {
    // SAFETY: - taken back just now, by the member that offered it.
    drop(unsafe { offer.half.take() });
}
