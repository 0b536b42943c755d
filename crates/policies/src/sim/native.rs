//! What programs do without a manager: a time-sharing kernel under teams that spin or block.
//!
//! # Rule
//! N runnable threads on P processors share evenly: each has 1 / k of a processor, k = max(1, N /
//! P), in slices of q. A team of t threads passes from one region to the next only when all of its
//! threads have had their part (L on t processors of its own). Time per region:
//! - It cannot be less than k x L, the fair share.
//! - A team that *spins* passes regions quickly while all of its threads happen to run at once: by
//!   chance 1 / k^t of the time, times `coincidence`. Otherwise it waits for its last thread: the
//!   largest of t waits of at most (k - 1) q each, on average w = (k - 1) q t / (t + 1). Hence 1 /
//!   (coincidence / (k^t L) + 1 / (L + w)).
//! - A team whose waiters *block* gives its processors away while it waits, and pays a sleep and a
//!   wake-up, c, per region: k (L + c). A waiter that spins for `patience` and then blocks pays
//!   that, too: k (L + c + min(patience, w)), when that is less.
//!
//! Each slice begins with a cache that others have used: the time grows by refill / q while k > 1.
//! A serial phase runs at 1 / k; the slaves of a spinning team are runnable in it, until their
//! patience ends.
//!
//! A program that leaves processors idle meanwhile ([`NativeCode::busy`]) meets the others' threads
//! as often as these are there, and they meet its own so. What it waits alone for a processor that
//! sleeps and has to be woken ([`NativeCode::awake`]), it does not wait while a thread of another
//! program keeps that processor awake: of this wait the part in which no other thread is there
//! remains.
//!
//! # Parameters
//! Four, fixed once for a system and not per program: `slice`, `patience`, `switch` and
//! `coincidence`. The table of `cargo xtask reproduce policies` says what 25 % more and less of
//! each changes.
//!
//! # Papers
//! Waiting for a preempted sibling, and what it costs teams that spin, is the point of P2 section 2
//! and P0 section 4; neither has a formula. This one is ours. What it leaves out: kernels that
//! favour fresh or interactive processes (why IRIX won with short programs in P2), page placement,
//! and the difference between one processor's queue and another's.

use serde::{Deserialize, Serialize};

use super::curve::Curve;
use super::span::Span;

/// The kernel and the runtime of a system without a manager.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Native {
    /// The time that a thread runs before another one has its turn.
    pub slice: Span,
    /// How long a waiter spins before it blocks.
    pub patience: Span,
    /// What a sleep and a wake-up cost.
    pub switch: Span,
    /// How often the threads of a team run at once, relative to chance. Below 1 where wake-ups put
    /// them on one processor.
    pub coincidence: f64,
    /// How often each program's runtime looks how many threads run per processor, and makes its
    /// teams so much smaller or larger (at most the request). None: teams have the size of the
    /// request.
    pub adapts: Option<Span>,
}

impl Default for Native {
    /// Linux and libgomp, as measured with `cargo xtask demo` on 2 processors: see
    /// `docs/simulator.md`.
    fn default() -> Self {
        Self {
            slice: Span::from_us(2_800),
            patience: Span::from_us(5_000),
            switch: Span::from_us(25),
            coincidence: 0.6,
            adapts: None,
        }
    }
}

impl Native {
    /// Says whether each parameter is in its range; a fault is its name and what is allowed.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), (&'static str, String)> {
        let (second, hour) = (Span::from_us(1_000_000), Span::from_us(3_600_000_000));
        if !(Span::from_us(1)..=second).contains(&self.slice) {
            return Err(("slice", format!("{} is no slice; it is from 1us to 1s", self.slice)));
        }
        if self.patience > hour {
            return Err((
                "patience",
                format!("{} is too long; it is at most 3600s", self.patience),
            ));
        }
        if self.switch > second {
            return Err(("switch", format!("{} is too long; it is at most 1s", self.switch)));
        }
        if let Some(every) = self.adapts.filter(|every| *every < Span::from_ms(1) || *every > hour)
        {
            return Err(("adapts", format!("{every}; it is from 1ms to 3600s")));
        }
        if !(0.0..=10.0).contains(&self.coincidence) {
            return Err((
                "coincidence",
                format!("{} is out of range; it is from 0 to 10", self.coincidence),
            ));
        }
        Ok(())
    }

    /// The same with one parameter (by its place in [`Native::NAMES`]) times `factor`.
    #[must_use]
    pub fn scaled(&self, which: usize, factor: f64) -> Self {
        let mut native = self.clone();
        match which {
            0 => native.slice = native.slice.times(factor).max(Span::from_us(1)),
            1 => native.patience = native.patience.times(factor),
            2 => native.switch = native.switch.times(factor),
            _ => native.coincidence *= factor,
        }
        native
    }

    /// The parameters' names.
    pub const NAMES: [&'static str; 4] = ["slice", "patience", "switch", "coincidence"];

    /// Time in ns for a region that takes `alone` ns on as many processors as the team has threads.
    pub(super) fn region(&self, team: Team, alone: f64, load: f64) -> f64 {
        let (q, c) = (self.slice.ns(), self.switch.ns());
        let threads = f64::from(team.threads);
        if load <= 1.0 {
            return if team.blocks && team.threads > 1 { alone + c } else { alone };
        }
        let refilled = 1.0 + team.refill / q;
        if team.threads <= 1 {
            return load * alone * refilled;
        }
        let wait = (load - 1.0) * q * threads / (threads + 1.0);
        let patience = if team.blocks { 0.0 } else { self.patience.ns().min(wait) };
        let blocking = load * (alone + c + patience);
        let together =
            self.coincidence / load.powi(i32::try_from(team.threads).unwrap_or(i32::MAX)).max(1.0);
        let spinning = 1.0 / (together / alone.max(1.0) + 1.0 / (alone + wait));
        let time = if team.blocks { blocking } else { spinning.min(blocking) };
        time.max(load * alone) * refilled
    }
}

/// A program as another compiler and runtime made it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NativeCode {
    /// Its work on one processor, relative to that of the program under a manager.
    pub work: f64,
    /// How it speeds up, relative to itself.
    pub curve: Curve,
    /// How it would speed up if its threads never waited without occupying their processors. What
    /// it takes beyond that it leaves its processors idle, and other programs may use them. None:
    /// it leaves none idle.
    pub busy: Option<Curve>,
    /// How it would speed up if no processor of its own had to be woken. What it takes beyond that
    /// is such waits. None: there are none.
    pub awake: Option<Curve>,
}

/// What a program does for some time under the kernel, alone, in ns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spell {
    /// Its threads can run.
    pub(super) runs: f64,
    /// They cannot, and others may.
    pub(super) idles: f64,
    /// They wait for processors that sleep.
    pub(super) wakes: f64,
}

impl Spell {
    /// All of it without a pause.
    pub(super) fn without_pause(runs: f64) -> Self {
        Self { runs, idles: 0.0, wakes: 0.0 }
    }

    /// What is left of the pauses, with so many threads of other programs per processor.
    pub(super) fn pauses(self, others: f64) -> f64 {
        self.idles + self.wakes * (1.0 - others.clamp(0.0, 1.0))
    }
}

/// Runnable threads per processor while those of one program are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Its own and others'.
    pub(super) all: f64,
    pub(super) others: f64,
}

impl Default for NativeCode {
    fn default() -> Self {
        Self { work: 1.0, curve: Curve::Linear, busy: None, awake: None }
    }
}

impl NativeCode {
    /// Says whether each value is in its range; a fault is its name and what is allowed.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        if !(0.01..=100.0).contains(&self.work) {
            return Err(("work", format!("{}; it is from 0.01 to 100", self.work)));
        }
        self.curve.check().map_err(|message| ("curve", message))?;
        for (key, curve) in [("busy", &self.busy), ("awake", &self.awake)] {
            curve.as_ref().map_or(Ok(()), Curve::check).map_err(|message| (key, message))?;
        }
        Ok(())
    }

    /// What a team of `threads` does alone with `work` (of the program under a manager).
    pub(super) fn alone(&self, work: f64, threads: u32) -> Spell {
        let by = |curve: &Curve| work * self.work / curve.at(threads);
        let whole = by(&self.curve);
        let runs = self.busy.as_ref().map_or(whole, by).min(whole);
        let awake = self.awake.as_ref().map_or(whole, by).clamp(runs, whole);
        Spell { runs, idles: awake - runs, wakes: whole - awake }
    }
}

/// A team under a time-sharing kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Team {
    pub(super) threads: u32,
    pub(super) blocks: bool,
    /// ns for which a processor's cache is cold after another program ran there.
    pub(super) refill: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn team(threads: u32, blocks: bool) -> Team {
        Team { threads, blocks, refill: 0.0 }
    }

    /// Time relative to the fair share.
    fn ratio(native: &Native, team: Team, alone: f64, load: f64) -> f64 {
        native.region(team, alone, load) / (load * alone)
    }

    #[test]
    fn alone_no_program_waits() {
        let native = Native::default();
        assert_eq!(native.region(team(8, false), 1e6, 1.0), 1e6);
        assert_eq!(native.region(team(8, false), 1e6, 0.3), 1e6);
        assert_eq!(native.region(team(8, true), 1e6, 1.0), 1e6 + 25_000.0);
    }

    /// The experiment that fixed the parameters: `cargo xtask demo` on 2 processors, K copies on
    /// libgomp. cg: 81 758 regions of 40 us; 3.1 times ideal with 2 copies, at least 3.9 with 3.
    /// lu: waits for flags every 50 us or so; 2.85 and at least 3.5.
    #[test]
    fn copies_of_cg_and_lu_are_as_slow_as_measured_here() {
        let native = Native::default();
        for (alone, measured) in [(40e3, [3.1, 3.9]), (54e3, [2.85, 3.5])] {
            for (copies, measured) in [2.0, 3.0].into_iter().zip(measured) {
                let model = ratio(&native, team(2, false), alone, copies);
                assert!(
                    (model / measured - 1.0).abs() < 0.25,
                    "{copies} copies: {model}, measured {measured}"
                );
            }
        }
    }

    #[test]
    fn long_regions_share_fairly_and_short_ones_wait_for_the_last_thread() {
        // q = 10 ms, k = 2, t = 9: w = 9 ms. A region of 100 ms takes its fair share, 200 ms.
        let native = Native {
            slice: Span::from_us(10_000),
            coincidence: 0.0,
            patience: Span::from_us(1_000_000),
            ..Native::default()
        };
        assert_eq!(native.region(team(9, false), 100e6, 2.0), 200e6);
        // One of 1 ms: 1 + 9.
        assert!((native.region(team(9, false), 1e6, 2.0) - 10e6).abs() < 1.0);
        // Waiters that block at once: 2 x (1 ms + 25 us).
        assert!((native.region(team(9, true), 1e6, 2.0) - 2.05e6).abs() < 1.0);
        // Waiters that spin for 1 ms first: 2 x (1 ms + 25 us + 1 ms).
        let impatient = Native { patience: Span::from_us(1_000), ..native };
        assert!((impatient.region(team(9, false), 1e6, 2.0) - 4.05e6).abs() < 1.0);
    }

    #[test]
    fn code_of_another_runtime_is_slower_and_leaves_processors_idle() {
        // 1.5 times the work; on 4 threads half as fast again as on one, and busy as a linear team.
        let curve = Curve::Times(vec![(1, 6.0), (4, 4.0)]);
        let code =
            NativeCode { work: 1.5, curve, busy: Some(Curve::Linear), ..NativeCode::default() };
        let spell = |runs, idles, wakes| Spell { runs, idles, wakes };
        assert_eq!(code.alone(8.0, 1), spell(12.0, 0.0, 0.0));
        assert_eq!(code.alone(8.0, 4), spell(3.0, 5.0, 0.0));
        assert_eq!(NativeCode { busy: None, ..code.clone() }.alone(8.0, 4), spell(8.0, 0.0, 0.0));
        // Of the 5 that it is idle, it waits for processors that sleep for all but one.
        let awake = Curve::Times(vec![(1, 12.0), (4, 4.0)]);
        let woken = NativeCode { awake: Some(awake), ..code }.alone(8.0, 4);
        assert_eq!(woken, spell(3.0, 1.0, 4.0));
        assert_eq!([0.0, 0.25, 1.0, 7.0].map(|others| woken.pauses(others)), [5.0, 4.0, 1.0, 1.0]);
    }

    #[test]
    fn a_cold_cache_costs_its_part_of_each_slice() {
        let native = Native { slice: Span::from_us(10_000), ..Native::default() };
        let cold = Team { refill: 1e6, ..team(1, false) };
        assert!((native.region(cold, 1e6, 2.0) - 2.2e6).abs() < 1.0);
        assert!((native.region(cold, 1e6, 1.0) - 1e6).abs() < 1.0);
    }
}
