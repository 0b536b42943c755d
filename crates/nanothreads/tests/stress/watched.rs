//! What a program that hangs was at: the engine's view, the kernel's, and the stacks where there is a debugger.

use std::process::{Command, Stdio};

pub(crate) fn report() {
    eprint!("{}", nanothreads::engine::report());
    eprintln!("{:#?}", nanothreads::statistics());
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let stat = read("stat");
        // Behind the name, which may have blanks: the state, and as the 12th and 13th the ticks in program and kernel.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or("?");
        let (name, place) = (read("comm"), read("wchan"));
        eprintln!("{}: {}, {} in {place}, ticks {}", task.file_name().display(), name.trim(), field(0), field(11));
    }
    let pid = std::process::id().to_string();
    let mut debugger = Command::new("gdb");
    debugger.args(["-p", &pid, "-batch", "-ex", "thread apply all bt 30"]).stdin(Stdio::null());
    match debugger.status() {
        Ok(_) => {}
        Err(error) => eprintln!("no stacks: gdb: {error}"),
    }
}
