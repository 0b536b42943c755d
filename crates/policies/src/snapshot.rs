//! What a policy is told: the applications and the machine at the moment of a decision.
//!
//! # Invariants
//! S1  A snapshot is a value: a policy learns time, events and machine from it and from nowhere
//!     else.
//! S2  Every policy is total: it answers any snapshot without a panic. What a field means when its
//!     value is out of range is said at the accessor ([`AppView::wants`], [`AppView::floor`]);
//!     [`Snapshot::check`] and [`AppView::check`] name such a value, so that it is refused where it
//!     enters.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::quick::QuickMap;

/// Time or CPU time in nanoseconds.
pub type Nanos = u64;

/// The smallest weight that an application may have.
pub const MIN_WEIGHT: f64 = 0.001;
/// The largest weight that an application may have.
pub const MAX_WEIGHT: f64 = 1000.0;

/// Identity of one registered application, unique among all that are registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AppId(pub u64);

impl fmt::Display for AppId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "application {}", self.0)
    }
}

/// The speedup that an application measured last, and on how many processors.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Speedup {
    /// Processors on which it was measured.
    pub processors: u32,
    /// Time on one processor divided by time on `processors`.
    pub speedup: f64,
    /// When the report arrived: tells a new report from an old one with the same value.
    pub at: Nanos,
}

/// One application as a policy sees it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AppView {
    /// Which application.
    pub id: AppId,
    /// Processors that it wants now; at least 1.
    pub request: u32,
    /// Processors that it should have before others get more than their own minimum (0 and 1 mean
    /// the same).
    pub min: u32,
    /// Processors that it may have at most; at least 1.
    pub max: u32,
    /// Share relative to others, [`MIN_WEIGHT`] to [`MAX_WEIGHT`]; 1.0 is usual.
    pub weight: f64,
    /// Processors that it has now.
    pub allocated: u32,
    /// CPU time that it has received since it registered.
    pub cpu_time: Nanos,
    /// Its last measured speedup, if it ever reported one.
    pub speedup: Option<Speedup>,
    /// Which program it is an execution of, where that is known: the same number for the same
    /// program.
    #[serde(default)]
    pub program: Option<u64>,
    /// What it was started for, as its user says (a label, a class), where that is known: the same
    /// number for the same word, by [`AppView::number_of`].
    #[serde(default)]
    pub label: Option<u64>,
    /// The class that it is in, by the rules of its site, where it is in one: the number of the
    /// class's name.
    #[serde(default)]
    pub class: Option<u64>,
    /// Whose it is, by the operating system's number of the user; 0 where there is one user only,
    /// as in the simulator.
    #[serde(default)]
    pub user: u32,
    /// When it came, on the clock of [`Snapshot::now`].
    #[serde(default)]
    pub arrival: Nanos,
}

impl AppView {
    /// An application that wants `request` processors, without bounds, weight 1, nothing allocated
    /// yet.
    #[must_use]
    pub fn new(id: AppId, request: u32) -> Self {
        Self {
            id,
            request,
            min: 1,
            max: u32::MAX,
            weight: 1.0,
            allocated: 0,
            cpu_time: 0,
            speedup: None,
            program: None,
            label: None,
            class: None,
            user: 0,
            arrival: 0,
        }
    }

    /// The number of what is called `name`, for [`AppView::program`], [`AppView::label`] and
    /// [`AppView::class`] (FNV-1a: the same in each process).
    #[must_use]
    pub fn number_of(name: &str) -> u64 {
        name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Processors that it may use now: the smaller of request and maximum.
    ///
    /// Never less than 1: an admitted application has a master virtual processor, whatever it asks
    /// for.
    #[must_use]
    pub fn wants(&self) -> u32 {
        self.request.min(self.max).max(1)
    }

    /// Processors that it should have before others get more than theirs: its minimum, within 1 and
    /// what it wants.
    #[must_use]
    pub fn floor(&self) -> u32 {
        self.min.clamp(1, self.wants())
    }

    /// Says whether each field is in its range.
    ///
    /// # Errors
    /// The first field that is not, with its value and the range.
    /// [`Policy::decide`](crate::Policy::decide) answers anyway (S2); this is for the place where
    /// the value enters.
    pub fn check(&self) -> Result<(), InvalidSnapshot> {
        let app = self.id;
        if self.request == 0 {
            return Err(InvalidSnapshot::NoRequest { app });
        }
        if self.max == 0 || self.min > self.max {
            return Err(InvalidSnapshot::Bounds { app, min: self.min, max: self.max });
        }
        // A NaN is in no range.
        if !(MIN_WEIGHT..=MAX_WEIGHT).contains(&self.weight) {
            return Err(InvalidSnapshot::Weight { app, weight: self.weight });
        }
        Ok(())
    }
}

/// Why a decision is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cause {
    /// A quantum ended: policies that share the processors in turn go on to the next turn.
    Quantum,
    /// An application registered.
    Arrival,
    /// An application left or died.
    Exit,
    /// A request changed.
    Request,
    /// An application gave processors back.
    Release,
    /// An application reported a speedup.
    Speedup,
    /// The time that the policy named in [`Decision::next`](crate::Decision::next) has come.
    Timer,
    /// Processors were added or taken away, or an administrator changed a bound, a weight or the
    /// policy.
    Administration,
}

/// The applications and the machine at the moment of a decision.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<'a> {
    /// The time now, on any clock that does not go back.
    pub now: Nanos,
    /// Length of a quantum.
    pub quantum: Nanos,
    /// Number of managed processors, P.
    pub processors: u32,
    /// The admitted applications in order of arrival.
    pub apps: &'a [AppView],
    /// Why the decision is asked for.
    pub cause: Cause,
    /// Whether every application keeps at least its master virtual processor running (the default
    /// of the manager).
    pub master_always: bool,
}

impl Snapshot<'_> {
    /// Whether there are more applications than processors.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.apps.len() as u64 > u64::from(self.processors)
    }

    /// The place of each application in the list; of one that comes twice the last one.
    pub(crate) fn places(&self) -> QuickMap<AppId, usize> {
        self.apps.iter().enumerate().map(|(i, app)| (app.id, i)).collect()
    }

    /// Says whether the snapshot is sound: no application twice, each of them in range. O(n log n).
    ///
    /// # Errors
    /// The first fault found.
    pub fn check(&self) -> Result<(), InvalidSnapshot> {
        let mut seen = BTreeSet::new();
        for app in self.apps {
            app.check()?;
            if !seen.insert(app.id) {
                return Err(InvalidSnapshot::Twice { app: app.id });
            }
        }
        Ok(())
    }
}

/// A value that no manager should hand to a policy.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSnapshot {
    /// The same application stands in the list twice.
    #[error("{app} is in the list twice; an identity may be registered once")]
    Twice {
        /// The application.
        app: AppId,
    },
    /// An application asks for no processor.
    #[error("{app} requests 0 processors; a request is at least 1 (its master)")]
    NoRequest {
        /// The application.
        app: AppId,
    },
    /// The bounds contradict each other.
    #[error(
        "{app} has minimum {min} and maximum {max}; the maximum is at least 1 and at least the minimum"
    )]
    Bounds {
        /// The application.
        app: AppId,
        /// Its minimum.
        min: u32,
        /// Its maximum.
        max: u32,
    },
    /// The weight is out of range.
    #[error("{app} has weight {weight}; a weight is a number from {MIN_WEIGHT} to {MAX_WEIGHT}")]
    Weight {
        /// The application.
        app: AppId,
        /// Its weight.
        weight: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_application_wants_is_bounded_by_its_maximum_and_never_nothing() {
        let mut app = AppView::new(AppId(1), 8);
        assert_eq!(app.wants(), 8);
        app.max = 3;
        assert_eq!(app.wants(), 3);
        app.min = 7;
        assert_eq!(app.floor(), 3, "a minimum above the maximum ends at the maximum");
        (app.request, app.max, app.min) = (0, 0, 0);
        assert_eq!((app.wants(), app.floor()), (1, 1));
    }

    #[test]
    fn values_out_of_range_are_named() {
        let good = AppView::new(AppId(7), 2);
        assert_eq!(good.check(), Ok(()));
        for (bad, text) in [
            (AppView { request: 0, ..good }, "application 7 requests 0 processors"),
            (AppView { max: 0, min: 0, ..good }, "minimum 0 and maximum 0"),
            (AppView { max: 2, min: 3, ..good }, "minimum 3 and maximum 2"),
            (AppView { weight: f64::NAN, ..good }, "weight NaN"),
            (AppView { weight: 0.0, ..good }, "from 0.001 to 1000"),
            (AppView { weight: f64::INFINITY, ..good }, "weight inf"),
        ] {
            let message = bad.check().expect_err("it is out of range").to_string();
            assert!(message.contains(text), "{message}");
        }
        let apps = [good, good];
        let snapshot = Snapshot {
            now: 0,
            quantum: 1,
            processors: 4,
            apps: &apps,
            cause: Cause::Arrival,
            master_always: true,
        };
        assert_eq!(snapshot.check(), Err(InvalidSnapshot::Twice { app: AppId(7) }));
    }
}
