//! What a killed manager left (`settings`), and what this one leaves: a process that ran counts as
//! running, and a process that waited keeps its place.
//!
//! # Invariants
//! - S1 No program starts because a manager was killed. A process that ran is counted from the
//!   first pass on. As long as a process that waited further in front may come back ([`RETURN`]),
//!   no process after it in the queue is admitted.
//! - S2 No program shares a processor because the others came back before it: as long as one that
//!   ran is missing ([`RETURN`] at most), no processor is too young to be taken (M4), and none is
//!   left to strangers (`strangers`): those that are missing run anywhere.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use platform::clock::monotonic_ns;
use platform::process::{self, Peer, Pid};
use policies::{AppId, backfill};

use super::Server;
use super::attached::Attached;
use super::bounds::{FIRST_LOOK, MAX_PLACES, MAX_PROGRAMS};
use super::connection::{Connection, Look};
use super::setup::Ended;
use crate::keeper::Keeper;
use crate::limits::Weight;
use crate::masks;
use crate::settings::{self, As, Handover, Job, LastEnd, Running, Settings, Waiting};
use crate::surprises::Surprise;

/// The least and the most processors, as a user said.
type Bounds = (Option<u32>, Option<u32>);

/// How long places are kept for processes that waited: they find out at once that their manager is
/// gone. Longer where tests run, beside each other: it is their machine's time.
const RETURN: u64 = if cfg!(debug_assertions) { 10_000_000_000 } else { 2_000_000_000 };
/// The time between two copies of the masks of attached processes, for each thread in them.
const COPY_EACH: u64 = 100_000;

/// What is kept of the settings, and for which processes.
#[derive(Debug, Default)]
pub(super) struct Legacy {
    /// Writes for the next manager; none in a model.
    keeper: Option<Keeper<Settings>>,
    /// Something changed since.
    pub(super) unwritten: bool,
    /// It is what an administrator was told to be in force.
    pub(super) is_urgent: bool,
    /// They were a killed manager's before.
    is_inherited: bool,
    /// Processes that waited, and did not come back yet, the first one first.
    missing: Vec<Missing>,
    missing_until: u64,
    /// Processes that ran, and did not register yet.
    returning: BTreeSet<Pid>,
    /// There was no look for strangers since.
    unlooked: bool,
    waits_for_them: bool,
    /// Weights and bounds of processes that are to be attached again.
    attached: Vec<(Pid, f64, Bounds)>,
}

/// A process that waited under the killed manager.
#[derive(Debug)]
struct Missing {
    pid: Pid,
    start: u64,
    since: u64,
    /// Its place.
    rank: usize,
    pidfd: OwnedFd,
}

impl Legacy {
    /// The place of a process that comes back, and since when it waits; `None`: it did not wait.
    pub(super) fn place_of(&mut self, pid: Pid, start: Option<u64>) -> Option<(usize, u64)> {
        let at = self.missing.iter().position(|it| it.pid == pid && Some(it.start) == start)?;
        let back = self.missing.remove(at);
        Some((back.rank, back.since))
    }

    /// The first place that is kept for a process, and how long.
    pub(super) fn kept_place(&mut self, now: u64) -> Option<(usize, u64)> {
        if self.missing_until <= now {
            self.missing.clear();
        }
        // A process that cannot be asked about has its time all the same.
        self.missing.retain(|it| !process::has_ended(&it.pidfd).unwrap_or(false));
        self.missing.first().map(|it| (it.rank, self.missing_until))
    }

    /// The time of those that waited is over, and it was not so before.
    pub(super) fn is_over(&mut self, now: u64) -> bool {
        let is_over = self.waits_for_them && self.missing_until <= now;
        self.waits_for_them &= !is_over;
        is_over
    }

    /// S2: a program that ran may still come back.
    pub(super) fn is_returning(&mut self, now: u64) -> bool {
        if self.missing_until <= now {
            self.returning.clear();
        }
        !self.returning.is_empty()
    }

    /// None comes back any more, and it was not so before.
    pub(super) fn is_return_over(&mut self, now: u64) -> bool {
        let is_over = self.unlooked && !self.is_returning(now);
        self.unlooked &= !is_over;
        is_over
    }

    /// A program has its first grant.
    pub(super) fn is_back(&mut self, pid: Pid) {
        self.returning.remove(&pid);
    }

    /// The weight of a process that was attached.
    pub(super) fn weight_of(&self, pid: Pid) -> Option<f64> {
        self.attached.iter().find(|it| it.0 == pid).map(|it| it.1)
    }

    /// Its bounds.
    pub(super) fn bounds_of(&self, pid: Pid) -> Option<Bounds> {
        self.attached.iter().find(|it| it.0 == pid).map(|it| it.2)
    }

    pub(super) fn forget_attached(&mut self) {
        self.attached.clear();
    }
}

/// The process of this number, if it is still the one that started then.
fn still(pid: i32, start: u64) -> Option<(Pid, OwnedFd)> {
    let pid = Some(Pid(pid)).filter(|pid| pid.0 > 1)?;
    let pidfd = process::pidfd_open(pid).ok()?;
    // Asked while the descriptor holds the number.
    (process::start_time(pid).ok()? == start).then_some((pid, pidfd))
}

impl Server {
    /// Takes over the processes that ran and those that waited. To be called before the scheduler
    /// runs, and before the processes that were attached are attached again.
    pub(crate) fn take_over(&mut self, left: &Settings, now: u64) {
        self.legacy.is_inherited = !left.handover.ends_with_idleness();
        self.drain_again(&left.drained);
        let mut count = 0;
        for one in left.running.iter().take(2 * MAX_PROGRAMS) {
            let Some((pid, pidfd)) = still(one.pid, one.start) else { continue };
            let weight = Weight::of(one.thousandths).map_or(1.0, Weight::number);
            if one.as_what == As::Attached {
                self.legacy.attached.push((pid, weight, one.bounds));
                continue;
            }
            self.legacy.returning.insert(pid);
            let serial = self.serials.next();
            let peer = Peer { pid, uid: one.uid, gid: u32::MAX };
            let mut connection = Connection::new(serial, None, peer, pidfd);
            (connection.announced, connection.attach, connection.request) =
                (true, one.attach, one.request.max(1));
            (connection.weight, connection.start) = (weight, Some(one.start));
            (connection.submission, connection.team) = (one.submission, one.team);
            let job =
                |Job { processors, until }| backfill::Running { processors, until, class: None };
            connection.job = one.job.map(job);
            connection.chosen.clone_from(&one.chosen);
            (connection.label, connection.bounds) = (one.label.clone(), one.bounds);
            connection.is_stand_in = one.as_what == As::Registered;
            connection.look =
                one.attach.then_some(Look { at: now + FIRST_LOOK, pause: FIRST_LOOK });
            match connection.watch(&self.reactor) {
                Ok(()) => drop(self.connections.insert(serial, connection)),
                Err(error) => {
                    tracing::warn!(pid = pid.0, %error, "a program that runs is not counted")
                }
            }
            count += 1;
        }
        let waited = left.waiting.iter().take(MAX_PLACES).enumerate();
        self.legacy.missing = waited
            .filter_map(|(rank, one)| {
                let (pid, pidfd) = still(one.pid, one.start)?;
                Some(Missing { pid, start: one.start, since: one.since.min(now), rank, pidfd })
            })
            .collect();
        (self.legacy.missing_until, self.legacy.waits_for_them) = (now + RETURN, true);
        self.legacy.unlooked = true;
        self.submissions = left.submissions.clone();
        let running: Vec<Pid> = self
            .connections
            .values()
            .filter(|it| it.submission.is_some())
            .map(|it| it.peer.pid)
            .collect();
        let missing = &self.legacy.missing;
        let lives = |pid: Pid| running.contains(&pid) || missing.iter().any(|it| it.pid == pid);
        self.submissions.end_those_that_are_gone(now, lives);
        let waiting = self.legacy.missing.len();
        tracing::info!(running = count, waiting, "a killed manager's programs are taken over");
        self.note_due();
    }

    /// Writes for the next manager from now on.
    pub(crate) fn keep_settings(&mut self) {
        match settings::keeper(self.instance.socket()) {
            Ok(keeper) => self.legacy.keeper = Some(keeper),
            Err(error) => {
                tracing::warn!(%error, "the next manager will not know what this one is told")
            }
        }
        self.legacy.unwritten = true;
        self.note_settings();
    }

    /// The end of a pass: what changed is written.
    pub(super) fn note_settings(&mut self) {
        if std::mem::take(&mut self.legacy.unwritten)
            && let Some(keeper) = &self.legacy.keeper
        {
            if std::mem::take(&mut self.legacy.is_urgent) {
                let _number = keeper.keep_at_once(self.settings());
            } else {
                let _number = keeper.keep(self.settings());
            }
        }
    }

    /// What the next manager would not know if this one were killed, and why.
    pub(super) fn unkept(&self) -> Vec<String> {
        let settings = self.legacy.keeper.as_ref().and_then(Keeper::trouble);
        let masks = self.keeper.as_ref().and_then(Keeper::trouble);
        settings.into_iter().chain(masks).collect()
    }

    /// Has the masks of attached processes written down, where they changed (`masks`), the less
    /// often the more there are.
    pub(super) fn note_masks(&mut self, now: u64) {
        self.unwritten |= self.attached.values_mut().fold(false, |any, it| it.is_unwritten() | any);
        if !self.unwritten || now < self.masks_rest {
            return;
        }
        self.unwritten = false;
        if self.keeper.is_none() {
            match masks::keeper(self.instance.socket()) {
                Ok(keeper) => {
                    self.keeper = Some(keeper);
                    self.surprises.is_over(Surprise::Masks, 0);
                }
                // The next change tries again.
                Err(error) if self.surprises.comes(Surprise::Masks, 0) => {
                    tracing::warn!(%error, "the next manager will not know the masks of attached \
                                            processes")
                }
                Err(_) => {}
            }
        }
        if let Some(keeper) = &self.keeper {
            let all: Vec<masks::Attached> = self.attached.values().map(Attached::written).collect();
            let threads: usize = all.iter().map(|one| one.threads.len()).sum();
            self.masks_rest = now.saturating_add(threads as u64 * COPY_EACH);
            // Threads wait for it.
            let is_urgent = self.attached.values().any(Attached::wants_copy);
            let number = if is_urgent { keeper.keep_at_once(all) } else { keeper.keep(all) };
            self.attached.values_mut().for_each(|it| it.note_copy(number));
        }
    }

    /// Stops writing; the settings are forgotten, or stay for the next manager. As long as the
    /// socket is ours so is the file.
    pub(super) fn leave_settings(&mut self, ended: &Ended) {
        let Some(keeper) = self.legacy.keeper.take() else { return };
        let forgets = match ended {
            // Those that wait start the next manager: without what was in force all would begin.
            Ended::Signal | Ended::Stopped if !self.queue.is_empty() => {
                keeper.keep(self.handed_on(ended));
                false
            }
            Ended::Signal | Ended::Stopped => true,
            Ended::Idle => !self.legacy.is_inherited,
            // The path may be another's by now.
            Ended::Displaced => return keeper.abandon(),
            Ended::Replaced | Ended::Restarts(_) | Ended::Relieved => {
                keeper.keep(self.handed_on(ended));
                false
            }
        };
        // What was left last is written, and removed after that.
        drop(keeper);
        if forgets {
            settings::forget(self.instance.socket());
        }
    }

    /// What the next one is left by one that was not killed: the end of that one by idleness
    /// forgets, as this one's would.
    fn handed_on(&self, ended: &Ended) -> Settings {
        let mut settings = self.settings();
        settings.handover.end = match ended {
            Ended::Relieved => LastEnd::Relieved,
            _ if self.legacy.is_inherited => LastEnd::Killed,
            _ => LastEnd::MadeRoom,
        };
        // A manager that replaces an idle one is the only program here, and comes again by itself.
        if *ended == Ended::Replaced {
            settings.running.clear();
        }
        settings
    }

    /// What the next manager is told.
    pub(super) fn settings(&self) -> Settings {
        // In range a cast is exact.
        let thousandths = |weight: f64| (weight * 1000.0).round() as u32;
        let running = self.connections.values().filter(|it| it.is_program()).filter_map(|it| {
            Some(Running {
                pid: it.peer.pid.0,
                start: it.start?,
                uid: it.peer.uid,
                thousandths: thousandths(it.weight),
                as_what: if it.announced && !it.is_stand_in {
                    As::Announced
                } else {
                    As::Registered
                },
                attach: it.wants_attach() && it.program.is_none(),
                request: it.request,
                team: it.team,
                chosen: it.chosen.clone(),
                label: it.label.clone(),
                bounds: it.bounds,
                submission: it.submission,
                job: it.job.map(|it| Job { processors: it.processors, until: it.until }),
            })
        });
        let attached = self.attached.iter().map(|(serial, it)| Running {
            pid: it.pid.0,
            start: it.start,
            uid: it.owner,
            thousandths: thousandths(self.ledger.weight(AppId(*serial)).unwrap_or(1.0)),
            as_what: As::Attached,
            attach: false,
            request: 1,
            team: None,
            chosen: None,
            label: None,
            bounds: it.bounds,
            submission: None,
            job: None,
        });
        let missing =
            self.legacy.missing.iter().filter(|_| monotonic_ns() < self.legacy.missing_until);
        let missing = missing
            .map(|it| (it.rank, Waiting { pid: it.pid.0, start: it.start, since: it.since }));
        let queued = self.queue.iter().filter_map(|place| {
            let connection = self.connections.get(&place.serial)?;
            let one = Waiting {
                pid: connection.peer.pid.0,
                start: connection.start?,
                since: place.since,
            };
            Some((place.rank(), one))
        });
        let mut waiting: Vec<(usize, Waiting)> = missing.chain(queued).collect();
        // Stable: processes that had no place before are in the order of the queue.
        waiting.sort_by_key(|(rank, _)| *rank);
        let (policy, parameters) = self.ledger.policy_asked_for();
        let parameters =
            parameters.iter().map(|it| (it.key.into(), it.value.to_string())).collect();
        Settings {
            parameters,
            running: running.chain(attached).collect(),
            waiting: waiting.into_iter().map(|(_, one)| one).collect(),
            drained: self.drained().to_string(),
            submissions: self.submissions.clone(),
            // Until it ends otherwise: what is written is for the case that it is killed.
            handover: Handover { end: LastEnd::Killed, level: self.level_from },
            ..Settings::new(policy, self.ledger.quantum(), self.grace, self.level)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::looks::tests::{Asked, pass_until, server};
    use super::super::model::Process;
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn what_was_attached_by_itself_is_so_under_the_next_manager_and_what_was_detached_is_not_again()
    {
        let process = Process::start();
        let pid = process.pid();
        let (dir, next_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut first = server(dir.path(), &Asked::default(), 100_000_000);
        let begin = first.started;
        let peer = Peer { pid, uid: nix::unistd::geteuid().as_raw(), gid: 0 };
        let serial = first.serials.next();
        let mut connection = Connection::new(serial, None, peer, process::pidfd_open(pid).unwrap());
        (connection.announced, connection.attach) = (true, true);
        connection.note_start();
        connection.look = Some(Look { at: begin, pause: FIRST_LOOK });
        first.connections.insert(serial, connection);
        first.note_due();
        // The real threads' times go on with the real clock.
        pass_until(&mut first, begin + 5 * SECOND);
        let wishes = |server: &Server| {
            let running = server.settings().running;
            running
                .iter()
                .filter(|it| it.as_what == As::Announced)
                .map(|it| it.attach)
                .collect::<Vec<_>>()
        };
        let written =
            |server: &Server| server.attached.values().map(Attached::written).collect::<Vec<_>>();
        let left = written(&first);
        assert_eq!((left.len(), left[0].by_itself, wishes(&first)), (1, true, vec![true]));

        let mut next = server(next_dir.path(), &Asked::default(), 100_000_000);
        let begin = next.started;
        next.take_over(&first.settings(), begin);
        next.attach_again(&left, begin);
        let again = written(&next);
        assert_eq!((again.len(), again[0].by_itself, wishes(&next)), (1, true, vec![true]));
        let serial = *next.connections.keys().next().unwrap();
        next.detach_for(serial, pid).unwrap();
        next.finish_pass(begin);
        pass_until(&mut next, begin + 10 * SECOND);
        assert_eq!((written(&next).len(), wishes(&next)), (0, vec![false]));
        first.end(&Ended::Signal);
        next.end(&Ended::Signal);
    }
}
