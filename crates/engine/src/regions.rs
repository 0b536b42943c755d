//! What happens in a region: supply, wake and join, the barrier, and safe points.

pub mod barrier;
pub(crate) mod broadcast;
pub mod fork_join;
pub mod occupant;
pub mod safe_point;
