//! The trace: who had which processors when, as JSON lines.
//!
//! Each line is an object `{t_ns, event, pid, name, cpus, shared}`. Events: `start` and `stop` (the manager itself with
//! the processors that it manages), `arrival`, `allocation` (a program's processors from now on), `exit`. Times are of
//! the monotonic clock. A thread of its own writes, so that a slow disk never stops the scheduler: a full queue drops
//! lines, and the next line that fits says how many (`lost`).

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

use serde::Serialize;

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
}

impl Trace {
    /// Begins a trace in a new file; an old one is replaced.
    ///
    /// # Errors
    /// When the file cannot be made or there is no thread.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        let (sender, receiver) = sync_channel(QUEUE);
        let writer = thread::Builder::new().name("trace".into()).spawn(move || write_lines(file, &receiver))?;
        Ok(Self { queue: Some(sender), writer: Some(writer), lost: 0 })
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
    /// The first error of writing; the trace ends there.
    pub fn finish(mut self) -> io::Result<()> {
        self.queue = None;
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(io::Error::other("the trace's writer panicked")),
            None => Ok(()),
        }
    }
}

fn write_lines(file: File, queue: &Receiver<Line>) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    while let Ok(first) = queue.recv() {
        for line in std::iter::once(first).chain(queue.try_iter()) {
            serde_json::to_writer(&mut out, &line)?;
            out.write_all(b"\n")?;
        }
        // Whoever looks at the file while programs run sees whole lines.
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_file_when_it_is_finished() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.jsonl");
        let mut trace = Trace::create(&path).unwrap();
        for t_ns in 0..3 {
            let name = String::from("cg");
            trace.write(Line {
                t_ns,
                event: Event::Allocation,
                pid: 7,
                name,
                cpus: vec![0, 1],
                shared: false,
                lost: 0,
            });
        }
        trace.finish().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 3);
        assert_eq!(
            text.lines().next(),
            Some(r#"{"t_ns":0,"event":"allocation","pid":7,"name":"cg","cpus":[0,1],"shared":false}"#)
        );
    }
}
