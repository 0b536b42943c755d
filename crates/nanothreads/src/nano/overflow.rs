//! The report of a stack overflow: who, how large the stack was, and the remedy, in the place of a bare SIGSEGV.
//!
//! # Protocol
//! Each stack registers its guard in a list that only grows (blocks of slots, linked once, never freed). The handler of
//! SIGSEGV and SIGBUS, on the thread's alternate stack, looks for the faulting address among the guards. If it is there,
//! it writes the report and lets the fault happen again with the default action, so that the core shows the place.
//! Any other fault goes to the handler that was there before.
//!
//! # In the handler
//! Only loads of atomics, formatting into a buffer on the stack, `write`, `sigaction` and `raise`: no allocation, no lock,
//! no thread-local storage (which may be allocated at first use).

use std::fmt::{self, Write};
use std::mem;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Slots in a block.
const SLOTS: usize = 64;

/// Bytes of an alternate signal stack: the handler needs about two kilobytes beside the kernel's frame.
const ALTERNATE: usize = 64 << 10;

/// Who runs on a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// The name that the program gave, which lives as long as the nano-thread runs.
    pub(crate) name: Option<*const [u8]>,
    /// The member that created it.
    pub(crate) creator: u32,
    /// Which of its creator's.
    pub(crate) number: u64,
}

struct Slot {
    /// Lowest address of the guard; 0 = the slot is free, 1 = it is being filled.
    low: AtomicUsize,
    guard: AtomicUsize,
    size: AtomicUsize,
    name: AtomicPtr<u8>,
    name_length: AtomicUsize,
    creator: AtomicU64,
    number: AtomicU64,
}

const FREE: usize = 0;
const TAKEN: usize = 1;

struct Block {
    slots: [Slot; SLOTS],
    next: AtomicPtr<Block>,
}

static BLOCKS: AtomicPtr<Block> = AtomicPtr::new(ptr::null_mut());

/// All slots that were ever made.
fn slots() -> impl Iterator<Item = &'static Slot> {
    // ORDERING: Acquire - pairs with the Release that published the block.
    let mut block = BLOCKS.load(Acquire);
    std::iter::from_fn(move || {
        // SAFETY: - blocks are leaked and whole once published.
        let this: &'static Block = unsafe { block.as_ref() }?;
        // ORDERING: Relaxed - written before the block was published.
        block = this.next.load(Relaxed);
        Some(this.slots.iter())
    })
    .flatten()
}

fn add_block() {
    let empty = || Slot {
        low: AtomicUsize::new(FREE),
        guard: AtomicUsize::new(0),
        size: AtomicUsize::new(0),
        name: AtomicPtr::new(ptr::null_mut()),
        name_length: AtomicUsize::new(0),
        creator: AtomicU64::new(0),
        number: AtomicU64::new(0),
    };
    let slots = std::array::from_fn(|_| empty());
    let block = Box::leak(Box::new(Block { slots, next: AtomicPtr::new(ptr::null_mut()) }));
    // ORDERING: Relaxed - the exchange below decides.
    let mut head = BLOCKS.load(Relaxed);
    loop {
        // ORDERING: Relaxed - published by the exchange.
        block.next.store(head, Relaxed);
        // ORDERING: AcqRel - Release pairs with `slots`; Acquire keeps the older blocks visible behind this one.
        match BLOCKS.compare_exchange_weak(head, block, AcqRel, Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// A registered guard.
#[derive(Clone, Copy)]
pub(crate) struct Guard(&'static Slot);

impl Guard {
    /// Registers the guard of `length` bytes at `low`, below a stack of `size` bytes.
    pub(crate) fn register(low: usize, length: usize, size: usize) -> Self {
        loop {
            // ORDERING: Relaxed - the slot's content is published by the store of `low` below.
            let free = slots().find(|slot| slot.low.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok());
            let Some(slot) = free else {
                add_block();
                continue;
            };
            slot.guard.store(length, Relaxed);
            slot.size.store(size, Relaxed);
            slot.name.store(ptr::null_mut(), Relaxed);
            // ORDERING: Release - pairs with the handler's Acquire.
            slot.low.store(low, Release);
            return Self(slot);
        }
    }

    pub(crate) fn unregister(self) {
        // ORDERING: Release - pairs with the Acquire of who takes the slot next.
        self.0.low.store(FREE, Release);
    }

    #[inline]
    pub(crate) fn set_label(self, label: Label) {
        // ORDERING: Relaxed throughout - read by a handler on the thread that wrote them.
        let (name, length) = match label.name {
            Some(name) => (name.cast::<u8>().cast_mut(), name.len()),
            None => (ptr::null_mut(), 0),
        };
        self.0.name_length.store(length, Relaxed);
        self.0.name.store(name, Relaxed);
        self.0.creator.store(u64::from(label.creator), Relaxed);
        self.0.number.store(label.number, Relaxed);
    }
}

/// What was there before, for faults that are not ours: SIGSEGV, SIGBUS.
static PREVIOUS: [AtomicPtr<libc::sigaction>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];

const SIGNALS: [libc::c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// Installs the handler; only the first call does anything.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (signal, previous) in SIGNALS.into_iter().zip(&PREVIOUS) {
            // SAFETY: - sigaction is plain data, for which zeros are valid.
            let mut old: libc::sigaction = unsafe { mem::zeroed() };
            // SAFETY: - null means: only tell; `old` is writable.
            if unsafe { libc::sigaction(signal, ptr::null(), &mut old) } != 0 {
                continue;
            }
            // ORDERING: Release - pairs with the handler's Acquire. Leaked: a handler is for the life of the process.
            previous.store(Box::into_raw(Box::new(old)), Release);
            // SAFETY: - as above.
            let mut new: libc::sigaction = unsafe { mem::zeroed() };
            new.sa_sigaction = on_fault as *const () as usize;
            new.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // SAFETY: - `on_fault` has the signature that SA_SIGINFO asks for, and does only what a handler may.
            unsafe { libc::sigaction(signal, &new, ptr::null_mut()) };
        }
    });
}

extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: - the kernel passes a valid siginfo.
    let code = unsafe { (*info).si_code };
    // A positive code comes from the kernel: then the address is that of the fault.
    if code > 0 {
        // SAFETY: - as above.
        let address = unsafe { (*info).si_addr() }.addr();
        if let Some(slot) = slot_at(address) {
            report(slot);
            fall_back_to(signal, None, code);
            return;
        }
    }
    let index = usize::from(signal == libc::SIGBUS);
    // ORDERING: Acquire - pairs with `install`.
    let previous = PREVIOUS[index].load(Acquire);
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

fn slot_at(address: usize) -> Option<&'static Slot> {
    slots().find(|slot| {
        // ORDERING: Acquire - pairs with `register`.
        let low = slot.low.load(Acquire);
        // ORDERING: Relaxed - published by `low`.
        low > TAKEN && (low..low + slot.guard.load(Relaxed)).contains(&address)
    })
}

/// Sets the signal's action back, so that the fault, which happens again on return, has its default effect.
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

fn report(slot: &Slot) {
    let mut line = Line { bytes: [0; 512], length: 0 };
    // What does not fit is cut off: `write_str` never fails.
    let _ = describe(slot, &mut line);
    // SAFETY: - pointer and length describe initialised bytes.
    unsafe { libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.length) };
}

fn describe(slot: &Slot, line: &mut Line) -> fmt::Result {
    // ORDERING: Relaxed - written by the faulting thread.
    let (name, length) = (slot.name.load(Relaxed), slot.name_length.load(Relaxed));
    line.write_str("\nnanos: nano-thread ")?;
    if !name.is_null() {
        // SAFETY: - the name lives while its nano-thread runs, and it runs now (`Label::name`).
        let name = unsafe { std::slice::from_raw_parts(name, length) };
        let shown = &name[..name.len().min(128)];
        let valid =
            str::from_utf8(shown).unwrap_or_else(|error| str::from_utf8(&shown[..error.valid_up_to()]).unwrap_or("?"));
        write!(line, "`{valid}` ")?;
    }
    let (creator, number, size) = (slot.creator.load(Relaxed), slot.number.load(Relaxed), slot.size.load(Relaxed));
    let variable = crate::nano::stack::SIZE_VARIABLE;
    writeln!(line, "(number {number} of member {creator}) overflowed its stack of {size} bytes.")?;
    writeln!(
        line,
        "nanos: give it more with `.stack_size(bytes)` on its task, or all of them with {variable}={}",
        size * 4
    )
}

/// A buffer for one message.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

/// An alternate signal stack of the calling thread, for threads that have none.
pub(crate) struct AlternateStack {
    memory: *mut libc::c_void,
}

impl AlternateStack {
    /// Gives the calling thread an alternate stack; `None` when it has one, or the system refuses (then an overflow ends
    /// the program without a report).
    pub(crate) fn for_this_thread() -> Option<Self> {
        // SAFETY: - stack_t is plain data, for which zeros are valid.
        let mut current: libc::stack_t = unsafe { mem::zeroed() };
        // SAFETY: - null means: only tell.
        if unsafe { libc::sigaltstack(ptr::null(), &mut current) } != 0 || current.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: - a fresh mapping of no file touches nothing that exists.
        let memory =
            unsafe { libc::mmap(ptr::null_mut(), ALTERNATE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if memory == libc::MAP_FAILED {
            return None;
        }
        let this = Self { memory };
        let stack = libc::stack_t { ss_sp: memory, ss_flags: 0, ss_size: ALTERNATE };
        // SAFETY: - the memory is ours until `drop` has taken it out of use.
        (unsafe { libc::sigaltstack(&stack, ptr::null_mut()) } == 0).then_some(this)
    }
}

impl Drop for AlternateStack {
    fn drop(&mut self) {
        // SAFETY: - stack_t is plain data, for which zeros are valid.
        let mut current: libc::stack_t = unsafe { mem::zeroed() };
        // SAFETY: - null means: only tell.
        let known = unsafe { libc::sigaltstack(ptr::null(), &mut current) } == 0;
        if known && current.ss_sp == self.memory {
            let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: - takes the stack out of use; the thread is not on it, since it runs destructors.
            unsafe { libc::sigaltstack(&none, ptr::null_mut()) };
        }
        // SAFETY: - our mapping, which the kernel does not use any more.
        unsafe { libc::munmap(self.memory, ALTERNATE) };
    }
}
