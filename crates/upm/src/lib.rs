//! Page migration at user level: moves the pages of a program's hot arrays to the memory nodes that
//! use them most, with no change to how the program distributes its data.
//!
//! The program names its *hot areas*, arrays that parallel loops read and write. A *source* counts
//! for each page how often each node refers to it, during one iteration of the program's outer
//! loop. After the iteration the [`Migrator`] moves each page for which the competitive criterion
//! says so. It does the same after the next iteration while it finds pages to move, then turns
//! itself off. For programs whose phases use the same pages from different nodes, [`Phases`]
//! records the counters at the phases' borders, and moves the most critical pages before each phase
//! and back after the last.
//!
//! The crate's README has an example.
//!
//! # Modules, from the bottom up
//! 1. `topology`, `area`: memory nodes and how far they are; the hot areas and their pages.
//! 2. `counters`: references for each page and node.
//! 3. `criterion`, `history`: whether a page should move; which pages go to and fro.
//! 4. `mover`: what moves pages, and what became of each.
//! 5. `statistics`: what was done, and why.
//! 6. `migrator`: one call of the iterative engine.
//! 7. `phases`: record, compare, replay, undo, and whether that is worth it.
//! 8. `maps`: what is mapped where, and what of it may be hot.
//! 9. `gate`, `source`: what counts references, and how its fault handler finds it.
//! 10. `placement`, `array`: where pages are put at first, and arrays that are placed.
//! 11. `policy`, `upm`: what keeps the kernel's balancing away; all of it together, as a program
//!     uses it.
//! 12. `settings`, `machine`: what the environment says, and the machine that it speaks of.
//! 13. `library`, `pilot`: the paper's calls for programs in C and Fortran; the engine for programs
//!     that do not know of it.
//!
//! # Papers
//! P4 "Is Data Distribution Necessary in OpenMP?" (UPMlib). `mover` and `migrator` say where the
//! code deviates.

// What cannot be written must not panic: `platform::message`.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]
// Files are read aside, locks keep errno: `platform::file`, `platform::lock`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

/// The example of the README.
#[cfg(all(doctest, not(loom)))]
#[doc = include_str!("../README.md")]
pub struct Readme;

pub mod area;
pub mod array;
pub mod counters;
pub mod criterion;
pub mod gate;
pub mod history;
#[cfg(not(loom))]
pub mod library;
pub mod machine;
pub mod maps;
pub mod migrator;
pub mod mover;
pub mod phases;
#[cfg(not(loom))]
pub mod pilot;
pub mod placement;
mod policy;
pub mod settings;
pub mod source;
pub mod statistics;
pub mod topology;
pub mod upm;

pub use area::{AreaError, AreaId, Areas};
pub use array::{HotArray, Plain};
pub use counters::Counters;
pub use criterion::{Criterion, Judge, Stay, Verdict};
#[cfg(not(loom))]
pub use library::Library;
pub use machine::Machine;
pub use migrator::{Migrator, Parameters};
pub use mover::{Home, KernelMover, Mover, Outcome, Refusal};
pub use phases::{GainTest, Phases};
#[cfg(not(loom))]
pub use pilot::Pilot;
pub use placement::Placement;
pub use settings::Settings;
pub use source::{CounterSource, NoSource, ScriptedSource, SourceKind};
pub use statistics::{Call, Decision, Declined, Off, Statistics};
pub use topology::{KernelTopology, Node, TableTopology, Topology, TopologyError};
pub use upm::Upm;
