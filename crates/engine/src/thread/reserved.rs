//! What a master has reserved, how it is told from what others did since, and what its root lends.

use super::group::Reservation;
use super::group::WorkerLender;
use super::state::Local;
use crate::workers::worker::Worker;

impl Local {
    /// What `reserve` has made ready, to be told from what is made ready later.
    #[inline]
    pub(crate) fn reservation(&self) -> Reservation {
        self.with_group(|group| group.reservation())
    }

    /// The workers of a team of `size`, more than one, if they are still as `reservation` left
    /// them: at `depth`, where a region was opened, and where the thread `is_root` or not, used by
    /// no other team meanwhile, not taken back by the root. Cost: a few loads.
    #[inline]
    pub(crate) fn reserved(
        &self,
        depth: usize,
        is_root: bool,
        reservation: Reservation,
        size: usize,
    ) -> Option<&[&'static Worker]> {
        let generation = if is_root { None } else { Some(self.generation()) };
        self.with_group_at(depth, |group| {
            let is_ready = group.reservation() == reservation
                && reservation != Reservation::NONE
                && generation.is_none_or(|generation| group.generation == generation);
            // SAFETY: - L2: as in `members`.
            is_ready.then(|| unsafe { &*group.first(size) })
        })
    }

    /// What the root of the region around lends from; null outside regions.
    #[inline]
    pub(crate) fn lender(&self) -> *const WorkerLender {
        self.membership.get().root.cast()
    }

    pub(crate) fn borrow(&self, wanted: usize, has: usize) -> Vec<&'static Worker> {
        let root = self.lender();
        if root.is_null() {
            return Vec::new();
        }
        // SAFETY: - the root's thread has the region open that this thread is a member of, so its
        // state lives.
        let root = unsafe { &*root };
        root.borrow(wanted, has)
    }

    /// The number of what the root lends now.
    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        let root = self.lender();
        if root.is_null() {
            return 0;
        }
        // SAFETY: - as in `borrow`.
        let root = unsafe { &*root };
        root.generation()
    }

    /// A region of `size` threads inside another one begins.
    #[inline]
    pub(super) fn open_beyond(&self, depth: usize, is_root: bool, size: usize) {
        // SAFETY: - as in `borrow`.
        let root = unsafe { self.lender().as_ref() };
        if let Some(root) = root.filter(|_| !is_root) {
            self.with_group_at(depth, |group| {
                if size - 1 > group.lent {
                    group.beyond.open(root);
                }
            });
        }
    }

    /// It is joined.
    #[inline]
    pub(super) fn close_beyond(&self, depth: usize) {
        // SAFETY: - as in `borrow`.
        if let Some(root) = unsafe { self.lender().as_ref() } {
            self.with_group_at(depth, |group| group.close_beyond(root));
        }
    }
}
