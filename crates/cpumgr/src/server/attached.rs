//! Programs that do not speak the protocol: managed by the affinity of all their threads.
//!
//! # Protocol
//! 1. `attach PID`: the process must be the asker's own. It counts as a program that asks for as
//!    many processors as it has threads.
//! 2. It is given only processors on which some thread of it was allowed to run when it was
//!    attached (`taskset`, a cpuset): the others are not its user's wish. Where none of those is
//!    managed its threads stay where they are. Whenever its processors change, each of its threads
//!    is bound to those of them that the thread's own mask allows, or to all of them. Threads made
//!    later inherit that from who made them. Each [`PACE`], whatever the quantum, the number of
//!    threads is looked at: when it is another one, all are looked at. Otherwise that is done more
//!    slowly ([`SLOW`]), for those that bound themselves and for new ones in the place of others. A
//!    process that `cpumgr run` announced is attached by itself when it has become a program with
//!    several threads that does not register, where that does no harm (`spinning`).
//! 3. `detach PID`, its registration as a program that speaks, or the manager's end: each thread
//!    gets back the mask that it had, or that it gave itself meanwhile; threads made later get the
//!    initial thread's. When the manager is killed the next one on its socket does that, and
//!    attaches the process again (`masks`).
//!
//! # Invariants
//! - B1 Only threads of the process are touched (`threads`), and nothing else of it.
//! - B2 One pass binds at most [`BUDGET`] threads of a program; the next one follows at once,
//!   unless its user owes (`looks`).
//! - B3 What threads that nobody makes, ends or binds cost does not depend on the quantum, nor, for
//!   each, on how many there are.
//!
//! # Not here
//! Processes that an attached one starts: they inherit its mask and keep it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

use arena::message::ProgramStatus;
use nix::sys::stat::fstat;
use platform::affinity::{CpuId, CpuSet, Tid};
use platform::clock::monotonic_ns;
use platform::process::{self, Pid};
use platform::{SysError, SysResult};
use policies::{AppId, Cause};

use super::deadlines::is_over;
use super::places::MAX_OF_USER;
use super::program::name_of;
use super::spinning::{self, WINDOW, Watch};
use super::{MAX_PROGRAMS, Server};
use crate::kernel::Kernel;
use crate::masks;
use crate::reactor::Role;
use crate::threads::{self, Threads};

/// Threads of one program that one pass binds.
const BUDGET: usize = 64;
/// How often threads are counted.
const PACE: u64 = 100_000_000;
/// How often they are all looked at, without a reason; each of them adds [`SLOW_EACH`].
const SLOW: u64 = 1_000_000_000;
const SLOW_EACH: u64 = 1_000_000;
/// Threads of one program that are looked at.
const MAX_THREADS: usize = 1024;
/// The first process of the machine, or of a container.
const INIT: Pid = Pid(1);
/// The longest pause between two looks at a process that was announced and does not register.
pub(super) const LAST_LOOK: u64 = 2_000_000_000;

/// The mask of a thread before, and as the manager set it.
#[derive(Debug, PartialEq, Eq)]
struct Bound {
    before: CpuSet,
    now: CpuSet,
}

/// A process that is managed from outside.
#[derive(Debug)]
pub(super) struct Attached {
    pub(super) pid: Pid,
    /// Whose it is.
    pub(super) owner: u32,
    pidfd: OwnedFd,
    threads: Threads,
    name: String,
    /// The initial thread's mask when it was attached.
    fence: CpuSet,
    /// Where its threads might run then, when those are not all that are managed.
    within: Option<CpuSet>,
    /// None of that is managed: nobody is bound.
    elsewhere: bool,
    max: u32,
    count: u32,
    bound: BTreeMap<i32, Bound>,
    /// Masks that it gave before its processors changed last: a thread that is made by one that is
    /// not moved yet has such a one.
    former: Vec<CpuSet>,
    cpus: CpuSet,
    /// Those who were looked at since its processors changed, until all were.
    seen: Option<BTreeSet<i32>>,
    /// Its threads when all were looked at last.
    counted: u64,
    /// When all are looked at again.
    next_slow: u64,
    /// When it started: with its number it is known to the next manager.
    pub(super) start: u64,
    /// Who is bound to what is not written down yet.
    unwritten: bool,
    pub(super) next_look: u64,
    arrived: u64,
    /// Nobody asked for that: it is let go where it would suffer.
    by_itself: bool,
    /// Which of its threads run, while it has fewer processors than threads.
    watch: Watch,
    /// Whoever attached it was told that it suffers.
    warned: bool,
}

impl Attached {
    fn open(
        pid: Pid,
        owner: u32,
        managed: &CpuSet,
        kernel: &dyn Kernel,
        now: u64,
    ) -> Result<Self, String> {
        let gone = |error: SysError| format!("process {pid} cannot be attached: {error}");
        let pidfd = process::pidfd_open(pid).map_err(|error| match threads::process_of(Tid(pid.0), owner) {
            Some(process) if process != pid => {
                format!("{pid} is a thread of process {process}; a process is attached with all its threads: attach {process}")
            }
            _ => gone(error),
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
        let masks = tids.iter().filter_map(|tid| threads.mask(kernel, *tid).ok().flatten());
        let within = masks.fold(fence.clone(), |all, mask| all.union(&mask));
        let usable = managed.intersection(&within);
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).max(1);
        Ok(Self {
            name: name_of(pid).map_err(gone)?,
            max: number(usable.len()),
            count: number(tids.len()),
            elsewhere: usable.is_empty(),
            within: (usable != *managed).then_some(within),
            pid,
            owner: user,
            pidfd,
            threads,
            fence,
            bound: BTreeMap::new(),
            former: Vec::new(),
            cpus: CpuSet::new(),
            seen: Some(BTreeSet::new()),
            counted: 0,
            next_slow: now,
            start,
            unwritten: false,
            next_look: now,
            arrived: now,
            by_itself: false,
            watch: Watch::default(),
            warned: false,
        })
    }

    /// Its processors are these now.
    fn move_to(&mut self, cpus: CpuSet) {
        if self.cpus != cpus {
            if self.seen.is_none() {
                self.former.clear();
            }
            // Not all were moved the last time: some have older ones still.
            self.former = self.given();
            self.unwritten = true;
            self.cpus = cpus;
            self.seen = Some(BTreeSet::new());
        }
    }

    /// Binds whoever is not where it should be, if anybody may be. False: there are more (B2).
    fn look(&mut self, kernel: &dyn Kernel, now: u64) -> SysResult<bool> {
        let count = self.threads.count()?;
        if self.seen.is_none() && count == self.counted && now < self.next_slow {
            return Ok(true);
        }
        let mut seen = self.seen.take().unwrap_or_default();
        let all = self.bind_all(kernel, &mut seen);
        if matches!(all, Ok(true)) {
            self.counted = count;
            self.next_slow = now + SLOW + SLOW_EACH * count.min(MAX_THREADS as u64);
        } else {
            self.seen = Some(seen);
        }
        all
    }

    /// Masks that were given and may be inherited; few: what its processors were, and what of them
    /// single threads allow.
    fn given(&self) -> Vec<CpuSet> {
        let mut given = self.former.clone();
        for bound in self.bound.values() {
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

    /// The processors that it has.
    pub(super) fn processors(&self) -> usize {
        self.cpus.len()
    }

    /// How many of its threads run all the time, where that is more than it has processors.
    fn suffers(&mut self, kernel: &dyn Kernel, is_curbed: bool, now: u64) -> Option<usize> {
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
        }
    }

    /// Gives every thread back what it had.
    fn restore(&mut self, kernel: &dyn Kernel) {
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

impl Server {
    /// Step 1, for user `owner`.
    pub(super) fn attach(&mut self, owner: u32, pid: Pid, now: u64) -> Result<(), String> {
        let free_at = self.looks.free_at(owner, now);
        if free_at > now {
            let seconds = (free_at - now).div_ceil(1_000_000_000);
            return Err(format!(
                "so many threads of user {owner} were looked at that it has to wait: try again in {seconds} s"
            ));
        }
        // Whose it is comes first: whether others' processes are managed is not everybody's to
        // know.
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
                    // Its number may be another's meanwhile; and who was anybody's to the superuser
                    // is not so for ever.
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
                    "who was attached to a killed manager runs unmanaged"
                );
            }
        }
        self.legacy.forget_weights();
        if !self.attached.is_empty() {
            // There is no event that says so.
            self.stirred = true;
            self.finish_pass(now);
            self.note_due();
        }
    }

    fn take_in(&mut self, attached: Attached, owner: u32) -> Result<(), String> {
        let pid = attached.pid;
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
            return Err(format!("{MAX_OF_USER} programs of user {owner} are managed already"));
        }
        let serial = self.serials.next();
        let waited = self.reactor.add(&attached.pidfd, serial, Role::Process);
        waited.map_err(|error| format!("process {pid} cannot be attached: {error}"))?;
        self.ledger.arrive(AppId(serial), attached.count, attached.max);
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
        self.legacy.unwritten = true;
        self.cause = Some(Cause::Arrival);
        Ok(())
    }

    /// Step 3, at the word of client `by`: whoever may not attach a process may not let it go
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
            return Err(format!("process {pid} is not attached; `cpumgr status` shows who is"));
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
        attached.move_to(holding.cpus.iter().copied().map(CpuId).collect());
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
        for (serial, attached) in self.attached.iter_mut().filter(|(_, it)| it.next_look <= now) {
            let free_at = self.looks.free_at(attached.owner, now);
            if free_at > now {
                attached.next_look = free_at;
                continue;
            }
            let outcome = attached.look(self.kernel.as_ref(), now);
            let suffers =
                attached.suffers(self.kernel.as_ref(), self.ledger.is_curbed(AppId(*serial)), now);
            // A count, too, is a system call.
            self.looks.charge(attached.owner, self.kernel.work() + 1, now);
            match outcome {
                Ok(all) => attached.next_look = if all { now + PACE } else { now },
                Err(error) if error.is(nix::errno::Errno::ESRCH as i32) => gone.push(*serial),
                Err(error) => {
                    tracing::warn!(pid = attached.pid.0, %error, "an attached process cannot be looked at");
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
                Some(running) if attached.by_itself => alone.push((*serial, running)),
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
        // Who has registered meanwhile, or was attached by hand.
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
            let threads =
                Threads::of(connection.peer.pid, &connection.pidfd).and_then(|it| it.list(2));
            if free && connection.program.is_none() && threads.is_ok_and(|tids| tids.len() > 1) {
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
                max: attached.max,
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

#[cfg(test)]
mod tests;
