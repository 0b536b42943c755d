//! The manager's side of a program's areas.
//!
//! # Invariants
//! - S1 Of `up` the manager writes park words only, and nothing that it does depends on what it
//!   wrote there.
//! - S2 Every value of `up` is copied once and clamped before it is used.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use platform::SysResult;
use platform::affinity::{CpuId, CpuSet, Tid};
use platform::shm::SharedMemory;

use crate::area::Area;
use crate::global::{GLOBAL_SIZE, Global, State};
use crate::grant::{Grant, MAX_CPUS, Turn};
use crate::header::Kind;
use crate::layout::{
    Crowd, DOWN_SIZE, Down, FLAG_FIXED_TEAM, FLAG_SERIAL, MAX_VPS, Request, UP_SIZE, Up, Verdict,
    VpState,
};
use crate::message::Register;
use crate::report::Report;

/// Places for virtual processors in a row that name none: after them the manager does not look for
/// any.
pub const VP_GAP: usize = 64;

/// The page of all programs.
#[derive(Debug)]
pub struct GlobalPage {
    page: Area<Global>,
    descriptor: OwnedFd,
}

impl GlobalPage {
    /// Makes the page of a manager that begins at `now_ns` and manages `cpus`.
    ///
    /// # Errors
    /// When the system has no memory or no descriptors left.
    pub fn create(now_ns: u64, cpus: &CpuSet, quantum_ns: u64, policy: &str) -> SysResult<Self> {
        let memory = SharedMemory::create("nanos-global", GLOBAL_SIZE)?;
        let page = Area::<Global>::new(memory.map_read_write()?);
        page.header.write(Kind::Global, GLOBAL_SIZE, now_ns);
        page.life.beat(now_ns);
        page.life.set_quantum_ns(quantum_ns);
        page.state.set_policy(policy);
        page.cpus.write(cpus.iter());
        Ok(Self { page, descriptor: memory.reopen_read_only()? })
    }

    /// A sign of life at `now_ns`.
    pub fn beat(&self, now_ns: u64) {
        self.page.life.beat(now_ns);
    }

    /// The numbers that changed.
    pub fn set_state(&self, state: State) {
        self.page.state.set(state);
    }

    /// Another quantum is in force.
    pub fn set_quantum_ns(&self, quantum_ns: u64) {
        self.page.life.set_quantum_ns(quantum_ns);
    }

    /// Another policy is in force.
    pub fn set_policy(&self, name: &str) {
        self.page.state.set_policy(name);
    }
}

impl AsFd for GlobalPage {
    /// What programs get: it cannot write.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// The two areas of one program.
#[derive(Debug)]
pub struct ProgramAreas {
    down: Area<Down>,
    up: Area<Up>,
    /// Virtual processors of which `down` says something.
    told: usize,
}

/// The descriptors that a program gets. Closed here after they are sent.
#[derive(Debug)]
pub struct ProgramDescriptors {
    down: OwnedFd,
    up: OwnedFd,
}

impl ProgramDescriptors {
    /// In the order in which they travel, before the doorbell.
    pub fn in_order(&self) -> [BorrowedFd<'_>; 2] {
        [self.down.as_fd(), self.up.as_fd()]
    }
}

/// The processors on which a program says that it stays, as far as the protocol can name them (S2).
/// `None`: it says nothing.
pub fn checked_within(register: &Register) -> Option<CpuSet> {
    let cpus = register.within.as_ref()?;
    Some(cpus.iter().filter(|cpu| **cpu < MAX_CPUS).map(|cpu| CpuId(*cpu)).collect())
}

/// What a program asks for, within bounds: `1 <= lowest <= requested <= max <= MAX_CPUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedRequest {
    /// Processors wanted now.
    pub requested: u32,
    /// The most that the program can use.
    pub max: u32,
    /// Its teams have a fixed size.
    pub fixed_team: bool,
    /// It is in a serial phase, and will want more again in a moment.
    pub serial: bool,
    /// Processors below which it gains nothing from running.
    pub lowest: u32,
    /// When it released a processor last, as it says.
    pub released_ns: u64,
}

impl CheckedRequest {
    /// Clamps whatever a program wrote (S2).
    pub fn of(request: Request) -> Self {
        let max = request.max.clamp(1, MAX_CPUS);
        let requested = request.requested.clamp(1, max);
        Self {
            requested,
            max,
            fixed_team: request.flags & FLAG_FIXED_TEAM != 0,
            serial: request.flags & FLAG_SERIAL != 0,
            lowest: request.lowest.clamp(1, requested),
            released_ns: request.released_ns,
        }
    }

    /// The request that a registration states.
    pub fn of_registration(register: &Register) -> Self {
        Self::of(Request {
            requested: register.request,
            max: register.max_processors,
            flags: if register.fixed_team { FLAG_FIXED_TEAM } else { 0 },
            lowest: 1,
            released_ns: 0,
        })
    }
}

/// What a program says of one of its virtual processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedVp {
    /// Its number.
    pub index: usize,
    /// Its kernel thread, as the program says: unchecked, to be asked of the kernel.
    pub tid: Tid,
    /// What it does.
    pub state: VpState,
}

impl ProgramAreas {
    /// Makes the areas of program `slot`, filled in with what it stated at registration. Its first
    /// grant follows `epoch`.
    ///
    /// # Errors
    /// When the system has no memory or no descriptors left.
    pub fn create(
        slot: u64,
        stated: CheckedRequest,
        grace_ns: u64,
        epoch: u32,
    ) -> SysResult<(Self, ProgramDescriptors)> {
        let down = SharedMemory::create("nanos-down", DOWN_SIZE)?;
        let up = SharedMemory::create("nanos-up", UP_SIZE)?;

        let down_area = Area::<Down>::new(down.map_read_write()?);
        down_area.header.write(Kind::Down, DOWN_SIZE, slot);
        down_area.grant.begin_after(epoch);
        down_area.notice.set_grace_ns(grace_ns);

        let up_area = Area::<Up>::new(up.map_read_write()?);
        up_area.header.write(Kind::Up, UP_SIZE, slot);
        up_area.request.write(Request {
            requested: stated.requested,
            max: stated.max,
            flags: if stated.fixed_team { FLAG_FIXED_TEAM } else { 0 },
            lowest: stated.lowest,
            released_ns: 0,
        });

        let descriptors = ProgramDescriptors { down: down.reopen_read_only()?, up: up.into() };
        Ok((Self { down: down_area, up: up_area, told: 0 }, descriptors))
    }

    /// Publishes a new grant: processor i of `cpus` is for virtual processor i.
    pub fn publish(
        &mut self,
        cpus: impl ExactSizeIterator<Item = CpuId> + Clone,
        dedicated: bool,
        shared: bool,
    ) -> Grant {
        let granted = cpus.len().min(MAX_VPS);
        for (word, cpu) in self.down.vps.iter().zip(cpus.clone()) {
            word.set(Some(cpu), Verdict::Run);
        }
        for word in &self.down.vps[granted..self.told.max(granted)] {
            word.set(None, Verdict::None);
        }
        self.told = granted;
        let processors = u32::try_from(cpus.len()).unwrap_or(u32::MAX);
        self.down.grant.publish(processors, dedicated, shared, cpus)
    }

    /// Publishes a grant of a number of processors that binds nothing: the kernel shares out the
    /// machine.
    pub fn publish_unbound(&mut self, processors: u32, dedicated: bool, shared: bool) -> Grant {
        let granted = (processors as usize).min(MAX_VPS);
        for (index, word) in self.down.vps[..self.told.max(granted)].iter().enumerate() {
            word.set(None, if index < granted { Verdict::Run } else { Verdict::None });
        }
        self.told = granted;
        self.down.grant.publish(processors, dedicated, shared, std::iter::empty())
    }

    /// Says when the program's turn comes: before the grant of what it has outside its turn is
    /// published, and after that of its turn. True when that is new.
    pub fn set_turn(&self, turn: Turn) -> bool {
        self.down.grant.set_turn(turn)
    }

    /// Whether the program's teams of no number of their own keep their size, from now on.
    pub fn set_fixed_team(&self, fixed_team: bool) {
        self.down.grant.set_fixed_team(fixed_team);
    }

    /// The grant in force.
    pub fn grant(&self) -> Grant {
        self.down.grant.read()
    }

    /// Says how many processors the program shall let go of.
    pub fn ask_for(&self, processors: u32) {
        self.down.notice.ask_for(processors);
    }

    /// Says of a virtual processor that it is asked to stop, or squeezed.
    pub fn judge(&mut self, index: usize, verdict: Verdict) {
        if let Some(word) = self.down.vps.get(index) {
            word.set(word.get().0, verdict);
            self.told = self.told.max(index + 1);
        }
    }

    /// Says how many virtual processors are squeezed.
    pub fn set_preempted(&self, vps: u32) {
        self.down.notice.set_preempted(vps);
    }

    /// Another grace is in force.
    pub fn set_grace_ns(&self, grace_ns: u64) {
        self.down.notice.set_grace_ns(grace_ns);
    }

    /// What the program asks for now, copied once and clamped.
    pub fn request(&self) -> CheckedRequest {
        CheckedRequest::of(self.up.request.read())
    }

    /// What the program says of teams that are larger than its grant, unchecked.
    pub fn crowd(&self) -> Crowd {
        self.up.request.crowd()
    }

    /// The processors that the program says that it gave back. It can only have given back what it
    /// holds.
    pub fn released(&self) -> CpuSet {
        self.up.released.read()
    }

    /// The last whole report of a speed, unchecked.
    pub fn report(&self) -> Option<Report> {
        self.up.report.read()
    }

    /// The virtual processors that the program says it has, at most `MAX_VPS`, up to the first
    /// [`VP_GAP`] places in a row that name none: a look at all places of all programs would be
    /// most of what a quantum costs.
    pub fn vps(&self) -> impl Iterator<Item = StatedVp> + '_ {
        let mut nobody = 0;
        let lines = self.up.vps.iter().enumerate().map_while(move |(index, vp)| {
            let tid = i32::try_from(vp.tid()).ok().filter(|tid| *tid > 0);
            nobody = if tid.is_some() { 0 } else { nobody + 1 };
            (nobody < VP_GAP).then_some((index, vp, tid))
        });
        lines.filter_map(|(index, vp, tid)| {
            Some(StatedVp { index, tid: Tid(tid?), state: vp.state() })
        })
    }

    /// Wakes virtual processors `0..count` that sleep: there is a processor for each again. Costs a
    /// fence and a load for each, and a system call for each that sleeps.
    pub fn wake(&self, count: usize) -> usize {
        self.up.vps.iter().take(count).filter(|vp| vp.park.wake()).count()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use platform::affinity::CpuId;
    use proptest::prelude::*;

    fn stated() -> CheckedRequest {
        CheckedRequest {
            requested: 3,
            max: 8,
            fixed_team: true,
            serial: false,
            lowest: 1,
            released_ns: 0,
        }
    }

    #[test]
    fn a_program_finds_what_the_manager_wrote() {
        let (mut areas, descriptors) = ProgramAreas::create(5, stated(), 100, 7).unwrap();
        let published = areas.publish([CpuId(9), CpuId(0)].into_iter(), true, false);
        let down = Area::<Down>::receive(descriptors.down, false).unwrap();
        let up = Area::<Up>::receive(descriptors.up, true).unwrap();
        assert_eq!((down.grant.read(), published.epoch), (published, 8));
        assert_eq!(down.vps[0].get(), (Some(CpuId(9)), Verdict::Run));
        assert_eq!((down.notice.grace_ns(), down.notice.asked()), (100, 0));
        assert_eq!(areas.request(), stated());
        assert!(up.request.ask(6));
        assert!(!up.request.ask(6));
        assert_eq!(areas.request().requested, 6);
        up.vps[3].set_tid(99);
        up.vps[3].set_state(VpState::Parked);
        up.vps[4].set_tid(u32::MAX);
        let stated: Vec<StatedVp> = areas.vps().collect();
        assert_eq!(stated, [StatedVp { index: 3, tid: Tid(99), state: VpState::Parked }]);
        up.vps[3 + VP_GAP].set_tid(7);
        up.vps[4 + 2 * VP_GAP].set_tid(8);
        let indices: Vec<usize> = areas.vps().map(|vp| vp.index).collect();
        assert_eq!(indices, [3, 3 + VP_GAP], "beyond a gap no look goes");
    }

    #[test]
    fn a_smaller_grant_takes_the_processors_of_the_last_virtual_processors() {
        let (mut areas, _descriptors) = ProgramAreas::create(0, stated(), 1, 0).unwrap();
        areas.publish([CpuId(1), CpuId(2), CpuId(3)].into_iter(), true, false);
        areas.publish([CpuId(1)].into_iter(), false, false);
        areas.judge(1, Verdict::Asked);
        areas.judge(9999, Verdict::Asked);
        let words = |index: usize| areas.down.vps[index].get();
        assert_eq!(words(0), (Some(CpuId(1)), Verdict::Run));
        assert_eq!((words(1), words(2)), ((None, Verdict::Asked), (None, Verdict::None)));
        areas.publish([CpuId(1)].into_iter(), false, false);
        assert_eq!(areas.down.vps[1].get(), (None, Verdict::None));
    }

    #[test]
    fn a_grant_that_binds_nothing_has_a_number_and_no_processors() {
        let (mut areas, _descriptors) = ProgramAreas::create(0, stated(), 1, 0).unwrap();
        areas.publish([CpuId(1), CpuId(2), CpuId(3)].into_iter(), true, false);
        let grant = areas.publish_unbound(2, false, true);
        assert_eq!(
            (grant.processors, grant.dedicated, grant.shared, grant.epoch),
            (2, false, true, 2)
        );
        let (seen, cpus) = areas.down.grant.read_with_cpus();
        assert_eq!((seen, cpus.is_empty()), (grant, true));
        let words = [0, 1, 2].map(|index: usize| areas.down.vps[index].get());
        assert_eq!(words, [(None, Verdict::Run), (None, Verdict::Run), (None, Verdict::None)]);
        areas.publish([CpuId(7)].into_iter(), false, false);
        assert_eq!(areas.down.vps[0].get(), (Some(CpuId(7)), Verdict::Run));
        assert_eq!(areas.down.vps[1].get(), (None, Verdict::None));
    }

    #[test]
    fn a_sleeping_virtual_processor_is_woken_through_another_mapping() {
        let (areas, descriptors) = ProgramAreas::create(0, stated(), 1, 0).unwrap();
        let up = Area::<Up>::receive(descriptors.up, true).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                up.vps[1].park.prepare();
                assert!(
                    up.vps[1].park.sleep(Some(std::time::Duration::from_secs(60))),
                    "it was not woken"
                );
            });
            while areas.wake(2) == 0 {
                std::thread::yield_now();
            }
        });
        assert_eq!(areas.wake(MAX_VPS), 0);
    }

    #[test]
    fn the_page_of_all_programs_cannot_be_written_by_them() {
        let cpus: CpuSet = [CpuId(0), CpuId(70)].into_iter().collect();
        let page = GlobalPage::create(11, &cpus, 100, "dss-ts").unwrap();
        page.set_state(State { waiting: 3, ..State::default() });
        page.beat(12);
        let memory = SharedMemory::from_fd(page.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert!(memory.map_read_write().is_err());
        let seen =
            Area::<Global>::receive(page.as_fd().try_clone_to_owned().unwrap(), false).unwrap();
        assert_eq!(
            (seen.life.heartbeat_ns(), seen.life.quantum_ns(), seen.state.waiting()),
            (12, 100, 3)
        );
        assert_eq!((seen.state.policy().as_str(), seen.managed()), ("dss-ts", cpus));
    }

    #[test]
    fn the_programs_descriptor_of_down_cannot_write() {
        let (_areas, descriptors) = ProgramAreas::create(0, stated(), 1, 1).unwrap();
        assert!(SharedMemory::from_fd(descriptors.down).unwrap().map_read_write().is_err());
    }

    #[test]
    fn an_area_of_another_version_is_refused_and_named() {
        let (areas, descriptors) = ProgramAreas::create(0, stated(), 1, 1).unwrap();
        areas.down.header.write_version(1);
        let error = Area::<Down>::receive(descriptors.down, false).unwrap_err().to_string();
        assert_eq!(error, "the shared area has layout version 1, this side speaks 2");
    }

    #[test]
    fn exchanged_areas_are_refused() {
        let (_areas, descriptors) = ProgramAreas::create(0, stated(), 1, 1).unwrap();
        assert!(matches!(
            Area::<Up>::receive(descriptors.down, false),
            Err(crate::AreaError::Memory(_))
        ));
        assert!(matches!(
            Area::<Down>::receive(descriptors.up, false),
            Err(crate::AreaError::Memory(_))
        ));
    }

    proptest! {
        #[test]
        fn whatever_a_program_writes_is_clamped(requested: u32, max: u32, flags: u32, lowest: u32, released_ns: u64) {
            let checked = CheckedRequest::of(Request { requested, max, flags, lowest, released_ns });
            prop_assert!(1 <= checked.requested && checked.requested <= checked.max && checked.max <= MAX_CPUS);
            prop_assert!(1 <= checked.lowest && checked.lowest <= checked.requested);
        }
    }
}
