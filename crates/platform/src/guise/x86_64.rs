//! The registers of an x86-64, and changing them.

use crate::lock::Once;
use std::arch::{asm, naked_asm, x86_64::__cpuid_count};
use std::ffi::c_void;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes of a thread's stack, below where it stands when it lends its guise, that stay its own.
pub const ROOM: usize = 64 << 10;

/// Bit of `AT_HWCAP2`: programs may read and write the thread pointer.
const FSGSBASE: u64 = 1 << 1;
/// Where the kernel finds the restartable sequence that a thread is in, from the beginning of its area.
const SEQUENCE: usize = 8;

/// What the processor knows of a thread.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Guise {
    thread_pointer: usize,
    /// Where the stack of who takes it begins, aligned.
    stack: usize,
    /// MXCSR, and the x87 control word.
    sse: u32,
    x87: u32,
    /// A second base, that some programs use, and the rights of memory protection keys: compared, not changed.
    other_base: usize,
    rights: u32,
    /// Where the stack of who runs a part stands meanwhile; 0: nobody does.
    carrier: usize,
    /// Where that of a suspended part stands; 0: there is none.
    part: usize,
}

/// What a change of stacks leaves on the one that it leaves, and finds on the other one; above it the return address.
#[repr(C)]
struct Saved {
    sse: u32,
    x87: u32,
    thread_pointer: usize,
    r15: usize,
    r14: usize,
    r13: usize,
    r12: usize,
    rbx: usize,
    rbp: usize,
    goes_on: usize,
}

impl Guise {
    /// Reads the calling thread's. Where [`is_possible`] says so.
    ///
    /// # Safety
    /// - [`is_possible`].
    #[inline(always)]
    pub unsafe fn read(&mut self) {
        let (thread_pointer, other_base, stack): (usize, usize, usize);
        // SAFETY: - caller's contract: the processor and the kernel know the instructions. They read registers, and write the two
        //           places.
        unsafe {
            asm!(
                "rdfsbase {0}", "rdgsbase {1}", "mov {2}, rsp", "stmxcsr [{3}]", "fnstcw [{4}]",
                out(reg) thread_pointer, out(reg) other_base, out(reg) stack,
                in(reg) &raw mut self.sse, in(reg) &raw mut self.x87,
                options(nostack, preserves_flags)
            );
        }
        (self.thread_pointer, self.other_base) = (thread_pointer, other_base);
        self.stack = (stack - ROOM) & !63;
        self.rights = rights();
        // SAFETY: - the calling thread's.
        note(unsafe { sequence(thread_pointer) });
    }

    /// Takes over the modes that somebody left who had the calling thread's guise.
    ///
    /// # Safety
    /// - It was read, and run in.
    #[inline(always)]
    pub unsafe fn take_over(&self) {
        // SAFETY: - the values were read from the same registers. What they change is the program's arithmetic, as it wanted.
        unsafe {
            asm!("ldmxcsr [{0}]", "fldcw [{1}]", in(reg) &raw const self.sse, in(reg) &raw const self.x87, options(nostack));
        }
    }

    /// True when a thread whose guise was read, or that took one, was seen to use restartable sequences; or where the two have
    /// other registers that are not exchanged.
    ///
    /// # Safety
    /// - It was read in this process, of a thread that has not ended.
    #[inline]
    pub unsafe fn is_foreign(&self) -> bool {
        let (here, other_base): (usize, usize);
        // SAFETY: - it was read, so that the instructions are there. They read registers.
        unsafe {
            asm!("rdfsbase {0}", "rdgsbase {1}", out(reg) here, out(reg) other_base, options(nostack, nomem, preserves_flags));
        }
        // SAFETY: - the areas of two threads that live.
        note(unsafe { sequence(self.thread_pointer) | sequence(here) });
        // ORDERING: Relaxed - a flag on its own.
        ARE_USED.load(Relaxed) || other_base != self.other_base || rights() != self.rights
    }

    /// Runs `part(argument)` in the guise, on the calling kernel thread, until it ends or is suspended. Cost: some 30 ns.
    ///
    /// # Safety
    /// - `this` was read by a thread that neither runs user code nor touches its thread-locals meanwhile, nor its stack further
    ///   than [`ROOM`] bytes below where it was, and whose stack has as much below that as `part` needs. So until the part has
    ///   ended.
    /// - [`Guise::is_foreign`] is false, and there is no suspended part.
    /// - `part` may be called so on any kernel thread, does not unwind, and takes nothing along that belongs to the caller.
    pub unsafe fn begin(this: *mut Self, part: unsafe extern "C" fn(*mut c_void), argument: *mut c_void) {
        // SAFETY: - caller's contract: nobody else uses the value, nor that stack, which has the room.
        unsafe {
            let Self { thread_pointer, stack, sse, x87, .. } = *this;
            let saved = (stack - size_of::<Saved>()) as *mut Saved;
            let (rbx, r12, r13) = (this as usize, argument as usize, part as usize);
            let goes_on = run_part as *const () as usize;
            saved.write(Saved { sse, x87, thread_pointer, r15: 0, r14: 0, r13, r12, rbx, rbp: 0, goes_on });
            (*this).part = saved as usize;
            Self::resume(this);
        }
    }

    /// Goes on with the suspended part, until it ends or is suspended again. Cost: as [`Guise::begin`].
    ///
    /// # Safety
    /// - There is one; the caller has the guise, or is its own thread.
    pub unsafe fn resume(this: *mut Self) {
        // SAFETY: - caller's contract: what stands there was left by `change`, or by `begin`.
        unsafe { change(&raw mut (*this).carrier, &raw mut (*this).part) };
    }

    /// Leaves the part, in which the caller is, to be gone on with by whoever resumes it; who ran it so far goes on. Cost: as
    /// [`Guise::begin`].
    ///
    /// # Safety
    /// - The caller is in the part of this guise.
    pub unsafe fn suspend(this: *mut Self) {
        // SAFETY: - caller's contract: who runs the part stands in `change`.
        unsafe { change(&raw mut (*this).part, &raw mut (*this).carrier) };
    }

    /// True when `place` is on the stack of a part, one of at most `size` bytes.
    pub fn holds(&self, place: *const u8, size: usize) -> bool {
        let place = place.addr();
        place < self.stack && self.stack - place < size
    }

    /// True when there is a suspended part.
    #[inline]
    pub fn is_suspended(&self) -> bool {
        self.part != 0
    }
}

/// The signals of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Signals(u64);

/// Those by which the C library has all threads do something (`setuid`, `pthread_cancel`): they are never blocked.
const INTERNAL: u64 = 0b11 << 31;

impl Signals {
    /// Blocks the calling thread's, but for the C library's own, and returns which were. A handler would find the
    /// thread-locals of a guise that somebody else may have. Cost: a system call.
    #[inline]
    pub fn block() -> Self {
        Self(!INTERNAL).exchange()
    }

    /// Makes these the blocked ones.
    #[inline]
    pub fn restore(self) {
        self.exchange();
    }

    #[inline]
    fn exchange(self) -> Self {
        let mut before = 0_u64;
        // SAFETY: - two sets of 8 bytes, of which the kernel reads one and writes the other. It refuses nothing of that. The C
        //           library's call would write errno, and takes no signals of its own.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") libc::SYS_rt_sigprocmask => _,
                in("rdi") i64::from(libc::SIG_SETMASK), in("rsi") &raw const self.0, in("rdx") &raw mut before, in("r10") 8_u64,
                lateout("rcx") _, lateout("r11") _,
                options(nostack)
            );
        }
        Self(before)
    }
}

/// Leaves the calling stack at `leave`, and goes on where `enter` stands, with the registers that make the thread.
///
/// # Safety
/// - A [`Saved`] stands at `enter`; nobody else goes on there.
#[unsafe(naked)]
unsafe extern "C" fn change(leave: *mut usize, enter: *mut usize) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "rdfsbase rax",
        "push rax",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov rdx, [rsi]",
        "mov qword ptr [rsi], 0",
        "mov [rdi], rsp",
        "mov rsp, rdx",
        "jmp {go_on}",
        go_on = sym go_on
    )
}

/// Goes on where the stack stands.
///
/// # Safety
/// - It stands at a [`Saved`].
#[unsafe(naked)]
unsafe extern "C" fn go_on() {
    naked_asm!(
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "mov rax, [rsp + 8]",
        "add rsp, 16",
        "wrfsbase rax",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret"
    )
}

/// Where a part begins: calls it, notes the modes that it left, and goes back to who ran it last. Nothing is above.
///
/// # Safety
/// - `begin` put there what it is called with.
#[unsafe(naked)]
unsafe extern "C" fn run_part() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_undefined rip",
        "mov rdi, r12",
        "call r13",
        "stmxcsr [rbx + {sse}]",
        "fnstcw [rbx + {x87}]",
        "mov rsp, [rbx + {carrier}]",
        "mov qword ptr [rbx + {carrier}], 0",
        "jmp {go_on}",
        ".cfi_endproc",
        sse = const offset_of!(Guise, sse),
        x87 = const offset_of!(Guise, x87),
        carrier = const offset_of!(Guise, carrier),
        go_on = sym go_on,
    )
}

/// Restartable sequences were seen to be used in this process.
static ARE_USED: AtomicBool = AtomicBool::new(false);

/// A thread's last restartable sequence: the kernel forgets it where it takes the thread's processor outside of it, so not every
/// look finds one.
#[inline]
fn note(sequence: u64) {
    if sequence != 0 {
        // ORDERING: Relaxed - a flag on its own.
        ARE_USED.store(true, Relaxed);
    }
}

/// The restartable sequence that the thread is in, or was in last.
///
/// # Safety
/// - A thread with that thread pointer lives; [`is_possible`].
#[inline]
unsafe fn sequence(thread_pointer: usize) -> u64 {
    let place = thread_pointer.wrapping_add_signed(area()).wrapping_add(SEQUENCE);
    // SAFETY: - the C library says that the thread's area is there, which has at least 32 bytes. Others write it.
    unsafe { std::ptr::with_exposed_provenance::<u64>(place).read_volatile() }
}

/// The rights of memory protection keys, where the kernel uses them.
#[inline(always)]
fn rights() -> u32 {
    if !has_rights() {
        return 0;
    }
    let rights: u32;
    // SAFETY: - the kernel has switched the instruction on; it reads a register.
    unsafe { asm!("rdpkru", in("ecx") 0, out("eax") rights, out("edx") _, options(nostack, nomem, preserves_flags)) };
    rights
}

/// What is found out once.
struct Process {
    is_possible: bool,
    has_rights: bool,
    /// Bytes from the thread pointer to the area of `rseq`.
    area: isize,
}

fn process() -> &'static Process {
    static PROCESS: Once<Process> = Once::new();
    PROCESS.get_or_init(|| {
        let names = Names::read();
        // SAFETY: - the C library's own words, which it wrote before the program began.
        let (area, size) = unsafe { (names.offset.as_ref(), names.size.as_ref()) };
        // SAFETY: - asks for a number.
        let may_write = unsafe { libc::getauxval(libc::AT_HWCAP2) } & FSGSBASE != 0;
        let has_area = area.is_some() && size.is_some_and(|&size| size > 0);
        let leaf = __cpuid_count(7, 0);
        Process {
            is_possible: may_write && has_area && !names.has_sanitizer && !has_shadow_stack(),
            has_rights: leaf.ecx & (1 << 4) != 0,
            area: area.copied().unwrap_or(0),
        }
    })
}

#[inline]
fn area() -> isize {
    process().area
}

#[inline]
fn has_rights() -> bool {
    process().has_rights
}

/// True when a thread of this process may take another's guise. Cost: a load.
#[inline]
pub fn is_possible() -> bool {
    process().is_possible
}

fn has_shadow_stack() -> bool {
    let pointer: u64;
    // SAFETY: - reads a register, or does nothing.
    unsafe { asm!("xor eax, eax", "rdsspq rax", out("rax") pointer, options(nostack, nomem)) };
    pointer != 0
}

/// Names that a process may have or not: null where it has not.
struct Names {
    offset: *const isize,
    size: *const u32,
    has_sanitizer: bool,
}

impl Names {
    fn read() -> Self {
        let (offset, size, address, thread, memory): (usize, usize, usize, usize, usize);
        // SAFETY: - loads five words that the linker fills in.
        unsafe {
            asm!(
                ".weak __rseq_offset",
                ".weak __rseq_size",
                ".weak __asan_init",
                ".weak __tsan_init",
                ".weak __msan_init",
                "mov {0}, [rip + __rseq_offset@GOTPCREL]",
                "mov {1}, [rip + __rseq_size@GOTPCREL]",
                "mov {2}, [rip + __asan_init@GOTPCREL]",
                "mov {3}, [rip + __tsan_init@GOTPCREL]",
                "mov {4}, [rip + __msan_init@GOTPCREL]",
                out(reg) offset, out(reg) size, out(reg) address, out(reg) thread, out(reg) memory,
                options(nostack, pure, readonly)
            );
        }
        let has_sanitizer = [address, thread, memory].into_iter().any(|name| name != 0);
        Self {
            offset: std::ptr::with_exposed_provenance(offset),
            size: std::ptr::with_exposed_provenance(size),
            has_sanitizer,
        }
    }
}
