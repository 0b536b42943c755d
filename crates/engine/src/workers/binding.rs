//! Which processor a virtual processor runs on: exact under a manager, a hint without one (D2).
//!
//! The master's own thread is never bound. Virtual processors therefore take the processors that
//! the master is *not* on; when it moved onto one of theirs and both spin, `bind_to_grant` deals
//! anew.
//!
//! A soft placement stays, also where a virtual processor had to wait on its home: given up for a
//! while after such waits it was packed on its master's processor instead, and an empty region
//! beside other programs took 120 us instead of 1.

use crate::program::program;
use crate::workers::vp::Vp;
use platform::affinity::{CpuSet, current_cpu};
use platform::message::say;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Binds a root's virtual processors to the granted processors, one each as far as they go; the
/// others share all.
pub(crate) fn bind_to_grant(members: &[&'static Vp], granted: &CpuSet) {
    // A program that was started inside a narrower mask stays inside it.
    let (asked, granted) = (granted, &granted.intersection(program().mask()));
    if granted.is_empty() {
        say_no_overlap(asked);
        return unbind(members);
    }
    let mut free = granted.clone();
    // The master runs on one of them, or will be pushed onto the last.
    if !free.remove(current_cpu())
        && let Some(last) = free.last()
    {
        free.remove(last);
    }
    let mut homes = free.iter();
    for vp in members {
        match homes.next() {
            Some(cpu) => vp.bind(&CpuSet::single(cpu)),
            None => vp.bind(granted),
        }
    }
}

/// Says once why the program does not run where the manager wants it (D14).
#[cold]
pub(crate) fn say_no_overlap(granted: &CpuSet) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !granted.is_empty() && !SAID.swap(true, Relaxed) {
        say(format_args!(
            "nanos: the manager grants processors {granted}, but this program was started on {} (OMP_PLACES, taskset, a \
             cpuset) and stays there; give the manager some of those (--cpus)",
            program().mask()
        ));
    }
}

/// Lets virtual processors run anywhere in the program's mask again.
pub(crate) fn unbind(members: &[&'static Vp]) {
    for vp in members {
        vp.unbind();
    }
}

/// Binds a team, the calling master included, to one processor each: what a program asks for by
/// `OMP_PROC_BIND` or [`Config::bind`](crate::program::config::Config::bind).
pub(crate) fn bind_team(members: &[&'static Vp]) {
    let mask = program().mask();
    let mut homes = mask.iter().cycle();
    if let Some(cpu) = homes.next() {
        // A processor that went offline meanwhile: the master stays where it may run.
        let _ = platform::affinity::set_affinity(None, &CpuSet::single(cpu));
    }
    for (vp, cpu) in members.iter().zip(homes) {
        vp.bind(&CpuSet::single(cpu));
    }
}
