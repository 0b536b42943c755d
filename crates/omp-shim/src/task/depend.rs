//! Dependences among the children of one task, by address.
//!
//! The table belongs to the parent and is used only by the thread that runs it. A child's [`Node`]
//! counts the predecessors that are not done and lists the successors that wait for it; both ends
//! may be on different threads. What a task is besides is no matter here ([`Ordered`]).

use crate::engine::Addresses;
use platform::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use std::cell::Cell;
use std::ops::Deref;
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

/// A task that stands in the order.
pub(crate) trait Ordered: Sized {
    /// A counted reference to its memory.
    type Reference: Deref<Target = Self>;

    /// Its place.
    fn node(&self) -> &Node<Self>;

    /// A reference to the task, for a caller that has one already.
    fn refer(&self) -> Self::Reference;

    /// A reference to a task that its creator has shown to no thread yet.
    fn refer_to_fresh(&self) -> Self::Reference;
}

/// The tasks that used an address last.
struct Users<T: Ordered> {
    writer: Option<T::Reference>,
    /// In the writer's place.
    set: Option<Box<Set<T>>>,
    readers: Vec<T::Reference>,
}

impl<T: Ordered> Default for Users<T> {
    fn default() -> Self {
        Self { writer: None, set: None, readers: Vec::new() }
    }
}

/// Tasks of one `inoutset`, and the tasks that come before all of them.
struct Set<T: Ordered> {
    before: Vec<T::Reference>,
    members: Vec<T::Reference>,
}

/// See the module head.
pub(crate) struct Table<T: Ordered> {
    users: Addresses<Users<T>>,
    /// With so many addresses those are forgotten that no task uses any more: what is known of an
    /// address keeps the memory of tasks, also of those that are done.
    sweep_at: usize,
}

/// The fewest addresses that are swept: the memory of so many tasks is nothing.
const FEW: usize = 64;

impl<T: Ordered> Default for Table<T> {
    fn default() -> Self {
        Self { users: Addresses::default(), sweep_at: FEW }
    }
}

/// A task's place in the order.
pub(crate) struct Node<T> {
    /// A stack of the tasks that wait for this one; [`Node::DONE`] once it is done.
    successors: AtomicPtr<Edge<T>>,
    /// Predecessors that are not done, and one until registration is over.
    missing: AtomicU32,
    /// Places at `edges` that are free: for its creator alone.
    room: Cell<u32>,
    /// Memory for edges, after the task: one for each of its dependences.
    edges: *mut Edge<T>,
    /// A thread may ask whether the task is done: it has dependences or an event.
    watched: bool,
}

/// One waiting task, in its predecessor's list. It waits at least as long as it stands there, so it
/// is alive.
pub(crate) struct Edge<T> {
    task: NonNull<T>,
    next: *mut Edge<T>,
    /// Not in the waiting task's own memory: it has more predecessors than dependences.
    is_boxed: bool,
}

impl<T: Ordered> Node<T> {
    /// Marks the end of a node's life; never followed.
    const DONE: *mut Edge<T> = ptr::without_provenance_mut(1);

    /// That of a fresh task; `edges` is memory for `room` of them.
    #[inline]
    pub(crate) fn new(watched: bool, edges: *mut Edge<T>, room: usize) -> Self {
        Self {
            successors: AtomicPtr::new(ptr::null_mut()),
            missing: AtomicU32::new(1),
            room: Cell::new(u32::try_from(room).unwrap_or(u32::MAX)),
            edges,
            watched,
        }
    }

    /// True when a thread may ask whether the task is done.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched
    }

    /// True when the task is done.
    pub(crate) fn is_finished(&self) -> bool {
        // ORDERING: Acquire (D1) - what the task did; pairs with D4.
        self.successors.load(Acquire) == Self::DONE
    }

    /// An edge of `task`, which this node is of.
    fn new_edge(&self, task: NonNull<T>, next: *mut Edge<T>) -> *mut Edge<T> {
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
    unsafe fn drop_edge(&self, edge: *mut Edge<T>) {
        // SAFETY: - caller's contract: alive and ours.
        if unsafe { (*edge).is_boxed } {
            // SAFETY: - made with `Box`.
            drop(unsafe { Box::from_raw(edge) });
        } else {
            self.room.set(self.room.get() + 1);
        }
    }

    /// Makes `task` wait for this one; false when it is done already.
    fn add(&self, task: &T) -> bool {
        // ORDERING: Acquire (D2) - what the task did, when it is done; pairs with D4.
        let mut head = self.successors.load(Acquire);
        if head == Self::DONE {
            return false;
        }
        // ORDERING: Relaxed - registration's own count keeps it above 0 until the end; the edge
        // publishes it.
        task.node().missing.fetch_add(1, Relaxed);
        let edge = task.node().new_edge(NonNull::from(task), head);
        loop {
            // ORDERING: Release or Acquire (D3) - publishes the edge, to D4; or as D2.
            match self.successors.compare_exchange_weak(head, edge, Release, Acquire) {
                Ok(_) => return true,
                Err(now) if now == Self::DONE => break,
                Err(now) => head = now,
            }
            // SAFETY: - not published yet.
            unsafe { (*edge).next = head };
        }
        // ORDERING: Relaxed - as above.
        task.node().missing.fetch_sub(1, Relaxed);
        // SAFETY: - not published.
        unsafe { task.node().drop_edge(edge) };
        false
    }

    /// The task is done: passes on the successors that were waiting for it alone.
    #[inline]
    pub(crate) fn finish(&self, mut ready: impl FnMut(NonNull<T>)) {
        if !self.watched {
            return;
        }
        // ORDERING: AcqRel (D4) - sees the edges of D3; shows what the task did to D1, D2 and D3.
        let mut edge = self.successors.swap(Self::DONE, AcqRel);
        while !edge.is_null() {
            // SAFETY: - made by `add`, taken out of the list once; its task waits until the count
            // below.
            let Edge { task, next, is_boxed } = unsafe { edge.read() };
            if is_boxed {
                // SAFETY: - made with `Box`, and no thread uses it any more.
                drop(unsafe { Box::from_raw(edge) });
            }
            // SAFETY: - the task waits, so it is alive; the edge in its memory is not looked at
            // after this.
            if unsafe { task.as_ref() }.node().has_one_less() {
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
fn push<T: Ordered>(list: &mut Vec<T::Reference>, task: &T) {
    if list.len() == list.capacity() {
        list.retain(|other| !other.node().is_finished());
    }
    list.push(task.refer_to_fresh());
}

impl<T: Ordered> Users<T> {
    /// The set that a task with this access joins.
    fn open_set(&self, access: Access) -> Option<&Set<T>> {
        self.set.as_deref().filter(|_| access == Access::Set && self.readers.is_empty())
    }

    /// The tasks that a user with this access comes after.
    fn before(&self, access: Access) -> impl Iterator<Item = &T> {
        let (writer, earlier) = match self.open_set(access) {
            Some(set) => (None, &*set.before),
            None => (self.writer.as_ref(), self.set.as_ref().map_or(&[][..], |set| &set.members)),
        };
        let readers = if access == Access::Read { &[][..] } else { &self.readers };
        writer.into_iter().chain(earlier).chain(readers).map(Deref::deref)
    }

    /// `task`, which no other thread knows yet, is the last user now.
    fn note(&mut self, task: &T, access: Access) {
        match access {
            Access::Write => {
                self.readers.clear();
                self.set = None;
                self.writer = Some(task.refer_to_fresh());
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

    /// A task may still have to wait for one of them.
    fn are_some_left(&self) -> bool {
        let set =
            self.set.as_deref().into_iter().flat_map(|set| set.before.iter().chain(&set.members));
        self.writer.iter().chain(&self.readers).chain(set).any(|task| !task.node().is_finished())
    }
}

impl<T: Ordered> Table<T> {
    /// The children that are not done and that a task with `dependences` comes after.
    fn open<'a>(&'a self, dependences: &'a [Dependence]) -> impl Iterator<Item = &'a T> {
        let users = |dependence: &Dependence| {
            self.users.get(&dependence.address).map(|users| users.before(dependence.access))
        };
        dependences.iter().filter_map(users).flatten().filter(|task| !task.node().is_finished())
    }

    /// Forgets addresses that no task uses any more, when there are twice as many as were left the
    /// last time.
    fn sweep(&mut self) {
        self.users.retain(|_, users| users.are_some_left());
        self.sweep_at = FEW.max(2 * self.users.len());
    }
}

/// Registers a child, which no other thread knows yet; true when it can run at once.
#[inline]
pub(crate) fn register<T: Ordered>(
    table: &mut Table<T>,
    task: &T,
    dependences: &[Dependence],
) -> bool {
    if table.users.len() >= table.sweep_at {
        table.sweep();
    }
    let mut waits = false;
    for dependence in dependences {
        let users = table.users.entry(dependence.address).or_default();
        for predecessor in users.before(dependence.access) {
            // It uses the address twice.
            if !ptr::eq(predecessor, task) {
                waits |= predecessor.node().add(task);
            }
        }
        users.note(task, dependence.access);
    }
    !waits || task.node().has_one_less()
}

/// True when a child with `dependences` could run at once.
pub(crate) fn is_ready<T: Ordered>(table: &Table<T>, dependences: &[Dependence]) -> bool {
    table.open(dependences).next().is_none()
}

/// The children that are not done and that a task with `dependences` would come after.
pub(crate) fn predecessors<T: Ordered>(
    table: &Table<T>,
    dependences: &[Dependence],
) -> Vec<T::Reference> {
    table.open(dependences).map(Ordered::refer).collect()
}
