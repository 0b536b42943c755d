//! What the program "has": a source of team sizes that the programs change while they run.

use engine::sizer::Lease;
use nanothreads::TeamSizer;
use platform::affinity::{self, CpuSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// Processors that are granted.
static LIMIT: AtomicUsize = AtomicUsize::new(4);
/// Counts the changes. Even: the processors are not said; odd: bound to the first of the mask.
static EPOCH: AtomicU32 = AtomicU32::new(0);
static LEASE: AtomicU32 = AtomicU32::new(0);
static MASK: OnceLock<CpuSet> = OnceLock::new();

/// The sizer of all stress programs.
pub(crate) struct Changing;

/// From now on `limit` processors are granted, until another step says otherwise.
pub(crate) fn resize(limit: usize, bound: bool, lease: u32) {
    LIMIT.store(limit, Relaxed);
    LEASE.store(lease, Relaxed);
    let next = |epoch: u32| Some((epoch + 2) & !1 | u32::from(bound));
    let _ = EPOCH.fetch_update(Relaxed, Relaxed, next);
}

impl TeamSizer for Changing {
    fn limit(&self) -> usize {
        LIMIT.load(Relaxed)
    }

    fn lease(&self) -> Lease {
        match LEASE.load(Relaxed) % 3 {
            0 => Lease::Unmanaged,
            1 => Lease::Wanted,
            _ => Lease::Dedicated,
        }
    }

    fn epoch(&self) -> u32 {
        EPOCH.load(Relaxed)
    }

    fn processors(&self) -> Option<CpuSet> {
        let mask = MASK.get_or_init(|| {
            affinity::affinity(None).expect("the kernel tells each thread its mask")
        });
        (EPOCH.load(Relaxed) % 2 == 1).then(|| mask.iter().take(self.limit()).collect())
    }
}

/// Asks for the mask while no thread is bound yet.
pub(crate) fn remember_mask() {
    let _ = Changing.processors();
    MASK.get_or_init(|| affinity::affinity(None).expect("the kernel tells each thread its mask"));
}
