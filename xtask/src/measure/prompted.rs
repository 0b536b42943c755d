//! Copies that prepare their data, say `ready`, and then do their work once for each line that they
//! read: they start together whatever the preparation takes, and the time of the work alone counts.
//!
//! The answer is a line of JSON, `{"seconds": ..., "result": [numbers]}`.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::dialogue::Dialogue;

/// Longer than any preparation takes.
const READY: Duration = Duration::from_secs(300);
/// In which a copy must end after its work.
const ENDS: Duration = Duration::from_secs(20);

/// One copy; dropped = killed.
pub(crate) struct Prompted {
    dialogue: Dialogue,
    begin: Instant,
}

/// One work done, or not.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Answer {
    /// Of the work, as the copy says, or until the cap.
    pub(crate) seconds: f64,
    /// `None`: it was not done at the cap.
    pub(crate) result: Option<Vec<f64>>,
}

impl Prompted {
    /// Starts it; it prepares itself meanwhile.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Prompted> {
        Ok(Prompted { dialogue: Dialogue::start(&mut command)?, begin: Instant::now() })
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> i32 {
        self.dialogue.pid()
    }

    /// Waits for its preparation.
    pub(crate) fn await_ready(&mut self) -> anyhow::Result<()> {
        match self.dialogue.hear(b'\n', Instant::now() + READY)? {
            Some(line) if line.trim() == "ready" => Ok(()),
            Some(line) => bail!("it said `{line}` and not `ready`"),
            None => bail!("it was not ready after {READY:?}"),
        }
    }

    /// Fails unless it has this file in its memory: else something else is measured than is said.
    pub(crate) fn must_have_loaded(&self, library: &Path) -> anyhow::Result<()> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.pid()))
            .context("cannot read what it has loaded")?;
        let file = library.canonicalize().with_context(|| library.display().to_string())?;
        ensure!(maps.contains(&*file.to_string_lossy()), "it did not load {}", file.display());
        Ok(())
    }

    /// Begins its work, once more if it was done.
    pub(crate) fn go(&mut self) -> anyhow::Result<()> {
        self.begin = Instant::now();
        self.dialogue.say(b"go\n")
    }

    /// What came of the work by then.
    pub(crate) fn answer(&mut self, until: Instant) -> anyhow::Result<Answer> {
        let Some(line) = self.dialogue.hear(b'\n', until)? else {
            return Ok(Answer { seconds: self.begin.elapsed().as_secs_f64(), result: None });
        };
        let answer: Answer =
            serde_json::from_str(&line).with_context(|| format!("no answer: {line}"))?;
        ensure!(answer.result.is_some(), "an answer without a result: {line}");
        Ok(answer)
    }

    /// Ends it after its work.
    pub(crate) fn end_well(self) -> anyhow::Result<()> {
        match self.dialogue.end(Instant::now() + ENDS)? {
            Some((status, _)) if status.success() => Ok(()),
            Some((status, said)) => bail!("it ended with {status}: {}", said.trim()),
            None => bail!("it did its work and did not end in {ENDS:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(script: &str) -> Prompted {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Prompted::start(command).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    const WORKS: &str =
        "echo ready; while read line; do echo '{\"seconds\": 0.5, \"result\": [1, 2.5]}'; done";

    #[test]
    fn a_copy_works_as_often_as_it_is_told_and_ends() {
        let mut copy = copy(WORKS);
        copy.await_ready().unwrap();
        for _ in 0..3 {
            copy.go().unwrap();
            let answer = copy.answer(soon()).unwrap();
            assert_eq!(answer, Answer { seconds: 0.5, result: Some(vec![1.0, 2.5]) });
        }
        copy.end_well().unwrap();
    }

    #[test]
    fn what_is_not_done_at_the_cap_has_no_result() {
        let mut copy = copy("echo ready; exec sleep 1000");
        copy.await_ready().unwrap();
        copy.go().unwrap();
        let answer = copy.answer(Instant::now() + Duration::from_millis(30)).unwrap();
        assert!(answer.result.is_none() && answer.seconds >= 0.03, "{answer:?}");
    }

    #[test]
    fn every_other_end_is_an_error_that_says_what_happened() {
        let fault = copy("echo no").await_ready().unwrap_err().to_string();
        assert!(fault.contains("`no`"), "{fault}");
        let mut dies = copy("echo ready; read line; echo oops >&2; exit 3");
        dies.await_ready().unwrap();
        dies.go().unwrap();
        let fault = dies.answer(soon()).unwrap_err().to_string();
        assert!(fault.contains("oops"), "{fault}");
        let mut odd = copy("echo ready; read line; echo nonsense; read line");
        odd.await_ready().unwrap();
        odd.go().unwrap();
        assert!(odd.answer(soon()).unwrap_err().to_string().contains("nonsense"));
        let mut fails = copy(&format!("{WORKS}; exit 4"));
        fails.await_ready().unwrap();
        assert!(fails.end_well().unwrap_err().to_string().contains("exit status: 4"));
    }

    #[test]
    fn what_a_copy_has_loaded_is_read_from_its_memory() {
        let mut copy = copy(WORKS);
        copy.await_ready().unwrap();
        copy.must_have_loaded(Path::new("/bin/sh")).unwrap();
        let fault = copy.must_have_loaded(Path::new("/proc/version")).unwrap_err().to_string();
        assert!(fault.contains("did not load"), "{fault}");
    }
}
