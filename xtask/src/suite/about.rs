//! What a measurement ran on: machine, kernel, commit, compiler and its options.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use procfs::{CpuInfo, Current};

use super::kernel;
use super::row::Row;
use super::runtime::Runtime;
use super::tree;
use crate::measure::usable;
use crate::peers::Clang;
use crate::setup::{Workspace, shown};

/// What all rows of a suite share.
pub(crate) struct About {
    pub(crate) processors: usize,
    pub(crate) machine: String,
    pub(crate) kernel: String,
    pub(crate) commit: String,
    /// What compiles the programs in C, by their makefile.
    pub(crate) c: Compiled,
    fortran: Compiled,
    rust: Compiled,
    /// What compiles the C programs that those in Rust are compared with, where that is done.
    clang: Option<Compiled>,
    /// Which libomp the programs in C and Fortran run on, where they do: its version of LLVM.
    libomp: Option<String>,
}

/// A compiler with its version, and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiled {
    pub(crate) compiler: String,
    pub(crate) flags: String,
}

impl About {
    /// Of this machine, of clang where that compiles something, and of LLVM's OpenMP library where
    /// something runs on it.
    pub(crate) fn of(
        workspace: &Workspace,
        clang: Option<&Clang>,
        libomp: Option<&Path>,
    ) -> anyhow::Result<About> {
        let model = CpuInfo::current().ok().and_then(|info| info.model_name(0).map(str::to_owned));
        let usual = kernel::about(workspace, None)?;
        let of_clang = clang.map(|clang| kernel::about(workspace, Some(&clang.program)));
        Ok(About {
            processors: usable()?,
            machine: model.unwrap_or_else(|| "unknown processors".into()),
            kernel: said(Command::new("uname").arg("-r"))?,
            commit: tree::commit(&workspace.root),
            c: Compiled::of("C", &usual)?,
            fortran: Compiled::of("Fortran", &usual)?,
            rust: Compiled {
                compiler: said(Command::new("rustc").arg("--version"))?,
                flags: profile(workspace)?,
            },
            clang: of_clang.transpose()?.map(|said| Compiled::of("C", &said)).transpose()?,
            libomp: libomp.map(llvm_of),
        })
    }
}

impl Compiled {
    /// What the makefile says of a language: `C: gcc 12.2.0 -O3`.
    fn of(language: &str, said: &str) -> anyhow::Result<Compiled> {
        let own = |line: &&str| line.split_once(": ").is_some_and(|(of, _)| of == language);
        let line = said.lines().find(own);
        let line = line.with_context(|| format!("no line `{language}: ` of compilers: {said}"))?;
        let line = line[language.len() + 2..].trim();
        let (compiler, flags) = match line.find(" -") {
            Some(place) => (&line[..place], line[place..].trim_start()),
            None => (line, ""),
        };
        Ok(Compiled { compiler: compiler.into(), flags: flags.into() })
    }
}

impl About {
    /// What compiled a program as it runs on a runtime, on libomp with that one's version; `None`:
    /// not known, since nothing runs on that one.
    fn compiled(&self, program: &str, runtime: Runtime) -> Option<Compiled> {
        let mut compiled = match runtime.is_clang() {
            true => self.clang.clone()?,
            false if is_in_rust(program) => self.rust.clone(),
            false if program.starts_with("fortran/") => self.fortran.clone(),
            false => self.c.clone(),
        };
        if runtime == Runtime::Libomp {
            compiled.compiler =
                format!("{}, libomp of {}", compiled.compiler, self.libomp.as_ref()?);
        }
        Some(compiled)
    }

    /// Compiler and options of a program as it runs on a runtime.
    pub(crate) fn compiled_by(&self, program: &str, runtime: Runtime) -> Compiled {
        let unknown = || Compiled { compiler: String::new(), flags: String::new() };
        self.compiled(program, runtime).unwrap_or_else(unknown)
    }

    /// Fails unless these rows were measured on the same: what is compared must be one measurement.
    pub(crate) fn must_match(&self, rows: &[Row], any_commit: bool) -> anyhow::Result<()> {
        for row in rows {
            let (processors, of_row) = (self.processors.to_string(), row.processors.to_string());
            let compiled = self.compiled(&row.program, row.runtime);
            let compiler = compiled.as_ref().map_or(&row.compiler, |it| &it.compiler);
            let flags = compiled.as_ref().map_or(&row.flags, |it| &it.flags);
            let pairs = [
                ("processors", &processors, &of_row, ""),
                ("machine", &self.machine, &row.machine, ""),
                ("kernel", &self.kernel, &row.kernel, ""),
                ("compiler", compiler, &row.compiler, ""),
                ("options of the compiler", flags, &row.flags, ""),
                ("commit", &self.commit, &row.commit, "`--any-commit` goes on all the same, or "),
            ];
            for (what, ours, theirs, way) in pairs {
                ensure!(
                    ours == theirs || what == "commit" && any_commit,
                    "the record is of another {what}: `{theirs}`, and here it is `{ours}`; \
                     {way}`--record FILE` without `--resume` begins a new one"
                );
            }
        }
        Ok(())
    }
}

/// A row of what the usual compiler compiled; of another one where there is none.
pub(crate) fn usual(rows: &[Row]) -> Option<&Row> {
    let is_usual = |row: &&Row| !row.runtime.is_clang() && !is_in_rust(&row.program);
    rows.iter().find(is_usual).or(rows.first())
}

/// The version of LLVM that a library is of, by its folder: Debian's are those of releases.
fn llvm_of(library: &Path) -> String {
    let folders = library.iter().filter_map(|it| it.to_str());
    let found = folders.rev().find(|it| it.starts_with("llvm-"));
    found.map_or_else(|| library.display().to_string(), str::to_owned)
}

fn is_in_rust(program: &str) -> bool {
    program.starts_with("rust/")
}

/// How programs in Rust are compiled: what the manifest says of a release build, and `RUSTFLAGS`.
fn profile(workspace: &Workspace) -> anyhow::Result<String> {
    let file = workspace.root.join("Cargo.toml");
    let text = std::fs::read_to_string(&file)
        .with_context(|| format!("cannot read {}", file.display()))?;
    let manifest: toml::Table =
        text.parse().with_context(|| format!("{} is no TOML", file.display()))?;
    let release = manifest.get("profile").and_then(|all| all.get("release"));
    let mut words = vec!["--release".to_owned()];
    for (key, value) in release.and_then(|all| all.as_table()).into_iter().flatten() {
        words.push(format!("{key}={}", value.to_string().trim_matches('"')));
    }
    if let Ok(flags) = std::env::var("RUSTFLAGS") {
        words.push(format!("RUSTFLAGS={flags}"));
    }
    Ok(words.join(" "))
}

/// The commits of some rows, each once.
pub(crate) fn commits(rows: &[Row]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for row in rows {
        if !all.contains(&row.commit.as_str()) {
            all.push(&row.commit);
        }
    }
    all.join(" ")
}

/// The compilers of some rows with their options, each once.
pub(crate) fn compilers(rows: &[Row]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for row in rows {
        let shown = format!("{} {}", row.compiler, row.flags);
        if !all.contains(&shown) {
            all.push(shown);
        }
    }
    all
}

/// What a command prints, in one line.
fn said(command: &mut Command) -> anyhow::Result<String> {
    let shown = shown(command);
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    ensure!(output.status.success(), "{shown}: {}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).trim().replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn compilers_are_what_the_makefile_says() {
        let said = "C: gcc (Debian 12.2.0-14) 12.2.0 -O0 -g\nFortran: flang 19.1\n";
        let of = |language| Compiled::of(language, said).map(|it| (it.compiler, it.flags));
        let expected = ("gcc (Debian 12.2.0-14) 12.2.0".to_owned(), "-O0 -g".to_owned());
        assert_eq!(of("C").unwrap(), expected);
        assert_eq!(of("Fortran").unwrap(), ("flang 19.1".to_owned(), String::new()));
        assert!(of("Ada").unwrap_err().to_string().contains("no line `Ada: `"));
    }

    #[test]
    fn rows_of_another_machine_or_commit_are_not_gone_on_with() {
        let good = row("a", Runtime::One, 0, 1.0);
        let of = |compiler: &str, flags: &str| Compiled {
            compiler: compiler.into(),
            flags: flags.into(),
        };
        let about = About {
            processors: good.processors,
            machine: good.machine.clone(),
            kernel: good.kernel.clone(),
            commit: good.commit.clone(),
            c: of(&good.compiler, &good.flags),
            fortran: of("gfortran 12", "-O2"),
            rust: of("rustc 1.9", "--release lto=fat"),
            clang: Some(of("clang 19", &good.flags)),
            libomp: Some(llvm_of(Path::new("/usr/lib/llvm-19/lib/libomp.so.5"))),
        };
        about.must_match(&[], false).unwrap();
        about.must_match(std::slice::from_ref(&good), false).unwrap();
        let fault = |row: Row, any| {
            about.must_match(&[good.clone(), row], any).err().map(|fault| fault.to_string())
        };
        let of_commit = Row { commit: "def".into(), ..good.clone() };
        let said = fault(of_commit.clone(), false).unwrap();
        assert!(said.contains("commit: `def`, and here it is `abc+`"), "{said}");
        assert!(said.contains("--any-commit"), "{said}");
        assert_eq!(fault(of_commit, true), None);
        let of_clang =
            Row { runtime: Runtime::ClangOne, compiler: "clang 19".into(), ..good.clone() };
        assert_eq!(fault(of_clang.clone(), false), None);
        assert!(fault(Row { compiler: "clang 16".into(), ..of_clang }, false).is_some());
        let on_libomp = |version: &str| {
            let compiler = format!("{}, libomp of {version}", good.compiler);
            Row { runtime: Runtime::Libomp, compiler, ..good.clone() }
        };
        assert_eq!(fault(on_libomp("llvm-19"), false), None);
        assert!(fault(on_libomp("llvm-16"), true).is_some(), "another library is another engine");
        let of_rust = Row {
            program: "rust/cg".into(),
            compiler: "rustc 1.9".into(),
            flags: "--release lto=fat".into(),
            ..good.clone()
        };
        assert_eq!(fault(of_rust.clone(), false), None);
        // On clang it is the C program.
        let on_clang =
            Row { runtime: Runtime::ClangOne, compiler: "clang 19".into(), ..good.clone() };
        assert_eq!(fault(Row { program: "rust/cg".into(), ..on_clang }, false), None);
        for other in [
            Row { program: "fortran/cg".into(), ..good.clone() },
            Row { compiler: good.compiler.clone(), ..of_rust.clone() },
            Row { flags: good.flags.clone(), ..of_rust },
            Row { processors: 8, ..good.clone() },
            Row { machine: "x".into(), ..good.clone() },
            Row { kernel: "x".into(), ..good.clone() },
            Row { compiler: "x".into(), ..good.clone() },
            Row { flags: "x".into(), ..good.clone() },
        ] {
            assert!(fault(other, true).is_some_and(|said| !said.contains("--any-commit")));
        }
    }
}
