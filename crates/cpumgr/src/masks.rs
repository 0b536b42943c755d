//! The attached processes, and the masks that their threads had, in a file beside the socket: for
//! the next manager, if this one is killed.
//!
//! # Protocol
//! 1. Before a process is bound to other processors the scheduler leaves a copy that says to which
//!    (`next`), and binds when it is written: in the same way what it bound is written after the
//!    pass. A thread of its own writes the last copy to `SOCKET.masks` (`keeper`). The scheduler
//!    waits for no disk: without an answer it binds after a moment. With no process attached there
//!    is no file.
//! 2. A manager that finds a file when it has claimed the socket puts the masks back
//!    ([`put_back`]), by the rule of a process that is let go: a thread that has the mask that the
//!    manager gave it, or was about to give it, gets its own, one that was made since and has such
//!    a mask gets the initial thread's, and a thread that has another mask keeps that.
//! 3. Then it attaches those processes again ([`crate::server::Server::attach_again`]); those that
//!    the last manager attached unasked count as such again. So the masks that it notes are their
//!    own. The file stays until the first copy of this manager replaces it: one that is killed
//!    before loses nothing.
//! 4. Where no next one comes `cpumgr release` does step 2: a service has it run after its end.
//!
//! # Invariants
//! - A process is known by its number and the time at which it started, its threads by its own
//!   directory (`threads`).
//!
//! # Not here
//! Announced programs, and weights: `settings`.

use std::io;
use std::path::{Path, PathBuf};

use platform::SysResult;
use platform::affinity::{CpuSet, Tid};
use platform::process::{self, Pid};
use serde::{Deserialize, Serialize};

use crate::instance::beside;
use crate::keeper::{self, Keeper};
use crate::kernel::Kernel;
use crate::threads::Threads;

/// An attached process; masks as kernel lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attached {
    pub(crate) pid: i32,
    /// When it started ([`process::start_time`]).
    pub(crate) start: u64,
    /// Whose it was; without one (older managers wrote none) it is not attached again.
    #[serde(default)]
    pub(crate) owner: Option<u32>,
    /// It was not asked for (older managers did not write it).
    #[serde(default)]
    pub(crate) by_itself: bool,
    /// The initial thread's mask before.
    pub(crate) fence: String,
    /// Each thread's number, its mask before, and the one that it was given.
    pub(crate) threads: Vec<(i32, String, String)>,
    /// Masks that it gave before those (older managers did not write them).
    #[serde(default)]
    pub(crate) former: Vec<String>,
    /// The processors to which its threads are bound, or about to be (older managers did not write
    /// them).
    #[serde(default)]
    pub(crate) next: Option<String>,
}

/// The longest file: 512 processes of four thousand threads each, on a thousand processors, need
/// less.
const MAX_FILE: u64 = 1 << 30;

/// Where the file is.
fn place(socket: &Path) -> PathBuf {
    beside(socket, ".masks")
}

/// Writes what [`write`] is given, for the manager at `socket`.
///
/// # Errors
/// When there is no thread.
pub(crate) fn keeper(socket: &Path) -> SysResult<Keeper<Vec<Attached>>> {
    Keeper::start(place(socket), "the masks of attached processes", |path, all| write(path, all))
}

fn write(path: &Path, all: &[Attached]) -> io::Result<()> {
    if all.is_empty() {
        keeper::remove(path)
    } else {
        keeper::replace(path, &serde_json::to_vec(all)?)
    }
}

/// Step 2, for the manager that has `socket` now. Returns those that still live, for step 3.
pub(crate) fn put_back(socket: &Path, kernel: &dyn Kernel) -> Vec<Attached> {
    let path = place(socket);
    let all = match keeper::read(&path, MAX_FILE) {
        Ok(Some(text)) => serde_json::from_slice::<Vec<Attached>>(&text),
        Ok(None) => return Vec::new(),
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "the masks of attached processes cannot \
                                                            be read");
            return Vec::new();
        }
    };
    let mut all = match all {
        Ok(all) => all,
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "that is no file of a manager, and is \
                                                            left alone");
            return Vec::new();
        }
    };
    // An error: it has ended, or no process can be attached now.
    all.retain(|one| one.put_back(kernel).unwrap_or(false));
    if all.is_empty() {
        forget(&path);
    }
    all
}

/// The same where no manager comes that would attach them again.
pub(crate) fn let_go(socket: &Path, kernel: &dyn Kernel) {
    if !put_back(socket, kernel).is_empty() {
        forget(&place(socket));
    }
}

fn forget(path: &Path) {
    if let Err(error) = keeper::remove(path) {
        tracing::warn!(%error, path = %path.display(), "masks of attached processes stay written \
                                                        down");
    }
}

impl Attached {
    /// False: another process has its number. An error, or `None` for a mask: it has ended.
    fn put_back(&self, kernel: &dyn Kernel) -> SysResult<bool> {
        let pid = Pid(self.pid);
        let pidfd = process::pidfd_open(pid)?;
        if process::start_time(pid)? != self.start {
            return Ok(false);
        }
        let threads = Threads::of(pid, pidfd)?;
        let mut count = 0;
        // A second look, for threads that were made during the first: what they have then counts as
        // their own (step 3).
        for _ in 0..2 {
            for tid in threads.list(usize::MAX)? {
                let Some(mask) = threads.mask(kernel, tid)? else { continue };
                let before = self.before(tid, &mask.to_string()).filter(|before| *before != mask);
                let Some(before) = before else { continue };
                match threads.bind(kernel, tid, &before) {
                    Ok(bound) => count += usize::from(bound.is_some()),
                    Err(error) => {
                        tracing::warn!(tid = tid.0, %error, "a thread's mask cannot be put back")
                    }
                }
            }
        }
        tracing::info!(
            pid = self.pid,
            count,
            "a process that a killed manager had attached has its masks again"
        );
        Ok(true)
    }

    /// Whether it is a mask that the manager gave, or was about to give.
    fn is_given(&self, mask: &str) -> bool {
        let given = |(_, before, now): &(i32, String, String)| {
            (now == mask && now != before) || self.gives(before, mask)
        };
        self.threads.iter().any(given)
            || self.gives(&self.fence, mask)
            || self.former.iter().any(|former| former == mask)
    }

    /// Whether a thread that had `before` is bound to `mask` by step 1.
    fn gives(&self, before: &str, mask: &str) -> bool {
        let parse = |list: &str| CpuSet::parse_list(list).ok();
        let next = self.next.as_deref().and_then(parse).filter(|next| !next.is_empty());
        let Some((next, own)) = next.zip(parse(before)) else { return false };
        let allowed = own.intersection(&next);
        let given = if allowed.is_empty() { next } else { allowed };
        given.to_string() == mask && mask != before
    }

    /// What a thread had that has `mask` now; `None`: that is no mask of the manager's.
    fn before(&self, tid: Tid, mask: &str) -> Option<CpuSet> {
        let before = match self.threads.iter().find(|(own, _, _)| *own == tid.0) {
            Some((_, before, now)) if now == mask || self.gives(before, mask) => before,
            None if self.is_given(mask) => &self.fence,
            _ => return None,
        };
        CpuSet::parse_list(before).ok().filter(|before| !before.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::kernel::Linux;

    fn attached() -> Attached {
        let threads =
            vec![(7, "0-3".to_owned(), "1".to_owned()), (8, "2-3".to_owned(), "1-2".to_owned())];
        Attached {
            pid: i32::MAX,
            start: 1,
            owner: Some(0),
            by_itself: true,
            fence: "0-5".into(),
            threads,
            former: vec!["4".into()],
            next: Some("2,5".into()),
        }
    }

    #[test]
    fn a_thread_with_the_managers_mask_gets_its_own_and_a_later_one_the_initial_threads() {
        let set = |list: &str| Some(CpuSet::parse_list(list).unwrap());
        let before = |tid, mask| attached().before(Tid(tid), mask);
        assert_eq!(
            (before(7, "1"), before(8, "1-2"), before(9, "1-2")),
            (set("0-3"), set("2-3"), set("0-5"))
        );
        assert_eq!((before(7, "0-1"), before(9, "0")), (None, None), "its own choice");
        assert_eq!(
            (before(9, "4"), before(7, "4")),
            (set("0-5"), None),
            "made by one that was not moved yet"
        );
        assert_eq!(
            (before(7, "2"), before(8, "2"), before(9, "2,5"), before(9, "2")),
            (set("0-3"), set("2-3"), set("0-5"), set("0-5")),
            "about to be given"
        );
        assert_eq!((before(7, "2,5"), before(8, "5")), (None, None), "its own choice");
    }

    #[test]
    fn the_last_copy_is_in_the_file_and_with_nothing_attached_there_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("app.sock");
        let keeper = super::keeper(&socket).unwrap();
        keeper.keep(Vec::new());
        keeper.keep(vec![attached()]);
        drop(keeper);
        let written: Vec<Attached> =
            serde_json::from_slice(&fs::read(place(&socket)).unwrap()).unwrap();
        assert_eq!(written, [attached()]);
        // It belongs to no process, and the file has done its duty.
        assert_eq!(put_back(&socket, &Linux), []);
        assert!(!place(&socket).exists());

        let keeper = super::keeper(&socket).unwrap();
        keeper.keep(vec![attached()]);
        keeper.keep(Vec::new());
        drop(keeper);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        fs::write(place(&socket), "precious").unwrap();
        assert_eq!(put_back(&socket, &Linux), []);
        assert_eq!(fs::read_to_string(place(&socket)).unwrap(), "precious");
    }

    #[test]
    fn another_process_of_the_same_number_is_left_alone() {
        let own = Attached { pid: process::current_pid().0, ..attached() };
        assert_eq!(own.put_back(&Linux), Ok(false), "it started at another time");
    }

    #[test]
    fn what_a_manager_wrote_that_knew_no_owners_is_read() {
        let written = r#"[{"pid":7,"start":1,"fence":"0","threads":[[7,"0-1","0"]]}]"#;
        let read: Vec<Attached> = serde_json::from_str(written).unwrap();
        assert_eq!((read[0].owner, read[0].by_itself), (None, false));
    }
}
