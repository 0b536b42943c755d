//! How long a thread spins before it sleeps, in time, never in iterations.
//!
//! # Rules (../../docs/papers.md: D5, D7, D15, D16)
//! | situation | spins for |
//! |---|---|
//! | team larger than the processors it has now | not at all: hands over, then sleeps |
//! | manager says that nobody else wants a processor | [`HOT`]: the team of a dedicated machine stays hot |
//! | manager, processors are wanted elsewhere | [`SHORT`] |
//! | no manager | between [`SHORTEST`] and [`SHORT`], doubled when spinning paid, halved when not (competitive) |
//! | `Waiting::Active` | for ever, unless the team is too large |
//! | `Waiting::Passive` | not at all |
//! The situation is looked at again while spinning, so that a lost processor ends the spinning at once.

use crate::config::Waiting;
use crate::engine_state::engine;
use crate::local::Local;
use crate::sizer::Lease;
use crate::wait_point::{Look, WaitPoint, Waited};
use platform::clock::Ticks;
use std::cell::Cell;
use std::time::Duration;

/// Spinning of a team that nobody disturbs.
pub const HOT: Duration = Duration::from_millis(2);
/// Spinning while others may want the processor: about twice the cost of a bound wake.
pub const SHORT: Duration = Duration::from_micros(50);
/// The least that adaptive spinning falls to.
pub const SHORTEST: Duration = Duration::from_micros(5);

/// Looks between two readings of the clock.
const LOOKS_PER_READING: u32 = 32;
/// Times that a thread of a crowded team offers its processor before it sleeps.
const OFFERS: u32 = 3;

/// A thread's experience with spinning, for the case without a manager.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: Cell<Duration>,
}

impl Patience {
    pub(crate) const fn new() -> Self {
        Self { limit: Cell::new(SHORT) }
    }

    fn learn(&self, waited: Waited) {
        let limit = self.limit.get();
        self.limit.set(match waited {
            Waited::Spinning => (limit * 2).min(SHORT),
            Waited::Sleeping => (limit / 2).max(SHORTEST),
        });
    }
}

/// How long a member of a team of `size` may spin now.
fn limit(local: &Local, size: u32) -> Duration {
    let engine = engine();
    let sizer = engine.sizer();
    if size as usize > sizer.limit() {
        return Duration::ZERO;
    }
    match engine.config().waiting {
        Waiting::Active => Duration::MAX,
        Waiting::Passive => Duration::ZERO,
        Waiting::Auto => match sizer.lease() {
            Lease::Dedicated => HOT,
            Lease::Wanted => SHORT,
            Lease::Unmanaged => local.patience().limit.get(),
        },
    }
}

/// Waits at `point` until `look` says `Ready`: spins as the rules allow, calling `linger` once when that takes longer
/// than [`SHORT`], then sleeps.
pub(crate) fn wait(
    point: &WaitPoint,
    local: &Local,
    size: u32,
    mut linger: impl FnMut(),
    mut look: impl FnMut() -> Look,
) -> Waited {
    let mut started: Option<Ticks> = None;
    let mut lingered = false;
    let mut looks = 0_u32;
    loop {
        match look() {
            Look::Ready => {
                if started.is_some() {
                    local.patience().learn(Waited::Spinning);
                }
                return Waited::Spinning;
            }
            Look::Progress => started = None,
            Look::Pending => {}
        }
        platform::sync::pause();
        looks = looks.wrapping_add(1);
        if looks % LOOKS_PER_READING != 0 {
            continue;
        }
        let spun = match started {
            None => {
                started = Some(Ticks::now());
                Duration::ZERO
            }
            Some(begin) => begin.elapsed(),
        };
        if spun > SHORT && !lingered {
            lingered = true;
            linger();
        }
        let allowed = limit(local, size);
        if spun >= allowed {
            if allowed.is_zero() && offer(&mut look) {
                return Waited::Spinning;
            }
            break;
        }
    }
    point.sleep_until(look);
    local.patience().learn(Waited::Sleeping);
    Waited::Sleeping
}

/// Offers the processor to whoever else wants it, a few times: in a crowded team that is most likely the sibling that
/// this thread waits for, and a yield costs less than a sleep. True when the condition came to hold.
fn offer(look: &mut impl FnMut() -> Look) -> bool {
    for _ in 0..OFFERS {
        std::thread::yield_now();
        if look() == Look::Ready {
            return true;
        }
    }
    false
}
