//! Programs that use what is rarely used, of C, C++ and Fortran: on the drop-in library they do and
//! say what they do and say on the compiler's own.
//!
//! Their output is the same in every run, so that the original is the oracle. Where a compiler, the
//! original or the drop-in library is missing, the tests say so and end.

mod drop_in;

use drop_in::{clean, compile_by, exists, finish, shim};
use std::path::Path;

/// Runs tests/rare/`file` on both libraries, under each of `environments`.
fn agree_under(file: &str, environments: &[&[(&str, &str)]]) {
    let Some(shim) = shim() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rare").join(file);
    // Where the program's Fortran modules go.
    let modules = concat!("-J", env!("CARGO_TARGET_TMPDIR"));
    let (compiler, options) = match source.extension().and_then(|extension| extension.to_str()) {
        Some("cc") => ("g++", ["-Wno-unknown-pragmas", "-lpthread"]),
        Some("f90") => ("gfortran", [modules, "-Wno-unused"]),
        _ => ("gcc", ["-Wno-unknown-pragmas", "-lpthread"]),
    };
    if !exists(compiler) {
        return platform::skip!("no {compiler} here");
    }
    let program = compile_by(compiler, &source, &options);
    for variables in environments {
        let said = [None, Some(&*shim)].map(|library| {
            let mut command = clean(&program, library);
            command.envs(variables.iter().copied());
            let output = finish(command);
            (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
        });
        let [original, ours] = said;
        assert!(
            original.0.is_some(),
            "{file} under {variables:?}: the original crashes; it said {}",
            original.1
        );
        assert_eq!(ours, original, "{file} under {variables:?}: ours, then the original");
    }
}

fn agree(file: &str) {
    agree_under(file, &[&[]]);
}

#[test]
fn cancelled_groups_loops_and_regions() {
    agree_under("cancelled_groups.c", &[&[("OMP_CANCELLATION", "true")], &[]]);
}

#[test]
fn objects_of_cancelled_tasks_are_destroyed() {
    agree_under(
        "cancelled_objects.cc",
        &[
            &[("OMP_CANCELLATION", "true")],
            &[("OMP_CANCELLATION", "true"), ("OMP_NUM_THREADS", "3")],
        ],
    );
}

#[test]
fn addresses_of_tasks_that_are_done_are_forgotten() {
    agree_under("addresses.c", &[&[("OMP_NUM_THREADS", "2")], &[("OMP_NUM_THREADS", "1")]]);
}

#[test]
fn ordered_loops_over_unsigned_numbers_in_a_team_of_one() {
    agree("unsigned_sinks.c");
}

#[test]
fn target_constructs_with_arguments_that_are_not_there() {
    agree("absent.f90");
}

#[test]
fn threadprivate_data_begin_anew_after_a_pause() {
    let waits = [&[][..], &[("OMP_WAIT_POLICY", "passive")], &[("OMP_PROC_BIND", "true")]];
    agree_under("paused.cc", &waits);
    agree_under("paused.f90", &waits);
}

#[test]
fn scans() {
    agree("scans.c");
}

#[test]
fn odd_strides_and_the_ends_of_the_numbers() {
    agree_under("strides.c", &[&[], &[("OMP_SCHEDULE", "monotonic:guided,3")]]);
}

#[test]
fn last_values_and_copies() {
    agree("last_values.c");
}

#[test]
fn reductions_by_tasks() {
    agree("task_sums.c");
}

#[test]
fn events_that_threads_of_the_program_fulfill() {
    agree("events.c");
}

#[test]
fn affinity_formats_and_what_regions_inherit() {
    // dyn-var is true at start on ours, unless the user says otherwise.
    let fixed = ("OMP_DYNAMIC", "false");
    agree_under("affinity.c", &[&[fixed], &[fixed, ("OMP_AFFINITY_FORMAT", "thread %n%%")]]);
}

#[test]
fn allocators_with_traits() {
    agree("allocators.c");
}

#[test]
fn dependences_of_all_kinds() {
    agree("orders.c");
}

#[test]
fn leagues_and_target_regions() {
    agree_under("leagues.c", &[&[], &[("OMP_TEAMS_THREAD_LIMIT", "2"), ("OMP_NUM_TEAMS", "3")]]);
}

#[test]
fn atomic_updates_locks_and_threadprivate_data() {
    agree("atomics.c");
}

#[test]
fn objects_and_exceptions() {
    agree("objects.cc");
}

#[test]
fn fortran_with_allocatable_data() {
    agree("modules.f90");
}

#[test]
fn tasks_in_depth() {
    agree_under("trees.c", &[&[], &[("OMP_MAX_TASK_PRIORITY", "7")]]);
}

#[test]
fn target_regions_and_device_routines_without_a_device() {
    agree("devices.c");
}

#[test]
fn a_program_that_demands_devices_is_ended_where_one_is_missing() {
    let demands = |way| [("OMP_TARGET_OFFLOAD", "mandatory"), ("WAY", way)];
    let asks = [("WAY", "region")];
    agree_under(
        "offload.c",
        &[
            &asks,
            &demands("host"),
            &demands("region"),
            &demands("default"),
            &demands("data"),
            &demands("memory"),
        ],
    );
}

#[test]
fn formats_of_fortran_with_blanks() {
    agree("formats.f90");
}

#[test]
fn constructs_in_flight_in_nested_and_outside_all_regions() {
    agree_under(
        "mixtures.c",
        &[&[], &[("OMP_CANCELLATION", "true"), ("OMP_MAX_ACTIVE_LEVELS", "3")]],
    );
}

#[test]
fn fortran_with_derived_types() {
    agree("derived.f90");
}

#[test]
fn places_of_odd_intervals() {
    let texts = [
        "threads",
        "cores",
        "sockets",
        "threads(1)",
        "cores(7)",
        "{0}",
        "{1}",
        "{0},{1}",
        "{0:2}",
        "{0}:2",
        "{0:1}:2:1",
        "{1}:2:-1",
        "{0,1},!{1}",
        "{0:2:1},{1}",
        " { 0 } , { 1 } ",
        "{0},{0}",
        "{0:2,!0}",
        "ll_caches",
        "numa_domains",
    ];
    let environments: Vec<_> = texts.map(|text| [("OMP_PLACES", text)]).into_iter().collect();
    let bound: Vec<_> = ["true", "false", "spread,close", "close", "primary"]
        .map(|bind| [("OMP_PROC_BIND", bind)])
        .into_iter()
        .collect();
    let mixed = [("OMP_PLACES", "{0},{1}"), ("OMP_PROC_BIND", "spread,spread")];
    let all: Vec<&[(&str, &str)]> = environments
        .iter()
        .chain(&bound)
        .map(|pairs| &pairs[..])
        .chain([&[][..], &mixed])
        .collect();
    agree_under("places.c", &all);
}

#[test]
fn threads_of_the_program_and_an_exit_inside_a_region() {
    agree_under("foreign_threads.c", &[&[], &[("OMP_MAX_ACTIVE_LEVELS", "2")]]);
}
