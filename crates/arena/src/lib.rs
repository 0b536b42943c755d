//! The shared-memory protocol between parallel programs and the processor manager.
//!
//! A program registers over a socket and gets two areas of shared memory: `down`, which the manager
//! writes and the program only reads, and `up`, which the program writes and the manager does not
//! trust. From then on programs and manager speak through these areas and a doorbell; the socket
//! says only which programs are still there. The README beside this crate has the protocol step by
//! step, the races, and what happens when either side dies.
//!
//! - [`client`]: the program's side. - [`manager`]: the manager's side. - [`message`]: the socket's
//!   messages.
//! - [`layout`]: what lies in the areas; [`grant`], [`park`], [`report`], [`global`], [`domain`]:
//!   the parts with a protocol of their own.
//!
//! # Modules, from the bottom up
//! 1. `header`, `hook`, `park`, `socket`: what every area begins with; where tests look on; where a
//!    thread sleeps; where the manager's socket is.
//! 2. `grant`: what a program may use.
//! 3. `global`, `message`, `report`: what all programs read; what goes over the socket; measured
//!    speeds.
//! 4. `layout`: the two areas of a program.
//! 5. `area`: an area as one process has it.
//! 6. `client`, `domain`, `manager`: the two sides, and programs that pass processors on.

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
