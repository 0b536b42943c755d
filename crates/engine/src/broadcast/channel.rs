//! The broadcast channel of a group: the master's side and the workers' side.
//!
//! # Protocol
//! 1. *Attach*, when members come or change: a region over the members' own lines in which each
//!    takes its place in the master's ring, and each leader notes its cluster's arrival lines. It
//!    is joined, so the last-seen values that leaders and master take stand still meanwhile.
//! 2. *Fork*: the master publishes one entry; members with a number below the region's size take
//!    part.
//! 3. *Join*: a leader waits for its cluster and arrives; the master waits for its own cluster and
//!    for the leaders.
//!
//! # Invariants
//! - C1 A worker follows one ring. Its master (L1 of [`crate::thread`]) attaches it; a master that
//!   gets it back finds it at another ring and attaches it anew.
//! - C2 A ring lives as long as its master or any follower: one that lost its master stays silent
//!   for ever.
//! - C3 Leaders of a team are leaders in every larger one ([`leaders`]), so a change of
//!   size attaches no member.
//!
//! Several works may be open in the ring ([`crate::protocols::ring`]); `Team::run` opens one at a
//! time.

use crate::broadcast::leaders::leaders;
use crate::protocols::arrival::LastSeen;
use crate::protocols::ring::{Follower, Ring, Word};
use crate::work::{Member, Region, Root, Work};
use crate::workers::worker::Worker;
use std::cell::Cell;
use std::ptr;
use std::sync::Arc;

/// The words of a broadcast work: [`Region`].
const WORDS: usize = 5;
/// Works that may be open at once.
const ENTRIES: usize = 4;

pub(crate) type TeamRing = Ring<WORDS, ENTRIES>;

fn to_words(region: &Region) -> [Word; WORDS] {
    [
        region.work as Word,
        region.data.cast_mut().cast(),
        region.root.cast_mut().cast(),
        ptr::without_provenance_mut(region.size as usize),
        ptr::without_provenance_mut(region.level as usize | (region.threads as usize) << 32),
    ]
}

/// # Safety
/// - The words were made by `to_words`.
unsafe fn from_words(words: [Word; WORDS]) -> Region {
    // SAFETY: - the first word is a `Work` that `to_words` cast to a pointer (caller's contract).
    let work: Work = unsafe { std::mem::transmute::<Word, Work>(words[0]) };
    let [size, level_and_threads] = [words[3].addr(), words[4].addr()];
    Region {
        work,
        data: words[1].cast_const().cast(),
        carried: None,
        root: words[2].cast_const().cast::<Root>(),
        size: size as u32,
        level: level_and_threads as u32,
        threads: (level_and_threads >> 32) as u32,
    }
}

/// The master's side. On lines of its own, since it writes them in each region.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Channel {
    ring: Arc<TeamRing>,
    /// Number of the next work.
    next: Cell<u64>,
    /// Last arrival seen of each member (PJV); the first is member 1's. Kept for those in
    /// `awaited`.
    last: Vec<LastSeen>,
    /// Members that the master waits for itself, ascending: its own cluster and the leaders.
    awaited: Vec<usize>,
}

impl Channel {
    /// A channel without followers.
    pub(crate) fn new() -> Self {
        Self {
            ring: Arc::new(Ring::new()),
            next: Cell::new(1),
            last: Vec::new(),
            awaited: Vec::new(),
        }
    }

    /// How many of `members`, from the first, follow this channel as it is.
    pub(crate) fn followers(&self, members: &[&'static Worker]) -> usize {
        let follows = |worker: &&&'static Worker| worker.follows(Arc::as_ptr(&self.ring));
        members.iter().take(self.last.len()).take_while(follows).count()
    }

    /// Attaches the first `count` of `members`, none of which has work. `run` runs a region of
    /// them over their own lines: this work with these data on a team of that size.
    pub(crate) fn attach(
        &mut self,
        members: &[&'static Worker],
        count: usize,
        run: impl FnOnce(Work, *const (), u32),
    ) {
        let leader_of = leaders(members);
        self.last = members.iter().map(|worker| LastSeen::of(worker.arrival())).collect();
        self.awaited =
            (1..leader_of.len()).filter(|&id| leader_of[id] == 0 || leader_of[id] == id).collect();
        let invitation =
            Invitation { ring: &self.ring, next: self.next.get(), members, leader_of: &leader_of };
        let size = u32::try_from(count + 1).expect("teams stay below largest_team");
        run(accept, ptr::from_ref(&invitation).cast(), size);
    }

    /// Step 2: publishes `region` to the members below its size. The caller then fences once and
    /// wakes the sleepers.
    #[inline]
    pub(crate) fn publish(&self, region: &Region) {
        let number = self.next.get();
        self.next.set(number + 1);
        self.ring.publish(number, to_words(region));
    }

    /// Step 3 for the master: those of `members` that it waits for itself.
    #[inline]
    pub(crate) fn awaited<'a>(&'a self, members: &'a [&'static Worker]) -> Awaited<'a> {
        let ids = &self.awaited[..self.awaited.partition_point(|&id| id <= members.len())];
        Awaited { channel: self, ids, members }
    }
}

/// The members that a master waits for itself.
pub(crate) struct Awaited<'a> {
    channel: &'a Channel,
    ids: &'a [usize],
    members: &'a [&'static Worker],
}

impl Awaited<'_> {
    /// How many.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// The one at `at`.
    #[inline]
    pub(crate) fn worker(&self, at: usize) -> &'static Worker {
        self.members[self.ids[at] - 1]
    }

    /// True when that one has arrived.
    #[inline]
    pub(crate) fn has_arrived(&self, at: usize) -> bool {
        self.channel.last[self.ids[at] - 1].is_passed(self.worker(at).arrival())
    }

    /// All have.
    #[inline]
    pub(crate) fn record(&self) {
        for &id in self.ids {
            self.channel.last[id - 1].record(self.members[id - 1].arrival());
        }
    }
}

/// What an attaching member needs.
struct Invitation<'a> {
    ring: &'a Arc<TeamRing>,
    next: u64,
    members: &'a [&'static Worker],
    leader_of: &'a [usize],
}

/// The work of the attach region.
///
/// # Safety
/// - `data` points to a live [`Invitation`], and this thread is the worker of `member`,
///   which is not 0.
unsafe fn accept(data: *const (), member: Member) {
    // SAFETY: - caller's contract; the lifetime ends with the region.
    let invitation = unsafe { &*data.cast::<Invitation<'_>>() };
    let id = member.id as usize;
    let worker = invitation.members[id - 1];
    let is_led = |other: &usize| *other != id && invitation.leader_of[*other] == id;
    let cluster = (1..invitation.leader_of.len()).filter(is_led).map(|other| {
        let worker = invitation.members[other - 1];
        ClusterMember { id: other, worker, last: LastSeen::of(worker.arrival()) }
    });
    let attachment = Attachment {
        ring: Arc::clone(invitation.ring),
        follower: Follower::new(invitation.next),
        id: member.id,
        cluster: cluster.collect(),
    };
    // SAFETY: - caller's contract: on its own thread.
    unsafe { worker.follow(attachment) };
}

/// A worker's side.
#[derive(Debug)]
pub(crate) struct Attachment {
    ring: Arc<TeamRing>,
    follower: Follower,
    /// The own number in the master's teams.
    id: u32,
    /// Those that arrive through this one, ascending.
    cluster: Vec<ClusterMember>,
}

/// A member that arrives through its leader.
#[derive(Debug)]
pub(crate) struct ClusterMember {
    id: usize,
    pub(crate) worker: &'static Worker,
    /// The last arrival that the leader has seen.
    last: LastSeen,
}

impl ClusterMember {
    /// It has arrived.
    #[inline]
    pub(crate) fn has_arrived(&self) -> bool {
        self.last.is_passed(self.worker.arrival())
    }

    /// The leader has seen that.
    #[inline]
    pub(crate) fn record(&self) {
        self.last.record(self.worker.arrival());
    }
}

impl Attachment {
    /// The ring, to be compared only.
    pub(crate) fn ring(&self) -> *const TeamRing {
        Arc::as_ptr(&self.ring)
    }

    /// The next work in which this worker takes part. Cost when nothing is new: one load.
    #[inline]
    pub(crate) fn look(&mut self) -> Option<Region> {
        let id = self.id as usize;
        let words = self.follower.look(&self.ring, |words| id < words[3].addr())?;
        // SAFETY: - only `Channel::publish` writes to a team's ring, words of `to_words`.
        Some(unsafe { from_words(words) })
    }

    /// The own number in the master's teams.
    #[inline]
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Step 3 for a leader: those of its cluster that take part in a region of `size`.
    #[inline]
    pub(crate) fn cluster(&self, size: u32) -> &[ClusterMember] {
        if self.cluster.is_empty() {
            return &[];
        }
        &self.cluster[..self.cluster.partition_point(|led| led.id < size as usize)]
    }
}
