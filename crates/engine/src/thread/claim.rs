//! What a master claims of the program: which processors its regions may use beside other masters',
//! and how busy they make the machine (D6).

use super::recess::Recess;
use super::time_slice::TimeSlice;
use super::wanted::Wanted;
use crate::manager::source::{self, source};
use crate::program::program;
use crate::protocols::shares::Share;
use platform::clock::Ticks;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The most regions between two looks at the clock for
/// [`TeamSizer::refresh`](crate::sizer::TeamSizer::refresh), and those between two at which what
/// regions inside wanted is forgotten.
pub(super) const FORKS_PER_LOOK: u32 = 16;

/// Time between two such looks where forks get less than they could use, whatever their number, and
/// the time that elsewhere as many forks take as come between two looks, in us.
const LOOK_US: u64 = 5_000;

/// All that the program has, of [`Claim::spare`].
pub(super) const ALL: usize = usize::MAX;

/// See the module head. Only an outermost master has more than `forks` in it.
#[derive(Debug)]
pub(crate) struct Claim {
    /// What it holds beside other masters; it counts among the engine's masters.
    share: RefCell<Option<Arc<Share>>>,
    pub(super) is_enrolled: Cell<bool>,
    /// The next or open region is counted, because there are several masters.
    pub(super) is_counted: Cell<bool>,
    /// What that region may lend to the masters inside beyond its own members; [`ALL`]: the only
    /// master.
    pub(super) spare: Cell<usize>,
    /// What the last region could have used, and the regions inside.
    pub(super) wanted: Wanted,
    /// What regions inside wanted until they were asked last.
    pub(super) inside: Cell<usize>,
    /// Which region the thread forks next, if that was said.
    pub(super) region: Cell<usize>,
    /// Regions forked, to look at mask and quota now and then.
    pub(super) forks: Cell<u32>,
    /// The number of the fork that looks next, and when the last one did that came to its turn.
    pub(super) look_at: Cell<u32>,
    paced: Cell<Option<Ticks>>,
    /// The number of that fork.
    counted: Cell<u32>,
    /// The thread is between regions by its sizer's call: what it forks looks at nothing.
    is_between: Cell<bool>,
    /// When a fork that got less than it could use looked last.
    looked: Cell<Option<Ticks>>,
    pub(crate) time_slice: TimeSlice,
    pub(super) recess: Recess,
}

impl Default for Claim {
    fn default() -> Self {
        Self {
            share: RefCell::default(),
            is_enrolled: Cell::new(false),
            is_counted: Cell::new(false),
            spare: Cell::new(ALL),
            wanted: Wanted::default(),
            inside: Cell::new(0),
            region: Cell::new(0),
            forks: Cell::new(0),
            look_at: Cell::new(1),
            paced: Cell::new(None),
            counted: Cell::new(0),
            is_between: Cell::new(false),
            looked: Cell::new(None),
            time_slice: TimeSlice::default(),
            recess: Recess::default(),
        }
    }
}

impl Claim {
    /// In the child of a fork: what was claimed is the parent's.
    pub(crate) fn forget(&self) {
        std::mem::forget(self.share.take());
        self.is_enrolled.set(false);
        self.is_counted.set(false);
        self.spare.set(ALL);
        self.wanted.end();
        self.inside.set(0);
        self.time_slice.follow(false);
        self.recess.forget();
    }

    /// Gives back what the last region took: the master counts as one.
    #[inline]
    pub(super) fn give_back(&self) {
        if self.is_counted.take() {
            self.hold(1);
        }
    }

    /// The master holds `processors` now. Returns what all masters hold.
    #[cold]
    pub(super) fn hold(&self, processors: usize) -> usize {
        match &*self.share.borrow() {
            Some(share) => program().masters().shares().set(share, processors),
            None => processors,
        }
    }

    #[cold]
    pub(super) fn enroll(&self) {
        self.is_enrolled.set(true);
        let share = program().masters().enroll();
        self.share.replace(Some(share));
    }

    /// Takes up to `wanted` of `limit` processors beside other masters.
    #[cold]
    pub(super) fn take(&self, wanted: usize, limit: usize) -> usize {
        self.is_counted.set(true);
        let share = self.share.borrow();
        let share = share.as_ref().expect("a master that forks was enrolled");
        let shares = program().masters().shares();
        shares.look_around(Some(share));
        shares.take(share, wanted, limit)
    }

    /// A look was due at fork `forks`: sets when the next one is. Regions of microseconds are
    /// counted, so that the clock is not read for each; those of milliseconds look each time.
    pub(super) fn pace(&self, forks: u32) {
        let now = Ticks::now();
        let passed = self.paced.replace(Some(now)).map(|last| now.since(last));
        let counted = self.counted.replace(forks);
        let next = until_look(passed, forks.wrapping_sub(counted), Ticks::about_us(LOOK_US));
        self.look_at.set(forks.wrapping_add(next));
    }

    /// Calls `body` unless it is being called by this thread already.
    pub(super) fn between(&self, body: impl FnOnce()) {
        if !self.is_between.replace(true) {
            body();
            self.is_between.set(false);
        }
    }

    /// The limit where it was too small: read again, if the last reading was some time ago. A
    /// program may have minutes between two looks if its regions take seconds.
    #[cold]
    pub(super) fn limit_now(&self) -> usize {
        let now = Ticks::now();
        let sizer = source();
        if self.looked.get().is_none_or(|last| now.since(last) >= Ticks::about_us(LOOK_US)) {
            self.looked.set(Some(now));
            sizer.refresh();
        }
        sizer.limit()
    }

    /// The thread forks no more.
    pub(crate) fn end(&self) {
        if self.is_enrolled.take() {
            source::want(self.wanted.end(), 0);
            if let Some(share) = self.share.take() {
                program().masters().dismiss(&share);
            }
        }
    }
}

/// How many forks until the next look, when the last `forks` took `passed` ticks, and looks are to
/// be `interval` apart. `None`: there was no look before.
fn until_look(passed: Option<u64>, forks: u32, interval: u64) -> u32 {
    let Some(passed) = passed else { return 1 };
    let each = (passed / u64::from(forks.max(1))).max(1);
    // At most 16.
    (interval / each).clamp(1, u64::from(FORKS_PER_LOOK)) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fast_forks_are_counted_and_slow_ones_look_each_time() {
        assert_eq!(until_look(None, 1, 5000), 1);
        assert_eq!(until_look(Some(16), 16, 5000), FORKS_PER_LOOK);
        assert_eq!(until_look(Some(16_000), 16, 5000), 5);
        assert_eq!(until_look(Some(40_000), 1, 5000), 1);
        assert_eq!(until_look(Some(0), 0, 5000), FORKS_PER_LOOK);
        for passed in [1, 100, 10_000, u64::MAX] {
            for forks in [0, 1, 7, u32::MAX] {
                assert!((1..=16).contains(&until_look(Some(passed), forks, 5000)));
            }
        }
    }
}
