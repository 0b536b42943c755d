//! What each quicksort does before it forks.

/// Shorter parts are sorted by one thread.
pub(crate) const SHORT: usize = 4096;

/// Numbers in no order.
pub(crate) fn input(length: u64) -> Vec<u64> {
    (0..length).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23)).collect()
}

/// Puts what is less than a pivot before it, and the pivot between.
pub(crate) fn split(data: &mut [u64]) -> (&mut [u64], &mut [u64]) {
    let (first, middle, last) = (data[0], data[data.len() / 2], data[data.len() - 1]);
    let pivot = first.max(middle).min(first.min(middle).max(last));
    let at = data.iter().position(|&x| x == pivot).unwrap_or(0);
    let end = data.len() - 1;
    data.swap(at, end);
    let mut less = 0;
    for i in 0..end {
        if data[i] < pivot {
            data.swap(i, less);
            less += 1;
        }
    }
    data.swap(less, end);
    let (low, high) = data.split_at_mut(less);
    (low, &mut high[1..])
}
