//! What tasks cost, for us and for peers.
//!
//! # Questions, and what refutes the claims
//! - `fib(30)` without a cut-off, which is nothing but tasks, and `nqueens(11)`, a task for each
//!   placed queen: ours are ahead of rayon and chili. Refuted when the median of our fastest form
//!   is above that of theirs.
//! - A sparse LU factorisation with dependences by address, against the same operations in phases.
//! - An unbalanced tree, whose shape is not known in advance: do all processors get work, and what
//!   does that cost?
//! - A task that does nothing, from one producer: the cost of a task alone.
//!
//! `second %` is the share of the nodes that the less busy threads ran: an engine that runs all on
//! one processor has 0. `cargo bench --bench tasks` prints a table for each case; how samples are
//! taken: `benches/README.md`.

#[path = "../harness/mod.rs"]
mod harness;

mod fib;
mod lu;
mod produce;
mod tick;
mod tree;

use harness::Bench;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut cases = vec![fib::case()];
    cases.extend(tree::cases());
    cases.extend([lu::case(), produce::case()]);
    harness::run(Bench { name: "tasks", cases, seconds: 200.0, programs: false })
}
