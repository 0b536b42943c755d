//! Parallel regions.

use crate::body::Body;
use crate::construct::Plan;
use crate::frame::{self, Frame};
use crate::process::message;
use crate::region::legacy;
use crate::region::{self, Ask};
use crate::schedule::{Kind, Schedule, Space};
use crate::task;
use crate::tasking::reduction;
use crate::worksharing;
use std::ffi::{c_long, c_uint, c_void};

/// `parallel`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel(body: Body, data: *mut c_void, threads: c_uint, flags: c_uint) {
    region::parallel(frame::current(), body, data, ask(threads, flags), |_| {});
}

/// `parallel` with `reduction(task, ...)`; returns the size of the team.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_reductions(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    flags: c_uint,
) -> c_uint {
    // SAFETY: the argument block begins with the address of the reduction data.
    let reductions = unsafe { data.cast::<*mut usize>().read() };
    let group = task::new_group(std::ptr::null());
    region::parallel(frame::current(), body, data, ask(threads, flags), |team| {
        // SAFETY: the compiled code's reduction data, fresh for this region.
        unsafe { reduction::register_region(&group, reductions, team.size()) };
        team.set_group(&raw const *group);
    })
}

/// `parallel sections`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_sections(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    count: c_uint,
    flags: c_uint,
) {
    in_one_call(body, data, ask(threads, flags), |_| Plan::sections(count));
}

/// What the arguments of a parallel construct ask for: the low bits of the flags are the proc_bind
/// clause.
fn ask(threads: c_uint, flags: c_uint) -> Ask {
    Ask { threads, bind: (flags & 7) as u8 }
}

/// Runs a region that begins with the construct of `plan`, which the forking thread's frame may
/// decide.
fn in_one_call(body: Body, data: *mut c_void, ask: Ask, plan: impl FnOnce(&Frame) -> Plan) {
    let frame = frame::current();
    region::parallel(frame, body, data, ask, |team| worksharing::lay_out_ahead(team, plan(frame)));
}

/// Starts such a region, whose body the caller runs itself (gcc before 4.9).
fn in_two_calls(body: Body, data: *mut c_void, ask: Ask, plan: impl FnOnce(&Frame) -> Plan) {
    legacy::start(body, data, ask.threads, |frame, team| {
        worksharing::lay_out_ahead(team, plan(frame));
    });
}

/// The schedule that the compiled code names.
fn named(kind: Kind, chunk: c_long) -> impl FnOnce(&Frame) -> Schedule {
    move |_| Schedule::new(kind, chunk.cast_unsigned())
}

/// The schedule of the control variable.
fn of_variable(frame: &Frame) -> Schedule {
    frame.icvs().schedule
}

/// Defines an entry point for a region that begins with a loop: what it takes after the loop's
/// bounds, how the region is begun, and the loop's schedule.
macro_rules! parallel_loop {
    ($name:ident($($last:ident: $type:ty),*), $begin:ident($flags:expr), $schedule:expr) => {
        /// `parallel for`, in one call, or (`start`) the first of two.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            body: Body,
            data: *mut c_void,
            threads: c_uint,
            start: c_long,
            end: c_long,
            step: c_long,
            $($last: $type),*
        ) {
            let (space, schedule) = (Space::signed(start, end, step), $schedule);
            $begin(body, data, ask(threads, $flags), |frame| Plan::new(space, schedule(frame)));
        }
    };
}

/// Loops of one kind, with a chunk.
macro_rules! named_loops {
    (started: $($name:ident = $kind:expr;)*) => {
        $(parallel_loop!($name(chunk: c_long), in_two_calls(0), named($kind, chunk));)*
    };
    ($($name:ident = $kind:expr;)*) => {
        $(parallel_loop!(
            $name(chunk: c_long, flags: c_uint),
            in_one_call(flags),
            named($kind, chunk)
        );)*
    };
}

named_loops! {
    GOMP_parallel_loop_static = Kind::Static;
    GOMP_parallel_loop_dynamic = Kind::Dynamic;
    GOMP_parallel_loop_guided = Kind::Guided;
    GOMP_parallel_loop_nonmonotonic_dynamic = Kind::Dynamic;
    GOMP_parallel_loop_nonmonotonic_guided = Kind::Guided;
}

parallel_loop!(GOMP_parallel_loop_runtime(flags: c_uint), in_one_call(flags), of_variable);
parallel_loop!(
    GOMP_parallel_loop_nonmonotonic_runtime(flags: c_uint),
    in_one_call(flags),
    of_variable
);
parallel_loop!(
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(flags: c_uint),
    in_one_call(flags),
    of_variable
);

/// Starts a region whose body the caller runs itself (gcc before 4.9).
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_start(body: Body, data: *mut c_void, threads: c_uint) {
    legacy::start(body, data, threads, |_, _| {});
}

/// Ends it.
#[unsafe(no_mangle)]
extern "C" fn GOMP_parallel_end() {
    if !legacy::end() {
        message::fatal("GOMP_parallel_end without GOMP_parallel_start on this thread");
    }
}

/// Starts a region that begins with sections.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_sections_start(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    count: c_uint,
) {
    in_two_calls(body, data, ask(threads, 0), |_| Plan::sections(count));
}

named_loops! {
    started:
    GOMP_parallel_loop_static_start = Kind::Static;
    GOMP_parallel_loop_dynamic_start = Kind::Dynamic;
    GOMP_parallel_loop_guided_start = Kind::Guided;
}

parallel_loop!(GOMP_parallel_loop_runtime_start(), in_two_calls(0), of_variable);
