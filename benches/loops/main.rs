//! Loops by schedule: how well each engine deals iterations, and what dealing costs.
//!
//! # Questions, and what refutes the claims
//! - For each kind of body (uniform, triangular, random, one heavy iteration) there is a schedule
//!   of ours that is as fast as any peer's. Refuted when the median of a peer is below that of all
//!   of ours.
//! - [`Schedule::Auto`], which is told nothing, is never far from the best. Refuted where its
//!   `x ideal` is well above that of another row.
//!
//! `x ideal` is the time over half of the sequential time of the same loop (or the heaviest
//! iteration, if that is longer), from the same sample. How samples are taken: `benches/README.md`.

#[path = "../harness/mod.rs"]
mod harness;

mod body;
mod engines;

use body::Kind;
use harness::{Bench, Case, sample};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cases = Kind::ALL.map(|kind| Case {
        name: format!("{} iterations", kind.name()),
        measure: body::against_ideal(sample::back_to_back()),
        extras: &["x ideal"],
        engines: engines::all(kind),
        bar: None,
    });
    harness::run(Bench { name: "loops", cases: cases.into(), seconds: 220.0, programs: false })
}
