//! What the engine knows of the calling thread: where it stands in a region, and which workers it
//! reserved.
//!
//! # Terms
//! A *root* is a master that owns its workers. One kind is an outermost master (a thread of the
//! program, outside any region), which reserves workers 1, 2, ...; thread i of its teams is always
//! worker i (D3), until another outermost master that lacks workers takes all of them while it has
//! no region open ([`crate::protocols::custody`]). The other kind is the master of an explicit
//! group (`nanothreads::groups`), which gets neighbours from the root around until its region ends
//! (`lead`).
//!
//! A master that is no root gets its group from what its root does not use now
//! ([`crate::protocols::lending`]), and, when the team's size must be exact, from unused or new
//! workers (own). Groups are cached by depth: the next inner fork of the same size is a store.
//!
//! # What touches what
//! [`Local`]: its thread only, but for its custody, which other masters touch. The lenders inside:
//! see [`crate::protocols::lending`].
//!
//! An outermost master opens its region before it looks whether its workers are still its own, and
//! closes it when nothing of the region stands on their lines any more ([`crate::teams::team`]).
//!
//! # Invariants
//! - L1 A worker is in the reach of one master at a time: a root, the masters that borrow from it,
//!   and those to which it gave a group never use it at once. The root takes back what it lent or
//!   gave only at its next fork, when all inner regions are joined; borrowers see the new number
//!   before they use their cache again, and the master of an explicit group drops what it got
//!   before it arrives.
//! - L2 No reference to a group of the thread is held while code of the program runs on the thread,
//!   a sizer's included: such code forks deeper, and may move the groups. So all that a
//!   [`TeamSizer`](crate::TeamSizer) is asked for is asked before the group is touched
//!   (`with_group` checks it in debug builds). Slices of a group's members and its channel live
//!   elsewhere and stay, because a group is changed by its own next fork only, which comes after
//!   the join.
//! - L3 While the sizer is asked ([`Local::ask`]), regions have one thread: it may be asked while a
//!   region of the thread is not joined, or in the middle of a fork.

mod claim;
pub(crate) mod current;
mod grant;
mod group;
pub mod head;
mod lead;
pub mod membership;
mod recess;
mod reserved;
mod shown;
pub mod split;
mod state;
mod time_slice;
mod visit;
mod wanted;

pub use current::local;
pub(crate) use group::{Need, Reservation, WorkerGroup};
pub use state::Local;
pub(crate) use state::Pin;
pub use visit::ForkContext;
