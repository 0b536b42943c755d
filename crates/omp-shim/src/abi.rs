//! The C entry points: check, convert, call. Names, signatures and flag bits are those of libgomp
//! (gcc 12).
//!
//! # Safety of the entry points
//! Each is called by compiled code or by a C or Fortran program with the arguments that its
//! signature in C asks for; what a pointer must point to is what OpenMP says of that argument.
//!
//! `front` alone has nothing of OpenMP: calls of the C library that this one stands in front of.

#![expect(
    clippy::missing_safety_doc,
    reason = "the contract of all entry points stands in the module head"
)]

mod asat;
mod c;
mod fortran;
pub(crate) mod front;
mod gomp;
mod locks;
mod tcm;
mod upm;

use crate::migration;
use crate::process::bump::ALLOCATOR;
use crate::process::sanitizer;
use crate::settings::{DisplayEnv, settings};
use crate::sizing;

/// Runs when the library is loaded: wrong variables are reported before the program starts.
extern "C" fn on_load() {
    if sanitizer::is_there() {
        ALLOCATOR.close();
    }
    migration::at_load();
    sizing::at_load();
    match settings().environment.display_env {
        DisplayEnv::No => {}
        shown => crate::query::display::environment(shown == DisplayEnv::Verbose),
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
