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
/// `status`.
pub(super) fn begin() -> Vec<String> {
    machine::widen();
    umask(Mode::from_bits_truncate(0o077));
    let mut kept = Vec::new();
    if standing::use_usual_policy().is_err() && !standing::has_usual_policy().unwrap_or(true) {
        kept.push("a scheduling policy that is not the usual one".into());
    }
    // Less than that its starter cannot have asked for by accident.
    if let Ok(nice @ 1..) = standing::niceness()
        && standing::set_niceness(0).is_err()
    {
        kept.push(format!("niceness {nice}"));
    }
    for (resource, what) in LIMITS {
        if let Some(limit) = widen_limit(resource).filter(|limit| is_named(resource, *limit)) {
            kept.push(format!("a limit of {limit} {what}"));
        }
    }
    if let Ok(own) = Process::myself()
        && let Ok(score @ 1..) = own.oom_score_adj()
        && own.set_oom_score_adj(0).is_err()
    {
        kept.push(format!("oom_score_adj {score}"));
    }
    if !kept.is_empty() {
        tracing::warn!(
            ?kept,
            "this is what its starter had, and cannot be changed: start a manager elsewhere (`cpumgr daemon`)"
        );
    }
    kept
}

/// Whether what is left of a limit is worth a word.
fn is_named(resource: Resource, limit: u64) -> bool {
    DEADLY.contains(&resource) || (resource == Resource::RLIMIT_NPROC && limit < FEW_PROCESSES)
}

/// As wide as this user may make it; returns what is left of a limit.
fn widen_limit(resource: Resource) -> Option<u64> {
    let (soft, hard) = getrlimit(resource).ok()?;
    // Only the superuser makes the hard one wider.
    if hard != RLIM_INFINITY && setrlimit(resource, RLIM_INFINITY, RLIM_INFINITY).is_ok() {
        return None;
    }
    if soft != hard {
        // As it was, then.
        let _widened: nix::Result<()> = setrlimit(resource, hard, hard);
    }
    getrlimit(resource).ok().map(|(soft, _)| soft).filter(|soft| *soft != RLIM_INFINITY)
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
