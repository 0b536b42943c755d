//! Which kernel thread is at a place where others may wait for it.
//!
//! Threads that wait ask the kernel where it is, and hand it their processor where both share one
//! ([`spin_policy::beside`](crate::waits::spin_policy::beside)).

use crate::thread::Local;
use platform::affinity::Tid;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// See the module head.
#[derive(Debug, Default)]
pub struct Occupant(AtomicI32);

impl Occupant {
    /// The calling thread is. Cost when it was: a load.
    #[inline]
    pub fn is_me(&self, local: &Local) {
        let Tid(own) = local.tid();
        // ORDERING: Relaxed, here and below - a number on its own, for a hint.
        if self.0.load(Relaxed) != own {
            self.0.store(own, Relaxed);
        }
    }

    /// The one that is there, or was last.
    pub fn thread(&self) -> Option<Tid> {
        match self.0.load(Relaxed) {
            0 => None,
            tid => Some(Tid(tid)),
        }
    }
}
