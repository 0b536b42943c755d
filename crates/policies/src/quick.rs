//! A quick hash for numbers: of cores, caches, nodes and applications.
//!
//! The numbers are the kernel's and the manager's own, so that no program chooses them to collide.
//! The order of a map is never used.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map by numbers.
pub(crate) type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// A set of numbers.
pub(crate) type QuickSet<K> = HashSet<K, BuildHasherDefault<Quick>>;

/// The hash so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Quick(u64);

impl Quick {
    fn mix(&mut self, number: u64) {
        // Multiplying carries low bits up, and the shift brings them down again: a map uses both
        // ends.
        let mixed = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_u128(&mut self, number: u128) {
        // Both halves.
        self.mix(number as u64);
        self.mix((number >> 64) as u64);
    }

    fn write_usize(&mut self, number: usize) {
        self.mix(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::{BuildHasher, Hash};

    use super::*;

    fn spread(of: impl Iterator<Item = impl Hash>) -> (usize, usize) {
        let make = BuildHasherDefault::<Quick>::default();
        let hashes: Vec<u64> = of.map(|it| make.hash_one(it)).collect();
        let low: BTreeSet<u64> = hashes.iter().map(|hash| hash % 4096).collect();
        let high: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        (low.len(), high.len())
    }

    #[test]
    fn numbers_that_follow_each_other_are_spread_over_a_map() {
        // 1024 balls into 4096 boxes fill some 900 of them, and all of 128.
        for (low, high) in [
            spread(0..1024_u32),
            spread((0..1024_u64).map(|it| it * 1024)),
            spread((0..1024_usize).map(|it| (it / 32, (it % 32) as u32))),
        ] {
            assert!(low > 700 && high > 100, "{low} {high}");
        }
    }
}
