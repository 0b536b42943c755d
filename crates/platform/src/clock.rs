//! Time: the monotonic clock, and a tick counter that is cheap enough to be read in a spin loop.
//!
//! Ticks are the processor's time-stamp counter where it runs at one rate on all processors: the
//! processor says it is invariant *and* the kernel itself keeps time by it (on machines with
//! several unsynchronised sockets the first is true and the second is not). Elsewhere ticks are
//! nanoseconds of the monotonic clock.

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

/// How long all threads of the process ran so far, in nanoseconds. A system call: about 0.3 us, and
/// more with many threads.
pub fn process_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - `time` lives through the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "clock_gettime(CLOCK_PROCESS_CPUTIME_ID) cannot fail");
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The time between two ticks of the kernel's scheduler; turns of threads end at one. `None` where
/// the kernel does not say. A system call at most.
///
/// ```
/// # use nanothreads_platform as platform;
/// use std::time::Duration;
/// let tick = platform::clock::scheduler_tick();
/// assert!(tick.is_none_or(|tick| tick <= Duration::from_millis(100)));
/// ```
pub fn scheduler_tick() -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: - `time` lives through the call.
    let result = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok().filter(|_| result == 0)?;
    let tick = Duration::new(seconds, u32::try_from(time.tv_nsec).ok()?);
    (!tick.is_zero()).then_some(tick)
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
/// 0 until it is known. Not a lock: a process may fork while another thread measures, and the child
/// must not wait for a thread that it does not have.
static PER_US: AtomicU64 = AtomicU64::new(0);
/// Where the measurement began: ticks, and nanoseconds of the monotonic clock. 0 until it did;
/// nanoseconds come last.
static BEGIN_TICKS: AtomicU64 = AtomicU64::new(0);
static BEGIN_NS: AtomicU64 = AtomicU64::new(0);
/// The shortest measurement: reading both clocks is off by some 30 ns.
const SPAN_NS: u64 = 2_000_000;
/// Ticks in a microsecond as long as the rate is not known.
const GUESS_PER_US: u64 = 2500;

impl Ticks {
    /// The present moment; 10 ns with the time-stamp counter. Not ordered with memory accesses
    /// around it.
    #[inline]
    pub fn now() -> Self {
        // ORDERING: Relaxed - a fact about the machine; a thread that still reads UNKNOWN finds out
        // the same.
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

    /// Begins to measure the counter, so that [`Ticks::per_us`] and [`Ticks::about_us`] know it
    /// later without waiting.
    pub fn begin_measuring() {
        if BEGIN_NS.load(Ordering::Relaxed) == 0 && Self::source() == TickSource::TimeStampCounter {
            let (ticks, ns) = reading();
            // ORDERING: Relaxed and Release - a thread that sees the nanoseconds sees the ticks.
            // Two threads that begin at the same time may mix their readings, which are then
            // microseconds apart in a measurement of milliseconds.
            BEGIN_TICKS.store(ticks, Ordering::Relaxed);
            BEGIN_NS.store(ns, Ordering::Release);
        }
    }

    /// Ticks in a microsecond, at least 1. Waits up to 2 ms when the counter was not measured yet.
    pub fn per_us() -> u64 {
        Self::begin_measuring();
        loop {
            if let Some(known) = Self::measured_per_us() {
                return known;
            }
            std::hint::spin_loop();
        }
    }

    /// Ticks in a microsecond, if the counter was measured for long enough.
    #[inline]
    fn measured_per_us() -> Option<u64> {
        // ORDERING: Relaxed - a fact about the machine; threads that measure at the same time find
        // the same.
        match PER_US.load(Ordering::Relaxed) {
            0 => Self::measure(),
            known => Some(known),
        }
    }

    #[cold]
    fn measure() -> Option<u64> {
        let per_us = match Self::source() {
            TickSource::Monotonic => 1000,
            TickSource::TimeStampCounter => {
                // ORDERING: Acquire - pairs with the Release in `begin_measuring`.
                let begin_ns = BEGIN_NS.load(Ordering::Acquire);
                if begin_ns == 0 || monotonic_ns() < begin_ns + SPAN_NS {
                    return None;
                }
                let (ticks, ns) = reading();
                let ticks = u128::from(ticks.saturating_sub(BEGIN_TICKS.load(Ordering::Relaxed)));
                u64::try_from(ticks * 1000 / u128::from(ns - begin_ns)).unwrap_or(u64::MAX).max(1)
            }
        };
        // ORDERING: Relaxed - see `measured_per_us`.
        PER_US.store(per_us, Ordering::Relaxed);
        Some(per_us)
    }

    /// A length of time in ticks.
    pub fn from_us(us: u64) -> u64 {
        us.saturating_mul(Self::per_us())
    }

    /// A length of time in ticks; a guess in the first milliseconds, while the counter is being
    /// measured. Never waits: for spin loops.
    #[inline]
    pub fn about_us(us: u64) -> u64 {
        us.saturating_mul(Self::measured_per_us().unwrap_or(GUESS_PER_US))
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

/// Both clocks at one moment. Read in pairs, of which the tightest is taken, so that a preemption
/// between two reads does not count: the error is some 30 ns.
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
        if is_invariant && kernel_clock == Some("tsc") {
            Self::TimeStampCounter
        } else {
            Self::Monotonic
        }
    }
}

/// What the kernel keeps time by. `None` where it does not say: no `/sys`, or a masked one.
fn kernel_clock() -> Option<String> {
    let text =
        crate::file::text("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .ok()?;
    Some(text.trim().to_owned())
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn time_stamp() -> u64 {
    // SAFETY: - every x86-64 processor has rdtsc; a process that forbade it to itself (PR_SET_TSC)
    //           gets a SIGSEGV, not a wrong value.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(target_arch = "x86_64")]
#[allow(
    unused_unsafe,
    reason = "`__cpuid` is unsafe in our oldest supported compiler and safe in later ones"
)]
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
            assert_eq!(
                TickSource::choose(is_invariant, kernel),
                TickSource::Monotonic,
                "{kernel:?}"
            );
        }
    }

    #[test]
    fn the_measured_rate_agrees_with_a_later_one() {
        if Ticks::source() == TickSource::Monotonic {
            return crate::skip!("the counter of this machine is not trusted");
        }
        let again = || {
            let (begin_ticks, begin_ns) = reading();
            while monotonic_ns() < begin_ns + SPAN_NS {
                std::hint::spin_loop();
            }
            let (ticks, ns) = reading();
            (ticks - begin_ticks) * 1000 / (ns - begin_ns)
        };
        // A preemption between the readings of one pair spoils it, though not often: the best of
        // some counts.
        let apart = (0..5).map(|_| Ticks::per_us().abs_diff(again())).min().expect("five turns");
        assert!(apart * 100 <= Ticks::per_us(), "{apart} of {} ticks", Ticks::per_us());
    }
}
