//! Fibers: the stacks on which a member runs nano-threads, one after the other.
//!
//! A nano-thread is called on a fiber like any function, and when it ends the fiber calls the
//! next one. Only when it suspends does it keep the fiber, with all that is on it, and the member
//! goes on with another fiber. So a task that never suspends costs a call, not a switch of
//! stacks, and a member has as many fibers as it has suspended nano-threads, and one more.
//!
//! # Life
//! Made on a stack of the pool -> resumed by its member's root loop ([`seat`](super::seat)) -> runs
//! nano-threads, and gives back control *suspended* (one of them waits), or *idle* (what comes next
//! is not for this stack, or a waiter on the member's own stack is to go on) -> resumed any number
//! of times -> told to return, when the scope is over. One whose stack a task asked for runs that
//! task only.
//!
//! # Invariants
//! I1  A fiber is created, resumed and ended by one member's thread: what is on it may not be
//!     `Send`.
//! I2  It is owned by the nano-thread that is suspended on it, by the member while it is idle, and
//!     else by the loop that resumed it.

use crate::tasks::descriptor::{Nano, NanoPtr};
use crate::tasks::overflow::Guard;
use crate::tasks::stack::Stack;
use crate::tasks::tsan_fibers::TsanFibers;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use platform::SysResult;
use std::cell::{Cell, UnsafeCell};
use std::ptr;

/// See the module head.
pub(crate) struct Fiber {
    coroutine: UnsafeCell<Option<Coroutine<(), (), (), Stack>>>,
    /// Set when it runs first; lives on its stack.
    yielder: Cell<*const Yielder<(), ()>>,
    /// What it is to run when it is resumed; `None`: it is to return.
    next: Cell<Option<NanoPtr>>,
    /// Nothing is on its stack but itself.
    idle: Cell<bool>,
    guard: Guard,
    tsan_fibers: TsanFibers,
    /// For one nano-thread, which asked for this stack.
    single: bool,
}

/// How a fiber gave control back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// A nano-thread waits on it, and owns it.
    Suspended,
    /// It may run another one.
    Idle,
    /// It is gone.
    Returned,
}

impl Fiber {
    /// A fiber of the calling thread on a stack of `size` bytes; 0: of the default size, and for
    /// any number of nano-threads. It calls `serve` there.
    ///
    /// # Safety
    /// - It is resumed on the calling thread only, and has returned before what `serve` borrows
    ///   ends.
    pub(super) unsafe fn start(size: usize, serve: impl FnOnce(&Self)) -> SysResult<*const Self> {
        let stack = Stack::take(size)?;
        let fiber: *const Self = Box::into_raw(Box::new(Self {
            coroutine: UnsafeCell::new(None),
            yielder: Cell::new(ptr::null()),
            next: Cell::new(None),
            idle: Cell::new(true),
            guard: stack.guard(),
            tsan_fibers: stack.tsan_fibers(),
            single: size != 0,
        }));
        let main = move |yielder: &Yielder<(), ()>, ()| {
            // SAFETY: - freed by `resume` when this closure has returned.
            let this = unsafe { &*fiber };
            // SAFETY: - by `resume`.
            unsafe { this.tsan_fibers.arrive() };
            this.yielder.set(yielder);
            serve(this);
            // SAFETY: - it returns to the loop that resumed it.
            unsafe { this.tsan_fibers.leave() };
        };
        // SAFETY: - what `serve` borrows lives until `main` has returned (caller's contract).
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, main) };
        // SAFETY: - fresh: nothing else has it.
        unsafe { *(*fiber).coroutine.get() = Some(coroutine) };
        Ok(fiber)
    }

    /// Runs it until it gives control back.
    ///
    /// # Safety
    /// - I1, I2: the caller owns it, on its thread, and it does not run.
    pub(super) unsafe fn resume(fiber: *const Self) -> Rest {
        // SAFETY: - caller's contract: it is live.
        let this = unsafe { &*fiber };
        this.idle.set(false);
        // SAFETY: - I2; while it runs, `suspend` uses the yielder only.
        let cell = unsafe { &mut *this.coroutine.get() };
        let coroutine = cell.as_mut().expect("a fiber has its stack until it returns");
        // SAFETY: - goes there by the next call, from which it comes back.
        let origin = unsafe { this.tsan_fibers.go() };
        let outcome = coroutine.resume(());
        // SAFETY: - as above.
        unsafe { this.tsan_fibers.back(origin) };
        match outcome {
            CoroutineResult::Yield(()) if this.idle.get() => Rest::Idle,
            CoroutineResult::Yield(()) => Rest::Suspended,
            CoroutineResult::Return(()) => {
                if let Some(ended) = cell.take() {
                    ended.into_stack().give_back();
                }
                // SAFETY: - made by `start`; it has returned, and the caller owns it.
                drop(unsafe { Box::from_raw(fiber.cast_mut()) });
                Rest::Returned
            }
        }
    }

    /// Gives control back to the loop that resumed it, until it is resumed again.
    ///
    /// # Safety
    /// - The caller is on its stack.
    pub(crate) unsafe fn suspend(&self) {
        // SAFETY: - on this stack (caller's contract), and leaves it by the next call.
        unsafe { self.tsan_fibers.leave() };
        // SAFETY: - set when it began; lives on its stack.
        unsafe { &*self.yielder.get() }.suspend(());
        // SAFETY: - resumed: by `go`.
        unsafe { self.tsan_fibers.arrive() };
    }

    /// As [`Self::suspend`], by the fiber itself, between two nano-threads.
    ///
    /// # Safety
    /// - As `suspend`.
    pub(super) unsafe fn rest(&self) {
        self.idle.set(true);
        // SAFETY: - caller's contract.
        unsafe { self.suspend() };
    }

    /// Says what to run first when it is resumed.
    pub(super) fn give(&self, nano: NanoPtr) {
        self.next.set(Some(nano));
    }

    /// What `give` said.
    pub(super) fn take_next(&self) -> Option<NanoPtr> {
        self.next.take()
    }

    pub(super) fn is_single(&self) -> bool {
        self.single
    }

    /// From now on an overflow of this stack is that of `nano`, which is about to start.
    pub(super) fn label(&self, nano: &Nano) {
        self.guard.set_label(nano.label());
    }
}
