//! Jobs: submissions with a number of processors, and which of them start now.
//!
//! # Rule
//! As long as no job waits or runs the queue is served in its order. With jobs it is EASY's
//! ([`policies::backfill`]). A job has a number of processors that is its minimum and its maximum
//! from its start on, and counts with them until its process ends. A program that follows its grant
//! counts with one, its master's, and without a limit if it runs. The policy and the level say how
//! many may start, as for other submissions.
//!
//! # Decisions
//! - Drained processors are not planned with.
//! - Which processors a job has: the policy, to which its number is a minimum. Policies that heed
//!   no minima (README of the policies) give it what they give.
//! - A manager that follows a killed one takes over the numbers and the ends of jobs that run
//!   (`inheriting`).

use std::collections::BTreeSet;

use arena::message::Range;
use platform::process::Pid;
use policies::backfill::{self, Job, Plan, Running};

use super::Server;
use super::connection::Connection;
use super::queue::Place;

/// A submission that may start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// Its number.
    pub(super) id: u64,
    /// Its processors, and when it ends at the latest, where it is a job.
    job: Option<Running>,
}

impl Start {
    /// It starts: what it is from now on.
    pub(super) fn note(self, connection: &mut Connection) {
        connection.job = self.job;
        if let Some(Running { processors, .. }) = self.job {
            connection.bounds = (Some(processors), Some(processors));
        }
    }
}

impl Server {
    /// The submissions that may start now, in the order in which they do.
    pub(super) fn next_starts(&self, now: u64) -> Vec<Start> {
        let waiting = self.ready(now);
        let Some(plan) = self.plan(&waiting, now) else {
            return waiting.into_iter().map(|it| Start { id: it.id, job: None }).collect();
        };
        let start = |(at, processors): (usize, u32)| {
            let place = waiting[at];
            let until = place.limit_ns.map(|limit| now.saturating_add(limit));
            Start { id: place.id, job: place.processors.map(|_| Running { processors, until }) }
        };
        plan.starts.into_iter().map(start).collect()
    }

    /// The submission with a reservation, by its number, and in what time it begins at the latest.
    pub(super) fn reservation(&self, now: u64) -> Option<(u64, u64)> {
        let waiting = self.ready(now);
        let reserved = self.plan(&waiting, now)?.reserved?;
        Some((waiting.get(reserved.job)?.id, reserved.at.saturating_sub(now)))
    }

    /// Those that wait for nothing but processors and the level, the next one first.
    pub(super) fn ready(&self, now: u64) -> Vec<&Place> {
        self.in_order(now).into_iter().filter(|it| self.may_begin(it)).collect()
    }

    /// `None`: no job waits or runs.
    fn plan(&self, waiting: &[&Place], now: u64) -> Option<Plan> {
        let runs_a_job = self.connections.values().any(|it| it.job.is_some());
        if !runs_a_job && waiting.iter().all(|it| it.processors.is_none()) {
            return None;
        }
        let jobs: Vec<Job> = waiting.iter().map(|it| as_job(it)).collect();
        // What is drained is not given to programs.
        let drained = u32::try_from(self.drained().len()).unwrap_or(u32::MAX);
        let processors = self.ledger.processors().saturating_sub(drained);
        Some(backfill::plan(now, processors, &self.running_jobs(), &jobs))
    }

    /// What runs, each process once.
    fn running_jobs(&self) -> Vec<Running> {
        let follows = Running { processors: 1, until: None };
        let mut seen: BTreeSet<Pid> = BTreeSet::new();
        let waits = self.waiting_processes();
        let runs = |it: &&Connection| it.runs(&waits);
        // A process that was admitted has the connection of its submission, and that of its
        // program.
        let jobs = self.connections.values().filter(runs).filter(|it| it.job.is_some());
        let others = self.connections.values().filter(runs).filter(|it| it.job.is_none());
        let mut all: Vec<Running> = Vec::new();
        for connection in jobs.chain(others) {
            if seen.insert(connection.peer.pid) {
                all.push(connection.job.unwrap_or(follows));
            }
        }
        let attached = self.attached.values().filter(|it| seen.insert(it.pid));
        let attached = attached.count();
        all.extend(std::iter::repeat_n(follows, attached));
        all
    }
}

fn as_job(place: &Place) -> Job {
    let Range { least, most } = place.processors.unwrap_or(Range { least: 1, most: 1 });
    Job { least, most, limit: place.limit_ns }
}
