//! Which processor a worker runs on.

pub(crate) mod berth;
pub(crate) mod beyond;
pub(crate) mod following;
pub(crate) mod home;
pub mod nearness;
pub(crate) mod station;
