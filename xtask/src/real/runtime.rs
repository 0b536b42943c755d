//! What a real program runs on: its own OpenMP runtime, or one that is loaded before it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::subject::Subject;
use crate::peers;
use crate::setup::is_steering;

/// One of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Runtime {
    /// The original, default settings.
    Libgomp,
    /// The original; waiting threads sleep.
    Passive,
    /// LLVM's.
    Libomp,
    /// The original with one thread.
    One,
    /// Ours without a manager.
    Nanos,
    /// The same; teams of default size keep it, too.
    Exact,
    /// Ours with one.
    Managed,
    /// A program that is told at its start how many processors a newcomer gets.
    Told,
}

impl Runtime {
    /// In the order of the table.
    pub(super) const COLUMNS: [Runtime; 7] = [
        Runtime::Libgomp,
        Runtime::Passive,
        Runtime::Libomp,
        Runtime::One,
        Runtime::Nanos,
        Runtime::Exact,
        Runtime::Managed,
    ];

    /// In which they take their turns.
    pub(super) const TURNS: [Runtime; 7] = [
        Runtime::One,
        Runtime::Libgomp,
        Runtime::Passive,
        Runtime::Libomp,
        Runtime::Nanos,
        Runtime::Exact,
        Runtime::Managed,
    ];

    /// The table's and the turns of programs on threads that the library does not know. One of them
    /// at a time is there: `Told` counts the programs.
    pub(super) const UNKNOWN: [Runtime; 4] =
        [Runtime::One, Runtime::Libgomp, Runtime::Managed, Runtime::Told];

    pub(super) fn name(self) -> &'static str {
        match self {
            Runtime::Libgomp => "libgomp",
            Runtime::Passive => "passive",
            Runtime::Libomp => "libomp",
            Runtime::One => "one",
            Runtime::Nanos => "nanos",
            Runtime::Exact => "exact",
            Runtime::Managed => "managed",
            Runtime::Told => "told",
        }
    }
}

/// Where the runtimes are.
pub(super) struct Places {
    /// Our library.
    pub(super) drop_in: PathBuf,
    /// LLVM's, where it is.
    pub(super) libomp: Option<PathBuf>,
    /// Where programs find the manager.
    pub(super) socket: PathBuf,
}

impl Places {
    /// What is loaded before the program's own runtime; `None`: nothing, or what `cpumgr run` finds
    /// right.
    pub(super) fn library(&self, runtime: Runtime, subject: &Subject) -> Option<&Path> {
        match runtime {
            _ if subject.is_unknown => None,
            Runtime::Nanos | Runtime::Exact | Runtime::Managed => Some(&self.drop_in),
            Runtime::Libomp => self.libomp.as_deref(),
            _ => None,
        }
    }

    /// The whole environment of a program.
    ///
    /// It has as many variables for every runtime, of other lengths in each turn: what a program's
    /// heap looks like depends on them, and with that whether glibc gives its end back to the
    /// kernel after each use (`eigh`: 10,900 or 23,500 page faults).
    pub(super) fn environment(
        &self,
        runtime: Runtime,
        subject: &Subject,
        turn: u32,
    ) -> BTreeMap<OsString, OsString> {
        let mut all: BTreeMap<OsString, OsString> =
            std::env::vars_os().filter(|(name, _)| !is_steering(name)).collect();
        let mut set = |name: &str, value: OsString| _ = all.insert(name.into(), value);
        // The BLAS of the wheels has threads of its own, which spin, and which OMP_NUM_THREADS
        // would turn off for one runtime.
        set("OPENBLAS_NUM_THREADS", "1".into());
        for (name, value) in &subject.environment {
            set(name, value.clone());
        }
        let mut either = |is_so: bool, name: &str, other: &str, value: OsString| {
            set(if is_so { name } else { other }, value);
        };
        either(runtime == Runtime::One, "OMP_NUM_THREADS", "NOT_NUM_THREADS", "1".into());
        let (name, value) = peers::PASSIVE;
        either(runtime == Runtime::Passive, name, "NOT_WAIT_POLICY", value.into());
        let (name, value) = peers::LIBOMP_SETTINGS[0];
        either(runtime == Runtime::Libomp, name, "NOT_HOT_TEAMS_MAX_LEVEL", value.into());
        // By default such teams follow what the program finds out by itself.
        either(runtime == Runtime::Exact, "NANOS_SIZER", "NOT_SIZER", "manager".into());
        let library = self.library(runtime, subject);
        let preloaded = library.unwrap_or(&self.drop_in).as_os_str().to_owned();
        either(library.is_some(), "LD_PRELOAD", "NO_PRELOAD", preloaded);
        let is_managed = matches!(runtime, Runtime::Managed | Runtime::Told);
        let manager = if is_managed { self.socket.clone().into() } else { "off".into() };
        set("NANOS_CPUMGR", manager);
        set("TURN", "x".repeat(1 + 16 * turn as usize).into());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_runtime_has_as_many_variables_and_each_its_own() {
        let places = Places {
            drop_in: "/shim/libgomp.so.1".into(),
            libomp: Some("/llvm/libomp.so.5".into()),
            socket: "/s".into(),
        };
        let subject = Subject {
            name: "eigh",
            command: vec!["x".into()],
            environment: vec![("OPENBLAS_NUM_THREADS", OsString::new())],
            is_timed_outside: false,
            is_run: false,
            is_stranger: false,
            is_unknown: false,
        };
        let of = |runtime, turn| places.environment(runtime, &subject, turn);
        let has = |runtime, name: &str| of(runtime, 0).get(&OsString::from(name)).cloned();
        let counts = Runtime::COLUMNS.map(|runtime| of(runtime, 0).len());
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        assert_eq!(has(Runtime::One, "OMP_NUM_THREADS"), Some("1".into()));
        assert_eq!(has(Runtime::Managed, "OMP_NUM_THREADS"), None);
        assert_eq!(has(Runtime::Libgomp, "LD_PRELOAD"), None);
        assert_eq!(has(Runtime::Libomp, "LD_PRELOAD"), Some("/llvm/libomp.so.5".into()));
        assert_eq!(has(Runtime::Managed, "LD_PRELOAD"), Some("/shim/libgomp.so.1".into()));
        assert_eq!(has(Runtime::Managed, "NANOS_CPUMGR"), Some("/s".into()));
        assert_eq!(has(Runtime::Nanos, "NANOS_CPUMGR"), Some("off".into()));
        assert_eq!(has(Runtime::Nanos, "NANOS_SIZER"), None);
        assert_eq!(has(Runtime::Exact, "NANOS_CPUMGR"), Some("off".into()));
        assert_eq!(has(Runtime::Exact, "NANOS_SIZER"), Some("manager".into()));
        assert_eq!(has(Runtime::Exact, "LD_PRELOAD"), Some("/shim/libgomp.so.1".into()));
        assert_eq!(has(Runtime::Nanos, "OPENBLAS_NUM_THREADS"), Some(OsString::new()));
        let length = |turn| of(Runtime::One, turn)[&OsString::from("TURN")].len();
        assert_eq!(length(2) - length(1), 16);
        let unknown = Subject { is_unknown: true, ..subject };
        let told = places.environment(Runtime::Told, &unknown, 0);
        assert_eq!(told[&OsString::from("NANOS_CPUMGR")], "/s");
        assert!(!told.contains_key(&OsString::from("LD_PRELOAD")), "cpumgr run knows better");
    }
}
