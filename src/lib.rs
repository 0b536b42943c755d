//! The NANOS environment: this package owns the workspace's benches and examples.
//!
//! The libraries are in `crates/`; start with [`nanothreads`].

pub use nanothreads;
