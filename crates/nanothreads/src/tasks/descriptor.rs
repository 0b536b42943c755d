//! The descriptor of a nano-thread: its counter and successors, its closure, and, once it runs,
//! where.
//!
//! # Life
//! Created (the closure stands in the descriptor; a plain task's memory comes from its creator's
//! free list, [`pool`](super::pool)) -> ready, when its inputs are there and its mutexes passed ->
//! running, on a [fiber](super::fiber) of the member that took it, its *home* -> suspended,
//! with the fiber, and resumed there any number of times -> ended -> finished, when its children
//! are, too: successors and parent are told, the queue's reference is dropped. Only what has not
//! started is ever in a queue that others steal from.
//!
//! # What touches what
//! | fields | by |
//! |---|---|
//! | `node`, `successors`, `skip` | any thread: see their types |
//! | `links`, `mutexes` before it is ready | the creator |
//! | `mutexes`, `claimed` | the thread that moves it on, one at a time: the last share, or the lock of the mutex, hands it over |
//! | `body` | the creator until it is ready, then its home's thread |
//! | `name`, `priority`, `scope`, .. | not written after the creation |
//!
//! # Memory
//! A plain task that waits in a queue takes 112 bytes, whatever it captures: 48 of room for that,
//! and 64 beside it.
//! | bytes | what |
//! |---|---|
//! | 40 | `node` |
//! | 8 | `rare` |
//! | 8 | what to do with the closure ([`Body`]) |
//! | 8 | the queue's pointer (16 right after the queue grew) |
//!
//! A smaller closure pays for the whole room, a larger one for a box as well: places have one size.
//!
//! # Invariants
//! I1  A started nano-thread is resumed and ended on its home's thread: its stack may hold what is
//!     not `Send`.

use crate::tasks::body::Body;
use crate::tasks::fiber::Fiber;
use crate::tasks::inherited::{Inherited, Settings};
use crate::tasks::node::{Node, Pause, Phase};
use crate::tasks::overflow::Label;
use crate::tasks::pool::{FreeList, Store};
use crate::tasks::successors::{Link, Successors};
use crate::tasks::task_mutex::TaskMutex;
use engine::panics::Payload;
use platform::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::borrow::Cow;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// Dependences whose links need no box.
const INLINE_LINKS: usize = 4;

/// What a creator may say about a nano-thread.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    pub(crate) priority: i32,
    /// Bytes; 0 = the default.
    pub(crate) stack_size: usize,
    pub(crate) name: Option<Cow<'static, str>>,
    /// It may go on while others that were started after it on its thread wait.
    pub(crate) is_suspendable: bool,
    /// What its own tasks have.
    pub(crate) inherited: Inherited,
}

impl Traits {
    /// Those of a task that says nothing itself.
    ///
    /// # Safety
    /// - As [`Inherited::get`].
    pub(crate) unsafe fn of(inherited: Inherited) -> Self {
        // SAFETY: - caller's contract.
        let Some(settings) = (unsafe { inherited.get() }) else { return Self::default() };
        let Settings { stack_size, name, priority } = settings.clone();
        Self { priority, stack_size, name, is_suspendable: false, inherited }
    }
}

/// See the module head. `node` comes first: `of_node`.
#[repr(C)]
pub(crate) struct Nano {
    pub(crate) node: Node,
    /// What plain tasks do not have.
    rare: Option<Box<Rare>>,
    body: UnsafeCell<Body>,
}

/// Which scope a nano-thread belongs to: the address of its scheduler, which is compared only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeId(*const ());

impl ScopeId {
    /// That of the scope with this scheduler.
    pub(crate) const fn of<S>(scheduler: *const S) -> Self {
        Self(scheduler.cast())
    }
}

/// What a task that was described in detail has beside the others: it can be named.
struct Rare {
    scope: ScopeId,
    successors: Successors<NanoPtr>,
    /// A predecessor panicked: not to be started.
    skip: AtomicBool,
    is_suspendable: bool,
    priority: i32,
    stack_size: usize,
    name: Option<Cow<'static, str>>,
    inherited: Inherited,
    links: UnsafeCell<[MaybeUninit<Link<NanoPtr>>; INLINE_LINKS]>,
    links_used: Cell<usize>,
    /// What has to be passed before the start, in the order of addresses.
    mutexes: UnsafeCell<Vec<Arc<TaskMutex<NanoPtr>>>>,
    /// How many of them are passed.
    claimed: Cell<usize>,
}

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

    /// Gives the queue's reference up. `free_list` is that of the calling thread, if it is a
    /// member.
    ///
    /// # Safety
    /// - The nano-thread is finished, and this is called once. `store` is its scheduler's.
    #[inline]
    pub(crate) unsafe fn release(self, free_list: Option<&FreeList>, store: &Store<Nano>) {
        let nano = self.0.as_ptr();
        // SAFETY: - caller's contract: the reference is still there.
        if !unsafe { (*nano).node.is_pooled() } {
            // SAFETY: - `new` leaked one reference; the caller gives it up.
            drop(unsafe { Arc::from_raw(nano.cast_const()) });
            return;
        }
        // Nothing is left in a finished plain task that would have to be dropped: its closure was
        // taken, and so was a panic.
        // SAFETY: - it was a free list's (`pooled`), and is gone.
        unsafe { store.give(nano, free_list) };
    }

    /// A plain task below `up`, in a place of `free_list`, with one share that the creator holds.
    /// `fill` gives it its closure.
    #[inline]
    pub(crate) fn pooled(
        (free_list, store): (&FreeList, &Store<Nano>),
        up: *const Node,
        creator: u32,
        number: u64,
        fill: impl FnOnce(&mut Body),
    ) -> Self {
        let place = store.take(free_list);
        // SAFETY: - a fresh place for a descriptor.
        unsafe { place.write(Nano::value(up, Body::empty(), None, creator, number, true)) };
        // SAFETY: - written just now.
        fill(unsafe { (*place).body.get_mut() });
        Self(NonNull::new(place).expect("a place has an address"))
    }
}

impl Rare {
    /// A link of the inline ones, if any is left.
    fn inline_link(&self, this: NanoPtr) -> Option<*mut Link<NanoPtr>> {
        let used = self.links_used.get();
        if used == INLINE_LINKS {
            return None;
        }
        self.links_used.set(used + 1);
        let slot = self.links.get().cast::<Link<NanoPtr>>().wrapping_add(used);
        // SAFETY: - `used` is below the length; only the creator touches links that were not handed
        // out.
        unsafe { slot.write(Link::inline(this)) };
        Some(slot)
    }
}

impl Nano {
    /// A nano-thread below `up`, with one share that the creator holds. Where it is described, with
    /// traits, it says of which scope it is.
    pub(crate) fn new(
        up: *const Node,
        body: Body,
        described: Option<(Traits, ScopeId)>,
        creator: u32,
        number: u64,
    ) -> Arc<Self> {
        Arc::new(Self::value(up, body, described, creator, number, false))
    }

    #[inline(always)]
    fn value(
        up: *const Node,
        body: Body,
        described: Option<(Traits, ScopeId)>,
        creator: u32,
        number: u64,
        pooled: bool,
    ) -> Self {
        let rare = described.map(|(traits, scope)| {
            Box::new(Rare {
                scope,
                successors: Successors::new(),
                skip: AtomicBool::new(false),
                is_suspendable: traits.is_suspendable,
                priority: traits.priority,
                stack_size: traits.stack_size,
                name: traits.name,
                inherited: traits.inherited,
                links: UnsafeCell::new([const { MaybeUninit::uninit() }; INLINE_LINKS]),
                links_used: Cell::new(0),
                mutexes: UnsafeCell::new(Vec::new()),
                claimed: Cell::new(0),
            })
        });
        Self { node: Node::new(up, creator, number, pooled), rare, body: UnsafeCell::new(body) }
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
        self.rare.as_ref().map_or(0, |rare| rare.priority)
    }

    /// Whether it is of that scope. For tasks that can be named.
    pub(crate) fn is_of(&self, scope: ScopeId) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.scope == scope)
    }

    /// True when it has no dependences and nothing can name it.
    pub(crate) fn is_plain(&self) -> bool {
        self.rare.is_none()
    }

    /// True when its body and all its children are done. For tasks that can be named.
    pub(crate) fn is_finished(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.successors.is_closed())
    }

    /// Makes `self` wait for `predecessor`, unless that is finished.
    ///
    /// # Safety
    /// - The caller creates `self`, and holds its share. `this` is the queue's reference to `self`.
    pub(crate) unsafe fn follow(&self, this: NanoPtr, predecessor: &Nano) {
        let Some(before) = predecessor.rare.as_ref() else { return };
        if predecessor.is_finished() {
            if predecessor.is_skipped() {
                self.skip();
            }
            return;
        }
        // Counted before it is pushed: the predecessor may finish in between.
        self.node.inputs.add(1);
        let link = self
            .rare
            .as_ref()
            .and_then(|rare| rare.inline_link(this))
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
        let rare = self.rare.as_ref().expect("a task with dependences was described in detail");
        // SAFETY: - the creator's until it is ready.
        unsafe { *rare.mutexes.get() = mutexes };
    }

    /// What has to be passed before the start.
    ///
    /// # Safety
    /// - The caller moves it on.
    #[inline]
    pub(crate) unsafe fn mutexes(&self) -> &[Arc<TaskMutex<NanoPtr>>] {
        match &self.rare {
            // SAFETY: - not written once the creator has given its share up.
            Some(rare) => unsafe { &*rare.mutexes.get() },
            None => &[],
        }
    }

    /// How many mutexes are passed.
    pub(crate) fn claimed(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.claimed.get())
    }

    /// One more mutex is passed. By the thread that moves it on.
    pub(crate) fn note_claim(&self) {
        if let Some(rare) = &self.rare {
            rare.claimed.set(rare.claimed.get() + 1);
        }
    }

    /// Not to be started: what it depends on failed. So its own successors are not started either.
    pub(crate) fn skip(&self) {
        // ORDERING: Relaxed - the release of the share, or the closing of the successors, carries
        // it.
        if let Some(rare) = &self.rare {
            rare.skip.store(true, Relaxed);
        }
    }

    /// Closes the list of its successors and calls `take` with each, oldest first. Once.
    pub(crate) fn close_successors(&self, take: impl FnMut(NanoPtr)) {
        if let Some(rare) = &self.rare {
            rare.successors.close(take);
        }
    }

    pub(crate) fn is_skipped(&self) -> bool {
        // ORDERING: Relaxed - see `skip`.
        self.rare.as_ref().is_some_and(|rare| rare.skip.load(Relaxed))
    }

    pub(crate) fn is_started(&self) -> bool {
        self.node.phase() != Phase::New
    }

    /// Calls its closure, in place, with a pointer to its handle.
    ///
    /// # Safety
    /// - By its home, once; the closure was made for `handle`.
    #[inline]
    pub(crate) unsafe fn call_body(&self, handle: *const ()) {
        // SAFETY: - caller's contract: no other thread touches the closure of a started
        //           nano-thread.
        unsafe { (*self.body.get()).call(handle) };
    }

    /// Drops its closure: it is not going to run.
    ///
    /// # Safety
    /// - By its home, in the place of `call_body`.
    pub(crate) unsafe fn discard_body(&self) {
        // SAFETY: - as in `call_body`.
        unsafe { (*self.body.get()).discard() };
    }

    /// Bytes of stack that it asked for; 0: the default.
    pub(crate) fn stack_size(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.stack_size)
    }

    /// What its own tasks have that say nothing themselves.
    #[inline]
    pub(crate) fn inherited(&self) -> Inherited {
        self.rare.as_ref().map_or(Inherited::NONE, |rare| rare.inherited)
    }

    /// Which one it is, for the report of an overflow. By its home, before it starts.
    pub(crate) fn label(&self) -> Label {
        let name = self
            .rare
            .as_ref()
            .and_then(|rare| rare.name.as_deref())
            .map(|name| ptr::from_ref(name.as_bytes()));
        let (creator, number) = self.node.origin();
        Label { name, creator, number }
    }

    /// It may go on whenever its wait is over. Else only when all that were started after it on its
    /// thread have ended, but for those that are suspendable themselves.
    pub(crate) fn is_suspendable(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_suspendable)
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A plain task that waits in a queue takes its descriptor, with room for captures of 48 bytes
    /// in it, and a word of the queue.
    #[test]
    fn a_queued_task_takes_64_bytes_beside_the_room_for_its_captures() {
        let captures = 48;
        let beside = size_of::<Nano>() - captures + size_of::<NanoPtr>();
        assert!(beside <= 64, "{beside} bytes beside the captures");
    }
}
