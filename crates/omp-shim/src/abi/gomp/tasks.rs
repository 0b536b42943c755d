//! Tasks.

use crate::body::Body;
use crate::frame;
use crate::process::message;
use crate::schedule::Space;
use crate::sync;
use crate::task::{Access, Dependence, TaskRequest};
use crate::tasking::taskloop::{self, Clauses, Grain};
use crate::tasking::{self, reduction};
use std::alloc::Layout;
use std::ffi::{c_int, c_long, c_uint, c_ulong, c_ulonglong, c_void};
use std::ptr::NonNull;

type Copy = Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>;

const FINAL: c_uint = 2;
const DEPEND: c_uint = 8;
const PRIORITY: c_uint = 0x10;
const UP: c_uint = 0x100;
const GRAINSIZE: c_uint = 0x200;
const IF: c_uint = 0x400;
const NOGROUP: c_uint = 0x800;
const REDUCTION: c_uint = 0x1000;
const DETACH: c_uint = 0x2000;
const STRICT: c_uint = 0x4000;

/// The argument block's layout.
fn block(size: c_long, align: c_long) -> Layout {
    let (size, align) = (size.max(0) as usize, align.max(1) as usize);
    Layout::from_size_align(size, align).unwrap_or_else(|_| {
        message::fatal(&format!(
            "a task's argument block of {size} bytes aligned to {align} cannot be made"
        ))
    })
}

/// The items of the `depend` clauses.
///
/// # Safety
/// - `list` is an array in one of the two forms that gcc emits.
pub(super) unsafe fn dependences(list: *mut *mut c_void) -> Vec<Dependence> {
    // SAFETY: caller's contract, for all reads.
    let word = |index: usize| unsafe { *list.add(index) };
    let item = |index: usize, writes: bool| Dependence {
        address: word(index).addr(),
        access: if writes { Access::Write } else { Access::Read },
    };
    let count = word(0).addr();
    if count > 0 {
        let writes = word(1).addr();
        return (0..count).map(|index| item(2 + index, index < writes)).collect();
    }
    let (count, writes) = (word(1).addr(), word(2).addr() + word(3).addr());
    let plain = writes + word(4).addr();
    (0..count)
        .map(|index| {
            if index < plain {
                item(5 + index, index < writes)
            } else {
                // SAFETY: - items after the plain ones are addresses of dependence objects.
                unsafe { object(word(5 + index)) }
            }
        })
        .collect()
}

/// A dependence object (`omp_depend_t`): an address and a kind.
///
/// # Safety
/// - `object` points to an initialised one.
unsafe fn object(object: *mut c_void) -> Dependence {
    // SAFETY: caller's contract: two words.
    let [address, kind] = unsafe { object.cast::<[usize; 2]>().read() };
    let access = match kind {
        1 => Access::Read,
        // out, inout, mutexinoutset
        2..=4 => Access::Write,
        // gcc 13 and later
        5 => Access::Set,
        _ => message::fatal(&format!(
            "a dependence object has the unknown kind {kind}: it is not initialised"
        )),
    };
    Dependence { address, access }
}

/// `task`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_task(
    body: Body,
    data: *mut c_void,
    copy: Copy,
    size: c_long,
    align: c_long,
    deferrable: bool,
    flags: c_uint,
    depend: *mut *mut c_void,
    priority: c_int,
    detach: *mut c_void,
) {
    // SAFETY: the flag says that the list is there.
    let dependences = if flags & DEPEND != 0 { unsafe { dependences(depend) } } else { Vec::new() };
    let event = if flags & DETACH != 0 { NonNull::new(detach.cast()) } else { None };
    let is_final = flags & FINAL != 0;
    let (block, dependences, bounds) = (block(size, align), &*dependences, None);
    let priority = if flags & PRIORITY != 0 { priority } else { 0 };
    let request = TaskRequest {
        body,
        data,
        copy,
        block,
        deferrable,
        is_final,
        priority,
        dependences,
        event,
        bounds,
    };
    tasking::create(frame::current(), &request);
}

/// The clauses of a taskloop.
fn clauses(flags: c_uint, tasks: c_ulong) -> Clauses {
    let grain = match (flags & GRAINSIZE != 0, flags & STRICT != 0) {
        (true, true) => Grain::Strictly(tasks),
        (true, false) => Grain::Iterations(tasks),
        (false, _) if tasks > 0 => Grain::Tasks(tasks),
        (false, _) => Grain::Default,
    };
    Clauses { grain, ungrouped: flags & NOGROUP != 0, reduces: flags & REDUCTION != 0 }
}

/// The tasks of a taskloop.
fn loop_task(
    body: Body,
    data: *mut c_void,
    copy: Copy,
    block: Layout,
    flags: c_uint,
    priority: c_int,
) -> TaskRequest<'static> {
    let (deferrable, is_final) = (flags & IF != 0, flags & FINAL != 0);
    let priority = if flags & PRIORITY != 0 { priority } else { 0 };
    TaskRequest {
        body,
        data,
        copy,
        block,
        deferrable,
        is_final,
        priority,
        dependences: &[],
        event: None,
        bounds: None,
    }
}

/// `taskloop`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskloop(
    body: Body,
    data: *mut c_void,
    copy: Copy,
    size: c_long,
    align: c_long,
    flags: c_uint,
    tasks: c_ulong,
    priority: c_int,
    start: c_long,
    end: c_long,
    step: c_long,
) {
    let request = loop_task(body, data, copy, block(size, align), flags, priority);
    // SAFETY: the compiled code's argument block begins with the bounds.
    unsafe {
        taskloop::run(
            frame::current(),
            &request,
            &Space::signed(start, end, step),
            clauses(flags, tasks),
        )
    };
}

/// `taskloop` over unsigned numbers.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskloop_ull(
    body: Body,
    data: *mut c_void,
    copy: Copy,
    size: c_long,
    align: c_long,
    flags: c_uint,
    tasks: c_ulong,
    priority: c_int,
    start: c_ulonglong,
    end: c_ulonglong,
    step: c_ulonglong,
) {
    let request = loop_task(body, data, copy, block(size, align), flags, priority);
    let space = Space::unsigned(flags & UP != 0, start, end, step);
    // SAFETY: the compiled code's argument block begins with the bounds.
    unsafe { taskloop::run(frame::current(), &request, &space, clauses(flags, tasks)) };
}

/// `taskwait`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_taskwait() {
    tasking::wait_for_children(frame::current());
}

/// `taskwait depend(...)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskwait_depend(depend: *mut *mut c_void) {
    // SAFETY: the compiled code's list.
    tasking::wait_for_predecessors(frame::current(), &unsafe { dependences(depend) });
}

/// `taskyield`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_taskyield() {
    tasking::yield_now(frame::current());
}

/// Begins `taskgroup`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_taskgroup_start() {
    tasking::open_group(frame::current());
}

/// Ends `taskgroup`.
#[unsafe(no_mangle)]
extern "C" fn GOMP_taskgroup_end() {
    tasking::close_group(frame::current());
}

/// `task_reduction` of the current group.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskgroup_reduction_register(data: *mut usize) {
    // SAFETY: the compiled code's reduction data.
    unsafe { reduction::register(frame::current(), data) };
}

/// Frees what `GOMP_taskgroup_reduction_register` made.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_taskgroup_reduction_unregister(data: *mut usize) {
    // SAFETY: the compiled code's reduction data, whose group has ended.
    unsafe { reduction::unregister(data) };
}

/// `in_reduction`: the calling thread's copies.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_task_reduction_remap(
    count: usize,
    originals: usize,
    addresses: *mut *mut c_void,
) {
    // SAFETY: the compiled code's array.
    unsafe { reduction::remap(frame::current(), count, originals, addresses.cast()) };
}

/// The end of a construct with `reduction(task, ...)`.
#[unsafe(no_mangle)]
unsafe extern "C" fn GOMP_workshare_task_reduction_unregister(cancelled: bool) {
    let frame = frame::current();
    let data = frame.task().group().map_or(std::ptr::null_mut(), |group| group.reductions.get());
    tasking::close_group(frame);
    if frame.id == 0 {
        // SAFETY: all members' tasks of the construct are complete: compiled code passed a barrier
        // before.
        unsafe { reduction::unregister(data) };
    }
    if !cancelled {
        sync::barrier(frame);
    }
}
