//! Things sorted by a small number, in bitmaps: what is taken from and put back often costs a few
//! instructions.

/// Racks with shelves 0, 1, ...; on each rack things 0, 1, ..., each on at most one of its shelves.
/// All of them are in one piece of memory, so that a copy of many small racks costs little.
///
/// Putting and removing is O(things / 64) at worst; finding is O((things + shelves) / 64).
#[derive(Debug, Clone, Default)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) struct Racks {
    racks: Vec<Rack>,
    words: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(PartialEq))]
struct Rack {
    /// Where its words begin: first the head, then shelf after shelf.
    begin: usize,
    /// Words that say which shelves hold something.
    head: usize,
    /// Words of a shelf.
    width: usize,
}

impl Rack {
    /// Where the words of a shelf begin.
    fn shelf(self, shelf: usize) -> usize {
        self.begin + self.head + shelf * self.width
    }
}

impl Racks {
    /// For each rack room for so many things and shelves.
    pub(super) fn new(sizes: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let mut words = 0;
        let rack = |(things, shelves): (usize, usize)| {
            let (head, width) = (shelves.div_ceil(64), things.div_ceil(64));
            let rack = Rack { begin: words, head, width };
            words += head + width * shelves;
            rack
        };
        let racks = sizes.into_iter().map(rack).collect();
        Self { racks, words: vec![0; words] }
    }

    /// Puts a thing that lies on no shelf of this rack onto this one.
    pub(super) fn put(&mut self, rack: usize, shelf: usize, thing: usize) {
        let rack = self.racks[rack];
        self.words[rack.shelf(shelf) + thing / 64] |= 1 << (thing % 64);
        self.words[rack.begin + shelf / 64] |= 1 << (shelf % 64);
    }

    /// Removes a thing from the shelf on which it lies.
    pub(super) fn remove(&mut self, rack: usize, shelf: usize, thing: usize) {
        let rack = self.racks[rack];
        let begin = rack.shelf(shelf);
        self.words[begin + thing / 64] &= !(1 << (thing % 64));
        if self.words[begin..begin + rack.width].iter().all(|word| *word == 0) {
            self.words[rack.begin + shelf / 64] &= !(1 << (shelf % 64));
        }
    }

    /// The lowest shelf from this one up that holds something, and the least thing on it.
    pub(super) fn at_least(&self, rack: usize, shelf: usize) -> Option<(usize, usize)> {
        let rack = self.racks[rack];
        let first = shelf / 64;
        let mut mask = u64::MAX << (shelf % 64);
        let head = &self.words[rack.begin..rack.begin + rack.head];
        for (i, word) in head.iter().enumerate().skip(first) {
            if word & mask != 0 {
                return self.least(rack, i * 64 + (word & mask).trailing_zeros() as usize);
            }
            mask = u64::MAX;
        }
        None
    }

    /// The highest shelf that holds something, and the least thing on it.
    pub(super) fn highest(&self, rack: usize) -> Option<(usize, usize)> {
        let rack = self.racks[rack];
        let head = &self.words[rack.begin..rack.begin + rack.head];
        let (i, word) = head.iter().enumerate().rfind(|(_, word)| **word != 0)?;
        self.least(rack, i * 64 + word.ilog2() as usize)
    }

    fn least(&self, rack: Rack, shelf: usize) -> Option<(usize, usize)> {
        let begin = rack.shelf(shelf);
        let (i, word) = self.words[begin..begin + rack.width]
            .iter()
            .enumerate()
            .find(|(_, word)| **word != 0)?;
        Some((shelf, i * 64 + word.trailing_zeros() as usize))
    }
}
