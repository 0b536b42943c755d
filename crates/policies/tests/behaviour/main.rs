//! What the policies and the placement do, seen from outside the crate.

mod invariants;
mod placement;
mod support;
mod worked_cases;
