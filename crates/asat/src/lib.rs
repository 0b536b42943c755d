//! A program alone finds out how many threads the machine can really run: no manager, no privilege,
//! and beside programs that know nothing of it (automatic self-allocating threads).
//!
#![doc = include_str!("../README.md")]
//!
//! # Modules, from the bottom up
//! 1. `controller`, `course`, `judgement`, `timetable`, `statistics`: arithmetic, without a clock.
//! 2. `settings`, `calls`: what may be set; when a call reads the clock.
//! 3. `calibration`, `meeting`, `witness`: what measures: the timed barrier, how long it watches
//!    on this kernel, and passive evidence.
//! 4. `sizer`: the source of team sizes.
//! 5. `standalone`: the call for programs with threads of their own.

#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]
// Files are read aside: `platform::file`.
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod calibration;
mod calls;
mod controller;
mod course;
mod judgement;
mod meeting;
mod settings;
mod sizer;
mod standalone;
mod statistics;
mod timetable;
mod witness;

pub use crate::controller::{Controller, Counts, Rules, Step, Verdict};
pub use crate::course::{Attempt, Course};
pub use crate::judgement::{Sample, Share};
pub use crate::meeting::{Meeting, Passage, Plan};
pub use crate::settings::{Settings, VARIABLES};
pub use crate::sizer::Asat;
pub use crate::standalone::adjust_threads;
pub use crate::statistics::Statistics;

use crate::sizer::Observer;

/// Makes team sizes follow the machine where no manager is found; in forked children, too. False
/// when team sizes have a source already: call it before the first region.
///
/// ```
/// assert!(asat::install(asat::Settings::default()));
/// assert!(engine::team_limit() >= 1);
/// assert_eq!(asat::statistics().map(|statistics| statistics.dropped), Some(0));
/// ```
pub fn install(settings: Settings) -> bool {
    // SAFETY: - the methods of `Asat` but `between_regions` read and write their own state, and ask
    //           the engine for nothing.
    unsafe {
        engine::set_lone_sizer(move || {
            let asat = Asat::new(settings.clone());
            asat.publish();
            Box::new(asat)
        })
    }
}

/// What was evaluated so far, by what was made last: the sizer of [`install`], with the first
/// region, or that of [`adjust_threads`], with the first call. `None` where this process has made
/// neither, as a forked child at first, or a manager is followed. Cost: a lock, for which it may
/// wait some milliseconds while another thread evaluates.
pub fn statistics() -> Option<Statistics> {
    Observer::last().map(Observer::statistics)
}
