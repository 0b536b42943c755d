//! How many threads each of several groups gets: proportional shares by the largest remainder, at
//! least one each.

/// Divides `total` among groups in proportion to `weights`: group i's entry is its size. The sizes
/// sum up to `total`, and each is at least 1. A group whose proportional share is below 1 gets 1;
/// the others get their share of the rest, rounded down, and what is left goes to the largest
/// remainders, the first groups first.
///
/// Scaling all weights changes nothing; weights that are all 0 count as equal.
///
/// ```
/// use nanothreads_engine::split::split;
/// assert_eq!(split(16, &[1, 1, 1, 1]), [4, 4, 4, 4]);
/// assert_eq!(split(4, &[3, 1]), [3, 1]);
/// assert_eq!(split(7, &[2, 2, 2]), [3, 2, 2]);
/// assert_eq!(split(4, &[100, 1, 1]), [2, 1, 1]);
/// ```
///
/// # Panics
/// When `total` is less than the number of groups: a group would get nothing.
pub fn split(total: usize, weights: &[usize]) -> Vec<usize> {
    let count = weights.len();
    assert!(
        total >= count,
        "{total} threads cannot be divided among {count} groups: one each is the least"
    );
    if weights.iter().all(|&weight| weight == 0) {
        return (0..count)
            .map(|index| total / count + usize::from(index < total % count))
            .collect();
    }
    // 0: not decided yet.
    let mut sizes = vec![0; count];
    let (mut left, mut weight_left) = (total, sum(weights.iter().copied()));
    // A group whose share is below 1 gets 1, which leaves less for the others, some of which may
    // then be below 1.
    loop {
        let (left_before, weight_before) = (left, weight_left);
        for (size, &weight) in sizes.iter_mut().zip(weights) {
            if *size == 0 && weight as u128 * (left_before as u128) < weight_before {
                *size = 1;
                left -= 1;
                weight_left -= weight as u128;
            }
        }
        if left == left_before {
            break;
        }
    }
    let (to_divide, weight) = (left, weight_left);
    let mut remainders: Vec<(u128, usize)> = Vec::with_capacity(count);
    for (index, size) in sizes.iter_mut().enumerate().filter(|(_, size)| **size == 0) {
        let share = weights[index] as u128 * to_divide as u128;
        *size = usize::try_from(share / weight).expect("a part of `total` fits like it");
        left -= *size;
        remainders.push((share % weight, index));
    }
    remainders.sort_unstable_by_key(|&(remainder, index)| (std::cmp::Reverse(remainder), index));
    // Fewer than there are remainders: each is below 1.
    for &(_, index) in remainders.iter().take(left) {
        sizes[index] += 1;
    }
    sizes
}

fn sum(weights: impl Iterator<Item = usize>) -> u128 {
    weights.map(|weight| weight as u128).sum()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weights() -> impl Strategy<Value = Vec<usize>> {
        prop::collection::vec(prop_oneof![0_usize..5, 0_usize..1000, Just(usize::MAX)], 1..20)
    }

    proptest! {
        #[test]
        fn sizes_sum_up_and_no_group_goes_without(weights in weights(), more in 0_usize..200) {
            let total = weights.len() + more;
            let sizes = split(total, &weights);
            prop_assert_eq!(sizes.len(), weights.len());
            prop_assert_eq!(sizes.iter().sum::<usize>(), total);
            prop_assert!(sizes.iter().all(|&size| size >= 1));
        }

        #[test]
        fn a_heavier_group_is_never_smaller_and_equal_ones_differ_by_one_at_most(weights in weights(), more in 0_usize..200) {
            let sizes = split(weights.len() + more, &weights);
            for (i, (&weight, &size)) in weights.iter().zip(&sizes).enumerate() {
                for (&other_weight, &other_size) in weights.iter().zip(&sizes).skip(i + 1) {
                    if weight > other_weight {
                        prop_assert!(size >= other_size);
                    } else if weight < other_weight {
                        prop_assert!(size <= other_size);
                    } else {
                        prop_assert!(size == other_size || size == other_size + 1, "the first ones get what is left");
                    }
                }
            }
        }

        #[test]
        fn sizes_depend_on_the_proportions_alone(weights in prop::collection::vec(0_usize..1000, 1..20), scale in 1_usize..1000, more in 0_usize..200) {
            let scaled: Vec<_> = weights.iter().map(|weight| weight * scale).collect();
            let total = weights.len() + more;
            prop_assert_eq!(split(total, &weights), split(total, &scaled));
        }

        #[test]
        fn a_group_of_more_than_one_is_within_one_of_the_share_of_the_rest(weights in prop::collection::vec(1_usize..1000, 1..20), more in 0_usize..200) {
            let total = weights.len() + more;
            let sizes = split(total, &weights);
            // Naive oracle: groups above 1 share what groups of 1 leave; floating point is exact
            // enough for a bound of 1.
            let ones = sizes.iter().filter(|&&size| size == 1).count();
            let weight: usize = weights.iter().zip(&sizes).filter(|(_, size)| **size > 1).map(|(weight, _)| weight).sum();
            for (&own, &size) in weights.iter().zip(&sizes).filter(|(_, size)| **size > 1) {
                let share = (total - ones) as f64 * own as f64 / weight as f64;
                prop_assert!((size as f64) < share + 1.0 + 1e-9 + ones as f64);
                prop_assert!((size as f64) > share - 1.0 - 1e-9);
            }
        }
    }

    #[test]
    #[should_panic(expected = "2 threads cannot be divided among 3 groups")]
    fn fewer_threads_than_groups_are_refused() {
        split(2, &[1, 1, 1]);
    }
}
