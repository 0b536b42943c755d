//! Dependences among the children of one task, by address.
//!
//! The table belongs to the parent and is used only by the thread that runs it. A child's [`Node`]
//! counts the predecessors that are not done and lists the successors that wait for it; both ends
//! may be on different threads.

use super::Explicit;
use super::memory::TaskRef;
use crate::engine::Addresses;
use crate::team::Team;
use platform::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// How a task uses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// `in`: after the last writer.
    Read,
    /// `out`, `inout`, `mutexinoutset` (which we order): after the last writer and all readers
    /// since.
    Write,
    /// `inoutset`: after what came before the set. Tasks of a set do not wait for each other.
    Set,
}

/// One item of a `depend` clause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dependence {
    /// The address.
    pub(crate) address: usize,
    /// How it is used.
    pub(crate) access: Access,
}

/// Who used an address last.
#[derive(Default)]
struct Users {
    writer: Option<TaskRef>,
    /// In the writer's place.
    set: Option<Box<Set>>,
    readers: Vec<TaskRef>,
}

/// Tasks of one `inoutset`, and who comes before all of them.
#[derive(Default)]
struct Set {
    before: Vec<TaskRef>,
    members: Vec<TaskRef>,
}

/// See the module head.
pub(crate) struct Table {
    users: Addresses<Users>,
    /// With so many addresses those are forgotten that nobody uses any more: what is known of an
    /// address keeps the memory of tasks, also of those that are done.
    sweep_at: usize,
}

/// The fewest addresses that are swept: the memory of so many tasks is nothing.
const FEW: usize = 64;

impl Default for Table {
    fn default() -> Self {
        Self { users: Addresses::default(), sweep_at: FEW }
    }
}

/// A task's place in the order.
pub(super) struct Node {
    /// A stack of the tasks that wait for this one; [`DONE`] once it is done.
    successors: AtomicPtr<Edge>,
    /// Predecessors that are not done, and one until registration is over.
    missing: AtomicU32,
    /// Places at `edges` that are free: for its creator alone.
    room: Cell<u32>,
    /// Memory for edges, behind the task: one for each of its dependences.
    edges: *mut Edge,
    team: *const Team,
    /// Somebody may ask whether the task is done: it has dependences or an event.
    watched: bool,
}

/// One waiting task, in its predecessor's list. It waits at least as long as it stands there, so it
/// is alive.
pub(super) struct Edge {
    task: NonNull<Explicit>,
    next: *mut Edge,
    /// Not in the waiting task's own memory: it has more predecessors than dependences.
    is_boxed: bool,
}

/// Marks the end of a node's life; never followed.
const DONE: *mut Edge = ptr::without_provenance_mut(1);

impl Node {
    /// A task of `team`; `edges` is memory for `room` of them.
    pub(super) fn new(team: &Team, watched: bool, edges: *mut Edge, room: usize) -> Self {
        Self {
            successors: AtomicPtr::new(ptr::null_mut()),
            missing: AtomicU32::new(1),
            room: Cell::new(u32::try_from(room).unwrap_or(u32::MAX)),
            edges,
            team,
            watched,
        }
    }

    /// The team that the task belongs to.
    pub(super) fn team(&self) -> &Team {
        // SAFETY: - the team's region does not end before its tasks are complete.
        unsafe { &*self.team }
    }

    /// True when somebody may ask whether the task is done.
    pub(super) fn is_watched(&self) -> bool {
        self.watched
    }

    pub(super) fn is_finished(&self) -> bool {
        // ORDERING: Acquire (D1) - what the task did; pairs with D4.
        self.successors.load(Acquire) == DONE
    }

    /// An edge of `task`, which this node is of.
    fn new_edge(&self, task: NonNull<Explicit>, next: *mut Edge) -> *mut Edge {
        let room = self.room.get();
        if room == 0 {
            return Box::into_raw(Box::new(Edge { task, next, is_boxed: true }));
        }
        self.room.set(room - 1);
        // SAFETY: - a place in the task's memory that was free.
        let edge = unsafe { self.edges.add(room as usize - 1) };
        // SAFETY: - as above.
        unsafe { edge.write(Edge { task, next, is_boxed: false }) };
        edge
    }

    /// Frees an edge that `new_edge` made last.
    ///
    /// # Safety
    /// - It stands in no list.
    unsafe fn drop_edge(&self, edge: *mut Edge) {
        // SAFETY: - caller's contract: alive and ours.
        if unsafe { (*edge).is_boxed } {
            // SAFETY: - made with `Box`.
            drop(unsafe { Box::from_raw(edge) });
        } else {
            self.room.set(self.room.get() + 1);
        }
    }

    /// Makes `task` wait for this one; false when it is done already.
    fn add(&self, task: &Explicit) -> bool {
        // ORDERING: Acquire (D2) - what the task did, when it is done; pairs with D4.
        let mut head = self.successors.load(Acquire);
        if head == DONE {
            return false;
        }
        // ORDERING: Relaxed - registration's own count keeps it above 0 until the end; the edge
        // publishes it.
        task.node.missing.fetch_add(1, Relaxed);
        let edge = task.node.new_edge(NonNull::from(task), head);
        loop {
            // ORDERING: Release or Acquire (D3) - publishes the edge, to D4; or as D2.
            match self.successors.compare_exchange_weak(head, edge, Release, Acquire) {
                Ok(_) => return true,
                Err(DONE) => break,
                Err(now) => head = now,
            }
            // SAFETY: - not published yet.
            unsafe { (*edge).next = head };
        }
        // ORDERING: Relaxed - as above.
        task.node.missing.fetch_sub(1, Relaxed);
        // SAFETY: - not published.
        unsafe { task.node.drop_edge(edge) };
        false
    }

    /// The task is done: passes on the successors that were waiting for it alone.
    pub(super) fn finish(&self, mut ready: impl FnMut(NonNull<Explicit>)) {
        if !self.watched {
            return;
        }
        // ORDERING: AcqRel (D4) - sees the edges of D3; shows what the task did to D1, D2 and D3.
        let mut edge = self.successors.swap(DONE, AcqRel);
        while !edge.is_null() {
            // SAFETY: - made by `add`, taken out of the list once; its task waits until the count
            // below.
            let Edge { task, next, is_boxed } = unsafe { edge.read() };
            if is_boxed {
                // SAFETY: - made with `Box`, and nobody's any more.
                drop(unsafe { Box::from_raw(edge) });
            }
            // SAFETY: - the task waits, so it is alive; the edge in its memory is not looked at
            // after this.
            if unsafe { task.as_ref() }.node.has_one_less() {
                ready(task);
            }
            edge = next;
        }
    }

    /// Counts one predecessor off; true when none is left.
    fn has_one_less(&self) -> bool {
        // ORDERING: AcqRel (D5) - the task that runs next sees what all its predecessors did.
        self.missing.fetch_sub(1, AcqRel) == 1
    }
}

/// Adds a task to a list that forgets those that are done before it grows.
fn push(list: &mut Vec<TaskRef>, task: &Explicit) {
    if list.len() == list.capacity() {
        list.retain(|other| !other.get().node.is_finished());
    }
    list.push(TaskRef::to_fresh(task));
}

impl Users {
    /// The set that a task with this access joins.
    fn open_set(&self, access: Access) -> Option<&Set> {
        self.set.as_deref().filter(|_| access == Access::Set && self.readers.is_empty())
    }

    /// The tasks that a user with this access comes after.
    fn before(&self, access: Access) -> impl Iterator<Item = &Explicit> {
        let (writer, earlier) = match self.open_set(access) {
            Some(set) => (None, &*set.before),
            None => (self.writer.as_ref(), self.set.as_ref().map_or(&[][..], |set| &set.members)),
        };
        let readers = if access == Access::Read { &[][..] } else { &self.readers };
        writer.into_iter().chain(earlier).chain(readers).map(TaskRef::get)
    }

    /// `task`, which nobody has heard of yet, is the last user now.
    fn note(&mut self, task: &Explicit, access: Access) {
        match access {
            Access::Write => {
                self.readers.clear();
                self.set = None;
                self.writer = Some(TaskRef::to_fresh(task));
            }
            Access::Read => push(&mut self.readers, task),
            Access::Set => {
                if self.open_set(access).is_none() {
                    let mut before = std::mem::take(&mut self.readers);
                    before.extend(self.writer.take());
                    before.extend(self.set.take().map(|set| set.members).unwrap_or_default());
                    self.set = Some(Box::new(Set { before, members: Vec::new() }));
                }
                let members = self.set.as_mut().map(|set| &mut set.members);
                members.into_iter().for_each(|members| push(members, task));
            }
        }
    }

    /// Somebody may still have to wait for one of them.
    fn are_some_left(&self) -> bool {
        let set =
            self.set.as_deref().into_iter().flat_map(|set| set.before.iter().chain(&set.members));
        self.writer
            .iter()
            .chain(&self.readers)
            .chain(set)
            .any(|task| !task.get().node.is_finished())
    }
}

impl Table {
    /// The children that are not done and that a task with `dependences` comes after.
    fn open<'a>(&'a self, dependences: &'a [Dependence]) -> impl Iterator<Item = &'a Explicit> {
        let users = |dependence: &Dependence| {
            self.users.get(&dependence.address).map(|users| users.before(dependence.access))
        };
        dependences.iter().filter_map(users).flatten().filter(|task| !task.node.is_finished())
    }

    /// Forgets addresses that nobody uses any more, when there are twice as many as were left the
    /// last time.
    fn sweep(&mut self) {
        self.users.retain(|_, users| users.are_some_left());
        self.sweep_at = FEW.max(2 * self.users.len());
    }
}

/// Registers a child, which nobody has heard of yet; true when it can run at once.
pub(super) fn register(table: &mut Table, task: &Explicit, dependences: &[Dependence]) -> bool {
    if table.users.len() >= table.sweep_at {
        table.sweep();
    }
    let mut waits = false;
    for dependence in dependences {
        let users = table.users.entry(dependence.address).or_default();
        for predecessor in users.before(dependence.access) {
            // It uses the address twice.
            if !ptr::eq(predecessor, task) {
                waits |= predecessor.node.add(task);
            }
        }
        users.note(task, dependence.access);
    }
    !waits || task.node.has_one_less()
}

/// True when a child with `dependences` could run at once.
pub(super) fn is_ready(table: &Table, dependences: &[Dependence]) -> bool {
    table.open(dependences).next().is_none()
}

/// The children that are not done and that a task with `dependences` would come after.
pub(super) fn predecessors(table: &Table, dependences: &[Dependence]) -> Vec<TaskRef> {
    table.open(dependences).map(TaskRef::new).collect()
}
