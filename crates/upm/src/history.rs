//! What became of each page in the calls before, so that pages that two nodes use in turn stop
//! moving.
//!
//! # Rule
//! The nodes that a page left in consecutive calls are its *trail*. A page that should go to a
//! node of its trail is frozen where it is. A call in which it does not move ends the trail. So a
//! page moves at most once less than there are nodes in consecutive calls, whatever the counters
//! say.
//!
//! # Papers
//! P4 section 3.1: a page that "ping-pongs" because of page-level false sharing is frozen. The
//! paper's example has two nodes; the trail is the same for more.

use crate::topology::Node;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    /// The nodes that it left in consecutive calls, a bit for each.
    trail: u64,
    /// The call in which it moved last; 0: none.
    moved: u32,
    frozen: bool,
}

/// The pages' past.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    pages: Vec<Page>,
    call: u32,
}

impl History {
    /// A call of the engine begins, with this many pages.
    pub fn begin_call(&mut self, pages: usize) {
        self.call += 1;
        self.pages.resize(pages, Page::default());
    }

    /// Whether the page must stay, now that it should go to `to`. From then on it is frozen.
    pub fn freezes(&mut self, page: usize, to: Node) -> bool {
        let (call, page) = (self.call, &mut self.pages[page]);
        let is_consecutive = page.moved != 0 && page.moved + 1 == call;
        if is_consecutive && page.trail & 1 << to.0 != 0 {
            page.frozen = true;
        }
        page.frozen
    }

    /// Whether it was frozen before.
    pub fn is_frozen(&self, page: usize) -> bool {
        self.pages.get(page).is_some_and(|page| page.frozen)
    }

    /// It moved in this call, away from `from`.
    pub fn note_move(&mut self, page: usize, from: Node) {
        let (call, page) = (self.call, &mut self.pages[page]);
        if page.moved == 0 || page.moved + 1 != call {
            page.trail = 0;
        }
        page.trail |= 1 << from.0;
        page.moved = call;
    }

    /// How many pages are frozen.
    pub fn frozen(&self) -> usize {
        self.pages.iter().filter(|page| page.frozen).count()
    }

    /// Forgets all: the program's threads are on other nodes now.
    pub fn clear(&mut self) {
        self.pages.clear();
        self.call = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_would_return_is_frozen_for_good() {
        let mut history = History::default();
        history.begin_call(1);
        assert!(!history.freezes(0, Node(1)));
        history.note_move(0, Node(0));
        history.begin_call(1);
        assert!(history.freezes(0, Node(0)));
        history.begin_call(1);
        assert!(history.freezes(0, Node(2)) && history.is_frozen(0));
        assert_eq!(history.frozen(), 1);
        history.clear();
        assert_eq!(history.frozen(), 0);
    }

    #[test]
    fn a_call_without_a_move_lets_it_return() {
        let mut history = History::default();
        history.begin_call(1);
        history.note_move(0, Node(0));
        history.begin_call(1);
        history.begin_call(1);
        assert!(!history.freezes(0, Node(0)));
    }

    #[test]
    fn a_circle_of_three_ends() {
        let mut history = History::default();
        for (from, to) in [(0, 1), (1, 2)] {
            history.begin_call(1);
            assert!(!history.freezes(0, Node(to)));
            history.note_move(0, Node(from));
        }
        history.begin_call(1);
        assert!(history.freezes(0, Node(0)));
    }
}
