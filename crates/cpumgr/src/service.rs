//! The service manager (systemd) that started this process, if one did.
//!
//! # Protocol
//! 1. Descriptors that it passes ([`passed`]): the socket of a socket unit, or the one that an
//!    earlier process of the same service left in the descriptor store.
//! 2. What it is told ([`notify`], `told`): ready, reloading, stopping, a line of status, signs of
//!    life, and the socket for its store.
//!
//! # Why the socket alone is stored
//! A manager that was killed, or that a newer package replaces, leaves its programs running. They
//! see the end of their connections at once, connect again and say what they held. With its socket
//! in the store that connection waits in the queue of the same listener, instead of being refused
//! and tried again later. What was told to the manager, and the masks of attached processes, are in
//! files beside the socket (`settings`, `masks`), for managers without a service manager, too.

pub mod notify;
pub mod passed;
pub(crate) mod told;
