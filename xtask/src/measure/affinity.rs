//! Threads and processes on one processor.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, ensure};

/// One processor, as the kernel wants it.
#[derive(Clone, Copy)]
pub(super) struct Place(libc::cpu_set_t);

impl Place {
    pub(super) fn of(processor: u32) -> anyhow::Result<Place> {
        // SAFETY: all zero is a valid, empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let (number, most) = (processor as usize, size_of::<libc::cpu_set_t>() * 8);
        ensure!(number < most, "processor {processor} is beyond this set's {most}");
        // SAFETY: the set is initialised, and the number was checked above.
        unsafe { libc::CPU_SET(number, &mut set) };
        Ok(Place(set))
    }

    /// Binds the calling thread. Allocates nothing.
    pub(super) fn bind(&self) -> io::Result<()> {
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: 0 is the calling thread; the set is live and of that size.
        match unsafe { libc::sched_setaffinity(0, size, &raw const self.0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Binds the calling thread.
pub(super) fn bind(processor: u32) -> anyhow::Result<()> {
    let bound = Place::of(processor)?.bind();
    bound.with_context(|| format!("cannot bind a thread to processor {processor}"))
}

/// A process that computes for ever, wherever the kernel has it.
pub(crate) fn free_hog() -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "while :; do :; done"]);
    command
}

/// A process that computes for ever on one processor.
pub(crate) fn hog(processor: u32) -> anyhow::Result<Command> {
    let place = Place::of(processor)?;
    let mut command = free_hog();
    // SAFETY: between fork and exec one plain system call is made; nothing is allocated and no lock
    // is taken.
    unsafe { command.pre_exec(move || place.bind()) };
    Ok(command)
}
