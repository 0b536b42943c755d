//! What the program found out by itself of the machine, written at its end (`ASAT_REPORT`).

use crate::process::ending;
use crate::settings::settings;
use engine::process::Owner;
use platform::message::say;
use std::sync::atomic::Ordering::Relaxed;

/// The process that registered the report: a forked child writes no line of its own, since the
/// program's end is its parent's.
static REPORTER: Owner = Owner::none();

/// The library is loaded, and the settings are read. Before the program's main function.
pub(crate) fn at_load() {
    if settings().environment.asat.reports() {
        // ORDERING: Relaxed, both - a number on its own; the program has one thread yet.
        REPORTER.take(Relaxed);
        ending::at_exit("ASAT_REPORT", report);
    }
}

extern "C" fn report() {
    if !REPORTER.is_here(Relaxed) {
        return;
    }
    match asat::statistics() {
        Some(statistics) => say(format_args!("asat: {statistics}")),
        None => say(format_args!(
            "asat: team sizes had another source (a manager, a number that the user named, or \
             NANOS_SIZER), or no region ran"
        )),
    }
}
