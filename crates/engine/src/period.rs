//! Finding the outer loop of a program in the sequence of its regions.
//!
//! A program that iterates forks the same regions in the same order, again and again. For each
//! possible period the detector counts for how many regions in a row each was the one a period ago;
//! the shortest period that held for two rounds more (three in all) is the loop. A loop in a loop
//! looks like a shorter period for a while: a period that broke once has to hold for twice as many
//! rounds the next time. What consists of rounds of a shorter period is no period of its own: it
//! would be another loop each time that the shorter one broke.
//!
//! # Papers
//! SelfAnalyzer (P2 section 4.4) finds it by interposing the parallelizing compiler's calls; the
//! regions of an OpenMP program are as good, and so are the places of a Rust program that fork.

/// The most regions of one iteration.
const LONGEST: usize = 64;
/// The fewest regions that a period has to hold for.
const FEWEST: u32 = 6;
/// Rounds that are asked of a period that broke again and again, at most.
const MOST_ROUNDS: u32 = 32;

/// See the module head.
#[derive(Debug)]
pub struct Period {
    /// The last regions, the youngest at `count - 1`, as a ring.
    regions: [usize; LONGEST],
    count: usize,
    /// For how many regions each period (less one) has held.
    held: [u32; LONGEST],
    /// Rounds that each has to hold for.
    rounds: [u32; LONGEST],
    found: Option<Loop>,
}

/// A loop: its length, and which regions it consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Regions of one iteration.
    pub length: usize,
    /// The same for every order of its regions that differs by where it begins only.
    pub identity: usize,
}

impl Period {
    /// Nothing seen yet.
    #[allow(clippy::new_without_default, reason = "it is said where the search begins")]
    pub fn new() -> Self {
        Self {
            regions: [0; LONGEST],
            count: 0,
            held: [0; LONGEST],
            rounds: [2; LONGEST],
            found: None,
        }
    }

    /// Forgets what was seen, but not which periods broke.
    pub fn begin_again(&mut self) {
        (self.count, self.held, self.found) = (0, [0; LONGEST], None);
    }

    /// The program forks `region`. Returns the loop that it is in.
    pub fn note(&mut self, region: usize) -> Option<Loop> {
        match self.found {
            Some(Loop { length, .. }) if self.before(length) != Some(region) => {
                let rounds = &mut self.rounds[length - 1];
                *rounds = (*rounds * 2).min(MOST_ROUNDS);
                self.begin_again();
            }
            Some(_) => {}
            None => self.look(region),
        }
        self.regions[self.count % LONGEST] = region;
        self.count += 1;
        if let Some(Loop { identity: 0, length }) = self.found {
            let identity =
                (1..=length).filter_map(|back| self.before(back)).fold(1, usize::wrapping_add);
            self.found = Some(Loop { length, identity: identity.max(1) });
        }
        self.found
    }

    fn look(&mut self, region: usize) {
        for length in 1..=LONGEST {
            let held = &mut self.held[length - 1];
            let matches =
                self.count >= length && self.regions[(self.count - length) % LONGEST] == region;
            *held = if matches { *held + 1 } else { 0 };
            if *held >= (self.rounds[length - 1] * length as u32).max(FEWEST)
                && !self.is_repeated(length)
            {
                self.found = Some(Loop { length, identity: 0 });
                return;
            }
        }
    }

    /// Whether the last `length` regions consist of rounds of a shorter period, of which `held` is
    /// known already.
    fn is_repeated(&self, length: usize) -> bool {
        (1..=length / 2).any(|part| {
            length.is_multiple_of(part) && self.held[part - 1] as usize >= length - part
        })
    }

    /// The region that was `back` regions before the next one.
    fn before(&self, back: usize) -> Option<usize> {
        (self.count >= back).then(|| self.regions[(self.count - back) % LONGEST])
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn follow(period: &mut Period, regions: impl IntoIterator<Item = usize>) -> Option<usize> {
        regions
            .into_iter()
            .map(|region| period.note(region))
            .last()
            .flatten()
            .map(|found| found.length)
    }

    #[test]
    fn the_shortest_period_is_found_after_three_rounds() {
        let mut period = Period::new();
        assert_eq!(follow(&mut period, [7, 8, 9, 7, 8, 9, 7, 8]), None);
        assert_eq!(follow(&mut period, [9]), Some(3));
        assert_eq!(follow(&mut period, [7, 8, 9, 7]), Some(3));
        assert_eq!(follow(&mut period, [7]), None, "it broke");
    }

    #[test]
    fn a_loop_in_a_loop_is_outgrown() {
        let mut period = Period::new();
        let outer: Vec<usize> = std::iter::once(1).chain(std::iter::repeat_n(2, 12)).collect();
        let found = follow(&mut period, std::iter::repeat_n(outer, 40).flatten());
        assert_eq!(found, Some(13));
    }

    #[test]
    fn rounds_of_a_loop_that_ended_before_are_no_loop_of_their_own() {
        let mut period = Period::new();
        for _ in 0..50 {
            for (regions, rounds) in [([1, 2, 1], 60), ([3, 4, 5], 60)] {
                let found = follow(&mut period, std::iter::repeat_n(regions, rounds).flatten());
                assert_eq!(found, Some(3));
            }
        }
    }

    #[test]
    fn a_loop_is_the_same_wherever_it_is_entered() {
        let (mut one, mut other) = (Period::new(), Period::new());
        let mut last = [None; 2];
        for round in 0..40 {
            last = [one.note([3, 4, 5][round % 3]), other.note([5, 3, 4][round % 3])];
        }
        assert!(last[0].is_some() && last[0] == last[1]);
    }

    #[test]
    fn no_period_is_seen_where_there_is_none() {
        let mut period = Period::new();
        let mut state = 1_usize;
        for _ in 0..10_000 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            assert_eq!(period.note(state >> 60), None);
        }
    }
}
