//! What a copy of this library offers to younger ones: its engine, by functions of C.

use engine::{self, Member};
use std::ffi::c_void;
use std::ptr;

/// What the tables' layout is; to be raised with every change to it or to what its functions mean.
pub(super) const VERSION: u32 = 5;

/// What a copy offers to younger ones.
#[repr(C)]
pub(super) struct EngineTable {
    version: u32,
    pub(super) is_managed: extern "C" fn() -> bool,
    pub(super) is_in_team: extern "C" fn() -> bool,
    pub(super) processors: extern "C" fn() -> usize,
    pub(super) largest_team: extern "C" fn() -> usize,
    pub(super) grant_for: extern "C" fn(usize) -> usize,
    pub(super) adjust_threads: extern "C" fn(usize) -> usize,
    pub(super) spin_limit: extern "C" fn() -> u64,
    /// Size, whether it must have that size, where its real size goes; returns the team.
    pub(super) reserve: unsafe extern "C" fn(usize, bool, *mut usize) -> *mut c_void,
    /// A team from `reserve`, once; what each member calls, and with what.
    pub(super) run: unsafe extern "C" fn(
        *mut c_void,
        unsafe extern "C" fn(*const c_void, u32, u32),
        *const c_void,
    ),
    pub(super) needs_unbound: extern "C" fn() -> bool,
    pub(super) before_exec: extern "C" fn(),
    /// What is called, and with what.
    pub(super) unbound: unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void),
}

pub(super) static TABLE: EngineTable = EngineTable {
    version: VERSION,
    is_managed: table_is_managed,
    is_in_team: table_is_in_team,
    processors: table_processors,
    largest_team: table_largest_team,
    grant_for: table_grant_for,
    adjust_threads: table_adjust_threads,
    spin_limit: table_spin_limit,
    reserve: table_reserve,
    run: table_run,
    needs_unbound: table_needs_unbound,
    before_exec: table_before_exec,
    unbound: table_unbound,
};

extern "C" fn table_is_managed() -> bool {
    engine::is_managed()
}

extern "C" fn table_is_in_team() -> bool {
    Member::current().size > 1
}

extern "C" fn table_processors() -> usize {
    engine::processors()
}

extern "C" fn table_largest_team() -> usize {
    engine::largest_team()
}

extern "C" fn table_grant_for(wanted: usize) -> usize {
    engine::grant_for(wanted)
}

extern "C" fn table_adjust_threads(most: usize) -> usize {
    // What is wrong with the variables was said when this copy was loaded.
    let read = |name: &str| std::env::var(name).ok();
    asat::adjust_threads(most, || asat::Settings::from_environment(&read).0)
}

extern "C" fn table_spin_limit() -> u64 {
    engine::spin_limit()
}

/// # Safety
/// - `size_got` is a place for a number.
unsafe extern "C" fn table_reserve(size: usize, exact: bool, size_got: *mut usize) -> *mut c_void {
    let team =
        if exact { engine::Team::reserve(size) } else { engine::Team::reserve_available(size) };
    // SAFETY: - caller's contract.
    unsafe { size_got.write(team.size()) };
    Box::into_raw(Box::new(team)).cast()
}

/// A younger copy's work.
struct Foreign {
    work: unsafe extern "C" fn(*const c_void, u32, u32),
    data: *const c_void,
}

/// # Safety
/// - `team` comes from [`table_reserve`], on the same thread, once.
/// - `work` takes `data`, may run on many threads at once, and does not unwind.
unsafe extern "C" fn table_run(
    team: *mut c_void,
    work: unsafe extern "C" fn(*const c_void, u32, u32),
    data: *const c_void,
) {
    // SAFETY: - caller's contract.
    let team = unsafe { Box::from_raw(team.cast::<engine::Team>()) };
    let foreign = Foreign { work, data };
    // SAFETY: - `run_foreign` takes a `Foreign`, which lives until the region is joined; the
    // caller's contract for the work.
    unsafe { team.run(run_foreign, ptr::from_ref(&foreign).cast()) };
}

/// # Safety
/// - `data` points to a [`Foreign`].
unsafe fn run_foreign(data: *const (), member: Member) {
    // SAFETY: - caller's contract.
    let foreign = unsafe { &*data.cast::<Foreign>() };
    // SAFETY: - as told to `table_run`.
    unsafe { (foreign.work)(foreign.data, member.id, member.size) };
}

extern "C" fn table_needs_unbound() -> bool {
    engine::needs_unbound()
}

extern "C" fn table_before_exec() {
    engine::before_exec();
}

/// # Safety
/// - `call` takes `data`, and does not unwind.
unsafe extern "C" fn table_unbound(call: unsafe extern "C" fn(*mut c_void), data: *mut c_void) {
    // SAFETY: - caller's contract.
    engine::unbound(|| unsafe { call(data) });
}
