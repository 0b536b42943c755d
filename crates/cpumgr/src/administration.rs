//! Changing a manager that runs: `cpumgr policy`, `cpumgr set`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use arena::client::{ConnectError, Connection};
use arena::message::{Control, FromManager, ToManager};

use crate::cli::{PolicyArgs, SetArgs, Setting};
use crate::command::print;
use crate::error::Error;
use crate::escape::printable;
use crate::status::Report;
use crate::{limits, socket};

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

/// `cpumgr set`.
///
/// # Errors
/// When there is no manager, or it refuses.
pub fn set(args: &SetArgs) -> Result<(), Error> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let control = match args.what {
        Setting::Quantum { time } => Control::Quantum { quantum_ns: ns(time) },
        Setting::Grace { time } => Control::Grace { grace_ns: ns(time) },
    };
    Ok(change(&socket::to_ask(args.socket.as_deref())?, control)?)
}

/// `cpumgr policy`.
///
/// # Errors
/// When there is no manager, it refuses, or a word is neither a name nor KEY=VALUE.
pub fn policy(args: &PolicyArgs) -> Result<(), Error> {
    let socket = socket::to_ask(args.socket.as_deref())?;
    if args.words.is_empty() {
        return show(&socket);
    }
    let (names, values): (Vec<_>, Vec<_>) = args.words.iter().partition(|word| !word.contains('='));
    let name = match names.as_slice() {
        [] => None,
        [name] => Some((*name).clone()),
        [_, second, ..] => {
            return Err(Error::Usage(format!("{second} is a second policy; give one name, and KEY=VALUE for values")));
        }
    };
    let split = |word: &&String| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
    let settings: BTreeMap<String, String> = values.iter().filter_map(split).collect();
    if settings.len() < values.len() {
        return Err(Error::Usage("a parameter is given twice".into()));
    }
    Ok(change(&socket, Control::Policy { name, settings })?)
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
        FromManager::Refused(refused) => Err(ConnectError::Refused { path: socket.to_owned(), refused }),
        other => Err(connection.broken(format!("it answered a control message with {other:?}"))),
    }
}

/// The policies, the one in force with its parameters.
fn show(socket: &Path) -> Result<(), Error> {
    let status = Report::ask(socket)?.status;
    let registry = limits::policies();
    let mut text = String::new();
    for name in registry.names() {
        let mark = if name == status.policy { "*" } else { " " };
        let description = registry.description(name).unwrap_or_default();
        text.push_str(&format!("{mark} {name:8} {description}\n"));
        if name == status.policy {
            for (key, value) in &status.parameters {
                text.push_str(&format!("           {}={}\n", printable(key), printable(value)));
            }
        }
    }
    print(&text)
}
