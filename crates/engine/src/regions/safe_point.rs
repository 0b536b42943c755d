//! Safe points: where a thread looks whether its program was granted other processors, and goes
//! where that puts it (D1). An open region keeps its size whatever is granted meanwhile: only the
//! next one is smaller or larger.
//!
//! | safe point | what the thread does there |
//! |---|---|
//! | where it waits (idle, join, barrier, lock, tasks), before the first sleep or yield and now and then while it spins | follows the grant; helps a squeezed worker |
//! | a worker between two regions, when the next one is not there yet | the same |
//! | between two chunks of a loop | follows the grant |
//! | between two tasks, and after a stolen half of a `join` | follows the grant |
//! | a master at its fork | see [`managed`](crate::manager) |
//!
//! Nowhere else: in the program's own code the thread may hold a lock, or be what others spin for.
//! No thread stops there for good either: one that has no processor of its own any more goes where
//! the program's others are, and works there in turn with them. Halves of a join that their own
//! member takes back are no safe points: a look would cost as much as the smallest of them. A
//! thread that comes to no safe point is squeezed when the grace is over.
//!
//! The first two rows are [`Waiter::safe_point`](crate::waits::waiter::Waiter::safe_point).

use crate::manager::source;
use crate::thread::local;

/// The calling thread is done with one piece of work, and has not begun the next. Cost: without a
/// manager two loads; with one four, of lines that rarely change, and a thread-local one.
#[inline]
pub fn between_pieces() {
    // A child that was forked in a piece has not registered, and does not for this.
    if let Some(managed) = source::managed_already() {
        managed.between_pieces(local().waiter().sitter());
    }
}
