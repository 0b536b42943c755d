//! EASY backfilling: which jobs of a queue start now, when jobs say how long they run at most.
//!
//! # Rule
//! Jobs start in their order as long as they fit. The first one that does not fit, the *head*, has
//! a reservation: the earliest time at which enough processors are free for it, if every job that
//! runs ends at its limit. A job after it starts now where that does not delay the head: it is over
//! by then, or it takes processors that the head leaves free then.
//!
//! A *rigid* job has a fixed number of processors, a *moldable* one any number in its range that it
//! keeps from its start on: the largest that is free and delays nothing.
//!
//! # Invariants
//! - Q1 As long as no job runs beyond its limit, the head starts at its reservation at the latest,
//!   and no later plan moves that reservation back.
//! - Q2 The jobs that run and start have no more processors together than there are.
//! - Q3 Where a job without a limit runs and has processors that the head needs, the head has no
//!   reservation, and no job passes it: whatever passed it could delay it.
//!
//! # Not here
//! Which users come first (`fair_share`). What ends jobs that run beyond their limit: the manager.

use crate::snapshot::Nanos;

/// A job that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Its processors.
    pub processors: u32,
    /// When it ends at the latest; `None`: it has no limit.
    pub until: Option<Nanos>,
}

/// A job that waits. Its range is not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The fewest processors with which it starts.
    pub least: u32,
    /// The most that it uses; `least` for a rigid job.
    pub most: u32,
    /// For how long it runs at most; `None`: it does not say.
    pub limit: Option<Nanos>,
}

/// When the head of the queue starts at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// Which job, by its place in the queue.
    pub job: usize,
    /// When.
    pub at: Nanos,
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// The jobs that start, by their places in the queue, and their processors.
    pub starts: Vec<(usize, u32)>,
    /// The reservation of the head, where one waits and it has one.
    pub reserved: Option<Reservation>,
}

/// What starts now on `processors`, of which `running` have theirs. A job that needs more than
/// there are counts as needing all. O(n log n) for the jobs that run, O(n) for those that wait.
#[must_use]
pub fn plan(now: Nanos, processors: u32, running: &[Running], queue: &[Job]) -> Plan {
    let used: u64 = running.iter().map(|it| u64::from(it.processors)).sum();
    let mut free = u32::try_from(u64::from(processors).saturating_sub(used))
        .expect("it is at most `processors`, a u32");
    let mut plan = Plan::default();
    let mut ends: Vec<Running> = running.to_vec();
    let range = |job: &Job| {
        let least = job.least.clamp(1, processors.max(1));
        (least, job.most.clamp(least, processors.max(1)))
    };
    let over = |limit: Option<Nanos>| limit.map(|limit| now.saturating_add(limit));
    let mut waiting = queue.iter().enumerate();
    let head = loop {
        let Some((at, job)) = waiting.next() else { return plan };
        let (least, most) = range(job);
        if least > free {
            break (at, least);
        }
        let processors = most.min(free);
        free -= processors;
        plan.starts.push((at, processors));
        ends.push(Running { processors, until: over(job.limit) });
    };
    let Some((at, mut spare)) = reserve(now, free, &mut ends, head.1) else { return plan };
    plan.reserved = Some(Reservation { job: head.0, at });
    for (place, job) in waiting {
        let (least, most) = range(job);
        let is_over = over(job.limit).is_some_and(|end| end <= at);
        // What outlasts the reservation takes what the head leaves.
        let room = if is_over { free } else { free.min(spare) };
        if least > room {
            continue;
        }
        let processors = most.min(room);
        free -= processors;
        if !is_over {
            spare -= processors;
        }
        plan.starts.push((place, processors));
    }
    plan
}

/// When `wanted` processors are free, and how many more are then. `None`: it cannot be said.
fn reserve(now: Nanos, free: u32, ends: &mut [Running], wanted: u32) -> Option<(Nanos, u32)> {
    ends.sort_by_key(|it| it.until.unwrap_or(Nanos::MAX));
    let mut there = u64::from(free);
    let mut at = None;
    for it in ends.iter() {
        let Some(until) = it.until else { break };
        let until = until.max(now);
        // All that end at that time are free then.
        if at.is_some_and(|at| until > at) {
            break;
        }
        there += u64::from(it.processors);
        if there >= u64::from(wanted) {
            at = Some(until);
        }
    }
    let spare = there.checked_sub(u64::from(wanted))?;
    at.map(|at| (at, u32::try_from(spare).unwrap_or(u32::MAX)))
}
