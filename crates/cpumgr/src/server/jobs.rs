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
//! - A job of a user with a cap waits for room below it, and that user's later jobs and programs in
//!   the queue wait for it. Others pass them. What runs counts as beside other jobs.
//! - A manager that follows a killed one takes over the numbers and the ends of jobs that run
//!   (`inheriting`).

use std::collections::{BTreeMap, BTreeSet};

use arena::message::ProcessorRange;
use platform::process::Pid;
use policies::backfill::{self, Cap, Job, Part, Plan, Running};
use policies::classes::{Demand, minima};
use policies::{AppId, AppView, Class};

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
        let mut classes = self.class_places();
        let processors = self.planned();
        let (users, running): (Vec<u32>, Vec<Running>) =
            self.running_jobs(&classes).into_iter().unzip();
        // By user, in order of their numbers.
        let mut caps: Vec<(u32, Cap)> = self
            .rules
            .caps()
            .into_iter()
            .map(|(user, most)| (user, Cap { most, left: most }))
            .collect();
        let place =
            |caps: &[(u32, Cap)], user: u32| caps.binary_search_by_key(&user, |it| it.0).ok();
        for (user, it) in users.into_iter().zip(&running) {
            if let Some(at) = place(&caps, user) {
                caps[at].1.left = caps[at].1.left.saturating_sub(it.processors);
            }
        }
        let running = classes.beside(running, processors);
        let as_job = |it: &&Place| {
            let ProcessorRange { least, most } =
                it.processors.unwrap_or(ProcessorRange { least: 1, most: 1 });
            let user = self.connections.get(&it.serial).map(|it| it.peer.uid);
            let owner = user.and_then(|user| place(&caps, user));
            let class = classes.of(self.class_by_choice_or_rule(it.serial));
            Job { least, most, limit: it.limit_ns, class, owner }
        };
        let jobs: Vec<Job> = waiting.iter().map(as_job).collect();
        let caps: Vec<Cap> = caps.iter().map(|it| it.1).collect();
        Some(backfill::plan_below(now, processors, &classes.parts, &caps, &running, &jobs))
    }

    /// Why a job of this submission that needs so many processors never begins, as things are now;
    /// `None`: it may.
    pub(super) fn never_begins(&self, serial: u64, least: u32) -> Option<String> {
        let all = self.ledger.processors();
        if least > all {
            return Some(format!("this manager has {all}"));
        }
        let user = self.connections.get(&serial).map(|it| it.peer.uid);
        if let Some(cap) = user.and_then(|user| self.rules.caps().get(&user).copied())
            && least > cap
        {
            return Some(format!(
                "its user's programs have at most {cap} together (processors in [users.NAME])"
            ));
        }
        let classes = self.class_places();
        let class = self.class_by_choice_or_rule(serial);
        let place = classes.of(class.clone());
        let most = backfill::most_ever(all, &classes.parts, place);
        let below = place.map_or(u32::MAX, |place| classes.parts[place].most);
        let why = match class {
            _ if least <= most => return None,
            Some(class) if most == below => {
                format!("the programs of class {class} have so many together (its max)")
            }
            _ => "other classes keep the rest (reserve)".to_owned(),
        };
        Some(format!("it has at most {most}, for {why}"))
    }

    /// The same for one that waits, which drained processors hold up, too; `undrain` lets it begin.
    pub(super) fn why_it_cannot_begin(&self, serial: u64, least: u32) -> Option<String> {
        let left = self.planned();
        let is_drained = || format!("only {left} are not drained (cpumgr undrain)");
        self.never_begins(serial, least).or_else(|| (least > left).then(is_drained))
    }

    /// The log says once of each job that waits that it never begins any more, since classes or
    /// processors are other ones than when it came.
    pub(super) fn tell_of_jobs_that_never_begin(&mut self) {
        let why = |it: &Place| it.processors.and_then(|of| self.never_begins(it.serial, of.least));
        let all: Vec<Option<String>> = self.queue.iter().map(why).collect();
        for (place, why) in self.queue.iter_mut().zip(all) {
            let was_said = std::mem::replace(&mut place.is_said_to_never_begin, why.is_some());
            if let Some(why) = why.filter(|_| !was_said) {
                tracing::warn!(id = place.id, why, "a job that waits never begins as things are");
            }
        }
    }

    /// What jobs are planned on: what is drained is not given to programs.
    fn planned(&self) -> u32 {
        let drained = u32::try_from(self.drained().len()).unwrap_or(u32::MAX);
        self.ledger.processors().saturating_sub(drained)
    }

    fn class_places(&self) -> ClassPlaces<'_> {
        ClassPlaces::new(&self.rules.class_table().classes, self.ledger.processors())
    }

    /// What runs, each process once, and whose it is.
    fn running_jobs(&self, classes: &ClassPlaces<'_>) -> Vec<(u32, Running)> {
        let follows = Running { processors: 1, until: None, class: None };
        let mut seen: BTreeSet<Pid> = BTreeSet::new();
        let waits = self.waiting_processes();
        let runs = |it: &&Connection| it.runs(&waits);
        // A process that was admitted has the connection of its submission, and that of its
        // program.
        let jobs = self.connections.values().filter(runs).filter(|it| it.job.is_some());
        let others = self.connections.values().filter(runs).filter(|it| it.job.is_none());
        let mut all: Vec<(u32, Running)> = Vec::new();
        for connection in jobs.chain(others) {
            if seen.insert(connection.peer.pid) {
                // Of one in the books it is known, and need not be looked up.
                let app = AppId(connection.serial);
                let class = match self.ledger.holding(app) {
                    Some(_) => self.ledger.class(app).map(str::to_owned),
                    None => self.class_by_choice_or_rule(connection.serial),
                };
                let class = classes.of(class);
                let job = Running { class, ..connection.job.unwrap_or(follows) };
                all.push((connection.peer.uid, job));
            }
        }
        let attached = self.attached.iter().filter(|(_, it)| seen.insert(it.pid));
        let class = |serial: u64| self.ledger.class(AppId(serial)).map(str::to_owned);
        let class = |serial: u64| classes.of(class(serial));
        all.extend(
            attached.map(|(serial, it)| (it.owner, Running { class: class(*serial), ..follows })),
        );
        all
    }
}

/// The classes as a plan knows them: by their places.
struct ClassPlaces<'a> {
    /// In order of their names.
    classes: Vec<(&'a str, &'a Class)>,
    parts: Vec<Part>,
}

impl<'a> ClassPlaces<'a> {
    /// Where nothing runs yet.
    fn new(classes: &'a BTreeMap<String, Class>, processors: u32) -> Self {
        let classes: Vec<_> = classes.iter().map(|(name, it)| (name.as_str(), it)).collect();
        let parts = classes.iter().map(|(_, class)| Part::new(class.max, 0)).collect();
        let mut places = Self { classes, parts };
        for (at, kept) in places.kept(processors, &[]).into_iter().enumerate() {
            places.parts[at] = Part::new(places.parts[at].most, kept);
        }
        places
    }

    /// What each class keeps, as the policy has it that divides by classes.
    fn kept(&self, processors: u32, running: &[Running]) -> Vec<u32> {
        // By class; the last one: of no class.
        let mut used = vec![0_u32; self.classes.len() + 1];
        for it in running {
            let used = &mut used[it.class.unwrap_or(self.classes.len())];
            *used = used.saturating_add(it.processors);
        }
        let others = Class::default();
        let named = self.classes.iter().map(|(name, it)| (Some(AppView::number_of(name)), *it));
        let demand = |((number, class), used): ((Option<u64>, _), &u32)| Demand {
            number,
            class,
            inhabited: *used > 0,
            wants: *used,
        };
        let demands: Vec<Demand<'_>> =
            named.chain([(None, &others)]).zip(&used).map(demand).collect();
        // More classes than processors: all masters share, and nothing is kept.
        let floors = minima(processors, true, &demands).unwrap_or_else(|| vec![0; used.len()]);
        let kept = |((_, class), floor): (&(_, &Class), u32)| if class.reserve { floor } else { 0 };
        self.classes.iter().zip(floors).map(kept).collect()
    }

    /// Learns what runs; returns what of it a plan counts. Programs that follow their grants share
    /// where there are too many of them: those of a class have no more than its maximum, and all of
    /// them none of what classes keep that they are not of.
    fn beside(&mut self, running: Vec<Running>, processors: u32) -> Vec<Running> {
        for (at, kept) in self.kept(processors, &running).into_iter().enumerate() {
            self.parts[at].kept_now = kept;
        }
        let kept: u32 = self.parts.iter().map(|part| part.kept_now).sum();
        let mut of_others = processors.saturating_sub(kept).max(1);
        let mut left: Vec<(u32, u32)> =
            self.parts.iter().map(|part| (part.most, part.kept_now)).collect();
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
        let class = class?;
        self.classes.binary_search_by_key(&class.as_str(), |(name, _)| name).ok()
    }
}

#[cfg(test)]
mod tests;
