//! The manager of a measurement: a private instance with its own socket and trace, gone when the
//! measurement is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::copies::{Servant, check_interrupt};

/// Longer than any start takes on a machine that works.
const START: Duration = Duration::from_secs(10);

/// A running manager.
pub(crate) struct Manager {
    servant: Servant,
    program: PathBuf,
    library: PathBuf,
    socket: PathBuf,
    trace: PathBuf,
}

impl Manager {
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
        Ok(Manager { servant, program: program.into(), library: library.into(), socket, trace })
    }

    /// The command that runs an unmodified program under this manager.
    pub(crate) fn run(&self, program: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("run")
            .arg("--socket")
            .arg(&self.socket)
            .arg("--lib")
            .arg(&self.library)
            .arg("--")
            .arg(program);
        command
    }

    /// Kills it: nothing is put back and no program is told.
    pub(crate) fn kill(self) -> anyhow::Result<()> {
        self.servant.kill()
    }

    /// Ends it; returns the file of its trace, whole now, and the processor time that it took.
    /// Fails when it was gone before.
    pub(crate) fn finish(mut self) -> anyhow::Result<(PathBuf, Duration)> {
        if let Some(status) = self.servant.ended()? {
            bail!("the manager ended during the measurement: {status}");
        }
        // The trace is whole only when its writer has ended.
        let cpu = self.servant.stop()?;
        Ok((self.trace, cpu))
    }
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
