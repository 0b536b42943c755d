//! Data that several threads write, cut into parts at element or row boundaries: what a parallel
//! loop deals.

/// What can be cut in two: exclusive borrows of slices, rows and slabs, and several of the same
/// length together.
pub trait Parts: Send + Sized {
    /// How many elements (rows) there are.
    fn count(&self) -> usize;

    /// The first `count` of them, and the others.
    fn cut(self, count: usize) -> (Self, Self);

    /// `pieces` parts whose counts differ by 1 at most, each with the number of its first element.
    fn deal(self, pieces: usize) -> Vec<(usize, Self)> {
        let count = self.count();
        let mut list = Vec::with_capacity(pieces);
        let (mut rest, mut begin) = (self, 0);
        for piece in 1..pieces {
            let end = count * piece / pieces;
            let (part, after) = rest.cut(end - begin);
            list.push((begin, part));
            (rest, begin) = (after, end);
        }
        list.push((begin, rest));
        list
    }
}

impl<T: Send> Parts for &mut [T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn cut(self, count: usize) -> (Self, Self) {
        self.split_at_mut(count)
    }
}

/// Rows of the same length, one after another.
#[derive(Debug)]
pub struct Rows<'a, T> {
    all: &'a mut [T],
    length: usize,
}

impl<'a, T> Rows<'a, T> {
    /// The rows of `all`, each `length` long.
    pub fn new(all: &'a mut [T], length: usize) -> Self {
        debug_assert!(all.len().is_multiple_of(length), "{} / {length}", all.len());
        Self { all, length }
    }

    /// One row after the other.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        self.all.chunks_exact_mut(self.length)
    }

    /// All rows as they lie in memory.
    pub fn all(&mut self) -> &mut [T] {
        self.all
    }
}

impl<T: Send> Parts for Rows<'_, T> {
    fn count(&self) -> usize {
        self.all.len() / self.length
    }

    fn cut(self, count: usize) -> (Self, Self) {
        let (first, second) = self.all.split_at_mut(count * self.length);
        (Self::new(first, self.length), Self::new(second, self.length))
    }
}

/// The same rows of several planes.
#[derive(Debug)]
pub struct Slabs<'a, T> {
    planes: Vec<&'a mut [T]>,
    length: usize,
}

impl<'a, T> Slabs<'a, T> {
    /// The rows of `length` elements of the planes of `plane` elements, that `all` consists of.
    pub fn new(all: &'a mut [T], plane: usize, length: usize) -> Self {
        Self { planes: all.chunks_exact_mut(plane).collect(), length }
    }

    /// These rows of each plane.
    pub fn planes(&mut self) -> &mut [&'a mut [T]] {
        &mut self.planes
    }
}

impl<T: Send> Parts for Slabs<'_, T> {
    fn count(&self) -> usize {
        self.planes.first().map_or(0, |plane| plane.len() / self.length)
    }

    fn cut(self, count: usize) -> (Self, Self) {
        let Self { planes, length } = self;
        let cut = planes.into_iter().map(|plane| plane.split_at_mut(count * length));
        let (first, second) = cut.unzip();
        (Self { planes: first, length }, Self { planes: second, length })
    }
}

impl<A: Parts, B: Parts> Parts for (A, B) {
    fn count(&self) -> usize {
        debug_assert_eq!(self.0.count(), self.1.count());
        self.0.count()
    }

    fn cut(self, count: usize) -> (Self, Self) {
        let (a, b) = (self.0.cut(count), self.1.cut(count));
        ((a.0, b.0), (a.1, b.1))
    }
}

impl<A: Parts, B: Parts, C: Parts> Parts for (A, B, C) {
    fn count(&self) -> usize {
        debug_assert_eq!(self.0.count(), self.1.count());
        debug_assert_eq!(self.0.count(), self.2.count());
        self.0.count()
    }

    fn cut(self, count: usize) -> (Self, Self) {
        let (a, b, c) = (self.0.cut(count), self.1.cut(count), self.2.cut(count));
        ((a.0, b.0, c.0), (a.1, b.1, c.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dealt_parts_cover_all_once_and_differ_by_one_row_at_most() {
        for rows in 0..12 {
            for pieces in 1..6 {
                let (mut a, mut b) = (vec![0; rows], vec![0; 3 * rows]);
                let parts = (a.as_mut_slice(), Rows::new(&mut b, 3)).deal(pieces);
                assert_eq!(parts.len(), pieces);
                for (first, (a, mut b)) in parts {
                    assert!(a.len() * pieces <= rows + pieces && (a.len() + 1) * pieces >= rows);
                    for (i, (a, b)) in a.iter_mut().zip(b.iter_mut()).enumerate() {
                        *a += first + i + 1;
                        b[2] += first + i + 1;
                    }
                }
                let expected: Vec<_> = (1..=rows).collect();
                assert_eq!(a, expected);
                assert_eq!(b.iter().copied().skip(2).step_by(3).collect::<Vec<_>>(), expected);
            }
        }
    }

    #[test]
    fn a_slab_has_the_same_rows_of_each_plane() {
        // Two planes of four rows of three.
        let mut all: Vec<_> = (0..24).collect();
        let (mut first, mut second) = Slabs::new(&mut all, 12, 3).cut(1);
        assert_eq!((first.count(), second.count()), (1, 3));
        assert_eq!(*first.planes()[1], [12, 13, 14]);
        assert_eq!(second.planes()[0][0], 3);
        assert_eq!(second.planes()[1].len(), 9);
    }
}
