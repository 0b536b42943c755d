//! The C entry points: check, convert, call. Names, signatures and flag bits are those of libgomp (gcc 12).
//!
//! # Safety of the entry points
//! Each is called by compiled code or by a C or Fortran program with the arguments that its signature in C asks for; what
//! a pointer must point to is what OpenMP says of that argument.
//!
//! `starters` alone has nothing of OpenMP: calls of the C library by which programs and threads are started.

#![expect(clippy::missing_safety_doc, reason = "the contract of all entry points stands in the module head")]

mod api;
mod api_more;
mod fortran;
mod fortran_more;
mod gomp_extras;
mod gomp_league;
mod gomp_loop;
mod gomp_parallel;
mod gomp_sync;
mod gomp_task;
mod locks;
pub(crate) mod starters;

use crate::env::DisplayEnv;
use crate::icv::settings;

/// Runs when the library is loaded: wrong variables are reported before the program starts.
extern "C" fn on_load() {
    match settings().environment.display_env {
        DisplayEnv::No => {}
        shown => crate::display::environment(shown == DisplayEnv::Verbose),
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
