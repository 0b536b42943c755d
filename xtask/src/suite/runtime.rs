//! What a program of the suite runs on: a libgomp.so.1 and its settings.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::measure::Manager;
use crate::peers;
use crate::setup::clean_environment;

/// One of the columns.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    /// One thread, in OpenMP programs libgomp's: with the best run alone, what the ideal is made
    /// of.
    One,
    /// The drop-in library under a manager.
    Managed,
    /// The drop-in library without a manager.
    Alone,
    /// gcc's libgomp by its defaults.
    Libgomp,
    /// gcc's libgomp whose waiting threads sleep.
    Passive,
    /// LLVM's libomp under libgomp's name, with hot nested teams.
    Libomp,
    /// rayon, on which the Rust programs run as well.
    Rayon,
    /// In place of a Rust program clang's build of the C one, on LLVM's libomp.
    Clang,
    /// The same with one thread.
    #[serde(rename = "clang-one")]
    ClangOne,
}

impl Runtime {
    /// In the order of tables.
    pub(crate) const ALL: [Runtime; 9] = [
        Runtime::One,
        Runtime::Managed,
        Runtime::Alone,
        Runtime::Libgomp,
        Runtime::Passive,
        Runtime::Libomp,
        Runtime::Rayon,
        Runtime::Clang,
        Runtime::ClangOne,
    ];

    /// As on the command line and in records.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Runtime::One => "one",
            Runtime::Managed => "managed",
            Runtime::Alone => "alone",
            Runtime::Libgomp => "libgomp",
            Runtime::Passive => "passive",
            Runtime::Libomp => "libomp",
            Runtime::Rayon => "rayon",
            Runtime::Clang => "clang",
            Runtime::ClangOne => "clang-one",
        }
    }

    /// What is judged.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Runtime::Managed | Runtime::Alone)
    }

    /// A runtime of others, which may collapse and is then ended early.
    pub(crate) fn is_peer(self) -> bool {
        self.is_openmp() || self == Runtime::Rayon
    }

    /// An OpenMP library of others.
    fn is_openmp(self) -> bool {
        matches!(self, Runtime::Libgomp | Runtime::Passive | Runtime::Libomp)
    }

    /// Clang's build of another program.
    pub(crate) fn is_clang(self) -> bool {
        matches!(self, Runtime::Clang | Runtime::ClangOne)
    }

    /// Each copy has one thread.
    pub(crate) fn has_one_thread(self) -> bool {
        matches!(self, Runtime::One | Runtime::ClangOne)
    }

    /// Whether a program can run on it: the Rust programs on nanothreads, which is in them, and on
    /// rayon, and clang's build of the C ones beside them; the others on OpenMP.
    pub(crate) fn runs(self, program: &str) -> bool {
        match program.starts_with("rust/") {
            true => !self.is_openmp(),
            false => self != Runtime::Rayon && !self.is_clang(),
        }
    }
}

/// The C program that does the same work as one in Rust.
pub(crate) fn twin(program: &str) -> Option<String> {
    program.strip_prefix("rust/").map(|name| format!("c/{name}"))
}

/// Where the runtimes are.
pub(crate) struct Places {
    /// The folder of the drop-in library; empty where it is not run.
    pub(crate) drop_in: PathBuf,
    /// The folder in which libgomp.so.1 is LLVM's library; empty where it is not run.
    pub(crate) libomp: PathBuf,
    /// Where something runs under one.
    pub(crate) manager: Option<Manager>,
    /// The folder of the libomp.so.5 that clang's programs run on; empty where none does.
    pub(crate) of_clang: PathBuf,
}

/// The OpenMP library that a program has to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpenMp<'a> {
    /// Under this name in this folder.
    Of(&'static str, &'a Path),
    /// The one of gcc, wherever that is.
    Gcc,
}

impl Places {
    /// What a runtime stands for; `None` where that is seen otherwise (the manager knows its
    /// programs) or where there is no OpenMP.
    pub(super) fn openmp(&self, runtime: Runtime) -> Option<OpenMp<'_>> {
        match runtime {
            Runtime::One | Runtime::Libgomp | Runtime::Passive => Some(OpenMp::Gcc),
            Runtime::Alone => Some(OpenMp::Of(peers::LIBGOMP, &self.drop_in)),
            Runtime::Libomp => Some(OpenMp::Of(peers::LIBGOMP, &self.libomp)),
            Runtime::Clang | Runtime::ClangOne => Some(OpenMp::Of(peers::LIBOMP, &self.of_clang)),
            Runtime::Managed | Runtime::Rayon => None,
        }
    }

    /// The command that runs a program on a runtime.
    pub(crate) fn command(&self, runtime: Runtime, program: &Path) -> anyhow::Result<Command> {
        let mut command = match runtime {
            Runtime::Managed => {
                self.manager.as_ref().context("no manager runs for this suite")?.run(program)
            }
            _ => Command::new(program),
        };
        clean_environment(&mut command);
        match runtime {
            // Programs in Rust would ask a manager of the machine.
            Runtime::One => _ = command.env("OMP_NUM_THREADS", "1").env("NANOS_CPUMGR", "off"),
            Runtime::Clang | Runtime::ClangOne => {
                command.env("LD_LIBRARY_PATH", &self.of_clang).envs(peers::LIBOMP_SETTINGS);
                if runtime.has_one_thread() {
                    command.env("OMP_NUM_THREADS", "1");
                }
            }
            Runtime::Passive => _ = command.env(peers::PASSIVE.0, peers::PASSIVE.1),
            Runtime::Libomp => {
                command.env("LD_LIBRARY_PATH", &self.libomp).envs(peers::LIBOMP_SETTINGS);
            }
            Runtime::Alone => {
                command.env("NANOS_CPUMGR", "off");
                // Programs in Rust have the library in them.
                if !self.drop_in.as_os_str().is_empty() {
                    command.env("LD_LIBRARY_PATH", &self.drop_in);
                }
            }
            Runtime::Rayon => {
                command.args(["--runtime", "rayon"]).env("NANOS_CPUMGR", "off");
            }
            Runtime::Managed | Runtime::Libgomp => {}
        }
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> Places {
        Places {
            drop_in: "/shim".into(),
            libomp: "/llvm".into(),
            manager: None,
            of_clang: "/clang".into(),
        }
    }

    #[test]
    fn nothing_but_what_is_managed_asks_a_manager() {
        let variable = |runtime, name: &str| {
            let command = places().command(runtime, Path::new("/x")).unwrap();
            let found = command.get_envs().find(|(own, _)| *own == name);
            found.and_then(|(_, value)| value.map(|it| it.to_string_lossy().into_owned()))
        };
        for runtime in [Runtime::One, Runtime::Rayon, Runtime::Alone] {
            assert_eq!(variable(runtime, "NANOS_CPUMGR").as_deref(), Some("off"), "{runtime:?}");
        }
        assert_eq!(variable(Runtime::One, "OMP_NUM_THREADS").as_deref(), Some("1"));
        assert_eq!(variable(Runtime::Libomp, "LD_LIBRARY_PATH").as_deref(), Some("/llvm"));
    }

    #[test]
    fn every_column_of_openmp_says_whose_library_it_is() {
        let places = places();
        for runtime in Runtime::ALL {
            let has_check = places.openmp(runtime).is_some();
            let is_known = matches!(runtime, Runtime::Managed | Runtime::Rayon);
            assert_eq!(has_check, !is_known, "{runtime:?}");
        }
        for runtime in [Runtime::One, Runtime::Libgomp, Runtime::Passive] {
            assert_eq!(places.openmp(runtime), Some(OpenMp::Gcc));
        }
    }
}
