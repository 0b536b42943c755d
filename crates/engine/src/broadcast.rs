//! Dispatch by broadcast, for teams that ask for it ([`Dispatch::Broadcast`](crate::Dispatch)):
//! what a group and its workers keep for that. How regions use it is `regions::broadcast`.
//!
//! By *lines* (LWD), the default, the master writes one line for each worker, and the worker
//! arrives in the same line: two transfers for each, and with one worker the least that is
//! possible. By *broadcast* (GWD) it writes one line that all read, and each arrives in a line of
//! its own, through a leader where the team spans several caches. That is as many transfers, and no
//! record shows a gain: it is here for the papers' figures, and off the default path.
//!
//! # Papers
//! P1 section 3.1 compares both (Figures 3 and 4).

pub(crate) mod channel;
mod group_channel;
mod leaders;

pub(crate) use group_channel::GroupChannel;
