//! What the scheduler leaves for the next manager, written by a thread of its own: the scheduler
//! never waits for a disk.
//!
//! # Invariants
//! - K1 A copy that was not written is replaced by the next one; the last one is written at the
//!   end.
//! - K2 Copies are written [`PAUSE`] apart. While another copy waits at the end of each pause, the
//!   pause doubles, up to [`LONGEST`]: programs that come and go by the thousand cost a few writes.
//! - K3 An urgent copy ends the pause: it is written as soon as the writer has a processor.
//! - K4 What the last write could not do is known until one does it: its beginning and its end are
//!   a line of the log each.
//! - K5 A copy that could not be written is tried again without another one, [`AGAIN`] later, twice
//!   as long after each failure, up to [`RARELY`], and once at the end: a disk that was full costs
//!   nothing once it has room.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::fcntl::OFlag;
use platform::{SysError, SysResult};

use crate::escape::escape;

/// The time between two writes.
const PAUSE: Duration = Duration::from_millis(20);
/// The time between two writes of what changes all the time.
const LONGEST: Duration = Duration::from_millis(320);
/// How long a copy rests that could not be written, at first and at most.
const AGAIN: Duration = Duration::from_secs(1);
const RARELY: Duration = Duration::from_secs(30);
/// Characters of its path in reports.
const SHOWN: usize = 100;

#[derive(Debug)]
struct Pending<T> {
    /// To be written.
    next: Option<T>,
    /// Copies that were left so far: the number of the last one.
    left: u64,
    /// The number of the last one that was written, or could not be.
    done: u64,
    /// It does not wait for the end of the pause.
    urgent: bool,
    ends: bool,
    /// Nothing may be written any more.
    abandoned: bool,
    /// Why the last copy was not written as it was left (K4).
    trouble: Option<String>,
}

impl<T> Default for Pending<T> {
    fn default() -> Self {
        Self {
            next: None,
            left: 0,
            done: 0,
            urgent: false,
            ends: false,
            abandoned: false,
            trouble: None,
        }
    }
}

/// The times between writes.
#[derive(Clone, Copy, Debug)]
struct Pauses {
    /// The least and the longest pause (K2).
    pause: [Duration; 2],
    /// The same after a write that failed (K5).
    rest: [Duration; 2],
}

type Shared<T> = Arc<(Mutex<Pending<T>>, Condvar)>;

/// Writes what the scheduler leaves.
#[derive(Debug)]
pub(crate) struct Keeper<T> {
    pending: Shared<T>,
    writer: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> Keeper<T> {
    /// One that writes to `path` by `write`; `what` is missing when it cannot.
    ///
    /// # Errors
    /// When there is no thread.
    pub(crate) fn start(
        path: PathBuf,
        what: &'static str,
        write: fn(&Path, &T) -> io::Result<()>,
    ) -> SysResult<Self> {
        let pauses = Pauses { pause: [PAUSE, LONGEST], rest: [AGAIN, RARELY] };
        Self::start_with(path, what, write, pauses)
    }

    fn start_with(
        path: PathBuf,
        what: &'static str,
        write: fn(&Path, &T) -> io::Result<()>,
        pauses: Pauses,
    ) -> SysResult<Self> {
        let pending: Shared<T> = Arc::new((Mutex::new(Pending::default()), Condvar::new()));
        let side = Arc::clone(&pending);
        let write_one = move |copy: &T| {
            write(&path, copy).map_err(|error| {
                let path = escape(path.as_os_str().as_encoded_bytes());
                let path: String = path.chars().take(SHOWN).collect();
                // What is too long stays so: all but a part of it is written.
                let again = error.kind() != io::ErrorKind::FileTooLarge;
                Failed { why: format!("{what}: {error} ({path})"), again }
            })
        };
        let writer = std::thread::Builder::new()
            .name("keeper".into())
            .spawn(move || write_all(&side, write_one, pauses));
        let writer =
            writer.map_err(|error| SysError::new("clone", error.raw_os_error().unwrap_or(0)))?;
        Ok(Self { pending, writer: Some(writer) })
    }

    /// Leaves the present state, and says its number. Never waits for the disk.
    pub(crate) fn keep(&self, copy: T) -> u64 {
        self.leave(copy, false)
    }

    /// The same of one that is written without a pause (K3).
    pub(crate) fn keep_at_once(&self, copy: T) -> u64 {
        self.leave(copy, true)
    }

    fn leave(&self, copy: T, urgent: bool) -> u64 {
        let mut number = 0;
        change(&self.pending, |pending| {
            pending.left += 1;
            number = pending.left;
            pending.next = Some(copy);
            pending.urgent |= urgent;
        });
        number
    }

    /// The number of the last copy that was written, or could not be: those before it need not be.
    pub(crate) fn done(&self) -> u64 {
        self.pending.0.lock().unwrap_or_else(PoisonError::into_inner).done
    }

    /// What the next manager would not know if this one were killed now, and why.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.pending.0.lock().unwrap_or_else(PoisonError::into_inner).trouble.clone()
    }

    /// Ends without writing what was left last: the path may be another manager's by now.
    pub(crate) fn abandon(self) {
        change(&self.pending, |pending| (pending.next, pending.abandoned) = (None, true));
    }
}

impl<T> Drop for Keeper<T> {
    /// What was left last is written.
    fn drop(&mut self) {
        change(&self.pending, |pending| pending.ends = true);
        if self.writer.take().is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the writer for the next manager panicked");
        }
    }
}

fn change<T>(shared: &Shared<T>, change: impl FnOnce(&mut Pending<T>)) {
    let (pending, changed) = &**shared;
    change(&mut pending.lock().unwrap_or_else(PoisonError::into_inner));
    changed.notify_one();
}

/// A write that failed.
struct Failed {
    why: String,
    /// The same copy may do better later.
    again: bool,
}

fn write_all<T>(shared: &Shared<T>, write: impl Fn(&T) -> Result<(), Failed>, pauses: Pauses) {
    let (pending, changed) = &**shared;
    let ([least, most], [first, rarely]) = (pauses.pause, pauses.rest);
    let (mut pause, mut rest) = (least, first);
    // The last copy, while it could not be written.
    let mut kept: Option<T> = None;
    loop {
        let (copy, number, ends) = {
            let pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
            let waits = |pending: &mut Pending<T>| pending.next.is_none() && !pending.ends;
            let mut pending = match &kept {
                None => changed.wait_while(pending, waits).unwrap_or_else(PoisonError::into_inner),
                Some(_) => {
                    let waited = changed.wait_timeout_while(pending, rest, waits);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
            pending.urgent = false;
            let again = kept.take().filter(|_| !pending.abandoned);
            (pending.next.take().or(again), pending.left, pending.ends)
        };
        let Some(copy) = copy else { return };
        let failed = write(&copy).err();
        rest = if failed.is_some() { (2 * rest).min(rarely) } else { first };
        if failed.as_ref().is_some_and(|it| it.again) && !ends {
            kept = Some(copy);
        }
        // K2, K3; the end does not wait for it.
        let mut pending = pending.lock().unwrap_or_else(PoisonError::into_inner);
        note(&mut pending.trouble, failed.map(|it| it.why));
        pending.done = number;
        let paused =
            changed.wait_timeout_while(pending, pause, |pending| !(pending.ends || pending.urgent));
        let (pending, _) = paused.unwrap_or_else(PoisonError::into_inner);
        pause = if pending.next.is_some() { (2 * pause).min(most) } else { least };
    }
}

/// K4.
fn note(before: &mut Option<String>, trouble: Option<String>) {
    match &trouble {
        Some(trouble) if before.is_none() => {
            tracing::warn!(
                trouble,
                "the next manager will not know all that this one leaves; it is tried again"
            );
        }
        None if before.is_some() => tracing::info!("the next manager will know all again"),
        _ => {}
    }
    *before = trouble;
}

/// Replaces the file at `path` by one with these contents: a reader always finds a whole file.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let new = beginning(path);
    let flags = OFlag::O_NOFOLLOW.bits();
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(&new);
    let done = file?.write_all(contents).and_then(|()| fs::rename(&new, path));
    if done.is_err() {
        // What a full disk cut off helps no reader, and the space is wanted.
        let _removed: io::Result<()> = fs::remove_file(&new);
    }
    done
}

/// Removes a file that may be there, and the unfinished new file that an interrupted write left.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    let new = remove_one(&beginning(path));
    remove_one(path).and(new)
}

/// The file that takes the place of `path` when it is whole.
fn beginning(path: &Path) -> PathBuf {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    new.into()
}

fn remove_one(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What is in a file that a manager of this user wrote, of at most `most` bytes; `None`: there is
/// none.
///
/// # Errors
/// Also when it is no regular file, is another user's, is others' to write, or is longer.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    // Without waiting for a writer of a FIFO.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let data = file.metadata()?;
    let bad = |what: String| Err(io::Error::new(io::ErrorKind::InvalidData, what));
    if !data.is_file() {
        return bad("it is no regular file".into());
    }
    let me = nix::unistd::geteuid().as_raw();
    if data.uid() != me || data.mode() & 0o022 != 0 {
        return bad(format!(
            "it is of user {}, mode {:o}: others may have written it",
            data.uid(),
            data.mode() & 0o7777
        ));
    }
    let mut contents = Vec::new();
    // It may grow meanwhile.
    file.take(most + 1).read_to_end(&mut contents)?;
    if contents.len() as u64 > most {
        return bad(format!("it is longer than {most} bytes"));
    }
    Ok(Some(contents))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn what_was_left_last_is_not_written_by_one_that_lost_its_path() {
        static GATE: Mutex<()> = Mutex::new(());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        let keeper = Keeper::start(path.clone(), "a number", |path, it: &u8| {
            let _open = GATE.lock();
            replace(path, &[*it])
        });
        let keeper = keeper.unwrap();
        let pending = Arc::clone(&keeper.pending);
        let closed = GATE.lock().unwrap();
        keeper.keep(1);
        // The writer has it, and waits at the gate.
        while pending.0.lock().unwrap().next.is_some() {
            std::thread::yield_now();
        }
        keeper.keep(2);
        let ends = std::thread::spawn(move || keeper.abandon());
        while !pending.0.lock().unwrap().ends {
            std::thread::yield_now();
        }
        drop(closed);
        ends.join().unwrap();
        assert_eq!(fs::read(&path).unwrap(), [1]);
    }

    #[test]
    fn an_urgent_copy_is_written_within_the_pause_after_the_one_before() {
        static WRITTEN: Mutex<Vec<u8>> = Mutex::new(Vec::new());
        let write = |_: &Path, it: &u8| {
            WRITTEN.lock().unwrap().push(*it);
            Ok(())
        };
        let hour = Duration::from_secs(3600);
        let pauses = Pauses { pause: [hour; 2], rest: [hour; 2] };
        let keeper = Keeper::start_with(PathBuf::new(), "a number", write, pauses).unwrap();
        let is_written = |number| WRITTEN.lock().unwrap().contains(&number);
        keeper.keep(1);
        while !is_written(1) {
            std::thread::yield_now();
        }
        keeper.keep(2);
        for number in 3..6 {
            keeper.keep_at_once(number);
            // Never, if it waited for an hour.
            while !is_written(number) {
                std::thread::yield_now();
            }
        }
        drop(keeper);
    }

    #[test]
    fn the_last_copy_is_written_and_those_before_it_need_not_be() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        let keeper = Keeper::start(path.clone(), "numbers", |path, copy: &u32| {
            replace(path, &copy.to_ne_bytes())
        })
        .unwrap();
        for number in 0..1000 {
            assert_eq!(keeper.keep(number), u64::from(number) + 1);
            assert!(keeper.done() <= u64::from(number) + 1);
        }
        drop(keeper);
        assert_eq!(read(&path, 4).unwrap(), Some(999_u32.to_ne_bytes().to_vec()));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        remove(&path).unwrap();
        remove(&path).unwrap();
        assert_eq!(read(&path, 4).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_known_until_it_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("inner");
        let keeper =
            Keeper::start(inner.join("kept"), "a number", |path, it: &u8| replace(path, &[*it]));
        let keeper = keeper.unwrap();
        assert_eq!(keeper.trouble(), None);
        let until = |is_so: &dyn Fn(&Option<String>) -> bool| loop {
            keeper.keep_at_once(1);
            let trouble = keeper.trouble();
            if is_so(&trouble) {
                break trouble;
            }
            std::thread::yield_now();
        };
        let trouble = until(&|it| it.is_some()).unwrap();
        assert!(trouble.starts_with("a number: No such file"), "{trouble}");
        assert!(trouble.contains("inner/kept"), "{trouble}");
        fs::create_dir(&inner).unwrap();
        until(&|it| it.is_none());
    }

    /// One that could not write its only copy, and its folder, which is not there.
    fn failed(dir: &Path, rest: Duration) -> (Keeper<u8>, PathBuf) {
        let inner = dir.join("inner");
        let pauses = Pauses { pause: [PAUSE, LONGEST], rest: [rest; 2] };
        let write = |path: &Path, it: &u8| replace(path, &[*it]);
        let keeper = Keeper::start_with(inner.join("kept"), "a number", write, pauses).unwrap();
        let number = keeper.keep(1);
        while keeper.done() < number {
            std::thread::yield_now();
        }
        assert!(keeper.trouble().is_some());
        (keeper, inner)
    }

    #[test]
    fn what_could_not_be_written_is_written_later_without_another_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (keeper, inner) = failed(dir.path(), Duration::from_millis(1));
        fs::create_dir(&inner).unwrap();
        // Never, if it waited for another copy.
        while keeper.trouble().is_some() {
            std::thread::yield_now();
        }
        assert_eq!(fs::read(inner.join("kept")).unwrap(), [1]);
    }

    #[test]
    fn what_could_not_be_written_is_tried_once_more_at_the_end_unless_its_path_is_lost() {
        let hour = Duration::from_secs(3600);
        for is_lost in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (keeper, inner) = failed(dir.path(), hour);
            fs::create_dir(&inner).unwrap();
            if is_lost {
                keeper.abandon();
            } else {
                drop(keeper);
            }
            assert_eq!(inner.join("kept").exists(), !is_lost);
        }
    }

    #[test]
    fn trouble_is_a_line_at_its_beginning_and_one_at_its_end() {
        let lines = crate::surprises::tests::logged(|| {
            let mut trouble = None;
            for why in [None, Some("full"), Some("full"), Some("read-only"), None, None] {
                note(&mut trouble, why.map(str::to_owned));
            }
        });
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("full") && lines[1].contains("again"), "{lines:?}");
    }

    #[test]
    fn what_could_not_take_its_place_does_not_stay_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kept");
        fs::create_dir_all(path.join("full")).unwrap();
        replace(&path, b"new").unwrap_err();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_others_may_have_put_there_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| dir.path().join(name));
        fs::write(&file, "four").unwrap();
        assert_eq!(read(&file, 4).unwrap(), Some(b"four".to_vec()));
        assert!(read(&file, 3).unwrap_err().to_string().contains("longer"));
        symlink(&file, &link).unwrap();
        assert!(read(&link, 4).is_err());
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(read(&fifo, 4).unwrap_err().to_string().contains("no regular file"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o622)).unwrap();
        assert!(read(&file, 4).unwrap_err().to_string().contains("mode 622"));
        assert!(read(dir.path(), 4).is_err());
    }
}
