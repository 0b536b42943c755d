//! The ready queue of one member: a private part of started nano-threads, which stay here, and a
//! public part of unstarted ones, from which others steal the oldest.
//!
//! # Nesting
//! Safe code may count on the calls of one thread to end in the reverse order of their beginning:
//! a thread-local that is set for the time of a call, as the crate `scoped_tls` does. So started
//! nano-threads of one member are a stack, *nested*: only the one that started last goes on. What
//! waits on a stack that cannot be left (the body of a scope, a call inside a region of its own)
//! is a *floor*: those below it do not go on before it does, and it does not go on before those
//! above have ended. Nano-threads whose creator has promised to hold no such thing while they wait
//! ([`Task::suspendable`](crate::Task::suspendable)) are in no order.
//!
//! # What touches what
//! Everything by the member's own thread, through [`LocalQueue`]; the public part also by thieves,
//! through [`LocalQueue::stealer`].

use crate::tasks::descriptor::NanoPtr;
use crate::tasks::node::Pause;
use crossbeam_deque::{Steal, Stealer, Worker};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// Turns after which a nano-thread that yielded goes before fresh work, so that fresh work cannot
/// starve it.
const FAIRNESS: u32 = 61;

/// See the module head.
pub(crate) struct LocalQueue {
    /// Started ones that wait, let others go first, or may go on when they are the last.
    nested: RefCell<Vec<NanoPtr>>,
    /// How many of them are below the innermost wait on a stack that cannot be left.
    floor: Cell<usize>,
    /// Suspendable ones that may go on.
    resumed: RefCell<VecDeque<NanoPtr>>,
    /// Suspendable ones that let others go first.
    yielded: RefCell<VecDeque<NanoPtr>>,
    unstarted: Worker<NanoPtr>,
    /// How many started ones are here.
    started: Cell<usize>,
    /// How many suspendable ones wait, beside those.
    away: Cell<usize>,
    /// The last one that went on was nested.
    was_nested: Cell<bool>,
    turns: Cell<u32>,
}

impl LocalQueue {
    pub(crate) fn new() -> Self {
        Self {
            nested: RefCell::default(),
            floor: Cell::new(0),
            resumed: RefCell::default(),
            yielded: RefCell::default(),
            unstarted: Worker::new_lifo(),
            started: Cell::new(0),
            away: Cell::new(0),
            was_nested: Cell::new(false),
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

    /// A started one was switched away from: it waits, or it lets others go first.
    ///
    /// # Safety
    /// - It belongs to the calling thread, its home.
    pub(crate) unsafe fn push_paused(&self, nano: NanoPtr, yields: bool) {
        // SAFETY: - caller's contract.
        let this = unsafe { nano.get() };
        this.set_pause(if yields { Pause::Yields } else { Pause::Waits });
        let is_queued = match (this.is_suspendable(), yields) {
            (false, _) => {
                self.nested.borrow_mut().push(nano);
                true
            }
            (true, true) => {
                self.yielded.borrow_mut().push_back(nano);
                true
            }
            (true, false) => {
                self.away.set(self.away.get() + 1);
                false
            }
        };
        self.started.set(self.started.get() + usize::from(is_queued));
    }

    /// The wait of a started one is over.
    ///
    /// # Safety
    /// - As `push_paused`.
    pub(crate) unsafe fn resume(&self, nano: NanoPtr) {
        // SAFETY: - caller's contract.
        let this = unsafe { nano.get() };
        if this.is_suspendable() {
            self.away.set(self.away.get() - 1);
            self.started.set(self.started.get() + 1);
            self.resumed.borrow_mut().push_back(nano);
        } else {
            this.set_pause(Pause::Due);
        }
    }

    /// A wait begins on a stack that cannot be left. Returns what `end_wait` is given.
    pub(crate) fn begin_wait(&self) -> usize {
        self.floor.replace(self.nested.borrow().len())
    }

    /// Whether all that were started since that wait began have ended, but for suspendable ones.
    pub(crate) fn is_level(&self) -> bool {
        self.nested.borrow().len() == self.floor.get()
    }

    /// Whether nothing that was started here has yet to go on here.
    pub(crate) fn is_vacant(&self) -> bool {
        self.started.get() == 0 && self.away.get() == 0
    }

    /// The wait is over; in the reverse order of their beginning.
    pub(crate) fn end_wait(&self, floor: usize) {
        debug_assert!(self.is_level(), "what started during a wait ends in it");
        self.floor.set(floor);
    }

    /// The last one that is nested, if it is `pause`, and above the floor.
    fn pop_nested(&self, pause: Pause) -> Option<NanoPtr> {
        let mut nested = self.nested.borrow_mut();
        if nested.len() == self.floor.get() {
            return None;
        }
        let last = *nested.last()?;
        // SAFETY: - it is suspended here, on its home's thread.
        if unsafe { last.get() }.pause() != pause {
            return None;
        }
        nested.pop();
        self.started.set(self.started.get() - 1);
        Some(last)
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
        self.pop_in_turns(Pause::Due, &self.resumed)
    }

    /// The last nested one, if it is `pause`, or the first of `free`. Where there are both they
    /// take turns: neither may starve the other.
    fn pop_in_turns(&self, pause: Pause, free: &RefCell<VecDeque<NanoPtr>>) -> Option<NanoPtr> {
        let is_nested_first = !self.was_nested.get();
        let nested = || self.pop_nested(pause).inspect(|_| self.was_nested.set(true));
        let free = || {
            let nano = free.borrow_mut().pop_front()?;
            self.started.set(self.started.get() - 1);
            self.was_nested.set(false);
            Some(nano)
        };
        if is_nested_first { nested().or_else(free) } else { free().or_else(nested) }
    }

    /// The newest unstarted one.
    pub(crate) fn pop(&self) -> Option<NanoPtr> {
        self.unstarted.pop()
    }

    /// One that yielded: the last nested one, or the first of those that are suspendable.
    pub(crate) fn pop_yielded(&self) -> Option<NanoPtr> {
        if self.started.get() == 0 {
            return None;
        }
        self.pop_in_turns(Pause::Yields, &self.yielded)
    }
}

/// Makes what all queues of the process share. For the master, before other threads steal: in a
/// child that was forked while one of them made it, a thief would wait for that thread, which does
/// not exist there, for ever.
pub(crate) fn prepare() {
    let _ = steal(&LocalQueue::new().stealer());
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
