//! D5: a gang whose manager is killed while it is out runs again soon.

use std::fs::File;
use std::io::Read;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::{LONGEST_RUN, Stage};
use crate::measure::check_interrupt;
use crate::setup::clean_environment;

/// After this time a gang whose manager was killed runs again.
const LONGEST_PAUSE: f64 = 1.0;

impl Stage<'_> {
    /// The manager is killed while a gang is out.
    pub(super) fn gang(&mut self) -> anyhow::Result<()> {
        if !self.wanted("gang") {
            return Ok(());
        }
        let program = self.own("gang")?;
        for _ in 0..self.options.rounds {
            let manager = self.manager("20ms")?;
            let said = self.folder.path().join("gang.said");
            let output =
                File::create(&said).with_context(|| format!("cannot create {}", said.display()))?;
            let mut command = manager.run(&program);
            clean_environment(&mut command);
            let mut child =
                command.arg("2.5").stdout(output).spawn().context("cannot start the gang")?;
            let begin = Instant::now();
            let read = || -> anyhow::Result<String> {
                let mut text = String::new();
                File::open(&said)
                    .and_then(|mut file| file.read_to_string(&mut text))
                    .context("cannot read it")?;
                Ok(text)
            };
            while !read()?.contains("out") && begin.elapsed() < LONGEST_RUN {
                check_interrupt()?;
                std::thread::sleep(Duration::from_millis(5));
            }
            manager.kill()?;
            let killed = Instant::now();
            let status = loop {
                match child.try_wait().context("cannot wait for the gang")? {
                    Some(status) => break Some(status),
                    None if killed.elapsed() > Duration::from_secs(20) => break None,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            if status.is_none() {
                child.kill().context("cannot kill the gang")?;
                child.wait().context("cannot wait for the gang")?;
            }
            let text = read()?;
            let outcome = match (status, pause(&text)) {
                (Some(status), Some(longest)) if status.success() && longest < LONGEST_PAUSE => {
                    Ok(format!(", it paused for {longest:.3} s at most"))
                }
                (status, _) => Err(anyhow::anyhow!("{status:?}, it said: {}", text.trim())),
            };
            self.note("gang without its manager", outcome);
        }
        Ok(())
    }
}

/// The longest pause that a gang speaks of.
fn pause(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("longest ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gang_says_how_long_it_paused() {
        assert_eq!(pause("out\nlongest 0.250\nok\n"), Some(0.25));
        assert_eq!(pause("out\n"), None);
    }
}
