//! Nano-threads: tasks with stacks of their own, which depend on each other.
//!
//! # Vocabulary
//! - A *nano-thread* is what a task becomes when it runs: a closure which may wait for others and
//!   leaves its processor to them meanwhile. It is called on a stack that others used before it (a
//!   *fiber*), and keeps that when it waits.
//! - Its *inputs* are what must happen before it goes on ([`inputs`]); its *successors* are those
//!   for which it is such an input ([`successors`]).
//! - Nano-threads that wait on one thread are *nested*: they go on in the reverse order of their
//!   beginning, as calls end. Those that are *suspendable* are not ([`ready`]).
//! - Its *home* is the member of the team that started it. Only unstarted nano-threads are stolen:
//!   a started one may hold what must not leave its thread (an `Rc`, a borrow of thread-local
//!   storage), and stays.
//!
//! The API is [`scope`](crate::scope()) and the handle [`Scope`](crate::Scope); descriptions are
//! [`task::Task`]s.
//!
//! # Files, from the bottom up
//! `body`, `pool`, `inherited`, `doors`, `inputs`, `successors`, `task_mutex`, `stack` and what the
//! sanitizer and reports of overflows need of it: parts that know no task. `description`,
//! `descriptor`, `node`, `fiber`: one nano-thread. `exclusive`, `depend`, `held`, `ready`: what
//! several have to do with each other. `vacancies`, `offers`: places that a thread has left, and
//! offers again. `target`, `scheduler`, `seat`, `watch`: what cancellers cancel, a team, a member's
//! place in it, waits without an end. `scope`; `task`, `task_group`, `group`, `completion`: the
//! handle, and what it makes.
//!
//! # Papers
//! P1 section 2 and P0 section 2 (F2, F8): upper levels of a parallel program are nano-threads, the
//! deepest one uses work descriptors ([`par_for`](crate::par_for()), [`join`](fn@crate::join)).

mod body;
pub(crate) mod cell;
pub(crate) mod completion;
pub(crate) mod depend;
mod description;
mod descriptor;
mod doors;
mod exclusive;
mod fiber;
pub(crate) mod group;
mod held;
mod inherited;
mod inputs;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, loom))]
mod models;
mod node;
mod offers;
mod overflow;
mod pool;
mod ready;
mod scheduler;
pub(crate) mod scope;
mod seat;
mod stack;
mod successors;
mod target;
pub(crate) mod task;
pub(crate) mod task_group;
mod task_mutex;
mod tsan_fibers;
mod vacancies;
pub(crate) mod watch;
