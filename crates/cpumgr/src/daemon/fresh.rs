//! Letting go of what a manager inherited of the program that had it started on the way: it serves
//! all programs afterwards.
//!
//! Affinity, scheduling policy, niceness, limits, the order in which the kernel kills when memory
//! is short, and the mode of new files are made what they usually are, as far as this user may; the
//! directory is `/` and the environment is cleaned already ([`background`](super::background)). A
//! control group (cpuset, quota) cannot be left from inside: `machine::narrowed` says so.

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use platform::standing;
use procfs::process::Process;

use super::few_descriptors;
use crate::machine;

/// Limits by which work ends or fails, with words for people. Those of descriptors are the daemon's
/// to raise; that of the stack says how large the stacks of threads are, and that of core dumps
/// hurts no program.
const LIMITS: [(Resource, &str); 9] = [
    (Resource::RLIMIT_CPU, "seconds of processor time"),
    (Resource::RLIMIT_FSIZE, "bytes a file"),
    (Resource::RLIMIT_DATA, "bytes of data"),
    (Resource::RLIMIT_AS, "bytes of address space"),
    (Resource::RLIMIT_RSS, "bytes of memory"),
    (Resource::RLIMIT_MEMLOCK, "bytes of locked memory"),
    (Resource::RLIMIT_NPROC, "processes and threads"),
    (Resource::RLIMIT_SIGPENDING, "signals"),
    (Resource::RLIMIT_MSGQUEUE, "bytes in queues"),
];
/// Those that can end a manager. The others only when they are small, which none usually is.
const DEADLY: [Resource; 4] =
    [Resource::RLIMIT_CPU, Resource::RLIMIT_FSIZE, Resource::RLIMIT_DATA, Resource::RLIMIT_AS];

/// A user has a limit of processes most often; one below this was set on purpose, and may keep a
/// manager from its threads.
const FEW_PROCESSES: u64 = 1024;

/// Lets go of it. To be called from the only thread. Returns what could not be let go of, for
/// `status` and for those that come.
pub(super) fn begin() -> Vec<String> {
    machine::widen();
    umask(Mode::from_bits_truncate(0o077));
    // What is refused is found below. A niceness below 0 its starter cannot have by accident.
    let _usual = standing::use_usual_policy();
    if matches!(standing::niceness(), Ok(1..)) {
        let _usual = standing::set_niceness(0);
    }
    for (resource, _) in LIMITS {
        widen_limit(resource);
    }
    if let Ok(own) = Process::myself()
        && matches!(own.oom_score_adj(), Ok(1..))
    {
        let _usual = own.set_oom_score_adj(0);
    }
    let kept = left(|(soft, _)| soft);
    if !kept.is_empty() {
        tracing::warn!(
            ?kept,
            "this is what its starter had, and cannot be changed: start a manager elsewhere \
             (`cpumgr daemon`)"
        );
    }
    kept
}

/// What a manager that is started from here could not let go of, if its user is not the superuser.
pub(crate) fn would_keep() -> Vec<String> {
    let mut left = left(|(_, hard)| hard);
    let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(RLIM_INFINITY, |(_, hard)| hard);
    left.extend(few_descriptors(descriptors));
    left
}

/// A phrase for each thing that this process has and none usually has; `in_force` says which of the
/// two parts of a limit counts.
fn left(in_force: impl Fn((u64, u64)) -> u64) -> Vec<String> {
    let mut left = Vec::new();
    if !standing::has_usual_policy().unwrap_or(true) {
        left.push("a scheduling policy that is not the usual one".into());
    }
    if let Ok(nice @ 1..) = standing::niceness() {
        left.push(format!("niceness {nice}"));
    }
    for (resource, what) in LIMITS {
        let limit = getrlimit(resource).map_or(RLIM_INFINITY, &in_force);
        if limit != RLIM_INFINITY && is_named(resource, limit) {
            left.push(format!("a limit of {limit} {what}"));
        }
    }
    if let Ok(own) = Process::myself()
        && let Ok(score @ 1..) = own.oom_score_adj()
    {
        left.push(format!("oom_score_adj {score}"));
    }
    left
}

/// Whether what is left of a limit is worth a word.
fn is_named(resource: Resource, limit: u64) -> bool {
    DEADLY.contains(&resource) || (resource == Resource::RLIMIT_NPROC && limit < FEW_PROCESSES)
}

/// As wide as this user may make it.
fn widen_limit(resource: Resource) {
    let Ok((soft, hard)) = getrlimit(resource) else { return };
    // Only the superuser makes the hard one wider.
    if hard != RLIM_INFINITY && setrlimit(resource, RLIM_INFINITY, RLIM_INFINITY).is_ok() {
        return;
    }
    if soft != hard {
        // As it was, then.
        let _widened: nix::Result<()> = setrlimit(resource, hard, hard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processes_are_worth_a_word_and_the_usual_number_is_not() {
        assert!(is_named(Resource::RLIMIT_NPROC, 100) && !is_named(Resource::RLIMIT_NPROC, 63_000));
        assert!(is_named(Resource::RLIMIT_CPU, 63_000) && !is_named(Resource::RLIMIT_MEMLOCK, 1));
    }
}
