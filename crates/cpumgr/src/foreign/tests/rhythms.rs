//! Strangers that compute for a part of the time, again and again.

use std::ops::ControlFlow;

use super::*;

/// How finely time passes.
const STEP: Nanos = MS / 2;

/// Two processors and a program of two threads that wait for each other; on processor 1 a stranger
/// computes when it `computes`, alone where that processor was left to it. Tells `watch` what time
/// it is, and whether processor 1 is left; ends when that says so.
fn beside(
    seed: u64,
    computes: impl Fn(Nanos) -> bool,
    mut watch: impl FnMut(Nanos, bool) -> ControlFlow<()>,
) {
    let mut foreign = Foreign::new(seed);
    foreign.look_closely(0);
    let mut threads = [Times::default(); 2];
    let (mut busy, mut ran) = ([0_u64; 2], 0);
    let (mut now, step) = (0, STEP);
    loop {
        let is_left = foreign.left() == [1];
        let computes = computes(now);
        for cpu in 0..2 {
            let (stranger, program) = (cpu == 1 && computes, cpu == 0 || !is_left);
            // The stranger had slept: it goes first.
            busy[cpu] += if stranger || program { step } else { 0 };
            if program && stranger {
                threads[cpu].waited += step;
            } else if program {
                threads[cpu].ran += step;
                ran += step;
            }
        }
        now += step;
        if watch(now, is_left).is_break() {
            return;
        }
        if foreign.next_look().is_none_or(|at| at > now) {
            continue;
        }
        let seats = (0..2).filter(|cpu| *cpu == 0 || !is_left);
        let threads = seats.map(|cpu| (cpu as u32, (Tid(cpu as i32), threads[cpu]))).collect();
        let held = [(
            1,
            Held { threads, processors: 2, first: 0, ran: Some(ran), crowd: Crowd::default() },
        )]
        .into();
        foreign.look(Sample {
            at: now,
            held,
            busy: [(0, busy[0]), (1, busy[1])].into(),
            ran,
            ..Sample::default()
        });
    }
}

/// In which part of the last of ten seconds processor 1 is left to a stranger that computes for
/// `on` of each `period`.
fn left_to_a_rhythm(on: Nanos, period: Nanos, seed: u64) -> f64 {
    let (time, mut left_for) = (1_000 * MS, 0);
    beside(
        seed,
        |now| (now + seed * MS) % period < on,
        |now, is_left| {
            left_for += if is_left && now > 9 * time { STEP } else { 0 };
            if now < 10 * time { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        },
    );
    left_for as f64 / time as f64
}

/// How long a stranger that used a third of a processor in a rhythm, and was known for that, has to
/// use most of it until it is left to it.
fn until_a_rhythm_that_grew_is_met(seed: u64) -> Nanos {
    // At any time of those that it is known over.
    let (known, mut met) = ((5_000 + 97 * seed) * MS, 0);
    beside(
        seed,
        |now| (now + seed * MS) % (30 * MS) < if now < known { 10 * MS } else { 27 * MS },
        |now, is_left| {
            met = now.saturating_sub(known);
            let is_over = now >= known && is_left || now >= 4 * known;
            if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        },
    );
    met
}

#[test]
fn a_stranger_that_uses_a_third_in_a_rhythm_is_not_given_half_of_two_processors() {
    for (on, period) in [(3, 10), (30, 90), (8, 26), (10, 30), (60, 200)] {
        let left =
            (0..20).map(|seed| left_to_a_rhythm(on * MS, period * MS, seed)).sum::<f64>() / 20.0;
        assert!(left < 0.15, "{on} of {period} ms: left for {left} of the time");
    }
}

#[test]
fn a_stranger_that_uses_most_of_a_processor_in_a_rhythm_has_it() {
    for (on, period) in [(8, 10), (60, 90), (10, 10)] {
        let left =
            (0..20).map(|seed| left_to_a_rhythm(on * MS, period * MS, seed)).sum::<f64>() / 20.0;
        assert!(left > 0.85, "{on} of {period} ms: left for {left} of the time");
    }
}

#[test]
fn a_rhythm_that_grew_is_met_within_two_of_the_times_that_it_is_known_over() {
    let met: Vec<Nanos> = (0..20).map(until_a_rhythm_that_grew_is_met).collect();
    // The first of them began while the stranger used a third.
    let longest = 1_000 * MS + PERIOD;
    assert!(met.iter().all(|time| *time <= longest), "{met:?}");
}

#[test]
fn the_larger_the_team_the_sooner_a_processor_is_worth_leaving() {
    let worths = [1, 2, 3, 4, 64].map(|processors| worth(processors, false));
    assert!(
        worths[1] == CONTENDED_OF_TWO && worths.windows(2).skip(1).all(|pair| pair[0] >= pair[1]),
        "{worths:?}"
    );
    assert_eq!((worths[0], worths[4], worth(2, true)), (CONTENDED, CONTENDED, CONTENDED));
}
