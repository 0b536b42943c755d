//! K-means: in each round the points are given to centres, and the centres are moved.

use criterion::Criterion;
use nanothreads::par_for;
use rayon::prelude::*;

const POINTS: usize = 20_000;
const CENTRES: usize = 16;
const ROUNDS: usize = 5;
const PART: usize = 500;

type Point = [f64; 4];

/// Sums and numbers of the points of each centre.
type Sums = Vec<(Point, f64)>;

fn input() -> Vec<Point> {
    let value = |i: usize, k: usize| {
        let noise = ((i * 4 + k) as f64 * 0.754_877_666_25).fract();
        ((i * 7 + k * 3) % CENTRES) as f64 + noise
    };
    (0..POINTS).map(|i| [0, 1, 2, 3].map(|k| value(i, k))).collect()
}

fn apart(a: &Point, b: &Point) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

fn sums(points: &[Point], centres: &[Point]) -> Sums {
    let mut sums = vec![([0.0; 4], 0.0); CENTRES];
    for point in points {
        let nearest = (0..CENTRES)
            .min_by(|&a, &b| apart(point, &centres[a]).total_cmp(&apart(point, &centres[b])))
            .unwrap_or(0);
        (0..4).for_each(|k| sums[nearest].0[k] += point[k]);
        sums[nearest].1 += 1.0;
    }
    sums
}

fn add(mut a: Sums, b: Sums) -> Sums {
    if a.is_empty() {
        return b;
    }
    for (a, b) in a.iter_mut().zip(b) {
        (0..4).for_each(|k| a.0[k] += b.0[k]);
        a.1 += b.1;
    }
    a
}

fn run(points: &[Point], sums: impl Fn(&[Point]) -> Sums) -> Vec<f64> {
    let mut centres: Vec<Point> = points[..CENTRES].to_vec();
    for _ in 0..ROUNDS {
        let sums = sums(&centres);
        for (centre, (sum, number)) in centres.iter_mut().zip(sums) {
            if number > 0.0 {
                *centre = sum.map(|x| x / number);
            }
        }
    }
    centres.concat()
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let points = input();
    let points = &points;
    let one = || run(points, |centres| sums(points, centres));
    let ours = || {
        run(points, |centres| {
            let part = |chunk: std::ops::Range<usize>| sums(&points[chunk], centres);
            par_for(0..POINTS).reduce_chunks(Sums::new(), part, add)
        })
    };
    let theirs = || {
        run(points, |centres| {
            points.par_chunks(PART).map(|part| sums(part, centres)).reduce(Sums::new, add)
        })
    };
    super::compare(
        criterion,
        "k-means",
        &[("one thread", &one), ("nanothreads", &ours), ("rayon", &theirs)],
        |a, b| super::are_near(a, b),
    );
}
