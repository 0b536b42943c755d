//! Tables by address: what depends on what is found by where it lies in memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What is known of addresses.
pub type Addresses<V> = HashMap<usize, V, BuildHasherDefault<AddressHasher>>;

/// Spreads addresses, whose low bits are all alike, over a table's buckets. The program chooses its
/// addresses itself: there is no attacker.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize((*byte).into()));
    }

    fn write_usize(&mut self, address: usize) {
        // Fibonacci hashing: the high half of the product is well mixed; the table takes bits from
        // both ends.
        let product = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::AddressHasher;
    use std::collections::HashSet;
    use std::hash::Hasher;

    #[test]
    fn elements_of_an_array_and_pages_differ_in_the_bits_that_a_table_takes() {
        for stride in [8, 64, 4096] {
            let hashes: Vec<u64> = (0..128)
                .map(|i| {
                    let mut hasher = AddressHasher::default();
                    hasher.write_usize(0x7f00_1234_5000 + i * stride);
                    hasher.finish()
                })
                .collect();
            let low: HashSet<u64> = hashes.iter().map(|hash| hash & 0x7f).collect();
            let high: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // 128 balls in 128 bins leave 47 bins empty on average when they fall at random. The
            // low bits choose the bucket, the high ones only tell those in it apart.
            assert!(
                low.len() > 64 && high.len() > 32,
                "stride {stride}: {} and {}",
                low.len(),
                high.len()
            );
        }
    }
}
