//! `cpumgr trace`: starts and ends a manager's trace, and writes one in the forms that other
//! programs show: Paraver's, and Chrome's trace events, which Perfetto reads.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use arena::message::Control;

use crate::administration;
use crate::cli::{TRACE_SIZE, TraceCommand};
use crate::daemon::absolute;
use crate::error::{Error, FAILED};
use crate::output::print;
use crate::simulate::paraver;
use crate::socket;
use crate::status;

mod perfetto;
mod spans;

use spans::Spans;

/// How long a trace that begins may take to be in its file, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(10);

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
        TraceCommand::Show => {
            let trace = status::of_manager(&socket::to_ask(socket)?)?.trace;
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
    let before = fs::read(&file).unwrap_or_default();
    let control = Control::TraceStart { path: path.to_owned(), most };
    administration::change(&socket::to_ask(socket)?, control)?;
    // The manager does not wait for a disk, and has said yes before its thread opened the file.
    let begin = Instant::now();
    loop {
        let now = fs::read(&file).unwrap_or_default();
        if now.contains(&b'\n') && now != before {
            return Ok(());
        }
        if begin.elapsed() >= PATIENCE {
            let message = format!(
                "the manager does not write to {path}: its log says why (it replaces only files of \
                 its own user, and follows no links)"
            );
            return Err(Error::Apart { message, code: FAILED });
        }
        std::thread::sleep(LOOK);
    }
}

fn convert(file: &Path, prv: Option<&Path>, perfetto: Option<&Path>) -> Result<(), Error> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|source| Error::Io {
            what: "cannot read",
            path: path.to_owned(),
            source,
        })
    };
    let spans = Spans::read(&read(file)?)
        .map_err(|(line, what)| Error::Usage(format!("{}:{line}: {what}", file.display())))?;
    for out in [prv, perfetto].into_iter().flatten() {
        if out == file {
            return Err(Error::Usage(format!(
                "{}: the trace itself; name another file to write to",
                out.display()
            )));
        }
    }
    if let Some(path) = prv {
        let trace = paraver::write(&spans.timeline());
        write(path, &trace.prv)?;
        write(&path.with_extension("pcf"), &trace.pcf)?;
        write(&path.with_extension("row"), &trace.row)?;
    }
    if let Some(path) = perfetto {
        write(path, &perfetto::write(&spans))?;
    }
    Ok(())
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
