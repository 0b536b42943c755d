//! Things sorted by a small number, in bitmaps: what is taken from and put back often costs a few
//! instructions.

/// Things 0, 1, ..., each on at most one of the shelves 0, 1, ...
///
/// Putting and removing is O(things / 64) at worst; finding is O((things + shelves) / 64).
#[derive(Debug, Clone, Default)]
pub(super) struct Shelves {
    /// Words of a shelf.
    width: usize,
    /// Words that say which shelves hold something.
    head: usize,
    /// The head, then shelf after shelf.
    words: Vec<u64>,
}

impl Shelves {
    /// Room for `things` things on `shelves` shelves.
    pub(super) fn new(things: usize, shelves: usize) -> Self {
        let (width, head) = (things.div_ceil(64), shelves.div_ceil(64));
        Self { width, head, words: vec![0; head + width * shelves] }
    }

    /// Puts a thing that lies on no shelf onto this one.
    pub(super) fn put(&mut self, shelf: usize, thing: usize) {
        self.words[self.head + shelf * self.width + thing / 64] |= 1 << (thing % 64);
        self.words[shelf / 64] |= 1 << (shelf % 64);
    }

    /// Removes a thing from the shelf on which it lies.
    pub(super) fn remove(&mut self, shelf: usize, thing: usize) {
        let begin = self.head + shelf * self.width;
        self.words[begin + thing / 64] &= !(1 << (thing % 64));
        if self.words[begin..begin + self.width].iter().all(|word| *word == 0) {
            self.words[shelf / 64] &= !(1 << (shelf % 64));
        }
    }

    /// The lowest shelf from this one up that holds something, and the least thing on it.
    pub(super) fn at_least(&self, shelf: usize) -> Option<(usize, usize)> {
        let first = shelf / 64;
        let mut mask = u64::MAX << (shelf % 64);
        for (i, word) in self.words[..self.head].iter().enumerate().skip(first) {
            if word & mask != 0 {
                return self.least(i * 64 + (word & mask).trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// The highest shelf that holds something, and the least thing on it.
    pub(super) fn highest(&self) -> Option<(usize, usize)> {
        let (i, word) =
            self.words[..self.head].iter().enumerate().rfind(|(_, word)| **word != 0)?;
        self.least(i * 64 + word.ilog2() as usize)
    }

    fn least(&self, shelf: usize) -> Option<(usize, usize)> {
        let begin = self.head + shelf * self.width;
        let (i, word) = self.words[begin..begin + self.width]
            .iter()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        Some((shelf, i * 64 + word.trailing_zeros() as usize))
    }
}
