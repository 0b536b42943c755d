//! A library's call whose jobs run on the engine's workers.
//!
//! # Invariants
//! - All jobs of a call are under way at the same time, each on a thread of its own: in level 3 of
//!   BLAS, and what stands on it, they wait for each other's parts in the library's own code.
//! - Jobs that run at the same time have different numbers, those of other threads' calls too: the
//!   library has a buffer for each ([`JobNumbers`](super::numbers::JobNumbers)). With the same
//!   numbers eight Python threads at once had wrong results.
//! - The number of jobs was decided by the library before, and holds for this call. When the
//!   program has fewer processors by now, the threads of this one call take turns on those; the
//!   next one has fewer jobs.

use super::follower;
use super::libraries::{FOLLOWED, Followed};
use crate::process::{departure, message};
use crate::settings::settings;
use engine::Member;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

/// What runs one job.
pub(super) type Job = unsafe extern "C" fn(c_int, *mut c_void, c_int);

/// The jobs of one call: each takes a number, where its data are, and a word of the library's.
#[derive(Clone, Copy)]
pub(super) struct Jobs {
    pub(super) run: Job,
    pub(super) count: usize,
    pub(super) data: *mut c_void,
    /// Bytes from the data of one job to those of the next.
    pub(super) stride: usize,
    pub(super) word: c_int,
    /// The number of the first.
    pub(super) first: usize,
}

// SAFETY: - job i, with the data of its own, is for one thread, as the library says of its jobs.
unsafe impl Sync for Jobs {}

impl Jobs {
    /// # Safety
    /// - `id` is below the count, and each is run once.
    unsafe fn run(&self, id: usize) {
        let number = self.first + id;
        let data = self.data.cast::<u8>().wrapping_add(id * self.stride).cast();
        // SAFETY: - the library's function with what it says that job takes; caller's contract.
        unsafe { (self.run)(c_int::try_from(number).unwrap_or(c_int::MAX), data, self.word) };
    }
}

/// Runs the jobs of a call of the library in `slot`; returns when all are done.
///
/// # Safety
/// - The jobs are as the library says: see [`Jobs`].
pub(super) unsafe fn run(slot: usize, jobs: Jobs) {
    let followed = FOLLOWED[slot].get();
    let taken = followed.map(|it| it.begin_call(jobs.count));
    let jobs = &Jobs { first: taken.as_ref().map_or(0, |it| it.first), ..jobs };
    if jobs.count == 1 {
        // SAFETY: - the only one.
        unsafe { jobs.run(0) };
        return;
    }
    departure::expect();
    let host = settings().host;
    let wanted = followed.map_or(jobs.count, |it| it.dial.limit().max(jobs.count));
    // The processors of a team are taken: BLAS in OpenMP, or in BLAS.
    let granted = if host.is_in_team() { 1 } else { host.grant_for(wanted) };
    let team = host.reserve(jobs.count, true);
    if team.size() == jobs.count {
        // SAFETY: - `member` takes the jobs, which live until the region is joined; a library in C
        // does not unwind.
        unsafe { team.run_plainly(member, ptr::from_ref(jobs).cast()) };
    } else {
        run_without_team(jobs);
    }
    drop(taken);
    if let Some(followed) = followed
        && (followed.pool.threads() != followed.dial.shown()
            || granted.min(followed.dial.limit()) != followed.dial.shown())
    {
        follow(followed, granted);
    }
}

/// The number for the next call is another one.
#[cold]
fn follow(followed: &Followed, granted: usize) {
    // ORDERING: Relaxed - a hint for the thread that raises numbers.
    followed.is_crowded.store(granted < settings().host.limit(), Relaxed);
    followed.follow(granted);
    if followed.dial.shown() < followed.dial.limit() {
        follower::wake();
    }
}

/// # Safety
/// - `jobs` points to [`Jobs`], of which there are as many as members.
unsafe fn member(jobs: *const (), member: Member) {
    // SAFETY: - caller's contract; a member is one of its number.
    unsafe { (*jobs.cast::<Jobs>()).run(member.id as usize) };
}

/// The system refused the engine a thread, and may have one by now: fewer than all jobs would wait
/// for ever.
#[cold]
fn run_without_team(jobs: &Jobs) {
    thread::scope(|scope| {
        for id in 1..jobs.count {
            // SAFETY: - each once.
            let begun = thread::Builder::new().spawn_scoped(scope, move || unsafe { jobs.run(id) });
            if let Err(error) = begun {
                message::fatal(&format!(
                    "a BLAS call of {} threads cannot have them: {error} (look at `ulimit -u` and \
                     the pids limit of the cgroup, or set OPENBLAS_NUM_THREADS)",
                    jobs.count
                ));
            }
        }
        // SAFETY: - once.
        unsafe { jobs.run(0) };
    });
}
