//! Reading the configuration anew while the manager runs.
//!
//! # Protocol
//! 1. A client or a signal asks. A thread reads all sources and checks them, then rings: files may
//!    take their time, and the scheduler never waits for them.
//! 2. The scheduler takes the outcome. What is wrong with one source changes nothing at all.
//! 3. Askers that come while a thread reads wait for the next one: what they mean may have been
//!    written after it began.
//!
//! # Rules
//! - What the sources say replaces what the manager was told since (`set`, `policy`, `mpl`).
//! - The environment and the command line, which do not change, stand above the files as at the
//!   start.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};

use platform::event::Doorbell;

use crate::cli::{HISTORY_AGE, HISTORY_SIZE, Listen, TRACE_SIZE};
use crate::config::{Config, Rules, Sources};

/// What was read.
pub(crate) type Outcome = Result<(Config, Rules), String>;

/// A client that asked, or a signal.
pub(crate) type Asker = Option<u64>;

/// Where the configuration is, and a thread that reads it.
#[derive(Debug)]
pub struct Reload {
    sources: Sources,
    /// What stands above the files.
    above: Config,
    /// It serves all users.
    system: bool,
    /// What they said together when the manager began.
    first: Config,
    /// What the thread is to say, and to which askers.
    reading: Option<(Receiver<Outcome>, Vec<Asker>)>,
    later: Vec<Asker>,
}

impl Reload {
    /// Of a manager that began with `first`.
    pub(crate) fn new(sources: Sources, above: Config, first: Config, system: bool) -> Self {
        Self { sources, above, system, first, reading: None, later: Vec::new() }
    }

    /// Reads for `asker`, and rings `bell` when that is done.
    ///
    /// # Errors
    /// When there is no thread.
    pub(crate) fn ask(&mut self, asker: Asker, bell: Arc<Doorbell>) -> Result<(), String> {
        if self.reading.is_some() {
            self.later.push(asker);
            return Ok(());
        }
        let (sources, above, system) = (self.sources.clone(), self.above.clone(), self.system);
        let (outcome, reading) = mpsc::sync_channel(1);
        let read = move || {
            let said = whole(&sources, above, system);
            // The scheduler may have ended meanwhile.
            let _taken = outcome.send(said);
            if let Err(error) = bell.ring() {
                tracing::error!(%error, "the scheduler cannot be rung for");
            }
        };
        let thread = std::thread::Builder::new().name("cpumgr-reload".into()).spawn(read);
        thread.map_err(|error| format!("the manager lacks a thread: {error}"))?;
        self.reading = Some((reading, vec![asker]));
        Ok(())
    }

    /// What was read, and for which askers, if a thread has ended. The next one begins.
    pub(crate) fn take(
        &mut self,
        bell: impl Fn() -> Arc<Doorbell>,
    ) -> Option<(Outcome, Vec<Asker>)> {
        let (reading, _) = self.reading.as_ref()?;
        let said = match reading.try_recv() {
            Ok(said) => said,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => {
                Err("the reader of the configuration panicked".into())
            }
        };
        let (_, askers) = self.reading.take()?;
        for asker in std::mem::take(&mut self.later) {
            if let Err(what) = self.ask(asker, bell()) {
                tracing::warn!(what, "the configuration is not read again");
            }
        }
        Some((said, askers))
    }

    /// Keys of which `said` has other values than the manager began with, and that are read at a
    /// start only.
    pub(crate) fn for_later(&self, said: &Config) -> Vec<String> {
        let first = &self.first;
        let changed = START_ONLY.into_iter().filter(|(_, read)| read(first) != read(said));
        changed.map(|(key, _)| key.to_owned()).collect()
    }
}

/// What a configuration says of one key, the default where it says nothing.
type Read = fn(&Config) -> String;

/// The keys that are read at a start only.
pub(crate) const START_ONLY: [(&str, Read); 8] = [
    ("cpus", |it| it.cpus.clone().flatten().map_or_else(String::new, |it| it.to_string())),
    ("fence", |it| path(&it.fence)),
    ("trace", |it| path(&it.trace)),
    ("trace-size", |it| it.trace_size.unwrap_or(TRACE_SIZE).to_string()),
    ("history", |it| format!("{:?}", it.history.clone().unwrap_or_default())),
    ("history-size", |it| it.history_size.unwrap_or(HISTORY_SIZE).to_string()),
    ("history-age", |it| format!("{:?}", it.history_age.unwrap_or(HISTORY_AGE))),
    ("listen", |it| it.listen.unwrap_or(Listen::Off).to_string()),
];

/// An empty path names no file, as does none.
fn path(named: &Option<PathBuf>) -> String {
    format!("{:?}", named.clone().unwrap_or_default())
}

/// What all sources say together.
fn whole(sources: &Sources, above: Config, system: bool) -> Outcome {
    let said = sources.load().map_err(|error| error.to_string())?.then(above);
    said.make_policy()?;
    // Users and groups are looked up here: that may take its time, too.
    let rules = Rules::of_manager(&said, system);
    Ok((said, rules))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn wait(reload: &mut Reload, bell: &Arc<Doorbell>) -> (Outcome, Vec<Asker>) {
        loop {
            platform::process::wait_readable(&[std::os::fd::AsFd::as_fd(&**bell)], None).unwrap();
            bell.clear().unwrap();
            if let Some(outcome) = reload.take(|| Arc::clone(bell)) {
                return outcome;
            }
        }
    }

    #[test]
    fn askers_that_come_while_it_reads_are_answered_by_the_next_reading() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.toml");
        fs::write(&file, "quantum = \"50ms\"").unwrap();
        let above = Config { mpl: Some(crate::cli::Level::AtMost(3)), ..Config::default() };
        let bell = Arc::new(Doorbell::new().unwrap());
        let sources = Sources::usual(true, Some(&file));
        let mut reload = Reload::new(sources, above.clone(), Config::default(), false);
        assert!(reload.take(|| Arc::clone(&bell)).is_none());
        reload.ask(Some(1), Arc::clone(&bell)).unwrap();
        fs::write(&file, "mpl = 1\nfence = \"/f\"").unwrap();
        reload.ask(None, Arc::clone(&bell)).unwrap();
        let (_, askers) = wait(&mut reload, &bell);
        assert_eq!(askers, [Some(1)]);
        let (said, askers) = wait(&mut reload, &bell);
        let (said, _) = said.unwrap();
        assert_eq!((askers, said.mpl), (vec![None], above.mpl), "the command line is above");
        assert_eq!(reload.for_later(&said), ["fence"]);
        fs::write(&file, "\ncolour = 1").unwrap();
        reload.ask(Some(2), Arc::clone(&bell)).unwrap();
        let what = wait(&mut reload, &bell).0.unwrap_err();
        assert!(what.contains("c.toml:2: ") && what.contains("colour"), "{what}");
    }
}
