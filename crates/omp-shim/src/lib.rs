//! OpenMP runtime ABIs on the nanothreads engine: drop-in libgomp.so.1 and a static library.
//!
//! Compiled OpenMP programs call the `extern "C"` functions in `abi`; what these mean is in the
//! other modules, which know no ABI. There is no Rust API: use the `nanothreads` crate.
//!
//! # Modules, from the bottom up
//! 1. `engine`: what the protocols below take from the engine.
//! 2. `process`: what there is once in a process: its memory (`bump`), messages, other copies of
//!    this library, the end of one whose main thread left.
//! 3. `schedule`, `body`, `memory`: the arithmetic of loops; how a region's body is called and
//!    where it ends; allocators.
//! 4. `settings`: the environment, places, control variables.
//! 5. `lock`: locks in a program's memory.
//! 6. `task`, `construct`: tasks, and worksharing constructs in flight, as plain state.
//! 7. `team`: what the members of a region share.
//! 8. `frame`: a thread's place in a team, and how the calling thread finds it.
//! 9. `tasking`, `worksharing`: what members do with tasks, and in loops and sections.
//! 10. `sync`: barriers, single, cancellation.
//! 11. `query`: what programs ask and set, and what is shown.
//! 12. `migration`, `sizing`: pages follow the program's threads; what it found out of the machine.
//! 13. `region`: fork and join; leagues.
//! 14. `pools`: pools of threads of other libraries.
//! 15. `abi`: the entry points.

// Loom's models compile the files of the protocols themselves: `tests/loom_*.rs`.
#![cfg(not(loom))]
// Files are read aside: `platform::file`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod abi;
mod body;
mod construct;
mod engine;
mod frame;
mod lock;
mod memory;
mod migration;
mod pools;
mod process;
mod query;
mod region;
mod schedule;
mod settings;
mod sizing;
mod sync;
mod task;
mod tasking;
mod team;
mod worksharing;
