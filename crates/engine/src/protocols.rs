//! The protocols by which threads work on the same words. No protocol uses a module that does more
//! than it, and each stands beside the model that tries all its orders.

pub mod arrival;
pub(crate) mod custody;
pub(crate) mod lending;
pub(crate) mod open_ring;
pub mod ring;
pub(crate) mod shares;
pub mod shelf;
pub mod singles;
pub(crate) mod sleeper;
pub mod slot;
pub mod stage;
pub(crate) mod summons;
pub mod turn;
pub mod wait_point;
pub(crate) mod wishes;
