//! The manager of a measurement: a private instance with its own socket and trace, gone when the
//! measurement is.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Deserialize;
use tempfile::TempDir;

use super::household::check_interrupt;
use super::servant::Servant;

/// Longer than any start takes on a machine that works.
const START: Duration = Duration::from_secs(10);
/// The trace is written by a thread of its own, which is this late at most.
const WRITTEN: Duration = Duration::from_secs(2);

/// A running manager.
pub(crate) struct Manager {
    servant: Servant,
    program: PathBuf,
    library: PathBuf,
    socket: PathBuf,
    trace: PathBuf,
    /// Bytes of the trace that were read.
    read: u64,
    /// Where the files are, if they are this manager's own.
    private: Option<TempDir>,
}

/// What is read of a line of the trace.
#[derive(Deserialize)]
struct Line {
    pid: Option<i32>,
}

impl Manager {
    /// Starts it in a folder of its own: it refuses one in which others may write, whatever our
    /// umask lets them.
    pub(crate) fn start_private(program: &Path, library: &Path) -> anyhow::Result<Manager> {
        let folder = tempfile::Builder::new()
            .prefix("nanos-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir()
            .context("cannot make a temporary folder")?;
        let manager = Manager::start(program, library, folder.path(), &[])?;
        Ok(Manager { private: Some(folder), ..manager })
    }

    /// Starts `cpumgr daemon` in `folder` with these further options and returns when it answers.
    pub(crate) fn start(
        program: &Path,
        library: &Path,
        folder: &Path,
        options: &[&str],
    ) -> anyhow::Result<Manager> {
        let (socket, trace, log) =
            (folder.join("app.sock"), folder.join("trace.jsonl"), folder.join("manager.log"));
        let output = std::fs::File::create(&log)
            .with_context(|| format!("cannot create {}", log.display()))?;
        let mut command = Command::new(program);
        command.arg("daemon").arg("--socket").arg(&socket).arg("--trace").arg(&trace);
        command.args(["--idle-exit", "never"]).args(options);
        command
            .stdout(output.try_clone().context("cannot share the manager's log")?)
            .stderr(output);
        let mut servant = Servant::start(&mut command)?;
        let begin = Instant::now();
        while !answers(program, &socket)? {
            check_interrupt()?;
            let said = || std::fs::read_to_string(&log).unwrap_or_default();
            if let Some(status) = servant.ended()? {
                bail!("the manager ended at once ({status}):\n{}", said());
            }
            if begin.elapsed() > START {
                bail!(
                    "the manager does not answer on {} after {START:?}:\n{}",
                    socket.display(),
                    said()
                );
            }
            // There is nothing to wait on before the socket exists.
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(Manager {
            servant,
            program: program.into(),
            library: library.into(),
            socket,
            trace,
            read: 0,
            private: None,
        })
    }

    /// The processor time that it has taken so far.
    pub(crate) fn cpu(&self) -> anyhow::Result<Duration> {
        self.servant.cpu()
    }

    /// Where programs find it.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Those of these processes, started since the last call, that it never heard of: they did not
    /// measure what is said. Fails when it is gone.
    pub(crate) fn strangers(&mut self, pids: &[i32]) -> anyhow::Result<Vec<i32>> {
        let mut strangers = pids.to_vec();
        let begin = Instant::now();
        loop {
            if let Some(status) = self.servant.ended()? {
                bail!("the manager ended during the measurement: {status}");
            }
            let text = self.fresh()?;
            for line in text.lines() {
                // Of other lines (about the manager itself) there is no process.
                let pid = serde_json::from_str::<Line>(line).ok().and_then(|line| line.pid);
                strangers.retain(|stranger| Some(*stranger) != pid);
            }
            if strangers.is_empty() || begin.elapsed() > WRITTEN {
                return Ok(strangers);
            }
            check_interrupt()?;
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What came to the trace since the last call, whole lines only.
    fn fresh(&mut self) -> anyhow::Result<String> {
        let shown = || format!("cannot read the trace {}", self.trace.display());
        let mut file = File::open(&self.trace).with_context(shown)?;
        // A long trace is begun anew.
        if file.metadata().with_context(shown)?.len() < self.read {
            self.read = 0;
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.read)).with_context(shown)?;
        file.read_to_end(&mut bytes).with_context(shown)?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        self.read += end as u64;
        Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }

    /// The command that runs an unmodified program under this manager.
    pub(crate) fn run(&self, program: &Path) -> Command {
        self.run_with(&[], program)
    }

    /// The same with further options.
    pub(crate) fn run_with(&self, options: &[&str], program: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .arg("--socket")
            .arg(&self.socket)
            .arg("--lib")
            .arg(&self.library)
            .args(options)
            .arg("--")
            .arg(program);
        command
    }

    /// Kills it: nothing is put back and no program is told.
    pub(crate) fn kill(self) -> anyhow::Result<()> {
        self.servant.kill()
    }

    /// Ends it. Fails when it was gone before.
    pub(crate) fn finish(mut self) -> anyhow::Result<Ended> {
        if let Some(status) = self.servant.ended()? {
            bail!("the manager ended during the measurement: {status}");
        }
        // The trace is whole only when its writer has ended.
        let cpu = self.servant.stop()?;
        Ok(Ended { trace: self.trace, cpu, _private: self.private })
    }
}

/// What a manager leaves.
pub(crate) struct Ended {
    /// The file of its trace, whole; it may be gone with this.
    pub(crate) trace: PathBuf,
    /// The processor time that it took.
    pub(crate) cpu: Duration,
    _private: Option<TempDir>,
}

fn answers(program: &Path, socket: &Path) -> anyhow::Result<bool> {
    if !socket.exists() {
        return Ok(false);
    }
    let mut status = Command::new(program);
    status
        .arg("status")
        .arg("--socket")
        .arg(socket)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(status.status().with_context(|| format!("cannot start {}", program.display()))?.success())
}
