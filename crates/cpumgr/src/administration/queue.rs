//! `cpumgr queue`: the programs that wait, as text and as JSON.

use std::path::Path;

use arena::client::{ConnectError, Connection};
use arena::message::{FromManager, ProcessorRange, Queue, QueuedStatus, ToManager};
use serde::Serialize;

use super::ANSWER;
use crate::cli::StatusArgs;
use crate::error::Error;
use crate::escape::printable;
use crate::output::print;
use crate::{json, socket};

/// The queue as it was at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueueReport {
    /// The numbers.
    #[serde(flatten)]
    pub queue: Queue,
    /// The programs that wait, the next one first.
    pub places: Vec<QueuedStatus>,
}

impl QueueReport {
    /// Asks the manager at `socket`.
    ///
    /// # Errors
    /// When there is none, or what answers is none.
    pub fn ask(socket: &Path) -> Result<Self, ConnectError> {
        Self::ask_on(&Connection::open(socket, ANSWER)?, socket)
    }

    /// The same of a conversation that has begun.
    pub(crate) fn ask_on(connection: &Connection, socket: &Path) -> Result<Self, ConnectError> {
        connection.send(&ToManager::Queue)?;
        let queue = match connection.receive()?.0 {
            FromManager::Queue(queue) => queue,
            FromManager::Refused(refused) => {
                return Err(ConnectError::Refused { path: socket.to_owned(), refused });
            }
            other => {
                return Err(connection
                    .broken(format!("it answered a question for its queue with {other:?}")));
            }
        };
        let mut places = Vec::new();
        while places.len() < queue.waiting as usize {
            match connection.receive()?.0 {
                FromManager::Waiting { places: part } if !part.is_empty() => places.extend(part),
                other => return Err(connection.broken(format!("its queue goes on with {other:?}"))),
            }
        }
        Ok(Self { queue, places })
    }

    /// As a table for people.
    pub fn table(&self) -> String {
        let level = match self.queue.level {
            None => "any number of programs".into(),
            Some(1) => "1 program".into(),
            Some(level) => format!("{level} programs"),
        };
        let mut text = format!(
            "{level} may run at once, {} run, {} wait\n",
            self.queue.running, self.queue.waiting
        );
        if let Some(time) = self.queue.half_life_ns {
            text.push_str(&format!(
                "users that consumed less come first; it counts by half after {}\n",
                hours(time)
            ));
        }
        self.places.iter().for_each(|place| text.push_str(&place_text(place)));
        text
    }
}

/// Processor time of days, and half-lives; less than an hour in minutes.
fn hours(ns: u64) -> String {
    let hours = ns as f64 / 3.6e12;
    if hours < 1.0 { format!("{:.1}min", 60.0 * hours) } else { format!("{hours:.1}h") }
}

/// One that waits, as a line.
pub(crate) fn place_text(place: &QueuedStatus) -> String {
    let seconds = place.waits_ns / 1_000_000_000;
    let mut text = format!("{:>6}  pid {:<8} waits {seconds}s", place.id, place.pid);
    if let Some(ProcessorRange { least, most }) = place.processors {
        let number = if least == most { least.to_string() } else { format!("{least}..{most}") };
        let processors = if most == 1 { "processor" } else { "processors" };
        text.push_str(&format!(", needs {number} {processors}"));
    }
    if let Some(why) = &place.never_begins {
        text.push_str(&format!(", never begins as things are: {why}"));
    }
    if let Some(limit) = place.limit_ns {
        text.push_str(&format!(", at most for {}s", limit.div_ceil(1_000_000_000)));
    }
    if let Some(time) = place.begins_in_ns {
        text.push_str(&format!(", begins within {}s", time.div_ceil(1_000_000_000)));
    }
    if let (Some(user), Some(consumed)) = (place.user, place.consumed_ns) {
        text.push_str(&format!(", user {user} consumed {}", hours(consumed)));
    }
    if !place.after.is_empty() {
        text.push_str(&format!(" after {}", place.after.join(",")));
    }
    if let Some(within) = place.within_ns {
        text.push_str(&format!(" for {}s more", within / 1_000_000_000));
    }
    text + &format!("  {}\n", place.label)
}

/// `cpumgr queue`.
///
/// # Errors
/// When there is no manager.
pub fn queue(args: &StatusArgs) -> Result<(), Error> {
    let report = QueueReport::ask(&socket::to_ask(args.socket.as_deref())?)?;
    let text = if args.json {
        json::line("queue", &report)?
    } else {
        report.table().lines().map(|line| printable(line) + "\n").collect()
    };
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_says_how_many_may_run() {
        for (level, said) in [
            (None, "any number of programs"),
            (Some(0), "0 programs"),
            (Some(1), "1 program"),
            (Some(2), "2 programs"),
        ] {
            let queue = Queue { level, running: 0, waiting: 0, half_life_ns: None };
            let mut report = QueueReport { queue, places: Vec::new() };
            assert_eq!(report.table(), format!("{said} may run at once, 0 run, 0 wait\n"));
            report.queue.half_life_ns = Some(3_600_000_000_000);
            assert!(report.table().ends_with(
                "0 wait\nusers that consumed less come first; it counts by half after 1.0h\n"
            ));
        }
    }

    #[test]
    fn a_job_that_waits_is_shown_with_its_processors_its_limit_and_when_it_begins() {
        let second = 1_000_000_000;
        let mut place = QueuedStatus {
            id: 9,
            pid: 60,
            label: "ft".into(),
            request: 2,
            waits_ns: 3 * second,
            after: Vec::new(),
            within_ns: None,
            processors: Some(ProcessorRange { least: 4, most: 16 }),
            limit_ns: Some(60 * second),
            begins_in_ns: Some(5 * second - 1),
            user: Some(1000),
            consumed_ns: None,
            never_begins: None,
        };
        let head = "     9  pid 60       waits 3s";
        let text = ", needs 4..16 processors, at most for 60s, begins within 5s  ft\n";
        assert_eq!(place_text(&place), format!("{head}{text}"));
        place.processors = Some(ProcessorRange { least: 4, most: 4 });
        (place.limit_ns, place.begins_in_ns) = (None, None);
        assert_eq!(place_text(&place), format!("{head}, needs 4 processors  ft\n"));
        place.never_begins = Some("it has at most 2, for a reason".into());
        let text =
            ", needs 4 processors, never begins as things are: it has at most 2, for a reason";
        assert_eq!(place_text(&place), format!("{head}{text}  ft\n"));
        place.never_begins = None;
        place.consumed_ns = Some(5_400 * second);
        let text = ", needs 4 processors, user 1000 consumed 1.5h  ft\n";
        assert_eq!(place_text(&place), format!("{head}{text}"));
    }
}
