//! `cpumgr run`: becomes a program that finds a manager and the drop-in OpenMP library.
//!
//! The program runs also without a manager or without the library, with a warning for each.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use arena::client::SOCKET_VARIABLE;
use arena::message::{Control, ProcessorRange};
use nix::errno::Errno;
use platform::affinity::{self, CpuSet};

use crate::administration;
use crate::cli::RunArgs;
use crate::config::BY_RULES;
use crate::dropin::{LIBRARY, LIBRARY_VARIABLE, NoLibrary, library_directory};
use crate::error::{CANCELLED, Error};
use crate::machine::MachineError;
use crate::numa::placement;
use crate::{inherited, newcomer, socket};

mod library;
mod meeting;
mod turn;

pub(crate) use meeting::ensure_manager;
use meeting::is_farewell;
pub use turn::{Start, Turn};

/// What tells a program its number.
const SUBMISSION_VARIABLE: &str = "CPUMGR_SUBMISSION";

/// Becomes the program. Returns only when that fails, or when it was cancelled while it waited.
pub fn run(args: &RunArgs, start: Start<'_>, warn: impl Fn(&str)) -> Error {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    let needs_manager = matches!(start, Start::InTurn(turn) if turn.needs_manager());
    if let Start::InTurn(Turn { processors: Some(range), .. }) = start
        && let Err(error) = has_room(*range, args.cpus.as_ref())
    {
        return error;
    }
    if args.no_attach && args.max.is_some() {
        warn(
            "--max with --no-attach: only the drop-in library keeps the program to it; threads \
             that do not speak to the manager are left alone",
        );
    }
    let plan = |scheme| placement::plan(scheme, || library::missing(args));
    let placement = match args.placement.map(plan).transpose() {
        Ok(placement) => placement,
        Err(reason) => return Error::Usage(reason),
    };
    match socket::to_run(args.socket.as_deref()) {
        Ok(None) if needs_manager => {
            return Error::Usage(
                "NANOS_CPUMGR=off: what begins after others, or on a number of processors, needs a \
                 manager; unset it, or leave out --after and --procs"
                    .into(),
            );
        }
        Ok(None) => {}
        Ok(Some(socket)) => {
            if let Some(remark) = socket::remark(args.socket.as_deref(), &socket) {
                warn(&remark);
            }
            match socket::refuse_file(&socket)
                .and_then(|()| ensure_manager(&socket, args, start, &warn))
            {
                Ok(()) => {
                    if let Err(error) = place_itself(&socket, args) {
                        return error;
                    }
                    command.env(SOCKET_VARIABLE, &socket);
                }
                Err(error) if error.code() == CANCELLED => return error,
                // It is to begin after another one, or with so many processors, or not at all.
                Err(error) if needs_manager => return error,
                // It is there: the program registers as soon as it has time.
                Err(Error::Connect { source }) if source.may_pass() && !is_farewell(&source) => {
                    warn(&format!(
                        "{}; the program starts without a manager, and goes on trying",
                        Error::from(source)
                    ));
                    command.env(SOCKET_VARIABLE, &socket);
                }
                Err(error) => {
                    warn(&format!("{error}; the program runs without a manager"));
                    // It would look for the same manager again, and complain again.
                    command.env(SOCKET_VARIABLE, "off");
                }
            }
        }
        Err(error) if needs_manager => return error,
        Err(error) => {
            warn(&format!("{error}; the program runs without a manager"));
            command.env(SOCKET_VARIABLE, "off");
        }
    }
    if let Some(cpus) = &args.cpus
        && let Err(error) = keep_to(cpus)
    {
        return error;
    }
    let library = library_directory(args.lib.as_deref());
    if let Ok(directory) = &library {
        library::offer(&mut command, directory, args, &warn);
    }
    if args.tell_share {
        newcomer::tell(&mut command, library.as_deref().ok(), &warn);
    }
    match library {
        Ok(_) => {}
        Err(NoLibrary::Absent { looked }) => warn(&format!(
            "the drop-in OpenMP library {LIBRARY} is not in {looked}; build it with `cargo xtask \
             shim`, or name its directory with --lib or {LIBRARY_VARIABLE}; the program runs with \
             the OpenMP library that it finds"
        )),
        Err(NoLibrary::Unsafe { directory, why }) => warn(&format!(
            "the drop-in OpenMP library in {} is not used: {why}, so another user decides what it \
             does; see to it that only you and the superuser may write it and the directories \
             above it, or name another directory with --lib or {LIBRARY_VARIABLE}; the program \
             runs with the OpenMP library that it finds",
            directory.display()
        )),
    }
    if let Some(placement) = placement {
        placement.set(&mut command, Path::new(&args.command[0]), &warn);
    }
    if let Start::InTurn(Turn { id, .. }) = start
        && let Some(id) = id.get()
    {
        command.env(SUBMISSION_VARIABLE, id.to_string());
    }
    inherited::pass_on(&mut command);
    let source = command.exec();
    Error::Exec { program: args.command[0].to_string_lossy().into_owned(), source }
}

/// Whether a job can have its processors where this process may run.
fn has_room(range: ProcessorRange, cpus: Option<&CpuSet>) -> Result<(), Error> {
    let mask = affinity::affinity(None)?;
    let allowed = cpus.map_or_else(|| mask.clone(), |cpus| mask.intersection(cpus));
    if (range.least as usize) <= allowed.len().max(1) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "--procs {}: this process may run on {} ({allowed}), by --cpus or its mask (taskset)",
        range.least,
        allowed.len()
    )))
}

/// Keeps this process, and the program that it becomes, to these processors. The kernel leaves out
/// those that are not there, and refuses only where none is left.
fn keep_to(cpus: &CpuSet) -> Result<(), Error> {
    let before = affinity::affinity(None)?;
    let allowed = match affinity::set_affinity(None, cpus) {
        Ok(()) => affinity::affinity(None)?,
        Err(error) if error.is(Errno::EINVAL as i32) => before,
        Err(error) => return Err(error.into()),
    };
    let missing = cpus.difference(&allowed);
    if missing.is_empty() {
        return Ok(());
    }
    Err(MachineError::NotAllowed { asked: cpus.clone(), missing, allowed }.into())
}

/// Tells the manager class, label and bounds of this process. What was asked for and is refused is
/// not left out: the program does not run then.
fn place_itself(socket: &Path, args: &RunArgs) -> Result<(), Error> {
    // Itself: in a container its own number is not the manager's.
    let pid = 0;
    let label = args.label.clone().map(|label| Control::Label { pid, label });
    let class = args.class.clone().filter(|class| class != BY_RULES);
    let class = class.map(|class| Control::Class { pid, class: Some(class) });
    let (min, max) = (args.min, args.max);
    let bounds = (min.is_some() || max.is_some()).then_some(Control::Bounds { pid, min, max });
    for control in label.into_iter().chain(class).chain(bounds) {
        administration::change(socket, control)?;
    }
    Ok(())
}
