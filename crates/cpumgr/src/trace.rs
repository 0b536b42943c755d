//! The trace: which program had which processors, and when, as JSON lines.
//!
//! Each line is an object `{t_ns, event, pid, name, cpus, shared}`. Events: `start` and `stop` (the
//! manager itself with the processors that it manages), `arrival`, `allocation` (a program's
//! processors from now on), `exit`, `continued`. Times are of the monotonic clock. A thread of its
//! own writes, so that a slow disk never stops the scheduler: a full queue drops lines, and so does
//! a full disk; the next line that fits says how many (`lost`).
//!
//! # Rotation
//! A file that would grow beyond its bound becomes FILE.1, in place of the one before. The next
//! file begins with `continued`, which is as `start` and says how many lines were lost with the old
//! FILE.1 (`gone`), and with the last allocation of each program that is there, so that each file
//! can be read for itself.
//!
//! # Whose file it may be
//! A new one, or this user's own regular file with one name that is empty or begins as a trace,
//! which is emptied: a slip of the superuser's costs no other file. What a link leads to
//! (`own_file`), another user's file, a file with another name besides (a hard link) and one with
//! anything else in it are left as they are, and the manager does not begin.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, PROC_SUPER_MAGIC, SYSFS_MAGIC, fstatfs};
use serde::Serialize;

use crate::escape::escape;
use crate::own_file::Place;

/// The least bound of a file.
pub const LEAST: u64 = 64 << 10;
/// The beginning of each line.
const BEGINNING: &[u8; 8] = b"{\"t_ns\":";
/// Characters of its path in reports.
const SHOWN: usize = 300;
/// Lines that may wait for the disk.
const QUEUE: usize = 4096;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The manager began.
    Start,
    /// A program registered.
    Arrival,
    /// A program's processors changed.
    Allocation,
    /// A program left or died.
    Exit,
    /// The manager ended.
    Stop,
    /// Another file of the same trace begins.
    Continued,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The monotonic clock.
    pub t_ns: u64,
    /// What happened.
    pub event: Event,
    /// Whose process.
    pub pid: i32,
    /// Its name, escaped.
    pub name: String,
    /// Its processors from now on.
    pub cpus: Vec<u32>,
    /// They are used in turn with other programs.
    pub shared: bool,
    /// Lines dropped before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Lines that were in the file which this one's predecessor replaced.
    #[serde(skip_serializing_if = "is_zero")]
    pub gone: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A trace being written.
#[derive(Debug)]
pub struct Trace {
    queue: Option<SyncSender<Line>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    lost: u64,
    path: PathBuf,
    /// Why its file could not be opened.
    fault: Arc<OnceLock<String>>,
}

impl Trace {
    /// Begins a trace as [`Trace::create`] does, in a file that its own thread opens: this one
    /// never waits for a disk. Where it cannot be opened, or its directory is another one than
    /// `folder` (device and inode), the log and [`Trace::fault`] say why.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn begin(path: &Path, most: u64, folder: Option<(u64, u64)>) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let own = path.to_owned();
        let fault = Arc::new(OnceLock::new());
        let said = Arc::clone(&fault);
        let write = move || {
            let pages = meet(&own, folder).and_then(|()| Pages::create(&own, most));
            let pages = pages.and_then(|mut pages| {
                pages.clear()?;
                Ok(pages)
            });
            match pages {
                Ok(mut pages) => pages.write_all(&receiver),
                Err(error) => {
                    tracing::warn!(%error, path = %own.display(), "no trace is written");
                    let _first = said.set(advised(&error));
                    Err(error)
                }
            }
        };
        let writer = thread::Builder::new().name("trace".into()).spawn(write)?;
        let (queue, writer, path) = (Some(sender), Some(writer), path.to_owned());
        Ok(Self { queue, writer, lost: 0, path, fault })
    }

    /// Why its file could not be opened, and where one can be, escaped and cut.
    pub fn fault(&self) -> Option<String> {
        self.fault.get().cloned()
    }

    /// Its file, escaped and cut, as long as it is written.
    pub fn path(&self) -> Option<String> {
        let path =
            || escape(self.path.as_os_str().as_encoded_bytes()).chars().take(SHOWN).collect();
        self.is_written().then(path)
    }

    /// Whether its writer is there.
    pub fn is_written(&self) -> bool {
        self.queue.is_some() && self.writer.as_ref().is_some_and(|writer| !writer.is_finished())
    }

    /// Begins a trace in a file of at most `most` bytes and one more of that size; an old one is
    /// replaced, or continued.
    ///
    /// # Errors
    /// When the file cannot be made or is none that may be replaced, or there is no thread.
    pub fn create(path: &Path, most: u64, continues: bool) -> io::Result<Self> {
        let mut pages = Pages::create(path, most)?;
        if !continues {
            pages.clear()?;
        }
        let (sender, receiver) = sync_channel(QUEUE);
        let writer = thread::Builder::new()
            .name("trace".into())
            .spawn(move || pages.write_all(&receiver))?;
        let (queue, writer, path) = (Some(sender), Some(writer), path.to_owned());
        Ok(Self { queue, writer, lost: 0, path, fault: Arc::default() })
    }

    /// Writes a line soon. Never waits.
    pub fn write(&mut self, mut line: Line) {
        let Some(queue) = &self.queue else { return };
        line.lost = self.lost;
        match queue.try_send(line) {
            Ok(()) => self.lost = 0,
            Err(TrySendError::Full(_)) => self.lost += 1,
            Err(TrySendError::Disconnected(_)) => self.queue = None,
        }
    }

    /// Writes what waits and closes the file.
    ///
    /// # Errors
    /// The first error of writing, when lines are missing at the end that no later line counts.
    pub fn finish(mut self) -> io::Result<()> {
        self.queue = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(Ok(()))) if self.lost > 0 => Err(missing(self.lost, "the disk was too slow")),
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the trace's writer panicked")),
            None => Ok(()),
        }
    }
}

fn missing(lines: u64, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("its last {lines} lines are missing: {why}"))
}

/// The file, and the one before it.
#[derive(Debug)]
struct Pages {
    path: PathBuf,
    most: u64,
    file: File,
    /// Bytes of whole lines, and lines.
    length: u64,
    lines: u64,
    /// Lines of the file before.
    before: u64,
    /// Lines that could not be written since the last one that was, and why the first of them could
    /// not.
    lost: u64,
    why: Option<io::Error>,
    /// The manager itself, and the last allocation of each program that is there.
    manager: Option<Line>,
    there: BTreeMap<i32, Line>,
}

impl Pages {
    /// What stands in the file stays.
    fn create(path: &Path, most: u64) -> io::Result<Self> {
        let file = open(&Place::of(path)?)?;
        let length = file.metadata()?.len();
        let (manager, there, why) = (None, BTreeMap::new(), None);
        Ok(Self {
            path: path.to_owned(),
            most,
            file,
            length,
            lines: 0,
            before: 0,
            lost: 0,
            why,
            manager,
            there,
        })
    }

    fn clear(&mut self) -> io::Result<()> {
        (self.length, self.lines) = (0, 0);
        self.file.set_len(0)
    }

    fn write_all(&mut self, queue: &Receiver<Line>) -> io::Result<()> {
        while let Ok(line) = queue.recv() {
            self.write(line);
        }
        match self.why.take() {
            Some(why) if self.lost > 0 => Err(missing(self.lost, why)),
            _ => Ok(()),
        }
    }

    /// Writes a line, or counts it.
    fn write(&mut self, mut line: Line) {
        match line.event {
            Event::Start => self.manager = Some(line.clone()),
            Event::Allocation => drop(self.there.insert(line.pid, line.clone())),
            Event::Exit => drop(self.there.remove(&line.pid)),
            Event::Arrival | Event::Stop | Event::Continued => {}
        }
        line.lost += self.lost;
        if let Err(error) = self.append(&line) {
            if self.why.is_none() {
                tracing::warn!(%error, path = %self.path.display(), "lines of the trace are lost; \
                                                                     the next one that fits says \
                                                                     how many");
            }
            self.lost += 1;
            self.why.get_or_insert(error);
        } else {
            self.lost = 0;
            self.why = None;
        }
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        if self.length > 0 && self.length + text.len() as u64 > self.most {
            self.turn(line.t_ns)?;
        }
        self.put(&text)
    }

    /// Whole lines only: what a full disk cut off is taken away again.
    fn put(&mut self, text: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(text);
        if written.is_err() {
            // What stays is half a line, which no reader takes for one.
            let _cut: io::Result<()> = self.file.set_len(self.length);
        } else {
            self.length += text.len() as u64;
            self.lines += 1;
        }
        written
    }

    /// Begins the next file.
    fn turn(&mut self, now: u64) -> io::Result<()> {
        let place = Place::of(&self.path)?;
        match place.look()? {
            Some(data) if is_same(&data, &self.file.metadata()?) => {
                let old = place.beside(".1")?;
                if old.look()?.is_some() {
                    open(&old).map_err(|error| {
                        io::Error::other(format!("{}.1: {error}", self.path.display()))
                    })?;
                }
                place.move_to(&old)?;
            }
            Some(_) => {
                return Err(io::Error::other(format!(
                    "another file stands at {}",
                    self.path.display()
                )));
            }
            // It was moved by another process, or the file after it could not be made at the last
            // attempt.
            None => {}
        }
        self.file = open(&place)?;
        self.file.set_len(0)?;
        let gone = std::mem::replace(&mut self.before, std::mem::take(&mut self.lines));
        self.length = 0;
        let manager =
            self.manager.iter().map(|line| Line { event: Event::Continued, gone, ..line.clone() });
        let first: Vec<Line> = manager
            .chain(self.there.values().cloned())
            .map(|line| Line { t_ns: now, lost: 0, ..line })
            .collect();
        for line in first {
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            self.put(&text)?;
        }
        Ok(())
    }
}

/// Whether the directory of this path is the one that the asker sees there.
fn meet(path: &Path, folder: Option<(u64, u64)>) -> io::Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    if Place::of(path)?.folder()? == folder {
        return Ok(());
    }
    let above = path.parent().unwrap_or(path).display();
    Err(io::Error::other(format!(
        "{above} is another directory for the manager than for you: a service has a /tmp, /var/tmp \
         and /home of its own, and so has a container"
    )))
}

/// An error of a file that is to be written, and what helps.
fn advised(error: &io::Error) -> String {
    let mut text = error.to_string();
    // Of a service: where it may write in any case.
    if let Some(state) = std::env::var_os("STATE_DIRECTORY") {
        let state = Path::new(&state).display();
        text.push_str(&format!("; it may write to {state}: name a file there"));
    }
    escape(text.as_bytes()).chars().take(SHOWN).collect()
}

/// A new file, or an own one.
fn open(place: &Place) -> io::Result<File> {
    let mode = Mode::S_IRUSR | Mode::S_IWUSR | Mode::S_IRGRP | Mode::S_IROTH;
    let file = place.open(OFlag::O_RDWR | OFlag::O_APPEND, mode)?;
    may_replace(&file.metadata()?)?;
    if is_of_kernel(&file)? {
        return Err(refused("it is no file of a disk but the kernel's"));
    }
    let mut beginning = [0; BEGINNING.len()];
    let length = file.read_at(&mut beginning, 0)?;
    if length > 0 && beginning != *BEGINNING {
        return Err(refused("what is in it is no trace"));
    }
    Ok(file)
}

/// Whether what is written there changes the kernel or a process (`/proc/self/mem`).
fn is_of_kernel(file: &File) -> io::Result<bool> {
    let kind = fstatfs(file)?.filesystem_type();
    Ok([PROC_SUPER_MAGIC, SYSFS_MAGIC, CGROUP2_SUPER_MAGIC].contains(&kind))
}

fn may_replace(data: &Metadata) -> io::Result<()> {
    let me = nix::unistd::geteuid().as_raw();
    let what = match (data.is_file(), data.uid() == me, data.nlink()) {
        (false, ..) => "it is no regular file".to_owned(),
        (_, false, _) => format!("it belongs to user {}, not to user {me}", data.uid()),
        (.., 2..) => {
            "it has another name besides, so that it may be another file's content (a hard link)"
                .to_owned()
        }
        _ => return Ok(()),
    };
    Err(refused(&what))
}

fn refused(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!("{what}; a trace replaces only files of one's own: name another one"),
    )
}

fn is_same(one: &Metadata, other: &Metadata) -> bool {
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::instance::beside;

    fn line(t_ns: u64, event: Event, pid: i32) -> Line {
        Line {
            t_ns,
            event,
            pid,
            name: "cg".into(),
            cpus: vec![0, 1],
            shared: false,
            lost: 0,
            gone: 0,
        }
    }

    fn read(path: &Path) -> Vec<serde_json::Value> {
        fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    #[test]
    fn lines_are_in_the_file_when_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.jsonl");
        fs::write(&path, "{\"t_ns\":7,an old one").unwrap();
        let mut trace = Trace::create(&path, 1 << 20, false).unwrap();
        (0..3).for_each(|t_ns| trace.write(line(t_ns, Event::Allocation, 7)));
        trace.finish().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert_eq!(
            text.lines().next(),
            Some(
                r#"{"t_ns":0,"event":"allocation","pid":7,"name":"cg","cpus":[0,1],"shared":false}"#
            )
        );
    }

    #[test]
    fn a_trace_keeps_to_two_files_of_its_bound_and_each_of_them_says_which_programs_are_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let mut pages = Pages::create(&path, 2000).unwrap();
        pages.write(line(0, Event::Start, 1));
        pages.write(line(1, Event::Allocation, 7));
        pages.write(line(2, Event::Allocation, 8));
        pages.write(line(3, Event::Exit, 8));
        let others: u64 = 200;
        (0..others).for_each(|t_ns| pages.write(line(10 + t_ns, Event::Arrival, 9)));
        let (last, before) = (read(&path), read(&beside(&path, ".1")));
        assert!(
            fs::metadata(&path).unwrap().len() <= 2000
                && fs::metadata(beside(&path, ".1")).unwrap().len() <= 2000
        );
        for file in [&last, &before] {
            assert_eq!((&file[0]["event"], &file[0]["cpus"][1]), (&"continued".into(), &1.into()));
            assert_eq!((&file[1]["event"], &file[1]["pid"]), (&"allocation".into(), &7.into()));
            assert_ne!(file[2]["pid"], 8, "it has left");
        }
        // All that is in neither file is counted in one of those that were: here by the one that
        // replaced the last.
        assert_eq!(
            last[0]["gone"].as_u64().unwrap(),
            before.len() as u64,
            "files of the same length"
        );
        assert_eq!(last.last().unwrap()["t_ns"], 10 + others - 1);
    }

    #[test]
    fn what_cannot_be_written_is_counted_by_the_next_line_that_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let mut pages = Pages::create(&path, 1 << 20).unwrap();
        pages.write(line(0, Event::Start, 1));
        let full = File::open(&path).unwrap();
        let writable = std::mem::replace(&mut pages.file, full);
        pages.write(line(1, Event::Arrival, 7));
        pages.write(line(2, Event::Allocation, 7));
        pages.file = writable;
        pages.write(line(3, Event::Exit, 7));
        let lines = read(&path);
        assert_eq!((lines.len(), &lines[1]["lost"]), (2, &2.into()));

        pages.file = File::open(&path).unwrap();
        let (sender, receiver) = sync_channel(4);
        sender.send(line(4, Event::Stop, 1)).unwrap();
        drop(sender);
        let error = pages.write_all(&receiver).unwrap_err().to_string();
        assert!(error.contains("its last 1 lines are missing"), "{error}");
    }

    #[test]
    fn only_a_file_of_ones_own_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let [precious, link, hard, fifo] =
            ["precious", "link", "hard", "fifo"].map(|name| dir.path().join(name));
        fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, &link).unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let refused = |path: &Path| Trace::create(path, 1 << 20, false).unwrap_err().to_string();
        assert!(refused(&link).contains("symbolic link"));
        assert!(refused(Path::new("/proc/self/comm")).contains("kernel's"));
        fs::hard_link(&precious, &hard).unwrap();
        assert!(refused(&hard).contains("hard link"));
        fs::remove_file(&hard).unwrap();
        assert!(refused(&precious).contains("what is in it is no trace"));
        refused(&fifo);
        refused(Path::new("/dev/null"));
        if nix::unistd::geteuid().is_root() {
            let theirs = dir.path().join("theirs");
            fs::write(&theirs, "precious").unwrap();
            nix::unistd::chown(&theirs, Some(nix::unistd::Uid::from_raw(1002)), None).unwrap();
            assert!(refused(&theirs).contains("belongs to user 1002"));
            assert_eq!(fs::read_to_string(&theirs).unwrap(), "precious");
        }
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
}
