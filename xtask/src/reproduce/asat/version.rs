//! The sizes of the loop, and how the program runs.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// The size of the parallel loop, as the paper names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
pub(super) enum Grain {
    #[value(name = "10k")]
    #[serde(rename = "10k")]
    S,
    #[value(name = "100k")]
    #[serde(rename = "100k")]
    W,
    #[value(name = "1m")]
    #[serde(rename = "1m")]
    A,
    #[value(name = "4m")]
    #[serde(rename = "4m")]
    B,
}

impl Grain {
    /// Elements as published, of 24 bytes.
    pub(super) fn published(self) -> u64 {
        match self {
            Grain::S => 10_000,
            Grain::W => 100_000,
            Grain::A => 1_000_000,
            Grain::B => 4_000_000,
        }
    }

    /// Of the program's command line.
    pub(super) fn class(self) -> &'static str {
        match self {
            Grain::S => "S",
            Grain::W => "W",
            Grain::A => "A",
            Grain::B => "B",
        }
    }
}

impl fmt::Display for Grain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Grain::S => "10K",
            Grain::W => "100K",
            Grain::A => "1M",
            Grain::B => "4M",
        })
    }
}

/// How the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Version {
    /// One thread (the paper's SINGLE).
    Single,
    /// A thread for each processor, always (the paper's FTS), on the drop-in library.
    Fts,
    /// The published algorithm, whose counts stay after a change.
    Paper,
    /// The same with counts that begin anew.
    Reset,
    /// What `asat` does by default: passive evidence, many short intervals.
    Asat,
    /// The same, which drops one thread at a time.
    NoSeveral,
    /// The same, whose bad tests last as long as good ones.
    NoEarly,
    /// The same, whose intervals are all equal.
    NoJitter,
    /// The drop-in library whose teams keep their size, and whose waits follow what it sees.
    Rules,
    /// The drop-in library under a manager.
    Managed,
    /// gcc's libgomp: FTS whose threads spin.
    Libgomp,
    /// gcc's libgomp with `OMP_DYNAMIC=true`: teams by the load average.
    Dynamic,
}

impl Version {
    /// As in records.
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::Single => "SINGLE",
            Version::Fts => "FTS",
            Version::Paper => "ASAT paper",
            Version::Reset => "ASAT reset",
            Version::Asat => "ASAT",
            Version::NoSeveral => "ASAT no-several",
            Version::NoEarly => "ASAT no-early",
            Version::NoJitter => "ASAT no-jitter",
            Version::Rules => "rules",
            Version::Managed => "managed",
            Version::Libgomp => "libgomp",
            Version::Dynamic => "libgomp dynamic",
        }
    }

    /// The variables that make it, and whether the drop-in library is loaded.
    pub(super) fn settings(self, interval: f64) -> (Vec<(&'static str, String)>, bool) {
        let asat = |variant: &str| {
            vec![
                ("NANOS_SIZER", "asat".to_owned()),
                ("ASAT_VARIANT", variant.to_owned()),
                ("NANOS_CPUMGR", "off".to_owned()),
            ]
        };
        let published = |variant: &str| {
            let mut all = asat(variant);
            all.push(("ASAT_EVAL_TIME", format!("{interval}")));
            all
        };
        let without = |option: &str| {
            let mut all = asat("default");
            all.push(("ASAT_OPTIONS", format!("no-{option}")));
            all
        };
        let alone =
            |name, value: &str| vec![(name, value.to_owned()), ("NANOS_CPUMGR", "off".to_owned())];
        match self {
            Version::Single => (alone("OMP_NUM_THREADS", "1"), true),
            Version::Fts => (alone("NANOS_SIZER", "fixed"), true),
            Version::Paper => (published("paper"), true),
            Version::Reset => (published("reset"), true),
            Version::Asat => (asat("default"), true),
            Version::NoSeveral => (without("several"), true),
            Version::NoEarly => (without("early"), true),
            Version::NoJitter => (without("jitter"), true),
            Version::Rules => (alone("NANOS_SIZER", "manager"), true),
            Version::Managed | Version::Libgomp => (Vec::new(), false),
            Version::Dynamic => (vec![("OMP_DYNAMIC", "true".to_owned())], false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_records_are_those_of_the_command_line() {
        for version in Version::value_variants() {
            let value = version.to_possible_value().expect("none is hidden");
            assert_eq!(serde_json::to_value(version).unwrap(), value.get_name());
        }
    }

    #[test]
    fn versions_differ_by_what_they_set() {
        let of = |version: Version| version.settings(0.1).0;
        assert!(of(Version::Paper).contains(&("ASAT_EVAL_TIME", "0.1".to_owned())));
        assert!(!of(Version::Asat).iter().any(|(name, _)| *name == "ASAT_EVAL_TIME"));
        assert!(of(Version::NoEarly).contains(&("ASAT_OPTIONS", "no-early".to_owned())));
        let all: Vec<Version> = Version::value_variants().to_vec();
        let all: Vec<Version> = all.into_iter().filter(|one| !of(*one).is_empty()).collect();
        assert_eq!(all.len(), Version::value_variants().len() - 2, "managed and libgomp");
        for (index, one) in all.iter().enumerate() {
            for other in &all[index + 1..] {
                assert_ne!(of(*one), of(*other));
            }
        }
    }
}
