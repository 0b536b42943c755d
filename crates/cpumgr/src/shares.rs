//! What users consumed, for the order in which their programs wait: the books of a fair share
//! (`server::shares`).
//!
//! What was consumed under managers before this one is what the history has of it (`history`).

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, TryRecvError};

use policies::AppId;
use policies::fair_share::FairShare;

/// The time between two charges of all programs.
pub(crate) const PACE: u64 = 5_000_000_000;

/// What users consumed.
#[derive(Debug)]
pub(crate) struct Shares {
    share: FairShare,
    /// What each program was charged with.
    charged: BTreeMap<AppId, u64>,
    /// Up to when all were charged.
    until: u64,
    /// What the history is going to say.
    before: Option<Receiver<BTreeMap<u32, f64>>>,
}

impl Shares {
    /// From `now` on. `charged`: what programs that are there were granted so far, of which the
    /// history tells (`before`).
    pub(crate) fn begin(
        half_life: u64,
        now: u64,
        charged: BTreeMap<AppId, u64>,
        before: Option<Receiver<BTreeMap<u32, f64>>>,
    ) -> Self {
        Self { share: FairShare::new(half_life), charged, until: now, before }
    }

    /// Another half-life: what was consumed before stays.
    pub(crate) fn set_half_life(&mut self, now: u64, half_life: u64) {
        self.share.set_half_life(now, half_life);
    }

    pub(crate) fn half_life(&self) -> u64 {
        self.share.half_life()
    }

    /// What a user consumed, in ns of processor time, as it counts now.
    pub(crate) fn consumed(&self, user: u32, now: u64) -> u64 {
        // A cast saturates.
        self.share.consumed(user, now).round() as u64
    }

    /// It is time to charge all programs.
    pub(crate) fn are_due(&self, now: u64) -> bool {
        self.until.saturating_add(PACE) <= now
    }

    /// All programs are charged now. Returns the time since the last time.
    pub(crate) fn pass(&mut self, now: u64) -> u64 {
        now.saturating_sub(std::mem::replace(&mut self.until, now))
    }

    /// Takes what the history says, when it does.
    pub(crate) fn hear_of_before(&mut self, now: u64) {
        let Some(before) = &self.before else { return };
        match before.try_recv() {
            Ok(users) => {
                for (user, amount) in users {
                    self.share.charge(user, now, amount);
                }
            }
            Err(TryRecvError::Empty) => return,
            Err(TryRecvError::Disconnected) => {
                tracing::warn!("the history does not say what users have consumed");
            }
        }
        self.before = None;
    }

    /// A program was granted that much so far.
    pub(crate) fn charge(&mut self, app: AppId, user: u32, granted: u64, now: u64) {
        let before = self.charged.insert(app, granted).unwrap_or(0);
        self.share.charge(user, now, granted.saturating_sub(before) as f64);
    }

    /// A user consumed that much since the last time.
    pub(crate) fn charge_user(&mut self, user: u32, amount: f64, now: u64) {
        self.share.charge(user, now, amount);
    }

    /// A program leaves.
    pub(crate) fn forget(&mut self, app: AppId) {
        self.charged.remove(&app);
    }

    /// The places of these users' programs, in their order.
    pub(crate) fn order(&self, now: u64, users: &[u32], weight: impl Fn(u32) -> f64) -> Vec<usize> {
        self.share.order(now, users, weight)
    }
}
