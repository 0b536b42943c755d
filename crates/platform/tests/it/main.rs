//! Tests of the platform crate against the running kernel and against made-up machines. No
//! privilege is needed.

#![expect(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test, also outside of the test function"
)]

mod affinity;
mod cgroup;
mod clock;
mod descriptor;
mod fdpass;
mod helper;
mod peer;
mod process;
mod shm;
mod speed;
mod topology;
mod tree;
