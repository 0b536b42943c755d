//! What a program that hangs was at: the engine's view, the kernel's, and the stacks where there is
//! a debugger.

use std::fs::{self, File};
use std::io::Write;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) fn report() {
    eprint!("{}", engine::report());
    eprintln!("{:#?}", nanothreads::statistics());
    eprint!("{}", threads());
    let pid = std::process::id().to_string();
    let mut debugger = Command::new("gdb");
    debugger.args(["-p", &pid, "-batch", "-ex", "thread apply all bt 30"]).stdin(Stdio::null());
    match debugger.status() {
        Ok(_) => {}
        Err(error) => eprintln!("no stacks: gdb: {error}"),
    }
}

/// The threads of this process, a line each: what the kernel says of them.
fn threads() -> String {
    let mut lines = format!("the program lies at {}\n", base());
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        lines += &format!("{}: {}\n", task.file_name().display(), thread(&task.path()));
    }
    lines
}

/// Name, state, where it sleeps, the system call that it is in with its arguments, ticks in the
/// program.
fn thread(task: &Path) -> String {
    let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default();
    let stat = read("stat");
    // After the name, which may have blanks: the state, and as the 12th and 13th the ticks in
    // program and kernel.
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |at: usize| fields.get(at).copied().unwrap_or("?");
    let (name, place, call) = (read("comm"), read("wchan"), read("syscall"));
    format!("{}, {} in {place}, call {}, ticks {}", name.trim(), field(0), call.trim(), field(11))
}

/// Where the program was loaded: the lowest address of the first file that is mapped.
fn base() -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    maps.split('-').next().unwrap_or_default().to_owned()
}

/// Has the calling process, a forked child, say what its threads are at before it ends, when it
/// takes `seconds`.
pub(crate) fn end_after(seconds: u32) {
    extern "C" fn tell(signal: libc::c_int) {
        // SAFETY: - from here on the signal ends the process: the next one comes if what follows
        // hangs, too, on some lock.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::alarm(10);
        }
        // SAFETY: - the descriptor is only borrowed. `std::io::stderr` has a lock, which a thread
        // of the parent may have held.
        let mut stderr = ManuallyDrop::new(unsafe { File::from_raw_fd(2) });
        let _ = stderr.write_all(format!("a forked child hangs; {}", threads()).as_bytes());
        // SAFETY: - ends the process by the signal, once the handler returned.
        unsafe { libc::raise(signal) };
    }
    // SAFETY: - the handler may run at any place of this child, which is lost then: it allocates,
    //           and if that hangs, the second alarm ends the child.
    unsafe {
        libc::signal(libc::SIGALRM, tell as *const () as libc::sighandler_t);
        libc::alarm(seconds);
    }
}
