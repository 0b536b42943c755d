//! `cpumgr trace`: starts and ends a manager's trace, and writes one in the forms that other
//! programs show: Paraver's, and Chrome's trace events, which Perfetto reads.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use arena::message::Control;
use nix::fcntl::OFlag;
use serde::Serialize;

use crate::administration;
use crate::cli::{TRACE_SIZE, TraceCommand};
use crate::daemon::absolute;
use crate::error::{Error, FAILED};
use crate::escape::printable;
use crate::json;
use crate::output::{is_standard, print};
use crate::patience::patience;
use crate::simulate::paraver;
use crate::socket;
use crate::status;

mod perfetto;
mod spans;

use spans::Spans;

/// How long a trace that begins may take to be in its file, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);
/// As much of a file as tells one trace from another.
const BEGINNING: u64 = 4096;
/// The most that is read of what is no regular file.
const MOST: u64 = 256 << 20;

/// What `cpumgr trace show --json` shows.
#[derive(Debug, Serialize)]
pub(crate) struct TraceShown {
    /// The file, escaped; `None`: no trace is written.
    pub(crate) trace: Option<String>,
}

/// `cpumgr trace`.
///
/// # Errors
/// When there is no manager, it refuses, or a file cannot be read or written.
pub fn run(socket: Option<&Path>, command: &TraceCommand) -> Result<(), Error> {
    match command {
        TraceCommand::Start { file, size } => start(socket, file, size.unwrap_or(TRACE_SIZE)),
        TraceCommand::Stop => {
            Ok(administration::change(&socket::to_ask(socket)?, Control::TraceStop)?)
        }
        TraceCommand::Show { json } => {
            let trace = status::of_manager(&socket::to_ask(socket)?)?.trace;
            if *json {
                return print(&json::line("trace", &TraceShown { trace })?);
            }
            print(&trace.map_or_else(|| "no trace is written\n".to_owned(), |path| path + "\n"))
        }
        TraceCommand::Convert { file, prv, perfetto } => {
            convert(file, prv.as_deref(), perfetto.as_deref())
        }
    }
}

fn start(socket: Option<&Path>, file: &Path, most: u64) -> Result<(), Error> {
    let file = absolute(file)?;
    let path = file.to_str().ok_or_else(|| {
        Error::Usage(format!("{}: the name is no UTF-8; choose another one", file.display()))
    })?;
    let above = file.parent().unwrap_or(&file);
    let data = fs::metadata(above).map_err(|source| Error::Io {
        what: "no trace is asked for, since you cannot see the directory",
        path: above.to_owned(),
        source,
    })?;
    let before = beginning(&file);
    let folder = Some((data.dev(), data.ino()));
    let control = Control::TraceStart { path: path.to_owned(), most, folder };
    let socket = socket::to_ask(socket)?;
    administration::change(&socket, control)?;
    // The manager does not wait for a disk, and has said yes before its thread opened the file.
    let begin = Instant::now();
    loop {
        let now = beginning(&file);
        if now.contains(&b'\n') && now != before {
            return Ok(());
        }
        let status = status::of_manager(&socket)?;
        let fails = |why: &str| {
            let message = format!("the manager does not write to {path}: {}", printable(why));
            Err(Error::Apart { message, code: FAILED })
        };
        match (status.trace_fault, status.trace) {
            (Some(why), _) => return fails(&why),
            // It writes, and its file is not this user's to read.
            (None, Some(_)) if is_closed(&file) => return Ok(()),
            _ if begin.elapsed() >= patience(PATIENCE) => {
                return fails(
                    "its log says why (it writes nothing where the disk is full, and waits for a \
                     disk that does not answer)",
                );
            }
            _ => std::thread::sleep(LOOK),
        }
    }
}

/// There is a file that this user may not read.
fn is_closed(path: &Path) -> bool {
    File::open(path).is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// The first bytes of a file that may be anything, without waiting for its writer: with the time in
/// its first line they tell a trace from the one before.
fn beginning(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let options = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(options.bits()).open(path);
    // What cannot be read has no beginning.
    let _read: io::Result<usize> = file.and_then(|it| it.take(BEGINNING).read_to_end(&mut bytes));
    bytes
}

/// A whole trace; what is no regular file may be endless.
fn read(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if file.metadata()?.is_file() {
        return io::read_to_string(file);
    }
    let mut text = String::new();
    if file.take(MOST).read_to_string(&mut text)? as u64 == MOST {
        let what = format!("it is no regular file, and has more than {MOST} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    Ok(text)
}

fn convert(file: &Path, prv: Option<&Path>, perfetto: Option<&Path>) -> Result<(), Error> {
    let of_prv = prv
        .into_iter()
        .flat_map(|prv| [prv.to_owned(), prv.with_extension("pcf"), prv.with_extension("row")]);
    if prv.is_some_and(is_standard) {
        return Err(Error::Usage(paraver::NO_STANDARD_OUTPUT.to_owned()));
    }
    let of_perfetto = perfetto.filter(|path| !is_standard(path)).map(Path::to_owned);
    let outputs: Vec<PathBuf> = of_prv.chain(of_perfetto).collect();
    for (at, out) in outputs.iter().enumerate() {
        let what = if out == file {
            "the trace itself"
        } else if outputs[..at].contains(out) {
            "named for two forms (FILE.pcf and FILE.row are written beside Paraver's FILE.prv)"
        } else {
            continue;
        };
        return Err(Error::Usage(format!("{}: {what}; name another file", out.display())));
    }
    let text = read(file).map_err(|source| Error::Io {
        what: "cannot read",
        path: file.to_owned(),
        source,
    })?;
    let spans = Spans::read(&text)
        .map_err(|(line, what)| Error::Usage(format!("{}:{line}: {what}", file.display())))?;
    if let Some(path) = prv {
        let trace = paraver::write(&spans.timeline());
        write(path, &trace.prv)?;
        write(&path.with_extension("pcf"), &trace.pcf)?;
        write(&path.with_extension("row"), &trace.row)?;
    }
    match perfetto {
        Some(path) if is_standard(path) => print(&perfetto::write(&spans)),
        Some(path) => write(path, &perfetto::write(&spans)),
        None => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    fs::write(path, text).map_err(|source| Error::Io {
        what: "cannot write",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests;
