//! Explicit places keep the program in.
//!
//! [`Fence::put_up`] narrows the initial thread's mask to the processors that they name before the
//! engine looks at it, so that the engine binds within, and says so when it registers: a manager
//! grants processors inside only, as long as it manages some of them (D14). Where in the fence a
//! thread runs, the engine and the manager decide.

use super::environment::Environment;
use super::places::{PlacesSpec, Unit, cpu_affinity};
use crate::process::message;
use platform::affinity::{self, CpuSet, Tid};
use platform::cgroup::{Limits, usable_processors};
use platform::topology::Topology;

/// What explicit places keep the program in.
#[derive(Debug)]
pub(crate) struct Fence {
    /// The places.
    pub(crate) places: Vec<CpuSet>,
    /// Processors that the program had before, quota counted: what `omp_get_num_procs` answers
    /// (D4).
    pub(crate) processors: usize,
}

impl Fence {
    /// Keeps the program in its explicit places, if it has some. Places that are all elsewhere are
    /// as good as not given: they go out of `environment`.
    pub(crate) fn put_up(environment: &mut Environment) -> Option<Self> {
        let is_explicit = match (&environment.places, &environment.cpu_affinity) {
            (Some(places), _) => matches!(PlacesSpec::parse(places), Some(PlacesSpec::Explicit(_))),
            (None, cpus) => cpus.is_some(),
        };
        if !is_explicit || !environment.binds() {
            return None;
        }
        let before = affinity::affinity(None).ok()?;
        let places = make(environment);
        let inside = places.iter().flat_map(CpuSet::iter).collect::<CpuSet>();
        if inside.is_empty() {
            (environment.places, environment.cpu_affinity) = (None, None);
            return None;
        }
        let processors = usable_processors(&before, &Limits::read().unwrap_or_default());
        // The caller is the initial thread, but for a library that is loaded late. A thread that
        // cannot be bound stays where it is, as without places.
        let initial = Tid(std::process::id().cast_signed());
        let _ = affinity::set_affinity(Some(initial), &inside);
        let _ = affinity::set_affinity(None, &inside);
        Some(Self { places, processors })
    }
}

/// The places that the variables name on this machine; none when threads are not bound.
pub(crate) fn make(environment: &Environment) -> Vec<CpuSet> {
    if !environment.binds() {
        return Vec::new();
    }
    let Ok(mask) = affinity::affinity(None) else { return Vec::new() };
    let request = match (&environment.places, &environment.cpu_affinity) {
        (Some(places), _) => PlacesSpec::parse(places),
        (None, Some(cpus)) => Some(PlacesSpec::Explicit(cpu_affinity(cpus))),
        (None, None) => None,
    };
    let request = request.unwrap_or(PlacesSpec::Abstract { unit: Unit::Cores, count: None });
    let topology = Topology::read().ok().or_else(|| Topology::flat(&mask));
    let places = request.resolve(&mask, topology.as_ref());
    if let (PlacesSpec::Explicit(asked), found) = (&request, places.len())
        && found < asked.len()
    {
        message::warn(&format!(
            "{} of the {} places of OMP_PLACES or GOMP_CPU_AFFINITY contain no processor that this \
             program may use ({mask}){}",
            asked.len() - found,
            asked.len(),
            if found == 0 { "; they are ignored" } else { "" }
        ));
    }
    places
}
