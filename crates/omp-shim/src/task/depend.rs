//! Dependences among the children of one task, by address.
//!
//! The table belongs to the parent and is used only by the thread that runs it. A child's [`Node`] counts the
//! predecessors that are not done and lists the successors that wait for it; both ends may be on different threads.

use super::{Explicit, TaskRef};
use crate::team::Team;
use nanothreads::engine::Addresses;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// How a task uses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// `in`: after the last writer.
    Read,
    /// `out`, `inout`, `mutexinoutset` (which we order): after the last writer and all readers since.
    Write,
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
    readers: Vec<TaskRef>,
}

/// See the module head.
#[derive(Default)]
pub(crate) struct Table(Addresses<Users>);

/// A task's place in the order.
pub(super) struct Node {
    /// Predecessors that are not done, and one until registration is over.
    missing: AtomicU32,
    /// A stack of the tasks that wait for this one; [`DONE`] once it is done.
    successors: AtomicPtr<Edge>,
    /// Somebody may ask whether the task is done: it has dependences or an event.
    watched: bool,
    team: *const Team,
}

/// One waiting task.
struct Edge {
    task: TaskRef,
    next: *mut Edge,
}

/// Marks the end of a node's life; never followed.
const DONE: *mut Edge = ptr::without_provenance_mut(1);

impl Node {
    pub(super) fn new(team: &Team, watched: bool) -> Self {
        Self { missing: AtomicU32::new(1), successors: AtomicPtr::new(ptr::null_mut()), watched, team }
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
        // ORDERING: Acquire - what the task did; pairs with `finish`.
        self.successors.load(Acquire) == DONE
    }

    /// Makes `task` wait for this one; false when it is done already.
    fn add(&self, task: &Explicit) -> bool {
        let edge = Box::into_raw(Box::new(Edge { task: TaskRef::new(task), next: ptr::null_mut() }));
        // ORDERING: Acquire - what the task did, when it is done; pairs with `finish`.
        let mut head = self.successors.load(Acquire);
        while head != DONE {
            // SAFETY: - not published yet.
            unsafe { (*edge).next = head };
            // ORDERING: Release - publishes the edge; pairs with `finish`.
            match self.successors.compare_exchange_weak(head, edge, Release, Acquire) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
        // SAFETY: - not published.
        drop(unsafe { Box::from_raw(edge) });
        false
    }

    /// The task is done: passes on the successors that were waiting for it alone.
    pub(super) fn finish(&self, mut ready: impl FnMut(NonNull<Explicit>)) {
        if !self.watched {
            return;
        }
        // ORDERING: AcqRel - sees the edges of `add`; shows what the task did to `add` and `is_finished`.
        let mut edge = self.successors.swap(DONE, AcqRel);
        while !edge.is_null() {
            // SAFETY: - made by `add`, taken out of the list once.
            let Edge { task, next } = *unsafe { Box::from_raw(edge) };
            if task.get().node.has_one_less() {
                ready(NonNull::from(task.get()));
            }
            edge = next;
        }
    }

    /// Counts one predecessor off; true when none is left.
    fn has_one_less(&self) -> bool {
        // ORDERING: AcqRel - the task that runs next sees what all its predecessors did.
        self.missing.fetch_sub(1, AcqRel) == 1
    }
}

impl Table {
    /// The tasks that a user of `dependence` comes after.
    fn before(&self, dependence: &Dependence) -> impl Iterator<Item = &TaskRef> {
        let users = self.0.get(&dependence.address);
        let readers = match dependence.access {
            Access::Read => &[][..],
            Access::Write => users.map_or(&[][..], |users| &users.readers),
        };
        users.and_then(|users| users.writer.as_ref()).into_iter().chain(readers)
    }

    fn note(&mut self, task: &Explicit, dependence: &Dependence) {
        let users = self.0.entry(dependence.address).or_default();
        match dependence.access {
            Access::Write => {
                users.readers.clear();
                users.writer = Some(TaskRef::new(task));
            }
            Access::Read => {
                if users.readers.len() == users.readers.capacity() {
                    users.readers.retain(|reader| !reader.get().node.is_finished());
                }
                users.readers.push(TaskRef::new(task));
            }
        }
    }
}

/// Registers a child; true when it can run at once.
pub(super) fn register(table: &mut Table, task: &Explicit, dependences: &[Dependence]) -> bool {
    for dependence in dependences {
        for predecessor in table.before(dependence) {
            let predecessor = predecessor.get();
            if std::ptr::eq(predecessor, task) {
                continue;
            }
            // ORDERING: Relaxed - registration's own count keeps it above 0 until the end.
            task.node.missing.fetch_add(1, Relaxed);
            if !predecessor.node.add(task) {
                task.node.missing.fetch_sub(1, Relaxed);
            }
        }
    }
    for dependence in dependences {
        table.note(task, dependence);
    }
    task.node.has_one_less()
}

/// The children that are not done and that a task with `dependences` would come after.
pub(super) fn predecessors(table: &Table, dependences: &[Dependence]) -> Vec<TaskRef> {
    dependences
        .iter()
        .flat_map(|dependence| table.before(dependence))
        .filter(|task| !task.get().node.is_finished())
        .map(|task| TaskRef::new(task.get()))
        .collect()
}
