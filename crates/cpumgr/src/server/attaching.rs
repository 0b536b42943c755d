//! Attaching, looking at, and letting go of programs that do not speak the protocol: the steps of
//! [`attached`](super::attached).

use std::collections::BTreeSet;

use arena::message::ProgramStatus;
use platform::SysResult;
use platform::affinity::{CpuId, CpuSet};
use platform::clock::monotonic_ns;
use platform::process::{self, Pid};
use policies::{AppId, Cause};

use super::Server;
use super::attached::{AGAIN, Attached, PACE, SLOW};
use super::bounds::{LAST_LOOK, MAX_OF_USER, MAX_PROGRAMS};
use super::due::is_over;
use super::spinning;
use super::watch::WINDOW;
use crate::keeper::Keeper;
use crate::masks;
use crate::reactor::Role;
use crate::surprises::Surprise;
use crate::threads::Threads;

impl Server {
    /// Step 1, for user `owner`.
    pub(super) fn attach(&mut self, owner: u32, pid: Pid, now: u64) -> Result<(), String> {
        let free_at = self.looks.free_at(owner, now);
        if free_at > now {
            let seconds = (free_at - now).div_ceil(1_000_000_000);
            return Err(format!(
                "so many threads of user {owner} were looked at that it has to wait: try again in \
                 {seconds} s"
            ));
        }
        // The owner is checked first: not every user may learn whether another user's process is
        // managed.
        let attached = Attached::open(pid, owner, &self.cpus, self.kernel.as_ref(), now);
        self.charge(owner, now);
        self.take_in(attached?, owner)
    }

    /// Attaches those again that a killed manager had attached, their masks being their own again
    /// (`masks`). To be called before the scheduler runs.
    pub(crate) fn attach_again(&mut self, left: &[masks::Attached], now: u64) {
        for process in left {
            let Some(owner) = process.owner else { continue };
            let pid = Pid(process.pid);
            let again =
                Attached::open(pid, owner, &self.cpus, self.kernel.as_ref(), now).and_then(|it| {
                    // Its number may be another process's meanwhile, and its user another one: the
                    // superuser may attach processes of any user.
                    let same = it.start == process.start && it.owner == owner;
                    let it = Attached { by_itself: process.by_itself, ..it };
                    if same {
                        self.take_in(it, owner)
                    } else {
                        Err(format!("process {pid} is another one now"))
                    }
                });
            if let Err(reason) = again {
                tracing::warn!(
                    pid = pid.0,
                    reason,
                    "a process that was attached to a killed manager runs unmanaged"
                );
            }
        }
        self.legacy.forget_attached();
        // The file tells of those that were not attached again, too.
        self.unwritten |= !left.is_empty();
        if !self.attached.is_empty() {
            // There is no event that says so.
            self.stirred = true;
            self.finish_pass(now);
            self.note_due();
        }
    }

    fn take_in(&mut self, mut attached: Attached, owner: u32) -> Result<(), String> {
        let pid = attached.pid;
        attached.bounds = self.bounds_said_of(pid, None);
        let registered =
            self.connections.values().any(|it| it.peer.pid == pid && it.program.is_some());
        if registered || self.attached.values().any(|it| it.pid == pid) {
            return Err(format!("process {pid} is managed already"));
        }
        if pid == process::current_pid() {
            return Err("the manager does not manage itself".into());
        }
        if self.programs() >= MAX_PROGRAMS {
            return Err(format!("{MAX_PROGRAMS} programs are managed already"));
        }
        if self.is_share_of(owner, self.owners()) {
            let places = self.places_of(owner).unwrap_or(MAX_OF_USER);
            return Err(format!("{places} programs of user {owner} are managed already"));
        }
        let serial = self.serials.next();
        let waited = self.reactor.add(&attached.pidfd, serial, Role::Process);
        waited.map_err(|error| format!("process {pid} cannot be attached: {error}"))?;
        self.ledger.arrive(AppId(serial), attached.count, attached.most());
        self.ledger.set_min(AppId(serial), attached.bounds.0.unwrap_or(1));
        if let Some(within) = &attached.within {
            self.ledger.confine(AppId(serial), &within.iter().map(|cpu| cpu.0).collect());
        }
        self.ledger.set_user(AppId(serial), attached.owner);
        self.ledger.set_weight(AppId(serial), self.weight_of(pid));
        tracing::info!(
            pid = pid.0,
            name = attached.name,
            threads = attached.count,
            "a process is attached"
        );
        self.attached.insert(serial, attached);
        self.classify(serial);
        let queued = self.announced().filter(|it| it.peer.pid == pid).map(|it| it.queued_ns).max();
        self.account_arrival(serial, queued.unwrap_or(0));
        self.legacy.unwritten = true;
        self.cause = Some(Cause::Arrival);
        Ok(())
    }

    /// Step 3, at the word of client `by`: a client that may not attach a process may not let it go
    /// either.
    pub(super) fn detach_for(&mut self, by: u64, pid: Pid) -> Result<(), String> {
        let attached = self.attached.iter().find(|(_, it)| it.pid == pid);
        if let Some((serial, _)) = attached
            && !self.may_see(by, *serial)
        {
            return Err(format!("process {pid} belongs to another user"));
        }
        self.detach(pid)?;
        let announced =
            self.connections.values_mut().filter(|it| it.announced && it.peer.pid == pid);
        announced.for_each(|it| (it.detached, it.look) = (true, None));
        Ok(())
    }

    /// Step 3.
    pub(super) fn detach(&mut self, pid: Pid) -> Result<(), String> {
        let Some(serial) =
            self.attached.iter().find(|(_, it)| it.pid == pid).map(|(serial, _)| *serial)
        else {
            return Err(format!(
                "process {pid} is not attached; `cpumgr status` lists those that are"
            ));
        };
        self.let_go(serial);
        Ok(())
    }

    /// Takes an attached process out of the books, ended or not; false when there is none of this
    /// number.
    pub(super) fn let_go(&mut self, serial: u64) -> bool {
        let Some(mut attached) = self.attached.remove(&serial) else {
            return false;
        };
        // An error means that it was not in the set.
        let _removed: SysResult<()> = self.reactor.remove(&attached.pidfd);
        attached.restore(self.kernel.as_ref());
        self.surprises.forget(serial);
        let known = (attached.pid, attached.owner, attached.name.clone());
        self.account_exit(serial, known, monotonic_ns());
        self.charge(attached.owner, monotonic_ns());
        (self.unwritten, self.legacy.unwritten) = (true, true);
        if self.ledger.leave(AppId(serial)) {
            self.cause = Some(Cause::Exit);
        }
        tracing::info!(pid = attached.pid.0, name = attached.name, "a process is let go");
        true
    }

    /// Step 2: its processors changed. False when there is none of this number.
    pub(super) fn bind_attached(&mut self, app: AppId, now: u64) -> bool {
        let Some((attached, holding)) = self.attached.get_mut(&app.0).zip(self.ledger.holding(app))
        else {
            return false;
        };
        attached.move_to(holding.cpus.iter().copied().map(CpuId).collect(), now);
        if attached.seen.is_some() {
            attached.next_look = now;
        }
        self.look_at_attached(now);
        true
    }

    /// Step 2: new threads, and those that are not where they should be.
    pub(super) fn look_at_attached(&mut self, now: u64) {
        if self.attached.is_empty() {
            return;
        }
        let (mut gone, mut alone) = (Vec::new(), Vec::new());
        let done = self.keeper.as_ref().map_or(0, Keeper::done);
        for (serial, attached) in self.attached.iter_mut().filter(|(_, it)| it.next_look <= now) {
            let free_at = self.looks.free_at(attached.owner, now);
            if free_at > now {
                attached.next_look = free_at;
                continue;
            }
            if !attached.may_be_bound(done, now) {
                attached.next_look = now + AGAIN;
                continue;
            }
            let outcome = attached.look(self.kernel.as_ref(), now);
            let suffers =
                attached.suffers(self.kernel.as_ref(), self.ledger.is_curbed(AppId(*serial)), now);
            // A count, too, is a system call.
            self.looks.charge(attached.owner, self.kernel.work() + 1, now);
            match outcome {
                Ok(all) => {
                    attached.next_look = if all { now + PACE } else { now };
                    self.surprises.is_over(Surprise::Look, *serial);
                    if attached.beyond == 0 {
                        self.surprises.is_over(Surprise::Threads, *serial);
                    } else if self.surprises.comes(Surprise::Threads, *serial) {
                        attached.warn_of_beyond();
                    }
                }
                Err(error) if error.is(nix::errno::Errno::ESRCH as i32) => gone.push(*serial),
                Err(error) => {
                    if self.surprises.comes(Surprise::Look, *serial) {
                        tracing::warn!(
                            pid = attached.pid.0,
                            %error,
                            "an attached process cannot be looked at"
                        );
                    }
                    attached.next_look = now + SLOW;
                }
            }
            if self.ledger.ask(AppId(*serial), attached.count) {
                self.cause = self.cause.or(Some(Cause::Request));
            }
            if attached.by_itself {
                attached.next_look = attached.next_look.min(now + 2 * WINDOW);
            }
            match suffers {
                // What its user said is held, as with one that a client attached.
                Some(running) if attached.by_itself && !attached.is_to_be_held(running) => {
                    alone.push((*serial, running))
                }
                Some(running) => {
                    attached.warned = true;
                    spinning::warn(attached.pid, running, attached.cpus.len());
                }
                None => {}
            }
        }
        for (serial, running) in alone {
            self.leave_alone(serial, running, now);
        }
        for serial in gone {
            self.let_go(serial);
        }
    }

    /// Attaches those of the announced processes that have several threads and do not register.
    pub(super) fn look_at_announced(&mut self, now: u64) {
        if !is_over(self.due.look, now) {
            return;
        }
        self.stirred = true;
        let mut several = Vec::new();
        // Processes that have registered meanwhile, or were attached by hand.
        let registered =
            self.connections.values().filter(|it| it.program.is_some()).map(|it| it.peer.pid);
        let managed: BTreeSet<Pid> =
            registered.chain(self.attached.values().map(|it| it.pid)).collect();
        for connection in self.connections.values_mut() {
            if managed.contains(&connection.peer.pid) {
                // A program that becomes another one by exec registers anew, or comes to be looked
                // at as it is.
                if let Some(look) = connection.look.as_mut().filter(|look| look.at <= now) {
                    look.pause = LAST_LOOK;
                    look.at = now + LAST_LOOK;
                }
                continue;
            }
            let free = self.looks.is_free(connection.peer.uid, now);
            let Some(look) = connection.look.as_mut().filter(|look| look.at <= now) else {
                continue;
            };
            look.pause = (look.pause * 2).min(LAST_LOOK);
            look.at = now + look.pause;
            // Of a user that owes nothing is read.
            if !free || connection.program.is_some() {
                continue;
            }
            let threads =
                Threads::of(connection.peer.pid, &connection.pidfd).and_then(|it| it.list(2));
            if threads.is_ok_and(|tids| tids.len() > 1) {
                several.push((connection.serial, connection.peer.uid, connection.peer.pid));
            }
        }
        for (serial, uid, pid) in several {
            if !self.may_be_attached(serial, now) {
                continue;
            }
            if let Some(connection) = self.connections.get_mut(&serial) {
                connection.look = None;
            }
            let opened = Attached::open(pid, uid, &self.cpus, self.kernel.as_ref(), now);
            if let Err(reason) =
                opened.and_then(|it| self.take_in(Attached { by_itself: true, ..it }, uid))
            {
                // It runs on as it is.
                tracing::info!(
                    pid = pid.0,
                    reason,
                    "an announced process with several threads is not attached"
                );
                self.note_reason(pid, &format!("not attached: {reason}"));
            }
        }
    }

    /// The manager ends.
    pub(super) fn let_all_go(&mut self) {
        for serial in self.attached.keys().copied().collect::<Vec<_>>() {
            self.let_go(serial);
        }
    }

    /// What the report says of attached processes.
    pub(super) fn attached_status(&self, serial: u64, now: u64) -> Vec<ProgramStatus> {
        let by = serial;
        let status = |(serial, attached): (&u64, &Attached)| {
            let app = AppId(*serial);
            let holding = self.ledger.holding(app)?;
            Some(ProgramStatus {
                pid: attached.pid.0,
                name: attached.name.clone(),
                library: String::new(),
                request: self.ledger.request(app)?,
                max: attached.most(),
                granted: holding.number(),
                cpus: attached.cpus.to_string(),
                within: attached.within.as_ref().map(CpuSet::to_string),
                shared: holding.shared,
                dedicated: holding.dedicated,
                fixed_team: true,
                attached: true,
                vps: attached.count,
                asked: 0,
                preempted: 0,
                squeezes: 0,
                fence: None,
                speedup: None,
                class: self.ledger.class(app).map(str::to_owned),
                min: attached.bounds.0,
                bound: attached.bounds.1.filter(|it| *it < u32::MAX),
                weight: self.ledger.weight(app)?,
                age_ns: now.saturating_sub(attached.arrived),
            })
        };
        self.attached
            .iter()
            .filter(|(serial, _)| self.may_see(by, **serial))
            .filter_map(status)
            .collect()
    }
}
