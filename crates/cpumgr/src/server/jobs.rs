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
//! - A job of a user with a cap waits for room under it, and that user's later jobs wait for it. Of
//!   those that may start each counts with the most that it takes. Others pass them.
//! - A manager that follows a killed one takes over the numbers and the ends of jobs that run
//!   (`inheriting`).

use std::collections::{BTreeMap, BTreeSet};

use arena::message::ProcessorRange;
use platform::process::Pid;
use policies::backfill::{self, Job, Part, Plan, Running};
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
        let caps = self.rules.caps();
        let mut below_caps = caps.clone();
        for (user, it) in users.iter().zip(&running) {
            if let Some(left) = below_caps.get_mut(user) {
                *left = left.saturating_sub(it.processors);
            }
        }
        let running = classes.beside(running, processors);
        let as_job = |it: &&Place| {
            let ProcessorRange { mut least, mut most } =
                it.processors.unwrap_or(ProcessorRange { least: 1, most: 1 });
            let user = self.connections.get(&it.serial).map(|it| it.peer.uid);
            if let Some((user, left)) = user.and_then(|it| Some((it, below_caps.get_mut(&it)?))) {
                if it.processors.is_some() && least > *left {
                    // One that may begin when others have ended is not passed by its user's.
                    *left = if least > caps[&user] { *left } else { 0 };
                    // More than there is: it waits, and is passed.
                    (least, most) = (u32::MAX, u32::MAX);
                } else {
                    most = most.min(*left).max(least);
                    *left = left.saturating_sub(most);
                }
            }
            let class = classes.of(self.class_by_choice_or_rule(it.serial));
            Job { least, most, limit: it.limit_ns, class }
        };
        let jobs: Vec<Job> = waiting.iter().map(as_job).collect();
        Some(backfill::plan(now, processors, &classes.parts, &running, &jobs))
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
            processors: Some(ProcessorRange { least: processors, most: processors }),
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
        let range = Some(ProcessorRange { least: 2, most: 2 });
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

    #[test]
    fn jobs_of_a_user_begin_within_its_cap_and_pass_no_other_users() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
        let processors = u32::try_from(server.cpus.len()).unwrap();
        if processors < 2 {
            platform::skip!("needs two processors for a job beside another one");
            return;
        }
        let capped = Rules::of(&Config::parse("[users.4711]\nprocessors = 1\n").unwrap());
        // Each its process and user, and the fewest and the most.
        let mut submit = |server: &mut Server, client: (i32, u32), (least, most): (u32, u32)| {
            let range = Some(ProcessorRange { least, most });
            let what = Submit { processors: range, ..Submit::plain(most, "", true) };
            says(server, &mut kept, client, ToManager::Submit(what))
        };
        assert_eq!(submit(&mut server, (5_000_001, 4711), (2, 2)), None, "there is no cap yet");
        server.set_rules(capped);
        let why = server.why_it_cannot_begin(server.queue[0].serial, 2).unwrap();
        assert!(why.contains("at most 1 together"), "{why}");
        let refused = Some(RefusedCode::NotPossible);
        assert_eq!(submit(&mut server, (5_000_002, 4711), (2, 2)), refused);
        for (client, range) in [
            ((5_000_003, 4711), (1, processors)),
            ((5_000_004, 4711), (1, 1)),
            ((5_000_005, 4712), (processors - 1, processors - 1)),
        ] {
            assert_eq!(submit(&mut server, client, range), None);
        }
        let starts: Vec<(i32, u32)> = server
            .next_starts(0)
            .iter()
            .map(|start| {
                let place = server.queue.iter().find(|place| place.id == start.id).unwrap();
                (server.connections[&place.serial].peer.pid.0, start.job.unwrap().processors)
            })
            .collect();
        assert_eq!(starts, [(5_000_003, 1), (5_000_005, processors - 1)]);
        let begins = server.next_starts(0)[0];
        let at = server.queue.iter().position(|place| place.id == begins.id).unwrap();
        let serial = server.queue.remove(at).unwrap().serial;
        begins.note(server.connections.get_mut(&serial).unwrap());
        server.connections.get_mut(&serial).unwrap().announced = true;
        assert_eq!(server.next_starts(0).len(), 1, "the cap is used up by what runs");
        server.set_rules(Rules::of(&Config::default()));
        assert_eq!(server.why_it_cannot_begin(server.queue[0].serial, 2), None);
    }

    #[test]
    fn a_job_that_fits_no_more_says_why_it_waits_and_fits_again_when_its_class_is_larger() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, mut kept) = (server(dir.path(), Some(0)), Vec::new());
        let processors = u32::try_from(server.cpus.len()).unwrap();
        if processors < 2 {
            platform::skip!("needs two processors for a job of two");
            return;
        }
        let rules = |max: u32, reserve: u32| {
            let text = format!(
                "[classes.wide]\nmax = {max}\nopen = true\n\
                 [classes.kept]\nmin = {reserve}\nreserve = true\n"
            );
            Rules::of(&Config::parse(&text).unwrap())
        };
        server.set_rules(rules(2, 0));
        for (pid, class) in [(5_000_001, Some("wide")), (5_000_002, None)] {
            assert_eq!(says(&mut server, &mut kept, (pid, 7), job(2, class)), None);
        }
        let asker = server.queue[0].serial;
        let why = |server: &mut Server| -> Vec<Option<String>> {
            let said = server.queue_report(asker, 0).into_iter();
            let places = said.filter_map(|it| match it {
                arena::message::FromManager::Waiting { places } => Some(places),
                _ => None,
            });
            places.flatten().map(|it| it.never_begins).collect()
        };
        assert_eq!(why(&mut server), [None, None]);
        server.set_rules(rules(1, 0));
        let of_class = "it has at most 1, for the programs of class wide have so many together \
                        (its max)";
        assert_eq!(why(&mut server), [Some(of_class.to_owned()), None]);
        server.set_rules(rules(2, processors));
        let reserve = "it has at most 1, for other classes keep the rest (reserve)".to_owned();
        assert_eq!(why(&mut server), [Some(reserve.clone()), Some(reserve)]);
        server.set_rules(rules(2, 0));
        assert_eq!(why(&mut server), [None, None]);
        let all_but_one: Vec<String> =
            server.cpus.iter().skip(1).map(|cpu| cpu.0.to_string()).collect();
        server.change_drained(&all_but_one.join(","), true).unwrap();
        let drained = "only 1 are not drained (cpumgr undrain)".to_owned();
        assert_eq!(why(&mut server), [Some(drained.clone()), Some(drained)]);
        server.change_drained(&all_but_one.join(","), false).unwrap();
        assert_eq!(why(&mut server), [None, None]);
    }

    #[test]
    fn a_plan_keeps_for_classes_what_the_policy_keeps_in_its_order_and_beside_masters() {
        // In their order in a file `zeta` is before `alpha`, as in the policy's, not by name.
        let site = "[classes.zeta]\nmin = 2\nreserve = true\n[classes.alpha]\nmin = 2\n\
                    reserve = true\n[classes.small]\n";
        let rules = Rules::of(&Config::parse(site).unwrap());
        let table = &rules.class_table().classes;
        let kept = |processors: u32, classes: &[Option<&str>]| {
            let mut places = ClassPlaces::new(table, processors);
            let at_rest = ["zeta", "alpha"].map(|it| places.of(Some(it.to_owned())).unwrap());
            let ever = at_rest.map(|at| places.parts[at].kept);
            let run = |class: &Option<&str>| {
                let class = places.of(class.map(str::to_owned));
                Running { processors: 1, until: None, class }
            };
            let running: Vec<Running> = classes.iter().map(run).collect();
            let counted = places.beside(running, processors).len();
            (ever, at_rest.map(|at| places.parts[at].kept_now), counted)
        };
        assert_eq!(kept(3, &[]), ([2, 1], [2, 1], 0));
        for (processors, running) in
            [(4, vec![None]), (4, vec![None, Some("small")]), (6, vec![Some("small"); 3])]
        {
            let app = |(id, class): (u64, &Option<&str>)| AppView {
                class: class.map(AppView::number_of),
                ..AppView::new(AppId(id), 9)
            };
            let apps: Vec<AppView> = (1..).zip(&running).map(app).collect();
            let mut policy = policies::Classes::new(table, || Box::new(policies::Equip::new()));
            let decision = policies::Policy::decide(
                &mut policy,
                &policies::Snapshot {
                    now: 0,
                    quantum: 1,
                    processors,
                    apps: &apps,
                    cause: policies::Cause::Arrival,
                    master_always: true,
                },
            );
            let (_, now, _) = kept(processors, &running);
            assert_eq!(now.iter().sum::<u32>(), decision.reserved, "{running:?}");
        }
        // Each of the two classes has a processor, and both programs count; a job of `zeta` has
        // all that is kept for it.
        assert_eq!(kept(4, &[None, Some("small")]), ([2, 2], [2, 0], 2));
        // More classes than processors: nothing is kept.
        assert_eq!(kept(1, &[None, Some("small")]).1, [0, 0]);
    }
}
