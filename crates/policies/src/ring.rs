//! The circular list of applications that take turns.
//!
//! # Invariants
//! R1  An application in the list keeps its place relative to the others; those over which a turn
//!     passes go to the end.
//! R2  Newcomers join where they come last: no application that waits already waits longer because
//!     of them.
//!
//! ```
//! use policies::ring::Ring;
//! use policies::{AppId, AppView, Cause, Snapshot};
//!
//! let apps = [1, 2, 3].map(|id| AppView::new(AppId(id), 4));
//! let snapshot = Snapshot {
//!     now: 0,
//!     quantum: 100_000_000,
//!     processors: 4,
//!     apps: &apps,
//!     cause: Cause::Quantum,
//!     master_always: true,
//! };
//! let mut ring = Ring::default();
//! assert_eq!(ring.renew(&snapshot), [0, 1, 2]);
//! // The turn of the first one is over.
//! ring.pass(1);
//! assert_eq!(ring.renew(&snapshot), [1, 2, 0]);
//! ```

use std::collections::{BTreeSet, VecDeque};

use crate::snapshot::{AppId, Snapshot};

/// Applications in the order of their turns; the first has (or would have) the turn now.
#[derive(Debug, Clone, Default)]
pub struct Ring {
    /// Each with its place in the snapshot for which the ring was renewed last.
    order: VecDeque<(AppId, usize)>,
    /// The applications of that snapshot.
    seen: Vec<AppId>,
}

impl Ring {
    /// The turn passes over the first `number`. Called before [`Ring::renew`], while all of them
    /// still stand here.
    pub fn pass(&mut self, number: usize) {
        self.order.rotate_left(number.min(self.order.len()));
    }

    /// The turn passes over these, wherever they stand: they go to the end, in their order.
    pub fn pass_over(&mut self, apps: &BTreeSet<AppId>) {
        let (passed, others): (Vec<_>, Vec<_>) =
            self.order.drain(..).partition(|(app, _)| apps.contains(app));
        self.order.extend(others.into_iter().chain(passed));
    }

    /// These come first, in this order.
    pub fn lead(&mut self, apps: &[(AppId, usize)]) {
        if apps.is_empty() {
            return;
        }
        let leads: BTreeSet<AppId> = apps.iter().map(|(app, _)| *app).collect();
        self.order.retain(|(app, _)| !leads.contains(app));
        apps.iter().rev().for_each(|it| self.order.push_front(*it));
    }

    /// Removes applications that left; those that came join at the end. Returns the places in the
    /// snapshot, in the order of the list.
    pub fn renew(&mut self, snapshot: &Snapshot<'_>) -> Vec<usize> {
        let apps = || snapshot.apps.iter().map(|app| app.id);
        if !apps().eq(self.seen.iter().copied()) {
            self.seen.clear();
            self.seen.extend(apps());
            let at = snapshot.places();
            let mut joins = vec![true; snapshot.apps.len()];
            self.order.retain_mut(|(app, place)| {
                let now = at.get(app).copied();
                if let Some(now) = now {
                    (*place, joins[now]) = (now, false);
                }
                now.is_some()
            });
            // An identity that comes twice joins once, at its last place.
            let fresh = apps().enumerate().filter(|(i, app)| joins[*i] && at[app] == *i);
            self.order.extend(fresh.map(|(i, app)| (app, i)));
        }
        self.order.iter().map(|(_, place)| *place).collect()
    }
}

/// How many neighbours from the first of `order` on run together: as many as have requests of at
/// most `limit` in sum and are at most `most`; one application always fits.
#[must_use]
pub fn gang(snapshot: &Snapshot<'_>, order: &[usize], limit: u64, most: u32) -> usize {
    let mut sum = 0;
    let fits = order.iter().take(most as usize).enumerate().take_while(|&(place, &i)| {
        sum += u64::from(snapshot.apps[i].wants());
        place == 0 || sum <= limit
    });
    fits.count()
}

/// The requests that may run together on `processors` when `load` times as many are accepted.
#[must_use]
pub fn limit(processors: u32, load: f64) -> u64 {
    // Both are bounded: the product is far below 2^53 and the cast exact to within rounding down.
    (f64::from(processors) * load).floor() as u64
}
