//! What the protocols take from the engine, by this name: models put their own in its place.

pub(crate) use ::engine::{Addresses, between_pieces, is_to_follow, wait};
