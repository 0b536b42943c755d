//! What only a machine with several nodes can show: `cargo xtask vm numa` runs it on four emulated
//! ones. Elsewhere each test says that it is skipped; with `NANOS_NUMA_REQUIRED` that is a failure.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

macro_rules! machine {
    () => {
        match crate::machine::machine() {
            Some(topology) => topology,
            None => return,
        }
    };
}

mod machine;
mod pages;
mod repair;
