//! What cancellers of handles cancel: nodes, as long as these are there.
//!
//! # Protocol
//! - G1 The owner of a node makes its target, when the first canceller is asked of the handle: it
//!   goes into the table of the scheduler, and the node is marked. Later cancellers of the handle
//!   share it.
//! - G2 The thread that ends a marked node takes the target out of the table and empties it, before
//!   the node goes: it had the node's last share, or is the owner, so it sees the mark. Ends of
//!   other nodes look at no target: they find no mark. (Model: `models::targets`.)
//! - G3 A canceller uses the node only under the target's lock, and finds it there until G2.
//! - G4 In a forked child a target of its parent's has no node, and its lock is not looked at: a
//!   thread of the parent may have been inside when the child's copy was made, and the node may lie
//!   on the stack of such a thread, which is other threads' memory in the child.

use crate::tasks::node::Node;
use crate::tasks::scheduler::Scheduler;
use engine::process::Born;
use platform::lock::Mutex;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, MutexGuard, PoisonError};

/// The node that a canceller cancels, and its scheduler; nothing once it has ended.
pub(crate) struct Target {
    place: Mutex<Option<(*const Node, *const Scheduler)>>,
    born: Born,
}

// SAFETY: - what the pointers lead to is made for calls by any thread, and lives while they are
//           there (G2, G3).
unsafe impl Send for Target {}
// SAFETY: - as above.
unsafe impl Sync for Target {}

impl Target {
    /// Of what began in `born`.
    pub(super) fn new(node: &Node, scheduler: &Scheduler, born: Born) -> Arc<Self> {
        let place = Mutex::new(Some((ptr::from_ref(node), ptr::from_ref(scheduler))));
        Arc::new(Self { place, born })
    }

    fn place(&self) -> MutexGuard<'_, Option<(*const Node, *const Scheduler)>> {
        // Nothing panics under the lock.
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `look` says of the node, while it is there; `None` once it has ended, and in a child
    /// (G4).
    pub(super) fn with<R>(&self, look: impl FnOnce(&Node, &Scheduler) -> R) -> Option<R> {
        if self.born.is_parents() {
            return None;
        }
        let place = self.place();
        // SAFETY: - the place is emptied, under its lock, before the node ends, and the scheduler
        //           outlives its nodes.
        (*place).map(|(node, scheduler)| unsafe { look(&*node, &*scheduler) })
    }
}

/// The targets of a scheduler's nodes, by the nodes' addresses.
pub(super) struct Targets {
    table: Mutex<BTreeMap<usize, Arc<Target>>>,
    /// How many ends of nodes took the lock.
    #[cfg(all(test, not(loom)))]
    looks: std::sync::atomic::AtomicUsize,
}

impl Targets {
    pub(super) fn new() -> Self {
        Self {
            table: Mutex::new(BTreeMap::new()),
            #[cfg(all(test, not(loom)))]
            looks: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<usize, Arc<Target>>> {
        // Nothing panics under the lock.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// G1: the target of `node`, made by `make` unless there is one. By the node's owner.
    pub(super) fn of(&self, node: &Node, make: impl FnOnce() -> Arc<Target>) -> Arc<Target> {
        let target = Arc::clone(self.table().entry(key_of(node)).or_insert_with(make));
        node.mark_as_target();
        target
    }

    /// G2: `node`, which is marked, is about to end: cancellers find it no more.
    #[cold]
    pub(super) fn end(&self, node: &Node) {
        #[cfg(all(test, not(loom)))]
        // ORDERING: Relaxed - a number on its own.
        self.looks.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let target = self.table().remove(&key_of(node));
        if let Some(target) = target {
            *target.place() = None;
        }
    }

    /// How many there are, and how many ends of nodes took the lock.
    #[cfg(all(test, not(loom)))]
    fn counts(&self) -> (usize, usize) {
        // ORDERING: Relaxed - a test's.
        (self.table().len(), self.looks.load(std::sync::atomic::Ordering::Relaxed))
    }
}

fn key_of(node: &Node) -> usize {
    ptr::from_ref(node).addr()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::scope;

    #[test]
    fn cancellers_of_a_handle_share_a_target_and_ends_of_other_tasks_look_at_none() {
        scope(|s| {
            let counts = || s.scheduler().targets.counts();
            let (_, before) = counts();
            let kept: Vec<_> = (0..100)
                .map(|_| {
                    let canceller = s.canceller();
                    let own = canceller.clone();
                    s.spawn(move |_| drop(own));
                    canceller
                })
                .collect();
            s.group(|g| g.spawn(|_| ()));
            s.wait();
            assert_eq!(counts(), (1, before), "101 tasks and a group ended");
            kept[7].cancel();
            assert!(kept.iter().all(crate::Canceller::is_cancelled));
            drop(kept);
            let late = s.canceller();
            assert!(late.is_cancelled(), "the node's target is still that one");
            assert_eq!(counts(), (1, before));
        });
    }

    #[test]
    fn a_target_goes_with_its_node() {
        scope(|s| {
            let counts = || s.scheduler().targets.counts();
            let (_, before) = counts();
            for round in 1..=100 {
                s.spawn(|s| drop(s.canceller()));
                let ended = s.group(|g| {
                    g.spawn(|_| ());
                    g.canceller()
                });
                assert!(!ended.is_cancelled(), "a canceller of what is done cancels nothing");
                ended.cancel();
                s.wait();
                assert_eq!(counts(), (0, before + 2 * round), "one look each");
            }
            assert!(!s.is_cancelled());
        });
    }
}
