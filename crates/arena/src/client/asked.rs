//! A registration that is sent and not answered yet: one connection, for as long as the answer
//! takes.
//!
//! A service manager may hold the listener while no manager runs, and a manager may have no time.
//! Then a connection waits in the listener's queue, or is in and waits for its turn. It loses
//! nothing by waiting, and one that came anew for each look would be one more for the manager to
//! serve, which it is as soon as it can: with a registration of the same process in each.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use platform::{SysError, fdpass, file, process};

use super::ConnectError;
use super::hello::Hello;
use super::kept::Socket;
use super::registration::{Registration, ask};
use crate::message::{Heard, Held, MAX_MESSAGE};

/// Which file stands at a path: device and inode.
type File = (u64, u64);

/// See the module.
#[derive(Debug)]
pub(super) struct Asked {
    path: PathBuf,
    socket: Arc<Socket>,
    /// What stood at the path before it was connected to.
    file: Option<File>,
}

impl Asked {
    /// Asks the manager at `path`; waits at most `timeout` for room in the listener's queue.
    pub(super) fn ask(
        path: &Path,
        hello: &Hello,
        held: Option<Held>,
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let file = file_at(path);
        let socket = Arc::new(ask(path, hello, held, timeout)?.into_socket()?);
        Ok(Self { path: path.to_owned(), socket, file })
    }

    /// For another thread that ends the wait, by [`Socket::hang_up`].
    pub(super) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Waits for the answer, or until the other side hangs up. `goes_on` is asked first, and after
    /// each wake. False: it said no.
    ///
    /// # Errors
    /// When another socket stands at the path (it is looked at every `look`), or the program has
    /// closed this one, as one that closes all its descriptors does.
    pub(super) fn until_answered(
        &self,
        look: Duration,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<bool, ConnectError> {
        while goes_on() {
            let waited = process::wait_readable(&[self.socket.unchecked()], Some(look));
            // Before anything else: the number may be the program's by now.
            if self.socket.ours().is_none() {
                return Err(self.failed(SysError::new("ppoll", libc::EBADF)));
            }
            if !waited.map_err(|error| self.failed(error))?.is_empty() {
                return Ok(goes_on());
            }
            let now = file_at(&self.path);
            if now.is_some() && self.file.is_some() && now != self.file {
                return Err(self.failed(SysError::new("connect", libc::ECONNABORTED)));
            }
        }
        Ok(false)
    }

    /// What the answer brings, which is there.
    pub(super) fn registration(self) -> Result<Registration, ConnectError> {
        let mut packet = vec![0; MAX_MESSAGE];
        let received = match self.socket.ours() {
            Some(socket) => fdpass::recv(socket, &mut packet, Some(Duration::ZERO)),
            None => Err(SysError::new("recvmsg", libc::EBADF)),
        };
        let (length, descriptors) = received.map_err(|error| self.failed(error))?;
        if length == 0 {
            return Err(self.failed(SysError::new("recvmsg", libc::ECONNRESET)));
        }
        let heard = Heard::decode(&packet[..length])
            .map_err(|source| ConnectError::Message { path: self.path.clone(), source })?;
        Registration::of(&self.path, (heard, descriptors), self.socket)
    }

    fn failed(&self, error: SysError) -> ConnectError {
        ConnectError::System { path: self.path.clone(), source: error.into() }
    }
}

fn file_at(path: &Path) -> Option<File> {
    file::metadata(path).ok().map(|it| (it.dev(), it.ino()))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::Client;
    use super::*;
    use std::os::fd::AsFd;
    use std::time::Instant;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn hello() -> Hello {
        Hello {
            max_processors: 1,
            request: 1,
            fixed_team: false,
            library: "test".into(),
            within: None,
            broker: false,
        }
    }

    #[test]
    fn another_socket_at_the_path_ends_the_wait_and_the_same_one_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        // It is never asked, as one that a stopped process holds.
        let _listener = fdpass::listen(&path, 0o600).unwrap();
        let asked = Asked::ask(&path, &hello(), None, PATIENCE).unwrap();
        let mut looks = 0;
        let outcome = asked.until_answered(Duration::from_millis(1), || {
            looks += 1;
            if looks == 5 {
                std::fs::remove_file(&path).unwrap();
            }
            if looks == 10 {
                std::fs::write(dir.path().join("another"), "").unwrap();
                std::fs::rename(dir.path().join("another"), &path).unwrap();
            }
            looks < 1000
        });
        assert!(outcome.is_err() && looks == 10, "{outcome:?} after {looks} looks");
    }
    #[test]
    fn a_client_that_ends_waits_for_no_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = fdpass::listen(&path, 0o600).unwrap();
        let client = Client::expect(&path, &hello()).unwrap();
        let comes = process::wait_readable(&[listener.as_fd()], Some(PATIENCE)).unwrap();
        assert!(!comes.is_empty(), "it does not come within {PATIENCE:?}");
        let socket = fdpass::accept(&listener).unwrap();
        fdpass::recv(&socket, &mut vec![0; MAX_MESSAGE], Some(PATIENCE)).unwrap();
        let begin = Instant::now();
        drop(client);
        // Half the time between two looks.
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        // Once children of other tests, which have copies of its socket until they exec, are gone.
        while !process::is_hung_up(&socket).unwrap() {
            assert!(begin.elapsed() < PATIENCE, "its socket is open");
            std::thread::yield_now();
        }
    }
}
