//! What the master of an explicit group may use.

use super::split::split;

/// One of several groups into which a team is divided, as its master sees it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Threads of each group of the team, this one and its siblings.
    sizes: &'a [usize],
    index: usize,
    /// Their sum.
    total: usize,
    follows: Follows<'a>,
    /// Threads of the program that run when all groups are full.
    threads: u32,
}

/// What may make a group smaller while it is open.
#[derive(Clone, Copy, Debug)]
pub enum Follows<'a> {
    /// Nothing: the team has an exact size.
    Nothing,
    /// What the program has.
    Grant,
    /// What the group around has.
    Outer(&'a Head<'a>),
}

impl<'a> Head<'a> {
    /// Group `index` of groups of `sizes`, whose sum is `total`.
    pub fn new(
        sizes: &'a [usize],
        index: usize,
        total: usize,
        follows: Follows<'a>,
        threads: u32,
    ) -> Self {
        Self { sizes, index, total, follows, threads }
    }

    /// Threads that the group got.
    #[inline]
    pub(crate) fn own(&self) -> usize {
        self.sizes[self.index]
    }

    /// Threads that a region of the group may have now that the program has `limit` processors.
    /// Groups shrink in proportion, at least to their masters, and grow back to what they got. Cost
    /// unless they shrink: a few loads.
    #[inline]
    pub(crate) fn allowance(&self, limit: usize) -> usize {
        let now = match self.follows {
            Follows::Nothing => return self.own(),
            Follows::Grant => limit,
            Follows::Outer(outer) => outer.allowance(limit),
        };
        if now >= self.total { self.own() } else { self.shrunk(now) }
    }

    #[cold]
    fn shrunk(&self, now: usize) -> usize {
        // Fewer processors than masters: those run one thread each, until the groups end.
        if now <= self.sizes.len() { 1 } else { split(now, self.sizes)[self.index].min(self.own()) }
    }

    /// Threads of the program that run when a region of this group has `size`.
    pub(crate) fn threads(&self, size: u32) -> u32 {
        let own = u32::try_from(self.own()).unwrap_or(u32::MAX);
        self.threads.saturating_add(size.saturating_sub(own))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_together_never_use_more_than_the_program_has_unless_masters_alone_do(
            sizes in prop::collection::vec(1_usize..20, 1..12), limit in 0_usize..300,
        ) {
            let total = sizes.iter().sum();
            let allowances: Vec<_> =
                (0..sizes.len()).map(|i| Head::new(&sizes, i, total, Follows::Grant, 1).allowance(limit)).collect();
            let used: usize = allowances.iter().sum();
            prop_assert!(used <= limit.max(sizes.len()));
            prop_assert!(allowances.iter().zip(&sizes).all(|(&now, &own)| now >= 1 && now <= own));
            if limit >= total {
                prop_assert_eq!(allowances, sizes);
            }
        }

        #[test]
        fn inner_groups_shrink_with_the_group_around_them(
            outer in prop::collection::vec(1_usize..9, 1..5), weights in prop::collection::vec(1_usize..5, 1..4),
            limit in 1_usize..50,
        ) {
            let total: usize = outer.iter().sum();
            let mut used = 0;
            let mut masters = 0;
            for (index, &own) in outer.iter().enumerate() {
                let around = Head::new(&outer, index, total, Follows::Grant, 1);
                let weights = &weights[..weights.len().min(own)];
                let sizes = split(own, weights);
                masters += sizes.len();
                for inner in 0..sizes.len() {
                    used += Head::new(&sizes, inner, own, Follows::Outer(&around), 1).allowance(limit);
                }
            }
            prop_assert!(used <= limit.max(total.min(limit) + masters));
            prop_assert!(used <= total);
        }
    }

    #[test]
    fn an_exact_team_does_not_shrink() {
        assert_eq!(Head::new(&[4, 4], 1, 8, Follows::Nothing, 8).allowance(1), 4);
        assert_eq!(Head::new(&[4, 4], 1, 8, Follows::Grant, 8).allowance(4), 2);
        assert_eq!(Head::new(&[4, 4], 1, 8, Follows::Grant, 8).allowance(1), 1);
    }

    #[test]
    fn a_region_larger_than_its_group_adds_to_the_threads_that_run() {
        let head = Head::new(&[4, 12], 0, 16, Follows::Grant, 16);
        assert_eq!(head.threads(2), 16);
        assert_eq!(head.threads(4), 16);
        assert_eq!(head.threads(6), 18);
    }
}
