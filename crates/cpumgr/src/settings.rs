//! What a manager was told, which programs ran and which waited, in `SOCKET.settings`: for the next
//! manager, if this one is killed.
//!
//! # Protocol
//! 1. The manager writes at its beginning and after each change (`keeper`).
//! 2. A clean end forgets, unless programs wait, which start the next manager themselves: an end by
//!    a signal removes the file, as does idleness, unless the file was a killed manager's before:
//!    no user decided to drop its settings. A kill, and the loss of the socket file, keep it. So do
//!    `cpumgr restart` and a `run` that replaces an idle manager, but an idle end of the next
//!    manager forgets what they hand on. SIGUSR2, by which a service is restarted, keeps programs,
//!    places and what is attached alone, and a level that was told by `mpl`: a queue does not open
//!    because its manager is restarted. `reload` brings the configuration's level into force.
//!    [`Handover`] says which of these it was.
//! 3. The next manager on the socket takes policy with parameters, quantum, grace, level and what
//!    was drained from it, unless its own options say otherwise. A program that ran counts as
//!    running until it ends ([`crate::server::Server::take_over`]), keeps its weight, and is
//!    attached if it was to be. One that waited gets its place again when it comes back.
//!
//! # Invariants
//! - A process is known by its number and the time at which it started.
//! - What cannot be read, or used, is left out with a warning: the manager begins all the same.
//!
//! # Not here
//! Settings that are a start's own: processors, `--smt`, `--strangers`, `--fence`, `--domain`,
//! `--trace`. A change in the last moments (`keeper`) before a kill. Masks: `masks`.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use platform::SysResult;
use serde::{Deserialize, Serialize};

use crate::guarded::Guarded;
use crate::instance::beside;
use crate::keeper::{self, Keeper};
use crate::limits;
use crate::submissions::Submissions;

/// The version of the file.
const VERSION: u32 = 1;
/// The longest file: a thousand processes that run and 512 that wait need a tenth of it. Where it
/// would be longer the numbers of submissions are left out, and then labels: all that can run, with
/// the longest labels, need somewhat more.
const MAX_FILE: u64 = 1 << 20;

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) version: u32,
    pub(crate) policy: String,
    /// As people write them.
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) quantum_ns: u64,
    pub(crate) grace_ns: u64,
    /// How many programs may run at once.
    pub(crate) level: Option<u32>,
    /// Programs that run: registered, announced, admitted or attached.
    pub(crate) running: Vec<Running>,
    /// Programs that wait, the next one first.
    pub(crate) waiting: Vec<Waiting>,
    /// Processors that programs leave, as a kernel list.
    #[serde(default)]
    pub(crate) drained: String,
    /// The numbers of submissions, and how they ended.
    #[serde(default)]
    pub(crate) submissions: Submissions,
    /// What the next manager heeds of all this, and for how long.
    #[serde(default)]
    pub(crate) handover: Handover,
}

/// How a manager's settings are handed on to the next one.
///
/// `running`, `waiting`, `drained` and `submissions` are heeded in any case. The rest follows from
/// how the manager ended that left them, and the level from where it came, besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handover {
    /// How that one ended.
    pub(crate) end: LastEnd,
    /// Where its level came from.
    pub(crate) level: LevelFrom,
}

/// How a manager ended that left its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LastEnd {
    /// Of a sudden: it was killed, lost its socket file, or took over the settings of such a one
    /// and handed them on. All that it was told holds, also after the next one's idle end: no user
    /// decided to drop it.
    #[default]
    Killed,
    /// To make room: `cpumgr restart`, a `run` from a wider place, or a clean end while programs
    /// wait. All that it was told holds, until the next one's idle end.
    MadeRoom,
    /// By SIGUSR2, for the next one of the same service, which reads the configuration. What it was
    /// told is over, but for a level of [`LevelFrom::Command`]; an idle end forgets that, too.
    Relieved,
}

/// Where a level comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LevelFrom {
    /// Options or the configuration, in which the next manager finds it again, or another one.
    #[default]
    Configuration,
    /// `cpumgr mpl`: it holds until the configuration is reloaded.
    Command,
}

impl Handover {
    /// Policy with parameters, quantum and grace hold.
    fn holds(self) -> bool {
        self.end != LastEnd::Relieved
    }

    /// The level does.
    fn level_holds(self) -> bool {
        self.holds() || self.level == LevelFrom::Command
    }

    /// The next manager's idle end forgets all.
    pub(crate) fn ends_with_idleness(self) -> bool {
        self.end != LastEnd::Killed
    }
}

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) pid: i32,
    /// When it started ([`platform::process::start_time`]).
    pub(crate) start: u64,
    pub(crate) uid: u32,
    /// Its weight.
    pub(crate) thousandths: u32,
    pub(crate) as_what: As,
    /// It may be managed by its threads' masks when it does not register.
    pub(crate) attach: bool,
    /// Processors that it asked for when it was submitted.
    pub(crate) request: u32,
    /// Whether its teams keep their size, where that was said.
    #[serde(default)]
    pub(crate) team: Option<bool>,
    /// The site's class that was chosen for it.
    #[serde(default)]
    pub(crate) chosen: Option<Chosen>,
    /// What it was started for.
    #[serde(default)]
    pub(crate) label: Option<String>,
    /// Processors that it is to have before others have more than theirs, and at most.
    #[serde(default)]
    pub(crate) bounds: (Option<u32>, Option<u32>),
    /// The number under which it was submitted.
    #[serde(default)]
    pub(crate) submission: Option<u64>,
    /// What it keeps until it ends, where it was submitted with a number of processors.
    #[serde(default)]
    pub(crate) job: Option<Job>,
}

/// What a job keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) processors: u32,
    /// When it ends at the latest, by the monotonic clock.
    pub(crate) until: Option<u64>,
}

/// A site's class that was chosen for a process, and not by rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chosen {
    /// Its name.
    pub(crate) class: String,
    /// An administrator chose: the process's user cannot change it.
    pub(crate) firm: bool,
}

/// As what a process ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum As {
    /// It was announced or admitted, and counts until it ends.
    Announced,
    /// It registered without having been announced.
    Registered,
    /// It was attached (`masks` says how).
    Attached,
}

/// A process that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) pid: i32,
    pub(crate) start: u64,
    /// Since when, by the monotonic clock.
    pub(crate) since: u64,
}

fn place(socket: &Path) -> PathBuf {
    beside(socket, ".settings")
}

/// Writes them down, for the manager at `socket`.
///
/// # Errors
/// When there is no thread.
pub(crate) fn keeper(socket: &Path) -> SysResult<Keeper<Settings>> {
    let write = |path: &Path, settings: &Settings| -> io::Result<()> {
        let (text, lacks) = settings.written()?;
        keeper::replace(path, &text)?;
        let Some(lacks) = lacks else { return Ok(()) };
        let what = format!("more than {MAX_FILE} bytes, so without {lacks}");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
    };
    Keeper::start(place(socket), "what this one was told", write)
}

/// Forgets them: a clean end of the manager that has `socket`.
pub(crate) fn forget(socket: &Path) {
    let path = place(socket);
    if let Err(error) = keeper::remove(&path) {
        tracing::warn!(%error, path = %path.display(), "the next manager takes over what this one \
                                                        was told");
    }
}

/// What a killed manager left beside `socket`, for the one that has it now.
pub(crate) fn left_at(socket: &Path) -> Option<Settings> {
    read_at(socket).unwrap_or_else(|error| {
        let path = place(socket);
        tracing::warn!(%error, path = %path.display(), "what a killed manager was told cannot be \
                                                        read, and is left out");
        None
    })
}

/// The same for one that does not have it yet: what is wrong with it is said later.
pub(crate) fn glance_at(socket: &Path) -> Option<Settings> {
    read_at(socket).ok().flatten()
}

fn read_at(socket: &Path) -> io::Result<Option<Settings>> {
    let text = keeper::read(&place(socket), MAX_FILE)?;
    text.map(|text| Settings::parse(&text)).transpose()
}

impl Settings {
    /// Without any program.
    pub(crate) fn new(policy: &str, quantum_ns: u64, grace_ns: u64, level: Option<u32>) -> Self {
        Self {
            version: VERSION,
            policy: policy.to_owned(),
            parameters: BTreeMap::new(),
            quantum_ns,
            grace_ns,
            level,
            running: Vec::new(),
            waiting: Vec::new(),
            drained: String::new(),
            submissions: Submissions::default(),
            handover: Handover::default(),
        }
    }

    /// As the next manager reads it, and what was left out of it for its length.
    fn written(&self) -> io::Result<(Vec<u8>, Option<&'static str>)> {
        let text = serde_json::to_vec(self)?;
        if text.len() as u64 <= MAX_FILE {
            return Ok((text, None));
        }
        let mut short = Self { submissions: self.submissions.last_alone(), ..self.clone() };
        let text = serde_json::to_vec(&short)?;
        if text.len() as u64 <= MAX_FILE {
            return Ok((text, Some("the numbers of submissions")));
        }
        short.running.iter_mut().for_each(|one| one.label = None);
        Ok((serde_json::to_vec(&short)?, Some("the numbers of submissions and labels of programs")))
    }

    fn parse(text: &[u8]) -> io::Result<Self> {
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let head: Head = serde_json::from_slice(text)?;
        if head.version != VERSION {
            let what = format!("it has version {}, not {VERSION}", head.version);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(serde_json::from_slice(text)?)
    }

    /// The policy with its parameters, as far as there is one here.
    pub(crate) fn policy(&self) -> Option<Guarded> {
        if !self.handover.holds() {
            return None;
        }
        let mut policy = match Guarded::make(|| limits::policy(&self.policy)) {
            Ok(policy) => policy,
            Err(error) => {
                tracing::warn!(error, "the policy of the killed manager is not to be had");
                return None;
            }
        };
        for (key, text) in &self.parameters {
            if let Err(error) = policy.configure_text(key, text) {
                tracing::warn!(
                    key,
                    %error,
                    "a parameter of the killed manager's policy is left out"
                );
            }
        }
        policy.failure().is_none().then_some(policy)
    }

    /// The quantum, where it is one.
    pub(crate) fn quantum(&self) -> Option<u64> {
        Some(self.quantum_ns).filter(|it| self.handover.holds() && limits::quantum().contains(it))
    }

    /// The grace, where it is one.
    pub(crate) fn grace(&self) -> Option<u64> {
        Some(self.grace_ns).filter(|it| self.handover.holds() && limits::grace().contains(it))
    }

    /// The level, where it holds; `Some(None)`: any number of programs.
    pub(crate) fn level(&self) -> Option<Option<u32>> {
        self.handover.level_holds().then_some(self.level)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use platform::process::Pid;

    use super::*;

    fn some() -> Settings {
        let process = Running {
            pid: 7,
            start: 1,
            uid: 0,
            thousandths: 2500,
            as_what: As::Announced,
            attach: true,
            request: 2,
            team: Some(true),
            chosen: Some(Chosen { class: "night".into(), firm: true }),
            label: Some("nightly".into()),
            bounds: (Some(1), None),
            submission: Some(3),
            job: Some(Job { processors: 4, until: Some(9) }),
        };
        Settings {
            parameters: BTreeMap::from([("step".to_owned(), "4".to_owned())]),
            running: vec![process],
            waiting: vec![Waiting { pid: 8, start: 2, since: 3 }],
            ..Settings::new("pdpa", 50_000_000, 0, Some(1))
        }
    }

    #[test]
    fn what_was_kept_is_read_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("app.sock");
        assert_eq!(left_at(&socket), None);
        let keeper = super::keeper(&socket).unwrap();
        keeper.keep(some());
        drop(keeper);
        assert_eq!(left_at(&socket), Some(some()));
        // What a manager leaves that is killed while it writes goes, too.
        fs::write(dir.path().join("app.sock.settings.new"), "half").unwrap();
        forget(&socket);
        assert_eq!(left_at(&socket), None);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_file_of_a_manager_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("app.sock");
        let other = serde_json::to_string(&Settings { version: 2, ..some() }).unwrap();
        for text in ["", "precious", "[]", r#"{"version":1}"#, r#"{"version":"1"}"#, &other] {
            fs::write(place(&socket), text).unwrap();
            assert_eq!(left_at(&socket), None, "{text}");
        }
        fs::write(place(&socket), vec![b' '; 2 << 20]).unwrap();
        assert_eq!(left_at(&socket), None);
    }

    #[test]
    fn what_would_be_longer_than_the_next_manager_reads_goes_without_the_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("app.sock");
        let mut settings = some();
        for pid in 0..20_000 {
            settings.submissions.enter(None, 7, Pid(pid), true);
        }
        let keeper = super::keeper(&socket).unwrap();
        keeper.keep(settings.clone());
        drop(keeper);
        let submissions = settings.submissions.last_alone();
        assert_eq!(left_at(&socket), Some(Settings { submissions, ..settings }));
    }

    #[test]
    fn as_many_programs_as_there_can_be_are_kept_whatever_they_are_called() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("app.sock");
        let mut settings = some();
        let most = u32::MAX;
        // Announced, registered and attached ones, each as long as it can be.
        let one = Running {
            pid: i32::MAX,
            start: u64::MAX,
            uid: most,
            thousandths: most,
            request: most,
            chosen: Some(Chosen { class: "n".repeat(64), firm: false }),
            label: Some("\\u{7f}".repeat(64)),
            bounds: (Some(most), Some(most)),
            submission: Some(u64::MAX),
            job: Some(Job { processors: most, until: Some(u64::MAX) }),
            ..settings.running[0].clone()
        };
        let waits = Waiting { pid: i32::MAX, start: u64::MAX, since: u64::MAX };
        (settings.running, settings.waiting) = (vec![one; 3 * 512], vec![waits; 512]);
        let keeper = super::keeper(&socket).unwrap();
        keeper.keep(settings.clone());
        drop(keeper);
        settings.running.iter_mut().for_each(|one| one.label = None);
        settings.submissions = settings.submissions.last_alone();
        assert_eq!(left_at(&socket), Some(settings));
    }

    #[test]
    fn what_cannot_be_used_is_left_out() {
        let good = some();
        let policy = good.policy().unwrap();
        let step = policy.parameters().into_iter().find(|it| it.key == "step").unwrap();
        assert_eq!((policy.name(), step.value.to_string().as_str()), ("pdpa", "4"));
        assert_eq!((good.quantum(), good.grace()), (Some(50_000_000), Some(0)));
        assert!(Settings { policy: "colour".into(), ..some() }.policy().is_none());
        let parameters = BTreeMap::from(
            [("step", "red"), ("colour", "4")].map(|(key, it)| (key.to_owned(), it.to_owned())),
        );
        assert_eq!(Settings { parameters, ..some() }.policy().unwrap().name(), "pdpa");
        let relieved =
            |level| Settings { handover: Handover { end: LastEnd::Relieved, level }, ..some() };
        let left = relieved(LevelFrom::Configuration);
        assert!(left.policy().is_none() && left.level().is_none());
        assert_eq!((left.quantum(), left.grace()), (None, None));
        assert_eq!(relieved(LevelFrom::Command).level(), Some(Some(1)));
        assert_eq!(Settings { quantum_ns: 5, ..some() }.quantum(), None);
        assert_eq!(Settings { grace_ns: u64::MAX, ..some() }.grace(), None);
    }
}
