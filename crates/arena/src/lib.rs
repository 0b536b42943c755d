//! The shared-memory protocol between parallel programs and the processor manager.
//!
//! A program registers over a socket and gets two areas of shared memory: `down`, which the manager
//! writes and the program only reads, and `up`, which the program writes and the manager does not
//! trust. From then on programs and manager speak through these areas and a doorbell; the socket
//! says only who is still there. The README beside this crate has the protocol step by step, the
//! races, and what happens when either side dies.
//!
//! - [`client`]: the program's side. - [`manager`]: the manager's side. - [`message`]: the socket's
//!   messages.
//! - [`layout`]: what lies in the areas; [`grant`], [`park`], [`report`], [`global`], [`domain`]:
//!   the parts with a protocol of their own.

// What cannot be written must not panic: `platform::message`.
#![cfg_attr(not(any(test, loom)), deny(clippy::print_stderr, clippy::print_stdout))]
// Files are read aside: `platform::file`.
#![cfg_attr(not(any(test, loom)), deny(clippy::disallowed_methods))]

mod area;

pub mod client;
pub mod domain;
pub mod global;
pub mod grant;
pub mod header;
pub mod hook;
pub mod layout;
pub mod manager;
pub mod message;
pub mod park;
pub mod report;
mod socket;

pub use area::AreaError;
pub use grant::Grant;
