//! Every system call of the NANOS environment, as safe types.
//!
//! # Modules, from the bottom up
//! 1. `errno`, `kernel`, `skip`: the thread's error number, the kernel's version, tests that did
//!    not run.
//! 2. `aside`, `message`, `lock`: calls and locks that show neither in `errno` nor as a point of
//!    cancellation, and lines on stderr.
//! 3. `sync`, `model`: atomics that a model can watch, and how models are explored.
//! 4. `error`, `fault`: errors of system calls, and calls that fail when a test wants it.
//! 5. `futex`, `affinity`, `descriptor`, `file`, `mapping`, `signals`, `standing`: words to sleep
//!    on, sets of processors, descriptors, small files, address space, signals, niceness.
//! 6. `cgroup`, `clock`, `event`, `mask`, `numa`, `page_fault`, `process`: one thing of the kernel
//!    each.
//! 7. `pthread`, `scheduling`, `shm`, `stack`, `topology`, `userfault`: more of them.
//! 8. `fdpass`, `guard`, `load`, `membarrier`, `sampling`: what is made of several of those.

// What cannot be written must not panic: `message`.
#![cfg_attr(not(any(test, loom)), deny(clippy::print_stderr, clippy::print_stdout))]
// Files are read aside: `file`.
#![cfg_attr(not(any(test, loom)), deny(clippy::disallowed_methods))]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the NANOS crates need Linux 6.1 or later: processors are shared by its futexes, affinity \
     masks and memory files; there is no port to this system"
);
#[cfg(not(target_pointer_width = "64"))]
compile_error!(
    "the NANOS crates need addresses of 64 bits: x86-64, where they are tested, or aarch64, where \
     they build and their unit tests pass in an emulator"
);

pub mod affinity;
pub mod aside;
pub mod cgroup;
pub mod clock;
pub mod descriptor;
mod errno;
pub mod error;
pub mod event;
pub mod fault;
pub mod fdpass;
pub mod file;
pub mod futex;
pub mod guard;
pub mod kernel;
pub mod load;
pub mod lock;
mod mapping;
pub mod mask;
pub mod membarrier;
pub mod message;
#[cfg(loom)]
pub mod model;
pub mod numa;
pub mod page_fault;
pub mod process;
pub mod pthread;
pub mod sampling;
pub mod scheduling;
pub mod shm;
pub mod signals;
pub mod skip;
pub mod stack;
pub mod standing;
pub mod sync;
pub mod topology;
pub mod userfault;

pub use error::{SysError, SysResult};
