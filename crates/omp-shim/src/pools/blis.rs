//! BLIS with threads of its own, which it makes for each call and joins at its end: none spins
//! between calls, and only the number has to follow.
//!
//! A program that set the ways of single loops (`BLIS_JC_NT` and its like) has no number, and keeps
//! them. BLIS has one thread unless the program says otherwise.

use super::find::Module;
use super::libraries::Pool;
use std::ffi::{c_long, c_void};
use std::mem;

/// `dim_t` is as wide as a pointer in the builds that distributions ship.
type Get = unsafe extern "C" fn() -> c_long;
type Set = unsafe extern "C" fn(c_long);

#[derive(Debug)]
struct Blis {
    /// Keeps the library, of which the others are functions.
    _module: Module,
    get: Get,
    set: Set,
}

/// The library in `module`, if it has a number of threads.
pub(super) fn of(module: Module) -> Option<Box<dyn Pool>> {
    let get = module.symbol(&[c"bli_thread_get_num_threads"])?;
    let set = module.symbol(&[c"bli_thread_set_num_threads"])?;
    // SAFETY: - the library's functions of these names, whose types are those of its header.
    let (get, set) = unsafe {
        (mem::transmute::<*mut c_void, Get>(get), mem::transmute::<*mut c_void, Set>(set))
    };
    Some(Box::new(Blis { _module: module, get, set }))
}

impl Pool for Blis {
    fn threads(&self) -> usize {
        // SAFETY: - the library stays.
        usize::try_from(unsafe { (self.get)() }).unwrap_or(0)
    }

    fn set_threads(&self, threads: usize) {
        // SAFETY: - as above; the library locks what this writes.
        unsafe { (self.set)(c_long::try_from(threads).unwrap_or(c_long::MAX)) };
    }

    fn hand_over(&self, _slot: usize) -> bool {
        false
    }
}
