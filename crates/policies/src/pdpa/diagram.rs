//! The state diagram of one application under `pdpa`: what a report means for its allocation.
//!
//! | state  | report on the allocation                           | next   | allocation        |
//! |--------|----------------------------------------------------|--------|-------------------|
//! | NO_REF | efficient enough to grow, below the request        | P_INC  | + step            |
//! | NO_REF | efficient, but not enough to grow or at the request| STABLE | kept              |
//! | NO_REF | inefficient, more than its minimum                 | P_DEC  | - step            |
//! | NO_REF | inefficient on its minimum                         | STABLE | kept              |
//! | P_INC  | as the first, and the speedup grew                 | P_INC  | + step            |
//! | P_INC  | as the second, and the speedup grew                | STABLE | kept              |
//! | P_INC  | inefficient, or the speedup did not grow           | STABLE | last that was good|
//! | P_DEC  | inefficient, more than its minimum                 | P_DEC  | - step            |
//! | P_DEC  | inefficient on its minimum                         | STABLE | kept              |
//! | P_DEC  | efficient                                          | STABLE | kept              |
//! | STABLE | any                                                | STABLE | kept              |
//! | P_TEST | efficient                                          | STABLE | kept              |
//! | P_TEST | inefficient                                        | STABLE | last that was good|
//!
//! What is free, and hence whether a step is made, is the business of [`Pdpa`](super::Pdpa): P_INC
//! without a free processor becomes P_STABLE, and P_STABLE with free processors P_TEST.

use serde::{Deserialize, Serialize};

/// Where the search for an application's allocation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PdpaState {
    /// NO_REF: it has not reported on its first allocation.
    NoReference,
    /// P_INC: it was efficient and has a step more.
    Increasing,
    /// P_DEC: it was inefficient and has a step less.
    Decreasing,
    /// P_STABLE: its allocation is found.
    Stable,
    /// P_TEST: processors became free and it tries a step more.
    Testing,
}

/// What a report says of the allocation on which it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// At least the minimum efficiency.
    pub(super) efficient: bool,
    /// Efficient enough to grow; never without `efficient`.
    pub(super) may_grow: bool,
    /// The speedup is higher than on the last good allocation.
    pub(super) grew: bool,
    /// It asks for more than it has.
    pub(super) below_request: bool,
    /// It has no more than its minimum, which is one processor for most.
    pub(super) at_least: bool,
}

/// What becomes of the allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It stays, and was good.
    Keep,
    /// It was good, and a step more is wished for.
    Up,
    /// A step less, no less than the minimum.
    Down,
    /// Back to the last one that was good.
    Back,
}

/// The transition for a report.
pub(super) fn react(state: PdpaState, verdict: Verdict) -> (PdpaState, Step) {
    use PdpaState::{Decreasing, Increasing, NoReference, Stable, Testing};
    let Verdict { efficient, may_grow, grew, below_request, at_least } = verdict;
    let grows = may_grow && below_request;
    match state {
        NoReference | Increasing if efficient && (grew || state == NoReference) => {
            if grows {
                (Increasing, Step::Up)
            } else {
                (Stable, Step::Keep)
            }
        }
        Increasing => (Stable, Step::Back),
        NoReference | Decreasing if !efficient => {
            if at_least {
                (Stable, Step::Keep)
            } else {
                (Decreasing, Step::Down)
            }
        }
        NoReference | Decreasing | Stable => (Stable, Step::Keep),
        Testing => (Stable, if efficient { Step::Keep } else { Step::Back }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table at the head of the file, once more and in full: for each state the answers to
    /// (efficient, may grow, grew, below request, at its minimum).
    #[test]
    fn every_transition_of_the_diagram_is_as_in_the_table() {
        use PdpaState::{Decreasing, Increasing, NoReference, Stable, Testing};
        let any = [false, true];
        let mut seen = 0;
        for state in [NoReference, Increasing, Decreasing, Stable, Testing] {
            for bits in 0..32_u32 {
                let [efficient, may_grow, grew, below_request, at_least] =
                    [1, 2, 4, 8, 16].map(|bit| any[usize::from(bits & bit != 0)]);
                if may_grow && !efficient {
                    continue;
                }
                let expected = match (state, efficient, may_grow, grew, below_request, at_least) {
                    (NoReference, true, true, _, true, _) => (Increasing, Step::Up),
                    (NoReference, true, false, _, _, _) | (NoReference, true, _, _, false, _) => {
                        (Stable, Step::Keep)
                    }
                    (NoReference, false, _, _, _, false) => (Decreasing, Step::Down),
                    (NoReference, false, _, _, _, true) => (Stable, Step::Keep),
                    (Increasing, true, true, true, true, _) => (Increasing, Step::Up),
                    (Increasing, true, false, true, _, _)
                    | (Increasing, true, _, true, false, _) => (Stable, Step::Keep),
                    (Increasing, false, _, _, _, _) | (Increasing, _, _, false, _, _) => {
                        (Stable, Step::Back)
                    }
                    (Decreasing, false, _, _, _, false) => (Decreasing, Step::Down),
                    (Decreasing, false, _, _, _, true) => (Stable, Step::Keep),
                    (Decreasing, true, _, _, _, _) => (Stable, Step::Keep),
                    (Stable, ..) => (Stable, Step::Keep),
                    (Testing, true, ..) => (Stable, Step::Keep),
                    (Testing, false, ..) => (Stable, Step::Back),
                };
                let verdict = Verdict { efficient, may_grow, grew, below_request, at_least };
                assert_eq!(react(state, verdict), expected, "{state:?} {verdict:?}");
                seen += 1;
            }
        }
        // 5 states x 3 (inefficient, efficient, growing) x 8.
        assert_eq!(seen, 120);
    }
}
