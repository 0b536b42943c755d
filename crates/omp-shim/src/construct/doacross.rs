//! Cross-iteration dependences: `ordered(n)` loops with `depend(source)` and `depend(sink: ...)`.
//!
//! The outer loop is dealt out; an iteration vector stands for (outer iteration, position in the
//! inner loops). One thread runs the vectors of one *piece* of the outer loop in order, so one
//! number for each piece says how far it is: vectors done until now. Pieces are the chunks of the
//! schedule where these are all of one size, the threads' blocks where it has no size, and single
//! iterations where the sizes differ (`guided`): memory goes by pieces, 8 bytes each. A thread that
//! waits for a vector of its own chunk has done it already, and looks at nothing.
//!
//! # Lines
//! A thread that waits for a piece looks at its counter again and again, and is most often about to
//! post one of the next. If the two counters were in one line, it would be in both caches when
//! either is written. So counters that are written one after the other are in different lines. Each
//! line goes from the thread that writes to the thread that waits, and back.

use crate::schedule::{Kind, Schedule};
use ::engine::stage::Stage;
use platform::sync::CachePadded;

/// The state of one loop nest.
#[derive(Debug)]
pub(crate) struct Doacross {
    /// Trip counts of the inner loops.
    inner: Box<[u64]>,
    /// Their product: vectors of an outer iteration.
    vectors: u64,
    /// Outer iterations.
    outer: u64,
    pieces: Pieces,
    /// For each piece: vectors done. Piece j has place j / [`COLUMNS`] of column j % [`COLUMNS`].
    done: Box<[CachePadded<[Stage; BLOCK]>]>,
}

/// Pieces that follow each other so closely have counters in different lines; loom explores two.
const COLUMNS: u64 = if cfg!(loom) { 2 } else { 8 };
/// Counters of a cache line (of two, where those come in pairs).
const BLOCK: usize = if cfg!(loom) { 1 } else { 16 };

/// How the outer loop is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pieces {
    /// Into pieces of this size, the last one excepted.
    Of(u64),
    /// The first `longer` ones have this size, all others one less
    /// ([`crate::schedule::static_block`]).
    Blocks { longer: u64, size: u64 },
}

impl Pieces {
    /// Of a team of `threads` and this schedule.
    fn new(outer: u64, schedule: Schedule, threads: u64) -> Self {
        match (schedule.kind, schedule.chunk) {
            (Kind::Static | Kind::Auto, 0) => {
                let threads = threads.max(1);
                Self::Blocks { longer: outer % threads, size: outer / threads + 1 }
            }
            (Kind::Static | Kind::Auto | Kind::Dynamic, chunk) => Self::Of(chunk.max(1)),
            (Kind::Guided, _) => Self::Of(1),
        }
    }

    /// How many they are.
    fn count(self, outer: u64) -> u64 {
        outer.checked_sub(1).map_or(0, |last| self.locate(last).0 + 1)
    }

    /// The piece of an iteration, and its number there.
    #[inline]
    fn locate(self, iteration: u64) -> (u64, u64) {
        match self {
            Self::Of(1) => (iteration, 0),
            Self::Of(size) => (iteration / size, iteration % size),
            Self::Blocks { longer, size } => {
                let in_longer = longer * size;
                if iteration < in_longer {
                    return (iteration / size, iteration % size);
                }
                // Not empty: the iteration is in one of them.
                let (rest, size) = (iteration - in_longer, size - 1);
                (longer + rest / size, rest % size)
            }
        }
    }
}

impl Doacross {
    /// A nest with these trip counts, the outer loop first, which a team of `threads` shares by
    /// `schedule`.
    pub(crate) fn new(counts: &[u64], schedule: Schedule, threads: u32) -> Self {
        let (outer, inner) =
            counts.split_first().map_or((0, &[][..]), |(outer, inner)| (*outer, inner));
        let pieces = Pieces::new(outer, schedule, u64::from(threads));
        let blocks = pieces.count(outer).div_ceil(COLUMNS).div_ceil(BLOCK as u64) * COLUMNS;
        Self {
            inner: inner.into(),
            vectors: inner.iter().fold(1, |product, count| product.wrapping_mul(*count)),
            outer,
            pieces,
            done: (0..blocks).map(|_| CachePadded::default()).collect(),
        }
    }

    /// The counter of the piece, and the value that it has once the vector with index `at(k)` for
    /// loop k is done.
    #[inline]
    pub(crate) fn locate(&self, at: impl Fn(usize) -> u64) -> Option<(&Stage, u64)> {
        let (iteration, columns) = (at(0), COLUMNS as usize);
        if iteration >= self.outer {
            return None;
        }
        let (piece, number) = self.pieces.locate(iteration);
        let (place, column) = (usize::try_from(piece / COLUMNS).ok()?, piece as usize % columns);
        let counter = &self.done.get(place / BLOCK * columns + column)?[place % BLOCK];
        let before = if self.inner.is_empty() { number } else { self.position(number, at) };
        Some((counter, before.wrapping_add(1)))
    }

    /// Vectors of the piece before the one with index `at(k)` for loop k, whose outer iteration is
    /// `number` there.
    #[inline(never)]
    fn position(&self, number: u64, at: impl Fn(usize) -> u64) -> u64 {
        let inside = (1..)
            .zip(&self.inner)
            .fold(0, |sum: u64, (k, count)| sum.wrapping_mul(*count).wrapping_add(at(k)));
        number.wrapping_mul(self.vectors).wrapping_add(inside)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::schedule::static_share;

    const SINGLE: Schedule = Schedule::new(Kind::Dynamic, 1);

    #[test]
    fn positions_grow_with_the_order_of_the_iterations() {
        let nest = Doacross::new(&[3, 4, 5], SINGLE, 2);
        let mut last = 0;
        for j in 0..4 {
            for k in 0..5 {
                let (counter, value) =
                    nest.locate(|level| [2, j, k][level]).expect("inside the nest");
                assert!(std::ptr::eq(
                    counter,
                    nest.locate(|level| [2, 0, 0][level]).expect("inside the nest").0
                ));
                assert_eq!(value, last + 1);
                last = value;
            }
        }
        assert!(nest.locate(|level| [3, 0, 0][level]).is_none());
    }

    #[test]
    fn each_outer_iteration_has_its_own_counter_far_from_the_next_ones() {
        const ITERATIONS: u64 = 1000;
        let nest = Doacross::new(&[ITERATIONS], SINGLE, 2);
        let address = |j| std::ptr::from_ref(nest.locate(|_| j).expect("inside the nest").0).addr();
        let all: std::collections::BTreeSet<_> = (0..ITERATIONS).map(address).collect();
        assert_eq!(all.len() as u64, ITERATIONS);
        for j in 0..ITERATIONS - COLUMNS {
            assert!((1..COLUMNS).all(|ahead| address(j) / 128 != address(j + ahead) / 128), "{j}");
        }
        assert!(nest.locate(|_| ITERATIONS).is_none());
    }

    #[test]
    fn a_nest_of_one_loop_counts_each_iteration_once() {
        let nest = Doacross::new(&[2], SINGLE, 2);
        assert_eq!(nest.locate(|_| 1).expect("inside the nest").1, 1);
    }

    #[test]
    fn iterations_of_one_chunk_have_one_counter_that_grows_through_it() {
        let schedules = [
            (Kind::Static, 0),
            (Kind::Auto, 0),
            (Kind::Static, 1),
            (Kind::Static, 7),
            (Kind::Dynamic, 7),
        ];
        let cases = schedules.into_iter().flat_map(|schedule| {
            let trips = [1, 2, 5, 63, 64, 65, 1000];
            [1, 2, 3, 64]
                .into_iter()
                .flat_map(move |threads| trips.map(|trips| (schedule, threads, trips)))
        });
        for ((kind, chunk), threads, trips) in cases {
            let nest = Doacross::new(&[trips, 3], Schedule::new(kind, chunk), threads);
            let mut counters = std::collections::BTreeSet::new();
            let shares = (0..u64::from(threads)).flat_map(|id| {
                (0..).map_while(move |round| {
                    static_share(trips, chunk, u64::from(threads), id, round)
                })
            });
            for share in shares {
                let of = |j, k| nest.locate(|level| [j, k][level]).expect("inside the nest");
                let counter = of(share.start, 0).0;
                let seen: Vec<u64> = share
                    .flat_map(|j| (0..3).map(move |k| (j, k)))
                    .map(|(j, k)| {
                        assert!(
                            std::ptr::eq(of(j, k).0, counter),
                            "{kind:?} {chunk} {threads} {trips}: {j}"
                        );
                        of(j, k).1
                    })
                    .collect();
                assert!(
                    seen.is_sorted() && seen[0] == 1 && seen.windows(2).all(|two| two[0] < two[1]),
                    "{seen:?}"
                );
                assert!(
                    counters.insert(std::ptr::from_ref(counter).addr()),
                    "two chunks with one counter"
                );
            }
            assert_eq!(counters.len() as u64, nest.pieces.count(trips));
        }
    }

    #[test]
    fn memory_goes_by_chunks_not_by_iterations() {
        let bytes = |kind, chunk| {
            size_of_val(&*Doacross::new(&[20_000_000], Schedule::new(kind, chunk), 2).done)
        };
        assert_eq!(bytes(Kind::Static, 0), COLUMNS as usize * 128);
        assert!(bytes(Kind::Dynamic, 1000) < 200_000);
    }
}
