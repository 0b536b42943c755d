//! The report of a stack overflow: which task it was, how large its stack was, and the remedy, in
//! the place of a bare SIGSEGV.
//!
//! # Protocol
//! Each stack registers its guard in a list that only grows (blocks of slots, linked once, never
//! freed). At a page fault ([`platform::page_fault`]), on the thread's alternate stack, the
//! reporter looks for the address among the guards, and writes the report if it is there. The fault
//! then ends the program; any other one goes to the handler that was there before.
//!
//! # Lines
//! Each task that starts writes its label into the slot of its stack. So a slot has a cache line of
//! its own: one with slots of two threads moved for more than every second task (counted).
//!
//! # In the handler
//! Only loads of atomics, formatting into a buffer on the stack, and `write`: no allocation, no
//! lock, no thread-local storage (which may be allocated at first use).

use platform::page_fault;
use std::fmt::{self, Write};
use std::ptr;
use std::sync::atomic::{
    AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Slots in a block.
const SLOTS: usize = 64;

/// What runs on a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// The name that the program gave, which lives as long as the nano-thread runs.
    pub(crate) name: Option<*const [u8]>,
    /// The member that created it.
    pub(crate) creator: u32,
    /// Which of its creator's.
    pub(crate) number: u64,
}

/// On one line, not on two as `CachePadded` would have it: a stack that registers looks at all
/// other slots.
#[repr(align(64))]
struct GuardSlot {
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
    slots: [GuardSlot; SLOTS],
    next: AtomicPtr<Block>,
}

static BLOCKS: AtomicPtr<Block> = AtomicPtr::new(ptr::null_mut());

/// All slots that were ever made.
fn slots() -> impl Iterator<Item = &'static GuardSlot> {
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
    let empty = || GuardSlot {
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
        // ORDERING: AcqRel - Release pairs with `slots`; Acquire keeps the older blocks visible
        // after this one.
        match BLOCKS.compare_exchange_weak(head, block, AcqRel, Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// A registered guard.
#[derive(Clone, Copy)]
pub(crate) struct Guard(&'static GuardSlot);

impl Guard {
    /// Registers the guard of `length` bytes at `low`, below a stack of `size` bytes.
    pub(crate) fn register(low: usize, length: usize, size: usize) -> Self {
        loop {
            // ORDERING: Relaxed - the slot's content is published by the store of `low` below.
            let free = slots()
                .find(|slot| slot.low.compare_exchange(FREE, TAKEN, Acquire, Relaxed).is_ok());
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
        // ORDERING: Release - pairs with the Acquire of the thread that takes the slot next.
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

/// Has overflows reported from now on; only the first call does anything.
pub(crate) fn install() {
    // SAFETY: - `report_if_ours` does only what a handler may (module head).
    unsafe { page_fault::install(report_if_ours) };
}

/// The reporter of page faults ([`page_fault`]).
fn report_if_ours(address: usize) -> bool {
    slot_at(address).inspect(|slot| report(slot)).is_some()
}

fn slot_at(address: usize) -> Option<&'static GuardSlot> {
    slots().find(|slot| {
        // ORDERING: Acquire - pairs with `register`.
        let low = slot.low.load(Acquire);
        // ORDERING: Relaxed - published by `low`.
        low > TAKEN && (low..low + slot.guard.load(Relaxed)).contains(&address)
    })
}

fn report(slot: &GuardSlot) {
    let mut line = MessageBuffer { bytes: [0; 512], length: 0 };
    // What does not fit is cut off: `write_str` never fails.
    let _ = describe(slot, &mut line);
    page_fault::write_to_stderr(&line.bytes[..line.length]);
}

fn describe(slot: &GuardSlot, line: &mut MessageBuffer) -> fmt::Result {
    // ORDERING: Relaxed - written by the faulting thread.
    let (name, length) = (slot.name.load(Relaxed), slot.name_length.load(Relaxed));
    line.write_str("\nnanos: nano-thread ")?;
    if !name.is_null() {
        // SAFETY: - the name lives while its nano-thread runs, and it runs now (`Label::name`).
        let name = unsafe { std::slice::from_raw_parts(name, length) };
        let shown = &name[..name.len().min(128)];
        let valid = str::from_utf8(shown)
            .unwrap_or_else(|error| str::from_utf8(&shown[..error.valid_up_to()]).unwrap_or("?"));
        write!(line, "`{valid}` ")?;
    }
    let (creator, number, size) =
        (slot.creator.load(Relaxed), slot.number.load(Relaxed), slot.size.load(Relaxed));
    let variable = crate::tasks::stack::SIZE_VARIABLE;
    writeln!(line, "(number {number} of member {creator}) overflowed its stack of {size} bytes.")?;
    writeln!(
        line,
        "nanos: give it more with `.stack_size(bytes)` on its task, or all of them with \
         {variable}={}",
        size * 4
    )
}

/// A buffer for one message.
struct MessageBuffer {
    bytes: [u8; 512],
    length: usize,
}

impl Write for MessageBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.length += count;
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_stack_has_its_label_on_a_line_of_its_own() {
        let guards = [1, 2, 3].map(|page| Guard::register(page << 12, 1, 1));
        let lines = guards.iter().flat_map(|guard| {
            let begin = ptr::from_ref(guard.0).addr();
            begin / 64..=(begin + size_of::<GuardSlot>() - 1) / 64
        });
        let lines: Vec<_> = lines.collect();
        guards.into_iter().for_each(Guard::unregister);
        assert_eq!(lines.iter().collect::<HashSet<_>>().len(), lines.len(), "{lines:?}");
    }
}
