//! The numbers of descriptors in a process that was started without standard streams.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

use crate::helper;
use nanothreads_platform::SysResult;
use nanothreads_platform::descriptor::copy;
use nanothreads_platform::event::Doorbell;
use nanothreads_platform::process::{current_pid, peer, peer_by_recheck, pidfd_open};
use nanothreads_platform::shm::SharedMemory;
use nanothreads_platform::{fdpass, process};

const PATIENCE: Duration = Duration::from_secs(20);

/// One of each kind of descriptor that is kept, each with the three lowest numbers free.
fn one_of_each(directory: &std::path::Path) -> SysResult<Vec<(&'static str, OwnedFd)>> {
    let path = directory.join("socket");
    let listener = fdpass::listen(&path, 0o600)?;
    let connection = fdpass::connect(&path, PATIENCE)?;
    let accepted = fdpass::accept(&listener)?;
    let (left, right) = fdpass::pair()?;
    let bell = Doorbell::new()?;
    fdpass::send(&left, b"three", &[bell.as_fd(), bell.as_fd(), bell.as_fd()])?;
    let (_, received) = fdpass::recv(&right, &mut [0; 8], Some(PATIENCE))?;
    let memory = SharedMemory::create("test", 4096)?;
    let mut made = vec![
        ("opened for reading", memory.reopen_read_only()?),
        ("copy", copy(&memory)?),
        ("shared memory", memory.into()),
        ("process", pidfd_open(current_pid())?),
        ("peer", peer(&accepted)?.pidfd),
        ("peer, rechecked", peer_by_recheck(&accepted)?.pidfd),
        ("listener", listener),
        ("connection", connection),
        ("accepted", accepted),
        ("pair", left),
        ("pair", right),
        ("doorbell", bell.into()),
    ];
    made.extend(received.into_iter().map(|fd| ("received", fd)));
    Ok(made)
}

/// In a process of its own, since it closes the streams of all tests.
#[test]
#[ignore = "the entry point of child processes, not a test"]
fn has_no_streams() {
    let Some(directory) = helper::argument() else { return };
    for stream in 0..3 {
        // SAFETY: - nothing in this process owns the standard streams, and this is its only test.
        assert_eq!(unsafe { libc::close(stream) }, 0);
    }
    let made = one_of_each(directory.as_ref());
    let low = |made: &[(&str, OwnedFd)]| -> Vec<String> {
        let low = made.iter().filter(|(_, fd)| fd.as_raw_fd() <= libc::STDERR_FILENO);
        low.map(|(what, fd)| format!("{what} is {}", fd.as_raw_fd())).collect()
    };
    // There is nowhere to print.
    let said = made.map_or_else(|error| error.to_string(), |made| low(&made).join(", "));
    std::fs::write(std::path::Path::new(&directory).join("said"), format!("low: {said}")).unwrap();
    std::process::exit(0);
}

#[test]
fn what_is_kept_never_has_the_number_of_a_standard_stream() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = helper::start("descriptor::has_no_streams", directory.path().to_str().unwrap());
    child.wait().unwrap();
    assert_eq!(std::fs::read_to_string(directory.path().join("said")).unwrap(), "low: ");
}

#[test]
fn a_descriptor_that_is_no_streams_stays_where_it_is() {
    let pidfd = process::pidfd_open(current_pid()).unwrap();
    let number: RawFd = pidfd.as_raw_fd();
    assert_eq!(nanothreads_platform::descriptor::above_streams(pidfd).unwrap().as_raw_fd(), number);
}
