#![doc = include_str!("../README.md")]
//!
//! # Modules, from the bottom up
//! 1. `pieces`: an iterator in pieces of neighbours, which the members of a team take.
//! 2. `fill`: pieces that write their items where they belong.

mod fill;
mod pieces;

use pieces::{PlacedWork, Work, in_pieces, in_placed_pieces};
use rayon::iter::IndexedParallelIterator;
use std::cmp::Ordering;
use std::fmt;
use std::iter::{Product, Sum};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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

/// Work that folds each piece with closures.
struct Fold<N, F> {
    begin: N,
    fold: F,
}

impl<T, A: Send, N: Fn() -> A + Sync, F: Fn(A, T) -> A + Sync> Work<T> for Fold<N, F> {
    type Output = A;

    fn run(&self, items: impl Iterator<Item = T>) -> A {
        items.fold((self.begin)(), &self.fold)
    }
}

/// Work that hands each piece's iterator to a function that takes any.
macro_rules! work {
    ($name:ident<$item:ident, $($generic:ident: $bound:path),*> -> $output:ty, |$items:ident| $run:expr) => {
        struct $name<$($generic),*>(std::marker::PhantomData<fn() -> ($($generic,)*)>);

        impl<$item: Send, $($generic),*> Work<$item> for $name<$($generic),*>
        where
            $($generic: $bound + Send),*
        {
            type Output = $output;

            fn run(&self, $items: impl Iterator<Item = $item>) -> $output {
                $run
            }
        }
    };
}

/// Work that looks for an item.
struct Search<F> {
    find: F,
    /// The lowest place at which something was found.
    bound: AtomicUsize,
    /// The lowest one is wanted, and not any.
    is_first: bool,
}

impl<T, R: Send, F: Fn(T) -> Option<R> + Sync> PlacedWork<T> for Search<F> {
    type Output = Option<(usize, R)>;

    fn run_at(&self, begin: usize, _: usize, items: impl Iterator<Item = T>) -> Self::Output {
        for (place, item) in (begin..).zip(items) {
            // ORDERING: Relaxed, here and below - a bound that only falls: an older one lets
            // needless items be looked at. What was found travels with the join.
            let bound = self.bound.load(Relaxed);
            if bound < usize::MAX && (!self.is_first || place > bound) {
                return None;
            }
            if let Some(found) = (self.find)(item) {
                self.bound.fetch_min(place, Relaxed);
                return Some((place, found));
            }
        }
        None
    }
}

/// Work that makes something for each piece.
struct WithInit<N, F> {
    init: N,
    body: F,
}

impl<T, A, N: Fn() -> A + Sync, F: Fn(&mut A, T) + Sync> Work<T> for WithInit<N, F> {
    type Output = ();

    fn run(&self, items: impl Iterator<Item = T>) {
        let mut own = (self.init)();
        items.for_each(|item| (self.body)(&mut own, item));
    }
}

work!(Sums<T, S: Sum<T>> -> S, |items| items.sum());
work!(Products<T, S: Product<T>> -> S, |items| items.product());

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
        in_pieces(self.iterator, &Fold { begin, fold })
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
        self.fold(|| None, join).into_iter().flatten().reduce(&combine)
    }

    /// Combines all items, in their order, each piece beginning with what `identity` gives.
    pub fn reduce(
        self,
        identity: impl Fn() -> I::Item + Sync,
        combine: impl Fn(I::Item, I::Item) -> I::Item + Sync,
    ) -> I::Item {
        self.fold(&identity, &combine).into_iter().fold(identity(), &combine)
    }

    /// The sum of all items. Sums of floating point depend on the number of pieces.
    pub fn sum<S: Sum<I::Item> + Sum<S> + Send>(self) -> S {
        in_pieces(self.iterator, &Sums::<S>(std::marker::PhantomData)).into_iter().sum()
    }

    /// The product of all items.
    pub fn product<P: Product<I::Item> + Product<P> + Send>(self) -> P {
        in_pieces(self.iterator, &Products::<P>(std::marker::PhantomData)).into_iter().product()
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
        let search = Search { find, bound: AtomicUsize::new(usize::MAX), is_first: false };
        in_placed_pieces(self.iterator, &search).into_iter().flatten().map(|found| found.1).next()
    }

    /// What `find` gives for the first item for which it gives anything. Items after the lowest one
    /// found so far are not looked at.
    pub fn find_map_first<R: Send>(self, find: impl Fn(I::Item) -> Option<R> + Sync) -> Option<R> {
        let search = Search { find, bound: AtomicUsize::new(usize::MAX), is_first: true };
        let found = in_placed_pieces(self.iterator, &search).into_iter().flatten();
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
        let search = Search { find, bound: AtomicUsize::new(usize::MAX), is_first: true };
        let found = in_placed_pieces(self.iterator, &search).into_iter().flatten();
        found.map(|found| found.0).min()
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

    /// How many items there are.
    pub fn count(self) -> usize {
        self.len()
    }

    /// The items for which `is_left` holds, and the others, both in their order.
    pub fn partition(
        self,
        is_left: impl Fn(&I::Item) -> bool + Sync,
    ) -> (Vec<I::Item>, Vec<I::Item>) {
        let pieces = self.fold(
            || (Vec::new(), Vec::new()),
            |(mut left, mut right), item| {
                if is_left(&item) {
                    left.push(item)
                } else {
                    right.push(item)
                }
                (left, right)
            },
        );
        let (left, right): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        (left.concat_all(), right.concat_all())
    }

    /// The first halves of all pairs, and the second ones, both in their order.
    pub fn unzip<A: Send, B: Send>(self) -> (Vec<A>, Vec<B>)
    where
        I: IndexedParallelIterator<Item = (A, B)>,
    {
        let pieces = self.fold(
            || (Vec::new(), Vec::new()),
            |(mut left, mut right), (a, b)| {
                left.push(a);
                right.push(b);
                (left, right)
            },
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
        let pieces = self.fold(Vec::new, |mut all, item| {
            all.extend(map(item));
            all
        });
        pieces.concat_all()
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

trait Concat<R> {
    fn concat_all(self) -> Vec<R>;
}

impl<R> Concat<R> for Vec<Vec<R>> {
    fn concat_all(self) -> Vec<R> {
        let mut all = Vec::with_capacity(self.iter().map(Vec::len).sum());
        self.into_iter().for_each(|piece| all.extend(piece));
        all
    }
}
