//! Threads of this process by the C library's handle, which is known before the thread runs for the first time.

use crate::affinity::CpuSet;
use crate::error::{SysError, SysResult};
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

/// A thread that lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub struct Pthread(libc::pthread_t);

impl Pthread {
    /// The thread behind `handle`.
    ///
    /// # Safety
    /// - The thread never ends: the C library frees the handle of a thread that ended and was detached.
    pub unsafe fn of<T>(handle: &JoinHandle<T>) -> Self {
        Self(handle.as_pthread_t())
    }

    /// The affinity mask of the thread.
    ///
    /// # Errors
    /// The kernel's, with the call's name.
    pub fn affinity(self) -> SysResult<CpuSet> {
        const CALL: &str = "pthread_getaffinity_np";
        let mut words = vec![0_u64; 16];
        loop {
            // SAFETY: - the handle is live (constructor's contract).
            //         - pointer and length describe `words`; the C library zeroes what the kernel does not write.
            let errno = unsafe {
                libc::pthread_getaffinity_np(self.0, size_of_val(words.as_slice()), words.as_mut_ptr().cast())
            };
            match errno {
                0 => return Ok(CpuSet::from_words(&words)),
                // The kernel has more processors than the buffer has bits.
                libc::EINVAL if words.len() < (CpuSet::LIMIT / u64::BITS) as usize => words.resize(words.len() * 2, 0),
                errno => return Err(SysError::new(CALL, errno)),
            }
        }
    }

    /// Restricts the thread to `cpus`. Costs about 2 us for a sleeping thread, 30 us for a running one.
    ///
    /// # Errors
    /// `EINVAL`: no processor of `cpus` is online and in the thread's cpuset.
    pub fn set_affinity(self, cpus: &CpuSet) -> SysResult<()> {
        let words = cpus.words();
        // SAFETY: - the handle is live (constructor's contract).
        //         - pointer and length describe the words of `cpus`, which lives through the call.
        let errno = unsafe { libc::pthread_setaffinity_np(self.0, size_of_val(words), words.as_ptr().cast()) };
        if errno == 0 { Ok(()) } else { Err(SysError::new("pthread_setaffinity_np", errno)) }
    }
}

/// Has `child` called in the child of each later `fork()`, in the only thread that it has. Handlers stay for the life of
/// the process.
///
/// # Errors
/// `ENOMEM`.
pub fn at_fork_child(child: extern "C" fn()) -> SysResult<()> {
    // SAFETY: - `child` is a function of the program, which is never unloaded (the library is linked with nodelete).
    let errno = unsafe { pthread_atfork(None, None, Some(child)) };
    if errno == 0 { Ok(()) } else { Err(SysError::new("pthread_atfork", errno)) }
}

/// A word of each thread, with what is called for it when the thread ends: later than the destructors of Rust's
/// thread-locals, and again for words that such calls set (a few times). Not called where the whole process ends.
#[derive(Clone, Copy, Debug)]
pub struct EndOfThread(libc::pthread_key_t);

impl EndOfThread {
    /// Has `end` called with the word of each thread that [`Self::set`] one. Keys stay for the life of the process.
    ///
    /// # Errors
    /// `EAGAIN`: the process has no key left. `ENOMEM`.
    pub fn new(end: unsafe extern "C" fn(*mut libc::c_void)) -> SysResult<Self> {
        let mut key = 0;
        // SAFETY: - `key` outlives the call; `end` is a function of the program, which is never unloaded.
        let errno = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) };
        if errno == 0 { Ok(Self(key)) } else { Err(SysError::new("pthread_key_create", errno)) }
    }

    /// Sets the calling thread's word; null: nothing is called.
    ///
    /// # Errors
    /// `ENOMEM`.
    ///
    /// # Safety
    /// - The key's function may be called with `word` when this thread ends, unless another word was set meanwhile.
    pub unsafe fn set<T>(self, word: *mut T) -> SysResult<()> {
        // SAFETY: - the key lives as long as the process; caller's contract.
        let errno = unsafe { libc::pthread_setspecific(self.0, word.cast::<libc::c_void>().cast_const()) };
        if errno == 0 { Ok(()) } else { Err(SysError::new("pthread_setspecific", errno)) }
    }
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::{affinity, current_tid};
    use std::sync::mpsc;

    #[test]
    fn a_thread_can_be_restricted_before_it_runs() {
        let whole = affinity(None).unwrap();
        let only = CpuSet::single(whole.last().unwrap());
        let (go, wait) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let handle = std::thread::spawn(move || {
            wait.recv().unwrap();
            tell.send(affinity(Some(current_tid())).unwrap()).unwrap();
            loop {
                std::thread::park();
            }
        });
        // SAFETY: - the thread above never ends.
        let thread = unsafe { Pthread::of(&handle) };
        thread.set_affinity(&only).unwrap();
        assert_eq!(thread.affinity().unwrap(), only);
        go.send(()).unwrap();
        assert_eq!(told.recv().unwrap(), only);
        assert!(thread.set_affinity(&CpuSet::new()).is_err());
    }
}
