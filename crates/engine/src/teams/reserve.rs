//! Making room for a team: what a master does before it forks.

use crate::manager::source::source;
use crate::placement::beyond::Beyond;
use crate::program::{CERTAIN, program};
use crate::serve::live;
use crate::thread::{Local, Need, Reservation, WorkerGroup};
use crate::workers::pool::pool;

impl Local {
    /// Makes room for a team of `size`: afterwards `members(size)` has what could be had. Returns
    /// the size. Cost when nothing changed: a few loads.
    #[inline]
    pub(crate) fn reserve(&self, size: usize, need: Need) -> usize {
        if size <= 1 || self.asks() {
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
        // Threads that it starts would inherit them.
        self.end_long_turns();
        let size = if self.is_outermost() {
            self.prepare_outermost(size)
        } else {
            // The numbers of the members may change.
            self.with_group(|group| group.broadcast.forget());
            if self.is_root() {
                self.prepare_led(size, need)
            } else {
                self.prepare_inner(size, need)
            }
        };
        self.with_group(WorkerGroup::note_ready);
        size
    }

    /// Opens a region of the calling thread that has no workers of the group around. Where those
    /// were taken, they are forgotten.
    pub(crate) fn open_alone(&self) -> usize {
        let depth = self.open();
        if depth == 0 && self.custody.is_lost() {
            self.come_back();
        }
        depth
    }

    #[cold]
    fn come_back(&self) {
        if pool().holdings().come_back(&self.custody) {
            self.with_group_at(0, WorkerGroup::lose_members);
        }
    }

    fn prepare_outermost(&self, size: usize) -> usize {
        /// A sizer may panic.
        struct Close<'a>(&'a Local, usize);
        impl Drop for Close<'_> {
            fn drop(&mut self) {
                self.0.close(self.1);
            }
        }
        // No other master takes the workers meanwhile.
        let _close = Close(self, self.open_alone());
        let sizer = source();
        // The epoch first: a limit or processors that change meanwhile are found at the next fork.
        let epoch = sizer.epoch();
        // Where there are other masters, what they hold is not this one's to lend.
        let limit =
            self.with_spare(size).unwrap_or_else(|| sizer.limit()).min(program().largest_team());
        let (used, is_placed, grown) = self.with_group_at(0, |group| {
            group.is_outermosts();
            // All processors of the program get their worker at once: inner groups come
            // from the surplus.
            let grown = group.grow(size.max(limit) - 1, live);
            let used = group.members.len().min(size - 1);
            let is_placed = !grown && group.bound == epoch;
            if group.used != used || !is_placed {
                // Never more running members than processors, inner ones included.
                group.use_and_lend(used, limit - 1);
            }
            (used, is_placed, grown)
        });
        if grown && !program().config().keeps_idle {
            self.is_known.set(true);
            self.with_group_at(0, |group| {
                // SAFETY: - the thread's state stays where it is until `retire`, which has it
                //           forgotten first.
                unsafe { pool().holdings().tell(&self.custody, &group.members) };
            });
        }
        if !is_placed {
            let granted = sizer.processors();
            self.with_group_at(0, |group| {
                group.place(granted.as_ref(), epoch, self.waiter().sitter())
            });
        }
        used + 1
    }

    fn prepare_inner(&self, size: usize, need: Need) -> usize {
        if self.membership().root.is_null() {
            // A worker in work that another thread offered it. Any master may reserve it next: two
            // of them that took each other for their worker would wait for each other.
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
                group.grow_inside(size - 1, group.beyond.is_together(), live);
            }
            group.within(need).min(size - 1) + 1
        })
    }

    /// Makes room for a team of the master of an explicit group: what it got is what it has.
    fn prepare_led(&self, size: usize, need: Need) -> usize {
        // Asked before the group is touched (L2).
        let epoch = source().epoch();
        let limit = self.limit();
        self.with_group(|group| {
            let grown = need == Need::Exact && group.grow_inside(size - 1, false, live);
            let used = group.members.len().min(size - 1);
            if group.used != used || grown || group.bound != epoch {
                let lendable = group.lent.min(limit - 1);
                group.use_and_lend(used, lendable);
            }
            group.bound = epoch;
            used + 1
        })
    }
}
