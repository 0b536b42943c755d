//! The thread that keeps the history.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arena::message::Account;
use policies::fair_share::FairShare;

use super::question::Answer as Rows;
use super::{Bounds, Item, Note, Store, StoreError};
use crate::api::Answer;
use crate::escape::escape;

/// How long a run that ended waits to be written with others.
const SOON: Duration = Duration::from_secs(1);
/// How long notes of runs that go on wait.
const LATER: Duration = Duration::from_secs(10);
/// How long a file that cannot be written is left alone.
const REST: Duration = Duration::from_secs(30);
/// Runs that wait for a file that cannot be written; the oldest are dropped.
const MOST_WAITING: usize = 4096;
/// How often bounds are looked at.
const BOUNDS: Duration = Duration::from_secs(60);
/// Characters of a fault in answers.
const SHOWN: usize = 300;

/// What the thread knows.
pub(super) struct Writer {
    path: PathBuf,
    bounds: Bounds,
    store: Option<Store>,
    /// Runs whose notes are not written yet.
    waiting: BTreeMap<u64, Note>,
    /// The numbers of runs that go on, in the file.
    numbers: BTreeMap<u64, u64>,
    /// When what waits is written.
    due: Option<Instant>,
    /// What keeps it from writing, as it was told.
    fault: Option<String>,
    /// When that is tried again.
    again: Option<Instant>,
    next_bounds: Instant,
    /// Runs that were dropped while the file could not be written.
    dropped: u64,
}

impl Writer {
    pub(super) fn new(path: PathBuf, bounds: Bounds) -> Self {
        Self {
            path,
            bounds,
            store: None,
            waiting: BTreeMap::new(),
            numbers: BTreeMap::new(),
            due: None,
            fault: None,
            again: None,
            next_bounds: Instant::now(),
            dropped: 0,
        }
    }

    /// To the end.
    pub(super) fn run(mut self, items: &Receiver<Item>) {
        self.open();
        loop {
            let next = self.due.into_iter().chain(self.again).min();
            let item = match next {
                Some(at) => items.recv_timeout(at.saturating_duration_since(Instant::now())),
                None => items.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match item {
                Ok(Item::Notes(notes)) => notes.into_iter().for_each(|note| self.take(note)),
                Ok(Item::Question { question, asker, mailbox }) => {
                    let mut rows = Rows::to(&question, asker);
                    self.read(&mut rows);
                    let file = shown(&self.path.display().to_string());
                    let messages = rows.messages(file, self.fault.as_deref().map(shown));
                    // A client that is gone needs no answer.
                    let _put = mailbox.put(Answer::Messages(messages));
                }
                Ok(Item::Consumed { half_life, tell }) => {
                    // The scheduler may have ended.
                    let _told = tell.send(self.consumed(half_life));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Item::End) | Err(RecvTimeoutError::Disconnected) => {
                    self.again = None;
                    return self.write();
                }
            }
            let now = Instant::now();
            if self.again.is_some_and(|at| at <= now) {
                self.again = None;
                self.open();
            }
            if self.due.is_some_and(|at| at <= now) {
                self.write();
            }
        }
    }

    fn take(&mut self, note: Note) {
        let wait = if note.is_last() { SOON } else { LATER };
        let at = Instant::now() + wait;
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
        self.waiting.insert(note.serial, note);
        while self.waiting.len() > MOST_WAITING {
            self.waiting.pop_first();
            self.dropped += 1;
        }
    }

    /// What users consumed, as it counts now.
    fn consumed(&mut self, half_life: u64) -> BTreeMap<u32, f64> {
        let (share, now) = (FairShare::new(half_life), wall_ns());
        let mut users: BTreeMap<u32, f64> = BTreeMap::new();
        self.each(|run| {
            let span = run.until_ns.saturating_sub(run.began_ns);
            let age = now.saturating_sub(run.until_ns);
            *users.entry(run.user).or_default() += share.left_of(run.granted_ns as f64, span, age);
        });
        users
    }

    fn read(&mut self, rows: &mut Rows<'_>) {
        self.each(|run| rows.take(run));
    }

    /// What is stored, with what waits in place of what was stored of the same runs.
    fn each(&mut self, mut take: impl FnMut(Account)) {
        let newer: Vec<u64> =
            self.waiting.keys().filter_map(|serial| self.numbers.get(serial)).copied().collect();
        // What was written is there while the disk is full, too.
        let copy = match self.store {
            Some(_) => None,
            None => Store::in_memory(&self.path).ok(),
        };
        if let Some(store) = self.store.as_ref().or(copy.as_ref()) {
            let read = store.each(|number, run| {
                if !newer.contains(&number) {
                    take(run);
                }
            });
            if let Err(error) = read {
                self.fail(&error);
            }
        }
        self.waiting.values().for_each(|note| take(note.account.clone()));
    }

    fn open(&mut self) {
        let opened = self.open_whole().or_else(|error| match error {
            StoreError::Broken(what) => self.put_aside(&what).and_then(|()| self.open_whole()),
            other => Err(other),
        });
        match opened {
            Ok((store, cut)) => {
                self.store = Some(store);
                if self.fault.take().is_some() {
                    let (path, dropped) = (self.path.display(), std::mem::take(&mut self.dropped));
                    tracing::info!(%path, dropped, "the history is written again");
                }
                if cut > 0 {
                    tracing::info!(runs = cut, "runs of a manager that was killed are cut short");
                }
                if !self.waiting.is_empty() {
                    self.due = Some(Instant::now());
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Opens a file of which each run can be read, and says how many were cut short.
    fn open_whole(&self) -> Result<(Store, u64), StoreError> {
        let mut store = Store::open(&self.path)?;
        // Only where no run of this manager is in it yet: those go on.
        let is_first = self.numbers.is_empty();
        let cut = if is_first { store.cut_short()? } else { store.each(|_, _| ()).map(|()| 0)? };
        Ok((store, cut))
    }

    /// A file that cannot be used is kept for people, under another name.
    fn put_aside(&self, what: &str) -> Result<(), StoreError> {
        let mut aside = self.path.as_os_str().to_owned();
        aside.push(".broken");
        let path = self.path.display();
        tracing::warn!(%path, what, "the history cannot be read: it becomes *.broken, and a new \
                                     one begins");
        Ok(std::fs::rename(&self.path, Path::new(&aside))?)
    }

    /// Told once, until it is another one or over.
    fn fail(&mut self, error: &StoreError) {
        self.store = None;
        let what = error.to_string();
        if self.fault.is_none() {
            let path = self.path.display();
            tracing::error!(%path, what, "the history is not written; the manager goes on");
        }
        self.fault = Some(what);
        self.again = Some(Instant::now() + REST);
    }

    fn write(&mut self) {
        self.due = None;
        let Some(store) = &mut self.store else { return };
        let mut rows = Vec::with_capacity(self.waiting.len());
        for note in self.waiting.values() {
            let number = self.numbers.entry(note.serial);
            let number = *number.or_insert_with(|| store.number(note.account.began_ns));
            rows.push((number, &note.account));
        }
        let written = if rows.is_empty() { Ok(()) } else { store.write(&rows) };
        let written = written.and_then(|()| {
            if self.next_bounds > Instant::now() {
                return Ok(());
            }
            self.next_bounds = Instant::now() + BOUNDS;
            store.keep_within(self.bounds, &self.path, wall_ns())
        });
        match written {
            Ok(()) => {
                for (serial, note) in std::mem::take(&mut self.waiting) {
                    if note.is_last() {
                        self.numbers.remove(&serial);
                    }
                }
            }
            Err(error) => self.fail(&error),
        }
    }
}

fn shown(text: &str) -> String {
    escape(text.as_bytes()).chars().take(SHOWN).collect()
}

/// The wall clock since 1970.
fn wall_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
