//! Making room for a team: what a master does before it forks, and how it is told from what others
//! did since.

use super::beyond::Beyond;
use super::group::{Group, Reservation};
use super::{Lending, Local, Need};
use crate::program::CERTAIN;
use crate::program::program;
use crate::source::source;
use crate::vp::Vp;

impl Local {
    /// Makes room for a team of `size`: afterwards `members(size)` has what could be had. Returns
    /// the size. Cost when nothing changed: a few loads.
    #[inline]
    pub(crate) fn reserve(&self, size: usize, need: Need) -> usize {
        if size <= 1 || self.asks.get() {
            return 1;
        }
        // Before it is compared: what a team cannot have would never be ready.
        let size = if size > CERTAIN { size.min(program().largest_team()) } else { size };
        let ready = if self.is_root() {
            let epoch = source().epoch();
            self.with_group(|group| group.used == size - 1 && group.bound == epoch)
        } else {
            let generation = self.generation();
            self.with_group(|group| {
                group.within(need) >= size - 1
                    && group.generation == generation
                    && (need == Need::Available
                        || size - 1 <= group.lent
                        || group.beyond.is_enrolled())
                    && group.reservation() != Reservation::NONE
            })
        };
        if ready { size } else { self.prepare(size, need) }
    }

    #[cold]
    fn prepare(&self, size: usize, need: Need) -> usize {
        let size = if self.is_outermost() {
            self.prepare_outermost(size)
        } else {
            // The numbers of the members may change.
            self.with_group(|group| group.supplied.forget());
            if self.is_root() {
                self.prepare_led(size, need)
            } else {
                self.prepare_inner(size, need)
            }
        };
        self.with_group(Group::note_ready);
        size
    }

    fn prepare_outermost(&self, size: usize) -> usize {
        let sizer = source();
        // The epoch first: a limit or processors that change meanwhile are found at the next fork.
        let epoch = sizer.epoch();
        // Beside other masters what they hold is not this one's to lend.
        let limit =
            self.with_spare(size).unwrap_or_else(|| sizer.limit()).min(program().largest_team());
        let (used, is_placed) = self.with_group(|group| {
            // All processors of the program get their virtual processor at once: inner groups come
            // from the surplus.
            let grown = group.grow(size.max(limit) - 1);
            let used = group.members.len().min(size - 1);
            let is_placed = !grown && group.bound == epoch;
            if group.used != used || !is_placed {
                // Never more running members than processors, inner ones included.
                group.use_and_lend(used, limit - 1);
            }
            (used, is_placed)
        });
        if !is_placed {
            let granted = sizer.processors();
            self.with_group(|group| group.place(granted.as_ref(), epoch));
        }
        used + 1
    }

    fn prepare_inner(&self, size: usize, need: Need) -> usize {
        if self.membership.get().root.is_null() {
            // A VP in work that a stranger offered it. It may be anybody's next slave: two of them
            // that took each other for theirs would wait for each other.
            return 1;
        }
        let generation = self.generation();
        self.with_group(|group| {
            if group.generation != generation {
                // L1: what was lent is the root's again.
                group.members.drain(..group.lent);
                group.lent = 0;
                group.generation = generation;
                group.beyond = Beyond::default();
            }
            // An exact team may have had others, for which there is no processor.
            let missing = (size - 1).saturating_sub(group.within(need));
            if missing > 0 {
                let borrowed = self.borrow(missing, group.lent);
                group.lent += borrowed.len();
                group.members.splice(0..0, borrowed);
            }
            if need == Need::Exact && size - 1 > group.lent {
                // SAFETY: - as in `borrow`; not null, see above.
                group.beyond.enroll(unsafe { &*self.lender() });
                group.grow_inside(size - 1, group.beyond.is_together());
            }
            group.within(need).min(size - 1) + 1
        })
    }

    /// What `reserve` has made ready, to be told from what is made ready later.
    #[inline]
    pub(crate) fn reservation(&self) -> Reservation {
        self.with_group(|group| group.reservation())
    }

    /// The virtual processors of a team of `size`, more than one, if they are still as
    /// `reservation` left them: at this depth, for nobody else meanwhile, not taken back by the
    /// root. Cost: a few loads.
    #[inline]
    pub(crate) fn reserved(&self, reservation: Reservation, size: usize) -> Option<&[&'static Vp]> {
        let generation = if self.is_root() { None } else { Some(self.generation()) };
        self.with_group(|group| {
            let is_ready = group.reservation() == reservation
                && reservation != Reservation::NONE
                && generation.is_none_or(|generation| group.generation == generation);
            // SAFETY: - L2: as in `members`.
            is_ready.then(|| unsafe { &*group.first(size) })
        })
    }

    /// What the root of the region around lends from; null outside regions.
    #[inline]
    pub(super) fn lender(&self) -> *const Lending {
        self.membership.get().root.cast()
    }

    fn borrow(&self, wanted: usize, has: usize) -> Vec<&'static Vp> {
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
    fn generation(&self) -> u64 {
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
    pub(super) fn open_beyond(&self, size: usize) {
        // SAFETY: - as in `borrow`.
        let root = unsafe { self.lender().as_ref() };
        if let Some(root) = root.filter(|_| !self.is_root()) {
            self.with_group(|group| {
                if size - 1 > group.lent {
                    group.beyond.open(root);
                }
            });
        }
    }

    /// It is joined.
    #[inline]
    pub(super) fn close_beyond(&self) {
        // SAFETY: - as in `borrow`.
        if let Some(root) = unsafe { self.lender().as_ref() } {
            self.with_group(|group| group.close_beyond(root));
        }
    }
}
