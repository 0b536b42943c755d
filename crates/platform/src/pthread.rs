//! Threads of this process by the C library's handle, which is known before the thread runs for the
//! first time.

use crate::affinity::CpuSet;
use crate::error::{SysError, SysResult};
use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt;
use std::thread::JoinHandle;

/// A thread, for as long as its handle is valid: until it was joined, or has ended and is detached.
/// Copies are no more than copies of the handle: code that keeps one must know that the thread is
/// still there.
#[derive(Clone, Copy, Debug)]
pub struct Pthread(libc::pthread_t);

impl Pthread {
    /// The thread of `handle`.
    ///
    /// # Safety
    /// - No copy of the answer is used when the thread may have ended: the C library frees the
    ///   handle of one that was joined or detached, and takes that of one that was not joined yet
    ///   for the calling thread's.
    pub unsafe fn of<T>(handle: &JoinHandle<T>) -> Self {
        Self(handle.as_pthread_t())
    }

    /// Starts a thread that runs `life` on `of`, with a stack of `stack` bytes or the least that
    /// the system allows, without `std::thread`.
    ///
    /// Each thread of the standard library takes a lock when it starts and when it ends, to report
    /// stack overflows; the child of a fork may find it taken by a thread that it does not have. So
    /// this is what a child starts threads by. An overflow of such a thread is a plain SIGSEGV.
    ///
    /// # Errors
    /// `EAGAIN`: the system refuses a thread; `EINVAL`: no stack can be so large.
    pub fn start<T: Sync>(
        stack: usize,
        of: &'static T,
        life: fn(&'static T) -> !,
    ) -> SysResult<Self> {
        struct Begin<T: 'static> {
            of: &'static T,
            life: fn(&'static T) -> !,
        }
        extern "C" fn run<T: 'static>(begin: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: - made by `Box::into_raw` below, for this thread alone.
            let Begin { of, life } = *unsafe { Box::from_raw(begin.cast::<Begin<T>>()) };
            life(of)
        }
        // What is no multiple of a page is refused by some C libraries.
        let stack =
            stack.max(libc::PTHREAD_STACK_MIN).checked_next_multiple_of(4096).unwrap_or(usize::MAX);
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: - written by the call before they are read.
        fails("pthread_attr_init", unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
        let begin = Box::into_raw(Box::new(Begin { of, life }));
        let mut handle = MaybeUninit::uninit();
        // SAFETY: - the attributes are live until they are destroyed, once.
        //         - `run` gets what it asks for; the thread's values live as long as the process,
        //           and may be shared.
        let started = unsafe {
            let sized = libc::pthread_attr_setstacksize(attributes.as_mut_ptr(), stack);
            let started = fails("pthread_attr_setstacksize", sized).and_then(|()| {
                let errno = libc::pthread_create(
                    handle.as_mut_ptr(),
                    attributes.as_ptr(),
                    run::<T>,
                    begin.cast(),
                );
                fails("pthread_create", errno)
            });
            libc::pthread_attr_destroy(attributes.as_mut_ptr());
            started
        };
        if let Err(error) = started {
            // SAFETY: - the thread that would own it was not made.
            drop(unsafe { Box::from_raw(begin) });
            return Err(error);
        }
        // SAFETY: - written by the call that succeeded. The thread never ends: its function does
        // not return.
        Ok(Self(unsafe { handle.assume_init() }))
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
            //         - pointer and length describe `words`; the C library zeroes what the kernel
            //           does not write.
            let errno = unsafe {
                libc::pthread_getaffinity_np(
                    self.0,
                    size_of_val(words.as_slice()),
                    words.as_mut_ptr().cast(),
                )
            };
            match errno {
                0 => return Ok(CpuSet::from_words(&words)),
                // The kernel has more processors than the buffer has bits.
                libc::EINVAL if words.len() < (CpuSet::LIMIT / u64::BITS) as usize => {
                    words.resize(words.len() * 2, 0)
                }
                errno => return Err(SysError::new(CALL, errno)),
            }
        }
    }

    /// Restricts the thread to `cpus`. Costs about 2 us for a sleeping thread, 30 us for a running
    /// one.
    ///
    /// # Errors
    /// `EINVAL`: no processor of `cpus` is online and in the thread's cpuset.
    pub fn set_affinity(self, cpus: &CpuSet) -> SysResult<()> {
        let words = cpus.words();
        // SAFETY: - the handle is live (constructor's contract).
        //         - pointer and length describe the words of `cpus`, which lives through the call.
        let errno = unsafe {
            libc::pthread_setaffinity_np(self.0, size_of_val(words), words.as_ptr().cast())
        };
        fails("pthread_setaffinity_np", errno)
    }
}

/// Names the calling thread, for tools that look at the process: the first 15 bytes of `name`.
pub fn set_name(name: &str) {
    let text: Vec<u8> = name.bytes().filter(|&byte| byte != 0).take(15).chain([0]).collect();
    // SAFETY: - `text` is a string that ends with 0 and outlives the call.
    let refused = unsafe { libc::pthread_setname_np(libc::pthread_self(), text.as_ptr().cast()) };
    debug_assert_eq!(refused, 0, "only a longer name is refused");
}

/// The outcome of a call that returns its error's number.
fn fails(call: &'static str, errno: libc::c_int) -> SysResult<()> {
    if errno == 0 { Ok(()) } else { Err(SysError::new(call, errno)) }
}

/// Has `child` called in the child of each later `fork()`, in the only thread that it has. Handlers
/// stay for the life of the process.
///
/// # Errors
/// `ENOMEM`.
pub fn at_fork_child(child: extern "C" fn()) -> SysResult<()> {
    // SAFETY: - `child` is a function of the program, which is never unloaded (the library is
    // linked with nodelete).
    let errno = unsafe { pthread_atfork(None, None, Some(child)) };
    fails("pthread_atfork", errno)
}

/// A word of each thread, with what is called for it when the thread ends: later than the
/// destructors of Rust's thread-locals, and again for words that such calls set (a few times). Not
/// called where the whole process ends.
#[derive(Clone, Copy, Debug)]
pub struct EndOfThread(libc::pthread_key_t);

impl EndOfThread {
    /// Has `end` called with the word of each thread that [`Self::set`] one. A key stays until it
    /// is discarded.
    ///
    /// # Errors
    /// `EAGAIN`: the process has no key left. `ENOMEM`.
    pub fn new(end: unsafe extern "C" fn(*mut libc::c_void)) -> SysResult<Self> {
        let mut key = 0;
        // SAFETY: - `key` outlives the call; `end` is a function of the program, which is never
        // unloaded.
        let errno = unsafe { libc::pthread_key_create(&raw mut key, Some(end)) };
        if errno == 0 { Ok(Self(key)) } else { Err(SysError::new("pthread_key_create", errno)) }
    }

    /// Gives the key back: one that no thread has set.
    pub fn discard(self) {
        // SAFETY: - the key is live: only this ends it.
        let errno = unsafe { libc::pthread_key_delete(self.0) };
        debug_assert_eq!(errno, 0, "the key was made by `new`");
    }

    /// Sets the calling thread's word; null: nothing is called.
    ///
    /// # Errors
    /// `ENOMEM`.
    ///
    /// # Safety
    /// - The key's function may be called with `word` when this thread ends, unless another word
    ///   was set meanwhile.
    pub unsafe fn set<T>(self, word: *mut T) -> SysResult<()> {
        // SAFETY: - the key lives as long as the process; caller's contract.
        let errno =
            unsafe { libc::pthread_setspecific(self.0, word.cast::<libc::c_void>().cast_const()) };
        fails("pthread_setspecific", errno)
    }
}

/// Calls `body`; false when the calling thread was to end before `body` returned, by
/// `pthread_exit` or a cancellation. The C library has unwound the stack up to here then, and
/// called the thread's handlers: what `body` had there is gone, without having been dropped where
/// panics end the process. The caller is to let the thread end. Cost: some 10 ns.
///
/// Only where the processor is an x86-64 and the C library is glibc; elsewhere the thread ends
/// without coming back here. Frames of Rust that are compiled to unwind are in the way, and end
/// the process, those of the standard library's threads included: these stand above the call.
pub fn comes_back(mut body: impl FnMut()) -> bool {
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    {
        /// # Safety
        /// - `body` points to an `F` that no other code uses meanwhile.
        unsafe extern "C-unwind" fn call<F: FnMut()>(body: *mut libc::c_void) {
            // SAFETY: - the closure below, which outlives the call.
            unsafe { (*body.cast::<F>())() }
        }
        fn caller_of<F: FnMut()>(_: &F) -> LeavingBody {
            call::<F>
        }
        let caller = caller_of(&body);
        // SAFETY: - `caller` takes what it is given.
        unsafe { call_leaving(caller, (&raw mut body).cast()) == 0 }
    }
    #[cfg(not(all(target_arch = "x86_64", target_env = "gnu")))]
    {
        body();
        true
    }
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
type LeavingBody = unsafe extern "C-unwind" fn(*mut libc::c_void);

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
unsafe extern "C" {
    fn __sigsetjmp(place: *mut libc::c_void, with_mask: libc::c_int) -> libc::c_int;
    fn __pthread_register_cancel(place: *mut libc::c_void);
    fn __pthread_unregister_cancel(place: *mut libc::c_void);
}

/// Calls `body(data)`; other than 0: the thread left it for good. What `pthread_cleanup_push` and
/// `pthread_cleanup_pop` of `<pthread.h>` are in C: only compiled C may call `setjmp`, which
/// returns twice.
///
/// It stands beside other functions: in a unit of the compiler's that has none which unwinds, as a
/// module of its own is under AddressSanitizer, its frame would be described for debuggers only,
/// and a panic would find no way over it.
///
/// The place that the C library comes back to stands at `rsp`: `__pthread_unwind_buf_t`, of 104
/// bytes. Above it are the two arguments. Coming back gives the registers that a function keeps
/// the values that they had at the call of `__sigsetjmp`, which are those of the caller.
///
/// # Safety
/// - `body` may be called with `data`.
#[unsafe(naked)]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
unsafe extern "C-unwind" fn call_leaving(
    body: LeavingBody,
    data: *mut libc::c_void,
) -> libc::c_int {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 128",
        "mov [rsp + 104], rdi",
        "mov [rsp + 112], rsi",
        "mov rdi, rsp",
        "xor esi, esi",
        "call {setjmp}",
        "test eax, eax",
        "jne 2f",
        "mov rdi, rsp",
        "call {register}",
        "mov rdi, [rsp + 112]",
        "call [rsp + 104]",
        "mov rdi, rsp",
        "call {unregister}",
        "xor eax, eax",
        "jmp 3f",
        "2:",
        "mov rdi, rsp",
        "call {unregister}",
        "mov eax, 1",
        "3:",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        setjmp = sym __sigsetjmp,
        register = sym __pthread_register_cancel,
        unregister = sym __pthread_unregister_cancel,
    )
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

    #[test]
    fn a_thread_without_the_standard_library_has_its_stack() {
        const STACK: usize = 3 << 20;
        fn tell_size(tell: &'static mpsc::SyncSender<usize>) -> ! {
            let (mut attributes, mut size) = (MaybeUninit::uninit(), 0);
            // SAFETY: - written by the first call before the others read them.
            unsafe {
                assert_eq!(
                    libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()),
                    0
                );
                assert_eq!(libc::pthread_attr_getstacksize(attributes.as_ptr(), &raw mut size), 0);
                libc::pthread_attr_destroy(attributes.as_mut_ptr());
            }
            tell.send(size).unwrap();
            loop {
                std::thread::park();
            }
        }
        let (tell, told) = mpsc::sync_channel(1);
        let tell = Box::leak(Box::new(tell));
        Pthread::start(STACK, tell, tell_size).unwrap();
        assert_eq!(told.recv().unwrap(), STACK);
        Pthread::start(1, tell, tell_size).unwrap();
        assert!(told.recv().unwrap() >= libc::PTHREAD_STACK_MIN);
        assert!(Pthread::start(usize::MAX, tell, tell_size).is_err(), "no stack is so large");
    }
}
