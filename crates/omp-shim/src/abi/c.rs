//! The `omp_*` functions of C: control variables, teams, tasks, time.

pub(super) mod allocators;
pub(super) mod devices;
pub(super) mod display;
pub(super) mod places;

use crate::frame;
use crate::query;
use crate::settings::device;
use crate::settings::{Dynamic, SUPPORTED_LEVELS, settings};
use crate::tasking;
use std::ffi::{c_double, c_int, c_uint, c_void};

/// Declares functions of no arguments that look at the calling thread's frame.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $type:ty = $get:expr;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub(super) extern "C" fn $name() -> $type {
            frame::with_current((), |frame, ()| $get(frame))
        }
    )*};
}

getters! {
    /// The caller's number in its team.
    omp_get_thread_num -> c_int = |frame: &frame::Frame| frame.id.cast_signed();
    /// Threads of the team.
    omp_get_num_threads -> c_int = |frame: &frame::Frame| frame.size.cast_signed();
    /// nthreads-var.
    omp_get_max_threads -> c_int = query::max_threads;
    /// Inside an active region?
    omp_in_parallel -> c_int = |frame| c_int::from(query::in_parallel(frame));
    /// dyn-var.
    omp_get_dynamic -> c_int = |frame: &frame::Frame| c_int::from(frame.icvs().dynamic.is_on());
    /// Could an inner region be active?
    omp_get_nested -> c_int = |frame| c_int::from(query::nested(frame));
    /// thread-limit-var.
    omp_get_thread_limit -> c_int = |frame: &frame::Frame| query::int(frame.icvs().thread_limit);
    /// max-active-levels-var.
    omp_get_max_active_levels -> c_int = |frame: &frame::Frame| query::int(frame.icvs().max_active_levels);
    /// Enclosing regions.
    omp_get_level -> c_int = |frame: &frame::Frame| query::int(frame.team().level());
    /// Enclosing active regions.
    omp_get_active_level -> c_int = |frame: &frame::Frame| query::int(frame.team().active_level());
    /// In a final task?
    omp_in_final -> c_int = |frame: &frame::Frame| c_int::from(frame.task().is_final());
    /// bind-var.
    omp_get_proc_bind -> c_int = |frame: &frame::Frame| frame.icvs().bind as c_int;
    /// default-device-var.
    omp_get_default_device -> c_int = |frame: &frame::Frame| frame.icvs().default_device;
    /// Number of the initial team in its league.
    omp_get_team_num -> c_int = |frame: &frame::Frame| query::int(frame.team().league().number);
    /// Teams of the league.
    omp_get_num_teams -> c_int = |frame: &frame::Frame| query::int(frame.team().league().count);
}

/// Processors of the original mask.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_num_procs() -> c_int {
    query::processors()
}

/// Is cancellation on?
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_cancellation() -> c_int {
    query::cancellation().into()
}

/// max-task-priority-var. Priorities are accepted as the hints that they are.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_max_task_priority() -> c_int {
    query::int(settings().environment.max_task_priority)
}

/// Levels that we support.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_supported_active_levels() -> c_int {
    SUPPORTED_LEVELS.cast_signed()
}

/// Seconds.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_wtime() -> c_double {
    query::wall_time()
}

/// Seconds between ticks.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_wtick() -> c_double {
    query::wall_tick()
}

/// Sets nthreads-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_num_threads(threads: c_int) {
    query::set_num_threads(frame::current(), threads);
}

/// Sets dyn-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_dynamic(on: c_int) {
    frame::current().change_icvs(|icvs| icvs.dynamic = Dynamic::said(on != 0));
}

/// Sets the nesting of active regions on or off.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_nested(on: c_int) {
    query::set_nested(frame::current(), on != 0);
}

/// Sets max-active-levels-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_max_active_levels(levels: c_int) {
    query::set_max_active_levels(frame::current(), levels);
}

/// Sets run-sched-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_schedule(kind: c_uint, chunk: c_int) {
    query::set_schedule(frame::current(), kind, chunk);
}

/// Reads run-sched-var.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn omp_get_schedule(kind: *mut c_uint, chunk: *mut c_int) {
    let (k, c) = query::schedule(frame::current());
    // SAFETY: the program's places for the results.
    unsafe {
        kind.write(k);
        chunk.write(c);
    }
}

/// The caller's ancestor's number at a level.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_ancestor_thread_num(level: c_int) -> c_int {
    query::ancestor(frame::current(), level)
}

/// The size of the team at a level.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_team_size(level: c_int) -> c_int {
    query::team_size(frame::current(), level)
}

/// nteams-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_max_teams() -> c_int {
    query::int(device::max_teams())
}

/// Sets nteams-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_num_teams(teams: c_int) {
    device::set_max_teams(teams);
}

/// teams-thread-limit-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_get_teams_thread_limit() -> c_int {
    query::int(device::thread_limit())
}

/// Sets teams-thread-limit-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_teams_thread_limit(threads: c_int) {
    device::set_thread_limit(threads);
}

/// Sets default-device-var.
#[unsafe(no_mangle)]
pub(super) extern "C" fn omp_set_default_device(device: c_int) {
    frame::current().change_icvs(|icvs| icvs.default_device = device.max(0));
}

/// Completes a detached task.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn omp_fulfill_event(event: *mut c_void) {
    // SAFETY: the program passes an event handle that it got from a task, once.
    unsafe { tasking::fulfill(event, frame::current()) };
}
