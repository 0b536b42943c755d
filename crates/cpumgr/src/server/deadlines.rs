//! When the scheduler has something to do without an event, and how soon it gets to it.

use std::time::Duration;

use platform::scheduling::Haste;

use super::{SILENCE_NS, Server};
use crate::foreign::Foreign;

/// The scheduler's turns: so short that it does not wait for the end of anybody else's.
const SLICE: Duration = Duration::from_micros(100);

/// The scheduler's turns. As long as a grace runs it is in a hurry, since who computes on what was taken from it may be
/// where the scheduler is woken; otherwise the kernel brings it to who rings.
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
    pub(super) fn keep(&mut self, server: &Server) {
        let Some(haste) = &mut self.0 else { return };
        if let Err(error) = haste.hurry(server.graces().next().is_some()) {
            tracing::debug!(%error, "the scheduler keeps the turns that it has");
            self.0 = None;
        }
    }
}

impl Server {
    pub(super) fn beat_interval(&self) -> u64 {
        SILENCE_NS.max(self.ledger.quantum().saturating_mul(10)) / 4
    }

    /// The next time at which something is to be done without an event (V4).
    pub(super) fn next_deadline(&self) -> Option<u64> {
        let muted = self.connections.values().filter_map(|it| it.program.as_ref()?.muted_until);
        let busy = self.programs() > 0;
        let idle = self.idle_exit.filter(|_| !self.is_needed()).map(|time| self.idle_since.saturating_add(time));
        let beat = busy.then_some(self.next_beat);
        let strangers = self.foreign.as_ref().and_then(Foreign::next_look).filter(|_| busy);
        let times = [self.ledger.next_deadline(), idle, beat, strangers, self.admit_again];
        let announced = self.connections.values().filter_map(|it| Some(it.look?.at));
        let looks = self.attached.values().map(|it| it.next_look).chain(announced);
        times.into_iter().flatten().chain(muted).chain(self.graces()).chain(looks).min()
    }

    /// When each grace ends.
    fn graces(&self) -> impl Iterator<Item = u64> + '_ {
        self.connections.values().filter_map(|it| it.program.as_ref()?.reclaim.deadline())
    }
}
