//! Stacks of nano-threads: mapped memory with a guard, kept in a pool of each kernel thread.
//!
//! A fresh stack costs two system calls and page faults (about 16 us), a pooled one about 16 ns.
//! Memory is committed by the page, as it is touched: the size is address space. A nano-thread
//! starts and ends on the same kernel thread, so a pool needs no lock, and the stack that was used
//! last, warm in the cache, is used next.

use crate::builder::{self, LEAST_TASK_STACK as LEAST_SIZE};
use crate::tasks::overflow::{self, Guard};
use crate::tasks::tsan_fibers::TsanFibers;
use corosensei::stack::valgrind::ValgrindStackRegistration;
use corosensei::stack::{Stack as CoroutineStack, StackPointer};
use platform::SysResult;
use platform::message::say;
use platform::page_fault::AlternateStack;
use platform::stack::GuardedMapping;
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Size of a nano-thread's stack unless the task or the environment says otherwise.
/// Address space only: memory comes as it is touched. Parsers, formatters and the like of debug
/// builds fit.
const DEFAULT_SIZE: usize = 1 << 20;

/// Environment variable that sets the size for all nano-threads, in bytes.
pub(crate) const SIZE_VARIABLE: &str = "NANOS_STACK";

/// Address space below a stack that faults. Larger than one page, so that code without stack probes
/// (C) that skips a few pages is caught, too.
const GUARD: usize = 64 << 10;

/// Stacks that a kernel thread keeps for later.
const POOLED: usize = 64;

/// The size of stacks that did not ask for another one.
fn default_size() -> usize {
    /// 0: no thread has looked yet. No lock: a child may be forked while a thread of its parent
    /// looks.
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    // ORDERING: Relaxed - a number on its own; threads that look at once find the same.
    match SIZE.load(Relaxed) {
        0 => {
            let (size, complaint) = asked_size();
            // ORDERING: Relaxed - as above.
            if SIZE.swap(size, Relaxed) == 0
                && let Some(text) = complaint
            {
                say(format_args!(
                    "nanos: {SIZE_VARIABLE}={text}: not a number of bytes; nano-threads get {size}"
                ));
            }
            size
        }
        size => size,
    }
}

/// What the environment asks for, and what it says if that is no number.
fn asked_size() -> (usize, Option<String>) {
    let default = builder::task_stack().unwrap_or(DEFAULT_SIZE);
    let Some(text) = std::env::var_os(SIZE_VARIABLE) else { return (default, None) };
    match text.to_str().and_then(|text| text.trim().parse::<usize>().ok()) {
        Some(size) => (size.max(LEAST_SIZE), None),
        None => (default, Some(text.to_string_lossy().into_owned())),
    }
}

/// One stack; unmapped when dropped.
pub(crate) struct Stack {
    memory: GuardedMapping,
    guard: Guard,
    valgrind: Option<ValgrindStackRegistration>,
    tsan_fibers: TsanFibers,
    /// Of the default size.
    poolable: bool,
}

// SAFETY: - `base` and `limit` describe a mapping that lives as long as the value; its lowest
//           `GUARD` bytes fault; at least `LEAST_SIZE` bytes are usable; both ends are
//           page-aligned.
unsafe impl CoroutineStack for Stack {
    fn base(&self) -> StackPointer {
        self.memory.high()
    }

    fn limit(&self) -> StackPointer {
        self.memory.low()
    }
}

impl Stack {
    /// A stack of `size` usable bytes; 0: of the default size, from the calling thread's pool if
    /// there is one.
    pub(crate) fn take(size: usize) -> SysResult<Self> {
        if size != 0 {
            return Self::map(size, false);
        }
        // The pool is gone while the thread's destructors run.
        match POOL.try_with(|pool| pool.borrow_mut().stacks.pop()) {
            Ok(Some(stack)) => Ok(stack),
            Ok(None) | Err(_) => Self::map(default_size(), true),
        }
    }

    /// Puts the stack into the calling thread's pool.
    pub(crate) fn give_back(mut self) {
        if self.poolable && self.tsan_fibers.may_go_on() {
            let _ = POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.stacks.len() < POOLED {
                    pool.stacks.push(self);
                }
            });
        }
    }

    /// What says which nano-thread runs on the stack, for the report of an overflow.
    pub(crate) fn guard(&self) -> Guard {
        self.guard
    }

    /// What ThreadSanitizer is told when a thread goes to the stack.
    pub(crate) fn tsan_fibers(&self) -> TsanFibers {
        self.tsan_fibers
    }

    fn map(size: usize, poolable: bool) -> SysResult<Self> {
        overflow::install();
        let memory = GuardedMapping::new(size.max(LEAST_SIZE), GUARD)?;
        let usable = memory.low().saturating_add(memory.guard());
        let usable = ptr::with_exposed_provenance_mut(usable.get());
        let valgrind = Some(ValgrindStackRegistration::new(usable, memory.size()));
        let guard = Guard::register(memory.low().get(), memory.guard(), memory.size());
        Ok(Self { memory, guard, valgrind, tsan_fibers: TsanFibers::new(), poolable })
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // Before the memory goes.
        self.valgrind = None;
        self.guard.unregister();
        // SAFETY: - what ran on the stack has returned.
        unsafe { self.tsan_fibers.destroy() };
    }
}

/// What a kernel thread keeps for its nano-threads.
struct Pool {
    stacks: Vec<Stack>,
    /// Where the overflow handler runs: a thread that was not created by Rust has none.
    _alternate: Option<AlternateStack>,
}

thread_local! {
    static POOL: RefCell<Pool> =
        RefCell::new(Pool { stacks: Vec::new(), _alternate: AlternateStack::for_this_thread() });
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stack_that_was_given_back_is_taken_again() {
        std::thread::spawn(|| {
            let first = Stack::take(0).unwrap();
            let low = first.limit();
            first.give_back();
            assert_eq!(Stack::take(0).unwrap().limit(), low);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn sizes_are_honoured_and_odd_ones_rounded_up() {
        for size in [1, 100_001, 3 << 20] {
            let stack = Stack::take(size).unwrap();
            assert!(stack.base().get() - stack.limit().get() >= size.max(LEAST_SIZE) + GUARD);
            stack.give_back();
        }
    }

    #[test]
    fn a_size_that_no_machine_has_is_an_error() {
        for size in [usize::MAX, usize::MAX - GUARD, 1 << 60] {
            let error = Stack::take(size).map(drop).expect_err("no such memory");
            assert_eq!((error.call(), error.errno()), ("mmap", 12), "ENOMEM");
        }
    }
}
