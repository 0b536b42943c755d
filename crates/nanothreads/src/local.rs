//! What the engine knows of the calling thread: where it stands in a region, and which virtual processors it reserved.
//!
//! # Terms
//! A *root* is an outermost master: a thread of the program, outside any region. It reserves virtual processors 1, 2, ...
//! for as long as it lives, and thread i of its teams is always virtual processor i (D3). A master *inside* a region gets
//! its group from what its root does not use now (lent), and, when the team's size must be exact, from unused or new
//! virtual processors (own). Groups are cached by depth: the next inner fork of the same size is a store.
//!
//! # Who touches what
//! `Local`: its thread only. `Root::lending`: under its lock; `generation`, `surplus`: written by the root's thread and
//! under the lock, read by anybody.
//!
//! # Invariants
//! L1  A virtual processor is in the reach of one master at a time: root and inner masters never use it at once.
//!     The root takes lent ones back only at an outermost fork, when all inner regions are joined; inner masters see the
//!     new generation before they use their cache again.

use crate::engine_state::{engine, new_generation};
use crate::patience::Patience;
use crate::placement;
use crate::team::{Member, Work};
use crate::vp::Vp;
use std::cell::{Cell, UnsafeCell};
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where a thread stands: its place in the innermost region that it works for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership {
    pub(crate) id: u32,
    pub(crate) size: u32,
    /// Open regions around the thread, regions of one thread included.
    pub(crate) level: u32,
    /// Threads of the program that run at the same time, as far as the thread can tell: its team, times the teams around
    /// it (whose other members fork alike, most likely), and other masters' teams. More than there are processors: who
    /// waits may wait for one that has none, and must not spin (D15).
    pub(crate) crowd: u32,
    /// The root of the region; null outside any region.
    pub(crate) root: *const Root,
}

impl Membership {
    const OUTSIDE: Self = Self { id: 0, size: 1, level: 0, crowd: 1, root: ptr::null() };
}

/// An outermost master's reservation, as inner masters see it.
#[derive(Debug)]
pub(crate) struct Root {
    lending: Mutex<Lending>,
    /// Number of the current lending; another number voids all that was lent.
    generation: AtomicU64,
    /// Virtual processors that may be lent now: lets an inner master that finds 0 go on without the lock.
    surplus: AtomicU32,
}

#[derive(Debug, Default)]
struct Lending {
    /// The root's virtual processors that its current team does not use, not lent yet.
    free: Vec<&'static Vp>,
    /// What one inner master may take: an equal share.
    share: usize,
}

impl Root {
    fn new() -> Self {
        Self {
            lending: Mutex::new(Lending::default()),
            generation: AtomicU64::new(new_generation()),
            surplus: AtomicU32::new(0),
        }
    }

    fn lending(&self) -> MutexGuard<'_, Lending> {
        // The list is whole at every point where a panic could leave it.
        self.lending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a new lending of `spare` virtual processors, which `masters` inner masters share equally.
    fn lend_anew(&self, spare: &[&'static Vp], masters: usize) {
        let mut lending = self.lending();
        lending.free.clear();
        lending.free.extend_from_slice(spare);
        lending.share = spare.len().div_ceil(masters);
        // ORDERING: Relaxed - read by members of the region whose slots are supplied after this.
        self.generation.store(new_generation(), Relaxed);
        self.surplus.store(u32::try_from(lending.free.len()).unwrap_or(u32::MAX), Relaxed);
    }

    /// Up to `wanted` virtual processors, at most the equal share.
    fn borrow(&self, wanted: usize) -> Vec<&'static Vp> {
        // ORDERING: Relaxed - a hint; the lock decides.
        if self.surplus.load(Relaxed) == 0 {
            return Vec::new();
        }
        let mut lending = self.lending();
        let count = wanted.min(lending.share).min(lending.free.len());
        // Neighbours go to one group, in order (F7: groups are consecutive processors).
        let group = lending.free.drain(..count).collect();
        self.surplus.store(u32::try_from(lending.free.len()).unwrap_or(u32::MAX), Relaxed);
        group
    }
}

/// The virtual processors of one master at one depth.
#[derive(Debug, Default)]
struct Group {
    /// Lent by the root first, then own ones.
    members: Vec<&'static Vp>,
    /// How many of `members` are lent.
    lent: usize,
    /// The lending that `lent` belongs to.
    generation: u64,
    /// Outermost groups: how many members the root's own team used when it last lent the rest.
    used: usize,
    /// Outermost groups: the sizer's epoch to which the members are bound.
    bound: u32,
}

/// Regions between two looks at the clock for [`TeamSizer::refresh`](crate::sizer::TeamSizer::refresh).
const FORKS_PER_LOOK: u32 = 16;

/// How a team that cannot have all its threads at once is to be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// All of them: create virtual processors where there are too few.
    Exact,
    /// What this program has: never more virtual processors than processors.
    Available,
}

/// The calling thread's state; see the module head.
#[derive(Debug)]
pub(crate) struct Local {
    membership: Cell<Membership>,
    /// Open regions of more than one thread that this thread is the master of.
    depth: Cell<usize>,
    groups: UnsafeCell<Vec<Group>>,
    root: Root,
    patience: Patience,
    vp: Option<&'static Vp>,
    /// Counted among the engine's masters.
    enrolled: Cell<bool>,
    /// Processors that this master's next or open region took, when there are several masters.
    claimed: Cell<usize>,
    /// What this master's last region could have used.
    wanted: Cell<usize>,
    /// Regions forked, to look at mask and quota now and then.
    forks: Cell<u32>,
}

thread_local! {
    /// Plain word, no destructor: the hot path is one load.
    static CURRENT: Cell<*const Local> = const { Cell::new(ptr::null()) };
    /// Gives a program thread's virtual processors back when it ends.
    static GUARD: Guard = const { Guard(Cell::new(ptr::null_mut())) };
}

struct Guard(Cell<*mut Local>);

impl Drop for Guard {
    fn drop(&mut self) {
        let local = self.0.replace(ptr::null_mut());
        if local.is_null() {
            return;
        }
        // A later destructor of this thread that forks gets a fresh state, which is then leaked.
        CURRENT.set(ptr::null());
        // SAFETY: - `local` was leaked by `create` for this thread only, and the thread ends: no region is open.
        let local = unsafe { Box::from_raw(local) };
        local.retire();
    }
}

/// The calling thread's state. Cost: one thread-local load.
#[inline]
pub(crate) fn local() -> &'static Local {
    let local = CURRENT.get();
    if local.is_null() {
        return create();
    }
    // SAFETY: - set by `create` or `adopt` on this thread; freed only at the thread's end.
    unsafe { &*local }
}

#[cold]
fn create() -> &'static Local {
    let local = Box::into_raw(Box::new(Local::new(None)));
    CURRENT.set(local);
    // Fails only while the thread's other destructors run: then the state is leaked.
    let _ = GUARD.try_with(|guard| guard.0.set(local));
    // SAFETY: - just leaked; freed only at the thread's end.
    unsafe { &*local }
}

/// Makes the calling thread virtual processor `vp`, for ever.
pub(crate) fn adopt(vp: &'static Vp) -> &'static Local {
    let local: &'static Local = Box::leak(Box::new(Local::new(Some(vp))));
    CURRENT.set(local);
    local
}

/// The forking thread's reservations are the parent's: the child forgets them. What stood in the parent's memory stays
/// allocated, since other threads of the parent may have been writing it.
/// True when the forking thread was a virtual processor.
pub(crate) fn forget_after_fork() -> bool {
    let local = CURRENT.get();
    if local.is_null() {
        return false;
    }
    // SAFETY: - the state belongs to this thread, the child's only one.
    let local = unsafe { &*local };
    local.forget_groups();
    local.vp.is_some()
}

impl Local {
    fn new(vp: Option<&'static Vp>) -> Self {
        Self {
            membership: Cell::new(Membership::OUTSIDE),
            depth: Cell::new(0),
            groups: UnsafeCell::new(Vec::new()),
            root: Root::new(),
            patience: Patience::new(),
            vp,
            enrolled: Cell::new(false),
            claimed: Cell::new(0),
            wanted: Cell::new(0),
            forks: Cell::new(0),
        }
    }

    pub(crate) fn membership(&self) -> Membership {
        self.membership.get()
    }

    pub(crate) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// True outside any region of more than one thread, on a thread of the program.
    fn is_outermost(&self) -> bool {
        self.vp.is_none() && self.depth.get() == 0
    }

    /// How many threads a region may have that could use `wanted`: what the program has now, less what other masters'
    /// regions use (D6). Cost with one master: two loads.
    #[inline]
    pub(crate) fn grant(&self, wanted: usize) -> usize {
        let engine = engine();
        let forks = self.forks.get().wrapping_add(1);
        self.forks.set(forks);
        if forks.is_multiple_of(FORKS_PER_LOOK) {
            engine.sizer().refresh();
        }
        if self.is_outermost() {
            if !self.enrolled.get() {
                self.enrolled.set(true);
                engine.enroll_master();
            }
            if self.wanted.get() != wanted {
                engine.want(self.wanted.replace(wanted), wanted);
            }
            self.unclaim();
            if !engine.has_one_master() {
                let taken = engine.claim(wanted);
                self.claimed.set(taken);
                return taken;
            }
        }
        wanted.min(engine.sizer().limit()).max(1)
    }

    /// Before a region of `size` threads: its crowd (see [`Membership::crowd`]).
    #[inline]
    pub(crate) fn occupy(&self, size: u32) -> u32 {
        if !self.is_outermost() {
            return self.membership.get().crowd.saturating_mul(size);
        }
        let engine = engine();
        if engine.has_one_master() {
            return size;
        }
        let size_now = size as usize;
        u32::try_from(engine.occupy(self.claimed.replace(size_now), size_now)).unwrap_or(u32::MAX).max(size)
    }

    /// After the join of a region: what an outermost one took is free again.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.is_outermost() {
            self.unclaim();
        }
    }

    /// Gives back what the last region of this master took.
    #[inline]
    fn unclaim(&self) {
        let taken = self.claimed.take();
        if taken != 0 {
            engine().unclaim(taken);
        }
    }

    /// Runs `work` as a member.
    #[inline]
    pub(crate) fn run(&self, membership: Membership, work: Work, data: *const ()) {
        let outer = self.membership.replace(membership);
        // SAFETY: - `Team::run`'s contract: `work` may be called once for each member with this data.
        unsafe { work(data, Member { id: membership.id, size: membership.size }) };
        self.membership.set(outer);
    }

    /// Makes room for a team of `size`: afterwards `members(size)` has what could be had. Returns the size.
    /// Cost when nothing changed: a few loads.
    #[inline]
    pub(crate) fn reserve(&self, size: usize, need: Need) -> usize {
        if size <= 1 {
            return 1;
        }
        let group = self.group();
        let ready = if self.is_outermost() {
            group.used == size - 1 && group.bound == engine().sizer().epoch()
        } else {
            group.members.len() >= size - 1 && group.generation == self.root_generation()
        };
        if ready { size } else { self.prepare(size, need) }
    }

    #[cold]
    fn prepare(&self, size: usize, need: Need) -> usize {
        let size = size.min(engine().largest_team());
        if self.is_outermost() { self.prepare_outermost(size) } else { self.prepare_inner(size, need) }
    }

    fn prepare_outermost(&self, size: usize) -> usize {
        let group = self.group();
        let sizer = engine().sizer();
        // All processors of the program get their virtual processor at once: inner groups come from the surplus.
        let wanted = size.max(sizer.limit()) - 1;
        let epoch = sizer.epoch();
        let grown = self.grow(wanted);
        let used = group.members.len().min(size - 1);
        if group.used != used || grown || group.bound != epoch {
            group.used = used;
            // Never more running members than processors, inner ones included.
            let lendable = group.members.len().min(sizer.limit() - 1).max(used);
            self.root.lend_anew(&group.members[used..lendable], used + 1);
        }
        if grown || group.bound != epoch {
            match sizer.processors() {
                Some(cpus) => placement::bind_to_grant(&group.members, &cpus),
                None if engine().config().bind => placement::bind_team(&group.members),
                None if group.bound != epoch => placement::unbind(&group.members),
                None => {}
            }
            group.bound = epoch;
        }
        used + 1
    }

    fn prepare_inner(&self, size: usize, need: Need) -> usize {
        let group = self.group();
        let generation = self.root_generation();
        if group.generation != generation {
            // L1: what was lent is the root's again.
            group.members.drain(..group.lent);
            group.lent = 0;
            group.generation = generation;
        }
        let missing = (size - 1).saturating_sub(group.members.len());
        if missing > 0 {
            let borrowed = self.borrow(missing);
            group.lent += borrowed.len();
            group.members.splice(0..0, borrowed);
        }
        if need == Need::Exact {
            self.grow(size - 1);
        }
        group.members.len().min(size - 1) + 1
    }

    /// Takes unused or new virtual processors until the group has `wanted`; true when any came.
    fn grow(&self, wanted: usize) -> bool {
        let group = self.group();
        let before = group.members.len();
        while group.members.len() < wanted {
            let id = group.members.len() + 1;
            match engine().acquire(id) {
                Some(vp) => group.members.push(vp),
                None => break,
            }
        }
        group.members.len() > before
    }

    fn borrow(&self, wanted: usize) -> Vec<&'static Vp> {
        let root = self.membership.get().root;
        if root.is_null() {
            return Vec::new();
        }
        // SAFETY: - the root's thread has the region open that this thread is a member of, so its state lives.
        unsafe { &*root }.borrow(wanted)
    }

    fn root_generation(&self) -> u64 {
        let root = self.membership.get().root;
        if root.is_null() {
            return 0;
        }
        // SAFETY: - as in `borrow`.
        let root = unsafe { &*root };
        // ORDERING: Relaxed - written before the slot of the region that this thread is in was supplied.
        root.generation.load(Relaxed)
    }

    /// The virtual processors of a team of `size` that `reserve` made room for.
    #[inline]
    pub(crate) fn members(&self, size: usize) -> &[&'static Vp] {
        &self.group().members[..size - 1]
    }

    /// Opens a region of this thread: what it forks inside belongs one depth lower.
    #[inline]
    pub(crate) fn open(&self) -> usize {
        let depth = self.depth.get();
        self.depth.set(depth + 1);
        depth
    }

    /// Closes the region that `open` returned `depth` for.
    #[inline]
    pub(crate) fn close(&self, depth: usize) {
        self.depth.set(depth);
    }

    /// The root for members of a region that this thread forks.
    #[inline]
    pub(crate) fn root_for_members(&self) -> *const Root {
        if self.is_outermost() { ptr::from_ref(&self.root) } else { self.membership.get().root }
    }

    /// The group of the current depth.
    #[expect(clippy::mut_from_ref, reason = "thread-owned state; see the safety comment")]
    #[inline]
    fn group(&self) -> &mut Group {
        // SAFETY: - `Local` is touched by its thread only.
        //         - no caller keeps the reference over a call that takes another one to the same vector: `members` is
        //           read between `reserve` and the join, and regions forked meanwhile use a deeper group; their pushes
        //           may move the vector of groups, not the vectors of members.
        let groups = unsafe { &mut *self.groups.get() };
        let depth = self.depth.get();
        if depth >= groups.len() {
            groups.resize_with(depth + 1, Group::default);
        }
        &mut groups[depth]
    }

    /// Gives all that the thread reserved back.
    fn retire(self) {
        self.unclaim();
        if self.enrolled.get() {
            engine().want(self.wanted.get(), 0);
            engine().dismiss_master();
        }
        for mut group in self.groups.into_inner() {
            group.members.drain(..group.lent);
            // Their next master may have other processors, or none of its own.
            group.members.iter().filter(|vp| vp.is_bound()).for_each(|vp| vp.unbind());
            engine().give_back(group.members);
        }
    }

    fn forget_groups(&self) {
        // SAFETY: - called in the child of a fork, by the thread that owns the state.
        let groups = unsafe { &mut *self.groups.get() };
        std::mem::take(groups).into_iter().for_each(std::mem::forget);
        self.enrolled.set(false);
        self.claimed.set(0);
        self.wanted.set(0);
        // Regions that were open in the parent cannot be joined here: their other members do not exist.
        self.depth.set(0);
        self.membership.set(Membership::OUTSIDE);
    }
}
