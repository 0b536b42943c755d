//! What a hot team's fork and join executes, instruction by instruction: no read-modify-write, no
//! fence, no system call and no allocation (but in the twins, in whose regions they are planted).
//! Optimised, some have a bar: no more instructions than now.
//!
//! A child process runs regions between two marks (`xchg rbx, rbx` does nothing) on a thread that
//! this process single-steps; the team's other thread runs freely. That thread is the master, or
//! the worker, which is then stepped from the end of its part in one region to the beginning of the
//! next.

use crate::process::{again, is_again, start};
use engine::sizer::Fixed;
use engine::{Dispatch, Member, Team};
use libtest_mimic::Trial;
use nanothreads::{Schedule, Waiting, par_for};
use std::hint::black_box;
use std::process::{Child, Stdio};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Regions that are looked at until one has nothing in it that must not be there.
const TRIES: u32 = 10;

/// What is run, and what must be found in it.
const CASES: [(&str, Option<&str>); 12] = [
    ("lines", None),
    ("lines worker", None),
    ("ring", None),
    ("ring worker", None),
    ("safe broadcast", None),
    ("captures", None),
    ("kept team", None),
    ("reduction", None),
    ("planted lock", Some("read-modify-write")),
    ("planted fence", Some("fence")),
    ("planted call", Some("system call")),
    ("planted box", Some("allocation")),
];

/// The most instructions of a region in an optimised build, as they were counted last
/// (`cargo test --profile bench -p nanothreads --test first_thread -- instructions`). A hundred
/// of a kept team's are its members' marks that they have ended their bodies, without which a
/// member that waits for one of them would wait for ever.
const BARS: [(&str, u64); 3] = [("lines", 310), ("safe broadcast", 605), ("kept team", 769)];
/// Part of a bar by which another compiler may exceed it.
const TOLERANCE: f64 = 0.05;

/// The bar of a case, with what another compiler may add; `None`: it has none in this build.
fn bar(case: &str) -> Option<u64> {
    let (_, bar) = BARS.iter().find(|(name, _)| *name == case)?;
    (!cfg!(debug_assertions)).then_some((*bar as f64 * (1.0 + TOLERANCE)) as u64)
}

/// One for each case.
pub(crate) fn trials() -> impl Iterator<Item = Trial> {
    CASES.into_iter().map(|(case, expected)| {
        let test = format!("instructions::{}", case.replace(' ', "_"));
        Trial::test(test.clone(), move || {
            if is_again(&test) {
                traced(case)
            } else {
                check_case(&test, case, expected)
            }
            Ok(())
        })
    })
}

/// Looks at regions until one has nothing in it that must not be there, and no more than its bar.
fn check_case(test: &str, case: &str, expected: Option<&str>) {
    // Where other programs take processors away, a region may see it and run with claims for some
    // time, as it should. What every region executes is found in every try.
    for tries_left in (0..TRIES).rev() {
        let Trace { found, instructions } = match trace(test) {
            Ok(trace) => trace,
            Err(reason) => return platform::skip!("{case}: {reason}"),
        };
        let bar = bar(case);
        let is_right = match expected {
            None => found.is_empty() && bar.is_none_or(|bar| instructions <= bar),
            Some(kind) => found.iter().any(|(found, _)| *found == kind),
        };
        println!(
            "{case}: {instructions} instructions (bar: {bar:?}), found {found:x?}: {}",
            if is_right { "ok" } else { "WRONG" }
        );
        if is_right {
            return;
        }
        assert!(
            expected.is_none() && tries_left > 0,
            "{case}: found {found:x?}, expected {expected:?}; {instructions} instructions, the \
             bar is {bar:?}"
        );
    }
}

fn mark() {
    // SAFETY: - exchanges a register with itself.
    unsafe { std::arch::asm!("xchg rbx, rbx", options(nostack, preserves_flags)) };
}

/// From here on the parent is told of this thread's stops.
fn be_traced() {
    // SAFETY: - takes no pointers.
    let refused = unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) } != 0;
    if refused {
        std::process::exit(SKIP);
    }
    // SAFETY: - stops this thread, until the parent goes on with it.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Exit status of a child that may not be traced.
const SKIP: i32 = 77;
/// Regions before the steps begin, and while a worker is stepped.
const WARM_UP: u32 = 200;

/// The child: regions of two threads, the last one between marks.
fn traced(case: &str) {
    /// # Safety
    /// - None: it does nothing with its data.
    unsafe fn nothing(_: *const (), member: Member) {
        black_box(member);
    }
    static SHARED: AtomicU32 = AtomicU32::new(0);
    /// # Safety
    /// - None: it does nothing with its data.
    unsafe fn lock(_: *const (), _: Member) {
        SHARED.fetch_add(1, Relaxed);
    }
    /// # Safety
    /// - None: it does nothing with its data.
    unsafe fn fence(_: *const (), _: Member) {
        // SAFETY: - orders memory, nothing else.
        unsafe { std::arch::x86_64::_mm_mfence() };
    }
    /// # Safety
    /// - None: it does nothing with its data.
    unsafe fn call(_: *const (), _: Member) {
        // SAFETY: - takes no arguments.
        black_box(unsafe { libc::syscall(libc::SYS_getppid) });
    }
    /// # Safety
    /// - None: it does nothing with its data.
    unsafe fn allocate(_: *const (), _: Member) {
        drop(black_box(Box::new(black_box(7_u64))));
    }
    /// The worker's part: ends one stretch of its steps, and begins the next.
    ///
    /// # Safety
    /// - `data` points to the region's number, an `AtomicU32`.
    unsafe fn stepped(data: *const (), member: Member) {
        // SAFETY: - caller's contract.
        let region = unsafe { &*data.cast::<AtomicU32>() }.load(Relaxed);
        if member.id == 1 {
            if region == WARM_UP {
                be_traced();
            }
            if region >= WARM_UP {
                mark();
            }
        }
    }
    fn run(dispatch: Dispatch, work: engine::Work, data: *const ()) {
        let team = Team::reserve(2).dispatched(dispatch);
        // SAFETY: - the works of this test want nothing or the region's number, and do not unwind.
        unsafe { team.run(work, data) };
    }

    assert!(
        nanothreads::builder()
            .waiting(Waiting::Active)
            .adapt(false)
            .sizer(Fixed::new(2))
            .install()
            .is_ok()
    );
    if let Some(kind) = case.strip_suffix(" worker") {
        let dispatch = if kind == "lines" { Dispatch::Lines } else { Dispatch::Broadcast };
        let number = AtomicU32::new(0);
        for region in 0..WARM_UP + 4 {
            number.store(region, Relaxed);
            run(dispatch, stepped, ptr::from_ref(&number).cast());
        }
        return;
    }
    let (captured, larger) = (&black_box(1), black_box([2_u64; 4]));
    let kept = nanothreads::Team::exact(2).expect("threads");
    let region: &dyn Fn() = match case {
        "lines" => &|| run(Dispatch::Lines, nothing, ptr::null()),
        "ring" => &|| run(Dispatch::Broadcast, nothing, ptr::null()),
        "safe broadcast" => &|| nanothreads::broadcast(|member| _ = black_box(member)),
        // In the line; on the master's stack with what a kept team adds.
        "captures" => &|| nanothreads::broadcast(|member| _ = black_box((member, captured))),
        "kept team" => &|| kept.run(|member| _ = black_box((member.id(), captured, larger))),
        // Static: other schedules deal by read-modify-write once a member has run out of its own
        // part.
        "reduction" => &|| {
            _ = black_box(par_for(0..100).schedule(Schedule::Static).reduce(
                0.0,
                |i| i as f64,
                |a, b| a + b,
            ))
        },
        "planted lock" => &|| run(Dispatch::Lines, lock, ptr::null()),
        "planted fence" => &|| run(Dispatch::Lines, fence, ptr::null()),
        "planted call" => &|| run(Dispatch::Lines, call, ptr::null()),
        "planted box" => &|| run(Dispatch::Lines, allocate, ptr::null()),
        other => panic!("no case {other}"),
    };
    (0..WARM_UP).for_each(|_| region());
    be_traced();
    // Mask and quota are looked at now and then, by a system call: in one of sixteen regions of the
    // safe interface.
    region();
    mark();
    region();
    mark();
}

/// What the steps between the first two marks were.
struct Trace {
    /// Kind and address of what must not be there.
    found: Vec<(&'static str, u64)>,
    instructions: u64,
}

/// Runs the child and steps through it.
fn trace(test: &str) -> Result<Trace, String> {
    let mut command = again(test);
    command.stdout(Stdio::null()).stderr(Stdio::inherit()).env("NANOS_CPUMGR", "off");
    let child = start(command);
    let mut child = Ended(child);
    let tid = stopped(&mut child.0)?;
    let allocators = allocator_addresses(&child.0)?;
    let (mut marks, mut trace) = (0, Trace { found: Vec::new(), instructions: 0 });
    while marks < 2 {
        // SAFETY: - `registers` is as large as the kernel writes.
        let registers = unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            asked(libc::ptrace(libc::PTRACE_GETREGS, tid, 0, &raw mut registers))?;
            registers
        };
        let code = code_at(tid, registers.rip)?;
        if code.starts_with(&[0x48, 0x87, 0xdb]) {
            marks += 1;
        } else if marks == 1 {
            trace.instructions += 1;
            let kind = if allocators.contains(&registers.rip) {
                Some("allocation")
            } else {
                kind_of(&code)
            };
            trace.found.extend(kind.map(|kind| (kind, registers.rip)));
        }
        // SAFETY: - takes no pointers.
        asked(unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, tid, 0, 0) })?;
        let mut status = 0;
        // SAFETY: - `status` outlives the call.
        if unsafe { libc::waitpid(tid, &raw mut status, libc::__WALL) } != tid
            || !libc::WIFSTOPPED(status)
        {
            return Err(format!(
                "the stepped thread ended after {marks} marks (status {status:x})"
            ));
        }
    }
    Ok(trace)
}

/// Kills the child when the parent is done with it.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let mut status = 0;
        // The stepped thread is reaped by itself, and before its process can be. Nothing else is
        // waited for here.
        // SAFETY: - `status` outlives the call.
        while unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) } > 0 {}
    }
}

fn asked(result: libc::c_long) -> Result<(), String> {
    if result == -1 { Err(format!("ptrace: {}", std::io::Error::last_os_error())) } else { Ok(()) }
}

/// Waits until a thread of the child has stopped to be traced; returns its number.
fn stopped(child: &mut Child) -> Result<libc::pid_t, String> {
    let mut status = 0;
    // SAFETY: - `status` outlives the call. Only this child is waited for: it is the only one.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
    if tid > 0 && libc::WIFSTOPPED(status) {
        return Ok(tid);
    }
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == SKIP {
        return Err("this system does not let a process be traced".to_owned());
    }
    Err(format!("the child {} ended before it was traced (status {status:x})", child.id()))
}

/// Where the allocator's functions are in the child: where they are here, moved with the C library.
fn allocator_addresses(child: &Child) -> Result<Vec<u64>, String> {
    let base = |process: &str| -> Option<u64> {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
        let line = maps.lines().find(|line| line.contains("libc.so") || line.contains("libc-"))?;
        u64::from_str_radix(line.split('-').next()?, 16).ok()
    };
    let (here, there) = (base("self"), base(&child.id().to_string()));
    let (Some(here), Some(there)) = (here, there) else {
        return Err("no C library is mapped".to_owned());
    };
    let functions = [
        libc::malloc as *const () as u64,
        libc::calloc as *const () as u64,
        libc::realloc as *const () as u64,
        libc::free as *const () as u64,
        libc::posix_memalign as *const () as u64,
    ];
    Ok(functions
        .into_iter()
        .map(|address| address.wrapping_sub(here).wrapping_add(there))
        .collect())
}

/// The next bytes of code of a stopped thread.
fn code_at(tid: libc::pid_t, address: u64) -> Result<[u8; 16], String> {
    let mut code = [0; 16];
    for (at, bytes) in code.chunks_mut(8).enumerate() {
        // A word that is -1 cannot be told from a failure but by the error number, which is cleared
        // before.
        // SAFETY: - the error number is this thread's own.
        unsafe { *libc::__errno_location() = 0 };
        // SAFETY: - reads the other process; nothing of ours is touched.
        let word = unsafe { libc::ptrace(libc::PTRACE_PEEKTEXT, tid, address + 8 * at as u64, 0) };
        // The second word may be after the last page of code.
        if at == 0 && word == -1 && std::io::Error::last_os_error().raw_os_error() != Some(0) {
            return Err(format!("no code at {address:x}"));
        }
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    Ok(code)
}

/// What an instruction does that a hot region must not do.
fn kind_of(code: &[u8]) -> Option<&'static str> {
    let is_prefix = |byte: &u8| {
        matches!(byte, 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65)
    };
    let prefixes = code.iter().take_while(|byte| is_prefix(byte)).count();
    let has_lock = code[..prefixes].contains(&0xf0);
    let rex = usize::from(code.get(prefixes).is_some_and(|byte| byte & 0xf0 == 0x40));
    let opcode = &code[prefixes + rex..];
    match opcode {
        _ if has_lock => Some("read-modify-write"),
        // xchg with memory locks by itself.
        [0x86 | 0x87, modrm, ..] if modrm >> 6 != 3 => Some("read-modify-write"),
        [0x0f, 0xae, 0xe8..=0xff, ..] => Some("fence"),
        [0x0f, 0x05 | 0x34, ..] | [0xcd, 0x80, ..] => Some("system call"),
        _ => None,
    }
}
