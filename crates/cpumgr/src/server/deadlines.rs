//! When the scheduler has something to do without an event, and how soon it gets to it.
//!
//! What is due for clients is taken down once, at the end of each pass ([`Due`]): a look at all
//! clients is a look at memory that a manager which slept finds cold, and most passes change
//! nothing of it.

use std::time::Duration;

use platform::scheduling::Haste;

use super::connection::Connection;
use super::{SILENCE_NS, Server};
use crate::foreign::Foreign;

/// The scheduler's turns: so short that it does not wait for the end of anybody else's.
const SLICE: Duration = Duration::from_micros(100);

/// The scheduler's turns. As long as a grace runs it is in a hurry, since who computes on what was
/// taken from it may be where the scheduler is woken; otherwise the kernel brings it to who rings.
#[derive(Debug)]
pub(super) struct Pace(Option<Haste>);

impl Pace {
    /// Of the calling thread.
    pub(super) fn begin() -> Self {
        match Haste::begin(SLICE) {
            Ok(haste) => {
                tracing::debug!(turns = ?haste.turns(), "the scheduler's turns");
                Self(Some(haste))
            }
            Err(error) => {
                tracing::debug!(%error, "the scheduler has turns as everybody");
                Self(None)
            }
        }
    }

    /// For what is due next.
    pub(super) fn keep(&mut self, due: &Due) {
        let Some(haste) = &mut self.0 else { return };
        if let Err(error) = haste.hurry(due.grace.is_some()) {
            tracing::debug!(%error, "the scheduler keeps the turns that it has");
            self.0 = None;
        }
    }
}

/// When the first client is due for something, as of the end of the last pass. What a pass brings
/// about is due later than in this pass.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Is to be heard again.
    pub(super) muted: Option<u64>,
    /// Its grace is over.
    pub(super) grace: Option<u64>,
    /// Was announced, and is to be looked at.
    pub(super) look: Option<u64>,
}

impl Due {
    fn of<'a>(connections: impl Iterator<Item = &'a Connection>) -> Self {
        let first = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        connections.fold(Self::default(), |due, connection| {
            let program = connection.program.as_ref();
            Self {
                muted: first(due.muted, program.and_then(|it| it.muted_until)),
                grace: first(due.grace, program.and_then(|it| it.reclaim.deadline())),
                look: first(due.look, connection.look.map(|look| look.at)),
            }
        })
    }
}

/// Whether that time has come.
pub(super) fn is_over(time: Option<u64>, now: u64) -> bool {
    time.is_some_and(|time| time <= now)
}

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
        times.into_iter().flatten().chain(attached).chain(masks).min()
    }
}
