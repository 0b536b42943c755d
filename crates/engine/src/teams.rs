//! Teams: making room for one, running regions on it, and calling its members back.

pub(crate) mod recall;
pub(crate) mod reserve;
pub mod team;
pub(crate) mod visits;
