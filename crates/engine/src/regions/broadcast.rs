//! Broadcasts as a master and its leaders use them: which members follow a group's ring, and the
//! waits for arrivals ([`crate::broadcast::channel`]).

use crate::broadcast::channel::{Attachment, Channel};
use crate::regions::fork_join;
use crate::thread::Local;
use crate::waits::spin_policy;
use crate::work::Region;
use crate::workers::worker::Worker;
use std::ptr;
use std::rc::Rc;

impl Local {
    /// The broadcast channel of the group of `depth`, which the members of a team of `size` follow.
    /// Cost when they do already: two loads.
    #[inline]
    pub(crate) fn channel(&self, depth: usize, size: usize) -> &Channel {
        if self.with_group_at(depth, |group| group.broadcast.attached) < size - 1 {
            self.attach(depth, size - 1);
        }
        let channel =
            self.with_group_at(depth, |group| group.broadcast.channel.as_ref().map(Rc::as_ptr));
        // SAFETY: - the group's own count keeps it until the group is prepared for another team,
        // which does not happen before the caller has joined its region (L2).
        unsafe { &*channel.expect("attached to a channel") }
    }

    #[cold]
    fn attach(&self, depth: usize, count: usize) {
        // Members are attached by a region, which waits, and asks the sizer meanwhile: nothing of
        // the group is held (L2).
        let (channel, members) = self
            .with_group_at(depth, |group| (group.broadcast.channel.take(), group.members.clone()));
        let mut channel = channel.unwrap_or_else(|| Rc::new(Channel::new()));
        let mut followers = channel.followers(&members);
        if followers < count {
            let channel = Rc::get_mut(&mut channel).expect("no region of this group is open");
            channel.attach(&members, count, |work, data, size| {
                let threads = self.membership().threads.saturating_mul(size);
                let root = ptr::null();
                let region = Region { work, data, carried: None, root, size, level: 0, threads };
                // SAFETY: - the work takes these data, which outlive the join inside, and does not
                // unwind.
                unsafe { fork_join::run_on_lines(self, &members[..count], &region) };
            });
            followers = count;
        }
        self.with_group_at(depth, |group| {
            group.broadcast.channel = Some(channel);
            group.broadcast.attached = followers;
        });
    }
}

impl Channel {
    /// Step 3 for the master: waits for all members of the last work, and calls `attend` between
    /// its looks for one that is late.
    #[inline]
    pub(crate) fn gather(
        &self,
        local: &Local,
        members: &[&'static Worker],
        threads: u32,
        attend: Option<impl Fn()>,
    ) {
        let awaited = self.awaited(members);
        let has_arrived = |at: usize| awaited.has_arrived(at);
        fork_join::gather(awaited.len(), threads, has_arrived, |at, look| {
            let worker = awaited.worker(at);
            fork_join::wait_late_attending(worker, local, threads, members, look, &attend);
        });
        awaited.record();
    }
}

impl Attachment {
    /// Step 3 for a leader: waits for those of its cluster that take part in a region of `size`.
    #[inline]
    pub(crate) fn gather_cluster(&self, local: &Local, size: u32, threads: u32) {
        let cluster = self.cluster(size);
        if cluster.is_empty() {
            return;
        }
        fork_join::gather(
            cluster.len(),
            threads,
            |at| cluster[at].has_arrived(),
            |at, look| {
                spin_policy::wait(cluster[at].worker.arrivals(), local, threads, || {}, look)
            },
        );
        for led in cluster {
            led.record();
        }
    }
}
