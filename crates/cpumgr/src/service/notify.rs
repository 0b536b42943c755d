//! What the service manager is told: one datagram each, to the socket that it names.
//!
//! # Invariants
//! - N1 Nothing here waits: a service manager that does not read loses what it is told.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::PathBuf;
use std::time::Duration;

use platform::fdpass;

/// The longest text after `STATUS=`.
const MAX_STATUS: usize = 300;

/// The way to the service manager.
#[derive(Clone, Debug)]
pub struct Notifier {
    socket: Target,
    watchdog: Option<Duration>,
}

#[derive(Clone, Debug)]
enum Target {
    Path(PathBuf),
    Abstract(Vec<u8>),
}

impl Notifier {
    /// The one that the environment names (`NOTIFY_SOCKET`); `None`: no service manager wants to
    /// hear anything.
    pub fn of_environment() -> Option<Self> {
        Self::of(|name| env::var_os(name), std::process::id())
    }

    fn of(variable: impl Fn(&str) -> Option<OsString>, own: u32) -> Option<Self> {
        let named = variable("NOTIFY_SOCKET")?;
        let socket = match named.as_bytes() {
            [b'/', ..] => Target::Path(PathBuf::from(&named)),
            [b'@', name @ ..] => Target::Abstract(name.to_vec()),
            _ => {
                tracing::warn!(?named, "NOTIFY_SOCKET is no socket that can be reached");
                return None;
            }
        };
        let number = |name: &str| variable(name)?.to_str()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(own));
        let watchdog = number("WATCHDOG_USEC").filter(|time| is_ours && *time > 0);
        Some(Self { socket, watchdog: watchdog.map(Duration::from_micros) })
    }

    /// How often it wants a sign of life, at least; `None`: never.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Says `lines`.
    pub(crate) fn say(&self, lines: &str) {
        self.send(lines, &[]);
    }

    /// A line for people.
    pub(crate) fn status(&self, text: &str) {
        self.say(&status_line(text));
    }

    /// It shall keep `fd` under `name`, and pass it to the next process of this service.
    pub(crate) fn store(&self, fd: BorrowedFd<'_>, name: &str) {
        self.send(&format!("FDSTORE=1\nFDNAME={name}\n"), &[fd]);
    }

    fn send(&self, lines: &str, descriptors: &[BorrowedFd<'_>]) {
        // A socket of its own each time: the other one may be a new one by now.
        let sent = self.open().map_err(|error| error.to_string()).and_then(|socket| {
            let sent = fdpass::send(&socket, lines.as_bytes(), descriptors);
            sent.map_err(|error| error.to_string())
        });
        if let Err(error) = sent {
            tracing::debug!(lines, error, "the service manager was not told");
        }
    }

    fn open(&self) -> io::Result<UnixDatagram> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        match &self.socket {
            Target::Path(path) => socket.connect(path)?,
            Target::Abstract(name) => {
                socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?
            }
        }
        Ok(socket)
    }
}

/// A status, as a line of a datagram.
pub(crate) fn status_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    format!("STATUS={}\n", line.chars().take(MAX_STATUS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::time::Instant;

    use super::*;

    fn notifier(pairs: &[(&str, &str)]) -> Option<Notifier> {
        let of = |name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
        };
        Notifier::of(of, 7)
    }

    #[test]
    fn the_environment_says_where_and_how_often() {
        assert!(notifier(&[]).is_none() && notifier(&[("NOTIFY_SOCKET", "vsock:1")]).is_none());
        let of = |pid, time| {
            let pairs = [("NOTIFY_SOCKET", "/s"), ("WATCHDOG_PID", pid), ("WATCHDOG_USEC", time)];
            notifier(&pairs).unwrap().watchdog()
        };
        assert_eq!(of("7", "2000000"), Some(Duration::from_secs(2)));
        assert_eq!((of("8", "2000000"), of("7", "0"), of("7", "soon")), (None, None, None));
    }

    #[test]
    fn words_and_descriptors_arrive_and_a_manager_that_does_not_read_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("n");
        let there = UnixDatagram::bind(&path).unwrap();
        let told = notifier(&[("NOTIFY_SOCKET", path.to_str().unwrap())]).unwrap();
        told.store(there.as_fd(), "x");
        let mut text = [0; 4096];
        let (length, descriptors) = fdpass::recv(&there, &mut text, None).unwrap();
        assert_eq!(&text[..length], b"FDSTORE=1\nFDNAME=x\n");
        assert_eq!(descriptors.len(), 1);
        told.status(&"line\nREADY=1".repeat(99));
        let (length, _) = fdpass::recv(&there, &mut text, None).unwrap();
        assert_eq!(&text[..length], b"STATUS=line\n");
        // More than any queue holds.
        let begin = Instant::now();
        (0..2000).for_each(|_| told.say("WATCHDOG=1\n"));
        drop(there);
        told.say("STOPPING=1\n");
        assert!(begin.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn an_abstract_name_is_reached() {
        let name = format!("cpumgr-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let there = UnixDatagram::bind_addr(&address).unwrap();
        notifier(&[("NOTIFY_SOCKET", &format!("@{name}"))]).unwrap().say("READY=1\n");
        let mut text = [0; 64];
        assert_eq!(there.recv(&mut text).unwrap(), 8);
    }
}
