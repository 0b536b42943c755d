//! A team: what the members of a region share. Cached by the thread that forks, so that a fork
//! allocates nothing.
//!
//! # Access
//! Cells: written by the primary thread between regions (`open`, `close`), read by members inside;
//! the engine's fork and join order the two. Atomics and parts with their own protocol: all
//! threads.

mod barriers;
mod orders;
mod task_free;

use crate::body::Body;
use crate::construct::ConstructRing;
use crate::settings::{Bind, Icvs, settings};
use crate::task::{Queues, TaskGroup};
use barriers::{Barriers, CancelBarrier};
use engine::singles::Singles;
use engine::{Barrier, Recall, WaitPoint, Work};
use orders::{ConstructCounts, League, Orders, Steady};
use platform::sync::CachePadded;
use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};
use task_free::TaskFree;

/// See the module head.
pub(crate) struct Team {
    /// What the region is. The same from fork to fork in most programs, so it stays in the members'
    /// caches.
    orders: CachePadded<Orders>,
    /// What the members have met in earlier regions.
    counts: CachePadded<ConstructCounts>,
    /// What the constructs of `counts` become when the region is over. Not beside them: member 0
    /// writes it at the end of each region that had any, and others read those when they begin.
    /// Writer: member 0, whose end others may not have begun yet.
    met: CachePadded<Steady<(u64, u32)>>,
    task_free: TaskFree,
    barriers: Barriers,
    members: UnsafeCell<Vec<CachePadded<MemberTeams>>>,
    /// Worksharing constructs in flight.
    pub(crate) ring: ConstructRing,
    /// `single` constructs that were taken.
    pub(crate) singles: Singles,
    /// What `single copyprivate` hands round.
    pub(crate) copied: CachePadded<AtomicPtr<c_void>>,
    /// Task queues and counters.
    pub(crate) tasks: Queues,
    /// Where members wait for anything but a barrier.
    pub(crate) wait: WaitPoint,
    /// `cancel parallel` was met.
    pub(crate) cancelled: AtomicBool,
    /// `cancel for` or `cancel sections` was met in the current construct.
    pub(crate) construct_cancelled: AtomicBool,
    pub(crate) cancel_barrier: CachePadded<CancelBarrier>,
    /// Calls back the members that left a region that was free of tasks, and its master from the
    /// join.
    recall: CachePadded<Recall>,
    /// Threads of the contention group, when this is its initial team.
    threads: AtomicU32,
    /// What a thread has outside all regions of this copy of the library.
    is_of_thread: bool,
}

// SAFETY: - cells are written only between regions, by the thread that the team belongs to (module
//           head); `met` is written by that thread inside one, and read by no other thread.
//         - the raw pointers in them are only followed inside the region that they were set for.
unsafe impl Sync for Team {}

/// What belongs to one member over all regions of the team. Each on a line of its own: it is
/// written at every inner fork.
#[derive(Default)]
struct MemberTeams {
    /// Teams that the member forked last: of several threads, and of one.
    children: [Cell<Option<Box<Team>>>; 2],
}

impl Drop for Team {
    fn drop(&mut self) {
        self.tasks.await_visitors();
    }
}

impl Team {
    /// A new one. Made in its place on the heap, field by field: all of it is 11 KB, and the thread
    /// that makes one may have a stack of 16 (the least that a thread can have), or be a thousand
    /// regions deep.
    #[cold]
    #[inline(never)]
    fn boxed(icvs: Icvs) -> Box<Self> {
        let mut team = Box::<Self>::new_uninit();
        let this = team.as_mut_ptr();
        let orders = Orders::new(icvs);
        // SAFETY: - `this` is the new box, which no other thread sees before it is whole.
        //         - each field is written once, the ring by its own means; the pattern below names
        //           them all, so that one more is noticed by the compiler.
        unsafe {
            (&raw mut (*this).orders).write(CachePadded::new(orders));
            (&raw mut (*this).counts).write(CachePadded::new(ConstructCounts {
                constructs: Steady::new(0),
                singles: Steady::new(0),
            }));
            (&raw mut (*this).met).write(CachePadded::new(Steady::new((0, 0))));
            (&raw mut (*this).task_free).write(TaskFree::default());
            (&raw mut (*this).barriers).write(Barriers::default());
            (&raw mut (*this).members).write(UnsafeCell::new(Vec::new()));
            ConstructRing::init(&raw mut (*this).ring);
            (&raw mut (*this).singles).write(Singles::default());
            (&raw mut (*this).copied).write(CachePadded::new(AtomicPtr::new(ptr::null_mut())));
            (&raw mut (*this).tasks).write(Queues::new());
            (&raw mut (*this).wait).write(WaitPoint::new());
            (&raw mut (*this).cancelled).write(AtomicBool::new(false));
            (&raw mut (*this).construct_cancelled).write(AtomicBool::new(false));
            (&raw mut (*this).cancel_barrier).write(CachePadded::default());
            (&raw mut (*this).recall).write(CachePadded::new(Recall::new()));
            (&raw mut (*this).threads).write(AtomicU32::new(1));
            (&raw mut (*this).is_of_thread).write(false);
            let team = team.assume_init();
            let Self {
                orders: _,
                counts: _,
                met: _,
                task_free: _,
                barriers: _,
                members: _,
                ring: _,
                singles: _,
                copied: _,
                tasks: _,
                wait: _,
                cancelled: _,
                construct_cancelled: _,
                cancel_barrier: _,
                recall: _,
                threads: _,
                is_of_thread: _,
            } = &*team;
            team
        }
    }

    /// The team that a thread has outside all regions of this copy of the library.
    pub(crate) fn of_thread(icvs: Icvs) -> Box<Self> {
        let mut team = Self::initial(icvs, 0, 1);
        team.is_of_thread = true;
        team
    }

    /// The team of an initial task: team `number` of a league of `count`.
    pub(crate) fn initial(icvs: Icvs, number: u32, count: u32) -> Box<Self> {
        let team = Self::boxed(icvs);
        team.orders.league.set(League { number, count, counter: ptr::null() });
        team.make_room(1);
        team.barriers.select(1);
        team
    }

    /// Threads.
    #[inline]
    pub(crate) fn size(&self) -> u32 {
        self.orders.size.get()
    }

    /// Enclosing parallel regions.
    #[inline]
    pub(crate) fn level(&self) -> u32 {
        self.orders.level.get()
    }

    /// Enclosing parallel regions of more than one thread, and those that have one only because of
    /// the load.
    #[inline]
    pub(crate) fn active_level(&self) -> u32 {
        self.orders.active_level.get()
    }

    /// True for the team that a thread has outside all regions of this copy of the library.
    #[inline]
    pub(crate) fn is_of_thread(&self) -> bool {
        self.is_of_thread
    }

    /// What the thread that forked was in, as it said ([`Team::set_parent`]); null for initial
    /// teams.
    pub(crate) fn parent(&self) -> *const () {
        self.orders.parent.get()
    }

    /// Says what the thread that is about to fork is in: its frame, which modules above this one
    /// know.
    #[inline]
    pub(crate) fn set_parent(&self, parent: *const ()) {
        self.orders.parent.set(parent);
    }

    /// The group that implicit tasks start in.
    #[inline]
    pub(crate) fn group(&self) -> *const TaskGroup {
        self.orders.group.get()
    }

    /// Puts the implicit tasks of the region that is about to start into `group`.
    pub(crate) fn set_group(&self, group: *const TaskGroup) {
        self.orders.group.set(group);
    }

    /// Worksharing constructs of earlier regions.
    #[inline]
    pub(crate) fn constructs(&self) -> u64 {
        self.counts.constructs.get()
    }

    /// `single` constructs of earlier regions.
    #[inline]
    pub(crate) fn singles_met(&self) -> u32 {
        self.counts.singles.get()
    }

    /// The region's barrier.
    #[inline]
    pub(crate) fn barrier(&self) -> &Barrier {
        self.barriers.current()
    }

    /// True when members may leave without a last barrier.
    #[inline]
    pub(crate) fn is_task_free(&self) -> bool {
        self.orders.task_free.get()
    }

    /// The region's members find their first construct ready.
    pub(crate) fn set_laid_out(&self) {
        self.orders.laid_out.set(true);
    }

    /// True when members begin inside a construct.
    #[inline]
    pub(crate) fn is_laid_out(&self) -> bool {
        self.orders.laid_out.get()
    }

    /// The control variables that members start with.
    #[inline]
    pub(crate) fn member_icvs(&self) -> Icvs {
        self.orders.icvs.get()
    }

    /// How the region's threads are said to be bound.
    pub(crate) fn bind(&self) -> Bind {
        self.orders.bind.get()
    }

    /// True when OMP_DISPLAY_AFFINITY has something new to show.
    pub(crate) fn is_news(&self) -> bool {
        self.orders.displayed.get() < self.orders.size.get()
    }

    /// The affinity of all members was shown.
    pub(crate) fn set_displayed(&self) {
        self.orders.displayed.set(self.orders.displayed.get().max(self.orders.size.get()));
    }

    /// Which team of which league.
    pub(crate) fn league(&self) -> League {
        self.orders.league.get()
    }

    /// The region's body with its argument.
    #[inline]
    pub(crate) fn body(&self) -> (Body, *mut c_void) {
        (self.orders.body.get().expect("a team runs only after open"), self.orders.data.get())
    }

    /// Wakes all members that wait, in the barrier or elsewhere: there is something new to look at.
    #[inline]
    pub(crate) fn stir(&self) {
        self.wait.notify_all();
        if self.orders.size.get() > 1 {
            self.barrier().stir();
            self.recall.stir();
        }
    }

    /// What members are called back by.
    #[inline]
    pub(crate) fn recall(&self) -> &Recall {
        &self.recall
    }

    /// There is a task in a region of several threads: members that left it early come back, and
    /// run `help` on this team.
    #[inline]
    pub(crate) fn call_back(&self, help: Work) {
        if self.orders.task_free.get() {
            // SAFETY: - a member creates a task in the region that this is the team of; the team
            // lives until it is joined.
            unsafe { self.recall.call(help, ptr::from_ref(self).cast()) };
        }
    }

    fn make_room(&self, size: usize) {
        // SAFETY: - between regions: only the primary thread looks at the members.
        let members = unsafe { &mut *self.members.get() };
        if members.len() < size {
            members.resize_with(size, CachePadded::default);
            self.tasks.make_room(size);
        }
    }

    /// Runs `use_team` with the cached team of member `id` for a region of `size` threads.
    pub(crate) fn with_child<R>(
        &self,
        id: u32,
        size: usize,
        use_team: impl FnOnce(&Team) -> R,
    ) -> R {
        // SAFETY: - the vector does not move during a region, and cell `id` is touched by member
        // `id` only.
        let member = unsafe { &(&*self.members.get())[id as usize] };
        let cell = &member.children[usize::from(size == 1)];
        // A task that the member runs inside its own region may fork again: the cell is empty then.
        let team = cell.take().unwrap_or_else(|| Team::boxed(self.orders.icvs.get()));
        let result = use_team(&team);
        cell.set(Some(team));
        result
    }

    /// Threads of the last region that member `id` forked, if that is known.
    pub(crate) fn threads_of_last_child(&self, id: u32) -> u32 {
        // SAFETY: - as in `with_child`.
        let member = unsafe { &(&*self.members.get())[id as usize] };
        let team = member.children[0].take();
        let threads =
            team.as_ref().map_or(1, |team| u32::try_from(team.barriers.largest()).unwrap_or(1));
        member.children[0].set(team);
        threads
    }

    /// Frees the cached teams of member `id`, which is in no region of its own.
    pub(crate) fn forget_children(&self, id: u32) {
        // SAFETY: - as in `with_child`.
        let member = unsafe { &(&*self.members.get())[id as usize] };
        member.children.iter().for_each(|child| drop(child.take()));
    }

    /// Prepares a region of `size` threads, forked by a member of `outer`. `bind` is the number of
    /// its proc_bind clause, or 0.
    pub(crate) fn open(
        &self,
        outer: &Team,
        size: u32,
        body: Body,
        data: *mut c_void,
        icvs: &Icvs,
        bind: u8,
    ) {
        let level = outer.level() + 1;
        self.make_room(size as usize);
        self.barriers.select(size as usize);
        self.orders.size.set(size);
        self.orders.level.set(level);
        self.orders.active_level.set(outer.active_level() + u32::from(size > 1));
        self.orders.body.set(Some(body));
        self.orders.data.set(data);
        let bind = Bind::of_region(icvs.bind, bind);
        self.orders.icvs.set(settings().inherited(icvs, level, bind));
        let mut league = outer.league();
        if league.counter.is_null() {
            league.counter = &raw const outer.threads;
        }
        self.orders.league.set(league);
        self.orders.bind.set(bind);
        self.orders.laid_out.set(false);
        let is_task_free =
            || self.task_free.is_task_free(body as usize) && settings().host.can_recall();
        self.orders.task_free.set(size == 1 || is_task_free());
    }

    /// The region that was just prepared is active though it has one thread: it would have more on
    /// a machine that no other program uses. Called between `open` and the fork.
    pub(crate) fn count_as_active(&self, outer: &Team) {
        self.orders.active_level.set(outer.active_level() + 1);
    }

    /// Member 0 tells how many constructs the region had.
    #[inline]
    pub(crate) fn count_on(&self, constructs: u64, singles: u32) {
        self.met.set((constructs, singles));
    }

    /// After the join: ready for the next region.
    pub(crate) fn close(&self) {
        if let Some(body) = self.orders.body.get() {
            self.task_free.learn(body as usize, self.tasks.take_note());
        }
        self.orders.group.set(ptr::null());
        let (constructs, singles) = self.met.get();
        self.counts.constructs.set(constructs);
        self.counts.singles.set(singles);
        // ORDERING: Relaxed - the join came before.
        if self.cancelled.load(Relaxed) {
            self.reset();
        }
        if self.construct_cancelled.load(Relaxed) {
            self.construct_cancelled.store(false, Relaxed);
        }
    }

    /// After a cancelled region members may disagree on how many constructs and barriers they met.
    #[cold]
    fn reset(&self) {
        self.cancelled.store(false, Relaxed);
        self.cancel_barrier.reset();
        self.barriers.reset();
        self.ring.reset();
        self.counts.constructs.set(0);
        self.counts.singles.set(0);
        self.singles.reset();
    }

    /// Changes an initial team's place in its league.
    pub(crate) fn set_league(&self, number: u32, count: u32) {
        self.orders.league.set(League { number, count, ..self.orders.league.get() });
    }

    /// Takes up to `wanted` more threads for the contention group out of `limit`; returns how many.
    pub(crate) fn take_threads(&self, wanted: u32, limit: u32) -> u32 {
        let counter = self.thread_counter();
        // ORDERING: Relaxed - a number on its own.
        let mut busy = counter.load(Relaxed);
        loop {
            let taken = wanted.min(limit.saturating_sub(busy));
            match counter.compare_exchange_weak(busy, busy + taken, Relaxed, Relaxed) {
                Ok(_) => return taken,
                Err(now) => busy = now,
            }
        }
    }

    /// Gives `count` threads of the contention group back.
    pub(crate) fn return_threads(&self, count: u32) {
        // ORDERING: Relaxed - a number on its own.
        self.thread_counter().fetch_sub(count, Relaxed);
    }

    fn thread_counter(&self) -> &AtomicU32 {
        let counter = self.orders.league.get().counter;
        // SAFETY: - null (this is the initial team) or of the initial team, whose thread waits for
        // this region.
        match unsafe { counter.as_ref() } {
            Some(counter) => counter,
            None => &self.threads,
        }
    }
}
