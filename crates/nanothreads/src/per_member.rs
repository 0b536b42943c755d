//! A padded place for each member of a team, without an allocation for small teams.

use engine::forked::UntilJoin;
use engine::local::{Local, local};
use platform::sync::{CachePadded, HandCell};
use std::cell::Cell;
use std::ops::Index;
use std::ptr;

/// Teams up to this size need no allocation.
#[cfg(not(loom))]
const FEW: usize = 8;
/// Models create all places anew for each execution.
#[cfg(loom)]
const FEW: usize = 2;

/// Places 0..size, each on cache lines of its own: their writers are different members.
#[derive(Debug)]
pub(super) enum PerMember<T> {
    Few([CachePadded<T>; FEW]),
    Many(Box<[CachePadded<T>]>),
}

impl<T: Default> PerMember<T> {
    /// Places for `size` members; member `id`'s holds `make(id)`.
    pub(super) fn new(size: usize, mut make: impl FnMut(usize) -> T) -> Self {
        if size <= FEW {
            let make = |id| CachePadded::new(if id < size { make(id) } else { T::default() });
            Self::Few(std::array::from_fn(make))
        } else {
            Self::Many((0..size).map(|id| CachePadded::new(make(id))).collect())
        }
    }
}

impl<T> PerMember<T> {
    /// All places, and for small teams some after them that hold defaults.
    fn places(&self) -> &[CachePadded<T>] {
        match self {
            Self::Few(places) => places,
            Self::Many(places) => places,
        }
    }
}

impl<T> Index<usize> for PerMember<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: usize) -> &T {
        &self.places()[id]
    }
}

/// Values that the parts of a region (its members', or groups') bring to the join, one each; no two
/// share a line.
#[derive(Debug)]
pub(crate) struct Contributions<T> {
    places: PerMember<Contribution<T>>,
    /// The master, by its state.
    home: *const Local,
}

#[derive(Debug)]
struct Contribution<T> {
    value: HandCell<Option<T>>,
    /// The master itself brought it. Written by the master alone, so that it says the truth in a
    /// forked child, where what other threads were writing may be half written.
    is_home: Cell<bool>,
}

impl<T> Default for Contribution<T> {
    fn default() -> Self {
        Self { value: HandCell::new(None), is_home: Cell::new(false) }
    }
}

// SAFETY: - each value is written by one member (`put`'s contract) and read by the owner of the
//           whole after the join; values thus move between threads, hence `T: Send`, and are never
//           looked at by two.
//         - `is_home` is touched by the master's thread only; `home` is only compared.
unsafe impl<T: Send> Sync for Contributions<T> {}

impl<T> Contributions<T> {
    /// No value yet, for parts 0..`size` of a region that the caller is about to fork.
    pub(crate) fn new(size: usize) -> Self {
        Self { places: PerMember::new(size, |_| Contribution::default()), home: local() }
    }

    /// As [`Self::new`], with no place inside: for values of any size.
    pub(crate) fn apart(size: usize) -> Self {
        let places = (0..size).map(|_| CachePadded::new(Contribution::default())).collect();
        Self { places: PerMember::Many(places), home: local() }
    }

    /// Brings part `id`'s value.
    ///
    /// # Safety
    /// - The caller runs part `id` of the one region that these places are for.
    pub(crate) unsafe fn put(&self, id: usize, value: Option<T>) {
        let place = &self.places[id];
        // SAFETY: - only the thread that runs the part touches its place before the join (caller's
        //           contract).
        //         - the pointer is the cell's own.
        unsafe { place.value.with_mut(|place| *place = value) };
        if ptr::eq(self.home, local()) {
            place.is_home.set(true);
        }
    }

    /// What the master itself brought, in the order of the parts.
    ///
    /// # Safety
    /// - The caller is the master, alone with the places: in a child that was forked meanwhile, or
    ///   after the join.
    pub(crate) unsafe fn take_home(&self) -> impl Iterator<Item = T> {
        self.places.places().iter().filter(|place| place.is_home.get()).filter_map(|place| {
            // SAFETY: - no other thread is there (caller's contract); this thread wrote the whole
            // value.
            //         - the pointer is the cell's own.
            unsafe { place.value.with_mut(|value| (*value).take()) }
        })
    }

    /// The values, in the order of the parts. After the join.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        (0..self.places.places().len()).filter_map(move |id| {
            // SAFETY: - `self` was moved in here: nothing else can reach the places.
            //         - the pointer is the cell's own.
            unsafe { self.places[id].value.with_mut(|value| (*value).take()) }
        })
    }
}

/// The values after the join, in the order of the parts; in a child that a part forked those that
/// the child's only thread brought itself.
pub(crate) fn values<T>(contributions: UntilJoin<Contributions<T>>) -> Vec<T> {
    if contributions.is_parents() {
        // SAFETY: - the thread that gets here in a child is the master.
        return unsafe { contributions.take_home() }.collect();
    }
    contributions.after_join().into_iter().flat_map(Contributions::into_values).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_member_has_lines_of_its_own_in_small_and_large_teams() {
        for size in [1, FEW, FEW + 1, 64] {
            let places = PerMember::new(size, |id| id);
            for id in 0..size {
                assert_eq!(places[id], id);
                assert_eq!((&raw const places[id]).addr() % 128, 0);
            }
        }
    }

    #[test]
    fn values_come_back_in_the_order_of_the_members() {
        for size in [1, 3, 20] {
            let contributions =
                if size == 3 { Contributions::apart(size) } else { Contributions::new(size) };
            for id in (0..size).rev() {
                // SAFETY: - this thread plays all members in turn.
                unsafe { contributions.put(id, (id != 1).then(|| Box::new(id))) };
            }
            let values: Vec<_> = contributions.into_values().map(|value| *value).collect();
            assert_eq!(values, (0..size).filter(|&id| id != 1).collect::<Vec<_>>());
        }
    }
}
