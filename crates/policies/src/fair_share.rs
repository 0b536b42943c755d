//! Fair share over days: what users have consumed, fading with time, and the order in which their
//! jobs wait.
//!
//! # Rule
//! Processor time counts by half after each *half-life*. A job of the user that has consumed least,
//! relative to that user's weight, comes first; jobs of one user, and of users that have consumed
//! the same, stay in their order.
//!
//! # Invariants
//! - U1 Time alone changes no order: what all users have consumed fades alike.
//! - U2 Of users that always have a job waiting, none is further ahead of another one than a job of
//!   its own takes.
//! - U3 Nothing waits for ever: a user that waits consumes nothing, and the others do.
//!
//! # Not here
//! Which processors jobs need (`backfill`), and what users consume: the manager.
//!
//! # Papers
//! Kay and Lauder: "A fair share scheduler", 1988, where usage decays; here it orders a queue.

use std::collections::BTreeMap;

use crate::snapshot::Nanos;

/// Users that are kept in mind; beyond that those are forgotten that have consumed least.
const MOST_USERS: usize = 4096;
/// Less than this, in ns of processor time, is nothing.
const NOTHING: f64 = 1.0;

/// What users have consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct FairShare {
    half_life: Nanos,
    /// ns of processor time, as they counted then.
    users: BTreeMap<u32, (f64, Nanos)>,
}

impl FairShare {
    /// Of users that have consumed nothing. `half_life` is at least 1 ns.
    #[must_use]
    pub fn new(half_life: Nanos) -> Self {
        Self { half_life: half_life.max(1), users: BTreeMap::new() }
    }

    /// After which time consumption counts by half.
    #[must_use]
    pub fn half_life(&self) -> Nanos {
        self.half_life
    }

    /// Another half-life, from `now` on.
    pub fn set_half_life(&mut self, now: Nanos, half_life: Nanos) {
        let users: Vec<u32> = self.users.keys().copied().collect();
        for user in users {
            self.users.insert(user, (self.consumed(user, now), now));
        }
        self.half_life = half_life.max(1);
    }

    /// A user consumed `amount` ns of processor time just now.
    pub fn charge(&mut self, user: u32, now: Nanos, amount: f64) {
        let before = self.consumed(user, now);
        let amount = if amount.is_finite() { amount.max(0.0) } else { 0.0 };
        // Time does not go back for a user that was charged later.
        let at = self.users.get(&user).map_or(now, |(_, at)| now.max(*at));
        self.users.insert(user, (before + amount, at));
        if self.users.len() > MOST_USERS {
            self.forget(at);
        }
    }

    /// What a user has consumed, in ns of processor time, as it counts now.
    #[must_use]
    pub fn consumed(&self, user: u32, now: Nanos) -> f64 {
        let (amount, at) = self.users.get(&user).copied().unwrap_or((0.0, now));
        let left = amount * self.faded(now.saturating_sub(at));
        if left < NOTHING { 0.0 } else { left }
    }

    /// What is left of 1 after this time.
    fn faded(&self, age: Nanos) -> f64 {
        (-(age as f64) / self.half_life as f64).exp2()
    }

    /// What `amount` counts that was consumed evenly in a span of time that ended `age` ago.
    #[must_use]
    pub fn left_of(&self, amount: f64, span: Nanos, age: Nanos) -> f64 {
        let halvings = span as f64 / self.half_life as f64 * std::f64::consts::LN_2;
        // The mean of what its parts are worth; of a moment, that of the moment.
        let mean = if halvings < 1e-9 { 1.0 } else { -(-halvings).exp_m1() / halvings };
        amount * mean * self.faded(age)
    }

    /// The places of some jobs, given by their users, in the order in which they come. Weights that
    /// are no positive numbers count as 1. O(n log n).
    #[must_use]
    pub fn order(&self, now: Nanos, users: &[u32], weight: impl Fn(u32) -> f64) -> Vec<usize> {
        let mut shares: BTreeMap<u32, f64> = BTreeMap::new();
        for &user in users {
            shares.entry(user).or_insert_with(|| {
                let weight = weight(user);
                let is_one = weight.is_finite() && weight > 0.0;
                self.consumed(user, now) / if is_one { weight } else { 1.0 }
            });
        }
        let mut places: Vec<usize> = (0..users.len()).collect();
        // Stable: jobs of one user stay in their order.
        places.sort_by(|&a, &b| shares[&users[a]].total_cmp(&shares[&users[b]]));
        places
    }

    /// Drops what has faded, and beyond the bound the least.
    fn forget(&mut self, now: Nanos) {
        let counted: BTreeMap<u32, f64> =
            self.users.keys().map(|user| (*user, self.consumed(*user, now))).collect();
        self.users.retain(|user, _| counted[user] > 0.0);
        while self.users.len() > MOST_USERS {
            let least = self.users.keys().min_by(|a, b| counted[a].total_cmp(&counted[b])).copied();
            self.users.retain(|user, _| Some(*user) != least);
        }
    }
}
