//! Worksharing: loops, sections, ordered regions.

use crate::body::{ReturnSlot, entry_of_a_barrier};
use crate::construct::Plan;
use crate::frame::{self, Frame};
use crate::schedule::{Kind, Schedule, Space};
use crate::sync;
use crate::worksharing;
use std::ffi::{c_long, c_uint, c_ulonglong};

/// Takes the next chunk and hands its bounds to the compiled code.
///
/// # Safety
/// - `start` and `end` are places for 8 bytes each.
#[inline]
pub(super) unsafe fn deliver(frame: &Frame, start: *mut u64, end: *mut u64) -> bool {
    let Some((from, to)) = worksharing::next(frame) else { return false };
    // SAFETY: caller's contract.
    unsafe {
        start.write(from);
        end.write(to);
    }
    true
}

/// Enters a loop and takes its first chunk.
///
/// # Safety
/// - As for [`deliver`].
#[inline]
unsafe fn begin(plan: impl FnOnce(&Frame) -> Plan, start: *mut u64, end: *mut u64) -> bool {
    let frame = frame::current();
    worksharing::enter(frame, || plan(frame), |_| {});
    // SAFETY: caller's contract.
    unsafe { deliver(frame, start, end) }
}

macro_rules! start {
    ($long:ident, $ull:ident, $plan:expr, $kind:expr) => {
        /// Enters a loop with this schedule.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $long(
            start: c_long,
            end: c_long,
            step: c_long,
            chunk: c_long,
            istart: *mut c_long,
            iend: *mut c_long,
        ) -> bool {
            let plan = |_: &Frame| {
                $plan(Space::signed(start, end, step), Schedule::new($kind, chunk.cast_unsigned()))
            };
            // SAFETY: the compiled code's places for the bounds.
            unsafe { begin(plan, istart.cast(), iend.cast()) }
        }

        /// Enters a loop of unsigned numbers with this schedule.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $ull(
            up: bool,
            start: c_ulonglong,
            end: c_ulonglong,
            step: c_ulonglong,
            chunk: c_ulonglong,
            istart: *mut c_ulonglong,
            iend: *mut c_ulonglong,
        ) -> bool {
            let plan = |_: &Frame| {
                $plan(Space::unsigned(up, start, end, step), Schedule::new($kind, chunk))
            };
            // SAFETY: the compiled code's places for the bounds.
            unsafe { begin(plan, istart, iend) }
        }
    };
}

start!(GOMP_loop_static_start, GOMP_loop_ull_static_start, Plan::new, Kind::Static);
start!(GOMP_loop_dynamic_start, GOMP_loop_ull_dynamic_start, Plan::new, Kind::Dynamic);
start!(GOMP_loop_guided_start, GOMP_loop_ull_guided_start, Plan::new, Kind::Guided);
start!(
    GOMP_loop_nonmonotonic_dynamic_start,
    GOMP_loop_ull_nonmonotonic_dynamic_start,
    Plan::new,
    Kind::Dynamic
);
start!(
    GOMP_loop_nonmonotonic_guided_start,
    GOMP_loop_ull_nonmonotonic_guided_start,
    Plan::new,
    Kind::Guided
);
start!(
    GOMP_loop_ordered_static_start,
    GOMP_loop_ull_ordered_static_start,
    Plan::ordered,
    Kind::Static
);
start!(
    GOMP_loop_ordered_dynamic_start,
    GOMP_loop_ull_ordered_dynamic_start,
    Plan::ordered,
    Kind::Dynamic
);
start!(
    GOMP_loop_ordered_guided_start,
    GOMP_loop_ull_ordered_guided_start,
    Plan::ordered,
    Kind::Guided
);

macro_rules! start_runtime {
    ($long:ident, $ull:ident, $plan:expr) => {
        /// Enters a loop with the schedule of the control variable.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $long(
            start: c_long,
            end: c_long,
            step: c_long,
            istart: *mut c_long,
            iend: *mut c_long,
        ) -> bool {
            let plan =
                |frame: &Frame| $plan(Space::signed(start, end, step), frame.icvs().schedule);
            // SAFETY: the compiled code's places for the bounds.
            unsafe { begin(plan, istart.cast(), iend.cast()) }
        }

        /// Enters a loop of unsigned numbers with the schedule of the control variable.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $ull(
            up: bool,
            start: c_ulonglong,
            end: c_ulonglong,
            step: c_ulonglong,
            istart: *mut c_ulonglong,
            iend: *mut c_ulonglong,
        ) -> bool {
            let plan =
                |frame: &Frame| $plan(Space::unsigned(up, start, end, step), frame.icvs().schedule);
            // SAFETY: the compiled code's places for the bounds.
            unsafe { begin(plan, istart, iend) }
        }
    };
}

start_runtime!(GOMP_loop_runtime_start, GOMP_loop_ull_runtime_start, Plan::new);
start_runtime!(
    GOMP_loop_nonmonotonic_runtime_start,
    GOMP_loop_ull_nonmonotonic_runtime_start,
    Plan::new
);
start_runtime!(
    GOMP_loop_maybe_nonmonotonic_runtime_start,
    GOMP_loop_ull_maybe_nonmonotonic_runtime_start,
    Plan::new
);
start_runtime!(GOMP_loop_ordered_runtime_start, GOMP_loop_ull_ordered_runtime_start, Plan::ordered);

macro_rules! next {
    ($($long:ident, $ull:ident;)*) => {$(
        /// Takes the next chunk of the current loop; how, the loop's plan says.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $long(istart: *mut c_long, iend: *mut c_long) -> bool {
            // SAFETY: the compiled code's places for the bounds.
            unsafe { deliver(frame::current(), istart.cast(), iend.cast()) }
        }

        /// The same for a loop of unsigned numbers.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $ull(istart: *mut c_ulonglong, iend: *mut c_ulonglong) -> bool {
            // SAFETY: the compiled code's places for the bounds.
            unsafe { deliver(frame::current(), istart, iend) }
        }
    )*};
}

next! {
    GOMP_loop_static_next, GOMP_loop_ull_static_next;
    GOMP_loop_dynamic_next, GOMP_loop_ull_dynamic_next;
    GOMP_loop_guided_next, GOMP_loop_ull_guided_next;
    GOMP_loop_runtime_next, GOMP_loop_ull_runtime_next;
    GOMP_loop_nonmonotonic_dynamic_next, GOMP_loop_ull_nonmonotonic_dynamic_next;
    GOMP_loop_nonmonotonic_guided_next, GOMP_loop_ull_nonmonotonic_guided_next;
    GOMP_loop_nonmonotonic_runtime_next, GOMP_loop_ull_nonmonotonic_runtime_next;
    GOMP_loop_maybe_nonmonotonic_runtime_next, GOMP_loop_ull_maybe_nonmonotonic_runtime_next;
    GOMP_loop_ordered_static_next, GOMP_loop_ull_ordered_static_next;
    GOMP_loop_ordered_dynamic_next, GOMP_loop_ull_ordered_dynamic_next;
    GOMP_loop_ordered_guided_next, GOMP_loop_ull_ordered_guided_next;
    GOMP_loop_ordered_runtime_next, GOMP_loop_ull_ordered_runtime_next;
}

entry_of_a_barrier! {
    /// The end of a loop, with its barrier.
    GOMP_loop_end, loop_end
}

extern "C" fn loop_end(returns: ReturnSlot) {
    let frame = frame::current();
    worksharing::leave(frame);
    sync::barrier_before(frame, returns);
}

/// The end of a loop with `nowait`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_loop_end_nowait() {
    worksharing::leave(frame::current());
}

/// The end of a loop in a region that may be cancelled; true = it was.
#[unsafe(no_mangle)]
extern "C" fn GOMP_loop_end_cancel() -> bool {
    let frame = frame::current();
    worksharing::leave(frame);
    sync::cancellable_barrier(frame)
}

/// Takes a section; 0 = none is left.
pub(super) fn next_section(frame: &Frame) -> c_uint {
    worksharing::next(frame).map_or(0, |(number, _)| number as c_uint)
}

/// Enters `sections` and takes the first one.
#[unsafe(no_mangle)]
extern "C" fn GOMP_sections_start(count: c_uint) -> c_uint {
    let frame = frame::current();
    worksharing::enter(frame, || Plan::sections(count), |_| {});
    next_section(frame)
}

/// Takes the next section.
#[unsafe(no_mangle)]
extern "C" fn GOMP_sections_next() -> c_uint {
    next_section(frame::current())
}

entry_of_a_barrier! {
    /// The end of sections, with its barrier.
    GOMP_sections_end, loop_end
}

/// The end of sections with `nowait`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_sections_end_nowait() {
    GOMP_loop_end_nowait();
}

/// The end of sections in a region that may be cancelled; true = it was.
#[unsafe(no_mangle)]
extern "C" fn GOMP_sections_end_cancel() -> bool {
    GOMP_loop_end_cancel()
}

/// Begins an ordered region.
#[unsafe(no_mangle)]
extern "C" fn GOMP_ordered_start() {
    frame::with_current((), |frame, ()| worksharing::wait_for_turn(frame));
}

/// Ends an ordered region: the turn is passed on with the chunk.
#[unsafe(no_mangle)]
extern "C" fn GOMP_ordered_end() {}
