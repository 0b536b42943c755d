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
//! - Which processors a job has: the policy, to which its number is a minimum.
//! - A job waits for room in its class, and takes nothing of what another class keeps (`reserve`).
//!   Its class is what its submission chose or what the rules say of that; a rule that asks for the
//!   program's name says nothing yet.
//! - A manager that follows a killed one takes over the numbers and the ends of jobs that run
//!   (`inheriting`).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use arena::message::Range;
use platform::process::Pid;
use policies::backfill::{self, Job, Part, Plan, Running};
use policies::{AppId, AppView, Class, share};

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
            Start {
                id: place.id,
                job: place.processors.map(|_| Running { processors, until, class: None }),
            }
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
        let classes = self.class_places();
        let as_job = |it: &&Place| {
            let Range { least, most } = it.processors.unwrap_or(Range { least: 1, most: 1 });
            let class = classes.of(self.class_by_choice_or_rule(it.serial));
            Job { least, most, limit: it.limit_ns, class }
        };
        let jobs: Vec<Job> = waiting.iter().map(as_job).collect();
        let processors = self.planned();
        let running = self.running_jobs(&classes);
        Some(backfill::plan(now, processors, &classes.parts, &running, &jobs))
    }

    /// The most processors that a job of this submission can ever have, and why not more; `None`:
    /// all that there are.
    pub(super) fn most_ever(&self, serial: u64) -> Option<(u32, String)> {
        let classes = self.class_places();
        let class = self.class_by_choice_or_rule(serial);
        let all = self.ledger.processors();
        let place = classes.of(class.clone());
        let most = backfill::most_ever(all, &classes.parts, place);
        let below = place.map_or(u32::MAX, |place| classes.parts[place].most);
        match class {
            _ if most >= all => None,
            Some(class) if most == below => Some((
                most,
                format!("the programs of class {class} have so many together (its max)"),
            )),
            _ => Some((most, "other classes keep the rest (reserve)".to_owned())),
        }
    }

    /// What jobs are planned on: what is drained is not given to programs.
    fn planned(&self) -> u32 {
        let drained = u32::try_from(self.drained().len()).unwrap_or(u32::MAX);
        self.ledger.processors().saturating_sub(drained)
    }

    fn class_places(&self) -> ClassPlaces {
        let classes = &self.rules.class_table().classes;
        let mut parts: Vec<Part> =
            classes.values().map(|class| Part { most: class.max, kept: 0 }).collect();
        // Minima are served in the order of `policies::Classes`, as far as processors go.
        let numbered = classes.iter().enumerate().filter(|(_, (_, class))| class.reserve);
        let mut order: Vec<(usize, &Class, u64)> =
            numbered.map(|(at, (name, class))| (at, class, AppView::number_of(name))).collect();
        order.sort_by_key(|(_, class, number)| {
            (Reverse(class.priority), Reverse(share::fixed(class.weight)), *number)
        });
        let mut left = self.ledger.processors();
        for (at, class, _) in order {
            parts[at].kept = class.min.min(left);
            left -= parts[at].kept;
        }
        ClassPlaces { parts, names: classes.keys().cloned().collect() }
    }

    /// What runs, each process once.
    fn running_jobs(&self, classes: &ClassPlaces) -> Vec<Running> {
        let follows = Running { processors: 1, until: None, class: None };
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
                // Of one in the books it is known, and need not be looked up.
                let app = AppId(connection.serial);
                let class = match self.ledger.holding(app) {
                    Some(_) => self.ledger.class(app).map(str::to_owned),
                    None => self.class_by_choice_or_rule(connection.serial),
                };
                let class = classes.of(class);
                all.push(Running { class, ..connection.job.unwrap_or(follows) });
            }
        }
        let attached = self.attached.iter().filter(|(_, it)| seen.insert(it.pid));
        let class = |serial: u64| self.ledger.class(AppId(serial)).map(str::to_owned);
        let class = |serial: u64| classes.of(class(serial));
        all.extend(attached.map(|(serial, _)| Running { class: class(*serial), ..follows }));
        classes.within_bounds(all, self.planned())
    }
}

/// The classes as a plan knows them: by their places.
struct ClassPlaces {
    parts: Vec<Part>,
    /// In order.
    names: Vec<String>,
}

impl ClassPlaces {
    /// Programs that follow their grants share where there are too many of them: those of a class
    /// have no more than its maximum, and all of them none of what classes keep that they are not
    /// of.
    fn within_bounds(&self, running: Vec<Running>, processors: u32) -> Vec<Running> {
        let kept: u32 = self.parts.iter().map(|part| part.kept).sum();
        let mut of_others = processors.saturating_sub(kept).max(1);
        let mut left: Vec<(u32, u32)> =
            self.parts.iter().map(|part| (part.most, part.kept)).collect();
        let mut within = |it: &Running| {
            if it.until.is_some() || it.processors > 1 {
                return true;
            }
            let part = it.class.map(|class| &mut left[class]);
            let (most, kept) = part.map_or((u32::MAX, 0), |(most, kept)| {
                let now = (*most, *kept);
                (*most, *kept) = (most.saturating_sub(1), kept.saturating_sub(1));
                now
            });
            if most > 0 && kept > 0 {
                return true;
            }
            let fits = most > 0 && of_others > 0;
            of_others -= u32::from(fits);
            fits
        };
        running.into_iter().filter(|it| within(it)).collect()
    }

    fn of(&self, class: Option<String>) -> Option<usize> {
        self.names.binary_search(&class?).ok()
    }
}

#[cfg(test)]
mod tests {
    use arena::message::{RefusedCode, Submit, ToManager};

    use super::super::places::tests::{says, server};
    use super::*;
    use crate::config::{Config, Rules};

    const SITE: &str = "[classes.small]\nmax = 1\nopen = true\n[classes.kept]\nmin = 1\n\
                        reserve = true\nopen = true\n[[class-rules]]\nclass = \"small\"\n\
                        label = \"nightly\"\n";

    fn job(processors: u32, class: Option<&str>) -> ToManager {
        ToManager::Submit(Submit {
            processors: Some(Range { least: processors, most: processors }),
            class: class.map(str::to_owned),
            ..Submit::plain(processors, "", true)
        })
    }

    #[test]
    fn a_job_begins_where_its_class_and_those_that_keep_some_leave_it_its_processors() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
        let processors = u32::try_from(server.cpus.len()).unwrap();
        if processors < 2 {
            platform::skip!("needs two processors for a reserve of one");
            return;
        }
        server.set_rules(Rules::of(&Config::parse(SITE).unwrap()));
        let mut submit = |server: &mut Server, pid: i32, what: ToManager| {
            says(server, &mut kept, (pid, 7), what)
        };
        // What is more than its class ever has is refused, as is a class that is not there.
        let refused = Some(RefusedCode::NotPossible);
        assert_eq!(submit(&mut server, 5_000_001, job(2, Some("small"))), refused);
        assert_eq!(submit(&mut server, 5_000_002, job(1, Some("none"))), refused);
        let nightly = Submit { purpose: Some("nightly".into()), ..Submit::plain(1, "", true) };
        let range = Some(Range { least: 2, most: 2 });
        let nightly = ToManager::Submit(Submit { processors: range, ..nightly });
        assert_eq!(submit(&mut server, 5_000_003, nightly), refused, "a rule says so");
        // So is what others leave no room for, at any time.
        assert_eq!(submit(&mut server, 5_000_007, job(processors, None)), refused);
        // One processor is kept; what the first one leaves is for one of the small ones.
        for (pid, size, class) in
            [(5_000_004, processors - 1, None), (5_000_005, 1, None), (5_000_006, 1, Some("kept"))]
        {
            assert_eq!(submit(&mut server, pid, job(size, class)), None);
        }
        let process = |server: &Server, id: u64| {
            let place = server.queue.iter().find(|place| place.id == id).unwrap();
            server.connections[&place.serial].peer.pid.0
        };
        let starts: Vec<i32> =
            server.next_starts(0).iter().map(|start| process(&server, start.id)).collect();
        // The second one waits, it cannot be said for how long; what is kept is not kept for it.
        assert_eq!(starts, [5_000_004, 5_000_006]);
    }
}
