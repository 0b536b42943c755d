//! What a thread's state holds, and what it says of where the thread stands.

use super::claim::Claim;
use super::group::WorkerGroup;
use crate::manager::source::{self, source};
use crate::process::panics::{FirstPanic, Payload};
use crate::program::counters::Counters;
use crate::program::program;
use crate::protocols::custody::{Custody, NOWHERE};
use crate::thread::head::{Follows, Head};
use crate::thread::membership::Membership;
use crate::waits::waiter::Waiter;
use crate::work::{Member, Root, Work};
use crate::workers::pool::pool;
use crate::workers::worker::Worker;
use platform::affinity::{Tid, current_tid};
use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// The calling thread's state; see the module head. On lines of its own: each fork writes it, and
/// what the allocator would put beside it other threads may be reading in each region (a round trip
/// each time).
#[derive(Debug)]
#[repr(align(128))]
pub struct Local {
    pub(super) membership: Cell<Membership>,
    /// Open regions of more than one thread that this thread is the master of; and the depth at
    /// which it is a root: 0 on threads of the program, none on a worker, until it leads a group.
    pub(crate) custody: Custody,
    /// Frames that must end in LIFO order: see [`Local::pin`].
    pins: Cell<u32>,
    /// The sizer is being asked (L3).
    asks: Cell<bool>,
    pub(super) groups: UnsafeCell<Vec<WorkerGroup>>,
    /// A reference to a group is held (L2).
    #[cfg(debug_assertions)]
    holds_group: Cell<bool>,
    /// The explicit group that this thread leads at that depth; null: none.
    pub(super) head: Cell<*const Head<'static>>,
    /// What it knows as a waiter, and its place where a manager says that.
    waiter: Waiter,
    tid: Cell<Tid>,
    /// False in the child of a fork, where the thread is one of the program.
    pub(super) is_worker: Cell<bool>,
    /// It is to continue on another thread.
    pub(crate) is_to_be_renewed: Cell<bool>,
    /// Its workers stand in the list of those that other masters may take.
    pub(crate) is_known: Cell<bool>,
    pub(super) claim: Claim,
    /// See [`Local::number`].
    number: Cell<Option<usize>>,
    /// See [`Local::keep_panic`].
    panic: FirstPanic,
}

impl AsRef<Waiter> for Local {
    #[inline]
    fn as_ref(&self) -> &Waiter {
        &self.waiter
    }
}

/// See [`Local::pin`].
pub struct Pin<'a> {
    pins: &'a Cell<u32>,
    outer: u32,
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        self.pins.set(self.outer);
    }
}

impl Local {
    pub(super) fn new(is_worker: bool) -> Self {
        Self {
            membership: Cell::new(Membership::OUTSIDE),
            custody: Custody::new(if is_worker { NOWHERE } else { 0 }),
            pins: Cell::new(0),
            asks: Cell::new(false),
            groups: UnsafeCell::new(Vec::new()),
            #[cfg(debug_assertions)]
            holds_group: Cell::new(false),
            head: Cell::new(ptr::null()),
            waiter: Waiter::new(program().counters().take()),
            tid: Cell::new(current_tid()),
            is_worker: Cell::new(is_worker),
            is_to_be_renewed: Cell::new(false),
            is_known: Cell::new(false),
            claim: Claim::default(),
            number: Cell::new(None),
            panic: FirstPanic::default(),
        }
    }

    #[inline]
    pub fn membership(&self) -> Membership {
        self.membership.get()
    }

    /// Until the guard is dropped no nano-thread is switched away from on this thread, except such
    /// as were resumed meanwhile: for frames that change thread state which has to be undone in
    /// LIFO order.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        let outer = self.pins.get();
        self.pins.set(outer + 1);
        Pin { pins: &self.pins, outer }
    }

    /// How many pins are in force.
    #[inline]
    pub fn pins(&self) -> u32 {
        self.pins.get()
    }

    /// What the thread starts would inherit turns that are longer than usual ([`time_slice`]).
    #[inline]
    pub(crate) fn has_long_turns(&self) -> bool {
        self.claim.time_slice.is_long()
    }

    /// Its turns are usual ones from now on, until it shares a processor anew.
    #[inline]
    pub(crate) fn end_long_turns(&self) {
        self.claim.time_slice.end();
    }

    /// Gives a child that shares the thread's memory usual turns. Writes nothing.
    pub(crate) fn end_childs_long_turns(&self) {
        self.claim.time_slice.restore();
    }

    /// The thread as one that waits.
    #[inline]
    pub(crate) fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// The kernel thread.
    #[inline]
    pub(crate) fn tid(&self) -> Tid {
        self.tid.get()
    }

    /// What to fork of a team of `granted` threads whose size the program did not ask for: without
    /// those that were lost lately.
    #[inline]
    pub fn present(&self, granted: usize) -> usize {
        if self.waiter.stragglers().is_whole() || !self.is_outermost() {
            granted
        } else {
            self.waiter.stragglers().reduced(granted)
        }
    }

    /// The worker that this thread is; none on threads of the program.
    pub(crate) fn worker(&self) -> Option<&'static Worker> {
        self.waiter.sitter().worker()
    }

    /// What this thread counts for [`statistics`](crate::statistics()).
    #[inline]
    pub fn counters(&self) -> &'static Counters {
        self.waiter.counters()
    }

    /// The thread's number among those that have one; a thread that begins when this one has ended
    /// may have the same.
    #[inline]
    pub fn number(&self) -> usize {
        self.number.get().unwrap_or_else(|| self.take_number())
    }

    #[cold]
    fn take_number(&self) -> usize {
        let number = program().numbers().take();
        self.number.set(Some(number));
        number
    }

    /// True outside any region of more than one thread, on a thread of the program.
    #[inline]
    pub(crate) fn is_outermost(&self) -> bool {
        self.is_outermost_at(self.custody.depth())
    }

    /// The same of a region that the thread has opened at `depth`.
    #[inline]
    pub(crate) fn is_outermost_at(&self, depth: usize) -> bool {
        depth == 0 && !self.is_worker.get()
    }

    /// True where the thread owns the workers of its group. Outside regions on a thread of the
    /// program false also where another master may have taken them ([`custody`]).
    ///
    /// [`custody`]: crate::protocols::custody
    #[inline]
    pub(crate) fn is_root(&self) -> bool {
        self.custody.is_root_at(self.custody.depth())
    }

    /// The explicit group that the thread leads, where it has it for its next fork.
    #[inline]
    pub(super) fn head(&self) -> Option<&Head<'_>> {
        self.head_of(self.is_root())
    }

    /// The same where the thread `is_root` or not.
    #[inline]
    pub(super) fn head_of(&self, is_root: bool) -> Option<&Head<'_>> {
        if !is_root {
            return None;
        }
        // SAFETY: - null, or set by `lead` for as long as the head lives.
        unsafe { self.head.get().as_ref() }
    }

    /// What makes groups of the caller's processors shrink.
    pub fn followed(&self) -> Follows<'_> {
        self.head().map_or(Follows::Grant, Follows::Outer)
    }

    /// What a region of the caller may have at most, by the sizer and by the explicit group that it
    /// leads.
    #[inline]
    pub(crate) fn limit(&self) -> usize {
        let limit = source().limit();
        self.head().map_or(limit, |head| head.allowance(limit))
    }

    /// What a region without a number of its own asks for.
    #[inline]
    pub fn wish(&self) -> usize {
        match self.head() {
            Some(head) => head.own(),
            None => source::wish(),
        }
    }

    /// True for a thread of the program outside any region, one of one thread included.
    pub(crate) fn is_outside_regions(&self) -> bool {
        self.is_outermost() && self.membership.get().level == 0
    }

    /// The kernel thread that it belongs to.
    pub(crate) fn runs_on(&self, tid: Tid) {
        self.tid.set(tid);
    }

    /// True once after the worker was told so.
    pub(crate) fn is_to_be_renewed(&self) -> bool {
        self.is_to_be_renewed.take()
    }

    /// The workers that this master has for itself.
    pub(crate) fn own_members(&self) -> Vec<&'static Worker> {
        // SAFETY: - `Local` is touched by its thread only, and nothing is forked here.
        let groups = unsafe { &*self.groups.get() };
        groups.iter().flat_map(|group| &group.members[group.lent..]).copied().collect()
    }

    /// Runs `work` as a member.
    #[inline]
    pub(crate) fn run(&self, membership: Membership, work: Work, data: *const ()) {
        let outer = self.membership.replace(membership);
        // SAFETY: - `Team::run`'s contract: `work` may be called once for each member with this
        // data.
        unsafe { work(data, Member { id: membership.id, size: membership.size }) };
        self.membership.set(outer);
    }

    /// Runs `work` as `member` of a region of several parts inside the region that the thread is
    /// in, which has no workers of its own: threads of the region around run its parts. `level` and
    /// `threads`: one level above those of the thread that forked it.
    ///
    /// # Safety
    /// - `work` may be called with `data` as this member now, and does not unwind.
    pub unsafe fn run_part(
        &self,
        member: Member,
        (level, threads): (u32, u32),
        work: Work,
        data: *const (),
    ) {
        let Member { id, size } = member;
        let root = self.membership.get().root;
        self.run(Membership { id, size, level, threads, root, result_place: None }, work, data);
    }

    /// The workers of a team of `size` that `reserve` made room for.
    #[inline]
    pub fn members(&self, size: usize) -> &[&'static Worker] {
        self.members_at(self.custody.depth(), size)
    }

    /// The same one depth up, for a master that has just opened a region.
    pub fn outer_members(&self, size: usize) -> &[&'static Worker] {
        self.members_at(self.custody.depth() - 1, size)
    }

    #[inline]
    pub(crate) fn members_at(&self, depth: usize, size: usize) -> &[&'static Worker] {
        let members = self.with_group_at(depth, |group| group.first(size));
        // SAFETY: - L2: the list of a group's members is changed by the group's next fork only.
        unsafe { &*members }
    }

    /// Opens a region of this thread: what it forks inside belongs one depth lower.
    #[inline]
    pub fn open(&self) -> usize {
        self.custody.open()
    }

    /// Closes the region that `open` returned `depth` for.
    #[inline]
    pub fn close(&self, depth: usize) {
        self.custody.close(depth);
    }

    /// The root for members of a region that this thread has opened at `depth`, where it `is_root`
    /// or not.
    #[inline]
    pub(crate) fn root_for_members(&self, depth: usize, is_root: bool) -> *const Root {
        if is_root {
            self.with_group_at(depth, |group| ptr::from_ref(&*group.root).cast())
        } else {
            self.membership.get().root
        }
    }

    /// Asks the program's sizer: `question`, or `otherwise` when that is what is being done already
    /// (L3). Until it has answered, regions of this thread have one thread, forks are one depth
    /// lower, and no nano-thread leaves its stack.
    pub(crate) fn ask<R>(&self, otherwise: R, question: impl FnOnce() -> R) -> R {
        struct Asked<'a>(&'a Local, usize);
        impl Drop for Asked<'_> {
            fn drop(&mut self) {
                self.0.close(self.1);
                self.0.asks.set(false);
            }
        }
        #[cfg(debug_assertions)]
        debug_assert!(!self.holds_group.get(), "L2: a sizer is asked while a group is held");
        if self.asks.replace(true) {
            return otherwise;
        }
        let _pin = self.pin();
        let _asked = Asked(self, self.open());
        question()
    }

    /// True where regions have one thread, whatever is asked for: while the program's sizer is
    /// asked, and on a worker in work that another thread than its master offered it.
    pub fn forks_alone(&self) -> bool {
        let is_offered =
            self.is_worker.get() && !self.is_root() && self.membership.get().root.is_null();
        self.asks.get() || is_offered
    }

    /// True while the program's sizer is asked.
    pub(crate) fn asks(&self) -> bool {
        self.asks.get()
    }

    /// Uses the group of the current depth. No code of the program runs in `body` (L2).
    #[inline]
    pub(crate) fn with_group<R>(&self, body: impl FnOnce(&mut WorkerGroup) -> R) -> R {
        self.with_group_at(self.custody.depth(), body)
    }

    #[inline]
    pub(crate) fn with_group_at<R>(
        &self,
        depth: usize,
        body: impl FnOnce(&mut WorkerGroup) -> R,
    ) -> R {
        #[cfg(debug_assertions)]
        debug_assert!(!self.holds_group.replace(true), "L2: a group is held already");
        // SAFETY: - `Local` is touched by its thread only, and `body` touches no groups but the one
        // that it gets (L2).
        let groups = unsafe { &mut *self.groups.get() };
        if depth >= groups.len() {
            groups.resize_with(depth + 1, WorkerGroup::default);
        }
        let result = body(&mut groups[depth]);
        #[cfg(debug_assertions)]
        self.holds_group.set(false);
        result
    }

    /// The thread is the master of a region of several threads that is not joined.
    pub(super) fn is_in_region(&self) -> bool {
        self.custody.depth() > 0
    }

    /// The thread forks no more.
    pub(super) fn claims_end(&self) {
        self.claim.end();
    }

    /// Gives all that the thread reserved back.
    pub(super) fn retire(self: Box<Self>) {
        if self.is_known.get() && pool().holdings().forget(&self.custody) {
            // They are another master's.
            self.with_group_at(0, |group| group.members.clear());
        }
        program().counters().give_back(self.counters());
        if let Some(number) = self.number.get() {
            program().numbers().give_back(number);
        }
        let this = *self;
        for mut group in this.groups.into_inner() {
            group.members.drain(..group.lent);
            pool().give_back(group.members);
        }
    }

    /// In a child that was forked inside a region and leaves it: the regions around are its
    /// parent's as well, with all that is lent in them. It has been outside since the fork
    /// (`forget_groups`), and stays there.
    #[cold]
    pub fn stay_outside(&self) {
        self.membership.set(Membership::OUTSIDE);
    }

    /// In a child: keeps the panic of a part that has no line any more, for the region that it
    /// leaves next.
    #[cold]
    pub fn keep_panic(&self, payload: Payload) {
        self.panic.keep(payload);
    }

    /// What [`Self::keep_panic`] kept.
    #[cold]
    pub fn take_panic(&self) -> Option<Payload> {
        self.panic.take()
    }

    /// In the child of a fork, by the thread that has forked: what it reserved is the parent's.
    /// True where it was a worker; it is a thread of the program now.
    pub(super) fn forget_after_fork(&self) -> bool {
        self.forget_groups();
        self.waiter.sitter().is(None);
        self.is_worker.take()
    }

    fn forget_groups(&self) {
        // SAFETY: - called in the child of a fork, by the thread that owns the state.
        let groups = unsafe { &mut *self.groups.get() };
        std::mem::take(groups).into_iter().for_each(std::mem::forget);
        self.claim.forget();
        self.tid.set(current_tid());
        self.waiter.counts_in(program().counters().take());
        // Regions that were open in the parent cannot be joined here: their other members do not
        // exist.
        self.custody.close(0);
        self.custody.come_back();
        self.is_known.set(false);
        self.head.set(ptr::null());
        self.membership.set(Membership::OUTSIDE);
    }
}
