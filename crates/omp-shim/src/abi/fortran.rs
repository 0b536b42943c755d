//! The `omp_*` functions of Fortran: arguments by reference, a trailing underscore; `_8_` where
//! gfortran passes 8-byte integers. Logical results are 4 bytes, 0 or 1. CHARACTER arguments are
//! not terminated; their lengths come last.

mod allocators;
mod display;
mod places;

use super::c;
use crate::query::int;
use std::ffi::{c_double, c_int, c_uint, c_void};

/// Functions without arguments: the C function's result.
macro_rules! plain {
    ($($name:ident = $($c:ident)::+ -> $type:ty;)*) => {$(
        /// The C function of this name.
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> $type {
            c::$($c)::+()
        }
    )*};
}

plain! {
    omp_get_thread_num_ = omp_get_thread_num -> c_int;
    omp_get_num_threads_ = omp_get_num_threads -> c_int;
    omp_get_max_threads_ = omp_get_max_threads -> c_int;
    omp_get_num_procs_ = omp_get_num_procs -> c_int;
    omp_in_parallel_ = omp_in_parallel -> c_int;
    omp_get_dynamic_ = omp_get_dynamic -> c_int;
    omp_get_nested_ = omp_get_nested -> c_int;
    omp_get_thread_limit_ = omp_get_thread_limit -> c_int;
    omp_get_max_active_levels_ = omp_get_max_active_levels -> c_int;
    omp_get_supported_active_levels_ = omp_get_supported_active_levels -> c_int;
    omp_get_level_ = omp_get_level -> c_int;
    omp_get_active_level_ = omp_get_active_level -> c_int;
    omp_in_final_ = omp_in_final -> c_int;
    omp_get_cancellation_ = omp_get_cancellation -> c_int;
    omp_get_proc_bind_ = omp_get_proc_bind -> c_int;
    omp_get_default_device_ = omp_get_default_device -> c_int;
    omp_get_num_teams_ = omp_get_num_teams -> c_int;
    omp_get_team_num_ = omp_get_team_num -> c_int;
    omp_get_max_task_priority_ = omp_get_max_task_priority -> c_int;
    omp_get_wtime_ = omp_get_wtime -> c_double;
    omp_get_wtick_ = omp_get_wtick -> c_double;
    omp_get_num_places_ = places::omp_get_num_places -> c_int;
    omp_get_place_num_ = places::omp_get_place_num -> c_int;
    omp_get_partition_num_places_ = places::omp_get_partition_num_places -> c_int;
    omp_get_num_devices_ = devices::omp_get_num_devices -> c_int;
    omp_get_initial_device_ = devices::omp_get_initial_device -> c_int;
    omp_get_device_num_ = devices::omp_get_device_num -> c_int;
    omp_is_initial_device_ = devices::omp_is_initial_device -> c_int;
    omp_get_max_teams_ = omp_get_max_teams -> c_int;
    omp_get_teams_thread_limit_ = omp_get_teams_thread_limit -> c_int;
    omp_get_default_allocator_ = allocators::omp_get_default_allocator -> usize;
}

/// Functions of one integer, in both sizes.
macro_rules! by_reference {
    ($($name:ident, $name8:ident = $($c:ident)::+ $(-> $type:ty)?;)*) => {$(
        /// The C function of this name.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(value: *const i32) $(-> $type)? {
            // SAFETY: the program's variable.
            c::$($c)::+(unsafe { *value })
        }

        /// The same for an 8-byte integer.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name8(value: *const i64) $(-> $type)? {
            // SAFETY: the program's variable.
            c::$($c)::+(narrow(unsafe { *value }))
        }
    )*};
}

/// An 8-byte integer as a 4-byte one; what does not fit becomes the nearest.
fn narrow(value: i64) -> i32 {
    value.clamp(i32::MIN.into(), i32::MAX.into()) as i32
}

by_reference! {
    omp_set_num_threads_, omp_set_num_threads_8_ = omp_set_num_threads;
    omp_set_max_active_levels_, omp_set_max_active_levels_8_ = omp_set_max_active_levels;
    omp_set_default_device_, omp_set_default_device_8_ = omp_set_default_device;
    omp_set_dynamic_, omp_set_dynamic_8_ = omp_set_dynamic;
    omp_set_nested_, omp_set_nested_8_ = omp_set_nested;
    omp_get_ancestor_thread_num_, omp_get_ancestor_thread_num_8_ = omp_get_ancestor_thread_num -> c_int;
    omp_get_team_size_, omp_get_team_size_8_ = omp_get_team_size -> c_int;
    omp_set_num_teams_, omp_set_num_teams_8_ = omp_set_num_teams;
    omp_set_teams_thread_limit_, omp_set_teams_thread_limit_8_ = omp_set_teams_thread_limit;
    omp_display_env_, omp_display_env_8_ = display::omp_display_env;
    omp_get_place_num_procs_, omp_get_place_num_procs_8_ = places::omp_get_place_num_procs -> c_int;
}

/// Sets run-sched-var.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_set_schedule_(kind: *const c_uint, chunk: *const i32) {
    // SAFETY: the program's variables.
    unsafe { c::omp_set_schedule(*kind, *chunk) };
}

/// The same with an 8-byte chunk.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_set_schedule_8_(kind: *const c_uint, chunk: *const i64) {
    // SAFETY: the program's variables.
    unsafe { c::omp_set_schedule(*kind, narrow(*chunk)) };
}

/// Reads run-sched-var.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_schedule_(kind: *mut c_uint, chunk: *mut i32) {
    // SAFETY: the program's variables.
    unsafe { c::omp_get_schedule(kind, chunk) };
}

/// The same with an 8-byte chunk.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_get_schedule_8_(kind: *mut c_uint, chunk: *mut i64) {
    let mut small = int(0);
    // SAFETY: the program's variables.
    unsafe {
        c::omp_get_schedule(kind, &mut small);
        chunk.write(small.into());
    }
}

/// Completes a detached task. The handle comes by value.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_fulfill_event_(event: *mut c_void) {
    // SAFETY: the program's event handle.
    unsafe { c::omp_fulfill_event(event) };
}

/// Gives resources of a device back.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_pause_resource_(kind: *const c_int, device: *const c_int) -> c_int {
    // SAFETY: the program's variables.
    unsafe { c::devices::omp_pause_resource(*kind, *device) }
}

/// Gives resources of all devices back.
#[unsafe(no_mangle)]
unsafe extern "C" fn omp_pause_resource_all_(kind: *const c_int) -> c_int {
    // SAFETY: the program's variable.
    c::devices::omp_pause_resource_all(unsafe { *kind })
}
