//! How a program follows a processor manager: where its threads sit, what it asks for and gives
//! back, and which squeezed worker a waiting thread helps.
//!
//! # Without a manager (feature `manager` off)
//! `manager/unmanaged.rs` stands in the place of all but [`source`]: a type that has no value, so
//! that the compiler drops what would be done for a manager.
//!
//! # Seats (`manager/seats.rs`)
//! The manager speaks of workers 0, 1, 2, ... of a program, and gives a processor to each of the
//! first ones. *Seat* i is where it says that number i shall run. The master has seat 0; thread i
//! of its teams has seat i (D3): a worker that was created under another number changes seats with
//! the worker that has seat i. A seat beyond the grant is everywhere in the grant. With several
//! masters it is not known which master's thread i runs when: the masters share the number of
//! processors ([`shares`](crate::protocols::shares), D6), and every worker may run on all that are
//! granted. A place of its own for each would have to change with what each fork takes, and moving
//! a thread that is awake costs more than most regions.
//!
//! # Where a thread changes its place (D1)
//! A new grant has a new epoch. Threads look for one at *safe points* only
//! ([`safe_point`](crate::regions::safe_point)): where they wait, between two pieces of work, and
//! the master at each fork.
//! - P1 The worker binds itself to its new place ([`Managed::at_safe_point`],
//!   [`Managed::between_pieces`]). A worker that was asked thereby leaves the processor that was
//!   taken; in a team that is too large now it waits by yields.
//! - P2 The master binds those that sleep, before it wakes them, which costs a tenth of what a
//!   running thread's migration costs; and it moves itself to seat 0, by binding itself there and
//!   at once to its own mask again: it is never *kept* anywhere (D2), and a process that it forks
//!   inherits its mask.
//! - P3 When the manager is gone the thread that noticed it (`nanos-watch`) gives all workers their
//!   mask back: an open region does not have to come to a safe point (D5).
//! - P4 The master of a team that is larger than its grant goes back to seat 0 by itself, as in P2,
//!   when the kernel has moved it while it let the others have their turn: it is bound nowhere, and
//!   the kernel's balance of load moves a thread that only waits to where fewer wait. There sits a
//!   stranger, or another program's team, and has the processor for a time slice at each of the
//!   master's turns; left there, the master stayed for some 30 ms, ten times a second
//!   (`cargo xtask real`, `hist` beside a hog: 1.42 times one thread's time; 1.26 with P4 at every
//!   fork, too). A thread that is moved while it computes stays there: members that wait for each
//!   other in the program's own code are better off on two processors, whatever else runs there
//!   (`cargo xtask flip flags`: 27 times as many rounds in a second).
//!
//! P1 to P3 may meet on one worker: see [`affinity_state`].
//!
//! # Waiting for a turn ([`recess`](crate::thread))
//! Under policies that let programs take turns a master outside its turn waits at a fork.
//!
//! # Measuring (`manager/analyzer.rs`)
//! See there.
//!
//! # Passing processors to other programs of a domain (`manager/domain.rs`)
//! See there.
//!
//! # Asking and giving back ([`wishes`](crate::protocols::wishes)) and helping (`manager/help.rs`)
//! See there.
//!
//! # Papers
//! P2 sections 3.1 to 3.3 and 5.2, Figures 3 and 4 (M3, M5 to M7, M9, M10). There a worker that is
//! asked suspends itself, and work that was preempted waits for a processor. Here teams keep their
//! threads (D15): a thread without a processor of its own shares those of its program, and threads
//! that wait give way to it.

#[cfg(feature = "manager")]
pub(crate) mod analyzer;
#[cfg(feature = "manager")]
mod domain;
#[cfg(feature = "manager")]
mod help;
#[cfg(feature = "manager")]
mod managed;
#[cfg(feature = "manager")]
mod registration;
#[cfg(feature = "manager")]
mod seats;
mod sitter;
pub mod source;
mod standing;
#[cfg(not(feature = "manager"))]
mod unmanaged;

#[cfg(feature = "manager")]
pub use managed::Managed;
#[cfg(feature = "manager")]
use registration::register;
pub(crate) use sitter::Sitter;
pub(crate) use standing::Standing;
#[cfg(not(feature = "manager"))]
pub use unmanaged::Managed;
#[cfg(not(feature = "manager"))]
use unmanaged::register;
