//! What a master claims of the program: which processors its regions may use beside other masters', and how busy they make
//! the machine (D6).

use super::Local;
use crate::engine_state::engine;
use std::cell::Cell;

/// Regions between two looks at the clock for [`TeamSizer::refresh`](crate::sizer::TeamSizer::refresh).
const FORKS_PER_LOOK: u32 = 16;

/// See the module head. Only an outermost master has more than `forks` in it.
#[derive(Debug, Default)]
pub(super) struct Claim {
    /// Counted among the engine's masters.
    enrolled: Cell<bool>,
    /// Processors that the next or open region took, when there are several masters.
    taken: Cell<usize>,
    /// What the last region could have used.
    wanted: Cell<usize>,
    /// Which region the thread forks next, if somebody said so.
    region: Cell<usize>,
    /// Regions forked, to look at mask and quota now and then.
    forks: Cell<u32>,
}

impl Claim {
    /// In the child of a fork: what was claimed is the parent's.
    pub(super) fn forget(&self) {
        self.enrolled.set(false);
        self.taken.set(0);
        self.wanted.set(0);
    }

    /// Gives back what the last region took.
    #[inline]
    fn give_back(&self) {
        let taken = self.taken.take();
        if taken != 0 {
            engine().unclaim(taken);
        }
    }

    /// The thread forks no more.
    pub(super) fn end(&self) {
        self.give_back();
        if self.enrolled.take() {
            engine().want(self.wanted.take(), 0);
            engine().dismiss_master();
        }
    }
}

impl Local {
    /// Says which region the thread forks next.
    #[inline]
    pub(crate) fn identify_region(&self, region: usize) {
        self.claim.region.set(region);
    }

    /// How many threads a region may have that could use `wanted`: what the program has now, less what other masters'
    /// regions use (D6). Cost with one master: two loads.
    #[inline]
    pub(crate) fn grant(&self, wanted: usize) -> usize {
        let engine = engine();
        let claim = &self.claim;
        let forks = claim.forks.get().wrapping_add(1);
        claim.forks.set(forks);
        if forks.is_multiple_of(FORKS_PER_LOOK) {
            engine.sizer().refresh();
        }
        if self.is_outermost() {
            if !claim.enrolled.get() {
                claim.enrolled.set(true);
                engine.enroll_master();
            }
            if claim.wanted.get() != wanted {
                engine.want(claim.wanted.replace(wanted), wanted);
            }
            claim.give_back();
            let region = claim.region.take();
            let most = engine.managed().map_or(usize::MAX, |managed| managed.at_fork(wanted, region));
            if !engine.has_one_master() {
                let taken = engine.claim(wanted.min(most));
                claim.taken.set(taken);
                return taken;
            }
            return wanted.min(engine.sizer().limit()).min(most).max(1);
        }
        wanted.min(self.limit()).max(1)
    }

    /// Before a region of `size` threads, more than one: its crowd (see [`Membership::crowd`](crate::membership::Membership)).
    #[inline]
    pub(crate) fn occupy(&self, size: u32) -> u32 {
        self.counters().forked(size);
        if let Some(managed) = engine().managed()
            && self.is_outermost()
        {
            managed.forked(size);
        }
        self.crowd_of(size)
    }

    /// Before `size` threads of this master work: how many work then.
    #[inline]
    pub(crate) fn crowd_of(&self, size: u32) -> u32 {
        if !self.is_outermost() {
            return match self.head() {
                Some(head) => head.crowd(size),
                None => self.membership.get().crowd.saturating_mul(size),
            };
        }
        let engine = engine();
        if engine.has_one_master() {
            return size;
        }
        let size_now = size as usize;
        u32::try_from(engine.occupy(self.claim.taken.replace(size_now), size_now)).unwrap_or(u32::MAX).max(size)
    }

    /// After the join of a region: what an outermost one took is free again.
    #[inline]
    pub(crate) fn settle(&self) {
        if self.is_outermost() {
            self.claim.give_back();
        }
    }
}
