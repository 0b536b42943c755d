//! A cube of points with a layer of copies round it, since it is periodic: interior points are
//! 1 ..= n, and point i of a level lies on point 2 i of the next finer one.

use crate::loops::Loops;
use crate::parts::Rows;

/// The longest line.
pub(super) const MOST: usize = 256 + 2;

/// n + 2 points a side, the first index (i1) the fastest.
pub(super) struct Grid {
    n: usize,
    at: Vec<f64>,
}

impl Grid {
    /// A cube of zeros, touched first as the loops run later.
    pub(super) fn new(loops: &impl Loops, n: usize) -> Self {
        let side = n + 2;
        let mut grid = Self { n, at: vec![0.0; side * side * side] };
        grid.clear(loops);
        grid
    }

    /// Interior points a side.
    pub(super) fn n(&self) -> usize {
        self.n
    }

    /// Points a side.
    pub(super) fn side(&self) -> usize {
        self.n + 2
    }

    pub(super) fn clear(&mut self, loops: &impl Loops) {
        let plane = self.side() * self.side();
        loops.each(Rows::new(&mut self.at, plane), |_, mut planes| planes.all().fill(0.0));
    }

    /// The line (i3, i2).
    #[inline]
    pub(super) fn line(&self, i3: usize, i2: usize) -> &[f64] {
        let side = self.side();
        &self.at[(i3 * side + i2) * side..][..side]
    }

    /// The line (i3, i2) between the ones before and after it in its plane.
    #[inline]
    pub(super) fn three_lines(&self, i3: usize, i2: usize) -> [&[f64]; 3] {
        let side = self.side();
        let three = &self.at[(i3 * side + i2 - 1) * side..][..3 * side];
        [&three[..side], &three[side..2 * side], &three[2 * side..]]
    }

    /// As [`Grid::line`], to be written.
    pub(super) fn line_mut(&mut self, i3: usize, i2: usize) -> &mut [f64] {
        let side = self.side();
        &mut self.at[(i3 * side + i2) * side..][..side]
    }

    /// All planes by `count`; of an even number of points a side.
    pub(super) fn planes(&mut self, count: usize) -> Rows<'_, f64> {
        let plane = self.side() * self.side();
        Rows::new(&mut self.at, count * plane)
    }

    /// Runs `body` for each interior plane with its number and completes the copies. `begin` makes
    /// what the planes of a piece of the loop use one after the other.
    pub(super) fn update<S>(
        &mut self,
        loops: &impl Loops,
        begin: impl Fn() -> S + Sync,
        body: impl Fn(&mut S, usize, &mut [f64]) + Sync,
    ) {
        let (n, side) = (self.n, self.side());
        let plane = side * side;
        let interior = Rows::new(&mut self.at[plane..(n + 1) * plane], plane);
        loops.each(interior, |first, mut planes| {
            let mut used = begin();
            for (i3, plane) in (first + 1..).zip(planes.iter_mut()) {
                body(&mut used, i3, plane);
                wrap_plane(plane, side);
            }
        });
        self.wrap_planes(loops);
    }

    /// The copies of the outermost planes.
    fn wrap_planes(&mut self, loops: &impl Loops) {
        let (n, side) = (self.n, self.side());
        let plane = side * side;
        let (first, rest) = self.at.split_at_mut(plane);
        let (interior, last) = rest.split_at_mut(n * plane);
        let (from_first, from_last) = (&interior[..plane], &interior[(n - 1) * plane..]);
        let copies = (Rows::new(first, side), Rows::new(last, side));
        loops.each(copies, |row, (mut first, mut last)| {
            let (first, last) = (first.all(), last.all());
            first.copy_from_slice(&from_last[row * side..][..first.len()]);
            last.copy_from_slice(&from_first[row * side..][..last.len()]);
        });
    }
}

/// The copies at the ends of the lines of a plane, and of its outermost lines.
fn wrap_plane(plane: &mut [f64], side: usize) {
    for line in plane[side..(side - 1) * side].chunks_exact_mut(side) {
        line[0] = line[side - 2];
        line[side - 1] = line[1];
    }
    plane.copy_within((side - 2) * side..(side - 1) * side, 0);
    plane.copy_within(side..2 * side, (side - 1) * side);
}
