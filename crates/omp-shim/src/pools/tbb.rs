//! oneTBB that does not ask for permits ([`super::arenas`]): versions before 2021.10, as Debian
//! 12's, and later ones that find no `libtcm.so.1`. There `max_allowed_parallelism` follows, the
//! library's own control, which it obeys also while a loop runs.
//!
//! Controls of the program's own stay what they are: the library takes the smallest of all.
//!
//! # Lock
//! The library may make a thread while it holds the lock of its controls. So nothing is asked when
//! it is found, in such a call; after that the thread `nanos-pools` alone asks.

use super::arenas;
use super::find::Module;
use super::libraries::Pool;
use platform::affinity::affinity;
use platform::lock::Mutex;
use std::ffi::{c_int, c_void};
use std::mem;
use std::sync::PoisonError;

/// `max_allowed_parallelism` among the parameters.
const PARALLELISM: c_int = 0;

/// The library's `global_control`, which lives until it is destroyed.
#[repr(C)]
#[derive(Debug)]
struct GlobalControl {
    value: usize,
    reserved: isize,
    parameter: c_int,
}

type Change = unsafe extern "C" fn(*mut GlobalControl);
type Value = unsafe extern "C" fn(c_int) -> usize;

#[derive(Debug)]
struct Tbb {
    /// Keeps the library, of which the others are functions.
    _module: Module,
    create: Change,
    destroy: Change,
    value: Value,
    /// Ours.
    control: Mutex<Option<Box<GlobalControl>>>,
}

/// The library in `module`, if it is one that does not ask for permits.
pub(super) fn of(module: Module) -> Option<Box<dyn Pool>> {
    let create = module.symbol(&[c"_ZN3tbb6detail2r16createERNS0_2d114global_controlE"])?;
    let destroy = module.symbol(&[c"_ZN3tbb6detail2r17destroyERNS0_2d114global_controlE"])?;
    let value = module.symbol(&[c"_ZN3tbb6detail2r127global_control_active_valueEi"])?;
    // It connects before it makes its first thread.
    if arenas::callbacks().into_iter().any(|place| module.has(place)) {
        return None;
    }
    // SAFETY: - the library's functions of these names, whose types are those of its header.
    let (create, destroy, value) = unsafe {
        (
            mem::transmute::<*mut c_void, Change>(create),
            mem::transmute::<*mut c_void, Change>(destroy),
            mem::transmute::<*mut c_void, Value>(value),
        )
    };
    Some(Box::new(Tbb { _module: module, create, destroy, value, control: Mutex::new(None) }))
}

impl Pool for Tbb {
    fn threads(&self) -> usize {
        // SAFETY: - the library stays.
        unsafe { (self.value)(PARALLELISM) }
    }

    /// What it takes where the program says nothing.
    fn threads_at_first(&self) -> usize {
        affinity(None).map_or(1, |mask| mask.len())
    }

    fn set_threads(&self, threads: usize) {
        let mut control =
            Box::new(GlobalControl { value: threads, reserved: 0, parameter: PARALLELISM });
        let mut ours = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: - the library stays; a control that stays where it is until it is destroyed.
        unsafe { (self.create)(&raw mut *control) };
        if let Some(mut before) = ours.replace(control) {
            // SAFETY: - created before, once.
            unsafe { (self.destroy)(&raw mut *before) };
        }
    }
}
