//! The ready queue of one member: a private part of started nano-threads, which stay here, and a
//! public part of unstarted ones, from which others steal the oldest.
//!
//! # What touches what
//! Everything by the member's own thread, through [`Local`]; the public part also by thieves,
//! through [`Local::stealer`].

use crate::tasks::descriptor::NanoPtr;
use crossbeam_deque::{Steal, Stealer, Worker};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Turns after which a nano-thread that yielded goes before fresh work, so that fresh work cannot
/// starve it.
const FAIRNESS: u32 = 61;

/// See the module head.
pub(crate) struct Local {
    /// Started ones that may go on.
    resumed: RefCell<VecDeque<NanoPtr>>,
    /// Started ones that let others go first.
    yielded: RefCell<VecDeque<NanoPtr>>,
    unstarted: Worker<NanoPtr>,
    /// How many started ones are here.
    started: Cell<usize>,
    turns: Cell<u32>,
}

impl Local {
    pub(crate) fn new() -> Self {
        Self {
            resumed: RefCell::default(),
            yielded: RefCell::default(),
            unstarted: Worker::new_lifo(),
            started: Cell::new(0),
            turns: Cell::new(0),
        }
    }

    /// The thieves' end of the public part.
    pub(crate) fn stealer(&self) -> Stealer<NanoPtr> {
        self.unstarted.stealer()
    }

    /// Adds an unstarted one.
    pub(crate) fn push(&self, nano: NanoPtr) {
        self.unstarted.push(nano);
    }

    /// Adds a started one that may go on.
    pub(crate) fn push_resumed(&self, nano: NanoPtr) {
        self.started.set(self.started.get() + 1);
        self.resumed.borrow_mut().push_back(nano);
    }

    /// Adds a started one that lets others go first.
    pub(crate) fn push_yielded(&self, nano: NanoPtr) {
        self.started.set(self.started.get() + 1);
        self.yielded.borrow_mut().push_back(nano);
    }

    /// A started one whose turn has come. Cost when there is none: two loads.
    #[inline]
    pub(crate) fn pop_due(&self) -> Option<NanoPtr> {
        if self.started.get() == 0 { None } else { self.pop_started() }
    }

    fn pop_started(&self) -> Option<NanoPtr> {
        let turns = self.turns.get().wrapping_add(1);
        self.turns.set(turns);
        if turns.is_multiple_of(FAIRNESS)
            && let Some(nano) = self.pop_yielded()
        {
            return Some(nano);
        }
        let nano = self.resumed.borrow_mut().pop_front()?;
        self.started.set(self.started.get() - 1);
        Some(nano)
    }

    /// The newest unstarted one.
    pub(crate) fn pop(&self) -> Option<NanoPtr> {
        self.unstarted.pop()
    }

    /// The one that yielded first.
    pub(crate) fn pop_yielded(&self) -> Option<NanoPtr> {
        if self.started.get() == 0 {
            return None;
        }
        let nano = self.yielded.borrow_mut().pop_front()?;
        self.started.set(self.started.get() - 1);
        Some(nano)
    }
}

/// Makes what all queues of the process share. For the master, before other threads steal: in a
/// child that was forked while one of them made it, a thief would wait for that thread, which does
/// not exist there, for ever.
pub(crate) fn prepare() {
    let _ = steal(&Local::new().stealer());
}

/// Takes the oldest unstarted one of another member; tries again as long as another thread
/// interferes.
pub(crate) fn steal(victim: &Stealer<NanoPtr>) -> Option<NanoPtr> {
    loop {
        match victim.steal() {
            Steal::Success(nano) => return Some(nano),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}
