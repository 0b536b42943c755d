//! A registered program as the scheduler sees it.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use arena::grant::Turn;
use arena::manager::{CheckedRequest, ProgramAreas, ProgramDescriptors, checked_within};
use arena::message::{MAX_LIBRARY, Register};
use platform::affinity::{self, CpuId, CpuSet, Tid};
use platform::event::Doorbell;
use platform::process::Pid;
use platform::{SysError, SysResult};

use super::seam::{self, Fault};
use crate::api::Areas;
use crate::bucket::Bucket;
use crate::escape::escape;
use crate::fence::Fence;
use crate::kernel::Kernel;
use crate::ledger::Holding;
use crate::reactor::Reactor;
use crate::reclaim::Reclaim;
use crate::threads::Threads;
use crate::trace;

/// Rings that a program may make at once, and how fast they come back: 333 a second. A ring takes
/// some 15 us, so that the most impatient program costs less than a hundredth of a processor; what
/// it costs to bind threads for it is counted apart (`looks`).
const RINGS: u32 = if cfg!(test) { 4 } else { 100 };
const RING_NS: u64 = 3_000_000;
/// A program that rang too often is heard again when it has this many rings.
pub(super) const UNMUTE_TOKENS: u32 = 4;

/// Threads of one program that are looked at.
const MAX_THREADS: usize = 1024;

/// A program.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) areas: ProgramAreas,
    pub(super) doorbell: Doorbell,
    /// What the kernel calls it, escaped.
    pub(super) name: String,
    /// What it says of itself, escaped.
    pub(super) library: String,
    /// The most that it can use here.
    pub(super) max: u32,
    /// Where it stays whatever it is granted, when it cannot use all that are managed.
    pub(super) within: Option<CpuSet>,
    /// The managed processors on which it may run, as it was looked at last.
    room: CpuSet,
    /// It said itself where it stays: its initial thread's mask says nothing of that.
    states_places: bool,
    /// The most that it could use anywhere.
    stated_max: u32,
    /// The most that it is given by the rule for its name.
    ruled: u32,
    /// The most that it is given at the word of a user.
    bound: u32,
    /// Its teams keep their size.
    pub(super) fixed_team: bool,
    /// That was said by a user, and stands above what it says itself.
    team: Option<bool>,
    /// Its processors are for processes that it starts: what it uses itself says nothing.
    pub(super) broker: bool,
    pub(super) arrived: u64,
    pub(super) bucket: Bucket,
    /// Its doorbell is not listened to until then.
    pub(super) muted_until: Option<u64>,
    /// What was taken from it.
    pub(super) reclaim: Reclaim,
    /// What it cannot leave, since it did not obey.
    pub(super) fence: Option<Fence>,
    /// What it was told that it holds.
    pub(super) told: Vec<u32>,
    /// On how many processors of its own it had threads, at most.
    pub(super) seated: usize,
    /// The threads that slept for want of what it was just told of are awake.
    is_awake: bool,
    /// The last speed report that was looked at.
    pub(super) reported: u32,
    /// Speed reports that cannot be true.
    pub(super) refused_reports: u64,
    /// What the trace says that it has.
    pub(super) traced: Option<(Vec<u32>, bool)>,
    /// Until they are sent.
    descriptors: Option<ProgramDescriptors>,
}

impl Program {
    pub(super) fn create(
        serial: u64,
        (pid, pidfd): (Pid, BorrowedFd<'_>),
        register: &Register,
        managed: &CpuSet,
        grace: u64,
        now: u64,
    ) -> SysResult<Self> {
        let stated = CheckedRequest::of_registration(register);
        // What the program was fenced into before (places, taskset, a cpuset) limits what it can
        // use; the program itself keeps to the fence when it binds. Its own word for it needs no
        // trust: it could as well bind itself there, or leave what it is granted unused. A process
        // that cannot be asked is about to end.
        let within = checked_within(register);
        let states_places = within.is_some();
        let fence = within.clone().map_or_else(|| affinity::affinity(Some(Tid(pid.0))), Ok)?;
        let usable = managed.intersection(&fence);
        let within = within.filter(|_| usable != *managed);
        let name = name_of(pid)?;
        if usable.is_empty() {
            tracing::info!(pid = pid.0, name, %fence, "a program stays on processors that are not \
                                                       managed");
        }
        let room = usable;
        let usable = u32::try_from(room.len()).unwrap_or(u32::MAX);
        let epoch = register.held.as_ref().map_or(0, |held| held.epoch);
        let (areas, descriptors) = ProgramAreas::create(serial, stated, grace, epoch)?;
        let mut library = register.library.clone().into_bytes();
        library.truncate(MAX_LIBRARY);
        Ok(Self {
            areas,
            doorbell: Doorbell::new()?,
            name,
            library: escape(&library),
            max: stated.max.min(usable.max(1)),
            within,
            room,
            states_places,
            stated_max: stated.max,
            ruled: u32::MAX,
            bound: u32::MAX,
            fixed_team: stated.fixed_team,
            team: None,
            broker: register.broker,
            arrived: now,
            bucket: Bucket::new(RINGS, RING_NS, now),
            muted_until: None,
            reclaim: Reclaim::new(pid, Threads::of(pid, pidfd)?),
            fence: None,
            told: Vec::new(),
            seated: 0,
            is_awake: false,
            reported: 0,
            refused_reports: 0,
            traced: None,
            descriptors: Some(descriptors),
        })
    }

    /// Tells the program what it holds, and when its turn comes. [`Program::follow`] comes next.
    pub(super) fn publish(&mut self, kernel: &dyn Kernel, holding: &Holding, turn: Turn) {
        seam::others_run();
        if matches!(turn, Turn::At(_)) {
            self.areas.set_turn(turn);
        }
        if seam::has(Fault::EarlyWake) {
            self.areas.wake(holding.number() as usize);
            seam::others_run();
        }
        if let Some(processors) = holding.unbound {
            self.areas.publish_unbound(processors, holding.dedicated, holding.shared);
            self.areas.set_turn(turn);
            // A program that was squeezed may run where it ran before.
            self.set_free(kernel);
        } else {
            self.areas.publish(
                holding.cpus.iter().copied().map(CpuId),
                holding.dedicated,
                holding.shared,
            );
            // With no thread fenced or squeezed none must be let out first, and threads that wait
            // are awake while the rest is done.
            self.areas.set_turn(turn);
            self.is_awake = self.fence.is_none() && !self.reclaim.holds_anybody();
            if self.is_awake {
                self.wake(holding);
            }
        }
    }

    /// Another time of its turn, or no turns any more, where it holds what it held.
    pub(super) fn tell_turn(&self, turn: Turn) {
        if self.areas.set_turn(turn) && turn == Turn::None {
            // Its master may wait for a turn that does not come.
            self.areas.wake(1);
        }
    }

    /// What follows when a program was told that it holds this: it is asked for what it holds no
    /// more, until `grace_ends`.
    pub(super) fn follow(&mut self, kernel: &dyn Kernel, holding: &Holding, grace_ends: u64) {
        // Before any thread is bound: what it has got must be inside.
        if holding.unbound.is_none()
            && let Some(fence) = &mut self.fence
            && let Err(error) = fence.move_to(&holding.cpus.iter().copied().map(CpuId).collect())
        {
            tracing::warn!(name = self.name, %error, "a fence cannot be moved, and is taken away");
            self.set_free(kernel);
        }
        self.reclaim.published(kernel, &mut self.areas, &self.told, &holding.cpus, grace_ends);
        self.told.clone_from(&holding.cpus);
        if !std::mem::take(&mut self.is_awake) {
            self.wake(holding);
        }
    }

    /// Wakes threads that sleep for want of a processor and have one now. After the grant
    /// (`park.wake`).
    fn wake(&self, holding: &Holding) {
        seam::others_run();
        if !seam::has(Fault::EarlyWake) {
            self.areas.wake(holding.number() as usize);
        }
    }

    /// Its threads may run where they ran before it was squeezed and fenced in.
    pub(super) fn set_free(&mut self, kernel: &dyn Kernel) {
        if let Some(fence) = self.fence.take() {
            fence.lift(kernel, self.reclaim.threads());
        }
        self.reclaim.restore(kernel);
    }

    /// The managed processors on which it may run, when those are others than before: its mask or
    /// its cpuset was changed while it ran. A thread that may still run where the initial one may
    /// not shows that the initial thread alone was bound, which the program may do.
    pub(super) fn other_room(&mut self, kernel: &dyn Kernel, pid: Pid, all: &CpuSet) -> bool {
        // In a fence, or where it put itself, the masks are not of others.
        if self.states_places || self.fence.is_some() {
            return false;
        }
        let threads = self.reclaim.threads();
        // A process that cannot be asked is about to end.
        let Ok(Some(mask)) = threads.mask(kernel, Tid(pid.0)) else { return false };
        let usable = all.intersection(&mask);
        let lost = self.room.difference(&usable);
        let holds = |cpus: &CpuSet| self.told.iter().any(|cpu| cpus.contains(CpuId(*cpu)));
        // What it does not hold takes nothing from another program.
        if usable == self.room || (!lost.is_empty() && !holds(&lost)) {
            return false;
        }
        let may_run_there = |tid: &Tid| {
            let mask = threads.mask(kernel, *tid).ok().flatten();
            mask.is_some_and(|mask| !mask.is_disjoint(&lost))
        };
        let Ok(tids) = threads.list(MAX_THREADS) else { return false };
        if !lost.is_empty() && tids.iter().any(may_run_there) {
            return false;
        }
        self.within = (usable != *all).then_some(mask);
        self.room = usable;
        self.count_most();
        true
    }

    /// The rule for its name gives it at most this many, whatever it could use.
    pub(super) fn rule(&mut self, processors: Option<u32>) {
        self.ruled = processors.unwrap_or(u32::MAX);
        self.count_most();
    }

    /// The same at the word of a user, which may be another one later.
    pub(super) fn bind(&mut self, processors: Option<u32>) {
        self.bound = processors.unwrap_or(u32::MAX);
        self.count_most();
    }

    fn count_most(&mut self) {
        let room = u32::try_from(self.room.len()).unwrap_or(u32::MAX).max(1);
        self.max = self.stated_max.min(room).min(self.ruled).min(self.bound).max(1);
    }

    /// What it says of its teams holds as far as no user said something else.
    pub(super) fn states_team(&mut self, fixed_team: bool) {
        self.fixed_team = self.team.unwrap_or(fixed_team);
    }

    /// Whether its teams keep their size from now on (D4).
    pub(super) fn set_team(&mut self, team: Option<bool>) {
        self.team = team.or(self.team);
        if let Some(fixed_team) = team {
            self.fixed_team = fixed_team;
            self.areas.set_fixed_team(fixed_team);
        }
    }

    /// On which of them it may run.
    pub(super) fn room(&self) -> &CpuSet {
        &self.room
    }

    /// What the program gets, once: the areas, which are closed here when they are sent, and copies
    /// of the rest.
    pub(super) fn introduce(&mut self, slot: u64, page: &Arc<OwnedFd>) -> SysResult<Option<Areas>> {
        let Some(areas) = self.descriptors.take() else {
            return Ok(None);
        };
        let copy = self.doorbell.as_fd().try_clone_to_owned();
        let doorbell = copy.map_err(|error| {
            SysError::new("fcntl(F_DUPFD_CLOEXEC)", error.raw_os_error().unwrap_or(0))
        })?;
        Ok(Some(Areas { slot, areas, doorbell, page: Arc::clone(page) }))
    }

    pub(super) fn stop_listening(&self, reactor: &Reactor) {
        // An error means that it was not in the set.
        let _removed: SysResult<()> = reactor.remove(&self.doorbell);
    }

    /// A line of the trace.
    pub(super) fn line(
        &self,
        event: trace::Event,
        pid: i32,
        now: u64,
        cpus: Vec<u32>,
        shared: bool,
    ) -> trace::Line {
        trace::Line {
            t_ns: now,
            event,
            pid,
            name: self.name.clone(),
            cpus,
            shared,
            lost: 0,
            gone: 0,
        }
    }
}

/// What the kernel calls a process: any bytes, which `procfs` takes for text.
pub(super) fn name_of(pid: Pid) -> SysResult<String> {
    let gone = |error: std::io::Error| {
        SysError::new(
            "read(/proc/PID/comm)",
            error.raw_os_error().unwrap_or(nix::errno::Errno::ESRCH as i32),
        )
    };
    let comm = fs::read(format!("/proc/{pid}/comm")).map_err(gone)?;
    Ok(escape(comm.trim_ascii_end()))
}
