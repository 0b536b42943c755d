//! The guise of a virtual processor: how its master may take its part of a region, as that virtual processor, while that waits for a
//! turn on the processor where the master runs (module `stand_in` says when).
//!
//! # Protocol
//! One word says who is the virtual processor ([`platform::guise`] says what that is).
//! 1. *Worn*: its own thread. Before that yields or sleeps, having no work, it notes its registers and hangs the guise up (G1), and
//!    touches nothing of its own any more: no thread-local, no `errno`, no lock. It hears no signals until it wears the guise again: a
//!    handler would find the thread-locals of a part that somebody else runs.
//! 2. *Hung*: nobody. The master takes it (G2), and runs the part; or the thread comes back and takes it first (G3).
//! 3. *Taken*: the master's thread. The own thread, which finds it so, yields again; after some times the word says *awaited*, and
//!    the own thread sleeps there until it is woken behind G4.
//! 4. *Used*: hung, by the master (G4). The own thread takes it (G3), and has then finished what its slot was supplied with; or it is
//!    amid that, where the master left it, and goes on there.
//!
//! # Invariants
//! I1  Who wears or took it is the only one that touches what belongs to the virtual processor: the C library's thread-locals (the
//!     allocator's among them), this crate's `Local`, the registers below.
//! I2  The own thread looks for work only while it wears the guise: so who took it finds work that nobody has begun, or none.
//!
//! # Races
//! *Both at once.* A (own thread) comes back from its yield while B (master) takes the guise: one exchange comes first. Had B, A
//! yields until B is done, and finds *used*. Had A, B's exchange fails, and B waits for A as ever.
//! *Used twice.* B hangs it up, forks again, and takes it again, while A has not run: the word says *used*, then *taken*, then *used*.
//! A looks which number its slot has finished, whatever happened in between.
//! *Left amid.* B leaves the part at a barrier, and goes on with its own, which waits for A in a way that nobody sees. A, which is
//! ready to run, comes back from its yield, takes the guise, and goes on with the part on its own thread. Had A slept, B woke it.
//! *A long part.* A is given the processor while B is amid the part, and yields: where B computes it is given it again a time slice
//! later, where B sleeps at once. So it yields a few times only, and sleeps.
//! *Lost wake.* A's exchange from *taken* to *awaited*, and B's to *used*, are in one order: B sees *awaited* and wakes, or A's
//! fails. The kernel compares the word before A sleeps.
//!
//! # Orderings
//! G1 and G4 Release with G2 and G3 Acquire: registers, thread-locals, and the finished number go with the guise.
//!
//! Models: `tests/loom_guise.rs`.

use platform::futex::PrivateFutex;
use platform::guise;
use platform::sync::HandCell;
use platform::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const WORN: u32 = 0;
const HUNG: u32 = 1;
const TAKEN: u32 = 2;
const USED: u32 = 3;
/// [`TAKEN`], and the own thread sleeps.
const AWAITED: u32 = 4;

/// How often the own thread rests before it sleeps while its guise is taken.
const RESTS: u32 = if cfg!(loom) { 1 } else { 16 };

/// See the module head. `R`: what is handed over.
#[derive(Debug)]
pub struct Guise<R = guise::Guise> {
    state: PrivateFutex,
    /// Whoever wears or took the guise (I1).
    registers: HandCell<R>,
}

// SAFETY: - the registers are handed over by the protocol.
unsafe impl<R: Send> Sync for Guise<R> {}

impl<R> Guise<R> {
    /// Worn.
    pub fn new(registers: R) -> Self {
        Self { state: PrivateFutex::new(WORN), registers: HandCell::new(registers) }
    }

    /// Hangs the guise up while `rest` runs, with what `note` writes; true when somebody used it. For its own thread.
    ///
    /// # Safety
    /// - The caller is the own thread, and wears the guise.
    /// - `rest` touches nothing that belongs to the virtual processor, and returns.
    #[inline(always)]
    pub unsafe fn while_hung(&self, note: impl FnOnce(*mut R), rest: impl Fn()) -> bool {
        // SAFETY: - I1: the caller wears it.
        unsafe { self.registers.with_mut(note) };
        // ORDERING: Release (G1) - pairs with G2.
        self.state.word().store(HUNG, Release);
        let mut rests = 0;
        loop {
            rest();
            // ORDERING: Relaxed - G3 orders.
            let state = self.state.word().load(Relaxed);
            if state == TAKEN || state == AWAITED {
                rests += 1;
                if rests >= RESTS {
                    self.sleep();
                }
                continue;
            }
            // ORDERING: Acquire (G3) - pairs with G4.
            if self.state.word().compare_exchange(state, WORN, Acquire, Relaxed).is_ok() {
                return state == USED;
            }
        }
    }

    /// Sleeps while the guise is taken. A futex call touches nothing that belongs to a thread.
    #[cold]
    fn sleep(&self) {
        // ORDERING: Relaxed, both - G3 orders.
        let _ = self.state.word().compare_exchange(TAKEN, AWAITED, Relaxed, Relaxed);
        let _ = self.state.wait(AWAITED, None);
    }

    /// Calls `body` with what was noted, and left.
    ///
    /// # Safety
    /// - The caller wears the guise, or took it, and makes no reference that outlives its own use.
    #[inline]
    pub unsafe fn with<T>(&self, body: impl FnOnce(*mut R) -> T) -> T {
        // SAFETY: - I1 (caller's contract).
        unsafe { self.registers.with_mut(body) }
    }

    /// Takes the guise if it hangs, calls `body` with what was noted, and hangs it up again; `None` where its own thread wears it.
    ///
    /// # Safety
    /// - The caller is the only one besides the own thread.
    #[inline]
    pub unsafe fn take<T>(&self, body: impl FnOnce(*mut R) -> T) -> Option<T> {
        // ORDERING: Relaxed - G2 orders.
        let state = self.state.word().load(Relaxed);
        // ORDERING: Acquire (G2) - pairs with G1, or with the G4 of the caller's last part.
        if state == WORN || self.state.word().compare_exchange(state, TAKEN, Acquire, Relaxed).is_err() {
            return None;
        }
        // SAFETY: - I1: the caller took it.
        let result = unsafe { self.registers.with_mut(body) };
        // ORDERING: Release (G4) - pairs with G3.
        if self.state.word().swap(USED, Release) == AWAITED {
            self.state.wake(1);
        }
        Some(result)
    }
}
