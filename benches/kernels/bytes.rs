//! Bytes, and a table of how often each is there.

pub(crate) type Table = Vec<u32>;

/// Bytes in no order.
pub(crate) fn input(length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53) as u8).collect()
}

pub(crate) fn count(bytes: &[u8]) -> Table {
    let mut table = vec![0; 256];
    bytes.iter().for_each(|&byte| table[usize::from(byte)] += 1);
    table
}

/// The sum of two tables; an empty one is nothing.
pub(crate) fn add(mut a: Table, b: Table) -> Table {
    if a.is_empty() {
        return b;
    }
    a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
    a
}
