//! The worker threads of the process, those of all teams.

/// Runs `visit` once on each worker of the process, with its number, also on those that other
/// threads reserved; returns how many there were when all are done. Workers of other masters come
/// to it after the region that they are in.
///
/// For what belongs to a thread: counters, signal masks, scheduling class, allocator caches. The
/// calling thread is no worker and is not visited. Regions that a visit forks have one thread.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
/// // The workers are created by the first region.
/// nanothreads::broadcast(|_| ());
/// let visits = AtomicUsize::new(0);
/// let count = nanothreads::workers::on_each(|_number| {
///     visits.fetch_add(1, Ordering::Relaxed);
/// });
/// assert_eq!(visits.into_inner(), count);
/// ```
///
/// # Panics
/// When called inside a region (its members would wait for each other), and with the payload of the
/// first visit that panics, after all are done.
#[track_caller]
pub fn on_each<F: Fn(usize) + Sync>(visit: F) -> usize {
    engine::on_each_worker(visit)
}
