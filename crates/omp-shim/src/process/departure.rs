//! The end of a process whose main thread has left by `pthread_exit`.
//!
//! The C library ends such a process with its last thread. Workers sleep until they are
//! needed, and would be there for ever. So, once the main thread has left, a thread of this library
//! looks now and then whether any other thread is there. Where none is, it ends the process as the
//! last thread would have: with status 0, and the handlers of `atexit`.
//!
//! # Which threads count as others
//! Every thread but workers, the engine's watcher of the manager, the one that samples for page
//! migration, the one that follows for other libraries' pools, and the one that looks. Threads have
//! the names of those that started them, so one that a worker started may be called as those are:
//! they are counted. With more threads of that name than workers of this copy (or another copy's),
//! the process is left as it is. A thread that ends during a look may have started another one that
//! the look has missed: then it says nothing.
//!
//! # When it begins
//! When a thread ends that had come to OpenMP: the main one, or another one and the main one is
//! gone. Not seen is a main thread that never came to OpenMP and leaves after all threads that did.

use platform::affinity::current_tid;
use platform::file;
use platform::lock::Once;
use platform::pthread::{EndOfThread, Pthread, set_name};
use std::ffi::c_void;
use std::io::ErrorKind;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Enough for the looks; the handlers of `atexit` run here, too.
const STACK: usize = 1 << 20;
/// What the kernel says of the threads.
const TASKS: &str = "/proc/self/task";
/// Between two looks.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(100)];

/// The calling thread has come to OpenMP: its end will be looked at. Cost: some 10 ns.
pub(crate) fn expect() {
    static KEY: Once<Option<EndOfThread>> = Once::new();
    // Without a key left in the process there is no look.
    if let Some(key) = KEY.get_or_init(|| EndOfThread::new(leave).ok()) {
        // SAFETY: - `leave` does not look at the word.
        let _ = unsafe { key.set(ptr::dangling_mut::<u8>()) };
    }
}

/// A thread that came to OpenMP ends, and the process goes on.
///
/// # Safety
/// - None.
unsafe extern "C" fn leave(_word: *mut c_void) {
    let process = std::process::id();
    let is_main = current_tid().0.cast_unsigned() == process;
    if is_main || has_ended(&task(process)) {
        begin(process);
    }
}

/// The folder of a thread.
fn task(tid: u32) -> PathBuf {
    Path::new(TASKS).join(tid.to_string())
}

/// Starts the thread that looks, once in a process (a child of a fork is another one). Where the
/// system refuses it, the process stays.
fn begin(process: u32) {
    static BEGUN: AtomicU32 = AtomicU32::new(0);
    // ORDERING: Relaxed, both - a number on its own, which the new thread's start orders.
    if BEGUN.swap(process, Relaxed) == process {
        return;
    }
    // The program's signals are for the program's threads.
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: - places for two sets, written before they are read.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let _ = Pthread::start(STACK, &BEGUN, |process| look_until_deserted(process.load(Relaxed)));
    // SAFETY: - written above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
}

fn look_until_deserted(process: u32) -> ! {
    set_name("nanos-end");
    let begun = Instant::now();
    while !is_deserted(process) {
        // What runs long may end a little late.
        thread::sleep((begun.elapsed() / 16).clamp(PAUSES[0], PAUSES[1]));
    }
    std::process::exit(0)
}

/// True when no thread but the library's is there (module head). Cost: some 10 us and 10 us for
/// each thread of the library.
fn is_deserted(process: u32) -> bool {
    let Ok(tasks) = file::names(TASKS) else { return false };
    let own = current_tid().0.cast_unsigned();
    let mut workers = 0;
    for task in tasks {
        let tid = task.to_str().and_then(|name| name.parse().ok());
        let folder = Path::new(TASKS).join(task);
        if tid == Some(own) {
            continue;
        }
        if tid == Some(process) {
            if has_ended(&folder) {
                continue;
            }
            return false;
        }
        match file::text(folder.join("comm")) {
            Ok(name) if name.starts_with("nanos-w-") => workers += 1,
            Ok(name) if ["nanos-watch", "nanos-upm", "nanos-pools"].contains(&name.trim_end()) => {}
            _ => return false,
        }
    }
    workers <= engine::worker_count()
}

/// True when the thread with this folder is a zombie, or is no more.
fn has_ended(task: &Path) -> bool {
    match file::text(task.join("stat")) {
        // The name, which may have blanks and parentheses in it, stands in parentheses.
        Ok(stat) => stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])),
        Err(error) => {
            error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_living_thread_has_not_ended_and_one_that_never_was_has() {
        assert!(!has_ended(&task(std::process::id())));
        assert!(has_ended(&task(u32::MAX)));
    }

    #[test]
    fn a_process_with_its_main_thread_is_not_deserted() {
        assert!(!is_deserted(std::process::id()));
    }
}
