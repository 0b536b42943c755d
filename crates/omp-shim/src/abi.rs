//! The C entry points: check, convert, call. Names, signatures and flag bits are those of libgomp (gcc 12).

mod api;
mod api_more;
mod fortran;
mod fortran_more;
mod gomp_league;
mod gomp_loop;
mod gomp_parallel;
mod gomp_sync;
mod gomp_task;
mod locks;

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
