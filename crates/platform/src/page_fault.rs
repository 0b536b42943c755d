//! Page faults of the program itself: those that the library resolves, a report before it dies of
//! one, and the signal stacks that both run on.
//!
//! # Protocol
//! 1. The handler of SIGSEGV and SIGBUS asks the resolver about the fault. If it resolved it, the
//!    access happens again.
//! 2. Else it asks the reporter about the faulting address. If it knows it, the fault happens again
//!    with the default action, so that the core shows the place.
//! 3. Any other fault goes to the handler that was there before.
//! 4. A program may install a handler of its own later. [`install_resolver`] puts ours in front of
//!    it again. The program's handler may call what it found, which is ours: so each time ours is
//!    another function, which knows what was there before *it*, and no two handlers call each other
//!    in a circle.
//!
//! # In the handler
//! Only loads of atomics, `sigaction`, `raise`, and what resolver and reporter do: no allocation,
//! no lock, no thread-local storage (which may be allocated at first use).

use std::mem;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicBool, AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};

use std::num::NonZeroUsize;

use crate::error::{SysError, SysResult};
use crate::mapping::{self, READ_WRITE};

/// Asked about the address of each fault; true when it is one of its own, which it has reported.
pub type Reporter = fn(address: usize) -> bool;

/// Asked about each fault first; true when the access will succeed now.
pub type Resolver = fn(fault: PageFault) -> bool;

/// A page fault, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFault {
    /// The address that was accessed.
    pub address: usize,
    /// Memory is mapped there, but not for this access (`SEGV_ACCERR`).
    pub is_forbidden: bool,
    /// Nothing is mapped there, or a guard stands there (`SEGV_MAPERR`).
    pub is_unmapped: bool,
    /// It came as SIGBUS.
    pub is_bus: bool,
}

// The kernel's codes.
const SEGV_MAPERR: libc::c_int = 1;
const SEGV_ACCERR: libc::c_int = 2;

/// How often ours can be put in front of a handler of the program's.
const LEVELS: usize = 4;

/// Ours for each level.
const HANDLERS: [extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void); LEVELS] =
    [on_fault::<0>, on_fault::<1>, on_fault::<2>, on_fault::<3>];

/// What was there before, for each level: SIGSEGV, SIGBUS.
static PREVIOUS: [[AtomicPtr<libc::sigaction>; 2]; LEVELS] =
    [const { [const { AtomicPtr::new(ptr::null_mut()) }; 2] }; LEVELS];

const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// The reporter, as a function pointer; null before `install`.
static REPORTER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// The resolver, as a function pointer; null before `install_resolver`.
static RESOLVER: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Has `reporter` asked about each fault from now on, for the life of the process. Only the first
/// call does anything; a signal that the system does not let us handle keeps its action.
///
/// # Safety
/// - `reporter` does only what a signal handler may: no allocation, no lock, no thread-local
///   storage, no unwinding.
pub unsafe fn install(reporter: Reporter) {
    // No lock: a child may be forked while a thread of its parent is here. It goes without the rest
    // of this.
    static BEGUN: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - the exchange alone decides.
    if !BEGUN.swap(true, Relaxed) {
        // ORDERING: Release - pairs with the handler's Acquire.
        REPORTER.store(reporter as *mut (), Release);
        // A signal that cannot be handled keeps its action.
        let _ = come_first();
    }
}

/// Has `resolver` asked about each fault, and puts the handler in front of the one that the program
/// has now. To be called each time before faults are made to happen. One resolver for the life of
/// the process: another one takes its place.
///
/// # Safety
/// - As for [`install`].
///
/// # Errors
/// The system does not let us handle a signal; `EBUSY`: another thread is here, or was when this
/// process was forked; `ENOSPC`: the program's handlers were replaced too often.
pub unsafe fn install_resolver(resolver: Resolver) -> SysResult<()> {
    // ORDERING: Release - pairs with the handler's Acquire.
    RESOLVER.store(resolver as *mut (), Release);
    come_first()
}

/// Makes ours the handler of both signals.
fn come_first() -> SysResult<()> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    let busy = SysError::new("sigaction", libc::EBUSY);
    // No lock, as above; the other thread takes microseconds.
    let mut tries = 0;
    // ORDERING: Acquire - pairs with the Release below: that thread's levels are seen.
    while IS_TAKEN.swap(true, Acquire) {
        tries += 1;
        if tries == 10_000 {
            return Err(busy);
        }
        std::thread::yield_now();
    }
    let outcome = (0..SIGNALS.len()).try_for_each(come_first_for);
    // ORDERING: Release - pairs with the Acquire above.
    IS_TAKEN.store(false, Release);
    outcome
}

fn come_first_for(index: usize) -> SysResult<()> {
    let signal = SIGNALS[index];
    // SAFETY: - sigaction is plain data, for which zeros are valid.
    let mut old: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: - null means: only tell; `old` is writable.
    if unsafe { libc::sigaction(signal, ptr::null(), &mut old) } != 0 {
        return Err(SysError::last("sigaction"));
    }
    if HANDLERS.iter().any(|ours| *ours as *const () as usize == old.sa_sigaction) {
        return Ok(());
    }
    // The level that has this handler already, or the first free one.
    let level = PREVIOUS.iter().position(|previous| {
        // ORDERING: Relaxed - written by this thread or before IS_TAKEN was released.
        let known = previous[index].load(Relaxed);
        // SAFETY: - never freed, and not written after it was stored.
        unsafe { known.as_ref() }.is_none_or(|known| {
            known.sa_sigaction == old.sa_sigaction && known.sa_flags == old.sa_flags
        })
    });
    let level = level.ok_or(SysError::new("sigaction", libc::ENOSPC))?;
    let previous = &PREVIOUS[level][index];
    // ORDERING: Relaxed - as above.
    if previous.load(Relaxed).is_null() {
        // ORDERING: Release - pairs with the handler's Acquire. Leaked: a handler is for the life
        // of the process.
        previous.store(Box::into_raw(Box::new(old)), Release);
    }
    // SAFETY: - as above.
    let mut new: libc::sigaction = unsafe { mem::zeroed() };
    new.sa_sigaction = HANDLERS[level] as *const () as usize;
    new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: - `on_fault` has the signature that SA_SIGINFO asks for, and does only what a
    // handler may.
    if unsafe { libc::sigaction(signal, &new, ptr::null_mut()) } != 0 {
        return Err(SysError::last("sigaction"));
    }
    Ok(())
}

extern "C" fn on_fault<const LEVEL: usize>(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: - the kernel passes a valid siginfo.
    let code = unsafe { (*info).si_code };
    // A positive code comes from the kernel: then the address is that of the fault.
    if code > 0 {
        // SAFETY: - as above.
        let address = unsafe { (*info).si_addr() }.addr();
        // ORDERING: Acquire - pairs with `install_resolver`.
        let resolver = RESOLVER.load(Acquire);
        if !resolver.is_null() {
            // SAFETY: - stored by `install_resolver`, from this type.
            let resolver = unsafe { mem::transmute::<*mut (), Resolver>(resolver) };
            let is_bus = signal == libc::SIGBUS;
            let is_forbidden = !is_bus && code == SEGV_ACCERR;
            let is_unmapped = !is_bus && code == SEGV_MAPERR;
            if resolver(PageFault { address, is_forbidden, is_unmapped, is_bus }) {
                return;
            }
        }
        // ORDERING: Acquire - pairs with `install`.
        let reporter = REPORTER.load(Acquire);
        if !reporter.is_null() {
            // SAFETY: - stored by `install`, from this type.
            let reporter = unsafe { mem::transmute::<*mut (), Reporter>(reporter) };
            if reporter(address) {
                fall_back_to(signal, None, code);
                return;
            }
        }
    }
    let index = usize::from(signal == libc::SIGBUS);
    // ORDERING: Acquire - pairs with `come_first_for`.
    let previous = PREVIOUS[LEVEL][index].load(Acquire);
    // SAFETY: - stored before the handler was installed, never freed.
    let previous = unsafe { &*previous };
    match previous.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => fall_back_to(signal, Some(previous), code),
        handler if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: - the flag says that the handler has this signature.
            let handler = unsafe { mem::transmute::<usize, Handler>(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: - without the flag the handler takes the signal's number.
            let handler = unsafe { mem::transmute::<usize, extern "C" fn(libc::c_int)>(handler) };
            handler(signal);
        }
    }
}

/// Sets the signal's action back, so that the fault, which happens again on return, has its default
/// effect.
fn fall_back_to(signal: libc::c_int, action: Option<&libc::sigaction>, code: libc::c_int) {
    // SAFETY: - sigaction is plain data, for which zeros are valid and mean the default action.
    let default: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: - both are valid actions.
    unsafe { libc::sigaction(signal, action.unwrap_or(&default), ptr::null_mut()) };
    if code <= 0 {
        // Sent by a process: nothing faults again. It is delivered when the handler returns.
        // SAFETY: - raise takes a number.
        unsafe { libc::raise(signal) };
    }
}

/// Writes `text` to the standard error output, as a reporter may: one call, no buffer. What cannot
/// be written is lost.
pub fn write_to_stderr(text: &[u8]) {
    // SAFETY: - pointer and length describe initialised bytes.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// An alternate signal stack of the calling thread, for threads that have none. It stays on its
/// thread.
#[derive(Debug)]
pub struct AlternateStack {
    memory: NonNull<libc::c_void>,
}

impl AlternateStack {
    /// Its bytes: a reporter needs about two kilobytes besides the kernel's frame.
    const SIZE: NonZeroUsize = NonZeroUsize::new(64 << 10).expect("not 0");

    /// Gives the calling thread an alternate stack; `None` when it has one, or the system refuses
    /// (then an overflow of its stack ends the program without a report).
    pub fn for_this_thread() -> Option<Self> {
        if current()?.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let memory = mapping::map(Self::SIZE, READ_WRITE, flags, None).ok()?;
        let this = Self { memory };
        let stack =
            libc::stack_t { ss_sp: memory.as_ptr(), ss_flags: 0, ss_size: Self::SIZE.get() };
        // SAFETY: - the memory is ours until `drop` has taken it out of use.
        (unsafe { libc::sigaltstack(&stack, ptr::null_mut()) } == 0).then_some(this)
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        if current().is_some_and(|stack| stack.ss_sp == self.memory.as_ptr()) {
            let none =
                libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: - takes the stack out of use; the thread is not on it, since it runs
            // destructors.
            unsafe { libc::sigaltstack(&none, ptr::null_mut()) };
        }
        // SAFETY: - our mapping, which the kernel does not use any more.
        let result = unsafe { mapping::unmap(self.memory, Self::SIZE.get()) };
        debug_assert_eq!(result, Ok(()), "munmap of a whole mapping");
    }
}

/// The calling thread's alternate stack.
fn current() -> Option<libc::stack_t> {
    // SAFETY: - stack_t is plain data, for which zeros are valid.
    let mut stack: libc::stack_t = unsafe { mem::zeroed() };
    // SAFETY: - null means: only tell; `stack` is writable.
    (unsafe { libc::sigaltstack(ptr::null(), &mut stack) } == 0).then_some(stack)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_one_alternate_stack_and_loses_it_again() {
        std::thread::spawn(|| {
            // The standard library may have given it one already; not so where a sanitizer owns the
            // signal.
            let none =
                libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: - takes the thread's alternate stack out of use, on which nothing runs.
            assert_eq!(unsafe { libc::sigaltstack(&none, ptr::null_mut()) }, 0);
            let stack = AlternateStack::for_this_thread().expect("it has none");
            assert_eq!(current().map(|current| current.ss_sp), Some(stack.memory.as_ptr()));
            assert!(AlternateStack::for_this_thread().is_none());
            drop(stack);
            assert!(current().is_some_and(|current| current.ss_flags & libc::SS_DISABLE != 0));
        })
        .join()
        .unwrap();
    }
}
