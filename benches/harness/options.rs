//! The command line of a bench.

use super::place::Row;
use super::{Case, Engine};
use std::path::PathBuf;

const USAGE: &str = "--quick, --only CASE, --peer ENGINE (parts of names, several times), --rounds \
                     N, --seconds N, --record, --markdown FILE, --list";

/// What to do.
pub(crate) enum Options {
    /// `cargo test` builds and runs benches with --test: nothing to measure then.
    Test,
    /// The child.
    Sample { case: String, engine: String, row: Row },
    /// The parent.
    Compare(Compare),
}

/// How to compare.
pub(crate) struct Compare {
    only: Vec<String>,
    peers: Vec<String>,
    pub rounds: u32,
    /// Time of the run; `None`: the bench's own.
    pub seconds: Option<f64>,
    /// Keep the raw record among the repository's.
    pub record: bool,
    /// Write the closing tables there as Markdown, too.
    pub markdown: Option<PathBuf>,
    pub list: bool,
}

impl Options {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut compare = Compare {
            only: Vec::new(),
            peers: Vec::new(),
            rounds: 9,
            seconds: None,
            record: false,
            markdown: None,
            list: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value; {USAGE}"));
            match argument.as_str() {
                // What cargo adds.
                "--bench" => {}
                "--test" => return Ok(Self::Test),
                "--sample" => {
                    let (case, engine, row) = (value()?, value()?, value()?);
                    let row = Row::ALL.into_iter().find(|known| known.name() == row);
                    return Ok(Self::Sample {
                        case,
                        engine,
                        row: row.ok_or("a row is bound or unbound")?,
                    });
                }
                "--quick" => compare.rounds = 1,
                "--only" => compare.only.push(value()?),
                "--peer" => compare.peers.push(value()?),
                "--rounds" => compare.rounds = number(&value()?)?,
                "--seconds" => compare.seconds = Some(f64::from(number(&value()?)?)),
                "--record" => compare.record = true,
                "--markdown" => compare.markdown = Some(value()?.into()),
                "--list" => compare.list = true,
                other => return Err(format!("what is {other}? {USAGE}")),
            }
        }
        Ok(Self::Compare(compare))
    }
}

fn number(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|&number| number > 0)
        .ok_or(format!("{text} is no number above 0; {USAGE}"))
}

impl Compare {
    pub(crate) fn wants(&self, case: &Case, engine: &Engine) -> bool {
        let matches = |parts: &[String], name: &str| {
            parts.is_empty() || parts.iter().any(|part| name.contains(part))
        };
        matches(&self.only, &case.name) && matches(&self.peers, &engine.name)
    }
}
