//! Nano-threads on a team of four (more than this machine may have: members are preempted at any
//! point).

#[path = "cases/mod.rs"]
#[expect(clippy::duplicate_mod, reason = "the same tests once more")]
mod cases;

use engine::sizer::Fixed;
use std::sync::Once;

/// All tests of this process see four processors.
fn team() -> usize {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| assert!(nanothreads::builder().sizer(Fixed::new(4)).install().is_ok()));
    4
}
