//! The log: lines on standard error, or in the journal where that is the same, few enough that
//! clients cannot fill a disk with them.
//!
//! The manager never waits for a reader, and no line is worth the manager: one that cannot be
//! written now, into a pipe that is full, a disk that is full, or after the reader has gone, is
//! lost and counted.
//!
//! A client that connects, registers and leaves in a loop, or talks nonsense, makes a line each
//! time. The log is a file, most often in memory (`/run`, `$XDG_RUNTIME_DIR`), where the manager
//! stays for months. So lines have a bucket ([`BURST`], [`BYTE_NS`]), and the reader is told how
//! many did not fit. A log that was asked for (`CPUMGR_LOG`) has no such limit.

use std::any::Any;
use std::cell::Cell;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use platform::clock::monotonic_ns;
use platform::fault;
use platform::process::is_writable;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::bucket::Bucket;
use crate::escape::escape;

mod journal;

/// What sets how much is logged.
const VARIABLE: &str = "CPUMGR_LOG";
/// Bytes that may come at once: some two thousand lines.
const BURST: u32 = 256 * 1024;
/// The time of a byte afterwards: two lines a second.
const BYTE_NS: u64 = 4_000_000;
/// What a pipe that can be written to takes without waiting (`PIPE_BUF`).
const PIECE: usize = 4096;
/// What helps where lines did not fit.
const HINT: &str = " (CPUMGR_LOG=info leaves the limit of two lines a second out)";

thread_local! {
    /// A panic of this thread is survived, and its catcher says what it means.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// What `call` returns, or what it said when it panicked, of which nothing is written.
pub(crate) fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    let before = QUIET.replace(true);
    // UNWIND: the caller throws away what the call left half done.
    let outcome = catch_unwind(AssertUnwindSafe(call));
    QUIET.set(before);
    outcome
}

/// Begins to log.
pub(crate) fn start() {
    // A policy that panics is survived (`guarded`), and no thread waits for a reader of the
    // message.
    std::panic::set_hook(Box::new(|panic| {
        if !QUIET.get() && is_writable(io::stderr().as_fd()).unwrap_or(false) {
            platform::message::say(format_args!(
                "cpumgr: {}",
                escape(panic.to_string().as_bytes())
            ));
        }
    }));
    let is_asked_for = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .with_env_var(VARIABLE)
        .from_env_lossy();
    let bucket = || (!is_asked_for).then(|| Bucket::new(BURST, BYTE_NS, monotonic_ns()));
    if journal::is_standard_error()
        && let Ok(journal) = journal::Journal::new(bucket())
    {
        return tracing_subscriber::registry().with(filter).with(journal).init();
    }
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    log.with_writer(Sparing::new(|| Unwaited(io::stderr()), monotonic_ns, bucket())).init();
}

/// Writes what `0` takes at once.
struct Unwaited<W>(W);

impl<W: Write + AsFd> Write for Unwaited<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !is_writable(self.0.as_fd())? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let written = self.0.write(&bytes[..bytes.len().min(PIECE)])?;
        Ok(fault::or("write(log)", Ok(written))?)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Makes lines of `out` that fit.
struct Sparing<O> {
    out: O,
    clock: fn() -> u64,
    room: Mutex<Room>,
}

struct Room {
    /// `None`: there is room for all.
    bucket: Option<Bucket>,
    lost: u64,
}

impl<O> Sparing<O> {
    fn new(out: O, clock: fn() -> u64, bucket: Option<Bucket>) -> Self {
        Self { out, clock, room: Mutex::new(Room { bucket, lost: 0 }) }
    }
}

impl<'a, O: Fn() -> W + 'a, W: Write> MakeWriter<'a> for Sparing<O> {
    type Writer = Line<'a, O>;

    fn make_writer(&'a self) -> Self::Writer {
        Line(self)
    }
}

/// One line; it is written in one piece.
struct Line<'a, O>(&'a Sparing<O>);

impl<O: Fn() -> W, W: Write> Write for Line<'_, O> {
    /// Never fails: the caller would write an error to standard error, and panic where it cannot.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Sparing { out, clock, room } = self.0;
        // What the lock protects is whole between any two statements.
        let mut room = room.lock().unwrap_or_else(PoisonError::into_inner);
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let has_room = room.bucket.as_mut().is_none_or(|bucket| bucket.take_all(length, clock()));
        let written = has_room && {
            let lost = match room.lost {
                0 => String::new(),
                lost => format!("{lost} lines did not fit{HINT}\n"),
            };
            out().write_all(&[lost.as_bytes(), line].concat()).is_ok()
        };
        room.lost = if written { 0 } else { room.lost.saturating_add(1) };
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::sync::atomic::{AtomicU64, Ordering};

    static NOW: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn a_flood_gets_the_burst_and_the_next_line_says_what_was_lost() {
        let written = Mutex::new(Vec::new());
        struct To<'a>(&'a Mutex<Vec<u8>>);
        impl Write for To<'_> {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.lock().unwrap().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let log = Sparing::new(
            || To(&written),
            || NOW.load(Ordering::Relaxed),
            Some(Bucket::new(BURST, BYTE_NS, 0)),
        );
        let line = [b"x".repeat(127), b"\n".to_vec()].concat();
        for _ in 0..10_000 {
            log.make_writer().write_all(&line).unwrap();
        }
        assert_eq!(written.lock().unwrap().len(), BURST as usize);
        NOW.store(128 * BYTE_NS, Ordering::Relaxed);
        log.make_writer().write_all(b"the last one\n").unwrap();
        let written = written.into_inner().unwrap();
        let end = String::from_utf8_lossy(&written[BURST as usize..]).into_owned();
        let lost = 10_000 - BURST as usize / 128;
        assert_eq!(end, format!("{lost} lines did not fit{HINT}\nthe last one\n"));
    }

    #[test]
    fn lines_that_no_reader_takes_are_lost_and_counted_and_no_thread_waits_for_them() {
        let (mut reader, writer) = io::pipe().unwrap();
        let log = Sparing::new(|| Unwaited(&writer), || 0, None);
        let line = [b"x".repeat(99), b"\n".to_vec()].concat();
        // More than any pipe holds.
        for _ in 0..40_000 {
            log.make_writer().write_all(&line).unwrap();
        }
        let lost = log.room.lock().unwrap().lost;
        assert!(lost > 0 && lost < 40_000);
        let mut first = vec![0; 100 * (40_000 - lost as usize)];
        reader.read_exact(&mut first).unwrap();
        log.make_writer().write_all(b"the last one\n").unwrap();
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert!(
            rest.ends_with(&format!("{lost} lines did not fit{HINT}\nthe last one\n")),
            "{rest:?}"
        );
    }

    #[test]
    fn a_line_for_a_reader_that_has_gone_or_a_disk_that_is_full_does_no_harm() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let gone = Sparing::new(|| Unwaited(writer.try_clone().unwrap()), || 0, None);
        assert_eq!(gone.make_writer().write(b"a line\n").unwrap(), 7);
        assert_eq!(gone.room.lock().unwrap().lost, 1);
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let full = Sparing::new(|| Unwaited(&full), || 0, None);
        assert_eq!(full.make_writer().write(b"a line\n").unwrap(), 7);
        assert_eq!(full.room.lock().unwrap().lost, 1);
    }
}
