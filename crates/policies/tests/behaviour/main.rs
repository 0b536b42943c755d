//! What the policies and the placement do, seen from outside the crate.

mod backfill;
mod classes;
mod confined;
mod conformance;
mod costs;
mod fair_share;
mod invariants;
mod marginal;
mod meeting;
mod minima;
mod naive_placement;
mod own_turns;
mod parameters;
mod pdpa;
mod placement;
mod recess;
mod reserve;
mod simulator;
mod speeds;
mod support;
mod turnaround;
mod turns;
mod vtq;
mod weights;
mod worked_cases;
