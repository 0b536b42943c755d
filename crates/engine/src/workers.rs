//! The workers: what one is, and the set of all. What a worker does is [`serve`](crate::serve).

pub(crate) mod holdings;
pub(crate) mod placed;
pub(crate) mod pool;
pub mod worker;
