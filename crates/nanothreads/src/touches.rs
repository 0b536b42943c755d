//! What loops over slices tell of the memory that they give to threads: the program says where
//! ([`Builder::on_chunk`](crate::Builder::on_chunk)), for instance to a crate that moves pages to
//! the threads which use them.
//!
//! Not knowing of that crate, this one calls two functions. A loop asks once whether it is wanted;
//! without a listener that is one load.

use std::ops::Range;
use std::sync::OnceLock;

/// What the program gave.
pub(crate) struct Listener {
    /// Whether a loop that begins now shall tell.
    pub(crate) is_wanted: Box<dyn Fn() -> bool + Send + Sync>,
    /// Gets the addresses of a chunk, on the thread that runs it.
    pub(crate) hear: Box<dyn Fn(Range<usize>) + Send + Sync>,
}

static LISTENER: OnceLock<Listener> = OnceLock::new();

/// Makes it the process's. Of several the first one stays.
pub(crate) fn listen(listener: Listener) {
    _ = LISTENER.set(listener);
}

/// The listener, for a loop that begins, if it is wanted.
#[inline]
pub(crate) fn listener() -> Option<&'static Listener> {
    LISTENER.get().filter(|listener| (listener.is_wanted)())
}
