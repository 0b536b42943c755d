//! Lines for the journal, with a field for each thing that they name (systemd's native protocol).
//!
//! Each event is one datagram: `MESSAGE` is what the log on standard error would say, `PRIORITY`
//! its level, and each field of it is `CPUMGR_NAME` beside that, so that
//! `journalctl -u cpumgr CPUMGR_PID=4711` shows the life of one program.
//!
//! # Invariants
//! - J1 As on standard error: nothing waits for a reader, and clients cannot fill a disk. What the
//!   journal does not take at once is lost, and counted.

use std::fmt::{self, Write as _};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use platform::clock::monotonic_ns;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::{HINT, Room};
use crate::bucket::Bucket;

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";
/// What names the stream that standard error is: `device:inode`.
const STREAM: &str = "JOURNAL_STREAM";

/// Whether standard error goes to the journal.
pub(super) fn is_standard_error() -> bool {
    let Some(named) = std::env::var_os(STREAM) else { return false };
    let own = std::fs::metadata("/proc/self/fd/2");
    own.is_ok_and(|own| named.to_str() == Some(&format!("{}:{}", own.dev(), own.ino())))
}

/// Events as datagrams to the journal.
pub(super) struct Journal {
    socket: UnixDatagram,
    room: Mutex<Room>,
}

impl Journal {
    /// The one of this machine, with `bucket` for what may come.
    ///
    /// # Errors
    /// When there is none.
    pub(super) fn new(bucket: Option<Bucket>) -> io::Result<Self> {
        Self::at(Path::new(SOCKET), bucket)
    }

    fn at(path: &Path, bucket: Option<Bucket>) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, room: Mutex::new(Room { bucket, lost: 0 }) })
    }

    fn say(&self, level: Level, mut entry: Entry) {
        // What the lock protects is whole between any two statements.
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        if room.lost > 0 {
            entry.text = format!("{} lines did not fit{HINT}; {}", room.lost, entry.text);
        }
        let packet = entry.packet(level);
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        let has_room = room.bucket.as_mut().is_none_or(|it| it.take_all(length, monotonic_ns()));
        let sent = has_room && self.socket.send(&packet).is_ok();
        room.lost = if sent { 0 } else { room.lost.saturating_add(1) };
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut entry = Entry::default();
        event.record(&mut entry);
        entry.target = event.metadata().target();
        self.say(*event.metadata().level(), entry);
    }
}

/// One event.
#[derive(Default)]
struct Entry {
    text: String,
    /// Names and values, in their order.
    fields: Vec<(&'static str, String)>,
    target: &'static str,
}

impl Visit for Entry {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => {
                // Writing to a text does not fail.
                let _written: fmt::Result = write!(self.text, "{value:?}");
            }
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.text.push_str(value),
            name => self.fields.push((name, value.to_owned())),
        }
    }
}

impl Entry {
    fn packet(&self, level: Level) -> Vec<u8> {
        let priority = match level {
            Level::ERROR => "3",
            Level::WARN => "4",
            Level::INFO => "6",
            _ => "7",
        };
        let mut packet = Vec::new();
        let named = self.fields.iter().map(|(name, value)| format!(" {name}={value}"));
        let text = named.fold(self.text.clone(), |text, field| text + &field);
        put(&mut packet, "MESSAGE", &text);
        put(&mut packet, "PRIORITY", priority);
        put(&mut packet, "SYSLOG_IDENTIFIER", "cpumgr");
        put(&mut packet, "CPUMGR_TARGET", self.target);
        for (name, value) in &self.fields {
            let plain =
                |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
            let name: String = name.chars().map(plain).collect();
            put(&mut packet, &format!("CPUMGR_{name}"), value);
        }
        packet
    }
}

/// With its length before it: a value may hold ends of lines.
fn put(packet: &mut Vec<u8>, name: &str, value: &str) {
    packet.extend_from_slice(name.as_bytes());
    packet.push(b'\n');
    packet.extend_from_slice(&(value.len() as u64).to_le_bytes());
    packet.extend_from_slice(value.as_bytes());
    packet.push(b'\n');
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    /// The fields of a packet.
    fn fields(mut packet: &[u8]) -> BTreeMap<String, String> {
        let mut fields = BTreeMap::new();
        while let Some(end) = packet.iter().position(|byte| *byte == b'\n') {
            let (name, rest) = packet.split_at(end);
            let (length, rest) = rest[1..].split_at(8);
            let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.insert(text(name), text(&rest[..length]));
            packet = &rest[length + 1..];
        }
        fields
    }

    fn receive(there: &UnixDatagram) -> BTreeMap<String, String> {
        let mut packet = [0; 4096];
        let length = there.recv(&mut packet).unwrap();
        fields(&packet[..length])
    }

    #[test]
    fn each_thing_that_a_line_names_is_a_field_and_no_value_makes_another_one() {
        let dir = tempfile::tempdir().unwrap();
        let there = UnixDatagram::bind(dir.path().join("j")).unwrap();
        let journal = Journal::at(&dir.path().join("j"), None).unwrap();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(journal), || {
            tracing::warn!(pid = 7, name = "a\nPRIORITY=0", "a program {}", "left");
        });
        let fields = receive(&there);
        assert_eq!(fields["MESSAGE"], "a program left pid=7 name=a\nPRIORITY=0");
        assert_eq!((fields["PRIORITY"].as_str(), fields["CPUMGR_PID"].as_str()), ("4", "7"));
        assert_eq!(fields["CPUMGR_NAME"], "a\nPRIORITY=0");
    }

    #[test]
    fn what_the_journal_does_not_take_is_lost_and_counted() {
        let dir = tempfile::tempdir().unwrap();
        let there = UnixDatagram::bind(dir.path().join("j")).unwrap();
        let journal = Journal::at(&dir.path().join("j"), None).unwrap();
        let say = || journal.say(Level::INFO, Entry { text: "x".into(), ..Entry::default() });
        // More than any queue holds; nothing waits.
        (0..5000).for_each(|_| say());
        let lost = journal.room.lock().unwrap().lost;
        assert!(lost > 0);
        there.set_nonblocking(true).unwrap();
        let mut packet = [0; 4096];
        while there.recv(&mut packet).is_ok() {}
        say();
        assert_eq!(receive(&there)["MESSAGE"], format!("{lost} lines did not fit{HINT}; x"));
    }
}
