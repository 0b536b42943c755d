//! The C interface of oneTBB's Thread Composability Manager, by which its arenas ask how many
//! workers they may have. Found by oneTBB as `libtcm.so.1`, a file that has nothing but the name of
//! this library (`xtask/src/shim.rs`). Not OpenMP's: it stands in a version node of ours.

use crate::pools::arenas::{self, PermitCallback};
use crate::pools::permits::{State, Wish, WorkerRange};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::slice;

const SUCCESS: i32 = 0;
const INVALID_ARGUMENT: i32 = 0x7800_0004;
const UNKNOWN: i32 = 0x7fff_fffe;

/// Flags of requests and permits.
const RIGID: u32 = 1 << 1;
const AS_INACTIVE: u32 = 1 << 3;
/// More parts than any machine has.
const MOST_PARTS: u32 = 1 << 16;

/// Workers of one kind.
#[repr(C)]
#[derive(Clone, Copy)]
struct Constraints {
    least: i32,
    most: i32,
    mask: *mut c_void,
    node: i32,
    core_type: i32,
    threads_per_core: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct TcmRequest {
    least: i32,
    most: i32,
    constraints: *const Constraints,
    count: u32,
    priority: i32,
    flags: u32,
    reserved: [c_char; 4],
}

/// What a client reads: one number for each of its constraints, else one.
#[repr(C)]
struct TcmPermit {
    workers: *mut u32,
    masks: *mut *mut c_void,
    count: u32,
    state: u8,
    flags: u32,
}

/// A number, or one of those below 0 that say "as many as there are".
fn least(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

fn most(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl TcmRequest {
    /// `None`: it makes no sense.
    ///
    /// # Safety
    /// - The constraints are as many as it says.
    unsafe fn wish(&self) -> Option<Wish> {
        let workers = WorkerRange { least: least(self.least), most: most(self.most) };
        let constraints = match self.count {
            0 => &[][..],
            1..=MOST_PARTS if self.constraints.is_aligned() && !self.constraints.is_null() => {
                // SAFETY: - caller's contract.
                unsafe { slice::from_raw_parts(self.constraints, self.count as usize) }
            }
            _ => return None,
        };
        let part = |it: &Constraints| WorkerRange { least: least(it.least), most: most(it.most) };
        let parts: Vec<WorkerRange> = constraints.iter().map(part).collect();
        let is_sound = parts.iter().chain([&workers]).all(|range| range.least <= range.most);
        let (priority, is_rigid) = (self.priority, self.flags & RIGID != 0);
        is_sound.then_some(Wish { workers, parts, priority, is_rigid })
    }
}

/// A client comes. Its callback may be called by any thread from its first permit on.
///
/// # Safety
/// - `id` is a place for a number, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn tcmConnect(callback: Option<PermitCallback>, id: *mut u64) -> i32 {
    let Some(callback) = callback.filter(|_| !id.is_null()) else { return INVALID_ARGUMENT };
    let Some(client) = arenas::connect(callback) else { return UNKNOWN };
    // SAFETY: - caller's contract.
    unsafe { id.write(client) };
    SUCCESS
}

/// It goes, with all its permits.
#[unsafe(no_mangle)]
extern "C" fn tcmDisconnect(id: u64) -> i32 {
    result(arenas::disconnect(id))
}

/// Asks for a permit, or, for the handle that is there, for another one in its place.
///
/// # Safety
/// - `handle` is a place for a handle; `permit` is one for a permit, or null; see
///   [`TcmRequest::wish`].
#[unsafe(no_mangle)]
unsafe extern "C" fn tcmRequestPermit(
    id: u64,
    request: TcmRequest,
    argument: *mut c_void,
    handle: *mut *mut c_void,
    permit: *mut TcmPermit,
) -> i32 {
    if handle.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: - caller's contract.
    let (before, wish) = unsafe { (handle.read(), request.wish()) };
    let Some(wish) = wish else { return INVALID_ARGUMENT };
    let state = if request.flags & AS_INACTIVE != 0 { State::Inactive } else { State::Active };
    let got = arenas::request(id, before.addr(), argument.expose_provenance(), wish, state);
    let Some(got) = got else { return INVALID_ARGUMENT };
    // SAFETY: - caller's contract.
    unsafe {
        handle.write(ptr::without_provenance_mut(got));
        if permit.is_null() { SUCCESS } else { fill(got, &mut *permit) }
    }
}

/// What the permit has now.
///
/// # Safety
/// - `permit` is a permit with places for the numbers that it says, or null.
#[unsafe(no_mangle)]
unsafe extern "C" fn tcmGetPermitData(handle: *mut c_void, permit: *mut TcmPermit) -> i32 {
    if permit.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: - caller's contract.
    unsafe { fill(handle.addr(), &mut *permit) }
}

/// # Safety
/// - As for [`tcmGetPermitData`].
unsafe fn fill(id: usize, permit: &mut TcmPermit) -> i32 {
    let Some((parts, state)) = arenas::read(id) else { return INVALID_ARGUMENT };
    if !permit.workers.is_null() {
        for place in 0..permit.count as usize {
            let number = parts.get(place).copied().unwrap_or(0);
            // SAFETY: - caller's contract.
            unsafe { permit.workers.add(place).write(number) };
        }
    }
    (permit.state, permit.flags) = (state as u8, 0);
    SUCCESS
}

/// Gives it back. The callback is not called for it any more.
#[unsafe(no_mangle)]
extern "C" fn tcmReleasePermit(handle: *mut c_void) -> i32 {
    result(arenas::release(handle.addr()))
}

/// Its workers have nothing to do for a while: they may be given to others.
#[unsafe(no_mangle)]
extern "C" fn tcmIdlePermit(handle: *mut c_void) -> i32 {
    result(arenas::set_state(handle.addr(), State::Idle))
}

/// It has no workers until it is active again.
#[unsafe(no_mangle)]
extern "C" fn tcmDeactivatePermit(handle: *mut c_void) -> i32 {
    result(arenas::set_state(handle.addr(), State::Inactive))
}

/// As it was asked for last.
#[unsafe(no_mangle)]
extern "C" fn tcmActivatePermit(handle: *mut c_void) -> i32 {
    result(arenas::set_state(handle.addr(), State::Active))
}

/// The calling thread works for this permit. Shares do not depend on it.
#[unsafe(no_mangle)]
extern "C" fn tcmRegisterThread(handle: *mut c_void) -> i32 {
    result(arenas::is_there(handle.addr()))
}

/// The calling thread works for the permit of its last registration no more.
#[unsafe(no_mangle)]
extern "C" fn tcmUnregisterThread() -> i32 {
    SUCCESS
}

/// A line that says what this is, which ends with a 0.
///
/// # Safety
/// - `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn tcmGetVersionInfo(buffer: *mut c_char, size: u32) -> i32 {
    const TEXT: &str = concat!("TCM: NANOS ", env!("CARGO_PKG_VERSION"), "\n");
    let Some(length) = (size as usize).checked_sub(1).filter(|_| !buffer.is_null()) else {
        return INVALID_ARGUMENT;
    };
    let length = TEXT.len().min(length);
    // SAFETY: - caller's contract; a byte more than the text that is copied.
    unsafe {
        ptr::copy_nonoverlapping(TEXT.as_ptr().cast(), buffer, length);
        buffer.add(length).write(0);
    }
    SUCCESS
}

fn result(is_right: bool) -> i32 {
    if is_right { SUCCESS } else { INVALID_ARGUMENT }
}
