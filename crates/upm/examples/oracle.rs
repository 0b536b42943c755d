//! The tool that `cargo xtask vm oracle` links to the C kernels, in a guest with four nodes: places
//! the kernels' arrays, runs an engine of page migration at the borders of their outer loop, and
//! marks the iterations for the plugin that counts (`xtask/vm/oracle.c`).
//!
//! Arguments: kernel, class, placement, engine, iterations, how often each phase runs in one. The
//! first iteration places pages and is not counted. Prints lines `oracle: NAME VALUE`.
//!
//! The engine `upm` counts what the kernel's loops say that they touch, `sampled` first accesses by
//! access rights, as of a program that says nothing.
#![allow(clippy::unwrap_used, reason = "a run that cannot be made has failed")]
#![allow(clippy::print_stdout, reason = "this is what it is for")]

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use platform::numa::{self, Pages, Policy};
use upm::source::{Ledger, LoopSchedule, Pattern, Scope, TrapParameters, TrapSource};
use upm::{KernelMover, KernelTopology, Node, Parameters, Placement, Topology, Upm};

/// How many times longer than the first iteration windows are apart, in the mean, and open: the
/// engine for programs that know nothing of it does the same.
const PART: u32 = 24;
/// Counted iterations that the iterative engine has before phases are recorded.
const BEFORE_PHASES: usize = 3;
/// Pages of 4 KiB that move before a phase, at most: as much memory as the paper's 20 of 16 KiB.
const CRITICAL: usize = 80;
const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
/// Fast enough to act within a run: by default it looks once a second at most.
const SCANS: [(&str, &str); 2] = [("scan_delay_ms", "10"), ("scan_period_min_ms", "50")];

#[derive(Clone, Copy, PartialEq)]
enum Engine {
    Nothing,
    Kernel,
    Iterative,
    Sampled,
    Phases,
}

/// What the kernels' loops say.
static LEDGER: LazyLock<Arc<Ledger>> = LazyLock::new(Arc::default);

struct Run {
    topology: KernelTopology,
    placement: Placement,
    engine: Engine,
    upm: Upm<'static>,
    arrays: Vec<Range<usize>>,
    iterations: usize,
    /// `None` before the first one has ended.
    counted: Option<usize>,
    /// The counted iterations in which references were sampled.
    sampled: usize,
    began: Instant,
    seconds: Vec<f64>,
    /// Seconds of each iteration in which pages moved between its phases.
    moving: Vec<f64>,
    balanced: u64,
}

thread_local! {
    /// Of the first thread, which alone meets the borders.
    static RUN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

/// Whether to leave something undone, so that a check of the guest can be seen failing.
static BREAKS: AtomicBool = AtomicBool::new(false);

/// How often each phase runs in an iteration.
static REPEATS: AtomicI32 = AtomicI32::new(1);

/// Executes a no-operation with a word in it.
macro_rules! mark {
    ($word:literal) => {
        // SAFETY: - it does nothing.
        unsafe {
            std::arch::asm!(
                ".byte 0x0f, 0x1f, 0x80",
                concat!(".ascii \"", $word, "\""),
                options(nostack, preserves_flags)
            );
        }
    };
}

/// Writes to the page after the mark, as one piece of code that a translator does not divide.
macro_rules! write_marked {
    ($word:literal, $page:expr) => {
        // SAFETY: - the caller's page.
        unsafe {
            std::arch::asm!(
                "jmp 2f",
                ".p2align 6",
                "2:",
                ".byte 0x0f, 0x1f, 0x80",
                concat!(".ascii \"", $word, "\""),
                "mov byte ptr [{page}], 1",
                page = in(reg) $page,
                options(nostack, preserves_flags)
            );
        }
    };
}

/// Shows the plugin pages whose nodes are known.
fn calibrate() {
    let page = numa::page_bytes();
    for node in 0..4u32 {
        let pages = Pages::map(8 * page).unwrap();
        let told = if BREAKS.load(Relaxed) { (node + 1) % 4 } else { node };
        numa::bind(pages.addresses(), Policy::Bind, &[told]).unwrap();
        for at in pages.addresses().step_by(page) {
            // SAFETY: - a page of this function, that it may write.
            unsafe { std::ptr::without_provenance_mut::<u8>(at).write_volatile(0) };
            match node {
                0 => write_marked!("NOD0", at),
                1 => write_marked!("NOD1", at),
                2 => write_marked!("NOD2", at),
                _ => write_marked!("NOD3", at),
            }
        }
    }
}

/// A counter of the kernel.
fn counter(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap();
    let mut found = text.lines().filter_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    found.next().unwrap_or(0)
}

fn set_balancing(is_on: bool) {
    if is_on {
        for (name, value) in SCANS {
            // A kernel without these files balances at its own pace.
            let _own =
                std::fs::write(format!("/sys/kernel/debug/sched/numa_balancing/{name}"), value);
        }
    }
    std::fs::write(BALANCING, if is_on { "1" } else { "0" }).unwrap();
}

/// On which nodes the arrays' pages are.
fn homes(arrays: &[Range<usize>]) -> [usize; 4] {
    let mut found = [0; 4];
    for array in arrays {
        let pages: Vec<usize> = array.clone().step_by(numa::page_bytes()).collect();
        let mut status = vec![-1; pages.len()];
        numa::move_pages(&pages, None, &mut status).unwrap();
        for node in status {
            if let Some(found) = usize::try_from(node).ok().and_then(|node| found.get_mut(node)) {
                *found += 1;
            }
        }
    }
    found
}

impl Run {
    fn new(placement: &str, engine: &str, iterations: usize) -> Self {
        let topology = KernelTopology::read().unwrap();
        assert_eq!(topology.homes(), 4, "this machine has no four nodes");
        let source = Box::new(TrapSource::new(TrapParameters::default()));
        let mover = KernelMover::new(topology.clone());
        let parameters = Parameters { critical_pages: CRITICAL, ..Parameters::default() };
        let upm = Upm::with(topology.clone(), mover, source, parameters);
        let placement = match placement {
            "first-touch" => Placement::FirstTouch,
            "round-robin" => Placement::RoundRobin,
            "random" => Placement::Random(20_000),
            "worst-case" => Placement::WorstCase(Node(0)),
            _ => panic!("unknown placement {placement}"),
        };
        let engine = match engine {
            "nothing" => Engine::Nothing,
            "kernel" => Engine::Kernel,
            "upm" => Engine::Iterative,
            "sampled" => Engine::Sampled,
            "record-replay" => Engine::Phases,
            _ => panic!("unknown engine {engine}"),
        };
        let (arrays, seconds, moving) = (Vec::new(), Vec::new(), Vec::new());
        let began = Instant::now();
        Self {
            topology,
            placement,
            engine,
            upm,
            arrays,
            iterations,
            counted: None,
            sampled: 0,
            began,
            seconds,
            moving,
            balanced: 0,
        }
    }

    fn array(&mut self, begin: usize, bytes: usize) {
        let page = numa::page_bytes();
        assert_eq!(begin % page, 0, "an array that does not begin with a page");
        let whole = begin..(begin + bytes).next_multiple_of(page);
        // The kernel's huge pages would make 512 pages one.
        numa::advise(whole.clone(), numa::Advice::NoHugePages).unwrap();
        let mut mover = KernelMover::new(self.topology.clone());
        // SAFETY: - whole pages of a kernel, which has not used them yet.
        let placed = unsafe {
            upm::placement::place(whole.clone(), self.placement, &self.topology, &mut mover)
        };
        assert_eq!(placed.unwrap().elsewhere, 0, "pages that could not be placed");
        // SAFETY: - the kernels keep their arrays to the end, and change no rights.
        unsafe { self.upm.watch_raw(begin, whole.len()) }.unwrap();
        self.arrays.push(whole);
    }

    fn begin(&mut self) {
        self.began = Instant::now();
        let Some(iteration) = self.counted else { return };
        mark!("BITR");
        match self.engine {
            Engine::Nothing | Engine::Kernel => {}
            Engine::Phases if iteration == BEFORE_PHASES => {
                // SAFETY: - the arrays stay.
                unsafe { self.upm.begin(Scope::Phases) };
                self.upm.record();
            }
            Engine::Phases if iteration > BEFORE_PHASES => {
                self.upm.replay();
            }
            Engine::Iterative | Engine::Sampled | Engine::Phases => {
                self.sampled += usize::from(self.upm.is_on());
                // SAFETY: - the arrays stay.
                unsafe { self.upm.begin(Scope::Iteration) };
            }
        }
    }

    fn phase(&mut self) {
        match self.counted {
            Some(iteration) if self.engine == Engine::Phases && iteration == BEFORE_PHASES => {
                self.upm.record();
            }
            Some(iteration) if self.engine == Engine::Phases && iteration > BEFORE_PHASES => {
                self.upm.replay();
            }
            _ => {}
        }
    }

    /// True when it was the last one.
    fn end(&mut self) -> bool {
        let Some(iteration) = self.counted else {
            self.first_ended();
            return false;
        };
        match self.engine {
            Engine::Nothing | Engine::Kernel => {}
            Engine::Phases if iteration == BEFORE_PHASES => {
                self.upm.record();
                println!("oracle: planned {}", self.upm.compare_counters());
            }
            Engine::Phases if iteration > BEFORE_PHASES => {
                self.upm.undo();
            }
            Engine::Iterative | Engine::Sampled | Engine::Phases => {
                if BREAKS.load(Relaxed) {
                    self.upm.stop();
                } else {
                    self.upm.migrate_memory();
                }
            }
        }
        mark!("EITR");
        self.seconds.push(self.began.elapsed().as_secs_f64());
        let before: f64 = self.moving.iter().sum();
        let moved = Duration::from_nanos(self.upm.statistics().phase_nanoseconds).as_secs_f64();
        self.moving.push(moved - before);
        self.counted = Some(iteration + 1);
        iteration + 1 == self.iterations
    }

    /// The pages are where the first touch, or the scheme, put them.
    fn first_ended(&mut self) {
        let part = u64::try_from((self.began.elapsed() / PART).as_nanos()).unwrap();
        let sampling = TrapParameters { interval: part, length: part, ..TrapParameters::default() };
        if self.engine == Engine::Sampled {
            self.upm.set_source(Box::new(TrapSource::new(sampling)));
        } else {
            self.upm.set_source(Box::new(LoopSchedule::with_ledger(LEDGER.clone())));
        }
        println!("oracle: homes_before {:?}", homes(&self.arrays));
        if self.engine == Engine::Kernel {
            // Pages with a policy of their own are not balanced.
            for array in &self.arrays {
                numa::bind(array.clone(), Policy::Default, &[]).unwrap();
            }
            self.balanced = counter("numa_pages_migrated");
            set_balancing(!BREAKS.load(Relaxed));
        }
        self.counted = Some(0);
        mark!("BRUN");
    }

    fn finish(&mut self) {
        mark!("ERUN");
        if self.engine == Engine::Kernel {
            set_balancing(false);
            println!("oracle: balanced {}", counter("numa_pages_migrated") - self.balanced);
        }
        println!("oracle: homes_after {:?}", homes(&self.arrays));
        let statistics = self.upm.statistics();
        let calls: Vec<usize> = statistics.calls.iter().map(upm::Call::migrations).collect();
        println!("oracle: pages {}", self.arrays.iter().map(|a| a.len() / 4096).sum::<usize>());
        println!("oracle: calls {calls:?}");
        println!("oracle: sampled {}", self.sampled);
        println!("oracle: frozen {}", statistics.frozen);
        println!("oracle: replayed {}", statistics.replayed);
        println!("oracle: seconds {:.3?}", self.seconds);
        println!("oracle: moving {:.6?}", self.moving);
        if self.engine == Engine::Phases {
            println!("oracle: replay_is_off {}", self.upm.phases().is_off());
        }
        if matches!(self.engine, Engine::Iterative | Engine::Sampled | Engine::Phases) {
            println!("{statistics}");
        }
    }
}

fn with(work: impl FnOnce(&mut Run)) {
    RUN.with_borrow_mut(|run| run.as_mut().map(work));
}

/// See `kernels/c/common/outer.h`.
#[unsafe(no_mangle)]
extern "C" fn outer_array(memory: *mut c_void, bytes: usize) {
    with(|run| run.array(memory.addr(), bytes));
}

#[unsafe(no_mangle)]
extern "C" fn outer_begin() {
    with(Run::begin);
}

#[unsafe(no_mangle)]
extern "C" fn outer_phase() {
    with(Run::phase);
}

#[unsafe(no_mangle)]
extern "C" fn outer_end() {
    let mut is_last = false;
    with(|run| {
        is_last = run.end();
        if is_last {
            run.finish();
        }
    });
    if is_last {
        std::process::exit(0);
    }
}

#[unsafe(no_mangle)]
extern "C" fn outer_repeats() -> c_int {
    REPEATS.load(Relaxed)
}

#[unsafe(no_mangle)]
extern "C" fn outer_asks() -> bool {
    LEDGER.is_recording()
}

/// On any thread, in a region.
#[unsafe(no_mangle)]
extern "C" fn outer_touch(memory: *const c_void, stride: usize, bytes: usize, count: usize) {
    LEDGER.ran_here(&Pattern { base: memory.addr(), stride, bytes, times: 1 }, 0..count);
}

// SAFETY: - the kernels' first functions, renamed by the compiler's command line.
unsafe extern "C" {
    fn bt_main(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn sp_main(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn cg_main(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn mg_main(count: c_int, arguments: *mut *mut c_char) -> c_int;
    fn ft_main(count: c_int, arguments: *mut *mut c_char) -> c_int;
}

/// The program's first function, as the C library calls it.
///
/// # Safety
/// - `arguments` has `count` strings.
#[unsafe(no_mangle)]
unsafe extern "C" fn main(count: c_int, arguments: *mut *mut c_char) -> c_int {
    let count = usize::try_from(count).unwrap();
    // SAFETY: - the caller's promise.
    let words: Vec<&str> = unsafe { std::slice::from_raw_parts(arguments, count) }
        .iter()
        // SAFETY: - the caller's promise.
        .map(|word| unsafe { CStr::from_ptr(*word) }.to_str().unwrap())
        .collect();
    let [_, kernel, class, placement, engine, iterations, repeats] = words[..] else {
        println!("usage: oracle KERNEL CLASS PLACEMENT ENGINE ITERATIONS REPEATS");
        return 2;
    };
    BREAKS.store(std::env::var_os("ORACLE_BREAKS").is_some(), Relaxed);
    REPEATS.store(repeats.parse().unwrap(), Relaxed);
    numa::set_thread_policy(Policy::Default, &[]).unwrap();
    calibrate();
    RUN.set(Some(Run::new(placement, engine, iterations.parse().unwrap())));
    let class = std::ffi::CString::new(class).unwrap();
    let mut given: Vec<*mut c_char> = [c"kernel", c"--class", &class, c"--repeat", c"1000"]
        .iter()
        .map(|word| word.as_ptr().cast_mut())
        .collect();
    given.push(std::ptr::null_mut());
    let (count, given) = (5, given.as_mut_ptr());
    // SAFETY: - five strings that live as long as this function.
    let code = unsafe {
        match kernel {
            "bt" | "bt-long" => bt_main(count, given),
            "sp" => sp_main(count, given),
            "cg" => cg_main(count, given),
            "mg" => mg_main(count, given),
            "ft" => ft_main(count, given),
            _ => 2,
        }
    };
    println!("oracle: {kernel} ended before its last iteration");
    code.max(1)
}
