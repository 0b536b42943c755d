//! When the scheduler has something to do without an event.
//!
//! What is due for clients is taken down once, at the end of each pass ([`Due`]): a look at all
//! clients is a look at memory that a manager which slept finds cold, and most passes change
//! nothing of it.

use super::Server;
use super::bounds::SILENCE_NS;
use super::due::Due;
use crate::foreign::Foreign;
use crate::service::told::Told;

impl Server {
    pub(super) fn beat_interval(&self) -> u64 {
        SILENCE_NS.max(self.ledger.quantum().saturating_mul(10)) / 4
    }

    /// The end of a pass: what is due for clients from now on.
    pub(super) fn note_due(&mut self) {
        self.due = Due::of(self.connections.values());
    }

    /// The next time at which something is to be done without an event (V4).
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let busy = self.any_programs();
        let idle = self
            .idle_exit
            .filter(|_| !self.is_needed())
            .map(|time| self.idle_since.saturating_add(time));
        let beat = busy.then_some(self.next_beat);
        let strangers = self.foreign.as_ref().and_then(Foreign::next_look).filter(|_| busy);
        let unused = self.unused.next_look().filter(|_| busy);
        let Due { muted, grace, look } = self.due;
        let times = [
            self.ledger.next_deadline(),
            idle,
            beat,
            strangers,
            unused,
            self.admit_again,
            muted,
            grace,
            look,
        ];
        let attached = self.attached.values().map(|it| it.next_look).min();
        // Masks that are to be written wait for their time.
        let masks = self.unwritten.then_some(self.masks_rest);
        let service = self.service.as_ref().and_then(Told::next);
        times.into_iter().flatten().chain(attached).chain(masks).chain(service).min()
    }
}
