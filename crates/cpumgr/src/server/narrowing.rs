//! Masks and cpusets that are changed while a program runs: it is given processors on which it may
//! run, and what it has lost there goes to others.
//!
//! # Protocol
//! Once in a [`PACE`] the mask of each program's initial thread, which the manager never touches,
//! is compared with what it was; where processors that the program holds are missing in it, and in
//! the masks of all its other threads, the program is confined anew. A wider mask undoes that. Of
//! attached processes, whose masks are looked at anyway (`attached`), only the outcome is.

use std::collections::BTreeSet;

use platform::affinity::CpuSet;
use policies::{AppId, Cause};

use super::Server;

/// How often masks are looked at: a system call for each program. No wakeup is for this alone: as
/// long as programs are there signs of life are more frequent.
const PACE: u64 = 1_000_000_000;

impl Server {
    /// Looks when it is time to.
    pub(super) fn look_for_narrowing(&mut self, now: u64) {
        if now < self.next_narrowing || !self.any_programs() {
            return;
        }
        self.next_narrowing = now + PACE;
        let mut moved: Vec<(u64, i32, CpuSet, u32)> = Vec::new();
        for connection in self.connections.values_mut() {
            let (pid, owner) = (connection.peer.pid, connection.peer.uid);
            let Some(program) = &mut connection.program else { continue };
            if !self.looks.is_free(owner, now) {
                continue;
            }
            if program.other_room(self.kernel.as_ref(), pid, &self.cpus) {
                moved.push((connection.serial, pid.0, program.room().clone(), program.max));
            }
            self.looks.charge(owner, self.kernel.work(), now);
        }
        for (serial, attached) in &mut self.attached {
            if let Some(room) = attached.other_room(&self.cpus) {
                moved.push((*serial, attached.pid.0, room, attached.most()));
            }
        }
        for (serial, pid, room, max) in moved {
            tracing::info!(pid, processors = %room, "a program may run on other processors now");
            let cpus: BTreeSet<u32> = room.iter().map(|cpu| cpu.0).collect();
            self.ledger.confine_anew(AppId(serial), &cpus, max);
            self.cause = self.cause.or(Some(Cause::Administration));
            self.stirred = true;
        }
    }
}
