//! Whether the samples of a granule or a page are enough to say which node uses it most, and which
//! memory needs more of them.
//!
//! # Rule
//! Samples come one by one, and end when they decide: when the node with the most has so many more
//! than the next one that chance hardly explains it. A page that one node uses alone needs
//! [`PAGE`] of them; of one that a node uses three times as much as another the samples say the
//! wrong node once in 82 times (a random walk that ends `PAGE` steps to either side). A granule
//! stands for all its pages, which may be two nodes' in equal parts: [`GRANULE`] samples have to be
//! of one node alone, or their lead [`DOUBTED`]. Where after the first [`DIVIDES`] one of eight is
//! another node's, its pages are counted one by one. Samples that go on without a majority end,
//! too: then there is none.
//!
//! What is decided is not armed any more: to sample all until the last page is decided would take
//! several times the faults.
//!
//! # What no window has seen
//! Memory without a sample is unused, or its threads had no processor in the windows: of eight
//! threads on two processors a window of a millisecond sees one or two. It is armed like what needs
//! samples, and costs nothing if it is unused; for some windows it also counts as undecided.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::table::Table;
use super::windows::MOST_PIECES;

/// By how many samples the first node of a page leads where that is clear; of a granule that no
/// other node has a sample of; of another one.
const PAGE: u32 = 4;
const GRANULE: u32 = 8;
const DOUBTED: u32 = 12;
/// Samples of a granule after which its majority is at least seven of eight, or it is divided.
const DIVIDES: u32 = 8;
/// Samples after which a page, and a granule that cannot be divided, has no majority.
const PAGE_ENDS: u32 = 16;
const GRANULE_ENDS: u32 = 32;
/// What samples say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// There is none.
    None,
    /// More are needed.
    Few,
    /// The pages of the granule have to be looked at.
    Mixed,
    /// Which node uses it most, or that none does.
    Clear,
}

/// Samples for each node.
fn evidence(counts: &[AtomicU32], is_page: bool) -> Evidence {
    let (mut sum, mut first, mut second) = (0u32, 0, 0);
    for count in counts {
        // ORDERING: Relaxed - counters; a sample more or less.
        let count = count.load(Relaxed);
        sum = sum.saturating_add(count);
        (first, second) = (first.max(count), second.max(count.min(first)));
    }
    let (lead, ends) = match (is_page, second) {
        (true, _) => (PAGE, PAGE_ENDS),
        (false, 0) => (GRANULE, GRANULE_ENDS),
        (false, _) => (DOUBTED, GRANULE_ENDS),
    };
    if sum == 0 {
        Evidence::None
    } else if first - second >= lead || sum >= ends {
        Evidence::Clear
    } else if !is_page && sum >= DIVIDES && u64::from(first) * 8 < u64::from(sum) * 7 {
        Evidence::Mixed
    } else {
        Evidence::Few
    }
}

/// A granule, or a page of one that is divided.
struct Unit<'a> {
    addresses: Range<usize>,
    granule: usize,
    evidence: Evidence,
    opened: &'a AtomicU32,
}

/// How far the sampling is.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Memory that needs samples.
    pub(super) pieces: Vec<Range<usize>>,
    /// Pages that need some, and all that do or have enough.
    pub(super) undecided: usize,
    pub(super) used: usize,
}

impl Table {
    fn each_unit(&self, mut tell: impl FnMut(Unit<'_>)) {
        for span in &self.spans {
            let mut address = span.addresses.start;
            while address < span.addresses.end {
                let granule = self.granule_at(span, address);
                // ORDERING: Relaxed - written under the lock that the caller has, or asked for a
                // number.
                let is_page = self.is_fine[granule].load(Relaxed);
                let (end, counts, opened) = if is_page {
                    let page = self.page_at(span, address);
                    let end = (address >> self.page_shift << self.page_shift)
                        .saturating_add(1 << self.page_shift);
                    let counts = &self.pages[page * self.nodes..][..self.nodes];
                    (end.min(span.addresses.end), counts, &self.pages_opened[page])
                } else {
                    let counts = &self.granules[granule * self.nodes..][..self.nodes];
                    (self.granule_range(span, address).end, counts, &self.opened[granule])
                };
                let evidence = evidence(counts, is_page);
                tell(Unit { addresses: address..end, granule, evidence, opened });
                address = end;
            }
        }
    }

    /// Has the pages of granules without a majority counted one by one, of at most so many
    /// granules; returns how many those are.
    pub(super) fn divide(&self, room: usize) -> usize {
        let mut divided = 0;
        self.each_unit(|unit| {
            if unit.evidence == Evidence::Mixed && divided < room {
                // ORDERING: Relaxed - written under the lock; a handler that sees it late counts
                // one sample for the granule, which is not read any more.
                self.is_fine[unit.granule].store(true, Relaxed);
                divided += 1;
            }
        });
        divided
    }

    /// What needs samples; memory that has none does if it is waited for.
    pub(super) fn survey(&self, waits: bool) -> Survey {
        let mut survey = Survey::default();
        self.each_unit(|unit| {
            let pages = unit.addresses.len() >> self.page_shift;
            let is_undecided = match unit.evidence {
                Evidence::Clear => false,
                Evidence::Few | Evidence::Mixed => true,
                Evidence::None if waits => true,
                Evidence::None => return,
            };
            survey.used += pages;
            if is_undecided {
                survey.undecided += pages;
                join(&mut survey.pieces, unit.addresses);
            }
        });
        self.close_gaps(&mut survey.pieces);
        survey
    }

    /// All of the spans.
    pub(super) fn whole(&self) -> Vec<Range<usize>> {
        self.spans.iter().map(|span| span.addresses.clone()).collect()
    }

    /// What is not in these pieces counts as opened in the window that begins now.
    pub(super) fn leave_out(&self, pieces: &[Range<usize>], window: u32) {
        // Both ascend within each span, and have the spans in the same order.
        let mut pieces = pieces.iter().peekable();
        self.each_unit(|unit| {
            let is_after = |piece: &&Range<usize>| piece.end == unit.addresses.end;
            let is_within =
                pieces.peek().is_some_and(|piece| piece.contains(&unit.addresses.start));
            if !is_within {
                // ORDERING: Relaxed - nothing of it is armed.
                unit.opened.store(window, Relaxed);
            } else if pieces.peek().is_some_and(is_after) {
                pieces.next();
            }
        });
    }

    /// What was armed and not opened since the window began, in pieces without a gap; nothing where
    /// these are more than `most`.
    pub(super) fn unopened(&self, most: usize) -> Vec<Range<usize>> {
        let mut pieces = Vec::new();
        // ORDERING: Relaxed throughout - in a pause, which comes after the accesses of the region.
        let window = self.window.load(Relaxed);
        self.each_unit(|unit| {
            if unit.opened.load(Relaxed) != window {
                join(&mut pieces, unit.addresses);
            }
        });
        if pieces.len() > most { Vec::new() } else { pieces }
    }

    /// Joins pieces of a span over the smallest gaps, until there are `MOST_PIECES`, or one of each
    /// span.
    fn close_gaps(&self, pieces: &mut Vec<Range<usize>>) {
        if pieces.len() <= MOST_PIECES {
            return;
        }
        let span_of =
            |address| self.spans.iter().position(|span| span.addresses.contains(&address));
        let gap = |one: &Range<usize>, next: &Range<usize>| {
            let is_same = span_of(one.start) == span_of(next.start);
            is_same.then(|| next.start - one.end)
        };
        let mut gaps: Vec<usize> =
            pieces.windows(2).filter_map(|pair| gap(&pair[0], &pair[1])).collect();
        gaps.sort_unstable();
        let between = pieces.len() - MOST_PIECES;
        let Some(largest) = gaps.get(between.min(gaps.len()).saturating_sub(1)).copied() else {
            return;
        };
        let mut joined: Vec<Range<usize>> = Vec::new();
        for piece in pieces.drain(..) {
            match joined.last_mut() {
                Some(last) if gap(last, &piece).is_some_and(|gap| gap <= largest) => {
                    last.end = piece.end;
                }
                _ => joined.push(piece),
            }
        }
        *pieces = joined;
    }
}

/// Adds a range, which is one with the last where it begins at its end.
fn join(pieces: &mut Vec<Range<usize>>, range: Range<usize>) {
    match pieces.last_mut().filter(|last| last.end == range.start) {
        Some(last) => last.end = range.end,
        None => pieces.push(range),
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{ArmedSpan, Means};
    use super::*;
    use proptest::prelude::*;

    const BEGIN: usize = 0x4000_0000;

    /// Spans of so many pages, with a hole of a page between them, on two nodes.
    fn table(spans: &[usize]) -> Table {
        let (mut own, mut begin, mut page, mut granule) = (Vec::new(), BEGIN + 4096, 0, 0);
        for pages in spans {
            let addresses = begin..begin + pages * 4096;
            own.push(ArmedSpan { addresses: addresses.clone(), page, granule });
            granule += ((addresses.end - 1) >> 16) - (addresses.start >> 16) + 1;
            (page, begin) = (page + pages, addresses.end + 4096);
        }
        let zeros = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        Table {
            means: Means::Rights,
            spans: own,
            page_shift: 12,
            granule_shift: 16,
            nodes: 2,
            node_of: vec![0, 1],
            processors: Vec::new(),
            pages: zeros(page * 2),
            granules: zeros(granule * 2),
            is_fine: (0..granule).map(|_| false.into()).collect(),
            window: 0.into(),
            opened: zeros(granule),
            pages_opened: zeros(page),
            is_running: false.into(),
            faults: 0.into(),
            fallbacks: 0.into(),
        }
    }

    fn of(counts: [u32; 2], is_page: bool) -> Evidence {
        evidence(&counts.map(AtomicU32::new), is_page)
    }

    #[test]
    fn a_lead_decides_and_a_granule_without_one_is_mixed() {
        assert_eq!([of([0, 0], true), of([0, 0], false)], [Evidence::None; 2]);
        assert_eq!([of([3, 0], true), of([0, 7], false)], [Evidence::Few; 2]);
        assert_eq!([of([4, 0], true), of([0, 8], false)], [Evidence::Clear; 2]);
        assert_eq!([of([6, 2], false), of([7, 1], false)], [Evidence::Mixed, Evidence::Few]);
        assert_eq!([of([1, 12], false), of([1, 13], false)], [Evidence::Few, Evidence::Clear]);
        assert_eq!([of([7, 8], true), of([8, 8], true)], [Evidence::Few, Evidence::Clear]);
        assert_eq!([of([16, 15], false), of([16, 16], false)], [Evidence::Mixed, Evidence::Clear]);
    }

    /// Of a page that the first node uses with this probability: how likely the samples name the
    /// other one, and how many there are.
    fn walk(first: f64) -> (f64, f64) {
        let (mut at, mut wrong, mut length) = (vec![([0u32; 2], 1.0)], 0.0, 0.0);
        while let Some((counts, likely)) = at.pop() {
            if of(counts, true) == Evidence::Clear {
                wrong += if counts[1] > counts[0] { likely } else { 0.0 };
                length += likely * f64::from(counts[0] + counts[1]);
                continue;
            }
            at.push(([counts[0] + 1, counts[1]], likely * first));
            at.push(([counts[0], counts[1] + 1], likely * (1.0 - first)));
        }
        (wrong, length)
    }

    #[test]
    fn the_samples_of_a_page_with_a_clear_user_are_few_and_seldom_wrong() {
        let (wrong, length) = walk(0.75);
        assert!(wrong < 0.02 && length < 8.0, "{wrong} in {length} samples");
        let (wrong, length) = walk(0.9);
        assert!(wrong < 0.001 && length < 5.1, "{wrong} in {length} samples");
    }

    #[test]
    fn what_is_decided_is_not_armed_and_what_was_not_seen_is_waited_for() {
        let table = table(&[63, 16]);
        let page = |index: usize| BEGIN + index * 4096;
        assert_eq!(table.survey(true).pieces, table.whole());
        assert_eq!(table.survey(false).used, 0);
        table.granules[2].store(8, Relaxed);
        table.granules[5].store(3, Relaxed);
        let survey = table.survey(true);
        assert_eq!(survey.pieces, [page(1)..page(16), page(32)..page(64), page(65)..page(81)]);
        assert_eq!((survey.undecided, survey.used), (63, 79));
        let survey = table.survey(false);
        assert!(survey.pieces.len() == 1, "{survey:?}");
        assert_eq!(survey.pieces[0], page(32)..page(48));
        assert_eq!((survey.undecided, survey.used), (16, 32));
        // Mixed: its pages from then on, from zero.
        table.granules[4].store(6, Relaxed);
        assert_eq!((table.divide(0), table.divide(1), table.divide(9)), (0, 1, 0));
        assert_eq!(table.survey(true).undecided, 63);
        table.pages[(32 - 1) * 2].store(4, Relaxed);
        assert_eq!(table.survey(true).pieces[1], page(33)..page(64));
    }

    #[test]
    fn what_was_not_armed_is_not_armed_again_after_a_pause() {
        let table = table(&[63, 16]);
        let whole = table.whole();
        let pieces = [whole[0].start + 15 * 4096..whole[0].end, whole[1].clone()];
        table.window.store(7, Relaxed);
        table.leave_out(&pieces, 7);
        assert_eq!(table.unopened(64), pieces);
        table.leave_out(&[], 7);
        assert_eq!(table.unopened(64), []);
    }

    proptest! {
        #[test]
        fn the_pieces_are_few_and_have_all_that_needs_samples_and_nothing_else_than_the_spans(
            spans in proptest::collection::vec(1usize..300, 1..4),
            decided in proptest::collection::vec(0usize..900, 0..600),
        ) {
            let table = table(&spans);
            table.is_fine.iter().for_each(|is_fine| is_fine.store(true, Relaxed));
            let all: usize = spans.iter().sum();
            for page in decided.into_iter().filter(|page| *page < all) {
                table.pages[page * 2 + 1].store(4, Relaxed);
            }
            let survey = table.survey(true);
            prop_assert!(survey.pieces.len() <= MOST_PIECES.max(spans.len()));
            prop_assert!(survey.pieces.windows(2).all(|pair| pair[0].end < pair[1].start));
            let mut undecided = 0;
            for span in &table.spans {
                for address in span.addresses.clone().step_by(4096) {
                    let count = table.pages[table.page_at(span, address) * 2 + 1].load(Relaxed);
                    undecided += usize::from(count == 0);
                    let is_within = survey.pieces.iter().any(|piece| piece.contains(&address));
                    prop_assert!(is_within || count > 0);
                }
            }
            let whole = table.whole();
            let is_own = |piece: &Range<usize>| {
                whole.iter().any(|span| span.start <= piece.start && piece.end <= span.end)
            };
            prop_assert!(survey.pieces.iter().all(is_own));
            prop_assert_eq!((survey.undecided, survey.used), (undecided, all));
        }
    }
}
