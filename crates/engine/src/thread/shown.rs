//! Which member a thread shows that it is, while it runs what belongs to a region further out.
//!
//! A nano-thread that waits inside an inner region keeps its stack, and other nano-threads of its
//! scope run on top of it. They are members of the scope's region, not of the inner one. Only the
//! numbers that a program sees are changed: what the thread forks goes by its place
//! ([`visit`](super::visit)), and what it has reserved belongs to the region that is open.

use super::state::Local;
use crate::work::Member;

/// Made by [`Local::show_as`]; shows what was shown before when it is dropped.
pub struct Shown<'a> {
    local: &'a Local,
    before: Member,
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.local.set_shown(self.before);
    }
}

impl Local {
    /// As long as the answer is kept, [`Member::current`] is `member`. `None`: it is already.
    /// Regions that begin and end meanwhile show their own.
    #[inline]
    pub fn show_as(&self, member: Member) -> Option<Shown<'_>> {
        let now = self.membership();
        let before = Member { id: now.id, size: now.size };
        if before == member {
            return None;
        }
        self.set_shown(member);
        Some(Shown { local: self, before })
    }

    fn set_shown(&self, Member { id, size }: Member) {
        let now = self.membership();
        self.membership.set(crate::thread::membership::Membership { id, size, ..now });
    }
}
