//! Which processors are managed, and their topology.

use arena::grant::MAX_CPUS;
use arena::message::Narrow;
use platform::SysError;
use platform::affinity::{self, CpuId, CpuSet};
use platform::cgroup::{CgroupError, Limits, usable_processors};
use platform::topology::{Topology, TopologyError};
use policies::{Distances, Machine, MachineCpu, Speeds};

use crate::escape::escape;

/// Why there is nothing to manage.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The manager's own mask cannot be read.
    #[error("which processors may be used: {0}")]
    Affinity(#[from] SysError),
    /// The cgroup's limits cannot be read.
    #[error("which processors may be used: {0}")]
    Cgroup(#[from] CgroupError),
    /// The machine's topology cannot be read.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// `--cpus` names processors that this process may not use.
    #[error(
        "--cpus {asked}: processors {missing} are offline or not allowed here; this process may \
         use {allowed}"
    )]
    NotAllowed {
        /// What was asked.
        asked: CpuSet,
        /// The part of it that is not available.
        missing: CpuSet,
        /// What is.
        allowed: CpuSet,
    },
    /// Nothing is left.
    #[error("no processor to manage: --cpus is empty")]
    Empty,
    /// Beyond what the arena can name.
    #[error(
        "processor {0} cannot be managed: the shared areas name processors below {MAX_CPUS}; leave \
         it out with --cpus"
    )]
    TooLarge(u32),
}

/// Characters of what keeps a manager small.
const MAX_CAUSE: usize = 300;

/// What keeps a manager that `starter` had started from the rest of the machine, now that it has
/// let go of the starter's mask; `None`: it manages all, or the cause is not known.
pub fn narrowed(managed: &CpuSet, starter: Option<i32>) -> Option<Narrow> {
    let online = Topology::read().ok()?.online();
    let limits = Limits::read().ok()?;
    let group =
        |controller: &str| group(controller).map_or_else(String::new, |path| format!(" {path}"));
    if managed.len() >= online.len() {
        return None;
    }
    let within = affinity::affinity(None).ok()?.intersection(&online);
    let cause = match limits.quota {
        Some(quota) if quota < within.len() as f64 => {
            format!("a quota of {quota} processors of control group{}", group("cpu"))
        }
        _ => format!("cpuset{}", group("cpuset")),
    };
    let by = starter.map_or_else(String::new, |pid| format!(" by process {pid}"));
    // Paths of control groups have no bound that a packet would hold.
    let why = format!("started inside {}{by}", cause.chars().take(MAX_CAUSE).collect::<String>());
    let count = u32::try_from(managed.len()).unwrap_or(u32::MAX);
    Some(Narrow { processors: managed.to_string(), count, of: online.to_string(), why })
}

/// The control group of this process that a controller goes by, escaped.
fn group(controller: &str) -> Option<String> {
    let groups = procfs::process::Process::myself().ok()?.cgroups().ok()?;
    let own = groups.into_iter().find(|it| it.controllers.iter().any(|name| name == controller));
    let unified = || {
        let groups = procfs::process::Process::myself().ok()?.cgroups().ok()?;
        groups.into_iter().find(|it| it.hierarchy == 0)
    };
    own.or_else(unified).map(|it| escape(it.pathname.as_bytes()))
}

/// How many processors a manager would have that a process here starts.
pub fn to_be_had() -> Option<usize> {
    // On a thread of its own: what the kernel makes of a wide mask says more than control groups
    // that cannot be seen.
    let wide = || {
        widen();
        affinity::affinity(None).ok()
    };
    let mask = std::thread::spawn(wide).join().ok()??;
    Some(usable_processors(
        &mask.intersection(&Topology::read().ok()?.online()),
        &Limits::read().ok()?,
    ))
}

/// Lets the calling thread run on all processors that its cpuset has, whatever its starter's mask
/// was. Call it from the only thread.
pub fn widen() {
    // The kernel takes what exists and what the cpuset allows.
    if let Err(error) = affinity::set_affinity(None, &CpuSet::first_n(CpuSet::LIMIT)) {
        // Fewer processors than there are is no reason not to serve.
        tracing::warn!(%error, "the starter's processors are all that is managed");
    }
}

/// The managed processors: those named, otherwise all that this process may use, as many as its
/// cgroup's quota covers.
///
/// # Errors
/// When the system cannot be asked, or a named processor is not available.
pub fn managed(named: Option<&CpuSet>) -> Result<(Machine, CpuSet), MachineError> {
    let mask = affinity::affinity(None)?;
    let topology = Topology::read()?;
    let limits = Limits::read()?;
    let allowed = mask.intersection(&topology.online());
    let cpus = choose(named, &allowed, &limits)?;
    let place = |id: CpuId| {
        topology.get(id).map(|cpu| MachineCpu {
            id: id.0,
            core: cpu.core,
            llc: cpu.llc,
            node: cpu.node,
        })
    };
    Ok((
        Machine {
            cpus: cpus.iter().filter_map(place).collect(),
            distances: distances(&topology),
            speeds: speeds(&topology),
        },
        cpus,
    ))
}

/// What the firmware says of distances between nodes.
fn distances(topology: &Topology) -> Distances {
    let mut distances = Distances::default();
    for (from, to, distance) in topology.distances() {
        distances.set(from, to, distance);
    }
    distances
}

/// Which processors are slower than the fastest ones.
fn speeds(topology: &Topology) -> Speeds {
    let mut speeds = Speeds::default();
    topology.cpus().iter().for_each(|cpu| speeds.set(cpu.id.0, cpu.speed));
    speeds
}

fn choose(
    named: Option<&CpuSet>,
    allowed: &CpuSet,
    limits: &Limits,
) -> Result<CpuSet, MachineError> {
    let cpus: CpuSet = match named {
        Some(asked) => {
            let missing = asked.difference(allowed);
            if !missing.is_empty() {
                return Err(MachineError::NotAllowed {
                    asked: asked.clone(),
                    missing,
                    allowed: allowed.clone(),
                });
            }
            asked.clone()
        }
        None => {
            let usable = usable_processors(allowed, limits);
            let within = match &limits.cpuset {
                Some(cpuset) => allowed.intersection(cpuset),
                None => allowed.clone(),
            };
            let within = if within.is_empty() { allowed.clone() } else { within };
            within.iter().take(usable).collect()
        }
    };
    if cpus.is_empty() {
        return Err(MachineError::Empty);
    }
    match cpus.iter().find(|cpu| cpu.0 >= MAX_CPUS) {
        Some(cpu) => Err(MachineError::TooLarge(cpu.0)),
        None => Ok(cpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(list: &str) -> CpuSet {
        CpuSet::parse_list(list).unwrap()
    }

    #[test]
    fn a_quota_leaves_whole_processors_only() {
        let limits = Limits { quota: Some(2.7), cpuset: None };
        assert_eq!(choose(None, &set("0-7"), &limits).unwrap(), set("0-1"));
        let limits = Limits { quota: None, cpuset: Some(set("4-5")) };
        assert_eq!(choose(None, &set("0-7"), &limits).unwrap(), set("4-5"));
    }

    #[test]
    fn named_processors_must_be_there() {
        let limits = Limits { quota: None, cpuset: None };
        assert_eq!(choose(Some(&set("1,3")), &set("0-3"), &limits).unwrap(), set("1,3"));
        let error = choose(Some(&set("3-4")), &set("0-3"), &limits).unwrap_err().to_string();
        assert_eq!(
            error,
            "--cpus 3-4: processors 4 are offline or not allowed here; this process may use 0-3"
        );
        assert!(matches!(
            choose(Some(&set("2000")), &set("2000"), &limits),
            Err(MachineError::TooLarge(2000))
        ));
    }

    #[test]
    fn this_machine_can_be_managed() {
        let (machine, cpus) = managed(None).unwrap();
        assert_eq!(machine.cpus.len(), cpus.len());
        assert!(!cpus.is_empty());
    }
}
