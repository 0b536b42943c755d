//! A padded place for each member of a team, without an allocation for small teams.

use platform::sync::{CachePadded, HandCell};
use std::ops::Index;

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
    /// All places, and for small teams some behind that hold defaults.
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

/// Values that members of a region bring to the join, one each; no two share a line.
#[derive(Debug)]
pub(crate) struct Carried<T>(PerMember<HandCell<Option<T>>>);

// SAFETY: - each cell is written by one member (`put`'s contract) and read by the owner of the whole after the join;
//           values thus move between threads, hence `T: Send`, and are never looked at by two.
unsafe impl<T: Send> Sync for Carried<T> {}

impl<T> Carried<T> {
    /// No value yet, for members 0..`size`.
    pub(crate) fn new(size: usize) -> Self {
        Self(PerMember::new(size, |_| HandCell::new(None)))
    }

    /// As [`Self::new`], with no place inside: for values of any size.
    pub(crate) fn apart(size: usize) -> Self {
        Self(PerMember::Many((0..size).map(|_| CachePadded::new(HandCell::new(None))).collect()))
    }

    /// Brings member `id`'s value.
    ///
    /// # Safety
    /// - The caller is member `id` of the one region that these places are for.
    pub(crate) unsafe fn put(&self, id: usize, value: Option<T>) {
        // SAFETY: - only this member touches its place before the join (caller's contract).
        //         - the pointer is the cell's own.
        unsafe { self.0[id].with_mut(|place| *place = value) };
    }

    /// What member `id` brought.
    ///
    /// # Safety
    /// - The caller is that member, in the region that these places are for or behind it.
    pub(crate) unsafe fn take(&self, id: usize) -> Option<T> {
        // SAFETY: - only this member touches its place (caller's contract).
        //         - the pointer is the cell's own.
        unsafe { self.0[id].with_mut(|place| (*place).take()) }
    }

    /// The values, in the order of the members. After the join.
    pub(crate) fn into_values(self) -> impl Iterator<Item = T> {
        (0..self.0.places().len()).filter_map(move |id| {
            // SAFETY: - `self` was moved in here: nobody else can reach the places.
            //         - the pointer is the cell's own.
            unsafe { self.0[id].with_mut(|place| (*place).take()) }
        })
    }
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
            let carried = if size == 3 { Carried::apart(size) } else { Carried::new(size) };
            for id in (0..size).rev() {
                // SAFETY: - this thread plays all members in turn.
                unsafe { carried.put(id, (id != 1).then(|| Box::new(id))) };
            }
            let values: Vec<_> = carried.into_values().map(|value| *value).collect();
            assert_eq!(values, (0..size).filter(|&id| id != 1).collect::<Vec<_>>());
        }
    }
}
