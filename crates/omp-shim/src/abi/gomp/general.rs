//! The general entries of worksharing constructs: those that bring task reductions or shared
//! memory, too.

use super::loops::{deliver, next_section};
use crate::construct::{ConstructData, Doacross, Plan};
use crate::frame::{self, Frame};
use crate::schedule::{Kind, Schedule, Space};
use crate::tasking::{self, reduction};
use crate::worksharing;
use std::ffi::{c_long, c_uint, c_ulonglong, c_void};

/// The schedule argument of the general entries: 0 = the control variable's; the top bit is a
/// modifier.
pub(super) fn schedule(frame: &Frame, number: c_long, chunk: u64) -> Schedule {
    match Kind::from_number((number & 0x7fff_ffff) as u32) {
        Some(kind) => Schedule::new(kind, chunk),
        None => frame.icvs().schedule,
    }
}

/// What a construct may bring besides its loop: task reductions, and shared memory (in: its size,
/// out: its address).
#[derive(Clone, Copy)]
pub(super) struct Extras {
    pub(super) reductions: *mut usize,
    pub(super) memory: *mut *mut c_void,
}

/// Enters a construct with extras; `nest` are counts and schedule of a nest with cross-iteration
/// dependences.
///
/// # Safety
/// - The pointers are null or the compiled code's.
pub(super) unsafe fn enter_with(
    frame: &Frame,
    plan: impl FnOnce() -> Plan,
    extras: Extras,
    nest: Option<(&[u64], Schedule)>,
) {
    if !extras.reductions.is_null() {
        tasking::open_group(frame);
    }
    let mut first = false;
    worksharing::enter(frame, plan, |shared: &mut ConstructData| {
        first = true;
        shared.doacross =
            nest.map(|(counts, schedule)| Doacross::new(counts, schedule, frame.size));
        // SAFETY: caller's contract.
        unsafe { make_extras(frame, extras, shared) };
    });
    let Some(construct) = worksharing::current(frame) else { return };
    if !extras.reductions.is_null() && !first {
        // SAFETY: caller's contract; the first member's data stays until all have left.
        unsafe {
            reduction::register_construct(frame, extras.reductions, construct.shared().reductions)
        };
    }
    if !extras.memory.is_null() {
        // SAFETY: caller's contract.
        unsafe { extras.memory.write(construct.shared().memory.as_ptr().cast_mut().cast()) };
    }
}

/// The first member's part: registers the reductions, makes the memory.
///
/// # Safety
/// - As for [`enter_with`].
unsafe fn make_extras(frame: &Frame, extras: Extras, shared: &mut ConstructData) {
    if !extras.reductions.is_null() {
        // SAFETY: caller's contract.
        unsafe { reduction::register_construct(frame, extras.reductions, std::ptr::null_mut()) };
        shared.reductions = extras.reductions;
    }
    if !extras.memory.is_null() {
        // SAFETY: caller's contract: the size stands where the address will.
        let size = unsafe { extras.memory.read() }.addr();
        shared.memory = vec![0; size.div_ceil(8)];
    }
}

/// Takes the first chunk unless the compiled code deals a static loop out itself (`start` null).
///
/// # Safety
/// - `start` is null, or both are places for 8 bytes.
pub(super) unsafe fn first_chunk(frame: &Frame, start: *mut u64, end: *mut u64) -> bool {
    // SAFETY: caller's contract.
    start.is_null() || unsafe { deliver(frame, start, end) }
}

macro_rules! start_general {
    ($long:ident, $ull:ident, $plan:expr) => {
        /// Enters a loop with extras.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $long(
            start: c_long,
            end: c_long,
            step: c_long,
            sched: c_long,
            chunk: c_long,
            istart: *mut c_long,
            iend: *mut c_long,
            reductions: *mut usize,
            memory: *mut *mut c_void,
        ) -> bool {
            let frame = frame::current();
            let plan = || {
                $plan(
                    Space::signed(start, end, step),
                    schedule(frame, sched, chunk.cast_unsigned()),
                )
            };
            // SAFETY: the compiled code's pointers.
            unsafe {
                enter_with(frame, plan, Extras { reductions, memory }, None);
                first_chunk(frame, istart.cast(), iend.cast())
            }
        }

        /// Enters a loop of unsigned numbers with extras.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $ull(
            up: bool,
            start: c_ulonglong,
            end: c_ulonglong,
            step: c_ulonglong,
            sched: c_long,
            chunk: c_ulonglong,
            istart: *mut c_ulonglong,
            iend: *mut c_ulonglong,
            reductions: *mut usize,
            memory: *mut *mut c_void,
        ) -> bool {
            let frame = frame::current();
            let plan =
                || $plan(Space::unsigned(up, start, end, step), schedule(frame, sched, chunk));
            // SAFETY: the compiled code's pointers.
            unsafe {
                enter_with(frame, plan, Extras { reductions, memory }, None);
                first_chunk(frame, istart, iend)
            }
        }
    };
}

start_general!(GOMP_loop_start, GOMP_loop_ull_start, Plan::new);
start_general!(GOMP_loop_ordered_start, GOMP_loop_ull_ordered_start, Plan::ordered);

/// Enters `sections` with extras.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_sections2_start(
    count: c_uint,
    reductions: *mut usize,
    memory: *mut *mut c_void,
) -> c_uint {
    let frame = frame::current();
    // SAFETY: the compiled code's pointers.
    unsafe { enter_with(frame, || Plan::sections(count), Extras { reductions, memory }, None) };
    next_section(frame)
}

/// `scope` with task reductions.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_scope_start(reductions: *mut usize) {
    let frame = frame::current();
    let extras = Extras { reductions, memory: std::ptr::null_mut() };
    // SAFETY: the compiled code's pointer.
    unsafe { enter_with(frame, || Plan::sections(0), extras, None) };
    worksharing::leave(frame);
}
