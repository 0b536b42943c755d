//! The mover of this process's pages: `move_pages(2)` in batches, with verification.
//!
//! # Protocol
//! 1. A batch is one call. Statuses are preset to a number that the kernel never gives, so that
//!    what it did not reach is seen.
//! 2. A query says where the pages are now. It decides, not the statuses: the kernel reports a
//!    failed batch as one error, whatever it moved. Where the query does not know a page (the
//!    kernel's own balancing has marked it, or something is armed) the status of the move counts.
//! 3. What is left over is tried again: busy pages once; after an error of the whole batch each
//!    target by itself, so that one full or absent node does not stop the others.
//! 4. Pages of a full node go to the next nearest one with room that is nearer to the target than
//!    the page's home is.
//!
//! # Invariants
//! I1  Each page has one outcome, and no page is lost: the kernel moves a page as a whole or not
//!     at all.
//!
//! # Not here
//! Huge pages: one moved page takes all of them along. The areas' units say which pages are
//! decided together; a query then sees the others where they should be.

use std::collections::BTreeMap;

use platform::SysResult;

use super::{Home, Mover, Outcome, Refusal, Step};
use crate::topology::{Node, Topology};

/// Pages of one call: enough that a call costs nothing beside the pages.
const BATCH: usize = 512;
/// No status of the kernel.
const NOT_REACHED: i32 = -1_000_000;

/// The system call; tests have another.
pub trait MoveCalls {
    /// `move_pages` of this process: with nodes it moves, without it tells; the answers go to
    /// `status`.
    ///
    /// # Errors
    /// The kernel's.
    fn move_pages(
        &mut self,
        pages: &[usize],
        nodes: Option<&[i32]>,
        status: &mut [i32],
    ) -> SysResult<()>;
}

/// The kernel's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Syscalls;

impl MoveCalls for Syscalls {
    fn move_pages(
        &mut self,
        pages: &[usize],
        nodes: Option<&[i32]>,
        status: &mut [i32],
    ) -> SysResult<()> {
        platform::numa::move_pages(pages, nodes, status)
    }
}

/// See the module head.
#[derive(Clone, Debug)]
pub struct KernelMover<T, C = Syscalls> {
    topology: T,
    calls: C,
    /// The system refused the call as such, with this number.
    forbidden: Option<i32>,
}

/// What one try showed of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    There,
    Busy,
    Full,
    /// The whole call failed for it.
    Failed(i32),
    Refused(Refusal),
}

impl<T: Topology> KernelMover<T> {
    /// A mover of this process's pages.
    pub fn new(topology: T) -> Self {
        Self::with_calls(topology, Syscalls)
    }
}

impl<T: Topology, C: MoveCalls> KernelMover<T, C> {
    /// A mover on another system call.
    pub fn with_calls(topology: T, calls: C) -> Self {
        Self { topology, calls, forbidden: None }
    }

    /// The number with which the system refused to move pages at all, once it did.
    pub fn forbidden(&self) -> Option<i32> {
        self.forbidden
    }

    fn query(&mut self, pages: &[usize], status: &mut [i32]) -> SysResult<()> {
        status.fill(NOT_REACHED);
        self.calls.move_pages(pages, None, status)
    }

    /// One try to move `which` of the steps to `targets`.
    fn attempt(&mut self, steps: &[Step], which: &[usize], targets: &[Node]) -> Vec<Seen> {
        let mut seen = Vec::with_capacity(which.len());
        for (which, targets) in which.chunks(BATCH).zip(targets.chunks(BATCH)) {
            let pages: Vec<usize> = which.iter().map(|step| steps[*step].address).collect();
            let number = |node: &Node| i32::try_from(self.topology.number(*node)).unwrap_or(-1);
            let nodes: Vec<i32> = targets.iter().map(number).collect();
            let mut told = vec![NOT_REACHED; pages.len()];
            let error = self.calls.move_pages(&pages, Some(&nodes), &mut told).err();
            if let Some(error) = error.filter(|error| is_refusal(error.errno())) {
                self.forbidden = Some(error.errno());
                let refused = Seen::Refused(Refusal::Forbidden);
                seen.extend(std::iter::repeat_n(refused, pages.len()));
                continue;
            }
            let mut now = vec![NOT_REACHED; pages.len()];
            if self.query(&pages, &mut now).is_err() {
                now.fill(NOT_REACHED);
            }
            for ((told, now), node) in told.into_iter().zip(now).zip(nodes) {
                seen.push(judge(told, now, node, error.map(|error| error.errno())));
            }
        }
        seen
    }

    /// The nodes that are tried for a page whose target is full: the nearest to it first.
    fn seconds(&self, step: &Step) -> Vec<Node> {
        let far = |node: Node| {
            let unknown = u32::from(node != step.to);
            self.topology.distance(step.to, node).unwrap_or(unknown)
        };
        let home = far(step.from);
        let mut nodes = self.topology.by_distance(step.to);
        nodes.retain(|node| *node != step.to && *node != step.from && far(*node) < home);
        nodes
    }
}

/// The system refuses the call as such.
fn is_refusal(errno: i32) -> bool {
    [libc::EPERM, libc::ENOSYS].contains(&errno)
}

fn judge(told: i32, now: i32, node: i32, error: Option<i32>) -> Seen {
    if now == node || (now < 0 && told == node) {
        return Seen::There;
    }
    match -told {
        libc::EBUSY | libc::EAGAIN => Seen::Busy,
        libc::ENOMEM => Seen::Full,
        libc::ENOENT | libc::EFAULT => Seen::Refused(Refusal::Untouched),
        libc::EACCES => Seen::Refused(Refusal::Shared),
        // Not reached, or reached and not at the target, which is the error's doing.
        _ => match (error, -now) {
            (_, libc::ENOENT | libc::EFAULT) => Seen::Refused(Refusal::Untouched),
            (Some(errno), _) => Seen::Failed(errno),
            // The kernel counts such pages without an error number: they could not be isolated.
            (None, _) if told == NOT_REACHED || told >= 0 => Seen::Busy,
            (None, _) => Seen::Refused(Refusal::Other(-told)),
        },
    }
}

impl<T: Topology, C: MoveCalls> Mover for KernelMover<T, C> {
    fn homes(&mut self, pages: &[usize]) -> Vec<Home> {
        let mut homes = Vec::with_capacity(pages.len());
        for pages in pages.chunks(BATCH) {
            let mut status = vec![NOT_REACHED; pages.len()];
            if let Err(error) = self.query(pages, &mut status) {
                homes.extend(std::iter::repeat_n(Home::Unknown(error.errno()), pages.len()));
                continue;
            }
            homes.extend(status.into_iter().map(|status| match status {
                0.. => {
                    let node = self.topology.node(status.unsigned_abs());
                    node.map_or(Home::Unknown(libc::ENODEV), Home::On)
                }
                _ if [libc::ENOENT, libc::EFAULT].contains(&-status) => Home::Untouched,
                NOT_REACHED => Home::Unknown(0),
                _ => Home::Unknown(-status),
            }));
        }
        homes
    }

    fn migrate(&mut self, steps: &[Step]) -> Vec<Outcome> {
        let mut outcomes = vec![Outcome::Refused(Refusal::Other(0)); steps.len()];
        let mut full: Vec<usize> = Vec::new();
        let mut again: Vec<usize> = Vec::new();
        let mut failed: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
        // The first try.
        let all: Vec<usize> = (0..steps.len()).collect();
        let targets: Vec<Node> = steps.iter().map(|step| step.to).collect();
        for (step, seen) in all.iter().zip(self.attempt(steps, &all, &targets)) {
            match seen {
                Seen::There => outcomes[*step] = Outcome::Moved,
                Seen::Refused(refusal) => outcomes[*step] = Outcome::Refused(refusal),
                Seen::Busy => again.push(*step),
                Seen::Full => full.push(*step),
                Seen::Failed(_) => failed.entry(steps[*step].to).or_default().push(*step),
            }
        }
        // Each target by itself, and the busy ones once more.
        for (to, which) in
            failed.into_iter().map(|(to, which)| (Some(to), which)).chain([(None, again)])
        {
            let targets: Vec<Node> =
                which.iter().map(|step| to.unwrap_or(steps[*step].to)).collect();
            for (step, seen) in which.iter().zip(self.attempt(steps, &which, &targets)) {
                outcomes[*step] = match seen {
                    Seen::There => Outcome::Moved,
                    Seen::Refused(refusal) => Outcome::Refused(refusal),
                    Seen::Busy => Outcome::Refused(Refusal::Busy),
                    Seen::Full | Seen::Failed(libc::ENOMEM) => {
                        full.push(*step);
                        Outcome::Refused(Refusal::NodeFull)
                    }
                    Seen::Failed(libc::ENODEV | libc::EACCES) => Outcome::Refused(Refusal::NoNode),
                    Seen::Failed(errno) => Outcome::Refused(Refusal::Other(errno)),
                };
            }
        }
        self.find_room(steps, full, &mut outcomes);
        outcomes
    }
}

impl<T: Topology, C: MoveCalls> KernelMover<T, C> {
    /// Tries the other nodes for pages whose targets are full.
    fn find_room(&mut self, steps: &[Step], full: Vec<usize>, outcomes: &mut [Outcome]) {
        let mut left: Vec<(usize, Vec<Node>)> = full
            .into_iter()
            .map(|step| {
                outcomes[step] = Outcome::Refused(Refusal::NodeFull);
                let mut seconds = self.seconds(&steps[step]);
                seconds.reverse();
                (step, seconds)
            })
            .collect();
        loop {
            let mut by_target: BTreeMap<Node, Vec<(usize, Vec<Node>)>> = BTreeMap::new();
            for (step, mut seconds) in left.drain(..) {
                if let Some(next) = seconds.pop() {
                    by_target.entry(next).or_default().push((step, seconds));
                }
            }
            if by_target.is_empty() {
                return;
            }
            for (target, waiting) in by_target {
                let which: Vec<usize> = waiting.iter().map(|(step, _)| *step).collect();
                let seen = self.attempt(steps, &which, &vec![target; which.len()]);
                for ((step, seconds), seen) in waiting.into_iter().zip(seen) {
                    match seen {
                        Seen::There => outcomes[step] = Outcome::Elsewhere(target),
                        Seen::Refused(refusal) => outcomes[step] = Outcome::Refused(refusal),
                        Seen::Busy => outcomes[step] = Outcome::Refused(Refusal::Busy),
                        Seen::Full | Seen::Failed(_) => left.push((step, seconds)),
                    }
                }
            }
        }
    }
}
