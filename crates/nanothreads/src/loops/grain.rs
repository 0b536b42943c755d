//! Self-timed chunk lengths: a loop whose body is not known finds out how many iterations are worth
//! a dispatch.
//!
//! Doubling until a chunk takes a microsecond is what parlaylib does, once for each loop. Here each
//! member goes on measuring, because the iterations of one loop may differ: chunks that became too
//! long are cut in proportion.

use platform::clock::Ticks;

/// What a chunk should take at least, in microseconds. A dispatch with its clock readings costs
/// about 30 ns.
const TARGET_US: u64 = 1;
/// A chunk that took this many times the target is too long. Doubling alone ends below 2.
const TOO_LONG: u64 = 4;
/// A loop of fewer iterations for each member forks at once: one of them on the caller alone might
/// be a large part.
const FEW: usize = 32;

/// A member's chunk length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grain {
    length: usize,
    target: u64,
}

impl Grain {
    /// Starts with one iteration.
    pub(super) fn new() -> Self {
        Self { length: 1, target: Ticks::about_us(TARGET_US) }
    }

    /// Iterations of the next chunk.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Runs a chunk of `length` iterations and learns from the time it takes. (What the dispatch
    /// takes does not count: it is what longer chunks save.)
    pub(super) fn time<R>(&mut self, length: usize, run: impl FnOnce() -> R) -> R {
        let begun = Ticks::now();
        let result = run();
        self.length = next_length(self.length, length, begun.elapsed_ticks(), self.target);
        result
    }
}

/// The length of the next chunk after one of `length` iterations took `spent`, when `planned` was
/// the length to take. More than half of that is the whole of it: long loops are dealt in units,
/// and what is planned is rounded down to them.
fn next_length(planned: usize, length: usize, spent: u64, target: u64) -> usize {
    if spent >= target.saturating_mul(TOO_LONG) {
        let scaled = length as u128 * u128::from(target) / u128::from(spent);
        usize::try_from(scaled).map_or(planned, |scaled| scaled.max(1))
    } else if spent < target && length > planned / 2 {
        planned.saturating_mul(2)
    } else {
        planned
    }
}

/// Runs the beginning of a loop of `length` iterations on the caller until a microsecond is over,
/// and returns how many that were: a loop that is over by then needs no team. A loop of few
/// iterations for each of `members` is not begun.
pub(super) fn begin_alone(length: usize, members: usize, run: impl FnMut(usize, usize)) -> usize {
    if length < members.saturating_mul(FEW) {
        return 0;
    }
    let start = Ticks::now();
    let target = Ticks::about_us(TARGET_US);
    run_doubling(length, || start.elapsed_ticks() >= target, run)
}

/// Runs chunks of 1, 2, 4, ... iterations of `length`, until `is_over` after one of them, and
/// returns how many that were. The lengths saturate: chunks that cost nothing double as often as
/// `usize` has bits.
fn run_doubling(
    length: usize,
    is_over: impl Fn() -> bool,
    mut run: impl FnMut(usize, usize),
) -> usize {
    let (mut done, mut chunk) = (0_usize, 1_usize);
    loop {
        let end = length.min(done.saturating_add(chunk));
        run(done, end);
        (done, chunk) = (end, chunk.saturating_mul(2));
        if done == length || is_over() {
            return done;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Runs `chunks` chunks of iterations that each take `cost`, and returns the last planned
    /// length.
    fn settle(mut planned: usize, chunks: usize, cost: u64) -> usize {
        for _ in 0..chunks {
            planned = next_length(planned, planned, planned as u64 * cost, 1000);
        }
        planned
    }

    #[test]
    fn chunks_double_until_one_takes_the_target() {
        assert_eq!(settle(1, 30, 1), 1024);
        assert_eq!(settle(1, 30, 300), 4);
        assert_eq!(settle(1, 30, 5_000_000), 1);
    }

    #[test]
    fn chunks_shrink_when_iterations_become_expensive_and_grow_again() {
        let cheap = settle(1, 30, 1);
        let dear = settle(cheap, 30, 500);
        assert!((2..=4).contains(&dear), "{dear}");
        assert_eq!(settle(dear, 30, 1), 1024);
    }

    #[test]
    fn a_short_last_chunk_teaches_nothing() {
        assert_eq!(next_length(64, 3, 5, 1000), 64);
        // But one that was rounded down to a unit of 3 does.
        assert_eq!(next_length(5, 3, 5, 1000), 10);
    }

    #[test]
    fn a_cheap_loop_of_many_iterations_needs_no_team_and_a_coarse_one_is_not_begun() {
        let mut ran = 0;
        assert_eq!(begin_alone(100, 4, |_, _| ran += 1), 0);
        assert_eq!(ran, 0);
        let mut expected = 0;
        let done = begin_alone(1_000, 4, |begin, end| {
            assert_eq!(begin, expected);
            assert!(end > begin && end <= 1_000);
            expected = end;
        });
        assert_eq!(done, expected);
    }

    #[test]
    fn lengths_saturate_in_a_loop_as_long_as_can_be() {
        for length in [usize::MAX, usize::MAX - 1, usize::MAX / 2 + 2] {
            let mut expected = 0;
            let done = run_doubling(
                length,
                || false,
                |begin, end| {
                    assert!(begin == expected && end > begin);
                    expected = end;
                },
            );
            assert_eq!((done, expected), (length, length));
        }
        // Of iterations that cost nothing, by the loop as well.
        assert_eq!(settle(1, 200, 0), usize::MAX);
    }
}
