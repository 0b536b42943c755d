//! The protocols by which threads work on the same words. No protocol uses a module that does more
//! than it. Loom tries all orders of each, on the shipped types (`cargo xtask test models`);
//! several that run together have one model.
//!
//! | protocol | model |
//! |---|---|
//! | `arrival`, `ring` | `ring/model.rs` |
//! | `custody` | `custody/model.rs` |
//! | `lending` | `lending/model.rs` |
//! | `open_ring` | `ring/model.rs`; with `summons`, `summons/model.rs` |
//! | `shares` | `shares/model.rs` |
//! | `free_list` | none: its words belong to one thread, or to the holder of a lock |
//! | `singles` | `singles/model.rs` |
//! | `sleeper` | `sleeper/model.rs`; with `wishes`, `wishes/model.rs` |
//! | `slot`, `wait_point` | `slot/model.rs`, which also has the barrier and the pair of `regions` |
//! | `stage` | `stage/model.rs` |
//! | `summons` | `summons/model.rs` |
//! | `turn` | `turn/model.rs` |
//! | `wishes` | `wishes/model.rs` |
//!
//! The affinity state of a worker, a state machine of `placement`, has its model in
//! `placement/affinity_state`.

pub mod arrival;
pub(crate) mod custody;
pub mod free_list;
pub(crate) mod lending;
pub(crate) mod open_ring;
pub mod ring;
pub(crate) mod shares;
pub mod singles;
pub(crate) mod sleeper;
pub mod slot;
pub mod stage;
pub(crate) mod summons;
pub mod turn;
pub mod wait_point;
pub(crate) mod wishes;
