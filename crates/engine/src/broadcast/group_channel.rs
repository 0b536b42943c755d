//! How a group's workers are supplied: by lines or by broadcast, and which members follow the
//! group's ring.

use crate::program::program;
use crate::workers::channel::Channel;
use crate::workers::worker::Worker;
use std::rc::Rc;

/// A group's supply.
#[derive(Debug, Default)]
pub(crate) struct Supplied {
    /// The most workers that are supplied by their own lines ([`crate::workers::supply`]).
    pub(crate) by_lines: usize,
    /// The number of members that `by_lines` was found for; 0: for none.
    found_for: usize,
    /// The broadcast channel, once it was used.
    pub(crate) channel: Option<Rc<Channel>>,
    /// How many members, from the first, follow the channel for sure.
    pub(crate) attached: usize,
}

impl Supplied {
    /// After the group was prepared for a team of another size: some members may follow another
    /// master's ring now.
    pub(crate) fn look_again(&mut self, members: &[&'static Worker]) {
        self.attached = 0;
        if self.found_for != members.len() {
            self.found_for = members.len();
            self.by_lines = program().config().supply.most_by_lines(members);
        }
    }

    /// Members got other numbers or other processors: which member leads which is different now.
    pub(crate) fn forget(&mut self) {
        self.found_for = 0;
        self.channel = None;
    }
}
