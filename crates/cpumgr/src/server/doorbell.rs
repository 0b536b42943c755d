//! Doorbells: a program rings, and the scheduler reads what it says: its request, what it gave
//! back, what it measured.
//!
//! A doorbell is never read: each ring is an event (`Interest::Each`), whatever the counter holds.
//! So a program that writes a request after the look rings after the event of that look, and is
//! heard; and a ring costs no system call before the look. The counter of a program that only rings
//! is not full in a thousand years; one that fills it itself is not heard any more.
//!
//! A program that rings too often is not listened to for a while (V2): its ring stays in the
//! doorbell, and comes as an event when the program is heard again. What its user owes for looks at
//! threads (`looks`) does not make it wait.

use policies::{AppId, Cause};

use super::Server;
use super::due::is_over;
use super::program::UNMUTE_TOKENS;
use super::seam::{self, Fault};
use crate::reactor::{Interest, Role};

impl Server {
    /// A program rang: look at its request, unless it rings too often.
    pub(super) fn rung(&mut self, serial: u64, now: u64) {
        let Some(connection) = self.connections.get_mut(&serial) else { return };
        let Some(program) = &mut connection.program else { return };
        if !program.bucket.take(now) {
            program.muted_until = Some(program.bucket.time_of(UNMUTE_TOKENS, now));
            let muted =
                self.reactor.set(&program.doorbell, serial, Role::Doorbell, Interest::Muted);
            self.check(serial, muted);
            return;
        }
        seam::others_run();
        self.look(serial, now);
        self.rang.push(serial);
        if seam::has(Fault::Clear) {
            seam::others_run();
            let program = self.connections.get(&serial).and_then(|it| it.program.as_ref());
            let _rung = program.map(|program| program.doorbell.clear());
        }
    }

    /// Reads what a program says: its request, what it gave back, what it measured.
    pub(super) fn look(&mut self, serial: u64, now: u64) {
        let Some(connection) = self.connections.get_mut(&serial) else { return };
        let owner = connection.peer.uid;
        let Some(program) = connection.program.as_mut() else { return };
        let app = AppId(serial);
        let request = program.areas.request();
        program.states_team(request.fixed_team);
        self.ledger.set_serial(app, request.serial);
        let asked =
            self.ledger.ask(app, request.requested) | self.ledger.set_lowest(app, request.lowest);
        seam::others_run();
        let released = program.areas.released();
        let resumed = released.is_empty() && self.ledger.resume(app);
        if asked || resumed {
            self.cause = self.cause.or(Some(Cause::Request));
        }
        let report = program.areas.report().filter(|report| report.sequence != program.reported);
        if let Some(report) = report {
            program.reported = report.sequence;
            let base = (report.base_processors, report.base_ns);
            let times = [base, (report.processors, report.time_ns)];
            let possible = report.speedup().filter(|_| report.processors <= program.max);
            // What another user's program of this name reports is not about this one (V3).
            let known_as = format!("{owner}/{}", program.name);
            match possible.map(|_| self.ledger.report(app, &known_as, &times, now)) {
                Some(Ok(())) => self.cause = self.cause.or(Some(Cause::Speedup)),
                Some(Err(refused)) => {
                    tracing::debug!(name = program.name, %refused, "a report is not believed");
                    program.refused_reports += 1;
                }
                None => program.refused_reports += 1,
            }
        }
        if !released.is_empty() {
            let released: Vec<u32> = released.iter().map(|cpu| cpu.0).collect();
            let changes = self.ledger.release(app, &released, now);
            self.publish(&changes, now);
        }
    }

    /// Lets those be heard again whose time has come.
    pub(super) fn unmute(&mut self, now: u64) {
        if !is_over(self.due.muted, now) {
            return;
        }
        self.stirred = true;
        let mut failed = Vec::new();
        for connection in self.connections.values_mut() {
            let serial = connection.serial;
            if let Some(program) = &mut connection.program
                && program.muted_until.is_some_and(|time| time <= now)
            {
                program.muted_until = None;
                if seam::has(Fault::Deaf) {
                    continue;
                }
                // The ring is still in it and comes as an event.
                if self
                    .reactor
                    .set(&program.doorbell, serial, Role::Doorbell, Interest::Each)
                    .is_err()
                {
                    failed.push(serial);
                }
            }
        }
        for serial in failed {
            self.doom(serial, "the kernel refused to wait for it");
        }
    }
}
