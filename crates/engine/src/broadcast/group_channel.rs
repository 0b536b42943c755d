//! A group's broadcast channel, and which members follow it.

use crate::broadcast::channel::Channel;
use std::rc::Rc;

/// What a group has of broadcasts.
#[derive(Debug, Default)]
pub(crate) struct GroupChannel {
    /// The channel, once it was used.
    pub(crate) channel: Option<Rc<Channel>>,
    /// How many members, from the first, follow it for sure.
    pub(crate) attached: usize,
}

impl GroupChannel {
    /// After the group was prepared for another team: some members may follow another master's ring
    /// now.
    pub(crate) fn look_again(&mut self) {
        self.attached = 0;
    }

    /// Members got other numbers or other processors: which member leads which is different now.
    pub(crate) fn forget(&mut self) {
        self.channel = None;
    }
}
