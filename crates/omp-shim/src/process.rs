//! What there is once in a process: its memory before OpenMP's, what the library says, other copies
//! of the library, and the end of a process whose main thread left before.

pub(crate) mod bump;
pub(crate) mod copies;
pub(crate) mod departure;
pub(crate) mod ending;
pub(crate) mod message;
pub(crate) mod sanitizer;
