//! `pdpa` worked out by hand.
