//! What a master claims of the program: which processors its regions may use beside other masters',
//! and how busy they make the machine (D6).

use super::Local;
use super::group::UNKNOWN;
use super::stint::Stint;
use crate::program::program;
use crate::shares::Share;
use crate::source::{self, source};
use platform::clock::Ticks;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// Regions between two looks at the clock for
/// [`TeamSizer::refresh`](crate::sizer::TeamSizer::refresh), and between two at which what regions
/// inside wanted is forgotten.
const FORKS_PER_LOOK: u32 = 16;

/// Time between two such looks where forks get less than they could use, whatever their number, in
/// us.
const LOOK_US: u64 = 5_000;

/// All that the program has, of [`Claim::spare`].
const ALL: usize = usize::MAX;

/// See the module head. Only an outermost master has more than `forks` in it.
#[derive(Debug)]
pub(super) struct Claim {
    /// What it holds beside other masters; it counts among the engine's masters.
    share: RefCell<Option<Arc<Share>>>,
    is_enrolled: Cell<bool>,
    /// The next or open region is counted: there are several masters.
    is_counted: Cell<bool>,
    /// What that may lend to the masters inside beyond its own members; [`ALL`]: the only master.
    spare: Cell<usize>,
    /// What the last region could have used, and the regions inside.
    wanted: Cell<usize>,
    /// What regions inside wanted until they were asked last.
    inside: Cell<usize>,
    /// Which region the thread forks next, if somebody said so.
    region: Cell<usize>,
    /// Regions forked, to look at mask and quota now and then.
    forks: Cell<u32>,
    /// When a fork that got less than it could use looked last.
    looked: Cell<Option<Ticks>>,
    pub(super) stint: Stint,
}

impl Default for Claim {
    fn default() -> Self {
        Self {
            share: RefCell::default(),
            is_enrolled: Cell::new(false),
            is_counted: Cell::new(false),
            spare: Cell::new(ALL),
            wanted: Cell::new(0),
            inside: Cell::new(0),
            region: Cell::new(0),
            forks: Cell::new(0),
            looked: Cell::new(None),
            stint: Stint::default(),
        }
    }
}

impl Claim {
    /// In the child of a fork: what was claimed is the parent's.
    pub(super) fn forget(&self) {
        std::mem::forget(self.share.take());
        self.is_enrolled.set(false);
        self.is_counted.set(false);
        self.spare.set(ALL);
        self.wanted.set(0);
        self.inside.set(0);
        self.stint.follow(false);
    }

    /// Gives back what the last region took: the master counts as one.
    #[inline]
    fn give_back(&self) {
        if self.is_counted.take() {
            self.hold(1);
        }
    }

    /// The master holds so many now. Returns what all of them hold.
    #[cold]
    fn hold(&self, processors: usize) -> usize {
        match &*self.share.borrow() {
            Some(share) => program().masters().shares().set(share, processors),
            None => processors,
        }
    }

    #[cold]
    fn enroll(&self) {
        self.is_enrolled.set(true);
        let share = program().masters().enroll();
        self.share.replace(Some(share));
    }

    /// Takes up to `wanted` of `limit` processors beside other masters.
    #[cold]
    fn take(&self, wanted: usize, limit: usize) -> usize {
        self.is_counted.set(true);
        let share = self.share.borrow();
        let share = share.as_ref().expect("who forks was enrolled");
        let shares = program().masters().shares();
        shares.look_around(Some(share));
        shares.take(share, wanted, limit)
    }

    /// The limit where it was too small: as it is when somebody looks, if nobody did for some time.
    /// A program may have minutes between two looks if its regions take seconds.
    #[cold]
    fn limit_now(&self) -> usize {
        let now = Ticks::now();
        let sizer = source();
        if self.looked.get().is_none_or(|last| now.since(last) >= Ticks::about_us(LOOK_US)) {
            self.looked.set(Some(now));
            sizer.refresh();
        }
        sizer.limit()
    }

    /// The thread forks no more.
    pub(super) fn end(&self) {
        if self.is_enrolled.take() {
            source::want(self.wanted.take(), 0);
            if let Some(share) = self.share.take() {
                program().masters().dismiss(&share);
            }
        }
    }
}

impl Local {
    /// Says which region the thread forks next.
    #[inline]
    pub(crate) fn identify_region(&self, region: usize) {
        self.claim.region.set(region);
    }

    /// How many threads a region may have that could use `wanted`: what the program has now, less
    /// what other masters hold (D6). Cost with one master: three loads.
    #[inline]
    pub fn grant(&self, wanted: usize) -> usize {
        let claim = &self.claim;
        let forks = claim.forks.get().wrapping_add(1);
        claim.forks.set(forks);
        if forks.is_multiple_of(FORKS_PER_LOOK) {
            source().refresh();
        }
        if !self.is_outermost() {
            self.note_wanted(wanted);
            return wanted.min(self.limit()).max(1);
        }
        if !claim.is_enrolled.get() {
            claim.enroll();
        }
        // M1: what it has under way is more than the region itself, where regions inside have
        //     wanted more.
        let total = self.with_inside(wanted, forks);
        if claim.wanted.get() != total {
            source::want(claim.wanted.replace(total), total);
        }
        let region = claim.region.take();
        let most = source::managed().map_or(usize::MAX, |managed| {
            claim.stint.follow(managed.has_one_in_turn());
            managed.at_fork(total, region)
        });
        let limit = source().limit();
        let limit = if limit < wanted { claim.limit_now() } else { limit };
        if program().masters().are_one() {
            claim.give_back();
            self.set_spare(ALL);
            return wanted.min(limit).min(most).max(1);
        }
        let taken = claim.take(total.min(most), limit);
        self.set_spare(taken.saturating_sub(wanted));
        taken.min(wanted).max(1)
    }

    /// What the lender around may ask for, where this thread's next region inside could use
    /// `wanted` processors, and those of its siblings, most likely, as many.
    #[inline]
    fn note_wanted(&self, wanted: usize) {
        let membership = self.membership.get();
        if wanted > 1 && !membership.root.is_null() {
            // SAFETY: - as in `borrow`: the root's region is open.
            unsafe { &*self.lender() }
                .note_wanted(wanted.saturating_mul(membership.crowd as usize));
        }
    }

    /// What a region that could use `wanted` processors can use with all regions inside, as far as
    /// those of the last so many outermost regions tell; at most what one region could.
    #[inline]
    fn with_inside(&self, wanted: usize, forks: u32) -> usize {
        let inside = &self.claim.inside;
        if forks.is_multiple_of(FORKS_PER_LOOK) {
            inside.set(self.with_group(|group| group.root.take_wanted()));
        }
        let noted = inside.get().max(self.with_group(|group| group.root.wanted()));
        if noted <= wanted { wanted } else { wanted.max(noted.min(source::wish())) }
    }

    /// What the next region may lend.
    #[inline]
    fn set_spare(&self, spare: usize) {
        if self.claim.spare.replace(spare) != spare {
            self.with_group(|group| group.used = UNKNOWN);
        }
    }

    /// How many threads an outermost region of `size` may have with all regions inside; `None`: as
    /// many as there are processors.
    pub(crate) fn with_spare(&self, size: usize) -> Option<usize> {
        Some(self.claim.spare.get())
            .filter(|spare| *spare != ALL)
            .map(|spare| size.saturating_add(spare))
    }

    /// Before a region of `size` threads, more than one: its crowd (see
    /// [`Membership::crowd`](crate::membership::Membership)).
    #[inline]
    pub(crate) fn occupy(&self, size: u32) -> u32 {
        self.counters().forked(size);
        self.claim.stint.end();
        if !self.is_outermost() {
            self.open_beyond(size as usize);
        } else if let Some(managed) = source::managed() {
            managed.forked(size);
        }
        self.crowd_of(size)
    }

    /// After the join of a region that [`Local::occupy`] was told of.
    #[inline]
    pub(crate) fn vacate(&self) {
        if self.is_outermost() {
            self.claim.give_back();
        } else {
            self.close_beyond();
        }
    }

    /// Before `size` threads of this master work: how many work then.
    #[inline]
    pub fn crowd_of(&self, size: u32) -> u32 {
        if !self.is_outermost() {
            return match self.head() {
                Some(head) => head.crowd(size),
                None => self.membership.get().crowd.saturating_mul(size),
            };
        }
        if program().masters().are_one() {
            return size;
        }
        if !self.claim.is_enrolled.get() {
            self.claim.enroll();
        }
        self.claim.is_counted.set(true);
        let held = self.with_spare(size as usize).unwrap_or(size as usize);
        u32::try_from(self.claim.hold(held)).unwrap_or(u32::MAX).max(size)
    }

    /// After the join of a region: what an outermost one took is free again.
    #[inline]
    pub fn settle(&self) {
        if self.is_outermost() {
            self.claim.give_back();
        }
    }
}
