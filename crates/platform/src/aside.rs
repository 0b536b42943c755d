//! The C library's error number, kept for who called the program's OpenMP construct and not us.

/// Sets the calling thread's `errno` back to what it is now when dropped: for calls in the midst of the program's own code, between
/// whose failing call and its look at `errno` a barrier or the end of a region may stand. Costs two loads and a store.
///
/// ```
/// # use nanothreads_platform as platform;
/// use platform::errno::Kept;
/// # nix::errno::Errno::EDOM.set();
/// let kept = Kept::now();
/// assert!(std::fs::read("/no/such/file").is_err());
/// drop(kept);
/// assert_eq!(nix::errno::Errno::last(), nix::errno::Errno::EDOM);
/// ```
#[derive(Debug)]
#[must_use = "what is dropped at once keeps nothing"]
pub struct Kept {
    errno: i32,
    /// It is the thread's.
    _stays: std::marker::PhantomData<*const ()>,
}

impl Kept {
    /// What it is now.
    pub fn now() -> Self {
        Self { errno: nix::errno::Errno::last_raw(), _stays: std::marker::PhantomData }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        nix::errno::Errno::set_raw(self.errno);
    }
}
