//! The descriptor of a nano-thread: its counter and successors, its closure, and, once it runs, its stack.
//!
//! # Life
//! Created (one allocation with the closure) -> ready, when its inputs are there and its turnstiles passed -> running, on a
//! stack of its own, on the member that took it, its *home* -> suspended and resumed there any number of times -> ended
//! (the stack goes back) -> finished, when its children are, too: successors and parent are told, the queue's reference
//! is dropped. Only what has not started is ever in a queue that others steal from.
//!
//! # Who touches what
//! | fields | by |
//! |---|---|
//! | `node`, `successors`, `skip` | anybody: see their types |
//! | `links`, `turnstiles` before it is ready | the creator |
//! | `turnstiles`, `claimed` | who moves it on, one at a time: the last share, or the lock of the turnstile, hands it over |
//! | `strand` | the creator until it is ready, then its home's thread |
//! | `name`, `priority`, `number`, .. | nobody writes them after the creation |
//!
//! # Invariants
//! I1  A started nano-thread is resumed and ended on its home's thread: its stack may hold what is not `Send`.

use crate::nano::body::Body;
use crate::nano::exclusive::Turnstile;
use crate::nano::node::{Node, Payload, Phase};
use crate::nano::overflow::Label;
use crate::nano::scheduler::Scheduler;
use crate::nano::stack::Stack;
use crate::nano::successors::{Link, Successors};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use platform::SysResult;
use std::borrow::Cow;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Dependences whose links need no box.
const INLINE_LINKS: usize = 4;

/// What a creator may say about a nano-thread.
#[derive(Debug, Default)]
pub(crate) struct Traits {
    pub(crate) priority: i32,
    /// Bytes; 0 = the default.
    pub(crate) stack_size: usize,
    pub(crate) name: Option<Cow<'static, str>>,
}

/// See the module head. `node` comes first: `of_node`.
#[repr(C)]
pub(crate) struct Nano {
    pub(crate) node: Node,
    pub(crate) successors: Successors<NanoPtr>,
    /// A predecessor panicked: not to be started.
    skip: AtomicBool,
    priority: i32,
    creator: u32,
    number: u64,
    /// What plain tasks do not have.
    rare: Option<Box<Rare>>,
    strand: Strand,
}

/// What a task that was described in detail has beside the others.
struct Rare {
    stack_size: usize,
    name: Option<Cow<'static, str>>,
    links: UnsafeCell<[MaybeUninit<Link<NanoPtr>>; INLINE_LINKS]>,
    links_used: Cell<usize>,
    /// What has to be passed before the start, in the order of addresses.
    turnstiles: UnsafeCell<Vec<Arc<Turnstile>>>,
    /// How many of them are passed.
    claimed: Cell<usize>,
}

/// The running half of a nano-thread.
struct Strand {
    body: Cell<Option<Body>>,
    coroutine: UnsafeCell<Option<Coroutine<(), (), (), Stack>>>,
    yielder: Cell<*const Yielder<(), ()>>,
}

// SAFETY: - the table in the module head says who touches which cell, and what hands it over. The closure is `Send`; what
//           is on the stack of a started nano-thread stays on its home's thread (I1), since only unstarted ones are ever
//           put where another thread takes them.
unsafe impl Send for Nano {}
// SAFETY: - as above.
unsafe impl Sync for Nano {}

/// A nano-thread on its way: the reference that queues, stacks and successor lists hold until it is finished.
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
    /// - It is not finished, and the caller is who moves it on, or holds one of its shares.
    pub(crate) unsafe fn get<'a>(self) -> &'a Nano {
        // SAFETY: - caller's contract: the queue's reference is still there.
        unsafe { self.0.as_ref() }
    }

    /// Gives the queue's reference up.
    ///
    /// # Safety
    /// - The nano-thread is finished, and this is called once.
    pub(crate) unsafe fn release(self) {
        // SAFETY: - `new` leaked one reference; the caller gives it up.
        drop(unsafe { Arc::from_raw(self.0.as_ptr().cast_const()) });
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
        // SAFETY: - `used` is below the length; only the creator touches links that were not handed out.
        unsafe { slot.write(Link::inline(this)) };
        Some(slot)
    }
}

impl Nano {
    /// A nano-thread below `up`, with one share that the creator holds.
    pub(crate) fn new(
        up: *const Node,
        scheduler: *const Scheduler,
        body: Body,
        traits: Option<Traits>,
        creator: u32,
        number: u64,
    ) -> Arc<Self> {
        let priority = traits.as_ref().map_or(0, |traits| traits.priority);
        let rare = traits.map(|traits| {
            Box::new(Rare {
                stack_size: traits.stack_size,
                name: traits.name,
                links: UnsafeCell::new([const { MaybeUninit::uninit() }; INLINE_LINKS]),
                links_used: Cell::new(0),
                turnstiles: UnsafeCell::new(Vec::new()),
                claimed: Cell::new(0),
            })
        });
        Arc::new(Self {
            node: Node::new(up, scheduler),
            successors: Successors::new(),
            skip: AtomicBool::new(false),
            priority,
            creator,
            number,
            rare,
            strand: Strand {
                body: Cell::new(Some(body)),
                coroutine: UnsafeCell::new(None),
                yielder: Cell::new(ptr::null()),
            },
        })
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
        self.priority
    }

    /// True when its body and all its children are done.
    pub(crate) fn is_finished(&self) -> bool {
        self.successors.is_closed()
    }

    /// Makes `self` wait for `predecessor`, unless that is finished.
    ///
    /// # Safety
    /// - The caller creates `self`, and holds its share. `this` is the queue's reference to `self`.
    pub(crate) unsafe fn follow(&self, this: NanoPtr, predecessor: &Nano) {
        if predecessor.is_finished() {
            if predecessor.is_skipped() {
                self.skip();
            }
            return;
        }
        // Counted before it is pushed: the predecessor may finish in between.
        self.node.inputs.add(1);
        let link = self.rare.as_ref().and_then(|rare| rare.inline_link(this)).unwrap_or_else(|| Link::boxed(this));
        // SAFETY: - the link is fresh; an inline one stays in place until all predecessors have released `self`.
        if !unsafe { predecessor.successors.push(link) } {
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
    pub(crate) unsafe fn set_turnstiles(&self, turnstiles: Vec<Arc<Turnstile>>) {
        let rare = self.rare.as_ref().expect("a task with dependences was described in detail");
        // SAFETY: - the creator's until it is ready.
        unsafe { *rare.turnstiles.get() = turnstiles };
    }

    /// What has to be passed before the start.
    ///
    /// # Safety
    /// - The caller is who moves it on.
    #[inline]
    pub(crate) unsafe fn turnstiles(&self) -> &[Arc<Turnstile>] {
        match &self.rare {
            // SAFETY: - not written once the creator has given its share up.
            Some(rare) => unsafe { &*rare.turnstiles.get() },
            None => &[],
        }
    }

    /// How many turnstiles are passed.
    pub(crate) fn claimed(&self) -> usize {
        self.rare.as_ref().map_or(0, |rare| rare.claimed.get())
    }

    /// One more turnstile is passed. By who moves it on.
    pub(crate) fn note_claim(&self) {
        if let Some(rare) = &self.rare {
            rare.claimed.set(rare.claimed.get() + 1);
        }
    }

    /// Not to be started: what it depends on failed. So its own successors are not started either.
    pub(crate) fn skip(&self) {
        // ORDERING: Relaxed - the release of the share, or the closing of the successors, carries it.
        self.skip.store(true, Relaxed);
    }

    pub(crate) fn is_skipped(&self) -> bool {
        // ORDERING: Relaxed - see `skip`.
        self.skip.load(Relaxed)
    }

    pub(crate) fn is_started(&self) -> bool {
        self.node.phase() != Phase::New
    }

    /// Takes the closure out: it is not going to run.
    pub(crate) fn take_body(&self) -> Option<Body> {
        self.strand.body.take()
    }

    /// Starts it on the calling thread, which becomes its home: gives it a stack, on which `entry` runs.
    ///
    /// # Safety
    /// - The caller took it from a queue, on member `home`'s thread; it was not started.
    /// - `this` is the queue's reference to `self`; `entry(this)` does not unwind.
    pub(crate) unsafe fn start(&self, this: NanoPtr, home: u32, entry: fn(NanoPtr)) -> SysResult<()> {
        let stack = Stack::take(self.rare.as_ref().map_or(0, |rare| rare.stack_size))?;
        let name = self.rare.as_ref().and_then(|rare| rare.name.as_deref()).map(|name| ptr::from_ref(name.as_bytes()));
        stack.set_label(Label { name, creator: self.creator, number: self.number });
        self.node.start(home);
        let main = move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: - the queue's reference outlives the coroutine: it is given up when the nano-thread is finished.
            unsafe { this.get() }.strand.yielder.set(yielder);
            entry(this);
        };
        // SAFETY: - what `main` borrows lives until it has returned (above).
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, main) };
        // SAFETY: - I1: the home's thread.
        unsafe { *self.strand.coroutine.get() = Some(coroutine) };
        Ok(())
    }

    /// Runs it until it suspends or ends; true when it has ended.
    ///
    /// # Safety
    /// - I1: the home's thread; it is started, not ended, and not running.
    pub(crate) unsafe fn resume(&self) -> bool {
        // SAFETY: - I1; while it runs, `suspend` uses the yielder only.
        let cell = unsafe { &mut *self.strand.coroutine.get() };
        let coroutine = cell.as_mut().expect("a started nano-thread has a stack until it ends");
        match coroutine.resume(()) {
            CoroutineResult::Yield(()) => false,
            CoroutineResult::Return(()) => {
                if let Some(ended) = cell.take() {
                    ended.into_stack().give_back();
                }
                true
            }
        }
    }

    /// Goes back to who resumed it, until it is resumed again.
    ///
    /// # Safety
    /// - It runs now, and the caller is on its stack.
    pub(crate) unsafe fn suspend(&self) {
        // SAFETY: - set when it started; lives on its stack.
        unsafe { &*self.strand.yielder.get() }.suspend(());
    }

    /// Keeps the payload of its own panic for its parent.
    pub(crate) fn fail(&self, payload: Payload) {
        self.node.keep_panic(payload);
    }
}
