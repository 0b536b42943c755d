//! The floor of a fork after a gap: one thread that sleeps in a futex, woken, and nothing else.
//!
//! What a region costs above this is ours (or a peer's) to answer for; what this costs is the
//! kernel's and, in a virtual machine, the hypervisor's: a halted processor leaves the halt by an
//! interrupt that another one sends.

use crate::harness::place::{Row, bind_to};
use crate::harness::regions::{count, counted};
use crate::harness::sample::Subject;
use crate::harness::{Engine, Runtime};
use platform::futex::PrivateFutex;
use platform::sync::CachePadded;
use std::hint::spin_loop;
use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use std::thread;

struct Pair {
    /// The number of the last region; the other thread sleeps while it is the one that it knows.
    forked: CachePadded<PrivateFutex>,
    joined: CachePadded<AtomicU32>,
}

pub(super) fn engine() -> Engine {
    Engine::new("bare futex", Runtime::Crate, |row| {
        let pair: &'static Pair = Box::leak(Box::new(Pair {
            forked: CachePadded::new(PrivateFutex::new(0)),
            joined: CachePadded::new(AtomicU32::new(0)),
        }));
        thread::spawn(move || {
            if row == Row::Bound {
                bind_to(1);
            }
            pair.serve()
        });
        Ok(Subject::new(move || pair.region(), counted(2, 1)))
    })
}

impl Pair {
    fn serve(&self) -> ! {
        let mut known = 0;
        loop {
            // ORDERING: Acquire - pairs with the Release in `region`.
            while self.forked.word().load(Acquire) == known {
                // The reason why the wait ended does not matter: the word says what there is.
                let _ = self.forked.wait(known, None);
            }
            known = known.wrapping_add(1);
            count(1);
            // ORDERING: Release - pairs with the Acquire in `region`.
            self.joined.store(known, Release);
        }
    }

    fn region(&self) {
        // ORDERING: Relaxed - this thread alone writes it.
        let number = self.forked.word().load(Relaxed).wrapping_add(1);
        // ORDERING: Release - pairs with the Acquire in `serve`.
        self.forked.word().store(number, Release);
        self.forked.wake(1);
        count(0);
        // ORDERING: Acquire - pairs with the Release in `serve`.
        while self.joined.load(Acquire) != number {
            spin_loop();
        }
    }
}
