//! Reports on the manager and its programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Programs in one [`FromManager::Programs`](super::FromManager::Programs) packet: each is at most
/// some 3,700 bytes, whatever its name.
pub const PROGRAMS_PER_PACKET: usize = 8;

/// The head of a status report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The manager's process.
    pub manager_pid: i32,
    /// How long it has run.
    pub uptime_ns: u64,
    /// The policy in force.
    pub policy: String,
    /// Which policy was to be in force, in which call it panicked and what it said, escaped; the
    /// one in force took its place.
    #[serde(default)]
    pub policy_failure: Option<String>,
    /// The parameters of the policy, as people write them.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// The quantum in force.
    pub quantum_ns: u64,
    /// The time between asking for a processor and squeezing.
    #[serde(default)]
    pub grace_ns: u64,
    /// The processors that it manages, as a kernel list.
    pub processors: String,
    /// Their number.
    pub processor_count: u32,
    /// Those that are left to others than programs, as a kernel list; most often none.
    #[serde(default)]
    pub left: String,
    /// Those that were drained, as a kernel list; a program that can run nowhere else may still be
    /// there.
    #[serde(default)]
    pub drained: String,
    /// Programs that could use more than they have.
    #[serde(default)]
    pub waiting: u32,
    /// How many programs the packets that follow name.
    pub program_count: u32,
    /// Processes that were announced and live, but do not speak the protocol (yet) and are not
    /// attached.
    #[serde(default)]
    pub silent: Vec<i32>,
    /// The control group below which programs that do not obey are fenced in, escaped; `None`: none
    /// is.
    #[serde(default)]
    pub fences: Option<String>,
    /// The file into which a trace is written, escaped; `None`: none is.
    #[serde(default)]
    pub trace: Option<String>,
    /// Why the trace that was asked for last is not written, and where one can be; `None`: it is,
    /// or none was asked for.
    #[serde(default)]
    pub trace_fault: Option<String>,
    /// Programs that may run at once; `None`: any number.
    #[serde(default)]
    pub level: Option<u32>,
    /// Its starter left it fewer processors than the machine has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrow: Option<Narrow>,
    /// What else it kept of its starter and could not let go of, a phrase each.
    #[serde(default)]
    pub kept: Vec<String>,
    /// Why processes of `silent` are not managed, where the manager knows, escaped. (Pairs: in a
    /// tagged message a map has texts for keys.)
    #[serde(default)]
    pub reasons: Vec<(i32, String)>,
    /// What the next manager will not know if this one is killed, and why, a phrase each, escaped.
    #[serde(default)]
    pub unkept: Vec<String>,
}

/// A manager that its starter left fewer processors than the machine has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrow {
    /// The processors that it manages, as a kernel list.
    pub processors: String,
    /// Their number.
    pub count: u32,
    /// Those that the machine has, as a kernel list.
    pub of: String,
    /// What holds it there, and whose that is, escaped: "started inside ...".
    pub why: String,
}

/// A part of a status report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Programs {
    /// Programs in order of arrival.
    pub programs: Vec<ProgramStatus>,
}

/// One program of a status report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Its process.
    pub pid: i32,
    /// The name that the kernel has for it, with control characters escaped.
    pub name: String,
    /// The library that speaks for it, escaped.
    pub library: String,
    /// Processors that it wants now.
    pub request: u32,
    /// The most that it can use here.
    pub max: u32,
    /// Processors that it was granted.
    pub granted: u32,
    /// Which, as a kernel list.
    pub cpus: String,
    /// The processors on which it stays whatever it is given, where it cannot use all that are
    /// managed, as a kernel list.
    #[serde(default)]
    pub within: Option<String>,
    /// Its processor is used by several programs in turn.
    pub shared: bool,
    /// No other program wants processors.
    pub dedicated: bool,
    /// Its teams have a fixed size.
    pub fixed_team: bool,
    /// It does not speak the protocol: all its threads are bound to its processors.
    #[serde(default)]
    pub attached: bool,
    /// Virtual processors that it published.
    pub vps: u32,
    /// Processors that were taken from it and that it may still use.
    #[serde(default)]
    pub asked: u32,
    /// Virtual processors that are squeezed.
    #[serde(default)]
    pub preempted: u32,
    /// How often one was squeezed.
    #[serde(default)]
    pub squeezes: u64,
    /// The group below [`Status::fences`] in which it is fenced; its processors are what it was
    /// granted.
    #[serde(default)]
    pub fence: Option<String>,
    /// The speedup that it reported last, smoothed, and on how many processors.
    #[serde(default)]
    pub speedup: Option<(f64, u32)>,
    /// The site's class that it is in.
    #[serde(default)]
    pub class: Option<String>,
    /// Processors that it is to have before others have more than theirs, as a user said.
    #[serde(default)]
    pub min: Option<u32>,
    /// The most that it is given, as a user said.
    #[serde(default)]
    pub bound: Option<u32>,
    /// Its share relative to others.
    #[serde(default = "usual_weight")]
    pub weight: f64,
    /// How long it has been registered.
    pub age_ns: u64,
}

fn usual_weight() -> f64 {
    1.0
}
