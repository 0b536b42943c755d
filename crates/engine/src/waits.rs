//! How threads wait: how long they spin before they sleep, and what they do meanwhile.

pub mod spin_policy;
mod turns;
pub(crate) mod waiter;
