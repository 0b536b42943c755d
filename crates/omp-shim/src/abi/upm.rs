//! The calls of user-level page migration, by the names of the paper. Not OpenMP's: they stand in a
//! version node of ours. `include/upm.h` is made of this file (`tests/header.rs`).

use crate::migration;
use crate::process::message;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use upm::source::Pattern;

/// Above 0 when another call of upmlib_migrate_memory is worth making: how many pages the last one
/// moved, or 1 while it was too early to decide, and before the first call.
#[unsafe(no_mangle)]
static num_migrations: AtomicI32 = AtomicI32::new(1);

/// The same for Fortran: common /num_migrations/ num_migrations
#[unsafe(no_mangle)]
static num_migrations_: AtomicI32 = AtomicI32::new(1);

fn int(pages: Option<usize>) -> c_int {
    c_int::try_from(pages.unwrap_or(0)).unwrap_or(c_int::MAX)
}

fn publish(pages: c_int) {
    // ORDERING: Relaxed, both - numbers, for the calling thread.
    num_migrations.store(pages, Relaxed);
    num_migrations_.store(pages, Relaxed);
}

/// Begins, or begins anew: no area is hot then. 0, or -1 when the machine's memory nodes cannot be
/// read. On a machine with one node the other calls do nothing.
#[unsafe(no_mangle)]
extern "C" fn upmlib_init() -> c_int {
    let is_there = migration::start();
    publish(c_int::from(is_there));
    if is_there { 0 } else { -1 }
}

/// Names a hot area: an array that parallel loops read and write. It has to stay mapped until the
/// next upmlib_init. From now on references are counted, in parallel regions, where no system call
/// may be given a hot area. 0, or -1 and a line on stderr: no byte, not mapped, not plain memory,
/// or a part of another area.
#[unsafe(no_mangle)]
extern "C" fn upmlib_memrefcnt(addr: *const c_void, size: usize) -> c_int {
    // SAFETY: - the caller's promise: it stays mapped.
    let added = migration::library(|library| unsafe { library.memrefcnt(addr.addr(), size) });
    let wrong = match added {
        Some(Ok(())) => return 0,
        Some(Err(error)) => error.to_string(),
        None => "upmlib_init was not called".to_owned(),
    };
    message::warn(&format!("upmlib_memrefcnt: {wrong}"));
    -1
}

/// After an iteration of the outer loop: moves pages to the nodes that use them most, and returns
/// how many moved. Once num_migrations is 0 it does nothing, and nothing is counted any more.
#[unsafe(no_mangle)]
extern "C" fn upmlib_migrate_memory() -> c_int {
    let outcome = migration::library(|library| (library.migrate_memory(), library.should_call()));
    let moved = int(outcome.map(|(moved, _)| moved));
    let goes_on = outcome.is_some_and(|(_, goes_on)| goes_on);
    publish(if goes_on { moved.max(1) } else { moved });
    moved
}

/// A border of the phases of an iteration: before the first one, and after each.
#[unsafe(no_mangle)]
extern "C" fn upmlib_record() {
    migration::library(upm::Library::record);
}

/// After the recorded iteration: decides which pages move before which phase, and returns how many
/// moves an iteration has.
#[unsafe(no_mangle)]
extern "C" fn upmlib_compare_counters() -> c_int {
    int(migration::library(upm::Library::compare_counters))
}

/// Before each phase of a later iteration, in the same order: moves its pages, and returns how many
/// moved.
#[unsafe(no_mangle)]
extern "C" fn upmlib_replay() -> c_int {
    int(migration::library(upm::Library::replay))
}

/// After the last phase: returns pages to where they were, and how many those are.
#[unsafe(no_mangle)]
extern "C" fn upmlib_undo() -> c_int {
    int(migration::library(upm::Library::undo))
}

/// The calling thread touches these bytes once. A program that says so of each thread's part of its
/// loops has references counted exactly, and no access faults: the first such call ends sampling.
#[unsafe(no_mangle)]
extern "C" fn upmlib_touched(addr: *const c_void, size: usize) {
    migration::touched(addr.addr(), size);
}

/// The same for the iterations from first to last - 1 of a loop, of which iteration i touches bytes
/// bytes at base + i * stride.
#[unsafe(no_mangle)]
extern "C" fn upmlib_loop(
    base: *const c_void,
    stride: usize,
    bytes: usize,
    first: usize,
    last: usize,
) {
    migration::ran(&Pattern { base: base.addr(), stride, bytes, times: 1 }, first, last);
}

/// The same calls for Fortran: sizes are integers of the default kind. An area of 2 GiB or more is
/// named in parts.
#[unsafe(no_mangle)]
extern "C" fn upmlib_init_() -> c_int {
    upmlib_init()
}

/// See above.
#[unsafe(no_mangle)]
unsafe extern "C" fn upmlib_memrefcnt_(addr: *const c_void, size: *const c_int) -> c_int {
    // SAFETY: - Fortran passes the address of an integer.
    let size = unsafe { *size };
    let Ok(bytes) = usize::try_from(size) else {
        message::warn(&format!(
            "upmlib_memrefcnt: a size of {size} bytes; an area of 2 GiB or more is named in parts"
        ));
        return -1;
    };
    upmlib_memrefcnt(addr, bytes)
}

/// See above.
#[unsafe(no_mangle)]
extern "C" fn upmlib_migrate_memory_() -> c_int {
    upmlib_migrate_memory()
}

/// See above.
#[unsafe(no_mangle)]
extern "C" fn upmlib_record_() {
    upmlib_record();
}

/// See above.
#[unsafe(no_mangle)]
extern "C" fn upmlib_compare_counters_() -> c_int {
    upmlib_compare_counters()
}

/// See above.
#[unsafe(no_mangle)]
extern "C" fn upmlib_replay_() -> c_int {
    upmlib_replay()
}

/// See above.
#[unsafe(no_mangle)]
extern "C" fn upmlib_undo_() -> c_int {
    upmlib_undo()
}

/// See above.
#[unsafe(no_mangle)]
unsafe extern "C" fn upmlib_touched_(addr: *const c_void, size: *const c_int) {
    // SAFETY: - Fortran passes the address of an integer.
    upmlib_touched(addr, usize::try_from(unsafe { *size }).unwrap_or(0));
}

/// See above; a negative number is 0.
#[unsafe(no_mangle)]
unsafe extern "C" fn upmlib_loop_(
    base: *const c_void,
    stride: *const c_int,
    bytes: *const c_int,
    first: *const c_int,
    last: *const c_int,
) {
    let number = |place: *const c_int| {
        // SAFETY: - Fortran passes the address of an integer.
        usize::try_from(unsafe { *place }).unwrap_or(0)
    };
    upmlib_loop(base, number(stride), number(bytes), number(first), number(last));
}
