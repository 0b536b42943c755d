//! The listener for browsers and Prometheus: read-only, and only where the configuration names an
//! address (`listen`).
//!
//! # Protocol
//! One request on a connection, HTTP/1.1 or 1.0: `GET` or `HEAD` of `/` (the page), `/status.json`
//! (what the page shows), `/metrics`. The connection is closed after the answer.
//!
//! # Invariants
//! - W1 The scheduler knows nothing of this: answers come over the manager's own socket, as for any
//!   client, and are kept for `FRESH`. However many ask, the manager is asked once in that time.
//!   For the last minutes it is asked every two seconds besides (`sampler`).
//! - W2 Bounded: `MOST` connections at a time, others are closed at once; a head of `HEAD`
//!   bytes; `PATIENCE` for the whole of a request and as long for its answer, however slowly it
//!   drips.
//! - W3 Nothing is changed by any request. Other methods are refused, with 405.
//! - W4 A page of another site that a browser shows cannot read this: without `Origin` permission
//!   its script gets nothing, and names that lead here only by trickery (DNS) are refused, with
//!   421: at a loopback address `Host` is an address or `localhost`.
//!
//! # Not here
//! Users and passwords: a reader on this address sees the names of programs. Beyond the machine put
//! a server with TLS in front.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::error::Error;

mod board;
mod request;
mod sampler;

use board::Board;
#[cfg(test)]
pub(crate) use board::{Sample, Shown};
use request::{Request, RequestError};
use sampler::Sampler;

/// The page.
const PAGE: &str = include_str!("web/page.html");
/// Connections at a time.
const MOST: usize = 16;
/// The longest head of a request.
const HEAD: usize = 8 << 10;
/// How long a request may take to come, and its answer to go.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer of the manager is kept.
const FRESH: Duration = Duration::from_secs(1);

/// A listener that listens until it is dropped.
#[derive(Debug)]
pub struct Web {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
    _sampler: Sampler,
}

#[derive(Debug)]
struct Shared {
    board: Mutex<Board>,
    is_loopback: bool,
    there: AtomicUsize,
    ends: AtomicBool,
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        // What the lock protects is whole between any two statements.
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Web {
    /// Listens at `address` and answers for the manager at `socket`.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn listen(address: SocketAddr, socket: &Path) -> Result<Self, Error> {
        let failed = |source: std::io::Error| Error::Io {
            what: fault(&source),
            path: PathBuf::from(address.to_string()),
            source,
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let is_loopback = address.ip().is_loopback();
        if !is_loopback {
            tracing::warn!(%address, "whatever reaches this address reads the names of all \
                                      programs");
        }
        let shared = Arc::new(Shared {
            board: Mutex::new(Board::new(socket)),
            is_loopback,
            there: AtomicUsize::new(0),
            ends: AtomicBool::new(false),
        });
        let sampler = Sampler::start(Arc::clone(&shared), socket).map_err(failed)?;
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("web".into())
            .spawn(move || accept(&listener, &own))
            .map_err(failed)?;
        tracing::info!(%address, "listens for browsers and Prometheus");
        Ok(Self { shared, address, thread: Some(thread), _sampler: sampler })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        // Release: nothing is handed over; the thread looks at the flag after each connection.
        self.shared.ends.store(true, Ordering::Release);
        // The listener is woken. Where that fails the thread ends with the process.
        if TcpStream::connect_timeout(&self.address, PATIENCE).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _panicked = thread.join();
        }
    }
}

/// What could not be done, and where that is not the machine's fault but the unit's, what to do.
fn fault(error: &std::io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw) {
        Some(Errno::EAFNOSUPPORT) => {
            "cannot listen at the address of `listen` (the service is closed against it: see \
             listen.conf in /usr/share/doc/cpumgr/examples),"
        }
        _ => "cannot listen at the address of `listen`,",
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        // Acquire: see `Web::drop`.
        if shared.ends.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else {
            // No descriptor is free, most likely: not again at once.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        // Relaxed: only a number; this thread alone makes it grow.
        if shared.there.load(Ordering::Relaxed) >= MOST {
            continue;
        }
        shared.there.fetch_add(1, Ordering::Relaxed);
        let own = Arc::clone(shared);
        let serving = thread::Builder::new().name("web-client".into()).spawn(move || {
            serve(&stream, &own);
            own.there.fetch_sub(1, Ordering::Relaxed);
        });
        if serving.is_err() {
            shared.there.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn serve(stream: &TcpStream, shared: &Shared) {
    let answer = match read(stream) {
        Ok(Some(head)) => match Request::parse(&head) {
            Ok(request) => answer(&request, shared),
            Err(error) => Answer::refusal(&error),
        },
        Ok(None) => Answer::refusal(&RequestError::TooLong),
        // It said nothing in time, or went.
        Err(_) => return,
    };
    let _gone = write(stream, &answer.bytes());
    let _gone = stream.shutdown(Shutdown::Write);
}

/// The head of a request; `None`: it is too long.
fn read(mut stream: &TcpStream) -> std::io::Result<Option<Vec<u8>>> {
    let until = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        stream.set_read_timeout(Some(left(until)?))?;
        let read = stream.read(&mut part)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..read]);
        if head.windows(4).any(|it| it == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if head.len() >= HEAD {
            return Ok(None);
        }
    }
}

fn write(mut stream: &TcpStream, mut bytes: &[u8]) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let written = stream.write(bytes)?;
        if written == 0 {
            return Err(std::io::ErrorKind::WriteZero.into());
        }
        bytes = &bytes[written..];
    }
    Ok(())
}

fn left(until: Instant) -> std::io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(std::io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn answer(request: &Request, shared: &Shared) -> Answer {
    if shared.is_loopback && !request.host.as_deref().is_none_or(is_local) {
        return Answer::refusal(&RequestError::Misdirected);
    }
    let (kind, body) = match request.path.as_str() {
        "/" => ("text/html; charset=utf-8", Ok(PAGE.to_owned())),
        "/status.json" => ("application/json", shared.board().status()),
        "/metrics" => ("text/plain; version=0.0.4; charset=utf-8", shared.board().metrics()),
        _ => return Answer::refusal(&RequestError::NotFound),
    };
    match body {
        Ok(body) => Answer { code: 200, words: "OK", kind, body, headless: request.is_head },
        Err(what) => {
            let (code, words) = (503, "Service Unavailable");
            let body = format!("the manager does not answer: {what}\n");
            Answer { code, words, kind: "text/plain; charset=utf-8", body, headless: false }
        }
    }
}

/// An address, or the name that every machine has for itself; with or without a port.
fn is_local(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

struct Answer {
    code: u16,
    words: &'static str,
    kind: &'static str,
    body: String,
    /// The head alone is wanted.
    headless: bool,
}

impl Answer {
    fn refusal(error: &RequestError) -> Self {
        let (code, words) = error.code();
        let body = format!("{error}\n");
        Self { code, words, kind: "text/plain; charset=utf-8", body, headless: false }
    }

    fn bytes(&self) -> Vec<u8> {
        let Self { code, words, kind, body, headless } = self;
        let allow = if *code == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let mut text = format!(
            "HTTP/1.1 {code} {words}\r\nContent-Type: {kind}\r\nContent-Length: \
             {}\r\n{allow}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'none'; script-src 'unsafe-inline'; style-src \
             'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'\r\nConnection: \
             close\r\n\r\n",
            body.len()
        );
        if !headless {
            text.push_str(body);
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests;
