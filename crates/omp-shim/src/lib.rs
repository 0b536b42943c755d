//! OpenMP runtime ABIs on the nanothreads engine: drop-in libgomp.so.1 and a static library.
//!
//! Compiled OpenMP programs call the `extern "C"` functions in `abi`; what these mean is in the
//! other modules, which know no ABI. There is no Rust API: use the `nanothreads` crate.
//!
//! # Map
//! Other copies of this library: `copies`. Main threads that leave before their process:
//! `departure`. What members start, and calls about the calling thread alone: `abi::front`. Control
//! variables: `env` (the environment), `icv`. Memory of the library's own: `nursery`. A thread's
//! place: `tls` -> `frame` -> `team`; initial tasks: `root`. Fork and join: `region`. Loops and
//! sections: `schedule` (arithmetic), `worksharing` (constructs in flight), `doacross`. Barriers,
//! single, cancellation: `sync`. Locks: `lock`. Tasks: `task` and below.

// Loom's models compile the files of the protocols themselves: `tests/loom_*.rs`.
#![cfg(not(loom))]
// Files are read aside: `platform::file`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod abi;
mod copies;
mod departure;
mod display;
mod doacross;
mod env;
mod frame;
mod icv;
mod league;
mod legacy;
mod lock;
mod memory;
mod message;
mod nursery;
mod pause;
mod places;
mod query;
mod region;
mod root;
mod schedule;
mod sync;
mod tail;
mod task;
mod team;
mod tls;
mod worksharing;

pub(crate) use ::engine;

#[global_allocator]
static ALLOCATOR: nursery::Nursery<{ nursery::ROOM }> = nursery::Nursery::new();
