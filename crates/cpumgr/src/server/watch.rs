//! Which threads of a process run all the time.
//!
//! # Rule
//! Threads of an attached program are read only while it could matter: the program has fewer
//! processors than threads, is not curbed, was not warned of, and ran for [`BUSY`] of its
//! processors' time since the last look. A program of many threads is looked at more seldom
//! ([`EACH`]). What is read is charged to its user (`looks`).
//!
//! A thread runs all the time when it ran or waited for a processor for [`RUNS`] of a window of
//! [`WINDOW`] or more.

use std::collections::BTreeMap;

use platform::process::Pid;

use crate::foreign::Times;
use crate::kernel::Kernel;
use crate::threads::Threads;

/// What is less than that is no window.
pub(super) const WINDOW: u64 = 50_000_000;
/// The part of a window in which such a thread could run.
const RUNS: f64 = 0.75;
/// The part of its processors' time that a process ran at least whose threads are worth a look.
const BUSY: f64 = 0.5;
/// What each thread adds to the time between two readings of an attached process.
const EACH: u64 = 1_000_000;
/// Threads that are looked at: with more of them that run a program is not attached by itself where
/// that could do harm.
const MAX_THREADS: usize = 256;

/// The threads of a process, as of the beginning of a window.
#[derive(Debug, Default)]
pub(super) struct Watch {
    begin: u64,
    times: BTreeMap<i32, Times>,
    /// When, and how long the whole process had run then, as of the last cheap look.
    whole: Option<(u64, u64)>,
}

impl Watch {
    /// How many threads ran all the time since the last window ended; `None` when that was just
    /// now, or this is the first one.
    pub(super) fn running(
        &mut self,
        kernel: &dyn Kernel,
        threads: &Threads,
        now: u64,
    ) -> Option<usize> {
        let passed = now.saturating_sub(self.begin);
        if passed < WINDOW {
            return None;
        }
        let tids = threads.list(MAX_THREADS).ok()?;
        let times: BTreeMap<i32, Times> =
            tids.into_iter().filter_map(|tid| Some((tid.0, kernel.times(threads, tid)?))).collect();
        let before = std::mem::replace(self, Self { begin: now, times, whole: self.whole });
        let could_run = |times: &Times| times.ran.saturating_add(times.waited);
        let runs = |(tid, times): (&i32, &Times)| {
            let then = before.times.get(tid)?;
            Some(could_run(times).saturating_sub(could_run(then)) as f64 >= RUNS * passed as f64)
        };
        let is_first = before.times.is_empty();
        let running = self.times.iter().filter(|it| runs(*it) == Some(true)).count();
        (!is_first).then_some(running)
    }

    /// The same for a process with this number of processors; nothing is read while it seems to use
    /// less than it has.
    pub(super) fn running_on(
        &mut self,
        processors: usize,
        (kernel, pid): (&dyn Kernel, Pid),
        threads: &Threads,
        now: u64,
    ) -> Option<usize> {
        let last = self.whole.map_or(0, |(at, _)| at);
        if now.saturating_sub(last) < WINDOW {
            return None;
        }
        let ran = kernel.ran(pid).ok()?;
        let before = self.whole.replace((now, ran));
        let is_busy = before.is_some_and(|(at, before)| {
            let passed = now.saturating_sub(at) as f64 * processors as f64;
            ran.saturating_sub(before) as f64 >= BUSY * passed
        });
        if !is_busy {
            self.times.clear();
            return None;
        }
        let rest = EACH * self.times.len() as u64;
        if !self.times.is_empty() && now.saturating_sub(self.begin) < rest {
            return None;
        }
        self.running(kernel, threads, now)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use platform::SysResult;
    use platform::affinity::{CpuSet, Tid};

    use super::super::model::Process;
    use super::*;
    use crate::kernel::Counted;

    /// Threads of a process that ran as long as it says.
    #[derive(Debug, Default)]
    struct Busy {
        ran: std::rc::Rc<Cell<u64>>,
    }

    impl Kernel for Busy {
        fn affinity(&self, _tid: Tid) -> SysResult<CpuSet> {
            Ok(CpuSet::first_n(2))
        }

        fn set_affinity(&self, _tid: Tid, _cpus: &CpuSet) -> SysResult<()> {
            Ok(())
        }

        fn ran(&self, _pid: Pid) -> SysResult<u64> {
            Ok(self.ran.get())
        }

        fn times(&self, _threads: &Threads, _tid: Tid) -> Option<Times> {
            Some(Times { ran: self.ran.get(), waited: 0 })
        }
    }

    #[test]
    fn threads_of_a_process_are_read_only_while_it_uses_its_processors() {
        let process = Process::start();
        let pidfd = platform::process::pidfd_open(process.pid()).unwrap();
        let threads = Threads::of(process.pid(), &pidfd).unwrap();
        let number = threads.list(MAX_THREADS).unwrap().len();
        let ran = std::rc::Rc::new(Cell::new(0));
        let kernel = Counted::new(Box::new(Busy { ran: std::rc::Rc::clone(&ran) }));
        let mut watch = Watch::default();
        let mut now = 1 << 40;
        let mut looks = |works: bool| {
            let mut found = None;
            for _ in 0..20 {
                now += 2 * WINDOW;
                ran.set(ran.get() + if works { 2 * WINDOW } else { WINDOW / 2 });
                found = watch.running_on(1, (kernel.as_ref(), process.pid()), &threads, now);
            }
            (found, kernel.work())
        };
        assert_eq!(looks(false), (None, 0), "it sleeps most of the time");
        assert_eq!(looks(true), (Some(number), 20 * number as u64), "each thread, at each look");
        assert_eq!(looks(false), (None, 0));
    }
}
