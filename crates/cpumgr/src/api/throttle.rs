//! How fast connections are taken while a user floods the listener, whose queue is one for all.
//!
//! # Protocol
//! 1. Connections of users that owe, and those for which another one has to go, are *turned away*.
//!    After [`FLOOD`] of them the listener's queue is made short, once, and what waits in it is
//!    taken without a pause: others are in there, too.
//! 2. From then on no connections are taken for a [`PAUSE`] after each [`FLOOD`] of them.
//! 3. When none of these has been due for [`QUIET`] the queue is as long as before.

use std::time::Duration;

use tokio::time::Instant;

/// Connections in a row: some 800 a second cost two hundredths of a processor, and empty a short
/// queue in some 20 ms.
pub(super) const FLOOD: usize = 8;
/// See there.
const PAUSE: Duration = Duration::from_millis(10);
/// How long the queue stays short.
const QUIET: Duration = Duration::from_secs(1);

/// The state of it.
#[derive(Debug, Default)]
pub(super) struct Throttle {
    turned_away: usize,
    /// Connections that are taken without a pause.
    free: usize,
    paused_until: Option<Instant>,
    /// The queue is short until then.
    short_until: Option<Instant>,
}

/// What the listener's queue is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Short,
    Usual,
}

impl Throttle {
    /// This many were taken, and so many of them turned away; `backlog` is the most that may wait
    /// in a queue of the usual length.
    pub(super) fn took(
        &mut self,
        (taken, turned_away): (usize, usize),
        backlog: usize,
        now: Instant,
    ) -> Option<Queue> {
        self.turned_away += turned_away;
        self.free = self.free.saturating_sub(taken);
        if self.turned_away < FLOOD {
            return None;
        }
        self.turned_away = 0;
        if self.short_until.replace(now + QUIET).is_none() {
            self.free = backlog;
            return Some(Queue::Short);
        }
        if self.free == 0 {
            self.paused_until = Some(now + PAUSE);
        }
        None
    }

    /// Nothing is taken until then.
    pub(super) fn pause(&mut self, until: Instant) {
        self.paused_until = Some(until);
    }

    /// Until when nothing is taken, if that is still to come.
    pub(super) fn paused_until(&mut self, now: Instant) -> Option<Instant> {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        self.paused_until
    }

    /// When to call [`Throttle::look`].
    pub(super) fn short_until(&self) -> Option<Instant> {
        self.short_until
    }

    /// Step 3.
    pub(super) fn look(&mut self, now: Instant) -> Option<Queue> {
        self.short_until.take_if(|until| *until <= now).map(|_| {
            (self.turned_away, self.free) = (0, 0);
            Queue::Usual
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACKLOG: usize = 256;

    #[test]
    fn a_flood_makes_the_queue_short_empties_it_and_is_slowed_down() {
        let (mut throttle, begin) = (Throttle::default(), Instant::now());
        for _ in 0..1000 {
            assert_eq!(throttle.took((FLOOD, 0), BACKLOG, begin), None, "none is turned away");
        }
        assert_eq!(throttle.took((FLOOD, FLOOD - 1), BACKLOG, begin), None);
        assert_eq!(throttle.took((FLOOD, FLOOD), BACKLOG, begin), Some(Queue::Short));
        let mut taken = 0;
        while throttle.paused_until(begin).is_none() {
            assert_eq!(throttle.took((FLOOD, FLOOD), BACKLOG, begin), None);
            taken += FLOOD;
        }
        assert_eq!(taken, BACKLOG, "what waited when it began is taken at once");
        let mut now = begin;
        for round in 0..500 {
            now = throttle.paused_until(now).unwrap_or_else(|| panic!("no pause at {round}"));
            assert_eq!(throttle.paused_until(now), None);
            assert_eq!(throttle.look(now), None, "it goes on");
            assert_eq!(throttle.took((FLOOD, FLOOD), BACKLOG, now), None);
        }
        assert_eq!(now, begin + 500 * PAUSE);
        let end = throttle.short_until().unwrap();
        assert_eq!((end, throttle.look(end)), (now + QUIET, Some(Queue::Usual)));
        assert_eq!((throttle.look(end), throttle.short_until()), (None, None));
        // The next flood is as the first one.
        assert_eq!(throttle.took((FLOOD, FLOOD), BACKLOG, end), Some(Queue::Short));
    }
}
