//! Dependences by address: what a new task has to wait for among its older siblings.
//!
//! # Rules
//! The accesses to one address form a sequence of *sets*. Readers form a set; so do the members of
//! a mutually exclusive set and those of an in-out set; each writer is a set of its own. An access
//! of the same kind joins the last set, any other one starts a new set. A task depends on all
//! members of the set before its own: those depend on the set before theirs, so older ones need not
//! be remembered.
//!
//! # What touches what
//! A table belongs to the handle of one creator, on its thread: no lock. Tasks are told apart from
//! finished ones by their closed list of successors.

use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::task_mutex::TaskMutex;
use engine::addresses::Addresses;
use std::sync::Arc;

/// How a task uses a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Access {
    /// Reads it (`in`).
    Read,
    /// Writes or changes it (`out`, `inout`).
    Write,
    /// Changes it in any order with its likes, but never at the same time (`mutexinoutset`).
    Exclude,
    /// Changes it in any order with its likes, also at the same time (`inoutset`).
    Share,
}

impl Access {
    /// What two accesses of one task to one value come to.
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Access::Write }
    }
}

/// See the module head.
#[derive(Default)]
pub(crate) struct Table {
    values: Addresses<Value>,
    /// Size of `values` at which those that are not used any more are dropped.
    sweep_at: usize,
}

/// The sets of one address.
struct Value {
    /// Members of the set before the last one that may still be unfinished.
    previous: Vec<Arc<Nano>>,
    last: Vec<Arc<Nano>>,
    kind: Access,
    mutex: Option<Arc<TaskMutex<NanoPtr>>>,
    /// Size of `last` at which finished members are dropped.
    sweep_at: usize,
}

/// The least size at which a sweep is worth it.
const SWEEP: usize = 32;

impl Table {
    /// Makes the new task `nano` wait for its predecessors by `accesses`, which are then empty.
    ///
    /// # Safety
    /// - The caller creates `nano`, and holds its share; `this` is the queue's reference to it.
    pub(crate) unsafe fn register(
        &mut self,
        nano: &Arc<Nano>,
        this: NanoPtr,
        accesses: &mut Vec<(usize, Access)>,
    ) {
        accesses.sort_unstable_by_key(|&(address, _)| address);
        accesses.dedup_by(|(address, later), (kept, kind)| {
            let same = address == kept;
            if same {
                *kind = kind.and(*later);
            }
            same
        });
        let mut mutexes = Vec::new();
        for (address, kind) in accesses.drain(..) {
            let value = self.values.entry(address).or_insert_with(|| Value::new(kind));
            value.join(nano, kind);
            for predecessor in &value.previous {
                // SAFETY: - caller's contract.
                unsafe { nano.follow(this, predecessor) };
            }
            if kind == Access::Exclude {
                mutexes.push(Arc::clone(value.mutex.get_or_insert_default()));
            }
        }
        if !mutexes.is_empty() {
            // SAFETY: - caller's contract; the order is that of addresses.
            unsafe { nano.set_mutexes(mutexes) };
        }
        self.sweep();
    }

    /// Forgets everything: all tasks are finished.
    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }

    fn sweep(&mut self) {
        if self.values.len() >= self.sweep_at.max(SWEEP) {
            self.values.retain(|_, value| value.is_used());
            self.sweep_at = self.values.len() * 2;
        }
    }
}

impl Value {
    fn new(kind: Access) -> Self {
        Self { previous: Vec::new(), last: Vec::new(), kind, mutex: None, sweep_at: SWEEP }
    }

    /// Adds `nano` to the last set, or starts a new one with it.
    fn join(&mut self, nano: &Arc<Nano>, kind: Access) {
        if kind == self.kind && kind != Access::Write {
            self.previous.retain(|member| is_needed(member));
            if self.last.len() >= self.sweep_at {
                self.last.retain(|member| is_needed(member));
                self.sweep_at = (self.last.len() * 2).max(SWEEP);
            }
        } else {
            self.previous.clear();
            std::mem::swap(&mut self.previous, &mut self.last);
            self.kind = kind;
            self.sweep_at = SWEEP;
        }
        self.last.push(Arc::clone(nano));
    }

    fn is_used(&self) -> bool {
        self.last.iter().chain(&self.previous).any(|member| is_needed(member))
    }
}

/// True when a task that depends on `member` has to know it: it is not finished, or failed.
fn is_needed(member: &Nano) -> bool {
    !member.is_finished() || member.is_skipped()
}
