//! One of the demo's programs: compiled, with its work, and with what a right result is.

use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::Deserialize;

use super::plan::Program;
use crate::measure::Finish;
use crate::setup::{Compiler, Workspace};

/// A program under measurement.
pub(crate) struct Subject {
    /// Which one.
    pub(crate) program: Program,
    /// The compiled file.
    pub(crate) path: PathBuf,
    /// Its `--work`: how long a copy takes.
    pub(crate) work: u64,
    /// What a one-thread run found; every other run of the same work must find it too.
    fingerprint: Option<String>,
}

/// The line that a program prints.
#[derive(Deserialize)]
pub(crate) struct Line {
    program: String,
    /// The time of its parallel part.
    pub(crate) seconds: f64,
    correct: bool,
    /// Not `cg`: the bits of all values.
    fingerprint: Option<String>,
}

impl Subject {
    /// Compiles programs against the system's OpenMP.
    pub(crate) fn build_all(
        workspace: &Workspace,
        compiler: &Compiler,
        programs: &[Program],
    ) -> anyhow::Result<Vec<Subject>> {
        let folder = workspace.target.join("demo");
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let build = |program: Program| {
            let source = workspace.root.join("examples/omp").join(program.name());
            let source = source.with_extension(program.language().extension());
            let path = folder.join(program.name());
            compiler.build(program.language(), &source, &path)?;
            Ok(Subject { program, path, work: 4, fingerprint: None })
        };
        programs.iter().map(|&program| build(program)).collect()
    }

    /// Is the result of this copy right, by its own check and against the reference run, which
    /// comes first?
    pub(crate) fn check(&mut self, reference: bool, finish: &Finish) -> anyhow::Result<()> {
        let line = line_of(finish, self.program)?;
        match (&self.fingerprint, line.fingerprint) {
            (Some(expected), Some(found)) if *expected != found => {
                bail!("fingerprint {found}, but one thread gives {expected}")
            }
            (None, found) if reference => self.fingerprint = found,
            _ => {}
        }
        Ok(())
    }
}

/// The line of a copy that ended well and says that its result is right.
pub(crate) fn line_of(finish: &Finish, program: Program) -> anyhow::Result<Line> {
    let status = finish.status.context("killed before it was done")?;
    let said = || format!("{}{}", finish.output, finish.errors).trim().to_owned();
    if !status.success() {
        bail!("{status}; it said: {}", said());
    }
    let line: Line = serde_json::from_str(finish.output.trim())
        .with_context(|| format!("no result line in what it said: {}", said()))?;
    if line.program != program.name() || !line.correct {
        bail!("not a right result of {}: {}", program.name(), said());
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;
    use std::time::Duration;

    fn finish(status: Option<i32>, output: &str) -> Finish {
        Finish {
            index: 0,
            turnaround: Duration::from_secs(1),
            cpu: Duration::from_secs(1),
            voluntary: 0,
            involuntary: 0,
            status: status.map(|code| ExitStatus::from_raw(code << 8)),
            output: output.into(),
            errors: "stack".into(),
            pid: 1,
        }
    }

    fn lu(fingerprint: &str) -> Finish {
        let line = format!(
            "{{\"program\":\"lu\",\"seconds\":1.5,\"size\":9,\"fingerprint\":\"{fingerprint}\",\"correct\":true}}\n"
        );
        finish(Some(0), &line)
    }

    #[test]
    fn every_run_must_find_what_one_thread_found() {
        let mut subject =
            Subject { program: Program::Lu, path: PathBuf::new(), work: 1, fingerprint: None };
        subject.check(true, &lu("a")).unwrap();
        subject.check(false, &lu("a")).unwrap();
        let fault = subject.check(false, &lu("b")).unwrap_err().to_string();
        assert_eq!(fault, "fingerprint b, but one thread gives a");
        assert!(
            subject.check(true, &lu("b")).is_err(),
            "a second reference must agree with the first"
        );
    }

    #[test]
    fn what_is_not_a_right_result_is_refused() {
        assert!(line_of(&finish(None, ""), Program::Cg).is_err());
        let fault = line_of(&finish(Some(1), "bad"), Program::Cg).err().unwrap().to_string();
        assert!(fault.contains("exit status: 1") && fault.contains("badstack"), "{fault}");
        assert!(line_of(&finish(Some(0), "not json"), Program::Cg).is_err());
        let wrong = "{\"program\":\"cg\",\"seconds\":1,\"correct\":false}";
        assert!(line_of(&finish(Some(0), wrong), Program::Cg).is_err());
        assert!(line_of(&lu("a"), Program::Cg).is_err(), "another program's line");
        assert_eq!(line_of(&lu("a"), Program::Lu).unwrap().seconds, 1.5);
    }
}
