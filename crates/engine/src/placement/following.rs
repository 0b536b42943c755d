//! Which grant a worker was last put in its place by, where several threads may put it somewhere.
//!
//! # Protocol
//! The worker itself, at a safe point: F1 compares the grant's epoch with the one that it follows;
//! when it is another one: F2 stores the new one, F3 reads where that puts it, and goes there. Any
//! other thread (the master of a sleeping worker excepted, for which F1 to F3 hold): G1 puts the
//! worker somewhere; G2 stores that the worker's place is unknown, which is no epoch.
//!
//! # Invariants
//! V-I1 When all are done, the worker is where the grant in force puts it, or its next F1 says that
//! it follows another one.
//!
//! # Races
//! *Both at once.* A (the worker) stores epoch 4 (F2) and is about to bind itself; B (a thread that
//! saw the manager die) unbinds it (G1) and stores (G2); A binds itself to what 4 said (F3). A's
//! next F1 finds that its place is unknown, and A goes to its place once more. With G2 before G1, A
//! could do F1 to F3 in between: B would have the last word on the place, and A on the epoch. And
//! if G2 stored [`NONE`], the epoch of a program without a manager, A would stay where 4 said when
//! the manager died.
//!
//! *A grant in between.* A stores 4, the manager publishes 5, A reads 5's place. The next F1
//! compares 4 with 5, and A goes to the same place again.
//!
//! # Helping
//! A worker that was squeezed gets one helper in one epoch ([`Helped`]): the first thread that
//! asks. The helper puts the worker on its own processor, as any other thread does (G1, G2), so
//! that the worker finds its own place at its next F1. The mark is a swap: two helpers that first
//! read it and then wrote it would both give their processor away for one worker, and another
//! squeezed one would go without.
//!
//! # Orderings
//! Relaxed, all: the kernel binds a thread under a lock of that thread, so that the second thread
//! to bind it sees (and in the order of `epoch` follows) what the first one stored before.

use platform::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The epoch of a program without a manager.
pub(crate) const NONE: u32 = 0;
/// The worker's place is unknown. No epoch: those of grants are odd.
const UNKNOWN: u32 = 2;

/// See the module head.
#[derive(Debug)]
pub(crate) struct Following(AtomicU32);

impl Default for Following {
    fn default() -> Self {
        Self::unknown()
    }
}

impl Following {
    /// Of a worker that was not put anywhere yet.
    pub(crate) fn unknown() -> Self {
        Self(AtomicU32::new(UNKNOWN))
    }

    /// F1: true when the worker was put where the grant of `epoch` puts it. Cost: a load of a line
    ///     that is rarely written.
    #[inline]
    pub(crate) fn is(&self, epoch: u32) -> bool {
        // ORDERING: Relaxed - see the module head.
        self.0.load(Relaxed) == epoch
    }

    /// F2 and F3. `go` reads the grant and binds the worker.
    pub(crate) fn follow(&self, epoch: u32, go: impl FnOnce()) {
        // ORDERING: Relaxed - see the module head.
        self.0.store(epoch, Relaxed);
        go();
    }

    /// G1 and G2. `put` binds the worker, or unbinds it.
    pub(crate) fn put_elsewhere(&self, put: impl FnOnce()) {
        put();
        // ORDERING: Relaxed - see the module head.
        self.0.store(UNKNOWN, Relaxed);
    }
}

/// Whether a worker was helped in an epoch; see the module head.
#[derive(Debug)]
pub(crate) struct Helped(AtomicU32);

impl Default for Helped {
    fn default() -> Self {
        Self::never()
    }
}

impl Helped {
    /// Not helped yet.
    pub(crate) fn never() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// True for the first thread that asks in this epoch: it helps the worker.
    pub(crate) fn take(&self, epoch: u32) -> bool {
        // ORDERING: Relaxed - the swap alone decides.
        self.0.swap(epoch, Relaxed) != epoch
    }
}

#[cfg(all(test, loom))]
mod model;
