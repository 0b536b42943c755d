#![doc = include_str!("../README.md")]
//!
//! # Modules, from the bottom up
//! 1. `pieces`: an iterator in pieces of neighbours, which the members of a team take.
//! 2. `work`: what is done with the items of a piece.
//! 3. `fill`: pieces that write their items where they belong.

mod fill;
mod pieces;
mod work;

use pieces::{Merged, in_pieces, in_placed_pieces};
use rayon::iter::{IndexedParallelIterator, Rev};
use std::cmp::Ordering;
use std::fmt;
use std::iter::{Product, Sum};
use work::{Fold, MapInit, Products, Search, Sums, TryFold, WithInit, append};

/// Takes an indexed rayon iterator to the engine.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no index, so the engine cannot cut it into pieces",
    label = "not an indexed parallel iterator",
    note = "call `.on_engine()` before what loses the index (`filter`, `flat_map`, ..): \
            `.on_engine().filter_map(..)`",
    note = "forgotten, `.on_engine()` leaves the work to rayon's own threads, beside the engine's"
)]
pub trait OnEngine: IndexedParallelIterator + Sized {
    /// The same items, for the engine's threads. See [`EngineIter`] for what can be done with them.
    ///
    /// ```
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// let mut cells = vec![0; 1_000];
    /// cells.par_iter_mut().enumerate().on_engine().for_each(|(i, cell)| *cell = i);
    /// assert_eq!(cells[77], 77);
    /// ```
    ///
    /// Without an index there is nothing to cut:
    /// ```compile_fail,E0277
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// (0..10).into_par_iter().filter(|i| i % 2 == 0).on_engine().for_each(|_| ());
    /// ```
    fn on_engine(self) -> EngineIter<Self> {
        EngineIter { iterator: self }
    }
}

impl<I: IndexedParallelIterator> OnEngine for I {}

/// An iterator that runs on the engine; made by [`OnEngine::on_engine`].
///
/// The items are cut into pieces of neighbours, some four for each thread of the team that the
/// caller has now, and no smaller or larger than `with_min_len` and `with_max_len` say. A panic
/// reaches the caller with its payload when all members are done; pieces not begun by then are
/// skipped.
#[derive(Clone)]
#[must_use = "an iterator does nothing until it is consumed"]
pub struct EngineIter<I> {
    iterator: I,
}

impl<I> fmt::Debug for EngineIter<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineIter").finish_non_exhaustive()
    }
}

impl<I: IndexedParallelIterator> EngineIter<I> {
    /// How many items there are.
    pub fn len(&self) -> usize {
        self.iterator.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `body` with each item.
    pub fn for_each(self, body: impl Fn(I::Item) + Sync) {
        self.fold(|| (), |(), item| body(item));
    }

    /// Folds each piece, beginning with what `begin` gives; returns the pieces' values, in order.
    /// For what the other methods do not do.
    ///
    /// ```
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// let even = (0..1_000).into_par_iter().on_engine().fold(|| 0, |count, i| count + usize::from(i % 2 == 0));
    /// assert_eq!(even.into_iter().sum::<usize>(), 500);
    /// ```
    pub fn fold<A: Send>(
        self,
        begin: impl Fn() -> A + Sync,
        fold: impl Fn(A, I::Item) -> A + Sync,
    ) -> Vec<A> {
        in_pieces(self.iterator, &Fold { begin, fold, merge: Merged::Apart })
    }

    /// The same for values that are combined, those of a member's neighbouring pieces at once;
    /// returns what is left apart, in order.
    fn fold_merged<A: Send>(
        self,
        begin: impl Fn() -> A + Sync,
        fold: impl Fn(A, I::Item) -> A + Sync,
        merge: impl Fn(A, A) -> A + Sync,
    ) -> Vec<A> {
        let merge = |left, right| Merged::One(merge(left, right));
        in_pieces(self.iterator, &Fold { begin, fold, merge })
    }

    /// As [`EngineIter::fold`], until one call fails: then none is begun, and that error is
    /// returned. Of several that of the first piece counts.
    ///
    /// ```
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// let add = |sum: u8, i: u8| sum.checked_add(i).ok_or(i);
    /// let sums = (0..20_u8).into_par_iter().on_engine().try_fold(|| 0, add)?;
    /// assert_eq!(sums.into_iter().sum::<u8>(), 190);
    /// # Ok::<(), u8>(())
    /// ```
    ///
    /// # Errors
    /// That of `fold`.
    pub fn try_fold<A: Send, E: Send>(
        self,
        begin: impl Fn() -> A + Sync,
        fold: impl Fn(A, I::Item) -> Result<A, E> + Sync,
    ) -> Result<Vec<A>, E> {
        let apart = |left, right| Ok(Merged::Apart(left, right));
        collect_tried(in_pieces(self.iterator, &TryFold::new(begin, fold, apart)))
    }

    /// Combines what the items hold, in their order, each piece beginning with what `identity`
    /// gives, until an item or `combine` is an error: then nothing is begun, and that error is
    /// returned. Of several that of the first piece counts.
    ///
    /// ```
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// let total = |texts: &[&str]| {
    ///     let numbers = texts.par_iter().map(|text| text.parse::<u32>());
    ///     numbers.on_engine().try_reduce(|| 0, |a, b| Ok(a + b))
    /// };
    /// assert_eq!(total(&["1", "20", "300"]), Ok(321));
    /// assert!(total(&["1", "two"]).is_err());
    /// ```
    ///
    /// # Errors
    /// That of an item or of `combine`.
    pub fn try_reduce<T: Send, E: Send>(
        self,
        identity: impl Fn() -> T + Sync,
        combine: impl Fn(T, T) -> Result<T, E> + Sync,
    ) -> Result<T, E>
    where
        I: IndexedParallelIterator<Item = Result<T, E>>,
    {
        let fold = |sum, item: Result<T, E>| combine(sum, item?);
        let merge = |left, right| combine(left, right).map(Merged::One);
        let sums = in_pieces(self.iterator, &TryFold::new(&identity, fold, merge));
        collect_tried(sums)?.into_iter().try_fold(identity(), combine)
    }

    /// Combines all items, in their order; `combine` must be associative. `None` when there is no
    /// item.
    pub fn reduce_with(
        self,
        combine: impl Fn(I::Item, I::Item) -> I::Item + Sync,
    ) -> Option<I::Item> {
        let join = |sum: Option<I::Item>, item| match sum {
            Some(sum) => Some(combine(sum, item)),
            None => Some(item),
        };
        let merge = |left: Option<I::Item>, right| match (left, right) {
            (Some(left), Some(right)) => Some(combine(left, right)),
            (left, right) => left.or(right),
        };
        self.fold_merged(|| None, join, merge).into_iter().flatten().reduce(&combine)
    }

    /// Combines all items, in their order, each piece beginning with what `identity` gives.
    pub fn reduce(
        self,
        identity: impl Fn() -> I::Item + Sync,
        combine: impl Fn(I::Item, I::Item) -> I::Item + Sync,
    ) -> I::Item {
        let sums = self.fold_merged(&identity, &combine, &combine);
        sums.into_iter().fold(identity(), combine)
    }

    /// The sum of all items. Sums of floating point depend on the number of pieces.
    pub fn sum<S: Sum<I::Item> + Sum<S> + Send>(self) -> S {
        in_pieces(self.iterator, &Sums::<S>::NEW).into_iter().sum()
    }

    /// The product of all items.
    pub fn product<P: Product<I::Item> + Product<P> + Send>(self) -> P {
        in_pieces(self.iterator, &Products::<P>::NEW).into_iter().product()
    }

    /// The least item, of several equal ones the first.
    pub fn min(self) -> Option<I::Item>
    where
        I::Item: Ord,
    {
        self.min_by(I::Item::cmp)
    }

    /// The greatest item, of several equal ones the last.
    pub fn max(self) -> Option<I::Item>
    where
        I::Item: Ord,
    {
        self.max_by(I::Item::cmp)
    }

    /// The least item by `compare`, of several equal ones the first.
    pub fn min_by(
        self,
        compare: impl Fn(&I::Item, &I::Item) -> Ordering + Sync,
    ) -> Option<I::Item> {
        self.reduce_with(|a, b| if compare(&a, &b).is_gt() { b } else { a })
    }

    /// The greatest item by `compare`, of several equal ones the last.
    pub fn max_by(
        self,
        compare: impl Fn(&I::Item, &I::Item) -> Ordering + Sync,
    ) -> Option<I::Item> {
        self.reduce_with(|a, b| if compare(&a, &b).is_gt() { a } else { b })
    }

    /// True when `is_wanted` holds for some item. None is asked about after the first one that was
    /// found, but for one of each other thread.
    ///
    /// ```
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// assert!((0..1_000_000).into_par_iter().on_engine().any(|i| i == 5));
    /// ```
    pub fn any(self, is_wanted: impl Fn(I::Item) -> bool + Sync) -> bool {
        self.find_map_any(|item| is_wanted(item).then_some(())).is_some()
    }

    /// What `find` gives for some item for which it gives anything; else as [`EngineIter::any`].
    pub fn find_map_any<R: Send>(self, find: impl Fn(I::Item) -> Option<R> + Sync) -> Option<R> {
        let found = in_placed_pieces(self.iterator, &Search::any(find)).into_iter().flatten();
        found.map(|found| found.1).next()
    }

    /// What `find` gives for the first item for which it gives anything. Items after the lowest one
    /// found so far are not looked at.
    pub fn find_map_first<R: Send>(self, find: impl Fn(I::Item) -> Option<R> + Sync) -> Option<R> {
        let found = in_placed_pieces(self.iterator, &Search::first(find)).into_iter().flatten();
        found.min_by_key(|found| found.0).map(|found| found.1)
    }

    /// Some item for which `is_wanted` holds; else as [`EngineIter::any`].
    pub fn find_any(self, is_wanted: impl Fn(&I::Item) -> bool + Sync) -> Option<I::Item> {
        self.find_map_any(|item| is_wanted(&item).then_some(item))
    }

    /// The first item for which `is_wanted` holds.
    pub fn find_first(self, is_wanted: impl Fn(&I::Item) -> bool + Sync) -> Option<I::Item> {
        self.find_map_first(|item| is_wanted(&item).then_some(item))
    }

    /// The place of the first item for which `is_wanted` holds.
    pub fn position_first(self, is_wanted: impl Fn(I::Item) -> bool + Sync) -> Option<usize> {
        let find = |item| is_wanted(item).then_some(());
        let found = in_placed_pieces(self.iterator, &Search::first(find)).into_iter().flatten();
        found.map(|found| found.0).min()
    }

    /// The place of some item for which `is_wanted` holds; else as [`EngineIter::any`].
    pub fn position_any(self, is_wanted: impl Fn(I::Item) -> bool + Sync) -> Option<usize> {
        let find = |item| is_wanted(item).then_some(());
        let found = in_placed_pieces(self.iterator, &Search::any(find)).into_iter().flatten();
        found.map(|found| found.0).next()
    }

    /// The place of the last item for which `is_wanted` holds. Items before the highest one found
    /// so far are not looked at.
    pub fn position_last(self, is_wanted: impl Fn(I::Item) -> bool + Sync) -> Option<usize> {
        let length = self.len();
        self.turned().position_first(is_wanted).map(|place| length - 1 - place)
    }

    /// The last item for which `is_wanted` holds; else as [`EngineIter::position_last`].
    pub fn find_last(self, is_wanted: impl Fn(&I::Item) -> bool + Sync) -> Option<I::Item> {
        self.turned().find_first(is_wanted)
    }

    fn turned(self) -> EngineIter<Rev<I>> {
        EngineIter { iterator: self.iterator.rev() }
    }

    /// Calls `body` with each item until one call fails: then none is begun, and that error is
    /// returned. Of several that of the first item counts.
    ///
    /// # Errors
    /// That of `body`.
    pub fn try_for_each<E: Send>(
        self,
        body: impl Fn(I::Item) -> Result<(), E> + Sync,
    ) -> Result<(), E> {
        match self.find_map_any(|item| body(item).err()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Calls `body` with each item, and with what `init` made for its piece.
    pub fn for_each_init<A>(
        self,
        init: impl Fn() -> A + Sync,
        body: impl Fn(&mut A, I::Item) + Sync,
    ) {
        in_pieces(self.iterator, &WithInit { init, body });
    }

    /// What `map` gives for the items, in their order, each called with what `init` made for its
    /// piece.
    ///
    /// ```
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// let texts = (0..100_usize).into_par_iter().on_engine().map_init(String::new, |text, i| {
    ///     text.clear();
    ///     text.extend(std::iter::repeat_n('x', i));
    ///     text.len()
    /// });
    /// assert_eq!(texts[77], 77);
    /// ```
    pub fn map_init<A, R: Send>(
        self,
        init: impl Fn() -> A + Sync,
        map: impl Fn(&mut A, I::Item) -> R + Sync,
    ) -> Vec<R> {
        in_pieces(self.iterator, &MapInit { init, map }).concat_all()
    }

    /// How many items there are.
    pub fn count(self) -> usize {
        self.len()
    }

    /// The items for which `is_left` holds, and the others, both in their order.
    pub fn partition(
        self,
        is_left: impl Fn(&I::Item) -> bool + Sync,
    ) -> (Vec<I::Item>, Vec<I::Item>) {
        let pieces = self.fold_merged(
            || (Vec::new(), Vec::new()),
            |(mut left, mut right), item| {
                if is_left(&item) {
                    left.push(item)
                } else {
                    right.push(item)
                }
                (left, right)
            },
            append_both,
        );
        let (left, right): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        (left.concat_all(), right.concat_all())
    }

    /// The first halves of all pairs, and the second ones, both in their order.
    pub fn unzip<A: Send, B: Send>(self) -> (Vec<A>, Vec<B>)
    where
        I: IndexedParallelIterator<Item = (A, B)>,
    {
        let pieces = self.fold_merged(
            || (Vec::new(), Vec::new()),
            |(mut left, mut right), (a, b)| {
                left.push(a);
                right.push(b);
                (left, right)
            },
            append_both,
        );
        let (left, right): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        (left.concat_all(), right.concat_all())
    }

    /// True when `is_wanted` holds for all items.
    pub fn all(self, is_wanted: impl Fn(I::Item) -> bool + Sync) -> bool {
        !self.any(|item| !is_wanted(item))
    }

    /// What `map` gives for the items, where it gives something, in their order.
    pub fn filter_map<R: Send>(self, map: impl Fn(I::Item) -> Option<R> + Sync) -> Vec<R> {
        self.flat_map(map)
    }

    /// All that `map` gives for the items, in their order.
    pub fn flat_map<R: Send, M: IntoIterator<Item = R>>(
        self,
        map: impl Fn(I::Item) -> M + Sync,
    ) -> Vec<R> {
        let fold = |mut all: Vec<R>, item| {
            all.extend(map(item));
            all
        };
        self.fold_merged(Vec::new, fold, append).concat_all()
    }

    /// All items, in their order: written to a vector where they will stand, by all members, and
    /// taken from there by the caller. A `Vec` costs nothing more.
    ///
    /// ```
    /// use nanothreads_rayon::OnEngine;
    /// use rayon::prelude::*;
    /// use std::collections::HashMap;
    /// let squares: HashMap<u32, u32> = (0..100_u32).into_par_iter().map(|i| (i, i * i)).on_engine().collect();
    /// assert_eq!(squares[&9], 81);
    /// let texts = ["1", "x"];
    /// let read: Result<Vec<u32>, _> = texts.par_iter().map(|text| text.parse()).on_engine().collect();
    /// assert!(read.is_err());
    /// ```
    pub fn collect<C: FromIterator<I::Item>>(self) -> C {
        let mut items = Vec::new();
        self.collect_into(&mut items);
        items.into_iter().collect()
    }

    /// Puts all items after those of `items`, in their order.
    pub fn collect_into(self, items: &mut Vec<I::Item>) {
        fill::append(self.iterator, items);
    }
}

fn append_both<A, B>(left: (Vec<A>, Vec<B>), right: (Vec<A>, Vec<B>)) -> (Vec<A>, Vec<B>) {
    (append(left.0, right.0), append(left.1, right.1))
}

/// What was not left for another one's failure; or that.
fn collect_tried<A, E>(pieces: Vec<Option<Result<A, E>>>) -> Result<Vec<A>, E> {
    pieces.into_iter().flatten().collect()
}

trait Concat<R> {
    fn concat_all(self) -> Vec<R>;
}

impl<R> Concat<R> for Vec<Vec<R>> {
    fn concat_all(mut self) -> Vec<R> {
        if self.len() == 1 {
            return self.pop().unwrap_or_default();
        }
        let mut all = Vec::with_capacity(self.iter().map(Vec::len).sum());
        self.into_iter().for_each(|piece| all.extend(piece));
        all
    }
}
