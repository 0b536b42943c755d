//! The description of a nano-thread: what a plain one does not have, so that others can name it,
//! wait for it or tell it apart. It is an allocation of its own, which goes with the descriptor.
//!
//! # What touches what
//! | fields | by |
//! |---|---|
//! | `panic`, `successors`, `skip` | any thread: see their types |
//! | `links`, `mutexes` before it is ready | the creator |
//! | `mutexes`, `claimed` | the thread that moves it on, one at a time: the last share, or the lock of the mutex, hands it over |
//! | `body` | the creator until it is ready, then its home's thread |
//! | `name`, `priority`, `scope`, .. | not written after the creation |
//!
//! `P` is how queues and lists of successors refer to a nano-thread
//! ([`NanoPtr`](super::descriptor::NanoPtr)).

use crate::tasks::body::Body;
use crate::tasks::inherited::{Inherited, Settings};
use crate::tasks::node::PanicWord;
use crate::tasks::successors::{Link, Successors};
use crate::tasks::task_mutex::TaskMutex;
use platform::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::borrow::Cow;
use std::cell::{Cell, UnsafeCell};
use std::mem::MaybeUninit;
use std::ptr;
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

/// Which scope a nano-thread belongs to: the address of its scheduler, which is compared only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScopeId(*const ());

impl ScopeId {
    /// That of the scope with this scheduler.
    pub(crate) const fn of<S>(scheduler: *const S) -> Self {
        Self(scheduler.cast())
    }
}

/// See the module head. The word of the panic comes first:
/// [`Node::described`](super::node::Node::described).
#[repr(C)]
pub(super) struct Description<P> {
    panic: PanicWord,
    body: UnsafeCell<Body>,
    pub(super) scope: ScopeId,
    pub(super) successors: Successors<P>,
    /// A predecessor panicked: not to be started.
    skip: AtomicBool,
    pub(super) is_suspendable: bool,
    pub(super) priority: i32,
    pub(super) stack_size: usize,
    pub(super) name: Option<Cow<'static, str>>,
    pub(super) inherited: Inherited,
    links: UnsafeCell<[MaybeUninit<Link<P>>; INLINE_LINKS]>,
    links_used: Cell<usize>,
    /// What has to be passed before the start, in the order of addresses.
    mutexes: UnsafeCell<Vec<Arc<TaskMutex<P>>>>,
    /// How many of them are passed.
    pub(super) claimed: Cell<usize>,
}

impl<P: Copy> Description<P> {
    pub(super) fn new(body: Body, traits: Traits, scope: ScopeId) -> Self {
        Self {
            panic: PanicWord::new(ptr::null_mut()),
            body: UnsafeCell::new(body),
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
        }
    }

    /// Calls the closure with a pointer to its handle.
    ///
    /// # Safety
    /// - By the home, once, and instead of `discard_body`; the closure was made for `handle`.
    pub(super) unsafe fn call_body(&self, handle: *const ()) {
        // SAFETY: - caller's contract: no other thread touches the closure of a started
        //           nano-thread, which is there.
        unsafe { (*self.body.get()).call(handle) };
    }

    /// Drops the closure.
    ///
    /// # Safety
    /// - By the home, once, and instead of `call_body`.
    pub(super) unsafe fn discard_body(&self) {
        // SAFETY: - as in `call_body`.
        unsafe { (*self.body.get()).discard() };
    }

    /// A link to `this` of the inline ones, if any is left.
    ///
    /// # Safety
    /// - By the creator, which holds its share.
    pub(super) unsafe fn inline_link(&self, this: P) -> Option<*mut Link<P>> {
        let used = self.links_used.get();
        if used == INLINE_LINKS {
            return None;
        }
        self.links_used.set(used + 1);
        let slot = self.links.get().cast::<Link<P>>().wrapping_add(used);
        // SAFETY: - `used` is below the length; only the creator, the caller, touches links that
        //           were not handed out, and the count of those that were.
        unsafe { slot.write(Link::inline(this)) };
        Some(slot)
    }

    /// Sets what has to be passed before the start, in the order of addresses.
    ///
    /// # Safety
    /// - By the creator, which holds its share.
    pub(super) unsafe fn set_mutexes(&self, mutexes: Vec<Arc<TaskMutex<P>>>) {
        // SAFETY: - the creator's until it is ready (caller's contract).
        unsafe { *self.mutexes.get() = mutexes };
    }

    /// What has to be passed before the start.
    ///
    /// # Safety
    /// - The caller moves the nano-thread on.
    #[inline]
    pub(super) unsafe fn mutexes(&self) -> &[Arc<TaskMutex<P>>] {
        // SAFETY: - not written once the creator has given its share up.
        unsafe { &*self.mutexes.get() }
    }

    /// Not to be started.
    pub(super) fn skip(&self) {
        // ORDERING: Relaxed - the release of the share, or the closing of the successors, carries
        // it.
        self.skip.store(true, Relaxed);
    }

    pub(super) fn is_skipped(&self) -> bool {
        // ORDERING: Relaxed - see `skip`.
        self.skip.load(Relaxed)
    }
}
