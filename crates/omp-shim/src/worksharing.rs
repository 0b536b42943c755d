//! Worksharing constructs: loops, sections, and the dependences between iterations of a loop.

pub(crate) mod doacross;
mod member;

pub(crate) use member::{current, enter, join_ahead, lay_out_ahead, leave, next, wait_for_turn};
