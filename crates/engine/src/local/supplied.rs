//! How a group's virtual processors are supplied: lines or broadcast, and who follows the group's
//! ring.

use super::Local;
use crate::channel::Channel;
use crate::config::Supply;
use crate::program::program;
use crate::source::source;
use crate::vp::Vp;
use std::rc::Rc;

/// A group's supply.
#[derive(Debug, Default)]
pub(super) struct Supplied {
    /// The most slaves that are supplied by their own lines ([`crate::supply`]).
    by_lines: usize,
    /// The number of members that `by_lines` was found for; 0: for none.
    found_for: usize,
    /// The broadcast channel, once it was used.
    channel: Option<Rc<Channel>>,
    /// How many members, from the first, follow the channel for sure.
    attached: usize,
}

impl Supplied {
    /// After the group was prepared for a team of another size: some members may follow another
    /// master's ring now.
    pub(super) fn look_again(&mut self, members: &[&'static Vp]) {
        self.attached = 0;
        if self.found_for != members.len() {
            self.found_for = members.len();
            self.by_lines = program().config().supply.most_by_lines(members);
        }
    }

    /// Members got other numbers or other processors: who leads whom is different now.
    pub(super) fn forget(&mut self) {
        self.found_for = 0;
        self.channel = None;
    }
}

impl Local {
    /// True when a team of `size`, for which `reserve` made room, is supplied by broadcast.
    #[inline]
    pub(crate) fn is_broadcast_to(&self, size: usize) -> bool {
        size > 1
            && self.with_group(|group| size - 1 > group.supplied.by_lines)
            && pays_broadcast(size)
    }

    /// The broadcast channel of the current group, which the members of a team of `size` follow.
    /// Cost when they do already: two loads.
    #[inline]
    pub(crate) fn channel(&self, size: usize) -> &Channel {
        if self.with_group(|group| group.supplied.attached) < size - 1 {
            self.attach(size - 1);
        }
        let channel = self.with_group(|group| group.supplied.channel.as_ref().map(Rc::as_ptr));
        // SAFETY: - the group's own count keeps it until the group is prepared for another team,
        //           which nobody does before the caller has joined its region (L2).
        unsafe { &*channel.expect("attached to a channel") }
    }

    #[cold]
    fn attach(&self, count: usize) {
        // Members are attached by a region, which waits, and asks the sizer meanwhile: nothing of
        // the group is held (L2).
        let (channel, members) =
            self.with_group(|group| (group.supplied.channel.take(), group.members.clone()));
        let mut channel = channel.unwrap_or_else(|| Rc::new(Channel::new()));
        let mut followers = channel.followers(&members);
        if followers < count {
            let channel = Rc::get_mut(&mut channel).expect("no region of this group is open");
            channel.attach(self, &members, count);
            followers = count;
        }
        self.with_group(|group| {
            group.supplied.channel = Some(channel);
            group.supplied.attached = followers;
        });
    }
}

/// Members without a processor sleep and are woken one by one: see [`crate::supply`].
fn pays_broadcast(size: usize) -> bool {
    program().config().supply == Supply::Global || size <= source().limit()
}
