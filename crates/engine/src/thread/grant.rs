//! How many threads a region of the calling thread may have, and how many then work at the same
//! time (D6).

use super::claim::{ALL, FORKS_PER_LOOK};
use super::group::UNKNOWN;
use super::state::Local;
use crate::manager::source::{self, source};
use crate::program::program;
use crate::sizer::Moment;

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
        if forks == claim.look_at.get() {
            self.look(forks);
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
        if let Some(before) = claim.wanted.follow(total, || source().limit()) {
            source::want(before, total);
        }
        let region = claim.region.take();
        let most = source::managed().map_or(usize::MAX, |managed| {
            // It says what the program wants, for which it gets its turn.
            let most = managed.at_fork(total, region);
            claim.recess.at_fork(managed, region, wanted);
            claim.time_slice.follow(managed.has_one_in_turn());
            most
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

    /// Looks at what changes beside the program's forks; an outermost master also gives its sizer
    /// the time to measure.
    #[cold]
    fn look(&self, forks: u32) {
        self.claim.pace(forks);
        source().refresh();
        if self.is_outside_regions() {
            self.claim.between(|| source().between_regions(&self.moment()));
        }
    }

    /// What an outermost master finds before a fork.
    pub(crate) fn moment(&self) -> Moment {
        let (workers, awake) = self.with_group(|group| {
            if self.custody.is_lost() {
                return (0, 1);
            }
            let awake = group.members.iter().filter(|worker| !worker.may_sleep()).count();
            (group.members.len(), awake + 1)
        });
        let masters = program().masters().count();
        Moment { master: self.tid(), workers, awake, masters }
    }

    /// What the lender around may ask for, where this thread's next region inside could use
    /// `wanted` processors, and those of its siblings, most likely, as many.
    #[inline]
    fn note_wanted(&self, wanted: usize) {
        let membership = self.membership.get();
        if wanted > 1 && !membership.root.is_null() {
            // SAFETY: - as in `borrow`: the root's region is open.
            unsafe { &*self.lender() }
                .note_wanted(wanted.saturating_mul(membership.threads as usize));
        }
    }

    /// What a region that could use `wanted` processors can use with all regions inside, as far as
    /// those of the last [`FORKS_PER_LOOK`] outermost regions tell; at most what one region could.
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

    /// Before a region of `size` threads, more than one, that was opened at `depth`, where the
    /// thread `is_root` or not: how many run at the same time (see
    /// [`Membership::threads`](crate::thread::membership::Membership)).
    #[inline]
    pub(crate) fn occupy(&self, depth: usize, is_root: bool, size: u32) -> u32 {
        self.counters().forked(size);
        self.claim.time_slice.end();
        let is_outermost = self.is_outermost_at(depth);
        if !is_outermost {
            self.open_beyond(depth, is_root, size as usize);
        } else if let Some(managed) = source::managed() {
            managed.forked(size);
        }
        self.threads(is_outermost, is_root, size)
    }

    /// After the join of a region that [`Local::occupy`] was told of.
    #[inline]
    pub(crate) fn vacate(&self, depth: usize) {
        if self.is_outermost_at(depth) {
            self.claim.recess.ends();
            self.claim.give_back();
        } else {
            self.close_beyond(depth);
        }
    }

    /// Before `size` threads of this master work: how many work then.
    #[inline]
    pub fn threads_of(&self, size: u32) -> u32 {
        self.threads(self.is_outermost(), self.is_root(), size)
    }

    #[inline]
    fn threads(&self, is_outermost: bool, is_root: bool, size: u32) -> u32 {
        if !is_outermost {
            return match self.head_of(is_root) {
                Some(head) => head.threads(size),
                None => self.membership.get().threads.saturating_mul(size),
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
            self.claim.recess.ends();
            self.claim.give_back();
        }
    }

    /// No region follows the last [`Local::grant`].
    pub fn decline(&self) {
        self.claim.recess.drops();
        self.settle();
    }
}
