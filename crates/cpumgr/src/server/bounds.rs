//! Numbers that several parts of the scheduler keep to.

use crate::allowance::{Allowances, Rate};

/// Programs that are managed at once.
pub const MAX_PROGRAMS: usize = 512;

/// Programs of one user, and as many places in the queue, where every user may come.
pub(super) const MAX_OF_USER: usize = 384;

/// Programs that may wait.
pub const MAX_PLACES: usize = 512;

/// How long an announced process has to register before its threads are looked at. Each further
/// pause is twice as long, up to [`LAST_LOOK`].
pub(super) const FIRST_LOOK: u64 = 200_000_000;

/// The longest pause between two looks at a process that was announced and does not register.
pub(super) const LAST_LOOK: u64 = 2_000_000_000;

/// Programs take a manager for hung that was silent for the longer of this and ten quanta
/// (`arena::client`); it gives a sign of life four times as often.
pub(super) const SILENCE_NS: u64 = 1_000_000_000;

/// What looks at other users' threads may cost: two hundredths of a processor, a look being some 3
/// us; a program of a thousand threads is within the burst.
const OTHERS: Rate = Rate { burst: 4_096, unit_ns: 150_000 };
/// The same of the manager's user: a tenth of one.
pub(super) const OWN: Rate = Rate { burst: 32_768, unit_ns: 30_000 };

/// What users owe for looks at their threads (`looks`).
pub(super) fn allowances(owner: u32) -> Allowances {
    Allowances::new(owner, OWN, OTHERS)
}
