//! OpenBLAS with threads of its own, under each name that it is built with.
//!
//! numpy's wheels have the prefix `scipy_` and the suffix `64_`, scipy's the prefix alone, Linux
//! distributions neither; each wheel brings its own copy. Copies on OpenMP are OpenMP programs, and
//! follow by that.
//!
//! The callback is a word of the library's that each call with several jobs reads once. It is set
//! while the library makes its first thread, when it is loaded: no call that would use it is under
//! way. It is never taken back. A library that was loaded with one thread, and is told to have more
//! while it is used, gets none: it is found at some moment after that, when calls may run on its
//! own threads. There only the number follows, as in versions before 0.3.26, which have no
//! callback.

use super::call::{self, Job, Jobs};
use super::find::Module;
use super::libraries::{Pool, SLOTS};
use std::ffi::{CStr, c_int, c_void};
use std::mem;

type Get = unsafe extern "C" fn() -> c_int;
type Set = unsafe extern "C" fn(c_int);
/// Whether the call waits for the end of the jobs, what runs a job, how many, bytes of one's data,
/// the data, a number of the library's.
type Callback = unsafe extern "C" fn(c_int, Job, c_int, usize, *mut c_void, c_int);
type SetCallback = unsafe extern "C" fn(Callback);

/// What `get_parallel` says of threads of its own.
const PTHREADS: c_int = 1;

#[derive(Debug)]
struct OpenBlas {
    /// Keeps the library, of which the others are functions.
    _module: Module,
    get: Get,
    set: Set,
    set_callback: Option<SetCallback>,
}

/// The names of one function: plain, and those of the wheels.
const GET: [&CStr; 4] = [
    c"openblas_get_num_threads",
    c"scipy_openblas_get_num_threads64_",
    c"scipy_openblas_get_num_threads",
    c"openblas_get_num_threads64_",
];
const SET: [&CStr; 4] = [
    c"openblas_set_num_threads",
    c"scipy_openblas_set_num_threads64_",
    c"scipy_openblas_set_num_threads",
    c"openblas_set_num_threads64_",
];
const PARALLEL: [&CStr; 4] = [
    c"openblas_get_parallel",
    c"scipy_openblas_get_parallel64_",
    c"scipy_openblas_get_parallel",
    c"openblas_get_parallel64_",
];
const SET_CALLBACK: [&CStr; 4] = [
    c"openblas_set_threads_callback_function",
    c"scipy_openblas_set_threads_callback_function64_",
    c"scipy_openblas_set_threads_callback_function",
    c"openblas_set_threads_callback_function64_",
];

/// The library in `module`, if it is one with threads of its own.
pub(super) fn of(module: Module) -> Option<Box<dyn Pool>> {
    let (get, set) = (module.symbol(&GET)?, module.symbol(&SET)?);
    let parallel = module.symbol(&PARALLEL)?;
    // SAFETY: - the library's functions of these names, whose types are those of its header.
    let (get, set, parallel) = unsafe {
        (
            mem::transmute::<*mut c_void, Get>(get),
            mem::transmute::<*mut c_void, Set>(set),
            mem::transmute::<*mut c_void, Get>(parallel),
        )
    };
    // SAFETY: - as above; it returns a constant.
    if unsafe { parallel() } != PTHREADS {
        return None;
    }
    let set_callback = module.symbol(&SET_CALLBACK).map(|place| {
        // SAFETY: - as above.
        unsafe { mem::transmute::<*mut c_void, SetCallback>(place) }
    });
    Some(Box::new(OpenBlas { _module: module, get, set, set_callback }))
}

impl Pool for OpenBlas {
    fn threads(&self) -> usize {
        // SAFETY: - the library stays; the call reads a word.
        usize::try_from(unsafe { (self.get)() }).unwrap_or(0)
    }

    fn set_threads(&self, threads: usize) {
        // SAFETY: - the library stays; for a number that it has had, the call makes no threads and
        // writes a word, which calls read once.
        unsafe { (self.set)(c_int::try_from(threads).unwrap_or(c_int::MAX)) };
    }

    fn can_hand_over(&self) -> bool {
        self.set_callback.is_some()
    }

    fn hand_over(&self, slot: usize) {
        let (Some(set_callback), Some(callback)) = (self.set_callback, CALLBACKS.get(slot)) else {
            return;
        };
        // SAFETY: - the library makes its first thread, and has no call of several under way
        // (caller's contract); the callback is of the type that it calls, and stays.
        unsafe { set_callback(*callback) };
    }
}

/// What the library in each slot calls: it does not say which library it is.
const CALLBACKS: [Callback; SLOTS] = [
    callback::<0>,
    callback::<1>,
    callback::<2>,
    callback::<3>,
    callback::<4>,
    callback::<5>,
    callback::<6>,
    callback::<7>,
];

/// # Safety
/// - As the library says: `run` is to be called once for the data of each job below `count`, with a
///   number that no other job has meanwhile.
unsafe extern "C" fn callback<const SLOT: usize>(
    _sync: c_int,
    run: Job,
    count: c_int,
    stride: usize,
    data: *mut c_void,
    word: c_int,
) {
    let Ok(count @ 1..) = usize::try_from(count) else { return };
    // SAFETY: - caller's contract.
    unsafe { call::run(SLOT, Jobs { run, count, data, stride, word, first: 0 }) };
}
