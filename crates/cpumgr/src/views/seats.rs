//! On which processors the threads of a process ran last, as the kernel says it.

use procfs::process::Process;
use serde::Serialize;

use crate::escape::escape;

/// The most threads of one process that are looked at.
const MOST: usize = 1024;

/// A thread, and where it ran last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Seat {
    /// Its process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// Its name, escaped.
    pub name: String,
    /// The processor that it ran on last.
    pub cpu: u32,
    /// What the kernel says of it: `R` runs or could, `S` sleeps, and so on.
    pub state: char,
}

/// The threads of process `pid`; none when it has ended.
pub(super) fn of_process(pid: i32) -> Vec<Seat> {
    let tasks = Process::new(pid).and_then(|process| process.tasks());
    let Ok(tasks) = tasks else { return Vec::new() };
    let seat = |task: procfs::process::Task| {
        let stat = task.stat().ok()?;
        Some(Seat {
            pid,
            tid: stat.pid,
            name: escape(stat.comm.as_bytes()),
            cpu: stat.processor.and_then(|cpu| u32::try_from(cpu).ok())?,
            state: stat.state,
        })
    };
    tasks.take(MOST).filter_map(|task| seat(task.ok()?)).collect()
}
