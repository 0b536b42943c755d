//! oneMKL, whose threads are those of its threading layer: of Intel's OpenMP, unless the program
//! says otherwise. The number follows. With `MKL_THREADING_LAYER=GNU` its calls are regions of this
//! library, and follow by that; the number is then followed as well, and is the same.

use super::find::Module;
use super::libraries::Pool;
use std::ffi::{c_int, c_void};
use std::mem;

type Get = unsafe extern "C" fn() -> c_int;
type Set = unsafe extern "C" fn(c_int);

#[derive(Debug)]
struct Mkl {
    /// Keeps the library, of which the others are functions.
    _module: Module,
    get: Get,
    set: Set,
}

/// The library in `module`, if it has a number of threads.
pub(super) fn of(module: Module) -> Option<Box<dyn Pool>> {
    // The names in capitals are C's, and take their number by value.
    let get = module.symbol(&[c"MKL_Get_Max_Threads"])?;
    let set = module.symbol(&[c"MKL_Set_Num_Threads"])?;
    // SAFETY: - the library's functions of these names, whose types are those of its header.
    let (get, set) = unsafe {
        (mem::transmute::<*mut c_void, Get>(get), mem::transmute::<*mut c_void, Set>(set))
    };
    Some(Box::new(Mkl { _module: module, get, set }))
}

impl Pool for Mkl {
    fn threads(&self) -> usize {
        // SAFETY: - the library stays.
        usize::try_from(unsafe { (self.get)() }).unwrap_or(0)
    }

    fn makes_own_threads(&self) -> bool {
        false
    }

    fn set_threads(&self, threads: usize) {
        // SAFETY: - as above.
        unsafe { (self.set)(c_int::try_from(threads).unwrap_or(c_int::MAX)) };
    }
}
