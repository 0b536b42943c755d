//! What the compiled code of directives calls, `GOMP_*`.

mod allocate;
mod doacross;
mod error;
mod general;
mod loops;
mod parallel;
mod sync;
mod target;
mod tasks;
mod teams;
