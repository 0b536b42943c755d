//! Asks the manager every [`STEP`] how many processors each program has, whether or not a page is
//! looked at: for the last minutes.
//!
//! It keeps one connection: a question on that keeps no idle manager there (`server::calls`), which
//! each new connection, and so each reader, does.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Shared;
use crate::status::Watcher;

/// The time between two samples.
pub(super) const STEP: Duration = Duration::from_secs(2);

/// A thread that takes samples until this is dropped.
#[derive(Debug)]
pub(super) struct Sampler {
    /// Never used; its end is what counts.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Samples for the board of `shared`, from the manager at `socket`.
    ///
    /// # Errors
    /// When there is no thread.
    pub(super) fn start(shared: Arc<Shared>, socket: &Path) -> std::io::Result<Self> {
        let (end, ended) = mpsc::channel();
        let socket = socket.to_owned();
        let body = move || sample(&shared, &socket, &ended);
        let thread = thread::Builder::new().name("web-samples".into()).spawn(body)?;
        Ok(Self { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn sample(shared: &Shared, socket: &Path, ended: &Receiver<()>) {
    let mut watcher = None;
    loop {
        watcher = watcher.or_else(|| Watcher::open(socket).ok());
        match watcher.as_ref().map(|it| it.programs()) {
            Some(Ok(programs)) => shared.board().note(&programs),
            // There is a gap; the next one opens anew.
            Some(Err(error)) => {
                tracing::debug!(%error, "a sample is missing");
                watcher = None;
            }
            None => {}
        }
        if ended.recv_timeout(STEP) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
