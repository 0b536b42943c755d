//! What threads do with tasks: they create, run, complete and wait for them. What tasks are, with
//! the life of one (T1 to T5) and the invariants (I1 to I3), is in [`crate::task`].
//!
//! From the bottom up: `memory`, `included`, `completion`, `execution`, `wait`, `help` and
//! `taskgroup`, `creation`, `reduction`, `taskloop`.

mod completion;
mod creation;
mod execution;
mod help;
mod included;
mod memory;
pub(crate) mod reduction;
mod taskgroup;
pub(crate) mod taskloop;
mod wait;

pub(crate) use completion::tell;
pub(crate) use creation::create;
pub(crate) use execution::fulfill;
pub(crate) use included::with_block;
pub(crate) use taskgroup::{close_group, open_group};
pub(crate) use wait::{
    finish_all, run_any, run_own, wait_for_children, wait_for_predecessors, yield_now,
};
