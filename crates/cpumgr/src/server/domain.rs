//! Domain mode (`arena::domain`): programs of one user pass processors to each other, and the
//! manager writes it down.
//!
//! # Protocol
//! 1. A registered process joins, and has a line in the shared area until it leaves.
//! 2. After each pass the lines of the first two of the work-list say how many processors those
//!    could use; the others say none, so that a pass obeys the order of the policy.
//! 3. Before each pass what moved is settled: the giver has released the processor, the books give
//!    it to the first program in the work-list besides the giver, which is the receiver, and both
//!    are told. Then the processor has landed: programs look at their grants alone again. A pass
//!    that the books do not allow is taken back from the receiver.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use arena::domain::{DomainArea, MAX_MEMBERS};
use arena::message::RefusedCode;
use platform::affinity::CpuId;
use platform::{SysError, SysResult};
use policies::AppId;

use super::Server;
use crate::api::Answer;

/// The shared area and which program has which line.
#[derive(Debug)]
pub(super) struct Domain {
    area: DomainArea,
    descriptor: Arc<OwnedFd>,
    /// By line: a program's number in the books.
    lines: BTreeMap<usize, u64>,
}

impl Domain {
    pub(super) fn create(now: u64) -> SysResult<Self> {
        let area = DomainArea::create(now)?;
        let descriptor = area.descriptor().as_fd().try_clone_to_owned();
        let descriptor = descriptor.map_err(|error| {
            SysError::new("fcntl(F_DUPFD_CLOEXEC)", error.raw_os_error().unwrap_or(0))
        })?;
        Ok(Self { area, descriptor: Arc::new(descriptor), lines: BTreeMap::new() })
    }

    /// A program left.
    pub(super) fn leave(&mut self, serial: u64) {
        let line = self.lines.iter().find(|(_, it)| **it == serial).map(|(line, _)| *line);
        if let Some(line) = line {
            self.lines.remove(&line);
            self.area.members()[line].clear();
        }
    }
}

impl Server {
    /// Step 1: the process of client `serial` joins.
    pub(super) fn join(&mut self, serial: u64) {
        let pid = self.connections.get(&serial).map(|it| it.peer.pid);
        let program =
            self.connections.values().find(|it| Some(it.peer.pid) == pid && it.program.is_some());
        let program = program.map(|it| it.serial);
        let refusal = match (&mut self.domain, program) {
            (None, _) => "this manager has no domain; `cpumgr daemon --domain` has one".into(),
            (_, None) => "this process is not registered".into(),
            (Some(domain), Some(program)) => {
                let own =
                    domain.lines.iter().find(|(_, it)| **it == program).map(|(line, _)| *line);
                let free = || (0..MAX_MEMBERS).find(|line| !domain.lines.contains_key(line));
                match own.or_else(free) {
                    Some(line) => {
                        domain.lines.insert(line, program);
                        domain.area.members()[line].offer(program, 0, 0);
                        let area = Arc::clone(&domain.descriptor);
                        let line = u32::try_from(line).expect("there are few lines");
                        return self.put(serial, Answer::Domain { line, area });
                    }
                    None => format!("{MAX_MEMBERS} programs are in the domain already"),
                }
            }
        };
        self.refuse(serial, RefusedCode::NotPossible, refusal);
    }

    /// Step 3.
    pub(super) fn settle_domain(&mut self, now: u64) {
        let Some(domain) = &self.domain else { return };
        let moved: Vec<(usize, u64, u32)> = domain
            .lines
            .iter()
            .flat_map(|(line, serial)| {
                domain.area.members()[*line]
                    .coming()
                    .into_iter()
                    .map(move |cpu| (*line, *serial, cpu.0))
            })
            .collect();
        for (line, serial, cpu) in moved {
            self.stirred = true;
            let changes = self.ledger.pass(AppId(serial), cpu, now);
            let believed = changes.is_some();
            self.publish(&changes.unwrap_or_default(), now);
            if let Some(domain) = &self.domain {
                domain.area.members()[line].land(CpuId(cpu));
            }
            let holds = self.ledger.holding(AppId(serial)).is_some_and(|it| it.cpus.contains(&cpu));
            if !holds
                && let Some(program) =
                    self.connections.get_mut(&serial).and_then(|it| it.program.as_mut())
            {
                tracing::debug!(
                    name = program.name,
                    cpu,
                    believed,
                    "a processor that was passed is taken back"
                );
                program.reclaim.take_back(&program.areas, cpu, now + self.grace);
            }
        }
    }

    /// Step 2.
    pub(super) fn offer_domain(&self) {
        let Some(domain) = &self.domain else { return };
        let first: Vec<(AppId, u32)> = self.ledger.first_waiting().take(2).collect();
        for (line, serial) in &domain.lines {
            let place = first.iter().zip(1..).find(|((app, _), _)| app.0 == *serial);
            let (rank, wants) = place.map_or((0, 0), |((_, wants), rank)| (rank, *wants));
            domain.area.members()[*line].offer(*serial, rank, wants);
        }
    }
}
