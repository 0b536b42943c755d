//! Which processor a virtual processor runs on: exact under a manager, a hint without one (D2).
//!
//! The master's own thread is never bound. Virtual processors therefore take the processors that the master is *not*
//! on; when it moved onto one of theirs and both spin, `bind_to_grant` deals anew.
//!
//! # Giving a soft placement up
//! A virtual processor that is woken on its home waits there, also where another program uses that processor and a third
//! one is idle. So it measures what each placement cost: the time from its wake until it ran. After [`LATE`] microseconds it is
//! woken where the kernel likes for [`SHORTEST`] microseconds, twice as long after each further try that fails, up to
//! [`LONGEST`]; then it is placed again. What a woken thread waits without a placement says nothing about its home.

use crate::engine_state::engine;
use crate::vp::Vp;
use platform::affinity::{CpuId, CpuSet, current_cpu};
use platform::clock::Ticks;
use platform::topology::Topology;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Microseconds from wake to run that only a processor in use explains, in the worst virtual machine.
const LATE: u64 = 500;
const SHORTEST: u64 = 100_000;
const LONGEST: u64 = 3_200_000;

/// The processor where virtual processor `number` should wake: the `number`-th of the program's mask, or, where the
/// caller runs on that one, the first (which is the caller's in the numbering). So each has a place of its own, and
/// keeps it when the caller moves. `None` when the mask has one processor only.
pub(crate) fn home(number: usize) -> Option<CpuId> {
    let mask = engine().mask();
    let count = mask.len();
    if count < 2 {
        return None;
    }
    let own = mask.iter().nth(number % count);
    if own == Some(current_cpu()) { mask.first() } else { own }
}

/// Binds a root's virtual processors to the granted processors, one each as far as they go; the others share all.
pub(crate) fn bind_to_grant(members: &[&'static Vp], granted: &CpuSet) {
    // A program that was started inside a narrower mask stays inside it.
    let (asked, granted) = (granted, &granted.intersection(engine().mask()));
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
fn say_no_overlap(granted: &CpuSet) {
    static SAID: AtomicBool = AtomicBool::new(false);
    // ORDERING: Relaxed - a flag on its own.
    if !granted.is_empty() && !SAID.swap(true, Relaxed) {
        eprintln!(
            "nanos: the manager grants processors {granted}, but this program was started on {} (OMP_PLACES, taskset, a \
             cpuset) and stays there; give the manager some of those (--cpus)",
            engine().mask()
        );
    }
}

/// Lets virtual processors run anywhere in the program's mask again.
pub(crate) fn unbind(members: &[&'static Vp]) {
    for vp in members {
        vp.unbind();
    }
}

/// Binds a team, the calling master included, to one processor each: what a program asks for by `OMP_PROC_BIND` or
/// [`Config::bind`](crate::config::Config::bind).
pub(crate) fn bind_team(members: &[&'static Vp]) {
    let mask = engine().mask();
    let mut homes = mask.iter().cycle();
    if let Some(cpu) = homes.next() {
        // A processor that went offline meanwhile: the master stays where it may run.
        let _ = platform::affinity::set_affinity(None, &CpuSet::single(cpu));
    }
    for (vp, cpu) in members.iter().zip(homes) {
        vp.bind(&CpuSet::single(cpu));
    }
}

/// Whether a virtual processor's soft placement pays; see the module head. Written by the VP, and by who wakes it.
#[derive(Debug, Default)]
pub(crate) struct SoftHome {
    /// Ticks of the last placed wake; 0: none yet.
    woken: AtomicU64,
    /// Ticks until which it is not placed; 0: never was given up.
    until: AtomicU64,
    /// Ticks of the last time without; 0: it works.
    pause: AtomicU64,
}

// ORDERING: Relaxed throughout - hints, of which each wake and the run behind it are ordered by the placement's flag.
impl SoftHome {
    /// True while the VP is to be woken where the kernel likes.
    pub(crate) fn is_given_up(&self) -> bool {
        let until = self.until.load(Relaxed);
        until != 0 && Ticks::now().raw() < until
    }

    /// The VP is placed, and about to be woken.
    pub(crate) fn wakes(&self) {
        self.woken.store(Ticks::now().raw(), Relaxed);
    }

    /// The VP runs where it was placed. True when it gives the placement up.
    pub(crate) fn ran(&self) -> bool {
        self.ran_at(Ticks::now().raw())
    }

    fn ran_at(&self, now: u64) -> bool {
        let woken = self.woken.swap(0, Relaxed);
        if woken == 0 {
            // Placed when it was created: what that takes is not the home's fault.
            return false;
        }
        if now.saturating_sub(woken) < Ticks::about_us(LATE) {
            self.pause.store(0, Relaxed);
            return false;
        }
        let pause = (self.pause.load(Relaxed) * 2).clamp(Ticks::about_us(SHORTEST), Ticks::about_us(LONGEST));
        self.pause.store(pause, Relaxed);
        self.until.store(now.saturating_add(pause), Relaxed);
        true
    }
}

/// The machine, read once; one place of all processors where the system does not say more.
pub(crate) fn machine() -> Option<&'static Topology> {
    static MACHINE: OnceLock<Option<Topology>> = OnceLock::new();
    MACHINE.get_or_init(|| Topology::read().ok().or_else(|| Topology::flat(engine().mask()))).as_ref()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_home_where_others_run_is_given_up_for_longer_and_longer_and_taken_again_when_it_is_free() {
        Ticks::per_us();
        let us = Ticks::about_us;
        let home = SoftHome::default();
        assert!(!home.is_given_up() && !home.ran_at(us(1)), "nobody woke it");
        let wake = |at: u64, ran: u64| {
            home.woken.store(at, Relaxed);
            home.ran_at(ran)
        };
        assert!(!wake(us(1000), us(1030)));
        let mut now = us(10_000);
        let mut pauses = Vec::new();
        for _ in 0..7 {
            assert!(wake(now, now + us(3000)));
            pauses.push((home.until.load(Relaxed) - now - us(3000)) / us(1000));
            now = home.until.load(Relaxed);
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 3200]);
        assert!(!wake(now, now + us(30)));
        assert!(wake(now, now + us(3000)));
        assert_eq!(home.pause.load(Relaxed), us(SHORTEST), "it had worked in between");
    }
}
