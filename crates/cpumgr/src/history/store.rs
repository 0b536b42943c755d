//! The database: one table, a run by its number, in the order in which they came.
//!
//! Each write is a transaction that is on the disk when it returns: a file of which the writer was
//! killed opens as it was after the last one. A file that something else cut off or overwrote makes
//! the database panic, at its opening or later: such a file is [`StoreError::Broken`].

use std::io::{self, Read};
use std::path::Path;

use arena::message::{Account, RunState};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use redb::backends::InMemoryBackend;
use redb::{
    Database, DatabaseError, ReadableTable, StorageBackend, StorageError, TableDefinition,
    TransactionError,
};

use super::Bounds;
use crate::escape::escape;
use crate::{log, own_file};

/// A run as JSON: a newer manager may know more of it, and an older one passes over that.
const RUNS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("runs");
/// Of what there is this part goes at once when the file is too large.
const A_PART: u64 = 4;
/// Bytes of what the database says when it panics.
const SAID: usize = 100;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// It cannot be opened.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// What is in it cannot be used.
    #[error("it is no history of this version, or broken: {0}")]
    Broken(String),
    /// Another manager writes it.
    #[error("another manager writes it")]
    Taken,
    /// The disk refused something.
    #[error("{0}")]
    Refused(String),
}

impl From<StorageError> for StoreError {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Corrupted(what) => Self::Broken(what),
            StorageError::Io(error) => Self::Io(error),
            other => Self::Refused(other.to_string()),
        }
    }
}

impl From<DatabaseError> for StoreError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::DatabaseAlreadyOpen => Self::Taken,
            DatabaseError::Storage(StorageError::Io(error))
                if error.kind() == io::ErrorKind::InvalidData =>
            {
                Self::Broken(error.to_string())
            }
            DatabaseError::Storage(error) => error.into(),
            other => Self::Broken(other.to_string()),
        }
    }
}

impl From<TransactionError> for StoreError {
    fn from(error: TransactionError) -> Self {
        match error {
            TransactionError::Storage(error) => error.into(),
            other => Self::Refused(other.to_string()),
        }
    }
}

impl From<redb::TableError> for StoreError {
    fn from(error: redb::TableError) -> Self {
        match error {
            redb::TableError::Storage(error) => error.into(),
            redb::TableError::TableDoesNotExist(_) => Self::Broken("it has no runs".into()),
            other => Self::Broken(other.to_string()),
        }
    }
}

impl From<redb::CommitError> for StoreError {
    fn from(error: redb::CommitError) -> Self {
        match error {
            redb::CommitError::Storage(error) => error.into(),
            other => Self::Refused(other.to_string()),
        }
    }
}

/// What `call` returns; a panic of the database is a broken file.
fn sound<T>(call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    log::caught(call).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or_default().as_bytes();
        let text = escape(&text[..text.len().min(SAID)]);
        Err(StoreError::Broken(format!("a part is missing, or does not fit the others ({text})")))
    })
}

/// An open database.
#[derive(Debug)]
pub(crate) struct Store {
    /// `None` only while it is dropped.
    database: Option<Database>,
    /// The number of the run that came last.
    last: u64,
}

impl Store {
    /// Opens the file, or makes it, with the folders above it, for this user alone.
    ///
    /// # Errors
    /// Also when it is a link, no regular file, another user's, or another manager has it.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        if let Some(folder) = path.parent() {
            own_file::make_directories(folder)?;
        }
        let file = own_file::open(path, OFlag::O_RDWR, own_file::OWN)?;
        let database = sound(|| Ok(Database::builder().create_file(file)?))?;
        let mut store = Self { database: Some(database), last: 0 };
        store.write(&[])?;
        store.last = sound(|| {
            let table = store.database()?.begin_read()?.open_table(RUNS)?;
            Ok(table.last()?.map_or(0, |(number, _)| number.value()))
        })?;
        Ok(store)
    }

    /// What the file holds, read into memory, for questions: opening it in place writes, which a
    /// full disk refuses. What a writer left half done there is mended in memory alone.
    ///
    /// # Errors
    /// Also when there is no such file, or another manager has it.
    pub(crate) fn in_memory(path: &Path) -> Result<Self, StoreError> {
        let place = own_file::Place::of(path)?;
        if place.look()?.is_none() {
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        }
        let file = place.open(OFlag::O_RDONLY, own_file::OWN)?;
        // As the database locks it; held until all is read.
        let mut file =
            Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
                if errno == Errno::EWOULDBLOCK {
                    StoreError::Taken
                } else {
                    io::Error::from(errno).into()
                }
            })?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let memory = InMemoryBackend::new();
        memory.set_len(bytes.len() as u64)?;
        memory.write(0, &bytes)?;
        let database = sound(|| Ok(Database::builder().create_with_backend(memory)?))?;
        Ok(Self { database: Some(database), last: 0 })
    }

    fn database(&self) -> Result<&Database, StoreError> {
        self.database.as_ref().ok_or_else(|| StoreError::Refused("it is closed".into()))
    }

    /// A number for a run that came at this time: times are in order, and numbers too where the
    /// clock was set back.
    pub(crate) fn number(&mut self, began_ns: u64) -> u64 {
        self.last = began_ns.max(self.last.saturating_add(1));
        self.last
    }

    /// Writes these.
    pub(crate) fn write(&mut self, runs: &[(u64, &Account)]) -> Result<(), StoreError> {
        sound(|| {
            let transaction = self.database()?.begin_write()?;
            {
                let mut table = transaction.open_table(RUNS)?;
                for (number, run) in runs {
                    let text = serde_json::to_vec(run).map_err(io::Error::from)?;
                    table.insert(number, text.as_slice())?;
                }
            }
            Ok(transaction.commit()?)
        })
    }

    /// Runs that went on when their manager was killed are over: what was noted last of each is
    /// all that is known.
    pub(crate) fn cut_short(&mut self) -> Result<u64, StoreError> {
        let mut went_on = Vec::new();
        self.each(|number, run| {
            if run.state == Some(RunState::Runs) {
                went_on.push((number, Account { state: Some(RunState::Cut), ..run }));
            }
        })?;
        let runs: Vec<(u64, &Account)> =
            went_on.iter().map(|(number, run)| (*number, run)).collect();
        if !runs.is_empty() {
            self.write(&runs)?;
        }
        Ok(runs.len() as u64)
    }

    /// Each run. One that cannot be read is passed over.
    pub(crate) fn each(&self, mut take: impl FnMut(u64, Account)) -> Result<(), StoreError> {
        sound(|| {
            let table = self.database()?.begin_read()?.open_table(RUNS)?;
            for row in table.iter()? {
                let (number, text) = row?;
                if let Ok(run) = serde_json::from_slice(text.value()) {
                    take(number.value(), run);
                }
            }
            Ok(())
        })
    }

    /// Removes what is older than it may be, and a part of all while the file `path` is larger than
    /// it may be. `now_ns` is the wall clock.
    pub(crate) fn keep_within(
        &mut self,
        bounds: Bounds,
        path: &Path,
        now_ns: u64,
    ) -> Result<(), StoreError> {
        sound(|| self.keep_to(bounds, path, now_ns))
    }

    fn keep_to(&mut self, bounds: Bounds, path: &Path, now_ns: u64) -> Result<(), StoreError> {
        let age = u64::try_from(bounds.age.as_nanos()).unwrap_or(u64::MAX);
        self.remove_before(now_ns.saturating_sub(age))?;
        let size = |path: &Path| std::fs::metadata(path).map(|it| it.len());
        if size(path)? <= bounds.size {
            return Ok(());
        }
        // What was removed before may be all that it takes.
        self.shrink(path)?;
        // An empty file has a size, too: no more than that can be done.
        while size(path)? > bounds.size {
            if self.remove_a_part()? == 0 {
                break;
            }
            self.shrink(path)?;
        }
        Ok(())
    }

    /// Compacts the file until that makes it no smaller: one time gives back its last part only.
    fn shrink(&mut self, path: &Path) -> Result<(), StoreError> {
        loop {
            let before = std::fs::metadata(path)?.len();
            self.compact()?;
            if std::fs::metadata(path)?.len() >= before {
                return Ok(());
            }
        }
    }

    fn compact(&mut self) -> Result<(), StoreError> {
        let Some(database) = &mut self.database else { return Ok(()) };
        match database.compact() {
            Ok(_) => Ok(()),
            Err(redb::CompactionError::Storage(error)) => Err(error.into()),
            Err(other) => Err(StoreError::Refused(other.to_string())),
        }
    }

    fn remove_before(&mut self, number: u64) -> Result<(), StoreError> {
        if number == 0 {
            return Ok(());
        }
        let is_there = {
            let transaction = self.database()?.begin_read()?;
            transaction.open_table(RUNS)?.first()?.is_some_and(|(first, _)| first.value() < number)
        };
        if is_there {
            let transaction = self.database()?.begin_write()?;
            transaction.open_table(RUNS)?.retain_in(..number, |_, _| false)?;
            transaction.commit()?;
        }
        Ok(())
    }

    /// Removes the oldest part; how many that were.
    fn remove_a_part(&mut self) -> Result<u64, StoreError> {
        let transaction = self.database()?.begin_write()?;
        let removed = {
            let mut table = transaction.open_table(RUNS)?;
            let part = redb::ReadableTableMetadata::len(&table)?.div_ceil(A_PART);
            for _ in 0..part {
                if table.pop_first()?.is_none() {
                    break;
                }
            }
            part
        };
        transaction.commit()?;
        Ok(removed)
    }
}

impl Drop for Store {
    /// A database of a broken file may panic when it is closed, too.
    fn drop(&mut self) {
        let database = self.database.take();
        let _closed = log::caught(|| drop(database));
    }
}
