//! Where a worker wakes, unless it is bound: a hint (D2).
//!
//! Threads of exact inner teams for which there is no processor sit beside their masters where
//! several masters have such at the same time, and elsewhere where one has ([`Home::beyond`]):
//! masters show each other when theirs work ([`beyond`](super::beyond)).

use crate::program::program;
use platform::affinity::{CpuId, current_cpu};

/// Where a worker wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// On the processor of the worker with this number: its own, most often.
    Of(usize),
    /// On the processor of its master, which wakes it.
    Beside,
    /// On the processor that is this many places after that one in the program's mask, round and
    /// round.
    Behind(usize),
}

impl Home {
    /// That of an inner team's thread number `index` beyond those that the program has processors
    /// for, where `lent` says the numbers of the team's others; `together`: other masters inside
    /// the same region have such threads at the same time.
    ///
    /// Several masters: all processors have work. The team's are its master's and those of `lent`,
    /// which the first ones beyond share. So teams of two inside a team that has all processors
    /// have one processor each: a waiter there hands it to the thread that it waits for, and two
    /// changes on each processor make a region, where teams whose members sit crosswise make twice
    /// as many.
    ///
    /// One master: what the others of the region around sit on may be idle, and the master's is
    /// not.
    pub(crate) fn beyond(
        index: usize,
        lent: impl Fn(usize) -> Option<usize>,
        together: bool,
    ) -> Option<Self> {
        if !together {
            return Some(Self::Behind(index + 1));
        }
        if index == 0 { Some(Self::Beside) } else { lent(index - 1).map(Self::Of) }
    }

    /// The processor, for the caller's workers; `None` when the mask has one only. That of a number
    /// is the one at this place in the program's mask, or, where the caller runs on that one, the
    /// first (which is the caller's in the numbering): so each number has a processor of its own,
    /// and keeps it when the caller moves.
    pub(crate) fn processor(self) -> Option<CpuId> {
        let (mask, here) = (program().mask(), current_cpu());
        let count = mask.len();
        if count < 2 {
            return None;
        }
        match self {
            Self::Of(number) => {
                let own = mask.iter().nth(number % count);
                if own == Some(here) { mask.first() } else { own }
            }
            Self::Beside => Some(here),
            Self::Behind(places) => {
                let place = mask.iter().position(|cpu| cpu == here).unwrap_or(0);
                mask.iter().nth((place + places) % count)
            }
        }
    }

    /// As one word.
    pub(crate) fn to_word(self) -> usize {
        match self {
            Self::Beside => 0,
            Self::Of(number) => number << 1 | 1,
            Self::Behind(places) => places << 1,
        }
    }

    /// What `to_word` made of it.
    pub(crate) fn from_word(word: usize) -> Self {
        match (word & 1, word >> 1) {
            (1, number) => Self::Of(number),
            (_, 0) => Self::Beside,
            (_, places) => Self::Behind(places),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn homes_are_words_and_back() {
        for home in [Home::Beside, Home::Of(0), Home::Of(7), Home::Behind(1), Home::Behind(9)] {
            assert_eq!(Home::from_word(home.to_word()), home);
        }
    }

    #[test]
    fn a_thread_beyond_the_processors_sits_beside_its_master_unless_that_is_the_only_one() {
        let nobody = |_| None;
        assert_eq!(Home::beyond(0, nobody, true), Some(Home::Beside));
        assert_eq!(Home::beyond(1, nobody, true), None);
        let places: Vec<_> = (0..3).map(|index| Home::beyond(index, nobody, false)).collect();
        assert_eq!(places, [1, 2, 3].map(|places| Some(Home::Behind(places))));
        if program().mask().len() > 1 {
            // The thread may be moved at any time: once in a while it is not.
            let here = || {
                (0..1000).find_map(|_| {
                    Some(current_cpu()).filter(|cpu| Home::Beside.processor() == Some(*cpu))
                })
            };
            assert!(here().is_some());
            let around = Home::Behind(program().mask().len());
            assert!((0..1000).any(|_| around.processor() == Some(current_cpu())));
            assert!((0..1000).any(|_| Home::Behind(1).processor() != Some(current_cpu())));
        }
    }
}
