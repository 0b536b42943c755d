//! Ready queues: where nano-threads wait for a worker. Protocol, races and costs:
//! `ready/README.md`.
//!
//! | queue | holds | taken by |
//! |---|---|---|
//! | [`inbox`] | started ones that another member made ready | their home |
//! | `local`, private part | started ones that are ready, those that yielded | their home |
//! | `local`, public part | unstarted ones, newest first for the owner | the owner; others from the other end |
//! | `global`, plain | unstarted ones from threads that are no members | any member |
//! | `global`, ranked | unstarted ones with a priority | any member, highest first |

pub(crate) mod inbox;

pub(crate) mod global;
pub(crate) mod local;
