//! A program that closes all of its descriptors, ours among them, and opens its own.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use arena::client::Client;
use nix::libc;
use platform::event::Doorbell;
use platform::fdpass;

use super::PATIENCE;

/// What lies in a socket for the program to read.
const LETTER: &[u8] = b"for the program";

/// The program's own things, at the numbers that were ours.
enum Things {
    Files(Vec<File>),
    Pipes(Vec<(std::io::PipeReader, std::io::PipeWriter, usize)>),
    Sockets(Vec<(OwnedFd, OwnedFd)>),
    Counters(Vec<Doorbell>),
}

impl Things {
    /// Opens them at all of the numbers, which are free, and at some others.
    fn take(ours: &[RawFd], kind: &str) -> Self {
        // The kernel gives the lowest free number.
        let count = ours.iter().copied().max().unwrap().unsigned_abs() as usize;
        let things = Self::open(kind, count + count % 2);
        let taken = things.numbers();
        for number in ours {
            assert!(taken.contains(number), "number {number} was not taken again: {taken:?}");
        }
        things
    }

    fn open(kind: &str, count: usize) -> Self {
        let pipe = |full: bool| {
            let (reader, mut writer) = std::io::pipe().unwrap();
            fdpass::set_nonblocking(&reader).unwrap();
            let mut filled = 0;
            if full {
                fdpass::set_nonblocking(&writer).unwrap();
                while let Ok(count) = writer.write(&[7; 4096]) {
                    filled += count;
                }
                // From now on a write waits for ever.
                use nix::fcntl::{FcntlArg, OFlag, fcntl};
                fcntl(&writer, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
            }
            (reader, writer, filled)
        };
        let sockets = || {
            let (left, right) = fdpass::pair().unwrap();
            for end in [&left, &right] {
                fdpass::send(end, LETTER, &[]).unwrap();
            }
            (left, right)
        };
        match kind {
            "files" => Self::Files((0..count).map(|_| tempfile::tempfile().unwrap()).collect()),
            "pipes" => Self::Pipes((0..count / 2).map(|_| pipe(false)).collect()),
            "full-pipes" => Self::Pipes((0..count / 2).map(|_| pipe(true)).collect()),
            "sockets" => Self::Sockets((0..count / 2).map(|_| sockets()).collect()),
            "counters" => Self::Counters((0..count).map(|_| Doorbell::new().unwrap()).collect()),
            other => panic!("unknown things {other}"),
        }
    }

    /// What is not as it was left. Uses every descriptor, so that one that was closed is noticed.
    fn damage(&mut self) -> Vec<String> {
        let mut damage = Vec::new();
        match self {
            Self::Files(files) => {
                for file in files {
                    match file.metadata() {
                        Ok(data) if data.len() == 0 => {}
                        other => damage.push(format!("a file: {:?}", other.map(|data| data.len()))),
                    }
                }
            }
            Self::Pipes(pipes) => {
                for (reader, writer, filled) in pipes {
                    let mut content = Vec::new();
                    let end = reader.read_to_end(&mut content);
                    // The writer is still there: the pipe is empty, and not at its end.
                    let open = matches!(&end, Err(error) if error.kind() == ErrorKind::WouldBlock);
                    if !open || content != vec![7; *filled] {
                        damage.push(format!(
                            "a pipe: {} bytes instead of {filled}, {end:?}",
                            content.len()
                        ));
                    }
                    if let Err(error) = writer.write(b"x") {
                        damage.push(format!("a pipe's end: {error}"));
                    }
                }
            }
            Self::Sockets(pairs) => {
                for end in pairs.iter().flat_map(|(left, right)| [left, right]) {
                    let mut buffer = [0; 64];
                    match fdpass::recv(end, &mut buffer, Some(Duration::ZERO)) {
                        Ok((length, _)) if &buffer[..length] == LETTER => {}
                        other => damage.push(format!(
                            "a socket's letter: {:?}",
                            other.map(|(length, _)| length)
                        )),
                    }
                    match fdpass::recv(end, &mut buffer, Some(Duration::ZERO)) {
                        Err(error) if error.is(libc::ETIMEDOUT) => {}
                        other => {
                            damage.push(format!("a socket: {:?}", other.map(|(length, _)| length)))
                        }
                    }
                }
            }
            Self::Counters(counters) => {
                for counter in counters {
                    match counter.clear() {
                        Ok(false) => {}
                        other => damage.push(format!("an event counter: {other:?}")),
                    }
                }
            }
        }
        damage
    }

    fn numbers(&self) -> Vec<RawFd> {
        match self {
            Self::Files(files) => files.iter().map(AsRawFd::as_raw_fd).collect(),
            Self::Pipes(pipes) => pipes
                .iter()
                .flat_map(|(reader, writer, _)| [reader.as_raw_fd(), writer.as_raw_fd()])
                .collect(),
            Self::Sockets(pairs) => pairs
                .iter()
                .flat_map(|(left, right)| [left.as_raw_fd(), right.as_raw_fd()])
                .collect(),
            Self::Counters(counters) => {
                counters.iter().map(|counter| counter.as_fd().as_raw_fd()).collect()
            }
        }
    }
}

/// Does it, changes its request many times, drops the client, and says what was done to its things.
pub(super) fn reuse(kind: &str, client: Client) -> String {
    // What waits for ever ends here, and the test finds that the program ended instead of
    // answering.
    nix::unistd::alarm::set(u32::try_from(PATIENCE.as_secs()).unwrap());
    let mut things = Things::take(&close_all(), kind);
    let begin = Instant::now();
    let mut asked = 0_u32;
    // The watcher is to have its looks as well.
    while asked < 1000 || (client.is_alive() && begin.elapsed() < PATIENCE / 2) {
        client.request(1 + asked % 2);
        asked += 1;
    }
    let alive = client.is_alive();
    drop(client);
    let damage = things.damage();
    let _ended = nix::unistd::alarm::cancel();
    if alive {
        return "still alive".into();
    }
    if damage.is_empty() { "unharmed".into() } else { damage.join("; ") }
}

/// The same without a request: the watcher alone has to notice.
pub(super) fn reuse_quietly(kind: &str, client: Client) -> String {
    nix::unistd::alarm::set(u32::try_from(PATIENCE.as_secs()).unwrap());
    let mut things = Things::take(&close_all(), kind);
    super::eventually("the watcher notices", || (!client.is_alive()).then_some(()));
    drop(client);
    let damage = things.damage();
    let _ended = nix::unistd::alarm::cancel();
    if damage.is_empty() { "unharmed".into() } else { damage.join("; ") }
}

/// `closefrom(3)`; the numbers that the registration had among them. The first three are how the
/// test speaks with the program.
fn close_all() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let numbers: Vec<RawFd> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The listing's own descriptor is closed by now.
    // SAFETY: - fcntl only asks.
    let flags = |number: RawFd| unsafe { libc::fcntl(number, libc::F_GETFD) };
    let open: Vec<(RawFd, i32)> =
        numbers.into_iter().map(|number| (number, flags(number))).collect();
    let open: Vec<(RawFd, i32)> =
        open.into_iter().filter(|(number, flags)| *number > 2 && *flags >= 0).collect();
    for (number, _) in &open {
        // SAFETY: - close takes a number. That other code thinks to own it is what is tested: the
        // client has to cope.
        assert_eq!(unsafe { libc::close(*number) }, 0);
    }
    // What was inherited, from the program that runs the tests, is not close-on-exec.
    let ours: Vec<RawFd> = open
        .into_iter()
        .filter(|(_, flags)| flags & libc::FD_CLOEXEC != 0)
        .map(|(number, _)| number)
        .collect();
    assert!(ours.len() >= 2, "a registration has a socket and a doorbell: {ours:?}");
    ours
}
