//! The log: lines on standard error, as many as clients cannot fill a disk with.
//!
//! Who connects, registers and leaves in a loop, or talks nonsense, makes a line each time; the log is a file, most often in
//! memory (`/run`, `$XDG_RUNTIME_DIR`), where the manager stays for months. So lines have a bucket ([`BURST`], [`BYTE_NS`]),
//! and who reads them is told how many did not fit. A log that somebody asked for (`CPUMGR_LOG`) is whole.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use platform::clock::monotonic_ns;
use tracing_subscriber::fmt::MakeWriter;

use crate::bucket::Bucket;

/// What sets how much is logged.
const VARIABLE: &str = "CPUMGR_LOG";
/// Bytes that may come at once: some two thousand lines.
const BURST: u32 = 256 * 1024;
/// The time of a byte afterwards: two lines a second.
const BYTE_NS: u64 = 4_000_000;

/// Begins to log.
pub(crate) fn start() {
    let is_asked_for = std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty());
    let filter = tracing_subscriber::EnvFilter::builder()
        .with_default_directive(tracing::level_filters::LevelFilter::INFO.into())
        .with_env_var(VARIABLE)
        .from_env_lossy();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false);
    if is_asked_for {
        log.with_writer(io::stderr).init();
    } else {
        log.with_writer(Sparing::new(io::stderr, monotonic_ns)).init();
    }
}

/// Makes lines of `out` that fit.
struct Sparing<O> {
    out: O,
    clock: fn() -> u64,
    room: Mutex<Room>,
}

struct Room {
    bucket: Bucket,
    lost: u64,
}

impl<O> Sparing<O> {
    fn new(out: O, clock: fn() -> u64) -> Self {
        let room = Room { bucket: Bucket::new(BURST, BYTE_NS, clock()), lost: 0 };
        Self { out, clock, room: Mutex::new(room) }
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
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Sparing { out, clock, room } = self.0;
        // What the lock protects is whole between any two statements.
        let mut room = room.lock().unwrap_or_else(PoisonError::into_inner);
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        if !room.bucket.take_all(length, clock()) {
            room.lost += 1;
            return Ok(line.len());
        }
        match std::mem::take(&mut room.lost) {
            0 => out().write_all(line)?,
            lost => {
                let mut all = format!("{lost} lines did not fit (with {VARIABLE}=info all do)\n").into_bytes();
                all.extend_from_slice(line);
                out().write_all(&all)?;
            }
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static NOW: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn a_flood_gets_the_burst_and_whoever_comes_later_says_what_was_lost() {
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
        let log = Sparing::new(|| To(&written), || NOW.load(Ordering::Relaxed));
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
        assert_eq!(end, format!("{lost} lines did not fit (with CPUMGR_LOG=info all do)\nthe last one\n"));
    }
}
