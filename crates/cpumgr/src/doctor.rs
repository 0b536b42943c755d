//! `cpumgr doctor`: what this machine lets a manager do, and what to do about what it does not; of
//! a process or a program, which pools of threads it has and which of them follow its processors.

use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use crate::cli::{DoctorArgs, named};
use crate::error::{Error, NOT_FOUND};
use crate::escape::printable;
use crate::output::print;
use crate::style::Style;
use crate::{json, preload};

mod machine;
mod others;
mod pools;
mod process;

pub use pools::{Follows, Pool};

/// What was found about one thing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// In words.
    pub says: String,
    /// What to do about it; none where nothing has to be done.
    pub remedy: Option<String>,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Well,
    /// Something is less than it could be.
    Note,
    /// Something does not work.
    Wrong,
}

impl Finding {
    fn well(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, verdict: Verdict::Well, says: says.into(), remedy: None }
    }

    fn note(check: &'static str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        let remedy = Some(remedy.into());
        Self { check, verdict: Verdict::Note, says: says.into(), remedy }
    }

    fn wrong(check: &'static str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { verdict: Verdict::Wrong, ..Self::note(check, says, remedy) }
    }
}

/// What `cpumgr doctor --json` shows of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// In the order in which they were looked at.
    pub findings: Vec<Finding>,
}

/// What `cpumgr doctor --json PID` and `-- PROGRAM` show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pools {
    /// The process, or the program's file, escaped.
    pub of: String,
    /// What it may use, and what cannot be told of it.
    pub findings: Vec<Finding>,
    /// The pools of threads that it has, or that its file names.
    pub pools: Vec<Pool>,
}

/// `cpumgr doctor`.
///
/// # Errors
/// When something of the machine is wrong, or there is no such process or program.
pub fn run(args: &DoctorArgs) -> Result<(), Error> {
    if let Some(pid) = args.pid {
        let (findings, is_managed) = process::look(pid, args.socket.as_deref());
        let pools = pools::of_process(pid, is_managed)?;
        return show_pools(&Pools { of: pid.to_string(), findings, pools }, args);
    }
    if let Some(program) = args.program.first() {
        named(program).map_err(Error::Usage)?;
        let path = preload::find(Path::new(program)).filter(|path| path.exists());
        let name = printable(&program.to_string_lossy());
        let path = path.ok_or_else(|| Error::Apart {
            message: format!(
                "{name}: there is no such program{}; name its file, or a process by its number",
                if name.contains('/') { "" } else { " in the directories of PATH" }
            ),
            code: NOT_FOUND,
        })?;
        let of = printable(&path.display().to_string());
        let later = Finding::note(
            "later",
            "what it loads while it runs, as the interpreter of a script does, is not in its file",
            "ask `cpumgr doctor PID` while it runs",
        );
        let (findings, pools) = (vec![later], pools::of_program(&path)?);
        return show_pools(&Pools { of, findings, pools }, args);
    }
    let findings = Findings { findings: machine::look(args.socket.as_deref()) };
    match args.json {
        true => print(&json::line("doctor", &findings)?)?,
        false => print(&findings.text(Style::of_output()))?,
    }
    let is_wrong = |it: &&Finding| it.verdict == Verdict::Wrong;
    let wrong: Vec<&str> = findings.findings.iter().filter(is_wrong).map(|it| it.check).collect();
    match wrong.as_slice() {
        [] => Ok(()),
        _ => Err(Error::Apart {
            message: format!("not well: {}", wrong.join(", ")),
            code: crate::error::FAILED,
        }),
    }
}

impl Findings {
    fn text(&self, style: Style) -> String {
        lines(&self.findings, style)
    }
}

/// Each with its remedy below it.
fn lines(findings: &[Finding], style: Style) -> String {
    let mut text = String::new();
    for Finding { check, verdict, says, remedy } in findings {
        let mark = match verdict {
            Verdict::Well => style.good("well "),
            Verdict::Note => style.bad("note "),
            Verdict::Wrong => style.bad("WRONG"),
        };
        // Writing to a string cannot fail.
        let _written = writeln!(text, "{mark} {check:<14} {}", printable(says));
        if let Some(remedy) = remedy {
            let _written = writeln!(text, "{:21}-> {}", "", printable(remedy));
        }
    }
    text
}

fn show_pools(pools: &Pools, args: &DoctorArgs) -> Result<(), Error> {
    match args.json {
        true => print(&json::line("doctor-pools", pools)?),
        false => print(&pools.text(Style::of_output())),
    }
}

impl Pools {
    fn text(&self, style: Style) -> String {
        let mut text = format!("{}:\n{}", self.of, lines(&self.findings, style));
        if self.pools.is_empty() {
            text.push_str(
                "no pool of threads that is known here; where a manager manages it, its threads \
                 are bound to its processors from outside\n",
            );
        }
        for Pool { name, version, file, follows, says } in &self.pools {
            let mark = match follows {
                Follows::Yes => style.good("follows   "),
                Follows::Bound => style.bad("keeps size"),
                Follows::Unknown => "unknown   ".to_owned(),
            };
            let version = version.as_ref().map_or(String::new(), |it| format!(" ({it})"));
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{mark} {name:<10} {}{version}", printable(file));
            let _written = writeln!(text, "{:11}-> {says}", "");
        }
        text
    }
}

#[cfg(test)]
mod tests;
