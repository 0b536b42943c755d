//! The engines that are compared: each as a closure that runs one empty region of two threads.

use crate::round_trip;
use nanothreads::engine::{self, Config, Member, Waiting};
use platform::affinity::{CpuSet, Tid, affinity, set_affinity};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::hint::black_box;
use std::num::NonZero;
use std::ptr;

/// In the order of the table.
pub(crate) const NAMES: [&str; 8] = [
    "nanothreads",
    "nanothreads safe",
    "libgomp",
    "fork_union",
    "rayon broadcast",
    "rayon join",
    "chili join",
    "std::thread::scope",
];

/// Settings of peers that are taken from the environment.
pub(crate) fn environment(bound: bool) -> Vec<(&'static str, &'static str)> {
    let bind = if bound { "true" } else { "false" };
    vec![("OMP_NUM_THREADS", "2"), ("OMP_PROC_BIND", bind), ("NANOS_CPUMGR", "off")]
}

/// One empty region of `name`; `None` when this machine lacks the peer (said on stderr).
pub(crate) fn make(name: &str, bound: bool) -> Option<Box<dyn FnMut()>> {
    round_trip::remember_mask();
    if bound && !name.starts_with("nanothreads") {
        let first = affinity(None).ok()?.first()?;
        set_affinity(None, &CpuSet::single(first)).ok()?;
    }
    Some(match name {
        "nanothreads" => {
            configure(bound);
            /// # Safety
            /// - None: it does nothing with its data.
            unsafe fn nothing(_: *const (), member: Member) {
                black_box(member);
            }
            Box::new(|| {
                let team = engine::reserve(2);
                // SAFETY: - `nothing` ignores its data and does not unwind.
                unsafe { team.run(nothing, ptr::null()) }
            })
        }
        "nanothreads safe" => {
            configure(bound);
            Box::new(|| {
                nanothreads::broadcast(|member| {
                    black_box(member);
                });
            })
        }
        "libgomp" => libgomp()?,
        "fork_union" => {
            let mut pool = fork_union::ThreadPool::try_spawn(2).ok()?;
            Box::new(move || {
                pool.for_threads(|thread, _| {
                    black_box(thread);
                })
                .join();
            })
        }
        "rayon broadcast" => {
            let pool = rayon(bound)?;
            Box::new(move || {
                pool.broadcast(|context| {
                    black_box(context.index());
                });
            })
        }
        "rayon join" => {
            let pool = rayon(bound)?;
            Box::new(move || {
                pool.join(|| black_box(1), || black_box(2));
            })
        }
        "chili join" => {
            let pool: &'static chili::ThreadPool = Box::leak(Box::new(chili::ThreadPool::with_config(chili::Config {
                thread_count: NonZero::new(2),
                ..chili::Config::default()
            })));
            let mut scope = pool.scope();
            Box::new(move || {
                scope.join(|_| black_box(1), |_| black_box(2));
            })
        }
        "std::thread::scope" => Box::new(move || {
            std::thread::scope(|s| {
                s.spawn(|| {
                    if bound {
                        bind_to(1);
                    }
                    black_box(1)
                });
                black_box(2);
            });
        }),
        other => {
            eprintln!("unknown engine {other}: one of {NAMES:?}");
            return None;
        }
    })
}

fn configure(bound: bool) {
    assert!(engine::configure(Config { bind: bound, waiting: Waiting::Auto, ..Config::default() }));
}

fn rayon(bound: bool) -> Option<rayon::ThreadPool> {
    let mut builder = rayon::ThreadPoolBuilder::new().num_threads(2);
    if bound {
        builder = builder.start_handler(bind_to);
    }
    builder.build().ok()
}

/// Binds the calling thread to the `index`-th processor of the process.
fn bind_to(index: usize) {
    if let Some(cpu) = round_trip::processor(index) {
        // A processor that went offline: the sample's round trips will not agree.
        let _ = set_affinity(None, &CpuSet::single(cpu));
    }
}

/// Binds the initial thread to the first processor and all others to the second.
pub(crate) fn bind_all_threads() {
    let initial = std::process::id().cast_signed();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return };
    for tid in threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(cpu) = round_trip::processor(usize::from(tid != initial)) {
            // A thread that ended meanwhile needs no binding.
            let _ = set_affinity(Some(Tid(tid)), &CpuSet::single(cpu));
        }
    }
}

type GompParallel = unsafe extern "C" fn(unsafe extern "C" fn(*mut c_void), *mut c_void, c_uint, c_uint);

/// `GOMP_parallel` of the system's libgomp, as compiled programs call it.
fn libgomp() -> Option<Box<dyn FnMut()>> {
    /// # Safety
    /// - None: it does nothing with its data.
    unsafe extern "C" fn nothing(data: *mut c_void) {
        black_box(data);
    }
    let library = open(c"libgomp.so.1", libc::RTLD_NOW)?;
    // SAFETY: - `library` is an open handle, the name a C string.
    let symbol = unsafe { libc::dlsym(library, c"GOMP_parallel".as_ptr()) };
    if symbol.is_null() {
        eprintln!("libgomp.so.1 has no GOMP_parallel");
        return None;
    }
    // SAFETY: - the symbol is libgomp's documented entry with this signature.
    let parallel: GompParallel = unsafe { std::mem::transmute(symbol) };
    // SAFETY: - `nothing` is a C function that takes any pointer.
    Some(Box::new(move || unsafe { parallel(nothing, ptr::null_mut(), 2, 0) }))
}

fn open(name: &CStr, flags: c_int) -> Option<*mut c_void> {
    // SAFETY: - `name` is a C string; loading libgomp runs only its own constructors.
    let library = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if library.is_null() {
        // SAFETY: - after a failed dlopen the message is a C string.
        let why = unsafe { CStr::from_ptr(libc::dlerror().cast_const().cast::<c_char>()) };
        eprintln!("{}: {}", name.to_string_lossy(), why.to_string_lossy());
        return None;
    }
    Some(library)
}
