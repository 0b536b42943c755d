//! What the consumers of an iterator do with a piece of its items.

use crate::pieces::{Merged, PlacedWork, Work};
use std::iter::{Product, Sum};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Work that folds each piece with closures.
pub(crate) struct Fold<N, F, M> {
    pub(crate) begin: N,
    pub(crate) fold: F,
    /// Of neighbours' values.
    pub(crate) merge: M,
}

impl<T, A, N, F, M> Work<T> for Fold<N, F, M>
where
    A: Send,
    N: Fn() -> A + Sync,
    F: Fn(A, T) -> A + Sync,
    M: Fn(A, A) -> Merged<A> + Sync,
{
    type Output = A;

    fn run(&self, items: impl Iterator<Item = T>) -> A {
        items.fold((self.begin)(), &self.fold)
    }

    fn merge(&self, left: A, right: A) -> Merged<A> {
        (self.merge)(left, right)
    }
}

/// The same with closures that may fail: after the first error that a member sees nothing is begun.
pub(crate) struct TryFold<N, F, M> {
    begin: N,
    fold: F,
    merge: M,
    has_failed: AtomicBool,
}

impl<N, F, M> TryFold<N, F, M> {
    pub(crate) fn new(begin: N, fold: F, merge: M) -> Self {
        Self { begin, fold, merge, has_failed: AtomicBool::new(false) }
    }

    fn failed<A, E>(&self, error: E) -> Option<Result<A, E>> {
        // ORDERING: Relaxed, here and below - an older value lets needless items be looked at. The
        // error travels with the join.
        self.has_failed.store(true, Relaxed);
        Some(Err(error))
    }
}

impl<T, A, E, N, F, M> Work<T> for TryFold<N, F, M>
where
    A: Send,
    E: Send,
    N: Fn() -> A + Sync,
    F: Fn(A, T) -> Result<A, E> + Sync,
    M: Fn(A, A) -> Result<Merged<A>, E> + Sync,
{
    /// `None`: it was left, since another one failed.
    type Output = Option<Result<A, E>>;

    fn run(&self, items: impl Iterator<Item = T>) -> Self::Output {
        let mut sum = (self.begin)();
        for item in items {
            if self.has_failed.load(Relaxed) {
                return None;
            }
            match (self.fold)(sum, item) {
                Ok(next) => sum = next,
                Err(error) => return self.failed(error),
            }
        }
        Some(Ok(sum))
    }

    fn merge(&self, left: Self::Output, right: Self::Output) -> Merged<Self::Output> {
        match (left, right) {
            (Some(Ok(left)), Some(Ok(right))) => match (self.merge)(left, right) {
                Ok(Merged::One(both)) => Merged::One(Some(Ok(both))),
                Ok(Merged::Apart(left, right)) => Merged::Apart(Some(Ok(left)), Some(Ok(right))),
                Err(error) => Merged::One(self.failed(error)),
            },
            // All that was made is dropped for the error.
            (Some(Err(error)), _) | (_, Some(Err(error))) => Merged::One(Some(Err(error))),
            (None, _) | (_, None) => Merged::One(None),
        }
    }
}

/// Work that looks for an item.
pub(crate) struct Search<F> {
    find: F,
    /// The lowest place at which something was found.
    bound: AtomicUsize,
    /// The lowest one is wanted, and not any.
    is_first: bool,
}

impl<F> Search<F> {
    pub(crate) fn any(find: F) -> Self {
        Self { find, bound: AtomicUsize::new(usize::MAX), is_first: false }
    }

    pub(crate) fn first(find: F) -> Self {
        Self { is_first: true, ..Self::any(find) }
    }
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

    fn merge(&self, left: Self::Output, right: Self::Output) -> Merged<Self::Output> {
        // The left one stands lower.
        Merged::One(left.or(right))
    }
}

/// Work that does something with each item and with what was made for its piece.
pub(crate) struct WithInit<N, F> {
    pub(crate) init: N,
    pub(crate) body: F,
}

impl<T, A, N: Fn() -> A + Sync, F: Fn(&mut A, T) + Sync> Work<T> for WithInit<N, F> {
    type Output = ();

    fn run(&self, items: impl Iterator<Item = T>) {
        let mut own = (self.init)();
        items.for_each(|item| (self.body)(&mut own, item));
    }
}

/// The same, for what it gives.
pub(crate) struct MapInit<N, F> {
    pub(crate) init: N,
    pub(crate) map: F,
}

impl<T, A, R, N, F> Work<T> for MapInit<N, F>
where
    R: Send,
    N: Fn() -> A + Sync,
    F: Fn(&mut A, T) -> R + Sync,
{
    type Output = Vec<R>;

    fn run(&self, items: impl Iterator<Item = T>) -> Vec<R> {
        let mut own = (self.init)();
        items.map(|item| (self.map)(&mut own, item)).collect()
    }

    fn merge(&self, left: Vec<R>, right: Vec<R>) -> Merged<Vec<R>> {
        Merged::One(append(left, right))
    }
}

/// Sums of pieces.
pub(crate) struct Sums<S>(PhantomData<fn() -> S>);

/// Products of pieces.
pub(crate) struct Products<P>(PhantomData<fn() -> P>);

impl<S> Sums<S> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<P> Products<P> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<T, S: Sum<T> + Sum<S> + Send> Work<T> for Sums<S> {
    type Output = S;

    fn run(&self, items: impl Iterator<Item = T>) -> S {
        items.sum()
    }

    fn merge(&self, left: S, right: S) -> Merged<S> {
        Merged::One([left, right].into_iter().sum())
    }
}

impl<T, P: Product<T> + Product<P> + Send> Work<T> for Products<P> {
    type Output = P;

    fn run(&self, items: impl Iterator<Item = T>) -> P {
        items.product()
    }

    fn merge(&self, left: P, right: P) -> Merged<P> {
        Merged::One([left, right].into_iter().product())
    }
}

/// Both, one after the other.
pub(crate) fn append<T>(mut left: Vec<T>, right: Vec<T>) -> Vec<T> {
    left.extend(right);
    left
}
