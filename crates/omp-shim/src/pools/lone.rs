//! Where libraries are that have a single thread and are not kept: a thread that begins in one of
//! them tells that it has more from now on. So they cost a thread that is made some loads, and may
//! be closed.

use super::libraries::SLOTS;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Addresses of such libraries; what is empty has none.
#[derive(Debug)]
pub(super) struct Spans([(AtomicUsize, AtomicUsize); SLOTS]);

impl Spans {
    pub(super) const fn none() -> Self {
        Self([const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; SLOTS])
    }

    /// Whether `place` is in one of them. Cost: some loads.
    #[inline]
    pub(super) fn have(&self, place: usize) -> bool {
        // ORDERING: Relaxed, all of this file - hints: one that is half of another costs a look at
        // what there is, or misses one.
        self.0.iter().any(|(begin, end)| (begin.load(Relaxed)..end.load(Relaxed)).contains(&place))
    }

    /// One more, where there is room.
    pub(super) fn add(&self, span: &Range<usize>) {
        let is_free =
            |(begin, end): &&(AtomicUsize, AtomicUsize)| begin.load(Relaxed) >= end.load(Relaxed);
        if let Some((begin, end)) = self.0.iter().find(is_free) {
            begin.store(span.start, Relaxed);
            end.store(span.end, Relaxed);
        }
    }

    pub(super) fn clear(&self) {
        self.0.iter().for_each(|(_, end)| end.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_in_one_of_the_spans_that_were_added() {
        let spans = Spans::none();
        assert!(!spans.have(0));
        spans.add(&(10..20));
        spans.add(&(30..40));
        assert!([10, 19, 30].iter().all(|place| spans.have(*place)));
        assert!([0, 9, 20, 29, 40].iter().all(|place| !spans.have(*place)));
        (0..SLOTS).for_each(|at| spans.add(&(100 * at + 50..100 * at + 60)));
        assert!(spans.have(10) && !spans.have(100 * (SLOTS - 1) + 50), "there is no room");
        spans.clear();
        assert!(!spans.have(10) && !spans.have(35));
    }
}
