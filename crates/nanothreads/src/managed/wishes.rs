//! How many processors the program asks for from moment to moment, and what it gives back (D7, M2, M6).
//!
//! # Rules
//! A VP that looked in vain before it sleeps *lowers* the program's wish:
//! - W1 Where another program wants processors, it gives its own back ([`Client::release`]): the manager passes it on
//!   at once. It spun for [`SHORT`](crate::patience::SHORT) before.
//! - W2 Where nobody does, the VP of seat 1 takes the request down to the masters, if there was no work for [`SERIAL`]: a
//!   program that comes later finds processors that nobody uses. It spun for [`HOT`](crate::patience::HOT) before, and the
//!   processors stay in the grant until somebody comes ([`Client::request_one_for_now`]).
//!
//! The master's next fork (or a VP that finds work after all) lets it *rise*: it asks for all again, and where somebody came and
//! went meanwhile it waits for the answer, at most [`ANSWER`].
//!
//! # Races
//! A (a VP) lowers while B (the master) forks and does not see it: the region's work is in A's line before B looks whether A
//! sleeps, and A looks at its line after it has lowered, so that A finds the work, and rises itself
//! ([`Managed::is_awake`](super::Managed::is_awake)). Lowering, rising and asking hold a lock: what was asked last is what
//! the state says.
//!
//! # Orderings
//! `down`: Relaxed. B's look may miss it; A's own look comes after it in program order. The numbers are under the lock.

use crate::sizer::Lease;
use arena::client::Client;
use platform::clock::Ticks;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Microseconds without work that make a serial phase.
const SERIAL: u64 = 1_000;
/// The most microseconds that a fork waits for processors that it gave up: what a manager with nothing else to do takes, a few
/// times over.
const ANSWER: u64 = 200;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    down: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// What the masters want.
    wanted: u32,
    /// Processors were given back (W1).
    gave_back: bool,
    /// The request is down to the masters (W2).
    fell: bool,
}

impl Wishes {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when the wish is lower than what the masters want.
    #[inline]
    pub(super) fn are_down(&self) -> bool {
        self.down.load(Relaxed)
    }

    /// The masters want so many.
    pub(super) fn ask(&self, client: &Client, wanted: usize) {
        let mut state = self.state();
        state.wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        state.fell = false;
        client.request(state.wanted);
    }

    /// W1, W2. The VP of `seat` found no work for [`SHORT`](crate::patience::SHORT), and since.
    pub(super) fn lower(&self, client: &Client, seat: usize, lease: Lease, since: Ticks) {
        let mut state = self.state();
        match lease {
            Lease::Wanted => {
                // Only what is its own: a seat beyond the grant has nothing to give.
                let Some(cpu) = client.vp(seat).0 else { return };
                state.gave_back = true;
                self.down.store(true, Relaxed);
                client.release(cpu);
            }
            Lease::Dedicated if seat == 1 && state.wanted > 1 && since.elapsed_ticks() >= Ticks::about_us(SERIAL) => {
                state.fell = true;
                self.down.store(true, Relaxed);
                client.request_one_for_now();
            }
            Lease::Dedicated | Lease::Unmanaged => {}
        }
    }

    /// All that the masters want again, for a region that could use `expected`.
    #[cold]
    pub(super) fn rise(&self, client: &Client, expected: usize) {
        let mut state = self.state();
        self.down.store(false, Relaxed);
        if std::mem::take(&mut state.gave_back) {
            client.resume();
        }
        if !std::mem::take(&mut state.fell) {
            return;
        }
        client.request(state.wanted);
        let expected = state.wanted.min(u32::try_from(expected).unwrap_or(u32::MAX));
        drop(state);
        let begin = Ticks::now();
        while client.grant().processors < expected
            && client.is_alive()
            && begin.elapsed_ticks() < Ticks::about_us(ANSWER)
        {
            platform::sync::pause();
        }
    }
}
