//! Clocks.

use std::time::Duration;

use nanothreads_platform::clock::{TickSource, Ticks, monotonic_ns};

#[test]
fn the_monotonic_clock_never_runs_backwards() {
    let mut last = monotonic_ns();
    for _ in 0..10_000 {
        let now = monotonic_ns();
        assert!(now >= last);
        last = now;
    }
}

#[test]
fn ticks_and_the_monotonic_clock_agree_on_a_span() {
    let _ = Ticks::per_us();
    // A preemption between two of the four readings spoils a turn, so the best of some counts.
    let worst_of_best = (0..20)
        .map(|_| {
            let (ticks, ns) = (Ticks::now(), monotonic_ns());
            while monotonic_ns() - ns < 1_000_000 {
                std::hint::spin_loop();
            }
            let by_ticks = ticks.elapsed().as_nanos() as i128;
            let by_clock = i128::from(monotonic_ns() - ns);
            (by_ticks - by_clock).unsigned_abs()
        })
        .min()
        .unwrap();
    assert!(worst_of_best < 3_000, "ticks are {worst_of_best} ns off in a millisecond");
}

#[test]
fn ticks_of_all_processors_are_one_clock() {
    use nanothreads_platform::affinity::{CpuSet, affinity, set_affinity};
    std::thread::spawn(|| {
        let mut last = Ticks::now();
        let cpus = affinity(None).unwrap();
        for cpu in cpus.iter().take(8).cycle().take(64) {
            set_affinity(None, &CpuSet::single(cpu)).unwrap();
            let now = Ticks::now();
            assert!(now >= last, "processor {cpu} is late: {now:?} < {last:?}");
            last = now;
        }
    })
    .join()
    .unwrap();
}

#[test]
fn tick_arithmetic_saturates() {
    let early = Ticks::now();
    let late = Ticks::now();
    assert_eq!(early.since(late), 0, "a moment in the future is no time ago");
    assert_eq!(Ticks::from_us(u64::MAX), u64::MAX);
    assert_eq!(Ticks::from_us(3), 3 * Ticks::per_us());
    assert_eq!(Ticks::duration(Ticks::from_us(1500)), Duration::from_micros(1500));
}

#[test]
fn the_source_stays_and_gives_a_plausible_rate() {
    assert_eq!(Ticks::source(), Ticks::source());
    match Ticks::source() {
        TickSource::Monotonic => assert_eq!(Ticks::per_us(), 1000),
        // 100 MHz to 10 GHz.
        TickSource::TimeStampCounter => {
            assert!((100..10_000).contains(&Ticks::per_us()), "{}", Ticks::per_us())
        }
    }
}
