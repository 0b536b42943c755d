//! The descriptor of a nano-thread: its counter and successors, its closure, and, once it runs,
//! where.
//!
//! # Life
//! Created (the closure stands beside the descriptor; the memory of a small plain task comes from
//! its creator's free lists, [`pool`](super::pool)) -> ready, when its inputs are there and its
//! mutexes passed -> running, on a [fiber](super::fiber) of the member that took it, its *home* ->
//! suspended, with the fiber, and resumed there any number of times -> ended -> finished, when its
//! children are, too: successors and parent are told, the queue's reference is dropped. Only what
//! has not started is ever in a queue that others steal from.
//!
//! # What touches what
//! | fields | by |
//! |---|---|
//! | `node` | any thread: see its type |
//! | the closure | the creator until it is ready, then its home's thread |
//! | the [`description`](super::description) | see there |
//!
//! # Memory
//! A plain task that waits in a queue takes at most 64 bytes beside its closure, which is rounded
//! up to 16 while it has at most 48 (sizes of places, [`pool`](super::pool)). Some 74 when the
//! queue has just grown.
//! | bytes | what |
//! |---|---|
//! | 40 | `node` |
//! | 8 | what to do with the closure ([`Calls`]) |
//! | 8 | the queue's pointer (16 when the queue has just grown, and 8 more until its old array, which thieves may still read, is freed) |
//! | 1 / 4 | the list of slabs (1 / 2 when that has just grown) |
//!
//! A described task takes more: its description, and a count of references.
//!
//! # Invariants
//! I1  A started nano-thread is resumed and ended on its home's thread: its stack may hold what is
//!     not `Send`.

use crate::tasks::body::{Beside, Body, Calls};
use crate::tasks::description::{Description, ScopeId, Traits};
use crate::tasks::fiber::Fiber;
use crate::tasks::inherited::Inherited;
use crate::tasks::node::{Node, Pause, Phase};
use crate::tasks::overflow::Label;
use crate::tasks::pool::{CLASSES, FreeLists, Store};
use crate::tasks::successors::Link;
use crate::tasks::task_mutex::TaskMutex;
use engine::panics::Payload;
use std::alloc::{alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// See the module head. `node` comes first: `of_node`. A plain one has its closure beside it.
#[repr(C)]
pub(crate) struct Nano {
    pub(crate) node: Node,
    /// What to do with a plain one's closure. `None`: it is described, and its closure is there.
    calls: Option<&'static Calls<Nano>>,
}

/// [`Node::memory`] of what has an allocation of its own; smaller: the class of its place.
const SINGLE: u8 = CLASSES as u8;
/// That of what is in an `Arc`.
const COUNTED: u8 = SINGLE + 1;

// SAFETY: - the table in the module head says which thread touches which cell, and what hands it
//           over. The closure is `Send`; what is on the stack of a started nano-thread stays on its
//           home's thread (I1), since only unstarted ones are ever put where another thread takes
//           them.
unsafe impl Send for Nano {}
// SAFETY: - as above.
unsafe impl Sync for Nano {}

/// A nano-thread on its way: the reference that queues, stacks and successor lists hold until it is
/// finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NanoPtr(NonNull<Nano>);

// SAFETY: - `Nano` is `Send` and `Sync`.
unsafe impl Send for NanoPtr {}

impl NanoPtr {
    /// The queue's reference to a nano-thread that was created just now.
    pub(crate) fn new(nano: Arc<Nano>) -> Self {
        Self(NonNull::new(Arc::into_raw(nano).cast_mut()).expect("an Arc is never null"))
    }

    /// Its own node, for children.
    pub(crate) fn node(self) -> *const Node {
        Nano::assert_layout();
        self.0.as_ptr().cast_const().cast()
    }

    /// The nano-thread itself.
    ///
    /// # Safety
    /// - It is not finished, and the caller moves it on, or holds one of its shares.
    pub(crate) unsafe fn get<'a>(self) -> &'a Nano {
        // SAFETY: - caller's contract: the queue's reference is still there.
        unsafe { self.0.as_ref() }
    }

    /// Gives the queue's reference up. `free_lists` are those of the calling thread, if it is a
    /// member.
    ///
    /// # Safety
    /// - The nano-thread is finished, and this is called once. `store` is its scheduler's.
    #[inline]
    pub(crate) unsafe fn release(self, free_lists: Option<&FreeLists>, store: &Store<Nano>) {
        let nano = self.0.as_ptr();
        // SAFETY: - caller's contract: the reference is still there.
        let memory = unsafe { (*nano).node.memory() };
        // Nothing is left in a finished plain task that would have to be dropped: its closure was
        // taken, and so was a panic.
        if memory < SINGLE {
            // SAFETY: - it was taken from the store as one of this class (`plain`), and is gone.
            unsafe { store.give(memory.into(), nano, free_lists) };
        } else {
            // SAFETY: - caller's contract.
            unsafe { self.release_unpooled(memory) };
        }
    }

    /// As `release`, for what is no free list's.
    ///
    /// # Safety
    /// - As `release`; `memory` is the node's.
    #[cold]
    #[inline(never)]
    unsafe fn release_unpooled(self, memory: u8) {
        let nano = self.0.as_ptr();
        if memory == COUNTED {
            // SAFETY: - `new` leaked one reference; the caller gives it up.
            drop(unsafe { Arc::from_raw(nano.cast_const()) });
            return;
        }
        // SAFETY: - caller's contract.
        let calls = unsafe { (*nano).calls }.expect("a plain task has its closure beside it");
        // SAFETY: - `single` allocated that much, that far before it.
        unsafe { dealloc(nano.cast::<u8>().sub(calls.before), calls.layout) };
    }

    /// A plain task below `up`, with one share that the creator holds; in a place of `free_lists`
    /// while its closure is small.
    ///
    /// # Safety
    /// - The closure is called or dropped before anything that it borrows ends.
    #[inline]
    pub(crate) unsafe fn plain<F: FnOnce(*const ()) + Send>(
        (free_lists, store): (&FreeLists, &Store<Nano>),
        up: *const Node,
        creator: u32,
        number: u64,
        closure: F,
    ) -> Self {
        let Some(class) = (const { Beside::<Nano, F>::CLASS }) else {
            // SAFETY: - caller's contract.
            return unsafe { Self::single(up, creator, number, closure) };
        };
        let place = store.take(class, free_lists);
        // SAFETY: - a fresh place for a descriptor and a closure of this class; caller's contract.
        unsafe { Self::write(place, Node::new(up, creator, number, class as u8), closure) }
    }

    /// The same, in an allocation of its own: by any thread.
    ///
    /// # Safety
    /// - As `plain`.
    pub(crate) unsafe fn single<F: FnOnce(*const ()) + Send>(
        up: *const Node,
        creator: u32,
        number: u64,
        closure: F,
    ) -> Self {
        let &Calls { before, layout, .. } = Beside::<Nano, F>::CALLS;
        // SAFETY: - a descriptor has a size.
        let memory = unsafe { alloc(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: - the layout has room for a descriptor there.
        let place = unsafe { memory.add(before) }.cast();
        // SAFETY: - as above, and for the closure beside it; caller's contract.
        unsafe { Self::write(place, Node::new(up, creator, number, SINGLE), closure) }
    }

    /// # Safety
    /// - `place` has room for a descriptor, and beside it for the closure; the rest as `plain`.
    #[inline(always)]
    unsafe fn write<F: FnOnce(*const ()) + Send>(place: *mut Nano, node: Node, closure: F) -> Self {
        let calls = Some(Beside::<Nano, F>::CALLS);
        // SAFETY: - caller's contract.
        unsafe { place.write(Nano { node, calls }) };
        // SAFETY: - as above.
        unsafe { Beside::<Nano, F>::closure(place).write(closure) };
        // SAFETY: - a place has an address.
        Self(unsafe { NonNull::new_unchecked(place) })
    }

    /// Calls its closure, in place, with a pointer to its handle.
    ///
    /// # Safety
    /// - By its home, once, and instead of `discard_body`; the closure was made for `handle`.
    #[inline]
    pub(crate) unsafe fn call_body(self, handle: *const ()) {
        let nano = self.0.as_ptr();
        // The closure is reached from the pointer: a reference leads to the descriptor only, not to
        // what is beside it.
        // SAFETY: - caller's contract: it runs, and its memory does not go before it has ended.
        match unsafe { (*nano).calls } {
            // SAFETY: - caller's contract: no other thread touches the closure of a started
            //           nano-thread, which is there.
            Some(calls) => unsafe { (calls.call)(nano, handle) },
            // SAFETY: - as above.
            None => unsafe { (*nano).described().call_body(handle) },
        }
    }

    /// Drops its closure: it is not going to run.
    ///
    /// # Safety
    /// - By its home, once, in the place of `call_body`.
    pub(crate) unsafe fn discard_body(self) {
        let nano = self.0.as_ptr();
        // SAFETY: - as in `call_body`.
        match unsafe { (*nano).calls } {
            // SAFETY: - as in `call_body`.
            Some(calls) => unsafe { (calls.discard)(nano) },
            // SAFETY: - as in `call_body`.
            None => unsafe { (*nano).described().discard_body() },
        }
    }
}

impl Nano {
    /// A described nano-thread below `up`, with one share that the creator holds: it says of which
    /// scope it is.
    pub(crate) fn new(
        up: *const Node,
        body: Body,
        (traits, scope): (Traits, ScopeId),
        creator: u32,
        number: u64,
    ) -> Arc<Self> {
        let description = Box::new(Description::<NanoPtr>::new(body, traits, scope));
        let node = Node::new(up, creator, number, COUNTED);
        // SAFETY: - it begins with that word, and goes with the descriptor (`drop`).
        let node = unsafe { node.described(Box::into_raw(description).cast()) };
        Arc::new(Self { node, calls: None })
    }

    /// What plain tasks do not have.
    #[inline]
    fn description(&self) -> Option<&Description<NanoPtr>> {
        // SAFETY: - descriptions of descriptors are made by `new`, and go with them.
        self.node.description().map(|described| unsafe { &*described.cast_const().cast() })
    }

    /// The description of a task that has no closure beside it.
    fn described(&self) -> &Description<NanoPtr> {
        self.description().expect("a task that is not plain has a description")
    }

    /// The nano-thread whose own node `node` is, as [`NanoPtr::node`] gave it.
    ///
    /// # Safety
    /// - `node` is the field of a live `Nano`: its phase is `New` or `Ended`.
    pub(crate) unsafe fn of_node(node: *const Node) -> NanoPtr {
        Self::assert_layout();
        NanoPtr(NonNull::new(node.cast_mut().cast()).expect("a live node has an address"))
    }

    const fn assert_layout() {
        const { assert!(std::mem::offset_of!(Nano, node) == 0) }
    }

    pub(crate) fn priority(&self) -> i32 {
        self.description().map_or(0, |described| described.priority)
    }

    /// Whether it is of that scope. For tasks that can be named.
    pub(crate) fn is_of(&self, scope: ScopeId) -> bool {
        self.description().is_some_and(|described| described.scope == scope)
    }

    /// True when it has no dependences and nothing can name it.
    pub(crate) fn is_plain(&self) -> bool {
        self.node.description().is_none()
    }

    /// True when its body and all its children are done. For tasks that can be named.
    pub(crate) fn is_finished(&self) -> bool {
        self.description().is_some_and(|described| described.successors.is_closed())
    }

    /// Makes `self` wait for `predecessor`, unless that is finished.
    ///
    /// # Safety
    /// - The caller creates `self`, and holds its share. `this` is the queue's reference to `self`.
    pub(crate) unsafe fn follow(&self, this: NanoPtr, predecessor: &Nano) {
        let Some(before) = predecessor.description() else { return };
        if predecessor.is_finished() {
            if predecessor.is_skipped() {
                self.skip();
            }
            return;
        }
        // Counted before it is pushed: the predecessor may finish in between.
        self.node.inputs.add(1);
        let link = self
            .description()
            // SAFETY: - caller's contract.
            .and_then(|described| unsafe { described.inline_link(this) })
            .unwrap_or_else(|| Link::boxed(this));
        // SAFETY: - the link is fresh; an inline one stays in place until all predecessors have
        // released `self`.
        if !unsafe { before.successors.push(link) } {
            // SAFETY: - it was not pushed.
            unsafe { Link::discard(link) };
            let last = self.node.inputs.release(1);
            debug_assert!(!last, "the creator holds a share");
            if predecessor.is_skipped() {
                self.skip();
            }
        }
    }

    /// Sets what has to be passed before the start, in the order of addresses.
    ///
    /// # Safety
    /// - The caller creates `self`.
    pub(crate) unsafe fn set_mutexes(&self, mutexes: Vec<Arc<TaskMutex<NanoPtr>>>) {
        let described =
            self.description().expect("a task with dependences was described in detail");
        // SAFETY: - caller's contract.
        unsafe { described.set_mutexes(mutexes) };
    }

    /// What has to be passed before the start.
    ///
    /// # Safety
    /// - The caller moves it on.
    #[inline]
    pub(crate) unsafe fn mutexes(&self) -> &[Arc<TaskMutex<NanoPtr>>] {
        match self.description() {
            // SAFETY: - caller's contract.
            Some(described) => unsafe { described.mutexes() },
            None => &[],
        }
    }

    /// How many mutexes are passed.
    pub(crate) fn claimed(&self) -> usize {
        self.description().map_or(0, |described| described.claimed.get())
    }

    /// One more mutex is passed. By the thread that moves it on.
    pub(crate) fn note_claim(&self) {
        if let Some(described) = self.description() {
            described.claimed.set(described.claimed.get() + 1);
        }
    }

    /// Not to be started: what it depends on failed. So its own successors are not started either.
    pub(crate) fn skip(&self) {
        if let Some(described) = self.description() {
            described.skip();
        }
    }

    /// Closes the list of its successors and calls `take` with each, oldest first. Once.
    pub(crate) fn close_successors(&self, take: impl FnMut(NanoPtr)) {
        if let Some(described) = self.description() {
            described.successors.close(take);
        }
    }

    pub(crate) fn is_skipped(&self) -> bool {
        self.description().is_some_and(Description::is_skipped)
    }

    pub(crate) fn is_started(&self) -> bool {
        self.node.phase() != Phase::New
    }

    /// Bytes of stack that it asked for; 0: the default.
    pub(crate) fn stack_size(&self) -> usize {
        self.description().map_or(0, |described| described.stack_size)
    }

    /// What its own tasks have that say nothing themselves.
    #[inline]
    pub(crate) fn inherited(&self) -> Inherited {
        self.description().map_or(Inherited::NONE, |described| described.inherited)
    }

    /// Which one it is, for the report of an overflow. By its home, before it starts.
    pub(crate) fn label(&self) -> Label {
        let name = self
            .description()
            .and_then(|described| described.name.as_deref())
            .map(|name| ptr::from_ref(name.as_bytes()));
        let (creator, number) = self.node.origin();
        Label { name, creator, number }
    }

    /// It may go on whenever its wait is over. Else only when all that were started after it on its
    /// thread have ended, but for those that are suspendable themselves.
    pub(crate) fn is_suspendable(&self) -> bool {
        self.description().is_some_and(|described| described.is_suspendable)
    }

    /// Why it does not run. By its home.
    pub(crate) fn pause(&self) -> Pause {
        self.node.pause.get()
    }

    /// Says so. By its home.
    pub(crate) fn set_pause(&self, pause: Pause) {
        self.node.pause.set(pause);
    }

    /// The fiber on whose stack it is. By its home.
    ///
    /// # Safety
    /// - It is suspended.
    pub(crate) unsafe fn fiber(&self) -> *const Fiber {
        // SAFETY: - caller's contract: the wait is on its stack.
        let wait = unsafe { &*self.node.wait() };
        wait.waiter().expect("what is suspended was switched away from").fiber
    }

    /// Keeps the payload of its own panic for its parent.
    pub(crate) fn fail(&self, payload: Payload) {
        self.node.keep_panic(payload);
    }
}

impl Drop for Nano {
    /// Only what is counted is dropped.
    fn drop(&mut self) {
        if let Some(described) = self.node.description() {
            // SAFETY: - made by `new`, and no reference to the descriptor is left.
            drop(unsafe { Box::from_raw(described.cast::<Description<NanoPtr>>()) });
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The rest of the bound is counted: `tests/task_memory.rs`.
    #[test]
    fn a_descriptor_and_two_words_of_the_queue_take_64_bytes() {
        assert_eq!(size_of::<Nano>() + 2 * size_of::<NanoPtr>(), 64);
    }
}
