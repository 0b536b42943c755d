//! Changing a manager that runs: `cpumgr policy`, `set`, `mpl`, `drain`, `attach`, `cancel`,
//! `stop`.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use arena::client::{ConnectError, Connection};
use arena::message::{Control, FromManager, RefusedCode, Status, ToManager};
use platform::{fdpass, process};
use serde::Serialize;

use crate::cli::{
    CancelArgs, DrainArgs, MplArgs, PidArgs, PolicyArgs, SetArgs, Setting, SocketArgs, Team,
    UndrainArgs,
};
use crate::config::BY_RULES;
use crate::error::{Error, FAILED, is_absent};
use crate::escape::printable;
use crate::instance::beside;
use crate::output::print;
use crate::status::Report;
use crate::{duration, json, limits, socket, status};

mod listing;
mod queue;
mod release;
mod reload;

pub(crate) use listing::Listing;
pub(crate) use queue::place_text;
pub use queue::{QueueReport, queue};
pub use release::release;
pub use reload::reload;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// How long a manager may take to end, or to come back, and how often that is looked at.
const PATIENCE: Duration = Duration::from_secs(15);
const LOOK: Duration = Duration::from_millis(5);

/// `cpumgr set`: changes something, or shows what is in force.
///
/// # Errors
/// When there is no manager, or it refuses.
pub fn set(args: &SetArgs) -> Result<(), Error> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    if args.json && args.what.is_some() {
        let what = "--json shows all that is in force: `cpumgr set --json`; of one program: \
                    `cpumgr show PID --json`";
        return Err(Error::Usage(what.into()));
    }
    let socket = socket::to_ask(args.socket.as_deref())?;
    let control = match args.what.clone() {
        Some(Setting::Quantum { time: Some(time) }) => Control::Quantum { quantum_ns: ns(time) },
        Some(Setting::Grace { time: Some(time) }) => Control::Grace { grace_ns: ns(time) },
        Some(Setting::Team { pid, team: Some(team) }) => {
            Control::Team { pid, fixed_team: team == Team::Fixed }
        }
        Some(Setting::Class { pid, class: Some(class) }) => {
            Control::Class { pid, class: Some(class).filter(|class| class != BY_RULES) }
        }
        Some(Setting::Min { pid, processors: min @ Some(_) }) => {
            Control::Bounds { pid, min, max: None }
        }
        Some(Setting::Max { pid, processors: Some(most) }) => {
            Control::Bounds { pid, min: None, max: Some(most.number().unwrap_or(u32::MAX)) }
        }
        Some(Setting::Weight { pid, weight: Some(weight) }) => {
            Control::Weight { pid, thousandths: weight.thousandths() }
        }
        None if args.json => {
            return print(&json::line("set", &InForce::of(&status::of_manager(&socket)?))?);
        }
        shown => return print(&in_force(&socket, shown)?),
    };
    lasting(&socket, control)
}

/// One setting as it is in force, or all.
fn in_force(socket: &Path, which: Option<Setting>) -> Result<String, Error> {
    if let Some(
        Setting::Weight { pid, .. }
        | Setting::Team { pid, .. }
        | Setting::Class { pid, .. }
        | Setting::Min { pid, .. }
        | Setting::Max { pid, .. },
    ) = which
    {
        let report = Report::ask(socket)?;
        let program = report.programs.iter().find(|program| program.pid == pid);
        let program = program.ok_or_else(|| {
            Error::Usage(format!(
                "process {pid} is no program of this manager that you may see; `cpumgr status` \
                 shows them"
            ))
        })?;
        return Ok(match which {
            Some(Setting::Team { .. }) => format!("{}\n", Team::of(program.fixed_team)),
            Some(Setting::Class { .. }) => {
                format!("{}\n", program.class.as_deref().unwrap_or("none"))
            }
            Some(Setting::Min { .. }) => format!("{}\n", program.min.unwrap_or(1)),
            Some(Setting::Max { .. }) => format!("{}\n", level_text(program.bound)),
            _ => format!("{}\n", program.weight),
        });
    }
    let status = status::of_manager(socket)?;
    let time = |ns: u64| duration::show(Duration::from_nanos(ns));
    let (quantum, grace) = (time(status.quantum_ns), time(status.grace_ns));
    Ok(match which {
        Some(Setting::Quantum { .. }) => format!("{quantum}\n"),
        Some(Setting::Grace { .. }) => format!("{grace}\n"),
        _ => {
            let (level, policy) = (level_text(status.level), printable(&status.policy));
            format!("quantum {quantum}\ngrace {grace}\nmpl {level}\npolicy {policy}\n")
        }
    })
}

fn level_text(level: Option<u32>) -> String {
    level.map_or("any".into(), |level| level.to_string())
}

/// `cpumgr stop`: returns when it has ended.
///
/// # Errors
/// When there is no manager, it refuses, or it does not end.
pub fn stop(args: &SocketArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    let before = Seen::now(&socket)?;
    let process = listener_of(&socket);
    change(&socket, Control::Stop { if_idle: false })?;
    // Where a service manager holds the socket, asking there would begin the next one.
    let has_ended = || process.as_ref().map(|it| process::has_ended(it).unwrap_or(false));
    wait_for(&socket, "end", || {
        has_ended().unwrap_or_else(|| match Seen::now(&socket) {
            Ok(now) => before.is_another(&now),
            Err(error) => is_gone(&error),
        })
    })
}

/// The process that listens at a socket, where the kernel names it.
fn listener_of(socket: &Path) -> Option<OwnedFd> {
    process::peer_pidfd(fdpass::connect(socket, ANSWER).ok()?).ok()
}

/// `cpumgr restart`: returns when it answers again.
///
/// # Errors
/// When there is no manager, it refuses, or it does not come back.
pub fn restart(args: &SocketArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    let before = Seen::now(&socket)?;
    change(&socket, Control::Restart)?;
    wait_for(&socket, "come back", || Seen::now(&socket).is_ok_and(|now| before.is_another(&now)))
}

/// Which manager answered, how long it had been there, and between which two moments that was.
struct Seen {
    pid: i32,
    uptime: Duration,
    asked: Instant,
    heard: Instant,
}

impl Seen {
    fn now(socket: &Path) -> Result<Self, ConnectError> {
        let asked = Instant::now();
        let Status { manager_pid, uptime_ns, .. } = status::of_manager(socket)?;
        let uptime = Duration::from_nanos(uptime_ns);
        Ok(Self { pid: manager_pid, uptime, asked, heard: Instant::now() })
    }

    /// The later answer is another manager's: it is the same process, perhaps, and began later. One
    /// that was young when it was told to begin anew has had as much time since, perhaps.
    fn is_another(&self, now: &Self) -> bool {
        let passed = now.asked.saturating_duration_since(self.heard);
        now.pid != self.pid || now.uptime < self.uptime + passed
    }
}

/// No manager listens there any more. One that is silent has not ended.
fn is_gone(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Unreachable { source, .. } if is_absent(*source))
}

/// Looks until it is so.
fn wait_for(socket: &Path, what: &str, is_so: impl Fn() -> bool) -> Result<(), Error> {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() >= PATIENCE {
            let (shown, log) = (socket.display(), beside(socket, ".log"));
            let message = format!(
                "the manager at {shown} did not {what} within {PATIENCE:?} (its log: {})",
                log.display()
            );
            return Err(Error::Apart { message, code: FAILED });
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// `cpumgr policy`.
///
/// # Errors
/// When there is no manager, it refuses, it has no such policy, or there are two names.
pub fn policy(args: &PolicyArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    if args.words.is_empty() {
        return show(&socket, args.json);
    }
    let (names, values): (Vec<_>, Vec<_>) = args.words.iter().partition(|word| !word.contains('='));
    let name = match names.as_slice() {
        [] => None,
        [name] => Some((*name).clone()),
        [_, second, ..] => {
            return Err(Error::Usage(format!(
                "{second} is a second policy; give one name, and KEY=VALUE for values"
            )));
        }
    };
    let split = |word: &&String| {
        word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    let settings: BTreeMap<String, String> = values.iter().filter_map(split).collect();
    if settings.len() < values.len() {
        return Err(Error::Usage("a parameter is given twice".into()));
    }
    // Which policies there are is the manager's to know: it may be a program with policies of its
    // own.
    let is_known = name.as_deref().is_none_or(|name| limits::policies().names().contains(&name));
    change(&socket, Control::Policy { name, settings }).map_err(|error| match &error {
        ConnectError::Refused { refused, .. }
            if !is_known && refused.code == RefusedCode::NotPossible =>
        {
            Error::Usage(error.to_string())
        }
        _ => Error::from(error),
    })?;
    warn_of_loss(&socket);
    Ok(())
}

/// A change that the next manager is to know, too.
fn lasting(socket: &Path, control: Control) -> Result<(), Error> {
    change(socket, control)?;
    warn_of_loss(socket);
    Ok(())
}

/// Says that a change is in force, and would be lost with the manager.
fn warn_of_loss(socket: &Path) {
    // The change is made, whatever becomes of this question.
    let Ok(status) = status::of_manager(socket) else { return };
    if !status.unkept.is_empty() {
        eprintln!(
            "cpumgr: in force, but lost if manager {} is killed: {}",
            status.manager_pid,
            status.unkept.iter().map(|it| printable(it)).collect::<Vec<_>>().join("; ")
        );
    }
}

/// `cpumgr mpl`: changes the level, or shows it.
///
/// # Errors
/// When there is no manager.
pub fn level(args: &MplArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    if args.json {
        let level = status::of_manager(&socket)?.level;
        return print(&json::line("mpl", &LevelInForce { level })?);
    }
    let Some(level) = args.level else {
        return print(&format!("{}\n", level_text(status::of_manager(&socket)?.level)));
    };
    lasting(&socket, Control::Level { level: level.number() })
}

/// What `cpumgr set --json` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InForce {
    /// How often programs that share processors take turns.
    pub quantum_ns: u64,
    /// The time between asking for a processor and squeezing.
    pub grace_ns: u64,
    /// How many programs may run at once; `null`: any number.
    pub mpl: Option<u32>,
    /// Which policy decides.
    pub policy: String,
    /// Its parameters, as people write them.
    pub parameters: BTreeMap<String, String>,
    /// The drained processors, as a kernel list.
    pub drained: String,
}

impl InForce {
    /// Of what a manager says of itself.
    pub(crate) fn of(status: &Status) -> Self {
        Self {
            quantum_ns: status.quantum_ns,
            grace_ns: status.grace_ns,
            mpl: status.level,
            policy: status.policy.clone(),
            parameters: status.parameters.clone(),
            drained: status.drained.clone(),
        }
    }
}

/// What `cpumgr mpl --json` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LevelInForce {
    /// How many programs may run at once; `null`: any number.
    pub level: Option<u32>,
}

/// `cpumgr drain`: drains these processors, or shows those that are drained.
///
/// # Errors
/// When there is no manager, it does not manage these, or none would be left.
pub fn drain(args: &DrainArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    let Some(list) = &args.list else {
        let drained = status::of_manager(&socket)?.drained;
        // An empty line would not say that the question was answered.
        return print(&format!("{}\n", if drained.is_empty() { "none" } else { &drained }));
    };
    lasting(&socket, Control::Drain { processors: list.to_string() })
}

/// `cpumgr undrain`.
///
/// # Errors
/// When there is no manager, or it does not manage these.
pub fn undrain(args: &UndrainArgs) -> Result<(), Error> {
    let processors = args.list.to_string();
    lasting(&socket::to_ask(args.socket.as_deref())?, Control::Undrain { processors })
}

/// `cpumgr attach`.
///
/// # Errors
/// When there is no manager, or the process is not there, not this user's, or managed already.
pub fn attach(args: &PidArgs) -> Result<(), Error> {
    lasting(&socket::to_ask(args.socket.as_deref())?, Control::Attach { pid: args.pid })
}

/// `cpumgr detach`.
///
/// # Errors
/// When there is no manager, or the process is not attached.
pub fn detach(args: &PidArgs) -> Result<(), Error> {
    Ok(change(&socket::to_ask(args.socket.as_deref())?, Control::Detach { pid: args.pid })?)
}

/// `cpumgr cancel`.
///
/// # Errors
/// When there is no manager, or no program waits under this number.
pub fn cancel(args: &CancelArgs) -> Result<(), Error> {
    Ok(change(&socket::to_ask(args.socket.as_deref())?, Control::Cancel { id: args.id })?)
}

/// Sends a control message and waits until it is done.
///
/// # Errors
/// When there is no manager, or it refuses.
pub fn change(socket: &Path, control: Control) -> Result<(), ConnectError> {
    let connection = Connection::open(socket, ANSWER)?;
    connection.send(&ToManager::Control(control))?;
    match connection.receive()?.0 {
        FromManager::Done => Ok(()),
        FromManager::Refused(refused) => {
            Err(ConnectError::Refused { path: socket.to_owned(), refused })
        }
        other => Err(connection.broken(format!("it answered a control message with {other:?}"))),
    }
}

/// The policies with their parameters; those of the one in force as they stand, the others as they
/// would begin.
fn show(socket: &Path, json: bool) -> Result<(), Error> {
    let status = status::of_manager(socket)?;
    let listing = Listing::new(limits::policies(), &status.policy, &status.parameters);
    print(&if json { json::line("policy", &listing)? } else { listing.text() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_no_process_listens_a_manager_has_ended() {
        let path = std::path::PathBuf::from("/s");
        let refused = |errno| ConnectError::Unreachable {
            path: path.clone(),
            source: platform::SysError::new("connect", errno),
        };
        assert!(is_gone(&refused(nix::libc::ECONNREFUSED)) && is_gone(&refused(nix::libc::ENOENT)));
        assert!(!is_gone(&refused(nix::libc::EAGAIN)));
        // One that took the connection and says nothing.
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let listener = platform::fdpass::listen(&socket, 0o600).unwrap();
        assert!(!is_gone(&status::of_manager(&socket).unwrap_err()));
        drop(listener);
        // A child that another test forked has a copy of it until it becomes its program.
        let begin = Instant::now();
        while !is_gone(&status::of_manager(&socket).unwrap_err()) {
            assert!(begin.elapsed() < Duration::from_secs(20), "it seems to listen");
        }
    }

    #[test]
    fn a_manager_that_began_later_is_another_one_however_long_it_has_been_there() {
        let begin = Instant::now();
        let ms = Duration::from_millis;
        // Asked and heard at these moments.
        let seen = |pid, uptime, asked, heard| Seen {
            pid,
            uptime: ms(uptime),
            asked: begin + ms(asked),
            heard: begin + ms(heard),
        };
        let before = seen(7, 20, 0, 2);
        assert!(!before.is_another(&seen(7, 1020, 1000, 1002)));
        assert!(!before.is_another(&seen(7, 1022, 1000, 1004)), "it answered at the end");
        assert!(before.is_another(&seen(7, 900, 1000, 1002)), "it is older than the first was");
        assert!(before.is_another(&seen(7, 3, 60, 61)));
        assert!(before.is_another(&seen(8, 1020, 1000, 1002)));
    }
}
