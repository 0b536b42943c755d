//! Where the configuration comes from: files in their order, and the environment.
//!
//! # Protocol
//! 1. `/usr/lib/cpumgr/cpumgr.toml` comes with the manager; `/etc/cpumgr/cpumgr.toml` is the
//!    administrator's; `cpumgr/cpumgr.toml` in `$XDG_CONFIG_HOME` (`~/.config`) is the user's, and
//!    only that user's own manager reads it.
//! 2. After each of them the files `*.toml` of the folder `cpumgr.toml.d` beside it, by name.
//! 3. A file that is not there says nothing. One that cannot be read, that another user may write,
//!    or that has a mistake, is an error: a manager does not begin with half of what it was told,
//!    and one that runs goes on with what it has.
//! 4. `--config FILE` and `CPUMGR_CONFIG` name one file in place of all; `none` stands for no file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::Config;
use crate::mistake::ConfigError;
use crate::trust;

/// The longest file that is read.
const MAX_FILE: u64 = 1 << 20;
/// What stands for no file at all.
const NONE: &str = "none";
/// What the environment may say, with the keys that mean the same in a file.
pub(super) const VARIABLES: [(&str, &str); 17] = [
    ("CPUMGR_POLICY", "policy"),
    ("CPUMGR_QUANTUM", "quantum"),
    ("CPUMGR_GRACE", "grace"),
    ("CPUMGR_MPL", "mpl"),
    ("CPUMGR_FAIR_SHARE", "fair-share"),
    ("CPUMGR_SMT", "smt"),
    ("CPUMGR_CPUS", "cpus"),
    ("CPUMGR_STRANGERS", "strangers"),
    ("CPUMGR_IDLE_EXIT", "idle-exit"),
    ("CPUMGR_FENCE", "fence"),
    ("CPUMGR_TRACE", "trace"),
    ("CPUMGR_TRACE_SIZE", "trace-size"),
    ("CPUMGR_ADMIN_GROUP", "admin-group"),
    ("CPUMGR_LISTEN", "listen"),
    ("CPUMGR_HISTORY", "history"),
    ("CPUMGR_HISTORY_SIZE", "history-size"),
    ("CPUMGR_HISTORY_AGE", "history-age"),
];

/// Further variables of this program.
const OTHER_VARIABLES: [&str; 4] =
    ["CPUMGR_CONFIG", "CPUMGR_LOG", "CPUMGR_SUBMISSION", "CPUMGR_ARRAY_INDEX"];

/// Which files are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    bases: Vec<PathBuf>,
    /// One that has to be there, in place of the others.
    named: Option<PathBuf>,
}

impl Sources {
    /// Those of a manager of the whole machine (`system`), or of a user's own; `named`: what the
    /// command line or the environment names in place of them.
    pub fn usual(system: bool, named: Option<&Path>) -> Self {
        let mut bases = vec![
            PathBuf::from("/usr/lib/cpumgr/cpumgr.toml"),
            PathBuf::from("/etc/cpumgr/cpumgr.toml"),
        ];
        if !system {
            bases.extend(users_own());
        }
        match named {
            Some(path) if path == Path::new(NONE) => Self { bases: Vec::new(), named: None },
            Some(path) => Self { bases: Vec::new(), named: Some(path.to_owned()) },
            None => Self { bases, named: None },
        }
    }

    /// These, with their drop-ins.
    #[cfg(test)]
    pub(super) fn at(bases: Vec<PathBuf>) -> Self {
        Self { bases, named: None }
    }

    /// The file that `CPUMGR_CONFIG` names.
    pub fn named_by_environment() -> Option<PathBuf> {
        std::env::var_os("CPUMGR_CONFIG").filter(|it| !it.is_empty()).map(PathBuf::from)
    }

    /// The files that are there, in the order in which they are read.
    ///
    /// # Errors
    /// A folder of drop-ins that cannot be read.
    pub fn files(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let mut files = Vec::from_iter(self.named.clone());
        for base in &self.bases {
            if fs::symlink_metadata(base).is_ok() {
                files.push(base.clone());
            }
            files.extend(drop_ins(base)?);
        }
        Ok(files)
    }

    /// Whether this file is one of those that are read; false, too, where a folder of them cannot
    /// be looked at.
    pub fn have(&self, path: &Path) -> bool {
        let Ok(wanted) = fs::canonicalize(path) else { return false };
        let is_it = |file: &PathBuf| fs::canonicalize(file).is_ok_and(|file| file == wanted);
        self.files().is_ok_and(|files| files.iter().any(is_it))
    }

    /// What stands in the folders of drop-ins, and no manager reads.
    ///
    /// # Errors
    /// A folder of drop-ins that cannot be read.
    pub fn unread(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let mut files = Vec::new();
        for base in &self.bases {
            files.extend(beside(base)?.into_iter().filter(|path| !is_drop_in(path)));
        }
        Ok(files)
    }

    /// Where they are looked for, in words.
    pub fn places(&self) -> String {
        let shown = |path: &PathBuf| path.display().to_string();
        if let Some(named) = &self.named {
            return format!("{} (CPUMGR_CONFIG)", shown(named));
        }
        let bases: Vec<String> = self.bases.iter().map(shown).collect();
        if bases.is_empty() {
            return "none".to_owned();
        }
        format!(
            "{}, and the files *.toml of the folder cpumgr.toml.d beside each",
            bases.join(", ")
        )
    }

    /// What they say together.
    ///
    /// # Errors
    /// The first one that cannot be used.
    pub fn load(&self) -> Result<Config, ConfigError> {
        let mut whole = Config::default();
        for path in self.files()? {
            is_trusted(&path)?;
            let (said, text) = read(&path)?;
            whole = whole.then(said.clone());
            whole.check_classes(&said, &text).map_err(|(line, what)| ConfigError::Mistake {
                path,
                line,
                what,
            })?;
        }
        whole.make_policy().map_err(ConfigError::Together)?;
        Ok(whole)
    }
}

/// A manager takes no word from another user.
fn is_trusted(path: &Path) -> Result<(), ConfigError> {
    match trust::objection(path).filter(|_| path.exists()) {
        Some(what) => Err(ConfigError::NotTrusted { path: path.to_owned(), what }),
        None => Ok(()),
    }
}

/// What one file says.
///
/// # Errors
/// What is wrong with it; what keeps a manager from reading it.
pub(super) fn file(path: &Path) -> Result<Config, ConfigError> {
    let (said, text) = read(path)?;
    is_trusted(path)?;
    let mut whole = Config::default();
    for earlier in before(path)? {
        whole = whole.then(read(&earlier)?.0);
    }
    let mistake = |(line, what)| ConfigError::Mistake { path: path.to_owned(), line, what };
    whole.then(said.clone()).check_classes(&said, &text).map_err(mistake)?;
    Ok(said)
}

/// The files that are read before this one, whose classes its rules may name: those of the usual
/// ones, and, where it is a drop-in, its base and the drop-ins before it. Of another file none is.
fn before(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let absolute = std::path::absolute(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let is_drop_ins = |folder: &&Path| folder.to_string_lossy().ends_with(".toml.d");
    let folder = absolute.parent().filter(is_drop_ins);
    let base = folder.map_or_else(|| absolute.clone(), |folder| folder.with_extension(""));
    let mut bases = Sources::usual(false, None).bases;
    match bases.iter().position(|it| *it == base) {
        Some(at) => bases.truncate(at + 1),
        None => bases = vec![base],
    }
    let files = Sources { bases, named: None }.files()?;
    Ok(files.into_iter().take_while(|it| *it != absolute).collect())
}

/// What one file says, and its text.
fn read(path: &Path) -> Result<(Config, String), ConfigError> {
    let text = text_of(path)
        .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let said = Config::parse(&text).map_err(|(line, what)| ConfigError::Mistake {
        path: path.to_owned(),
        line,
        what,
    })?;
    Ok((said, text))
}

/// Variables that look as if they were for a manager, and mean nothing to it, with the one that may
/// be meant. Others (`CPUMGR_SERVICE_HOST` of Kubernetes) are no business of the manager's.
pub(super) fn misspelt(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Vec<(String, &'static str)> {
    let known = || VARIABLES.iter().map(|(variable, _)| *variable).chain(OTHER_VARIABLES);
    let near = |name: &str| known().find(|it| *it != name && is_near(it, name));
    let names = variables.into_iter().filter_map(|(name, _)| name.into_string().ok());
    let ours = names.filter(|name| name.starts_with("CPUMGR_") && known().all(|it| it != name));
    ours.filter_map(|name| near(&name).map(|meant| (name, meant))).collect()
}

/// Whether a name differs from a known one by two letters that are changed, missing or too many; by
/// one where the key has few.
fn is_near(known: &str, name: &str) -> bool {
    let far = if known.len() < "CPUMGR_".len() + 6 { 1 } else { 2 };
    // Row by row of the edit distance's table.
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (i, a) in known.bytes().enumerate() {
        let mut corner = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in name.bytes().enumerate() {
            let least = row[j].min(row[j + 1]) + 1;
            corner = std::mem::replace(&mut row[j + 1], least.min(corner + usize::from(a != b)));
        }
    }
    row[name.len()] <= far
}

/// What the environment says.
///
/// # Errors
/// The variable, and what it may be.
pub(super) fn environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<Config, ConfigError> {
    let set: BTreeMap<OsString, OsString> =
        variables.into_iter().filter(|(_, value)| !value.is_empty()).collect();
    let mut whole = Config::default();
    for (variable, key) in VARIABLES {
        let Some(value) = set.get(&OsString::from(variable)) else { continue };
        let text = value.to_str().ok_or_else(|| ConfigError::Variable {
            variable,
            what: format!("{value:?} is no text"),
        })?;
        let table = toml::Table::from_iter([(key.to_owned(), toml::Value::from(text))]);
        let said: Config = table.try_into().map_err(|error: toml::de::Error| {
            ConfigError::Variable { variable, what: error.message().trim().to_owned() }
        })?;
        whole = whole.then(said);
    }
    Ok(whole)
}

impl Config {
    /// What the environment of this process says.
    ///
    /// # Errors
    /// The variable, and what it may be.
    pub fn of_environment() -> Result<Self, ConfigError> {
        environment(std::env::vars_os())
    }

    /// Variables of this process that a manager does not know, and which it may be that is meant.
    pub fn misspelt_variables() -> Vec<String> {
        let said = |(name, meant): (String, &str)| {
            format!("the environment variable {name} means nothing here; is {meant} meant?")
        };
        misspelt(std::env::vars_os()).into_iter().map(said).collect()
    }

    /// What one file says.
    ///
    /// # Errors
    /// What is wrong with it; what keeps a manager from reading it.
    pub fn of_file(path: &Path) -> Result<Self, ConfigError> {
        file(path)
    }
}

/// `None` where it cannot be looked at: after `setpriv` and the like, `HOME` may be another user's,
/// and what is there is not this user's configuration.
fn users_own() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".config"));
    let base = absolute("XDG_CONFIG_HOME").or_else(home)?.join("cpumgr/cpumgr.toml");
    let is_closed = |error: io::Error| error.kind() == io::ErrorKind::PermissionDenied;
    if fs::symlink_metadata(&base).is_err_and(is_closed) {
        tracing::debug!(path = %base.display(), "another user's configuration is not read");
        return None;
    }
    Some(base)
}

/// Whether a file of a folder of drop-ins is read, by its name.
fn is_drop_in(path: &Path) -> bool {
    let is_hidden = path.file_name().is_some_and(|it| it.as_encoded_bytes()[0] == b'.');
    path.extension().is_some_and(|it| it == "toml") && !is_hidden
}

/// What keeps a file of a folder of drop-ins from being read: its name.
pub(crate) fn misnamed(path: &Path) -> Option<&'static str> {
    let folder = std::path::absolute(path).ok()?;
    let is_one = folder.parent()?.to_string_lossy().ends_with(".toml.d");
    (is_one && !is_drop_in(path)).then_some(
        "of a folder of drop-ins a manager reads only files whose name ends in .toml and begins \
         with no dot",
    )
}

fn drop_ins(base: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    Ok(beside(base)?.into_iter().filter(|path| is_drop_in(path)).collect())
}

/// What is in the folder of drop-ins of a file, by name.
fn beside(base: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let folder = base.with_extension("toml.d");
    let unreadable = |source| ConfigError::Unreadable { path: folder.clone(), source };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        files.push(entry.map_err(unreadable)?.path());
    }
    files.sort();
    Ok(files)
}

fn text_of(path: &Path) -> io::Result<String> {
    // Opening a FIFO would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut text = String::new();
    fs::File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE {
        let what = format!("it is longer than {MAX_FILE} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(text)
}
