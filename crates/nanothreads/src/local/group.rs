//! The virtual processors of one master at one depth.

use super::Root;
use super::supplied::Supplied;
use crate::vp::Vp;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Lent or given by the root first, then own ones.
    pub(super) members: Vec<&'static Vp>,
    /// How many of `members` are lent or given.
    pub(super) lent: usize,
    /// The lending that `lent` belongs to.
    pub(super) generation: u64,
    /// A root's: how many members its team used when it last lent the rest.
    pub(super) used: usize,
    /// A root's: the sizer's epoch at that time, to which the members of an outermost one are bound.
    pub(super) bound: u32,
    /// A root's: something may be lent.
    lends: bool,
    /// A root's lender. Boxed: members point to it while the groups of deeper regions are added.
    pub(super) root: Box<Root>,
    /// How the members get their work.
    pub(super) supplied: Supplied,
}

/// `Group::used` when the next fork has to look at everything.
pub(super) const UNKNOWN: usize = usize::MAX;

impl Group {
    /// The members worked for other masters since this group's last region: the next one looks at everything again.
    pub(super) fn had_other_masters(&mut self) {
        self.used = UNKNOWN;
        // They may follow those masters' rings now.
        self.supplied.look_again(&self.members);
    }

    /// A root's next team uses the first `used` members; the others, up to `lendable` in all, are lent to its members.
    pub(super) fn use_and_lend(&mut self, used: usize, lendable: usize) {
        self.used = used;
        let lendable = self.members.len().min(lendable).max(used);
        let spare = &self.members[used..lendable];
        if self.lends || !spare.is_empty() {
            self.lends = !spare.is_empty();
            self.root.lend(spare, used + 1);
        }
    }
}
