//! Time: the monotonic clock, and a tick counter that is cheap enough to be read in a spin loop.
//!
//! Ticks are the processor's time-stamp counter where it runs at one rate on all processors: the processor says it is
//! invariant *and* the kernel itself keeps time by it (on machines with several unsynchronised sockets the first is
//! true and the second is not). Elsewhere ticks are nanoseconds of the monotonic clock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// The monotonic clock in nanoseconds: the same in all processes of the machine. About 25 ns.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - `time` lives through the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    assert_eq!(result, 0, "clock_gettime(CLOCK_MONOTONIC) cannot fail");
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// A moment, in ticks.
///
/// ```
/// # use nanothreads_platform as platform;
/// use platform::clock::Ticks;
/// let limit = Ticks::from_us(50);
/// let start = Ticks::now();
/// while start.elapsed_ticks() < limit {
///     std::hint::spin_loop();
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(u64);

/// Where ticks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TickSource {
    /// The processor's time-stamp counter.
    TimeStampCounter,
    /// The monotonic clock; a tick is a nanosecond.
    Monotonic,
}

const UNKNOWN: u8 = 0;
const TSC: u8 = 1;
const MONOTONIC: u8 = 2;

static SOURCE: AtomicU8 = AtomicU8::new(UNKNOWN);
/// 0 until it is known. Not a lock: a process may fork while another thread measures, and the child must not wait for
/// a thread that it does not have.
static PER_US: AtomicU64 = AtomicU64::new(0);

impl Ticks {
    /// The present moment; 10 ns with the time-stamp counter. Not ordered with memory accesses around it.
    #[inline]
    pub fn now() -> Self {
        // ORDERING: Relaxed - a fact about the machine; a thread that still reads UNKNOWN finds out the same.
        match SOURCE.load(Ordering::Relaxed) {
            TSC => Self(time_stamp()),
            MONOTONIC => Self(monotonic_ns()),
            _ => Self::first(),
        }
    }

    #[cold]
    fn first() -> Self {
        match Self::source() {
            TickSource::TimeStampCounter => Self(time_stamp()),
            TickSource::Monotonic => Self(monotonic_ns()),
        }
    }

    /// Where the ticks of this machine come from.
    pub fn source() -> TickSource {
        // ORDERING: Relaxed - see `now`.
        let known = SOURCE.load(Ordering::Relaxed);
        let source = match known {
            TSC => TickSource::TimeStampCounter,
            MONOTONIC => TickSource::Monotonic,
            _ => TickSource::choose(is_invariant(), kernel_clock().as_deref()),
        };
        let word = if source == TickSource::TimeStampCounter { TSC } else { MONOTONIC };
        // ORDERING: Relaxed - racing threads store the same value.
        SOURCE.store(word, Ordering::Relaxed);
        source
    }

    /// Ticks in a microsecond, at least 1. The first call takes 2 ms where the counter must be measured: make it
    /// before it matters.
    pub fn per_us() -> u64 {
        // ORDERING: Relaxed - a fact about the machine; threads that measure at the same time find the same.
        match PER_US.load(Ordering::Relaxed) {
            0 => {
                let measured = match Self::source() {
                    TickSource::TimeStampCounter => calibrate(),
                    TickSource::Monotonic => 1000,
                };
                PER_US.store(measured, Ordering::Relaxed);
                measured
            }
            known => known,
        }
    }

    /// A length of time in ticks.
    pub fn from_us(us: u64) -> u64 {
        us.saturating_mul(Self::per_us())
    }

    /// Ticks since this moment; 0 when it lies in the future.
    #[inline]
    pub fn elapsed_ticks(self) -> u64 {
        Self::now().since(self)
    }

    /// Ticks from `earlier` to this moment; 0 when that is in truth later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Time since this moment.
    pub fn elapsed(self) -> Duration {
        Self::duration(self.elapsed_ticks())
    }

    /// A number of ticks as time.
    pub fn duration(ticks: u64) -> Duration {
        let ns = u128::from(ticks) * 1000 / u128::from(Self::per_us());
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// The counter's value.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

/// Measures the counter against the monotonic clock. Both ends are read in pairs, of which the tightest is taken, so
/// that a preemption between two reads does not count: the error is some 30 ns in 2 ms.
fn calibrate() -> u64 {
    const SPAN_NS: u64 = 2_000_000;
    let (start_ticks, start_ns) = reading();
    while monotonic_ns() < start_ns + SPAN_NS {
        std::hint::spin_loop();
    }
    let (end_ticks, end_ns) = reading();
    let ticks = u128::from(end_ticks.saturating_sub(start_ticks));
    let per_us = ticks * 1000 / u128::from(end_ns - start_ns);
    u64::try_from(per_us).unwrap_or(u64::MAX).max(1)
}

fn reading() -> (u64, u64) {
    let pair = || {
        let before = time_stamp();
        let ns = monotonic_ns();
        let after = time_stamp();
        (after.saturating_sub(before), before + after.saturating_sub(before) / 2, ns)
    };
    let (_, ticks, ns) = (0..8).map(|_| pair()).min().expect("eight readings");
    (ticks, ns)
}

impl TickSource {
    /// The counter only when processor and kernel both vouch for it.
    fn choose(is_invariant: bool, kernel_clock: Option<&str>) -> Self {
        if is_invariant && kernel_clock == Some("tsc") { Self::TimeStampCounter } else { Self::Monotonic }
    }
}

/// What the kernel keeps time by. `None` where it does not say: no `/sys`, or a masked one.
fn kernel_clock() -> Option<String> {
    let text = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource").ok()?;
    Some(text.trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn time_stamp() -> u64 {
    // SAFETY: - every x86-64 processor has rdtsc; a process that forbade it to itself (PR_SET_TSC) gets a SIGSEGV, not
    //           a wrong value.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[allow(unused_unsafe, reason = "`__cpuid` is unsafe in our oldest supported compiler and safe in later ones")]
fn is_invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    const POWER_LEAF: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    // SAFETY: - every x86-64 processor has cpuid.
    let highest = unsafe { __cpuid(0x8000_0000) }.eax;
    if highest < POWER_LEAF {
        return false;
    }
    // SAFETY: - the processor has this leaf, as just asked.
    unsafe { __cpuid(POWER_LEAF) }.edx & INVARIANT_TSC != 0
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn time_stamp() -> u64 {
    monotonic_ns()
}

#[cfg(not(target_arch = "x86_64"))]
fn is_invariant() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_needs_the_word_of_processor_and_kernel() {
        assert_eq!(TickSource::choose(true, Some("tsc")), TickSource::TimeStampCounter);
        for (is_invariant, kernel) in
            [(false, Some("tsc")), (true, Some("hpet")), (true, Some("kvm-clock")), (true, None)]
        {
            assert_eq!(TickSource::choose(is_invariant, kernel), TickSource::Monotonic, "{kernel:?}");
        }
    }

    #[test]
    fn two_calibrations_agree() {
        if Ticks::source() == TickSource::Monotonic {
            return println!("skipped: the counter of this machine is not trusted");
        }
        // A preemption between the readings of one pair spoils it, though not often: the best of some counts.
        let apart = (0..5).map(|_| calibrate().abs_diff(calibrate())).min().expect("five turns");
        assert!(apart * 1000 <= Ticks::per_us(), "{apart} of {} ticks", Ticks::per_us());
    }
}
