//! What is due for clients, and how soon the scheduler gets to it.

use std::time::Duration;

use platform::scheduling::Haste;

use super::connection::Connection;

/// The scheduler's turns: so short that it does not wait for the end of another thread's.
const SLICE: Duration = Duration::from_micros(100);

/// The scheduler's turns. As long as a grace runs it is in a hurry, since a thread that computes on
/// what was taken from it may be where the scheduler is woken. Otherwise the kernel brings it to
/// the program that rings.
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
                tracing::debug!(%error, "the scheduler has turns as every thread");
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
    pub(super) fn of<'a>(connections: impl Iterator<Item = &'a Connection>) -> Self {
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
