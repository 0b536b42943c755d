//! The manager's side of a program's areas.
//!
//! # Invariants
//! - S1 The manager maps `up` read-only: nothing that a program does there can depend on a store of the manager.
//! - S2 Every value of `up` is copied once and clamped before it is used.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use platform::SysResult;
use platform::affinity::CpuSet;
use platform::shm::SharedMemory;

use crate::area::Area;
use crate::grant::{Grant, MAX_CPUS};
use crate::layout::{DOWN_SIZE, Down, FLAG_FIXED_TEAM, Kind, Request, UP_SIZE, Up};
use crate::message::Register;

/// The two areas of one program.
#[derive(Debug)]
pub struct ProgramAreas {
    down: Area<Down>,
    up: Area<Up>,
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

/// What a program asks for, within bounds: `1 <= requested <= max <= MAX_CPUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckedRequest {
    /// Processors wanted now.
    pub requested: u32,
    /// The most that the program can use.
    pub max: u32,
    /// Its teams have a fixed size.
    pub fixed_team: bool,
}

impl CheckedRequest {
    /// Clamps whatever a program wrote (S2).
    pub fn of(request: Request) -> Self {
        let max = request.max.clamp(1, MAX_CPUS);
        Self { requested: request.requested.clamp(1, max), max, fixed_team: request.flags & FLAG_FIXED_TEAM != 0 }
    }

    /// The request that a registration states.
    pub fn of_registration(register: &Register) -> Self {
        Self::of(Request {
            requested: register.request,
            max: register.max_processors,
            flags: if register.fixed_team { FLAG_FIXED_TEAM } else { 0 },
        })
    }
}

impl ProgramAreas {
    /// Makes the areas of program `slot`, filled in with what it stated at registration.
    ///
    /// # Errors
    /// When the system has no memory or no descriptors left.
    pub fn create(
        slot: u64,
        stated: CheckedRequest,
        quantum_ns: u64,
        now_ns: u64,
    ) -> SysResult<(Self, ProgramDescriptors)> {
        let down = SharedMemory::create("nanos-down", DOWN_SIZE)?;
        let up = SharedMemory::create("nanos-up", UP_SIZE)?;

        let down_area = Area::<Down>::new(down.map_read_write()?);
        down_area.header.write(Kind::Down, DOWN_SIZE, slot);
        down_area.manager.set_quantum_ns(quantum_ns);
        down_area.manager.beat(now_ns);

        // Written through a mapping that ends here (S1).
        let first = Area::<Up>::new(up.map_read_write()?);
        first.header.write(Kind::Up, UP_SIZE, slot);
        first.request.write(Request {
            requested: stated.requested,
            max: stated.max,
            flags: if stated.fixed_team { FLAG_FIXED_TEAM } else { 0 },
        });
        drop(first);

        let areas = Self { down: down_area, up: Area::new(up.map_read_only()?) };
        let descriptors = ProgramDescriptors { down: down.reopen_read_only()?, up: up.into() };
        Ok((areas, descriptors))
    }

    /// Publishes a new grant.
    pub fn publish(&self, processors: u32, dedicated: bool, shared: bool, cpus: &CpuSet) -> Grant {
        self.down.grant.publish(processors, dedicated, shared, cpus)
    }

    /// The grant in force.
    pub fn grant(&self) -> Grant {
        self.down.grant.read()
    }

    /// A sign of life at `now_ns`.
    pub fn beat(&self, now_ns: u64) {
        self.down.manager.beat(now_ns);
    }

    /// What the program asks for now, copied once and clamped.
    pub fn request(&self) -> CheckedRequest {
        CheckedRequest::of(self.up.request.read())
    }

    /// How many virtual processors the program says it has. For reports.
    pub fn vps(&self) -> u32 {
        let published = self.up.vps.iter().filter(|vp| vp.tid() != 0).count();
        u32::try_from(published).unwrap_or(u32::MAX)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use platform::affinity::CpuId;
    use proptest::prelude::*;

    fn stated() -> CheckedRequest {
        CheckedRequest { requested: 3, max: 8, fixed_team: true }
    }

    #[test]
    fn a_program_finds_what_the_manager_wrote() {
        let (areas, descriptors) = ProgramAreas::create(5, stated(), 100, 7).unwrap();
        let published = areas.publish(2, true, false, &[CpuId(0), CpuId(9)].into_iter().collect());
        let down = Area::<Down>::receive(descriptors.down, false).unwrap();
        let up = Area::<Up>::receive(descriptors.up, true).unwrap();
        assert_eq!(down.grant.read(), published);
        assert_eq!((down.manager.quantum_ns(), down.manager.heartbeat_ns()), (100, 7));
        assert_eq!(areas.request(), stated());
        assert!(up.request.ask(6));
        assert!(!up.request.ask(6));
        assert_eq!(areas.request().requested, 6);
        up.vps[3].set_tid(99);
        assert_eq!(areas.vps(), 1);
    }

    #[test]
    fn the_programs_descriptor_of_down_cannot_write() {
        let (_areas, descriptors) = ProgramAreas::create(0, stated(), 1, 1).unwrap();
        assert!(SharedMemory::from_fd(descriptors.down).unwrap().map_read_write().is_err());
    }

    #[test]
    fn an_area_of_another_version_is_refused_and_named() {
        let (areas, descriptors) = ProgramAreas::create(0, stated(), 1, 1).unwrap();
        areas.down.header.write_version(2);
        let error = Area::<Down>::receive(descriptors.down, false).unwrap_err().to_string();
        assert_eq!(error, "the shared area has layout version 2, this side speaks 1");
    }

    #[test]
    fn exchanged_areas_are_refused() {
        let (_areas, descriptors) = ProgramAreas::create(0, stated(), 1, 1).unwrap();
        assert!(matches!(Area::<Up>::receive(descriptors.down, false), Err(crate::AreaError::Memory(_))));
        assert!(matches!(Area::<Down>::receive(descriptors.up, false), Err(crate::AreaError::Memory(_))));
    }

    proptest! {
        #[test]
        fn whatever_a_program_writes_is_clamped(requested: u32, max: u32, flags: u32) {
            let checked = CheckedRequest::of(Request { requested, max, flags });
            prop_assert!(1 <= checked.requested && checked.requested <= checked.max && checked.max <= MAX_CPUS);
        }
    }
}
