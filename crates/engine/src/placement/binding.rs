//! Binding a team's workers: to granted processors, one each, or because the program asks for that.
//!
//! The master's own thread is never bound by a grant. Workers therefore take the processors that
//! the master is *not* on; when it moved onto one of theirs and both spin, [`bind_to_grant`] deals
//! anew.

use super::station::{Bounds, Station};
use crate::program::program;
use platform::affinity::{CpuSet, current_cpu};
use platform::message::say;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Binds a root's workers to the granted processors, one each as far as they go; the others share
/// all.
pub(crate) fn bind_to_grant(stations: impl Iterator<Item = &'static Station>, granted: &CpuSet) {
    // A program that was started inside a narrower mask stays inside it.
    let (asked, granted) = (granted, &granted.intersection(program().mask()));
    if granted.is_empty() {
        say_no_overlap(asked);
        return unbind(stations);
    }
    let mut free = granted.clone();
    // The master runs on one of them, or will be pushed onto the last.
    if !free.remove(current_cpu())
        && let Some(last) = free.last()
    {
        free.remove(last);
    }
    let mut homes = free.iter();
    for station in stations {
        station.bind(match homes.next() {
            Some(cpu) => Bounds::On(cpu),
            None => Bounds::Among(granted.clone()),
        });
    }
}

/// Says once why the program does not run where the manager wants it (D14).
#[cold]
pub(crate) fn say_no_overlap(granted: &CpuSet) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !granted.is_empty() && !SAID.swap(true, Relaxed) {
        say(format_args!(
            "nanos: the manager grants processors {granted}, but this program was started on {} \
             (OMP_PLACES, taskset, a cpuset) and stays there; give the manager some of those \
             (--cpus)",
            program().mask()
        ));
    }
}

/// Lets workers run anywhere in the program's mask again.
pub(crate) fn unbind(stations: impl Iterator<Item = &'static Station>) {
    for station in stations {
        station.bind(Bounds::Anywhere);
    }
}

/// Binds a team, the calling master included, to one processor each: what a program asks for by
/// `OMP_PROC_BIND` or [`Config::bind`](crate::program::config::Config::bind).
pub(crate) fn bind_team(stations: impl Iterator<Item = &'static Station>) {
    let mask = program().mask();
    let mut homes = mask.iter().cycle();
    if let Some(cpu) = homes.next() {
        // A processor that went offline meanwhile: the master stays where it may run.
        let _ = platform::affinity::set_affinity(None, &CpuSet::single(cpu));
    }
    for (station, cpu) in stations.zip(homes) {
        station.bind(Bounds::On(cpu));
    }
}
