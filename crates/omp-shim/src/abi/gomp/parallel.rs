//! Parallel regions.

use crate::body::Body;
use crate::construct::Plan;
use crate::frame::{self, Frame};
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
    with_construct(body, data, ask(threads, flags), |_| Plan::sections(count));
}

/// What the arguments of a parallel construct ask for: the low bits of the flags are the proc_bind
/// clause.
fn ask(threads: c_uint, flags: c_uint) -> Ask {
    Ask { threads, bind: (flags & 7) as u8 }
}

fn with_construct(body: Body, data: *mut c_void, ask: Ask, plan: impl FnOnce(&Frame) -> Plan) {
    let frame = frame::current();
    region::parallel(frame, body, data, ask, |team| worksharing::lay_out_ahead(team, plan(frame)));
}

macro_rules! parallel_loop {
    ($name:ident, $kind:expr) => {
        /// `parallel for` with this schedule.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            body: Body,
            data: *mut c_void,
            threads: c_uint,
            start: c_long,
            end: c_long,
            step: c_long,
            chunk: c_long,
            flags: c_uint,
        ) {
            let schedule = Schedule::new($kind, chunk.cast_unsigned());
            with_construct(body, data, ask(threads, flags), |_| {
                Plan::new(Space::signed(start, end, step), schedule)
            });
        }
    };
}

parallel_loop!(GOMP_parallel_loop_static, Kind::Static);
parallel_loop!(GOMP_parallel_loop_dynamic, Kind::Dynamic);
parallel_loop!(GOMP_parallel_loop_guided, Kind::Guided);
parallel_loop!(GOMP_parallel_loop_nonmonotonic_dynamic, Kind::Dynamic);
parallel_loop!(GOMP_parallel_loop_nonmonotonic_guided, Kind::Guided);

macro_rules! parallel_loop_runtime {
    ($name:ident) => {
        /// `parallel for` with the schedule of the control variable.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            body: Body,
            data: *mut c_void,
            threads: c_uint,
            start: c_long,
            end: c_long,
            step: c_long,
            flags: c_uint,
        ) {
            let space = Space::signed(start, end, step);
            with_construct(body, data, ask(threads, flags), |frame| {
                Plan::new(space, frame.icvs().schedule)
            });
        }
    };
}

parallel_loop_runtime!(GOMP_parallel_loop_runtime);
parallel_loop_runtime!(GOMP_parallel_loop_nonmonotonic_runtime);
parallel_loop_runtime!(GOMP_parallel_loop_maybe_nonmonotonic_runtime);

/// Starts a region whose body the caller runs itself (gcc before 4.9).
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_start(body: Body, data: *mut c_void, threads: c_uint) {
    legacy::start(body, data, threads, |_, _| {});
}

/// Ends it.
#[unsafe(no_mangle)]
extern "C" fn GOMP_parallel_end() {
    if !legacy::end() {
        crate::process::message::fatal(
            "GOMP_parallel_end without GOMP_parallel_start on this thread",
        );
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
    legacy::start(body, data, threads, |_, team| {
        worksharing::lay_out_ahead(team, Plan::sections(count))
    });
}

macro_rules! parallel_loop_start {
    ($name:ident, $kind:expr) => {
        /// Starts a region that begins with a loop of this schedule.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            body: Body,
            data: *mut c_void,
            threads: c_uint,
            start: c_long,
            end: c_long,
            step: c_long,
            chunk: c_long,
        ) {
            let plan = Plan::new(
                Space::signed(start, end, step),
                Schedule::new($kind, chunk.cast_unsigned()),
            );
            legacy::start(body, data, threads, |_, team| worksharing::lay_out_ahead(team, plan));
        }
    };
}

parallel_loop_start!(GOMP_parallel_loop_static_start, Kind::Static);
parallel_loop_start!(GOMP_parallel_loop_dynamic_start, Kind::Dynamic);
parallel_loop_start!(GOMP_parallel_loop_guided_start, Kind::Guided);

/// Starts a region that begins with a loop of the control variable's schedule.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_parallel_loop_runtime_start(
    body: Body,
    data: *mut c_void,
    threads: c_uint,
    start: c_long,
    end: c_long,
    step: c_long,
) {
    let space = Space::signed(start, end, step);
    legacy::start(body, data, threads, |parent, team| {
        worksharing::lay_out_ahead(team, Plan::new(space, parent.icvs().schedule));
    });
}
