//! The right-hand side: one random number a point, +1 at the ten largest, -1 at the ten smallest, 0
//! elsewhere.

use std::ops::Range;

use super::grid::Grid;
use crate::loops::Loops;
use crate::random::Random;

const SEED: u64 = 314_159_265;
const CHARGES: usize = 10;

/// The ten points with the largest keys so far, largest first.
#[derive(Clone, Default)]
struct Peaks {
    points: Vec<(f64, usize)>,
}

impl Peaks {
    fn offer(&mut self, key: f64, place: usize) {
        if self.points.len() == CHARGES {
            if key <= self.points[CHARGES - 1].0 {
                return;
            }
            self.points.pop();
        }
        let at = self.points.partition_point(|point| point.0 >= key);
        self.points.insert(at, (key, place));
    }

    fn merge(mut self, other: Self) -> Self {
        other.points.iter().for_each(|&(key, place)| self.offer(key, place));
        self
    }

    fn put(&self, v: &mut Grid, charge: f64) {
        let n = v.n();
        for &(_, place) in &self.points {
            v.line_mut(place / (n * n) + 1, place / n % n + 1)[place % n + 1] = charge;
        }
    }
}

/// Puts the charges into `v`, which is zero.
pub(super) fn make_charges(loops: &impl Loops, v: &mut Grid) {
    let n = v.n();
    let find = |planes: Range<usize>| {
        let (mut high, mut low) = (Peaks::default(), Peaks::default());
        let places = planes.start * n * n..planes.end * n * n;
        let mut random = Random::skip(SEED, places.start as u64);
        for place in places {
            let key = random.next();
            high.offer(key, place);
            low.offer(-key, place);
        }
        (high, low)
    };
    let none = (Peaks::default(), Peaks::default());
    let (high, low) = loops
        .reduce(0..n, none, find, |left, right| (left.0.merge(right.0), left.1.merge(right.1)));
    high.put(v, 1.0);
    low.put(v, -1.0);
    // Nothing new but the copies.
    v.update(loops, || (), |(), _, _| ());
}
