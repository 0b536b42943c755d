//! A fence: a control group with a cpuset, for a program that does not leave what was taken from
//! it.
//!
//! # Protocol
//! 1. `daemon --fence DIR` names a control group that is the manager's to change (delegated by
//!    systemd, or a cpuset of version 1). Without it there are no fences, and a program that binds
//!    its threads back after a squeeze keeps them there.
//! 2. A squeezed virtual processor that is found bound back to a processor that was taken
//!    (`reclaim`: a grace after the squeeze, and at each quantum) shows that its program does not
//!    obey. Its process moves into a group below DIR whose cpuset is what it holds: the kernel
//!    refuses every mask outside of it.
//! 3. From then on its cpuset follows its grants at once, without a grace.
//! 4. When it leaves, when no program is bound any more, or when the manager ends, all processes in
//!    the group go back to the group that the process came from, and the group is removed. The
//!    groups of a manager that was killed stay; the next one with the same DIR widens them to all
//!    processors of DIR and removes those that are empty.
//!
//! # Invariants
//! - F1 A process is fenced only when the group from which it comes is known, so that it can go
//!   back.
//! - F2 Nothing outside DIR is written but `cgroup.procs` of that group, on the way back.
//! - F3 Version 1 (and version 2 before Linux 6.2) writes over the masks of threads: those are
//!   noted before, and put back where a thread has the fence's mask still when it goes back.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use platform::affinity::{CpuSet, Tid};
use platform::process::{self, Pid};
use procfs::{FromBufRead, ProcessCGroups};

use crate::error::Error;
use crate::escape::escape;
use crate::kernel::Kernel;
use crate::threads::Threads;

/// Threads whose masks are noted.
const MAX_THREADS: usize = 4096;
/// What groups of ours are called; the manager's own one is another name.
const PREFIX: &str = "nanos-program-";
const OWN: &str = "nanos-manager";
const PROCESSES: &str = "cgroup.procs";
const CPUS: &str = "cpuset.cpus";
const NODES: &str = "cpuset.mems";

/// Which files a control group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The control group below which fences stand.
#[derive(Debug)]
pub struct Fences {
    directory: PathBuf,
    version: Version,
    /// Where the hierarchy is mounted.
    top: PathBuf,
}

/// The fence of one process.
#[derive(Debug)]
pub struct Fence {
    group: PathBuf,
    home: PathBuf,
    cpus: CpuSet,
    /// The threads' masks before (F3).
    masks: Vec<(Tid, CpuSet)>,
}

impl Fences {
    /// Makes fences below control group `directory`.
    ///
    /// # Errors
    /// When it is no control group with a cpuset, or not ours to change. The text says what is
    /// missing.
    pub fn below(directory: &Path) -> Result<Self, Error> {
        let is_there = |name: &str| directory.join(name).is_file();
        let version = if is_there("cgroup.controllers") {
            Version::Two
        } else if is_there(PROCESSES) && is_there(CPUS) {
            Version::One
        } else {
            return Err(Error::Usage(format!(
                "--fence {}: it is no control group that could have a cpuset; name a directory \
                 below /sys/fs/cgroup",
                directory.display()
            )));
        };
        let top = directory.ancestors().take_while(|group| group.join(PROCESSES).is_file()).last();
        let fences = Self {
            directory: directory.to_owned(),
            version,
            top: top.unwrap_or(directory).to_owned(),
        };
        match version {
            Version::Two => fences.enable()?,
            Version::One => {
                for name in [CPUS, NODES] {
                    if read(&directory.join(name))?.is_empty() {
                        return Err(Error::Usage(format!(
                            "--fence {}: its {name} is empty; write the processors and nodes that \
                             it may use",
                            directory.display()
                        )));
                    }
                }
            }
        }
        fences.sweep()?;
        Ok(fences)
    }

    /// Its path, escaped.
    pub fn directory(&self) -> String {
        escape(self.directory.as_os_str().as_encoded_bytes())
    }

    /// Version 2: groups below have a cpuset when no process is in the group itself: ours moves to
    /// one below.
    fn enable(&self) -> Result<(), Error> {
        if !read(&self.directory.join("cgroup.controllers"))?
            .split(' ')
            .any(|name| name == "cpuset")
        {
            return Err(Error::Usage(format!(
                "--fence {}: it has no cpuset; with systemd: Delegate=cpuset, otherwise write \
                 +cpuset to the cgroup.subtree_control of the groups above it",
                self.directory.display()
            )));
        }
        let own = process::current_pid().0.to_string();
        if read(&self.directory.join(PROCESSES))?.lines().any(|line| line == own) {
            let group = self.directory.join(OWN);
            make(&group)?;
            write(&group.join(PROCESSES), &own)?;
        }
        write(&self.directory.join("cgroup.subtree_control"), "+cpuset")
    }

    /// Step 4, of a manager that was killed.
    fn sweep(&self) -> Result<(), Error> {
        let path = &self.directory;
        let entries = fs::read_dir(path).map_err(|source| io_error("cannot list", path, source))?;
        let left =
            entries.flatten().filter(|it| it.file_name().to_string_lossy().starts_with(PREFIX));
        // What the group above has. Empty, which would mean the same in version 2, is refused while
        // a process is inside.
        let all = match self.version {
            Version::One => CPUS,
            Version::Two => "cpuset.cpus.effective",
        };
        for group in left.map(|it| it.path()).filter(|group| fs::remove_dir(group).is_err()) {
            match read(&path.join(all)).and_then(|all| write(&group.join(CPUS), &all)) {
                Ok(()) => {
                    tracing::warn!(group = %group.display(), "another manager's fence is open now; \
                                                              processes are in it")
                }
                // No reason not to serve the others.
                Err(error) => tracing::warn!(%error, "another manager's fence cannot be opened"),
            }
        }
        Ok(())
    }

    /// Step 2: fences process `pid`, to which `threads` belong, into `cpus`. `serial` is another
    /// one for each fence.
    ///
    /// # Errors
    /// When the kernel refuses, or its group is not below the same mount (F1): it is where it was.
    pub fn put(
        &self,
        kernel: &dyn Kernel,
        (serial, pid, threads): (u64, Pid, &Threads),
        cpus: &CpuSet,
    ) -> Result<Fence, Error> {
        let places = read(Path::new(&format!("/proc/{pid}/cgroup")))?;
        let home = home(&places, self.version).map(|below| self.top.join(below));
        let home = home.filter(|home| home.join(PROCESSES).is_file()).ok_or_else(|| {
            let source = io::Error::new(
                io::ErrorKind::NotFound,
                "it cannot be seen, and there would be no way back",
            );
            io_error("the control group of process", Path::new(&pid.to_string()), source)
        })?;
        let group = self.directory.join(format!("{PREFIX}{}-{serial}", process::current_pid()));
        make(&group)?;
        let mut fence = Fence { group, home, cpus: cpus.clone(), masks: Vec::new() };
        let closed = self.close(kernel, &mut fence, pid, threads);
        // The process may have ended, and the one that is in there now may only have its number.
        if closed.is_err() || !threads.has(Tid(pid.0)) {
            fence.lift(kernel, threads);
            closed?;
            let source = io::Error::from_raw_os_error(nix::errno::Errno::ESRCH as i32);
            return Err(io_error("cannot fence process", Path::new(&pid.to_string()), source));
        }
        Ok(fence)
    }

    fn close(
        &self,
        kernel: &dyn Kernel,
        fence: &mut Fence,
        pid: Pid,
        threads: &Threads,
    ) -> Result<(), Error> {
        if self.version == Version::One {
            write(&fence.group.join(NODES), &read(&self.directory.join(NODES))?)?;
        }
        write(&fence.group.join(CPUS), &fence.cpus.to_string())?;
        let tids = threads.list(MAX_THREADS)?;
        let mask = |tid: Tid| Some((tid, threads.mask(kernel, tid).ok()??));
        fence.masks = tids.into_iter().filter_map(mask).collect();
        write(&fence.group.join(PROCESSES), &pid.to_string())
    }
}

impl Fence {
    /// What its group is called.
    pub fn name(&self) -> String {
        escape(self.group.file_name().unwrap_or_default().as_encoded_bytes())
    }

    /// Step 3.
    ///
    /// # Errors
    /// When the kernel refuses: it is as it was.
    pub fn move_to(&mut self, cpus: &CpuSet) -> Result<(), Error> {
        if *cpus != self.cpus {
            write(&self.group.join(CPUS), &cpus.to_string())?;
            self.cpus = cpus.clone();
        }
        Ok(())
    }

    /// Step 4. What cannot be undone is told to the log: no other process could do it.
    pub fn lift(self, kernel: &dyn Kernel, threads: &Threads) {
        let Self { group, home, cpus, masks } = self;
        let written_over = |(tid, _): &(Tid, CpuSet)| {
            threads.mask(kernel, *tid).is_ok_and(|mask| mask == Some(cpus.clone()))
        };
        let masks: Vec<(Tid, CpuSet)> = masks.into_iter().filter(written_over).collect();
        let inside = read(&group.join(PROCESSES)).unwrap_or_default();
        for process in inside.lines() {
            // A process that ended meanwhile needs nothing.
            if let Err(error) = write(&home.join(PROCESSES), process) {
                tracing::warn!(process, %error, "a process stays in its fence");
            }
        }
        for (tid, before) in masks {
            if let Err(error) = threads.bind(kernel, tid, &before) {
                tracing::warn!(tid = tid.0, %error, "a thread's mask cannot be put back");
            }
        }
        if let Err(error) = fs::remove_dir(&group) {
            tracing::warn!(group = %group.display(), %error, "an open fence stays until the next \
                                                              manager removes it");
        }
    }
}

/// Where a process is below the mount, by `/proc/PID/cgroup`.
fn home(places: &str, version: Version) -> Option<PathBuf> {
    let groups = ProcessCGroups::from_buf_read(places.as_bytes()).ok()?;
    let path = groups.into_iter().find(|group| match version {
        Version::One => group.controllers.iter().any(|name| name == "cpuset"),
        Version::Two => group.controllers.is_empty(),
    });
    let path = path?.pathname;
    let below = Path::new(&path).strip_prefix("/").ok()?;
    let is_plain = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    is_plain.then(|| below.to_owned())
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> Error {
    Error::Io { what, path: path.to_owned(), source }
}

fn make(group: &Path) -> Result<(), Error> {
    match fs::create_dir(group) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(io_error("cannot make", group, source))
        }
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<String, Error> {
    let text = fs::read_to_string(path).map_err(|source| io_error("cannot read", path, source))?;
    Ok(text.trim().to_owned())
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| io_error("cannot write", path, source))
}

#[cfg(test)]
mod tests;
