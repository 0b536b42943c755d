#![doc = include_str!("../README.md")]

mod fill;
mod pieces;

use pieces::{Work, in_pieces};
use rayon::iter::IndexedParallelIterator;
use std::cmp::Ordering;
use std::fmt;
use std::iter::{Product, Sum};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Takes an indexed rayon iterator to the engine.
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

    /// True when `is_wanted` holds for some item; the others are not all looked at then.
    pub fn any(self, is_wanted: impl Fn(I::Item) -> bool + Sync) -> bool {
        let found = AtomicBool::new(false);
        self.for_each(|item| {
            // ORDERING: Relaxed, here and below - a hint to stop; its last value is read after the
            // join.
            if !found.load(Relaxed) && is_wanted(item) {
                found.store(true, Relaxed);
            }
        });
        found.into_inner()
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

    /// All items, in their order: written where they will stand, by all members. For other
    /// collections see [`EngineIter::collect_into`].
    pub fn collect<C: From<Vec<I::Item>>>(self) -> C {
        let mut items = Vec::new();
        self.collect_into(&mut items);
        C::from(items)
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
