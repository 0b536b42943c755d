//! `cpumgr history`: what programs were granted, used and waited for.
//!
//! A manager that runs is asked. Where none answers, the file of this user's own manager is read.

use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arena::client::{ConnectError, Connection};
use arena::message::{Account, FromManager, HistoryHead, HistoryQuestion, RunState, ToManager};
use nix::unistd::{Uid, User};
use serde::Serialize;

use crate::cli::HistoryArgs;
use crate::error::{Error, NO_MANAGER};
use crate::escape::printable;
use crate::history::{Answer, Asker, Keep, Store, place};
use crate::output::print;
use crate::style::Style;
use crate::{json, socket};

/// How long an answer may take: a large file is read for it.
const ANSWER: Duration = Duration::from_secs(15);

/// What `cpumgr history --json` shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Accounts {
    /// The file that keeps it, escaped.
    pub file: String,
    /// What keeps it from being written now.
    pub fault: Option<String>,
    /// Rows for which an answer has no room, the oldest.
    pub left_out: u64,
    /// The latest first.
    pub rows: Vec<Account>,
}

/// `cpumgr history`.
///
/// # Errors
/// When there is no such user, no manager, or none that keeps a history.
pub fn run(args: &HistoryArgs) -> Result<(), Error> {
    let question = HistoryQuestion {
        since_ns: args.since.map_or(0, |time| wall_ns().saturating_sub(nanos(time))),
        user: args.user.as_deref().map(number_of).transpose()?,
        program: args.program.clone(),
        each: args.each,
    };
    let asked = socket::to_ask(args.socket.as_deref())
        .and_then(|socket| ask(&socket, &question).map_err(Error::from));
    let accounts = match asked {
        Err(error) if error.code() == NO_MANAGER && args.socket.is_none() => {
            of_file(&question)?.ok_or(error)?
        }
        other => other?,
    };
    let text = match args.json {
        true => json::line("history", &accounts)?,
        false => accounts.table(Style::of_output()),
    };
    print(&text)
}

/// Asks the manager at `socket`.
fn ask(socket: &Path, question: &HistoryQuestion) -> Result<Accounts, ConnectError> {
    let connection = Connection::open(socket, ANSWER)?;
    connection.send(&ToManager::History(question.clone()))?;
    let HistoryHead { file, row_count, left_out, fault } = match connection.receive()?.0 {
        FromManager::History(head) => head,
        FromManager::Refused(refused) => {
            return Err(ConnectError::Refused { path: socket.to_owned(), refused });
        }
        other => {
            let said = format!("it answered a question for its history with {other:?}");
            return Err(connection.broken(said));
        }
    };
    let mut rows = Vec::new();
    while rows.len() < row_count as usize {
        match connection.receive()?.0 {
            FromManager::Accounts { rows: part } if !part.is_empty() => rows.extend(part),
            other => return Err(connection.broken(format!("its history goes on with {other:?}"))),
        }
    }
    Ok(Accounts { file, fault, left_out, rows })
}

/// What this user's own manager left; `None`: there is nothing.
fn of_file(question: &HistoryQuestion) -> Result<Option<Accounts>, Error> {
    let Some(path) = place(&Keep::On, false, true).filter(|path| path.exists()) else {
        return Ok(None);
    };
    let mut answer = Answer::to(question, Asker::Administrator);
    let store = Store::open(&path);
    let read = store.and_then(|store| store.each(|_, run| answer.take(run)));
    read.map_err(|error| Error::Io {
        what: "cannot read the history in",
        path: path.clone(),
        source: std::io::Error::other(error.to_string()),
    })?;
    let (rows, left_out) = answer.rows();
    let file = printable(&path.display().to_string());
    Ok(Some(Accounts { file, fault: None, left_out, rows }))
}

fn number_of(user: &str) -> Result<u32, Error> {
    let named = User::from_name(user).ok().flatten().map(|user| user.uid.as_raw());
    named
        .or_else(|| user.parse().ok())
        .ok_or_else(|| Error::Usage(format!("there is no user {user:?}; give a name, or a number")))
}

impl Accounts {
    fn table(&self, style: Style) -> String {
        let is_each = self.rows.iter().any(|row| row.pid.is_some());
        let mut text = String::new();
        if let Some(fault) = &self.fault {
            let _written = writeln!(text, "{} is not written: {}", self.file, printable(fault));
        }
        if self.rows.is_empty() {
            return text + "nothing is kept of such programs\n";
        }
        let second = if is_each { "pid" } else { "runs" };
        let head = format!(
            "{:<12} {:<16} {second:>8} {:>12} {:>12} {:>12} {:>10}  last seen",
            "user", "program", "granted", "used", "waited", "queued"
        );
        text += &(style.head(&head) + "\n");
        for row in &self.rows {
            let second = row.pid.map_or(row.runs.to_string(), |pid| pid.to_string());
            let state = match row.state {
                Some(RunState::Runs) => " (runs)",
                Some(RunState::Cut) => " (cut)",
                Some(RunState::Ended) | None => "",
            };
            let _written = writeln!(
                text,
                "{:<12} {:<16} {second:>8} {:>12} {:>12} {:>12} {:>10}  {} ago{state}",
                name_of(row.user),
                printable(&row.program),
                seconds(row.granted_ns),
                seconds(row.used_ns),
                seconds(row.waited_ns),
                seconds(row.queued_ns),
                coarse(wall_ns().saturating_sub(row.until_ns)),
            );
        }
        if self.left_out > 0 {
            let _written = writeln!(
                text,
                "{} older ones are left out; --since, --user and --program name fewer",
                self.left_out
            );
        }
        text
    }
}

/// A user that is not known any more is shown by its number.
fn name_of(user: u32) -> String {
    let known = User::from_uid(Uid::from_raw(user)).ok().flatten();
    known.map_or_else(|| user.to_string(), |user| printable(&user.name))
}

/// Processor time: seconds with a digit, as far as they are few.
fn seconds(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds < 10_000.0 { format!("{seconds:.1}s") } else { format!("{:.1}h", seconds / 3600.0) }
}

/// A time of which one unit is enough.
fn coarse(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}min", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn wall_ns() -> u64 {
    nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_shows_times_in_units_that_people_read() {
        assert_eq!([0, 1_500_000_000, 36_000_000_000_000].map(seconds), ["0.0s", "1.5s", "10.0h"]);
        let times = [5, 600, 10_000, 1_000_000].map(|it| coarse(it * 1_000_000_000));
        assert_eq!(times, ["5s", "10min", "2h", "11d"]);
        let none = Accounts { file: "/f".into(), fault: None, left_out: 0, rows: Vec::new() };
        assert_eq!(none.table(Style::plain()), "nothing is kept of such programs\n");
    }
}
