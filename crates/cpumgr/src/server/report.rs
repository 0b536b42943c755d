//! The status report.

use arena::message::{FromManager, Measures, PROGRAMS_PER_PACKET, ProgramStatus, Programs, Status};
use platform::affinity::{CpuId, CpuSet};
use platform::clock::process_ns;
use platform::process;
use policies::AppId;

use super::Server;
use super::connection::Connection;
use crate::fence::{Fence, Fences};
use crate::trace::Trace;

/// Why a program is left alone whose threads run all the time (`spinning`).
const ALONE: &str = "left alone: more of its threads run all the time than it would get processors";

/// Reasons in one report: its head is one packet.
const MOST_REASONS: usize = 32;

impl Server {
    /// The answer to a question for the measures.
    pub(super) fn measures(&self) -> FromManager {
        let so_far = self.measuring.so_far.clone();
        FromManager::Measures(Box::new(Measures { processor_ns: process_ns(), ..so_far }))
    }

    /// The report for client `serial`, without the programs of other users that it may not see.
    pub(super) fn report(&self, serial: u64, now: u64) -> Vec<FromManager> {
        let mut programs: Vec<ProgramStatus> = self
            .connections
            .values()
            .filter(|connection| self.may_see(serial, connection.serial))
            .filter_map(|connection| {
                let program = connection.program.as_ref()?;
                let app = AppId(connection.serial);
                let holding = self.ledger.holding(app)?;
                let cpus: CpuSet = holding.cpus.iter().copied().map(CpuId).collect();
                Some(ProgramStatus {
                    pid: connection.peer.pid.0,
                    name: program.name.clone(),
                    library: program.library.clone(),
                    request: self.ledger.request(app)?,
                    max: program.max,
                    granted: holding.number(),
                    cpus: cpus.to_string(),
                    within: program.within.as_ref().map(CpuSet::to_string),
                    shared: holding.shared,
                    dedicated: holding.dedicated,
                    fixed_team: program.fixed_team,
                    attached: false,
                    vps: u32::try_from(program.areas.vps().count()).unwrap_or(u32::MAX),
                    asked: program.reclaim.asked(),
                    preempted: program.reclaim.preempted(),
                    squeezes: program.reclaim.squeezes(),
                    fence: program.fence.as_ref().map(Fence::name),
                    speedup: self.ledger.speedup(app).map(|it| (it.speedup, it.processors)),
                    class: self.ledger.class(app).map(str::to_owned),
                    min: connection.bounds.0,
                    bound: connection.bounds.1.filter(|it| *it < u32::MAX),
                    weight: self.ledger.weight(app)?,
                    age_ns: now.saturating_sub(program.arrived),
                })
            })
            .collect();
        programs.extend(self.attached_status(serial, now));
        let silent = self
            .connections
            .values()
            .filter(|it| it.announced && it.program.is_none() && it.has_left());
        let silent = silent.filter(|it| self.may_see(serial, it.serial)).map(|it| it.peer.pid.0);
        let silent: Vec<i32> =
            silent.filter(|pid| programs.iter().all(|it| it.pid != *pid)).collect();
        let reason = |it: &Connection| {
            let spins = || self.alone.contains(&it.serial).then(|| ALONE.to_owned());
            let reason = it.reason.clone().or_else(|| it.is_left_alone()).or_else(spins);
            Some((it.peer.pid.0, reason?))
        };
        let known = self.connections.values().filter(|it| silent.contains(&it.peer.pid.0));
        let reasons = known.filter_map(reason).take(MOST_REASONS).collect();
        let head = FromManager::Status(Box::new(Status {
            manager_pid: process::current_pid().0,
            uptime_ns: now.saturating_sub(self.started),
            policy: self.ledger.policy().to_owned(),
            policy_failure: self.ledger.policy_failure().map(str::to_owned),
            parameters: self
                .ledger
                .parameters()
                .iter()
                .map(|it| (it.key.into(), it.value.to_string()))
                .collect(),
            quantum_ns: self.ledger.quantum(),
            grace_ns: self.grace,
            waiting: u32::try_from(self.ledger.waiting()).unwrap_or(u32::MAX),
            processors: self.cpus.to_string(),
            processor_count: self.ledger.processors(),
            left: self.left_to_others().to_string(),
            drained: self.drained().to_string(),
            program_count: u32::try_from(programs.len()).unwrap_or(u32::MAX),
            silent,
            fences: self.fences.as_ref().map(Fences::directory),
            trace: self.trace.as_ref().and_then(Trace::path),
            trace_fault: self.trace.as_ref().and_then(Trace::fault),
            level: self.level,
            narrow: self.narrow.clone(),
            kept: self.kept.clone(),
            reasons,
            unkept: self.unkept(),
        }));
        let parts = programs.chunks(PROGRAMS_PER_PACKET);
        let parts = parts.map(|part| FromManager::Programs(Programs { programs: part.to_vec() }));
        std::iter::once(head).chain(parts).collect()
    }
}
