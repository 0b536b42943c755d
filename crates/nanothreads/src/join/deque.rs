//! The open halves of one member: its own thread adds and takes back the newest, other members
//! steal the oldest.
//!
//! # Protocol
//! Owner: `push` writes the item, then `bottom + 1` (D1). `pop` writes `bottom - 1` (D2), a fence
//! (D3), reads `top`: more than one item left, and the newest is its own; just one, and it competes
//! for it by moving `top` (D4). Thief: reads `top` (D5), a fence (D6), reads `bottom` (D7), the
//! item, and moves `top` (D4). `top` carries a *tag* beside the index: which piece of work the
//! owner is at. A thief that names a tag gets nothing but what was pushed for that work.
//!
//! # How many items are offered
//! An item that no thief takes costs its owner some 30 ns, and a recursion of depth d passes about
//! d^k / k! joins with k older halves open: a fixed bound of 8 opened most joins of a recursion of
//! depth 30. So the *limit* moves. Work begins with [`CAPACITY`]: a chain of joins opens that many
//! at once. An item that comes back although thieves could have had it says that no thief wants
//! work from this deep: the limit falls to the number of items left, but not below [`CUSHION`]. A
//! theft that the owner sees at its next push or pop raises it to [`CAPACITY`] again. So there are
//! always a few for the thieves that come next, and more are opened as long as thieves take them.
//!
//! The limit is kept as the *brim*, the index of `top` at which the deque counts as full: one
//! comparison says so.
//!
//! # Invariants
//! I1  At most [`CAPACITY`] items, so the ring never moves: an owner that finds it full does not
//!     push.
//! I2  The tag changes only while there is no item, by the owner; no thief moves `top` then.
//! I3  As the owner sees it, `brim <= top <= bottom <= brim + CAPACITY`: it sets the brim by a
//!     `top` that it has read, and later reads are not older.
//!
//! # Races
//! *The last item.* A (owner) and B (thief). By the fences D3 and D6 either B sees A's D2, or A
//! sees B's D4. If B sees it, the item is not there for B. If both still want the item, one of
//! their compare-and-swaps fails. *A slot that is written again.* B reads the slot and sleeps. A
//! pushes into the same slot only when `top` has moved past B's index (I1), so B's compare-and-swap
//! fails. *A tag that changes under a thief.* The index of an empty deque has moved past what B
//! read, or B's `bottom` says that it is empty: B's compare-and-swap fails, or is not tried.
//!
//! # Orderings
//! | access | order | other end |
//! |---|---|---|
//! | `bottom` stores (D1, D2) | Release: what the item points to | D7 Acquire |
//! | D4 compare-and-swap of `top` | AcqRel | D5 Acquire, and itself |
//! | D3, D6 fences | SeqCst: store of `bottom`, load of `top` against load of `top`, load of `bottom` | each other |
//! `brim` and `seen` are the owner's own.
//!
//! The owner's fence is a plain one, not the light half of a membarrier: only few items are ever
//! pushed (I1), and thieves that interrupt a busy owner for each attempt would cost it more.
//!
//! # Papers
//! Chase and Lev, Dynamic circular work-stealing deque, SPAA 2005; Lê, Pop, Cohen and Zappa
//! Nardelli, Correct and efficient work-stealing for weak memory models, PPoPP 2013. Deviations: a
//! fixed ring (I1), the tag.

use platform::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use std::ptr;

/// Items that a member offers at most, when each is wanted.
pub(crate) const CAPACITY: u32 = 16;
/// Items that a member offers when no thief takes them. Enough for a few thieves at once; of a
/// recursion of depth 30 it makes some 500.
pub(crate) const CUSHION: u32 = 3;

/// See the module head.
#[derive(Debug)]
#[repr(C, align(128))]
pub(crate) struct Deque<T> {
    /// High half: the tag. Low half: the index of the oldest item. Writers: the thread that takes
    /// the oldest item; the owner (I2).
    top: AtomicU64,
    /// The index after the newest item. Writer: the owner.
    bottom: AtomicU32,
    /// The index of `top` that means full: the limit below `bottom`. The owner's.
    brim: AtomicU32,
    /// The index of `top` when the owner set the limit last: another one is a theft. The owner's.
    seen: AtomicU32,
    items: [AtomicPtr<T>; CAPACITY as usize],
}

/// The low half.
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is asked for")]
#[inline]
const fn index_of(top: u64) -> u32 {
    top as u32
}

const fn tag_of(top: u64) -> u32 {
    (top >> 32) as u32
}

const fn pack(tag: u32, index: u32) -> u64 {
    ((tag as u64) << 32) | index as u64
}

const fn slot_of(index: u32) -> usize {
    (index % CAPACITY) as usize
}

impl<T> Deque<T> {
    /// Without items.
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self::with_brim(CAPACITY.wrapping_neg())
    }

    /// Without items.
    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self {
            top: AtomicU64::new(0),
            bottom: AtomicU32::new(0),
            brim: AtomicU32::new(CAPACITY.wrapping_neg()),
            seen: AtomicU32::new(0),
            items: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// One that says for ever that it is full, and must never be stolen from.
    #[cfg(not(loom))]
    pub(super) const fn always_full() -> Self {
        Self::with_brim(0)
    }

    #[cfg(not(loom))]
    const fn with_brim(brim: u32) -> Self {
        Self {
            top: AtomicU64::new(0),
            bottom: AtomicU32::new(0),
            brim: AtomicU32::new(brim),
            seen: AtomicU32::new(0),
            items: [const { AtomicPtr::new(ptr::null_mut()) }; CAPACITY as usize],
        }
    }

    /// True when nothing is to be pushed. By the owner. Cost: two loads of one line, which only
    /// thefts take away.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        // ORDERING: Relaxed - `brim` is the owner's; an old `top` makes the answer "full", which is
        // always safe.
        index_of(self.top.load(Relaxed)) == self.brim.load(Relaxed)
    }

    /// Sets the limit for a deque that ends at `bottom`. By the owner.
    fn limit(&self, bottom: u32, limit: u32) {
        // ORDERING: Relaxed - the owner's own word.
        self.brim.store(bottom.wrapping_sub(limit), Relaxed);
    }

    /// True when something was stolen since the owner asked last; `top` is the index that it reads
    /// now.
    fn was_robbed(&self, top: u32) -> bool {
        // ORDERING: Relaxed - the owner's own word.
        let robbed = self.seen.load(Relaxed) != top;
        if robbed {
            // ORDERING: Relaxed - as above.
            self.seen.store(top, Relaxed);
        }
        robbed
    }

    /// True when there is nothing in it, as far as the caller can tell without a fence; certain for
    /// the owner. Cost: two loads.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // ORDERING: Relaxed, both - a hint for thieves, which look again with D5 to D7. Of the
        // owner's words `bottom` is its own, and an old `top` makes the answer "not empty".
        self.bottom.load(Relaxed).wrapping_sub(index_of(self.top.load(Relaxed))).cast_signed() <= 0
    }

    /// Adds an item. By the owner. Cost: two stores.
    ///
    /// # Safety
    /// - The caller is the owner, and the deque is not full.
    /// - `item` is live until it is taken back, or until the thief that stole it is done with it.
    pub(crate) unsafe fn push(&self, item: *const T) {
        debug_assert!(!self.is_full());
        // ORDERING: Relaxed - the owner's own word.
        let bottom = self.bottom.load(Relaxed);
        // ORDERING: Relaxed - how many are wanted.
        let robbed = self.was_robbed(index_of(self.top.load(Relaxed)));
        // ORDERING: Relaxed - the owner's own word.
        let limit = if robbed { CAPACITY } else { bottom.wrapping_sub(self.brim.load(Relaxed)) };
        self.limit(bottom.wrapping_add(1), limit);
        // ORDERING: Relaxed - published by D1.
        self.items[slot_of(bottom)].store(item.cast_mut(), Relaxed);
        // ORDERING: Release (D1) - pairs with D7.
        self.bottom.store(bottom.wrapping_add(1), Release);
    }

    /// Takes the newest item back; false when it, and with it every item, was stolen. By the owner.
    /// Cost: one fence.
    ///
    /// # Safety
    /// - The caller is the owner, and has pushed one item more than it has asked back.
    pub(crate) unsafe fn pop(&self) -> bool {
        // ORDERING: Relaxed - the owner's own word.
        let after = self.bottom.load(Relaxed);
        let newest = after.wrapping_sub(1);
        // ORDERING: Release (D2) - pairs with D7: a thief that reads this store sees older items
        // all the same.
        self.bottom.store(newest, Release);
        // ORDERING: SeqCst (D3) - pairs with D6: see the first race.
        fence(SeqCst);
        // ORDERING: Relaxed - ordered by D3.
        let top = self.top.load(Relaxed);
        let older = newest.wrapping_sub(index_of(top));
        let robbed = self.was_robbed(index_of(top));
        if older.cast_signed() > 0 {
            // ORDERING: Relaxed - the owner's own word.
            let limit = after.wrapping_sub(self.brim.load(Relaxed));
            self.limit(newest, if robbed { CAPACITY } else { limit.min(older.max(CUSHION)) });
            return true;
        }
        // ORDERING: AcqRel/Relaxed (D4) - one of the owner and the thieves gets the last item.
        let won = older == 0
            && self.top.compare_exchange(top, pack(tag_of(top), after), AcqRel, Relaxed).is_ok();
        // Now the deque is empty: `top` is at `after`.
        // ORDERING: Relaxed - the owner's own word.
        self.seen.store(after, Relaxed);
        self.limit(after, if won && !robbed { CUSHION } else { CAPACITY });
        // ORDERING: Release - as D2.
        self.bottom.store(after, Release);
        won
    }

    /// Takes the oldest item, if there is one and, when `tag` is given, the owner is at that work.
    /// By a thief.
    pub(crate) fn steal(&self, tag: Option<u32>) -> Option<*const T> {
        // ORDERING: Acquire (D5) - pairs with D4.
        let top = self.top.load(Acquire);
        if tag.is_some_and(|tag| tag != tag_of(top)) {
            return None;
        }
        // ORDERING: SeqCst (D6) - pairs with D3.
        fence(SeqCst);
        // ORDERING: Acquire (D7) - pairs with D1 and D2.
        let bottom = self.bottom.load(Acquire);
        let index = index_of(top);
        if bottom.wrapping_sub(index).cast_signed() <= 0 {
            return None;
        }
        // ORDERING: Relaxed - written before D1; if it is another one already, D4 fails.
        let item = self.items[slot_of(index)].load(Relaxed);
        let next = pack(tag_of(top), index.wrapping_add(1));
        // ORDERING: AcqRel/Relaxed (D4) - as in `pop`.
        self.top.compare_exchange(top, next, AcqRel, Relaxed).is_ok().then_some(item.cast_const())
    }

    /// From now on the owner works for `tag`, and any thief may have a part of it; returns the tag
    /// before.
    ///
    /// # Safety
    /// - The caller is the owner, and all its items were popped or stolen (I2).
    pub(crate) unsafe fn retag(&self, tag: u32) -> u32 {
        // ORDERING: Relaxed - no thief moves `top` while there is no item.
        let top = self.top.load(Relaxed);
        // ORDERING: Release - pairs with D5.
        self.top.store(pack(tag, index_of(top)), Release);
        self.limit(index_of(top), CAPACITY);
        tag_of(top)
    }

    /// What the owner is at.
    pub(crate) fn tag(&self) -> u32 {
        // ORDERING: Relaxed - for the owner, which writes the tag.
        tag_of(self.top.load(Relaxed))
    }
}

impl<T> Default for Deque<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_owner_takes_the_newest_and_thieves_the_oldest() {
        let (deque, items) = (Deque::new(), [0_u32, 1, 2, 3]);
        // SAFETY: - one thread plays both sides; the items outlive the deque.
        unsafe {
            for item in &items {
                deque.push(item);
            }
            assert_eq!(deque.steal(None), Some(&raw const items[0]));
            assert!(deque.pop(), "3");
            assert_eq!(deque.steal(None), Some(&raw const items[1]));
            assert!(deque.pop(), "2, the last");
            assert_eq!(deque.steal(None), None);
            assert!(!deque.pop(), "1 was stolen");
            assert!(!deque.pop(), "0 was stolen");
        }
    }

    #[test]
    fn it_is_full_at_its_capacity_and_has_room_again_after_a_theft() {
        let (deque, item) = (Deque::new(), 7);
        // SAFETY: - as above.
        unsafe {
            for round in 0..100 {
                for _ in 0..CAPACITY {
                    assert!(!deque.is_full(), "round {round}");
                    deque.push(&raw const item);
                }
                assert!(deque.is_full());
                assert!(deque.steal(None).is_some());
                assert!(!deque.is_full());
                for _ in 1..CAPACITY {
                    assert!(deque.pop());
                }
                assert!(!deque.pop());
            }
        }
    }

    /// A recursion of `depth` levels below the caller's: as joins use a deque. Returns how many
    /// were opened.
    fn recurse(deque: &Deque<u32>, depth: u32, item: &u32) -> u32 {
        if depth == 0 {
            return 0;
        }
        let opens = !deque.is_full();
        if opens {
            // SAFETY: - one thread plays both sides; the item outlives the deque.
            unsafe { deque.push(item) };
        }
        let first = recurse(deque, depth - 1, item);
        if opens {
            // SAFETY: - as above.
            assert!(unsafe { deque.pop() }, "no thread steals");
        }
        u32::from(opens) + first + recurse(deque, depth - 1, item)
    }

    #[test]
    fn a_recursion_without_thieves_opens_few() {
        let depth = 16;
        // Joins with fewer than CUSHION older halves open.
        let cushion: u32 =
            (0..depth).map(|above: u32| 1 + above + above * above.saturating_sub(1) / 2).sum();
        let (deque, item) = (Deque::new(), 7);
        assert_eq!(recurse(&deque, depth, &item), cushion + CAPACITY - CUSHION);
        assert_eq!(recurse(&deque, depth, &item), cushion, "of {} joins", (1 << depth) - 1);
    }

    #[test]
    fn a_theft_opens_as_many_as_fit() {
        let (deque, item) = (Deque::new(), 7);
        let fill = || {
            let mut count = 0;
            while !deque.is_full() {
                // SAFETY: - as above.
                unsafe { deque.push(&raw const item) };
                count += 1;
            }
            count
        };
        // SAFETY: - as above.
        let take_back = |count| (0..count).filter(|_| unsafe { deque.pop() }).count();
        assert_eq!(fill(), CAPACITY);
        assert_eq!(take_back(CAPACITY), CAPACITY as usize);
        assert_eq!(fill(), CUSHION);
        assert!(deque.steal(None).is_some());
        assert_eq!(fill(), CAPACITY - CUSHION + 1, "seen by a push");
        assert!(deque.steal(None).is_some());
        assert_eq!(take_back(1), 1);
        assert_eq!(fill(), 2, "seen by a pop");
        assert_eq!(take_back(CAPACITY), CAPACITY as usize);
    }

    #[test]
    fn a_thief_that_names_another_tag_gets_nothing() {
        let (deque, item) = (Deque::new(), 7);
        // SAFETY: - as above.
        unsafe {
            assert_eq!(deque.retag(5), 0);
            deque.push(&raw const item);
            assert_eq!(deque.steal(Some(4)), None);
            assert!(deque.steal(Some(5)).is_some());
            assert!(!deque.pop());
            assert_eq!(deque.retag(6), 5);
            deque.push(&raw const item);
            assert_eq!(deque.steal(Some(5)), None);
            assert!(deque.pop());
        }
    }

    #[test]
    fn indices_may_wrap() {
        let (deque, item) = (Deque::new(), 7);
        deque.top.store(pack(1, u32::MAX - 1), Relaxed);
        deque.bottom.store(u32::MAX - 1, Relaxed);
        deque.limit(u32::MAX - 1, CAPACITY);
        // SAFETY: - as above.
        unsafe {
            for _ in 0..4 {
                deque.push(&raw const item);
            }
            assert!(deque.steal(None).is_some());
            assert!(deque.steal(None).is_some());
            assert!(deque.steal(Some(1)).is_some());
            assert!(deque.pop());
            assert!((0..3).all(|_| !deque.pop()));
            assert_eq!((deque.tag(), deque.steal(None)), (1, None));
        }
    }

    #[test]
    fn one_that_is_always_full_takes_nothing() {
        assert!(Deque::<u8>::always_full().is_full());
    }
}
