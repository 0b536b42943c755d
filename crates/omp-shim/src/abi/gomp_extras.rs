//! Worksharing constructs that bring more than a loop: task reductions, shared memory, cross-iteration dependences.

use super::gomp_loop::{deliver, next_section};
use crate::doacross::{self, Doacross};
use crate::frame::{self, Frame};
use crate::schedule::{Kind, Schedule, Space};
use crate::task::{self, reduction};
use crate::worksharing::{self, Plan, Shared};
use std::ffi::{c_long, c_uint, c_ulonglong, c_void};
use std::slice;

/// The schedule argument of the general entries: 0 = the control variable's; the top bit is a modifier.
fn schedule(frame: &Frame, number: c_long, chunk: u64) -> Schedule {
    match Kind::from_number((number & 0x7fff_ffff) as u32) {
        Some(kind) => Schedule::new(kind, chunk),
        None => frame.icvs().schedule,
    }
}

/// What a construct may bring besides its loop: task reductions, and shared memory (in: its size, out: its address).
#[derive(Clone, Copy)]
struct Extras {
    reductions: *mut usize,
    memory: *mut *mut c_void,
}

/// Enters a construct with extras; `nest` are counts and schedule of a nest with cross-iteration dependences.
///
/// # Safety
/// - The pointers are null or the compiled code's.
unsafe fn enter_with(frame: &Frame, plan: impl FnOnce() -> Plan, extras: Extras, nest: Option<(&[u64], Schedule)>) {
    if !extras.reductions.is_null() {
        task::open_group(frame);
    }
    let mut first = false;
    worksharing::enter(frame, plan, |shared: &mut Shared| {
        first = true;
        shared.doacross = nest.map(|(counts, schedule)| Doacross::new(counts, schedule, frame.size));
        // SAFETY: caller's contract.
        unsafe { make_extras(frame, extras, shared) };
    });
    let Some(construct) = worksharing::current(frame) else { return };
    if !extras.reductions.is_null() && !first {
        // SAFETY: caller's contract; the first member's data stays until all have left.
        unsafe { reduction::register_construct(frame, extras.reductions, construct.shared().reductions) };
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
unsafe fn make_extras(frame: &Frame, extras: Extras, shared: &mut Shared) {
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
unsafe fn first_chunk(frame: &Frame, start: *mut u64, end: *mut u64) -> bool {
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
            let plan = || $plan(Space::signed(start, end, step), schedule(frame, sched, chunk.cast_unsigned()));
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
            let plan = || $plan(Space::unsigned(up, start, end, step), schedule(frame, sched, chunk));
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

/// Enters a loop nest with cross-iteration dependences.
///
/// # Safety
/// - `counts` points to `depth` trip counts; the other pointers are null or the compiled code's.
unsafe fn begin_doacross(
    (depth, counts): (c_uint, *const u64),
    schedule: impl FnOnce(&Frame) -> Schedule,
    extras: Extras,
    start: *mut u64,
    end: *mut u64,
) -> bool {
    let frame = frame::current();
    // SAFETY: caller's contract.
    let counts = unsafe { slice::from_raw_parts(counts, depth as usize) };
    let outer = counts.first().copied().unwrap_or(0);
    let schedule = schedule(frame);
    let plan = || Plan::new(Space::unsigned(true, 0, outer, 1), schedule);
    // SAFETY: caller's contract.
    unsafe {
        enter_with(frame, plan, extras, Some((counts, schedule)));
        first_chunk(frame, start, end)
    }
}

const NO_EXTRAS: Extras = Extras { reductions: std::ptr::null_mut(), memory: std::ptr::null_mut() };

macro_rules! start_doacross {
    ($name:ident, $kind:expr) => {
        /// Enters a loop nest with cross-iteration dependences and this schedule.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            depth: c_uint,
            counts: *mut u64,
            chunk: u64,
            istart: *mut u64,
            iend: *mut u64,
        ) -> bool {
            // SAFETY: the compiled code's pointers.
            unsafe { begin_doacross((depth, counts), |_| Schedule::new($kind, chunk), NO_EXTRAS, istart, iend) }
        }
    };
}

start_doacross!(GOMP_loop_doacross_static_start, Kind::Static);
start_doacross!(GOMP_loop_doacross_dynamic_start, Kind::Dynamic);
start_doacross!(GOMP_loop_doacross_guided_start, Kind::Guided);
start_doacross!(GOMP_loop_ull_doacross_static_start, Kind::Static);
start_doacross!(GOMP_loop_ull_doacross_dynamic_start, Kind::Dynamic);
start_doacross!(GOMP_loop_ull_doacross_guided_start, Kind::Guided);

macro_rules! start_doacross_other {
    ($runtime:ident, $general:ident) => {
        /// Enters a loop nest with cross-iteration dependences and the schedule of the control variable.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $runtime(depth: c_uint, counts: *mut u64, istart: *mut u64, iend: *mut u64) -> bool {
            // SAFETY: the compiled code's pointers.
            unsafe { begin_doacross((depth, counts), |frame| frame.icvs().schedule, NO_EXTRAS, istart, iend) }
        }

        /// Enters a loop nest with cross-iteration dependences and extras.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $general(
            depth: c_uint,
            counts: *mut u64,
            sched: c_long,
            chunk: u64,
            istart: *mut u64,
            iend: *mut u64,
            reductions: *mut usize,
            memory: *mut *mut c_void,
        ) -> bool {
            let extras = Extras { reductions, memory };
            // SAFETY: the compiled code's pointers.
            unsafe { begin_doacross((depth, counts), |frame| schedule(frame, sched, chunk), extras, istart, iend) }
        }
    };
}

start_doacross_other!(GOMP_loop_doacross_runtime_start, GOMP_loop_doacross_start);
start_doacross_other!(GOMP_loop_ull_doacross_runtime_start, GOMP_loop_ull_doacross_start);

/// `ordered depend(source)`: the iteration whose numbers `vector` holds is done.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_doacross_post(vector: *mut u64) {
    frame::with_current(vector, |frame, vector| {
        // SAFETY: the compiled code passes one number for each loop of the nest.
        doacross::post(frame, |k| unsafe { vector.add(k).read() });
    });
}

/// The same for unsigned loops.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_doacross_ull_post(vector: *mut u64) {
    // SAFETY: the same contract.
    unsafe { GOMP_doacross_post(vector) };
}

/// `ordered depend(sink: ...)` with the numbers spilled from six registers and the stack.
///
/// # Safety
/// - `registers` points to six words, `stack` to the words that did not fit there.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn doacross_wait(registers: *const u64, stack: *const u64) {
    frame::with_current((registers, stack), |frame, (registers, stack)| {
        // SAFETY: the compiled code passes one number for each loop of the nest.
        doacross::wait(frame, |k| unsafe { if k < 6 { *registers.add(k) } else { *stack.add(k - 6) } });
    });
}

#[cfg(target_arch = "x86_64")]
macro_rules! doacross_wait {
    ($name:ident) => {
        /// `ordered depend(sink: ...)`: variadic, one number for each loop of the nest.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "sub rsp, 56",
                ".cfi_adjust_cfa_offset 56",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov rdi, rsp",
                "lea rsi, [rsp + 64]",
                "call {wait}",
                "add rsp, 56",
                ".cfi_adjust_cfa_offset -56",
                "ret",
                ".cfi_endproc",
                wait = sym doacross_wait,
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
doacross_wait!(GOMP_doacross_wait);
#[cfg(target_arch = "x86_64")]
doacross_wait!(GOMP_doacross_ull_wait);

/// Enters `sections` with extras.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_sections2_start(count: c_uint, reductions: *mut usize, memory: *mut *mut c_void) -> c_uint {
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
