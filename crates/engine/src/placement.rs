//! Which processor a worker runs on: exact under a manager, a hint without one (D2).
//!
//! A master's own thread is kept nowhere, unless the program asks for that
//! ([`Config::bind`](crate::Config)). A worker has one [`Station`](station::Station): whatever else
//! wants it somewhere asks that one, and the worker itself, around what it starts, says so there.
//!
//! # What puts a worker where
//! | by | when | what it asks of the station | the worker is then |
//! |---|---|---|---|
//! | its creator | before others can supply or bind it | `begin` | on its home until it runs |
//! | its waker | it sleeps, and is not bound | `place`; `displace` if it was awake | on its home until it runs |
//! | the worker | before it runs work | `settle` | where the program may run |
//! | its master | the worker gets another home | `set_home`; `move_to` if it is to go there at once | as before; there for a moment, not held |
//! | the program's own wish, or its sizer's processors | a team is made ready | `bind` | there, until it is bound elsewhere |
//! | the worker at a safe point, or its master while it sleeps | the grant has another epoch than the worker follows | `follow` | where the grant puts its seat |
//! | a master that has it as another thread of its teams than before | no region is open | `take_seat` | as before; it follows at its next look |
//! | a thread that waits, for a worker whose processor was taken | once in an epoch | `help_onto` | on the helper's processor until its next look |
//! | the watcher of a manager that died; a master that ends | any time; it has no work | `release` | where the program may run |
//! | the worker, around what starts threads or programs | any time | `hold`, then `lose_place` | where the program may run, and nothing puts it |
//!
//! # The states
//! One state machine, [`affinity_state`], proven by models: whether the worker is *put* on its home
//! until it runs, is bound, or *held*; and the epoch of the grant by which it was bound, or that
//! its place is unknown. It keeps hints (wakers) and bindings apart: a binding has the last word
//! over a hint. And it orders those that bind: any thread but the worker, or its master while it
//! sleeps, says that the place is unknown, so that the worker looks once more.
//!
//! Under it stands a lock, that of the kernel thread's handle. Those that bind wait for it; those
//! that only hint go on without where it is taken.
//!
//! # A worker that changes its master
//! Its home and its seat are its master's, and all else stays with the worker. So the next master
//! (one that takes it from the pool, borrows it, or leads a group) calls `set_home` or `take_seat`
//! before it supplies the worker, and the last one calls `release` where it leaves the worker bound
//! and no grant is followed. A master that borrows for one region does the same two things.
//!
//! # Where the homes are
//! [`home`] says which processor a home is; masters whose teams have more threads than processors
//! find out in [`beyond`] whether they are several at the same time, on which it depends.
//! [`nearness`] tells from homes and bindings which members are near each other.
//!
//! A soft placement stays, also where a worker had to wait on its home: given up for a while after
//! such waits it was packed on its master's processor instead, and an empty region beside other
//! programs took 120 us instead of 1.

pub(crate) mod affinity_state;
pub(crate) mod beyond;
pub(crate) mod binding;
pub(crate) mod home;
pub mod nearness;
pub(crate) mod station;
