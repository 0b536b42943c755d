//! A thread that lends its guise, and one that runs a part in it.

use super::*;
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

thread_local! {
    static NAME: Cell<u32> = const { Cell::new(0) };
}

/// A thread, lent: the test and it take turns.
struct Lent {
    guise: *mut Guise,
    turn: AtomicU32,
    seen: [Cell<usize>; 4],
}

// SAFETY: - one of the two at a time.
unsafe impl Sync for Lent {}

impl Lent {
    fn await_turn(&self, turn: u32) {
        while self.turn.load(Ordering::Acquire) != turn {
            std::hint::spin_loop();
        }
    }

    fn give_turn(&self, turn: u32) {
        self.turn.store(turn, Ordering::Release);
    }
}

fn thread() -> usize {
    // SAFETY: - takes nothing.
    unsafe { libc::pthread_self() as usize }
}

fn errno() -> *mut i32 {
    // SAFETY: - takes nothing.
    unsafe { libc::__errno_location() }
}

/// # Safety
/// - `lent` points to a [`Lent`] whose guise runs this.
unsafe extern "C" fn part(lent: *mut c_void) {
    // SAFETY: - caller's contract; errno is the guise's.
    unsafe {
        let lent = &*lent.cast::<Lent>();
        let here = 0_u8;
        lent.seen[0].set(thread());
        lent.seen[1].set(NAME.replace(2) as usize);
        lent.seen[2].set(ptr::from_ref(&here) as usize);
        *errno() = 9;
        Guise::suspend(lent.guise);
        lent.seen[3].set(NAME.get() as usize + thread());
    }
}

/// Begins a part in a thread's guise, and has it ended by the caller, or by the lender itself.
fn lend(ends_itself: bool) {
    if !is_possible() {
        return crate::skip!("no thread of this process can take another's guise");
    }
    let mut guise = Guise::default();
    let lent = Lent { guise: &raw mut guise, turn: AtomicU32::new(0), seen: Default::default() };
    let lent = &lent;
    std::thread::scope(|scope| {
        let lender = scope.spawn(move || {
            NAME.set(1);
            let here = 0_u8;
            // SAFETY: - possible; the other one does not use it yet, and no thread-local is touched before it is told.
            unsafe { (*lent.guise).read() };
            lent.give_turn(1);
            lent.await_turn(2);
            if ends_itself {
                // SAFETY: - suspended; the own thread.
                unsafe { Guise::resume(lent.guise) };
            }
            // SAFETY: - errno is the thread's.
            (NAME.get(), thread(), ptr::from_ref(&here) as usize, unsafe { *errno() })
        });
        lent.await_turn(1);
        NAME.set(7);
        // SAFETY: - the lender spins until it is told; errno is the thread's.
        unsafe {
            *errno() = 5;
            let own = thread();
            assert!(!(*lent.guise).is_foreign());
            Guise::begin(lent.guise, part, ptr::from_ref(lent).cast_mut().cast());
            assert!((*lent.guise).is_suspended());
            assert_eq!((thread(), NAME.get(), *errno()), (own, 7, 5));
            if !ends_itself {
                Guise::resume(lent.guise);
                assert_eq!((thread(), NAME.get(), *errno()), (own, 7, 5));
            }
        }
        lent.give_turn(2);
        let (name, lender, stack, errno) = lender.join().expect("it does not panic");
        assert_eq!((name, errno), (2, 9));
        let [who, before, place, after] = [0, 1, 2, 3].map(|at| lent.seen[at].get());
        assert_eq!((who, before, after), (lender, 1, lender + 2));
        assert!(place < stack - ROOM / 2 && place > stack - 2 * ROOM, "{place:x} of {stack:x}");
    });
    assert!(!guise.is_suspended());
}

#[test]
fn a_part_finds_the_lender_s_thread_locals_and_stack_and_leaves_the_caller_s_alone() {
    lend(false);
}

#[test]
fn a_part_that_another_thread_began_is_ended_by_the_lender() {
    lend(true);
}

fn flushes() -> bool {
    let tiny = std::hint::black_box(f32::MIN_POSITIVE);
    std::hint::black_box(tiny / 2.0) == 0.0
}

/// # Safety
/// - `seen` is the test's.
unsafe extern "C" fn flush(seen: *mut c_void) {
    // SAFETY: - the test's word; small numbers may become 0.
    unsafe {
        *seen.cast::<bool>() = flushes();
        let mut modes = 0_u32;
        std::arch::asm!("stmxcsr [{0}]", in(reg) &raw mut modes);
        modes |= 0x8040;
        std::arch::asm!("ldmxcsr [{0}]", in(reg) &raw const modes);
        assert!(flushes());
    }
}

#[test]
fn modes_of_arithmetic_are_the_lender_s() {
    if !is_possible() {
        return crate::skip!("no thread of this process can take another's guise");
    }
    let (mut guise, mut before) = (Guise::default(), false);
    let seen = (&raw mut before).cast();
    // SAFETY: - the thread's own guise, which it does not use while it runs in it.
    unsafe {
        guise.read();
        for had_flushed in [false, true] {
            Guise::begin(&raw mut guise, flush, seen);
            assert_eq!((before, flushes()), (had_flushed, false));
        }
        guise.take_over();
        assert!(flushes());
    }
}
