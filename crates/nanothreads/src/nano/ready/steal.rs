//! The order in which a thief looks at its team: near first.
//!
//! Members are numbered along processors (F7: a team is a run of consecutive ones), so the distance of two numbers stands
//! for the distance of two processors: neighbours share a core or a cache.

/// All members but `own` of a team of `size`, near ones first.
pub(crate) fn near_first(own: usize, size: usize) -> impl Iterator<Item = usize> {
    (1..size).flat_map(move |distance| {
        let above = own.checked_add(distance).filter(|&member| member < size);
        let below = own.checked_sub(distance);
        above.into_iter().chain(below)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_looked_at_once_in_order_of_distance() {
        for size in 1..20 {
            for own in 0..size {
                let order: Vec<usize> = near_first(own, size).collect();
                assert!(order.iter().is_sorted_by_key(|member| member.abs_diff(own)));
                let mut all: Vec<usize> = order.into_iter().chain([own]).collect();
                all.sort_unstable();
                assert_eq!(all, (0..size).collect::<Vec<_>>());
            }
        }
    }
}
