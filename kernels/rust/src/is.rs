//! IS: ranks ten times a sequence of integer keys, two keys changed before each ranking.
//!
//! A key's rank is the number of smaller keys. Keys are first parted into buckets, so that the
//! counters of one bucket stay in the first cache.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::checks::Checks;
use crate::loops::Loops;
use crate::options::Options;
use crate::parts::Rows;
use crate::program;
use crate::random::Random;
use crate::report::Report;

const SEED: u64 = 314_159_265;
const ITERATIONS: usize = 10;
const TESTS: usize = 5;
const BUCKETS_LOG2: u32 = 10;
const BUCKETS: usize = 1 << BUCKETS_LOG2;
/// Buckets that a thread takes at once.
const PORTION: usize = 8;

struct Class {
    log2_keys: u32,
    log2_range: u32,
    test_index: [usize; TESTS],
    test_rank: [i64; TESTS],
    /// How the rank of a test key moves from one iteration to the next: up by `iteration + up`
    /// where it rises, else down by `iteration + down`.
    up: i64,
    down: i64,
    rises: [bool; TESTS],
}

const CLASSES: [Class; 4] = [
    Class {
        log2_keys: 16,
        log2_range: 11,
        test_index: [48_427, 17_148, 23_627, 62_548, 4_431],
        test_rank: [0, 18, 346, 64_917, 65_463],
        up: 0,
        down: 0,
        rises: [true, true, true, false, false],
    },
    Class {
        log2_keys: 20,
        log2_range: 16,
        test_index: [357_773, 934_767, 875_723, 898_999, 404_505],
        test_rank: [1_249, 11_698, 1_039_987, 1_043_896, 1_048_018],
        up: -2,
        down: 0,
        rises: [true, true, false, false, false],
    },
    Class {
        log2_keys: 23,
        log2_range: 19,
        test_index: [2_112_377, 662_041, 5_336_171, 3_642_833, 4_250_760],
        test_rank: [104, 17_523, 123_928, 8_288_932, 8_388_264],
        up: -1,
        down: -1,
        rises: [true, true, true, false, false],
    },
    Class {
        log2_keys: 25,
        log2_range: 21,
        test_index: [41_869, 812_306, 5_102_857, 18_232_239, 26_860_214],
        test_rank: [33_422_937, 10_244, 59_149, 33_135_281, 99],
        up: 0,
        down: 0,
        rises: [false, true, true, false, true],
    },
];

/// The ranks of the test keys, one row an iteration.
type Found = [[i64; TESTS]; ITERATIONS];

struct Work {
    /// Values are below this.
    range: usize,
    /// A key's bucket is key >> shift.
    shift: u32,
    /// Parts of the sequence, one a thread.
    chunks: usize,
    /// The sequence.
    key: Vec<u32>,
    /// The keys, bucket by bucket. Atomic, for which places a thread writes is known only as it
    /// does so; a relaxed store is a plain one.
    parted: Vec<AtomicU32>,
    /// Of each value: how many keys are smaller.
    rank: Vec<u32>,
    /// Of each chunk and bucket: counts, then where the next key goes.
    place: Vec<u32>,
    /// Of each bucket in `parted`, and the end of the last one.
    start: Vec<u32>,
}

impl Work {
    fn new(class: &Class, chunks: usize) -> Self {
        let (keys, range) = (1 << class.log2_keys, 1 << class.log2_range);
        Self {
            range,
            shift: class.log2_range - BUCKETS_LOG2,
            chunks,
            key: vec![0; keys],
            parted: (0..keys).map(|_| AtomicU32::new(0)).collect(),
            rank: vec![0; range],
            place: vec![0; chunks * BUCKETS],
            start: vec![0; BUCKETS + 1],
        }
    }

    /// Key i is the sum of four random numbers, scaled to the range.
    fn make_keys(&mut self, loops: &impl Loops) {
        let scale = (self.range / 4) as f64;
        loops.each(self.key.as_mut_slice(), |first, keys| {
            let mut random = Random::skip(SEED, 4 * first as u64);
            for key in keys {
                let mut sum = random.next();
                sum += random.next();
                sum += random.next();
                sum += random.next();
                *key = (scale * sum) as u32;
            }
        });
    }

    fn rank_keys(&mut self, loops: &impl Loops) {
        let Self { shift, chunks, key, parted, rank, place, start, .. } = self;
        let (shift, chunks) = (*shift, *chunks);
        let keys_of = |chunk| &key[bounds(key.len(), chunk, chunks)];

        loops.each(Rows::new(place, BUCKETS), |first, mut counts| {
            for (chunk, counts) in (first..).zip(counts.all().as_chunks_mut().0) {
                count(keys_of(chunk), shift, counts);
            }
        });

        let mut next = 0;
        for (bucket, start) in start[..BUCKETS].iter_mut().enumerate() {
            *start = next;
            for place in place[bucket..].iter_mut().step_by(BUCKETS) {
                (*place, next) = (next, next + *place);
            }
        }
        start[BUCKETS] = next;

        loops.each(Rows::new(place, BUCKETS), |first, mut places| {
            for (chunk, places) in (first..).zip(places.all().as_chunks_mut().0) {
                part(keys_of(chunk), shift, places, parted);
            }
        });

        // Buckets in the middle hold the most keys: handed out as threads come.
        let width = 1_usize << shift;
        loops.unequal(rank, PORTION * width, |portion, ranks| {
            for (bucket, rank) in (PORTION * portion..).zip(ranks.chunks_exact_mut(width)) {
                let keys = &parted[start[bucket] as usize..start[bucket + 1] as usize];
                rank_bucket(keys, start[bucket], rank);
            }
        });
    }

    /// Changes two keys, ranks, and returns the ranks of the test keys.
    fn iterate(&mut self, loops: &impl Loops, class: &Class, iteration: usize) -> [i64; TESTS] {
        self.key[iteration] = iteration as u32;
        self.key[iteration + ITERATIONS] = (self.range - iteration) as u32;
        self.rank_keys(loops);
        class.test_index.map(|test| i64::from(self.rank[self.key[test] as usize]))
    }

    /// Puts each key where its rank says; how many neighbours are in the wrong order, or how many
    /// places stayed empty.
    fn out_of_order(&self) -> usize {
        let mut next = self.rank.clone();
        let mut sorted = vec![None; self.key.len()];
        for &key in &self.key {
            let place = &mut next[key as usize];
            if let Some(sorted) = sorted.get_mut(*place as usize) {
                *sorted = Some(key);
            }
            *place += 1;
        }
        let pairs = sorted.windows(2);
        pairs.filter(|pair| pair[1] < pair[0]).count()
            + sorted.iter().filter(|it| it.is_none()).count()
    }
}

/// The bucket of a key. (The remainder is the number itself, and tells the compiler that there is
/// such a bucket.)
#[inline(always)]
fn bucket_of(key: u32, shift: u32) -> usize {
    (key >> shift) as usize % BUCKETS
}

/// Runs `body` for each key; written out for four, since it is a few instructions.
#[inline(always)]
fn by_fours<T>(keys: &[T], mut body: impl FnMut(&T)) {
    let (fours, rest) = keys.as_chunks::<4>();
    for [a, b, c, d] in fours {
        body(a);
        body(b);
        body(c);
        body(d);
    }
    rest.iter().for_each(body);
}

/// How many keys each bucket has.
fn count(keys: &[u32], shift: u32, counts: &mut [u32; BUCKETS]) {
    counts.fill(0);
    by_fours(keys, |key| counts[bucket_of(*key, shift)] += 1);
}

/// Puts each key where the next one of its bucket goes.
fn part(keys: &[u32], shift: u32, places: &mut [u32; BUCKETS], parted: &[AtomicU32]) {
    by_fours(keys, |&key| {
        let place = &mut places[bucket_of(key, shift)];
        // ORDERING: Relaxed - read after the join of this loop.
        parted[*place as usize].store(key, Relaxed);
        *place += 1;
    });
}

/// How many keys are smaller than each value of a bucket, of which `smaller` are before it.
fn rank_bucket(keys: &[AtomicU32], smaller: u32, rank: &mut [u32]) {
    rank.fill(0);
    // The length is a power of two.
    let mask = rank.len() - 1;
    by_fours(keys, |key| {
        // ORDERING: Relaxed - written before the join of the loop that parts the keys.
        rank[key.load(Relaxed) as usize & mask] += 1;
    });
    let mut smaller = smaller;
    for rank in rank {
        (*rank, smaller) = (smaller, smaller + *rank);
    }
}

/// Part `chunk` of `count` things.
fn bounds(count: usize, chunk: usize, chunks: usize) -> Range<usize> {
    count * chunk / chunks..count * (chunk + 1) / chunks
}

fn check(checks: &mut Checks, class: &Class, found: &Found) {
    for (iteration, ranks) in (1..).zip(found) {
        for (test, &rank) in ranks.iter().enumerate() {
            let moved =
                if class.rises[test] { iteration + class.up } else { -(iteration + class.down) };
            let name = format!("rank {} in iteration {iteration}", test + 1);
            checks.equal(name, rank, class.test_rank[test] + moved);
        }
    }
}

/// The kernel.
#[derive(Debug)]
pub struct Kernel;

impl program::Kernel for Kernel {
    fn run<L: Loops>(loops: &L, options: &Options) -> Report {
        let class = options.class.of(&CLASSES);
        let threads = loops.threads();
        let mut work = Work::new(class, threads);
        let operations = (work.key.len() * ITERATIONS) as f64;
        let mut report = Report::begin("is", options, threads, ITERATIONS, operations);
        while report.again() {
            work.make_keys(loops);
            // Touches all, not timed.
            work.rank_keys(loops);
            let mut found = Found::default();
            report.time(|| {
                for (iteration, ranks) in (1..).zip(&mut found) {
                    *ranks = work.iterate(loops, class, iteration);
                }
            });
            check(report.checks(), class, &found);
            report.checks().equal("keys out of order", work.out_of_order() as i64, 0);
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::Nanothreads;

    #[test]
    fn a_key_at_the_wrong_place_and_an_empty_place_are_seen() {
        let loops = Nanothreads::new(None).unwrap();
        let mut work = Work::new(&CLASSES[0], 3);
        work.make_keys(&loops);
        work.rank_keys(&loops);
        assert_eq!(work.out_of_order(), 0);
        // A value in the middle, of which there are keys.
        work.rank[1024] += 1;
        assert_ne!(work.out_of_order(), 0);
    }

    #[test]
    fn one_wrong_rank_fails() {
        let class = &CLASSES[0];
        let mut found = Found::default();
        for (iteration, ranks) in (1..).zip(&mut found) {
            for (test, rank) in ranks.iter_mut().enumerate() {
                let moved = if class.rises[test] { iteration } else { -iteration };
                *rank = class.test_rank[test] + moved;
            }
        }
        let passes = |found: &Found| {
            let mut checks = Checks::default();
            check(&mut checks, class, found);
            checks.passed()
        };
        assert!(passes(&found));
        found[7][2] += 1;
        assert!(!passes(&found));
    }
}
