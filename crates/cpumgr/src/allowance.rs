//! What each user may cost the manager: costs that are known when they have arisen, and are paid
//! back by time.
//!
//! A user in debt waits, and no other user does: a flood of whatever kind delays what its own user
//! wants (D10).
//!
//! # Invariants
//! - W1 A user that has been quiet may spend its burst at once; afterwards it costs no more than
//!   its rate.
//! - W2 The superuser and the manager's own user have more of both: a login node's administrator,
//!   and the user of a manager of its own, which harms only itself. Their allowance is limited,
//!   too.

use std::collections::BTreeMap;

/// Users that are kept in mind before those that owe nothing are forgotten.
const MANY: usize = 32;

/// A burst, and the time in which a unit is paid back.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Units that may be spent at once.
    pub burst: u64,
    /// The time of a unit.
    pub unit_ns: u64,
}

/// Debts of users.
#[derive(Debug)]
pub struct Allowances {
    /// The manager's user.
    owner: u32,
    own: Rate,
    others: Rate,
    /// When the debt of each is paid; until then less than its burst is left.
    paid_at: BTreeMap<u32, u64>,
}

impl Allowances {
    /// No user owes anything. The manager's user `owner` and the superuser pay at another rate than
    /// others.
    pub fn new(owner: u32, own: Rate, others: Rate) -> Self {
        Self { owner, own, others, paid_at: BTreeMap::new() }
    }

    fn rate(&self, uid: u32) -> Rate {
        if uid == 0 || uid == self.owner { self.own } else { self.others }
    }

    /// User `uid` has cost this many units.
    pub fn charge(&mut self, uid: u32, units: u64, now: u64) {
        if units == 0 {
            return;
        }
        if self.paid_at.len() >= MANY {
            // Users that have all of their burst again are forgotten.
            let longest = |rate: Rate| rate.burst.saturating_mul(rate.unit_ns);
            let burst = longest(self.own).max(longest(self.others));
            self.paid_at.retain(|_, paid| paid.saturating_add(burst) > now);
        }
        let Rate { burst, unit_ns } = self.rate(uid);
        let full = now.saturating_sub(burst.saturating_mul(unit_ns));
        let paid = self.paid_at.entry(uid).or_insert(full);
        *paid = (*paid).max(full).saturating_add(units.saturating_mul(unit_ns));
    }

    /// When what user `uid` wants may be done: now, if it owes nothing.
    pub fn free_at(&self, uid: u32, now: u64) -> u64 {
        self.paid_at.get(&uid).copied().unwrap_or(0).max(now)
    }

    /// User `uid` owes nothing.
    pub fn is_free(&self, uid: u32, now: u64) -> bool {
        self.free_at(uid, now) <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Rate = Rate { burst: 100, unit_ns: 10 };
    const OTHERS: Rate = Rate { burst: 10, unit_ns: 1_000 };

    /// Units of 3 that a user can spend in a time, with a look at each moment.
    fn spent(uid: u32, time: u64) -> u64 {
        let mut allowances = Allowances::new(7, OWN, OTHERS);
        let mut units = 0;
        for now in 1_000_000..1_000_000 + time {
            if allowances.is_free(uid, now) {
                allowances.charge(uid, 3, now);
                units += 3;
            }
        }
        units
    }

    #[test]
    fn a_flood_gets_the_burst_and_then_the_rate() {
        // 10 at once, and one each 1,000.
        assert!((110..=113).contains(&spent(9, 100_000)), "{}", spent(9, 100_000));
        for uid in [0, 7] {
            assert!((10_100..=10_103).contains(&spent(uid, 100_000)), "{}", spent(uid, 100_000));
        }
    }

    #[test]
    fn a_user_that_owes_waits_and_no_other_does() {
        let mut allowances = Allowances::new(7, OWN, OTHERS);
        allowances.charge(9, 60, 100_000);
        assert_eq!(
            (allowances.free_at(9, 100_000), allowances.free_at(8, 100_000)),
            (150_000, 100_000)
        );
        assert!(!allowances.is_free(9, 149_999) && allowances.is_free(9, 150_000));
        // Users that owe are not forgotten for the many that do not.
        for uid in 100..1_000 {
            allowances.charge(uid, 1, 100_000 + u64::from(uid) * 100_000);
        }
        allowances.charge(9, 60, 100_000_000);
        (2_000..2_100).for_each(|uid| allowances.charge(uid, 0, 100_000_000));
        assert_eq!(allowances.free_at(9, 100_000_000), 100_050_000);
        assert!(allowances.paid_at.len() <= MANY + 1, "{}", allowances.paid_at.len());
    }
}
