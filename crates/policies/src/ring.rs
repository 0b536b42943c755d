//! The circular list of applications that take turns.
//!
//! # Invariants
//! R1  An application in the list keeps its place relative to the others; those over which a turn
//!     passes go to the end.
//! R2  Newcomers join where they come last: no application that waits already waits longer because
//!     of them.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use crate::snapshot::{AppId, Snapshot};

/// Applications in the order of their turns; the first has (or would have) the turn now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ring(VecDeque<AppId>);

impl Ring {
    /// The turn passes over the first `number`. Called before [`Ring::renew`], while all of them
    /// still stand here.
    pub(crate) fn pass(&mut self, number: usize) {
        self.0.rotate_left(number.min(self.0.len()));
    }

    /// The turn passes over these, wherever they stand: they go to the end, in their order.
    pub(crate) fn pass_over(&mut self, apps: &BTreeSet<AppId>) {
        let (passed, others): (Vec<AppId>, Vec<AppId>) =
            self.0.iter().partition(|app| apps.contains(app));
        self.0 = others.into_iter().chain(passed).collect();
    }

    /// These come first, in this order.
    pub(crate) fn lead(&mut self, apps: &[AppId]) {
        let leads: HashSet<AppId> = apps.iter().copied().collect();
        self.0.retain(|app| !leads.contains(app));
        apps.iter().rev().for_each(|app| self.0.push_front(*app));
    }

    /// Removes applications that left; those that came join at the end. Returns the places in the
    /// snapshot, in the order of the list.
    pub(crate) fn renew(&mut self, snapshot: &Snapshot<'_>) -> Vec<usize> {
        let at: HashMap<AppId, usize> =
            snapshot.apps.iter().enumerate().map(|(i, app)| (app.id, i)).collect();
        self.0.retain(|app| at.contains_key(app));
        let known: HashSet<AppId> = self.0.iter().copied().collect();
        if known.len() < at.len() {
            // An identity that comes twice joins once, at its last place.
            let fresh = snapshot
                .apps
                .iter()
                .enumerate()
                .filter(|(i, app)| !known.contains(&app.id) && at[&app.id] == *i);
            self.0.extend(fresh.map(|(_, app)| app.id));
        }
        self.0.iter().map(|app| at[app]).collect()
    }
}

/// How many neighbours from the first of `order` on run together: as many as have requests of at
/// most `limit` in sum and are at most `most`; one application always fits.
pub(crate) fn gang(snapshot: &Snapshot<'_>, order: &[usize], limit: u64, most: u32) -> usize {
    let mut sum = 0;
    let fits = order.iter().take(most as usize).enumerate().take_while(|&(place, &i)| {
        sum += u64::from(snapshot.apps[i].wants());
        place == 0 || sum <= limit
    });
    fits.count()
}

/// The requests that may run together on `processors` when `load` times as many are accepted.
pub(crate) fn limit(processors: u32, load: f64) -> u64 {
    // Both are bounded: the product is far below 2^53 and the cast exact to within rounding down.
    (f64::from(processors) * load).floor() as u64
}
