//! What a region's thread does for the whole process: starting programs and threads.

/// Runs `body` with the affinity mask that the program was started with: for a member of a region
/// that starts a program or a thread, which would else inherit the one processor that the member is
/// bound to under a processor manager, or was put on when it was woken.
///
/// Cost: nothing where the calling thread is none of this crate's; two exchanges where it is not
/// bound; else three system calls. A child by `fork` alone needs no such thing, nor does anything
/// where the drop-in OpenMP library is loaded before the C library.
///
/// ```
/// // In a part of a region, or anywhere else:
/// let status = nanothreads::process::unbound(|| std::process::Command::new("true").status());
/// assert!(status.is_ok_and(|status| status.success()));
/// ```
pub fn unbound<R>(body: impl FnOnce() -> R) -> R {
    engine::unbound(body)
}
