//! Programs that do not speak the protocol: managed by the affinity of all their threads.
//!
//! # Protocol
//! 1. `attach PID`: the process must be the asker's own. It counts as a program that asks for as
//!    many processors as it has threads.
//! 2. It is given only processors on which some thread of it was allowed to run when it was
//!    attached (`taskset`, a cpuset): the others are not its user's wish. Where none of those is
//!    managed its threads stay where they are. Whenever its processors change, each of its threads
//!    is bound to those of them that the thread's own mask allows, or to all of them. Threads made
//!    later inherit that from the threads that made them. Each [`PACE`], whatever the quantum, the
//!    number of threads is looked at: when it is another one, all are looked at. Otherwise that is
//!    done more slowly ([`SLOW`]), for threads that bound themselves and for new ones in the place
//!    of others. A process that `cpumgr run` announced is attached by itself when it has become a
//!    program with several threads that does not register, where that does no harm (`spinning`).
//! 3. `detach PID`, its registration as a program that speaks, or the manager's end: each thread
//!    gets back the mask that it had, or that it gave itself meanwhile; threads made later get the
//!    initial thread's. When the manager is killed the next one on its socket does that, and
//!    attaches the process again (`masks`).
//!
//! # Invariants
//! - B1 Only threads of the process are touched (`threads`), and nothing else of it.
//! - B2 One pass binds at most [`BUDGET`] threads of a program; the next one follows at once,
//!   unless its user owes (`looks`).
//! - B3 What threads cost that no program makes, ends or binds does not depend on the quantum, nor,
//!   for each thread, on how many there are.
//!
//! Masks that are changed while it is attached are its threads' own from the next look on, and
//! what they leave is where it is given processors (`narrowing`).
//!
//! # Not here
//! Processes that an attached one starts: they inherit its mask and keep it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use nix::sys::stat::fstat;
use platform::affinity::{CpuSet, Tid};
use platform::process::{self, Pid};
use platform::{SysError, SysResult};

use super::program::name_of;
use super::watch::Watch;
use crate::kernel::Kernel;
use crate::masks;
use crate::threads::{self, Threads};

/// Threads of one program that one pass binds.
const BUDGET: usize = 64;
/// How often threads are counted.
pub(super) const PACE: u64 = 100_000_000;
/// How often they are all looked at, without a reason; each of them adds [`SLOW_EACH`].
pub(super) const SLOW: u64 = 1_000_000_000;
const SLOW_EACH: u64 = 1_000_000;
/// Threads of one program that are looked at; those beyond stay where they are, which is said.
const MAX_THREADS: usize = 4096;
/// How long threads are not bound while that is not written down yet, at most, and how often it is
/// looked whether it is.
const LONGEST: u64 = 50_000_000;
pub(super) const AGAIN: u64 = 1_000_000;
/// The first process of the machine, or of a container.
const INIT: Pid = Pid(1);
/// The mask of a thread before, and as the manager set it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bound {
    before: CpuSet,
    now: CpuSet,
}

/// A process that is managed from outside.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) pid: Pid,
    /// Whose it is.
    pub(super) owner: u32,
    pub(super) pidfd: OwnedFd,
    pub(super) threads: Threads,
    pub(super) name: String,
    /// The initial thread's mask when it was attached.
    pub(super) fence: CpuSet,
    /// Where its threads might run then, when those are not all that are managed.
    pub(super) within: Option<CpuSet>,
    /// None of that is managed: no thread is bound.
    pub(super) elsewhere: bool,
    /// On how many processors its threads may run.
    pub(super) max: u32,
    /// Processors that a user said it is to have before others have more than theirs, and at most.
    pub(super) bounds: (Option<u32>, Option<u32>),
    pub(super) count: u32,
    pub(super) bound: BTreeMap<i32, Bound>,
    /// Masks that it gave before its processors changed last: a thread that is made by one that is
    /// not moved yet has such a one.
    pub(super) former: Vec<CpuSet>,
    pub(super) cpus: CpuSet,
    /// The threads that were looked at since its processors changed, until all were.
    pub(super) seen: Option<BTreeSet<i32>>,
    /// Its threads when all were looked at last.
    pub(super) counted: u64,
    /// Of those, which are beyond what is looked at.
    pub(super) beyond: u64,
    /// When all are looked at again.
    pub(super) next_slow: u64,
    /// When it started: with its number it is known to the next manager.
    pub(super) start: u64,
    /// Which threads are bound to which masks is not written down yet.
    pub(super) unwritten: bool,
    pub(super) next_look: u64,
    pub(super) arrived: u64,
    /// No client asked for that: it is let go where it would suffer.
    pub(super) by_itself: bool,
    /// Which of its threads run, while it has fewer processors than threads.
    pub(super) watch: Watch,
    /// The client that attached it was told that it suffers.
    pub(super) warned: bool,
    /// Its threads are to be bound when that is written down (`masks`).
    pub(super) ahead: Option<Ahead>,
}

/// Processors that are to be written down before threads are bound to them.
#[derive(Debug)]
pub(super) struct Ahead {
    since: u64,
    /// The number of the copy that says so.
    copy: Option<u64>,
}

impl Attached {
    pub(super) fn open(
        pid: Pid,
        owner: u32,
        managed: &CpuSet,
        kernel: &dyn Kernel,
        now: u64,
    ) -> Result<Self, String> {
        let gone = |error: SysError| format!("process {pid} cannot be attached: {error}");
        let pidfd = process::pidfd_open(pid).map_err(|error| {
            match threads::process_of(Tid(pid.0), owner) {
                Some(process) if process != pid => {
                    format!(
                        "{pid} is a thread of process {process}; a process is attached with all \
                         its threads: attach {process}"
                    )
                }
                _ => gone(error),
            }
        })?;
        if pid == INIT {
            return Err(format!(
                "process {pid} starts all others, which would inherit what it is bound to"
            ));
        }
        if process::is_kernel_thread(pid).map_err(gone)? {
            return Err(format!("process {pid} is a thread of the kernel, and no program"));
        }
        let start = process::start_time(pid).map_err(gone)?;
        let threads = Threads::of(pid, &pidfd).map_err(gone)?;
        let user = fstat(&threads)
            .map_err(|errno| format!("process {pid} cannot be attached: {errno}"))?
            .st_uid;
        if user != owner && owner != 0 {
            return Err(format!(
                "process {pid} belongs to user {user}; a user attaches processes of their own only"
            ));
        }
        let fence = threads.mask(kernel, Tid(pid.0)).map_err(gone)?;
        let fence = fence.ok_or_else(|| format!("process {pid} has ended"))?;
        let tids = threads.list(MAX_THREADS).map_err(gone)?;
        // Those that ended meanwhile are nowhere.
        let masks = tids.iter().filter_map(|tid| Some((tid.0, threads.mask(kernel, *tid).ok()??)));
        let own = |mask: CpuSet| Bound { before: mask.clone(), now: mask };
        let bound: BTreeMap<i32, Bound> = masks.map(|(tid, mask)| (tid, own(mask))).collect();
        let within = bound.values().fold(fence.clone(), |all, it| all.union(&it.now));
        let usable = managed.intersection(&within);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            name: name_of(pid).map_err(gone)?,
            max: number(usable.len()),
            bounds: (None, None),
            count: number(tids.len()),
            elsewhere: usable.is_empty(),
            within: (usable != *managed).then_some(within),
            pid,
            owner: user,
            pidfd,
            threads,
            fence,
            bound,
            former: Vec::new(),
            cpus: CpuSet::new(),
            seen: Some(BTreeSet::new()),
            counted: 0,
            beyond: 0,
            next_slow: now,
            start,
            unwritten: false,
            next_look: now,
            arrived: now,
            by_itself: false,
            watch: Watch::default(),
            warned: false,
            ahead: None,
        })
    }

    /// Its processors are these now.
    pub(super) fn move_to(&mut self, cpus: CpuSet, now: u64) {
        if self.cpus != cpus {
            if self.seen.is_none() {
                self.former.clear();
            }
            // Not all were moved the last time: some have older ones still.
            self.former = self.given();
            self.unwritten = true;
            self.cpus = cpus;
            let since = self.ahead.take().map_or(now, |it| it.since);
            self.ahead = Some(Ahead { since, copy: None });
            self.seen = Some(BTreeSet::new());
        }
    }

    /// Binds each thread that is not where it should be, if any may be. False: there are more (B2).
    pub(super) fn look(&mut self, kernel: &dyn Kernel, now: u64) -> SysResult<bool> {
        let count = self.threads.count()?;
        if self.seen.is_none() && count == self.counted && now < self.next_slow {
            return Ok(true);
        }
        let mut seen = self.seen.take().unwrap_or_default();
        let all = self.bind_all(kernel, &mut seen);
        if matches!(all, Ok(true)) {
            self.counted = count;
            self.beyond = count.saturating_sub(MAX_THREADS as u64);
            self.next_slow = now + SLOW + SLOW_EACH * count.min(MAX_THREADS as u64);
        } else {
            self.seen = Some(seen);
        }
        all
    }

    /// Says that it has more threads than are looked at.
    pub(super) fn warn_of_beyond(&self) {
        tracing::warn!(
            pid = self.pid.0,
            beyond = self.beyond,
            "an attached process has more than {MAX_THREADS} threads: those beyond are not bound, \
             and use processors that it was not granted"
        );
    }

    /// Whether its threads may be bound: to what, is written down, `done` being the number of the
    /// last copy that is, or cannot be in time.
    pub(super) fn may_be_bound(&mut self, done: u64, now: u64) -> bool {
        let is_over = |it: &Ahead| {
            it.copy.is_some_and(|copy| copy <= done) || now >= it.since.saturating_add(LONGEST)
        };
        if self.ahead.as_ref().is_none_or(is_over) {
            self.ahead = None;
        }
        self.ahead.is_none()
    }

    /// It waits for a copy that was not left yet.
    pub(super) fn wants_copy(&self) -> bool {
        self.ahead.as_ref().is_some_and(|it| it.copy.is_none())
    }

    /// The copy of this number says to what it is to be bound.
    pub(super) fn note_copy(&mut self, number: u64) {
        if let Some(ahead) = &mut self.ahead {
            ahead.copy.get_or_insert(number);
        }
    }

    /// Masks that were given and may be inherited; few: what its processors were, and what of them
    /// single threads allow.
    fn given(&self) -> Vec<CpuSet> {
        let mut given = self.former.clone();
        for bound in self.bound.values().filter(|it| it.now != it.before) {
            if !given.contains(&bound.now) {
                given.push(bound.now.clone());
            }
        }
        given
    }

    fn bind_all(&mut self, kernel: &dyn Kernel, seen: &mut BTreeSet<i32>) -> SysResult<bool> {
        let tids = self.threads.list(MAX_THREADS)?;
        self.count = u32::try_from(tids.len()).unwrap_or(u32::MAX).max(1);
        let there: BTreeSet<i32> = tids.iter().map(|tid| tid.0).collect();
        self.bound.retain(|tid, _| there.contains(tid));
        if self.elsewhere {
            return Ok(true);
        }
        let given = self.given();
        let mut budget = BUDGET;
        for tid in tids {
            if seen.contains(&tid.0) {
                continue;
            }
            let Some(mask) = self.threads.mask(kernel, tid)? else { continue };
            let before = match self.bound.get(&tid.0) {
                Some(bound) if bound.now == mask => bound.before.clone(),
                // Made since the last look, by a thread that was bound.
                None if given.contains(&mask) => self.fence.clone(),
                // Its own choice.
                _ => mask.clone(),
            };
            let allowed = before.intersection(&self.cpus);
            let now = if allowed.is_empty() { self.cpus.clone() } else { allowed };
            if now != mask {
                if budget == 0 {
                    return Ok(false);
                }
                budget -= 1;
                match self.threads.bind(kernel, tid, &now) {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    Err(error) => {
                        // Its cpuset has none of these, or it runs as another user: it stays where
                        // it is.
                        tracing::debug!(tid = tid.0, %error, "a thread cannot be bound");
                        seen.insert(tid.0);
                        continue;
                    }
                }
            }
            seen.insert(tid.0);
            let new = Bound { before, now };
            self.unwritten |= self.bound.get(&tid.0) != Some(&new);
            self.bound.insert(tid.0, new);
        }
        Ok(true)
    }

    /// The managed processors on which its threads may run, when those are others than before:
    /// masks that were changed meanwhile are the threads' own from then on.
    pub(super) fn other_room(&mut self, managed: &CpuSet) -> Option<CpuSet> {
        // Not all of them were looked at.
        if self.seen.is_some() || self.bound.is_empty() {
            return None;
        }
        let all = self.bound.values().map(|bound| &bound.before);
        let within = all.fold(CpuSet::new(), |all, mask| all.union(mask));
        let usable = managed.intersection(&within);
        let before = self.within.as_ref().unwrap_or(managed).intersection(managed);
        if usable == before {
            return None;
        }
        // Threads that are made later get it back at the end.
        if let Some(initial) = self.bound.get(&self.pid.0) {
            self.fence = initial.before.clone();
        }
        self.max = u32::try_from(usable.len()).unwrap_or(u32::MAX).max(1);
        self.elsewhere = usable.is_empty();
        self.within = (usable != *managed).then_some(within);
        self.unwritten = true;
        Some(usable)
    }

    /// The most that it is given.
    pub(super) fn most(&self) -> u32 {
        self.max.min(self.bounds.1.unwrap_or(u32::MAX)).max(1)
    }

    /// So many of its threads would run, and its user said that it is to have fewer processors.
    pub(super) fn is_to_be_held(&self, running: usize) -> bool {
        self.bounds.1.is_some_and(|most| running > most as usize)
    }

    /// The processors that it has.
    pub(super) fn processors(&self) -> usize {
        self.cpus.len()
    }

    /// How many of its threads run all the time, where that is more than it has processors.
    pub(super) fn suffers(
        &mut self,
        kernel: &dyn Kernel,
        is_curbed: bool,
        now: u64,
    ) -> Option<usize> {
        let processors = self.cpus.len();
        let few = !self.elsewhere && processors > 0 && processors < self.count as usize;
        if !few || self.warned || is_curbed {
            self.watch = Watch::default();
            return None;
        }
        let running = self.watch.running_on(processors, (kernel, self.pid), &self.threads, now)?;
        (running > processors).then_some(running)
    }

    pub(super) fn threads(&self) -> &Threads {
        &self.threads
    }

    /// The masks are others than those that were written down last; told once.
    pub(super) fn is_unwritten(&mut self) -> bool {
        std::mem::take(&mut self.unwritten)
    }

    /// For the next manager.
    pub(super) fn written(&self) -> masks::Attached {
        let thread =
            |(tid, bound): (&i32, &Bound)| (*tid, bound.before.to_string(), bound.now.to_string());
        masks::Attached {
            pid: self.pid.0,
            start: self.start,
            owner: Some(self.owner),
            by_itself: self.by_itself,
            fence: self.fence.to_string(),
            threads: self.bound.iter().map(thread).collect(),
            former: self.former.iter().map(CpuSet::to_string).collect(),
            next: (!self.elsewhere && !self.cpus.is_empty()).then(|| self.cpus.to_string()),
        }
    }

    /// Gives every thread back what it had.
    pub(super) fn restore(&mut self, kernel: &dyn Kernel) {
        let fence = self.fence.clone();
        let given = self.given();
        let bound = std::mem::take(&mut self.bound);
        let was_ours = |mask: &CpuSet| given.contains(mask);
        // A second look, for threads that were made during the first.
        for _ in 0..2 {
            for tid in self.threads.list(usize::MAX).unwrap_or_default() {
                let Ok(Some(mask)) = self.threads.mask(kernel, tid) else { continue };
                let before = match bound.get(&tid.0) {
                    Some(it) if it.now == mask => &it.before,
                    None if was_ours(&mask) => &fence,
                    _ => continue,
                };
                if *before != mask
                    && let Err(error) = self.threads.bind(kernel, tid, before)
                {
                    tracing::warn!(tid = tid.0, %error, "a thread's mask cannot be put back");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
