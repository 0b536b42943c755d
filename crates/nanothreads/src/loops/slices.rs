//! Loops over the chunks of a mutable slice.

use super::{ParFor, Schedule, par_for};
use crate::touches::{self, Listener};
use std::fmt;
use std::marker::PhantomData;

/// A loop over the chunks of a slice; made by [`par_chunks_mut`].
#[must_use = "a loop does nothing until it is run"]
pub struct ParChunksMut<'a, T> {
    slice: Disjoint<'a, T>,
    chunk_length: usize,
    numbers: ParFor,
}

impl<T> fmt::Debug for ParChunksMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParChunksMut")
            .field("length", &self.slice.length)
            .field("chunk_length", &self.chunk_length)
            .field("numbers", &self.numbers)
            .finish()
    }
}

/// A loop over the chunks of `slice`, each `chunk_length` long but the last, which has the rest.
/// Dealt by [`Schedule::Auto`], which balances unequal chunks, unless told otherwise.
///
/// ```
/// use nanothreads::par_chunks_mut;
/// let mut image = vec![0_u8; 640 * 480];
/// par_chunks_mut(&mut image, 640).run(|y, row| {
///     for (x, pixel) in row.iter_mut().enumerate() {
///         *pixel = (x ^ y) as u8;
///     }
/// });
/// assert_eq!(image[3 * 640 + 5], 6);
/// ```
///
/// The elements move to other threads:
/// ```compile_fail,E0277
/// let mut shared = vec![std::rc::Rc::new(0); 4];
/// nanothreads::par_chunks_mut(&mut shared, 2).run(|_, _| {});
/// ```
///
/// # Panics
/// When `chunk_length` is 0.
#[doc(alias = "par_iter_mut")]
#[track_caller]
pub fn par_chunks_mut<T: Send>(slice: &mut [T], chunk_length: usize) -> ParChunksMut<'_, T> {
    assert!(
        chunk_length > 0,
        "par_chunks_mut: chunks of 0 elements cannot cover a slice: give a length of at least 1"
    );
    let numbers = par_for(0..slice.len().div_ceil(chunk_length)).schedule(Schedule::Auto);
    ParChunksMut { slice: Disjoint::new(slice), chunk_length, numbers }
}

impl<'a, T: Send> ParChunksMut<'a, T> {
    /// Deals the chunks by `schedule`: its numbers count chunks, not elements.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self { numbers: self.numbers.schedule(schedule), ..self }
    }

    /// Runs `body` once for each chunk, with its number.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run<F: Fn(usize, &mut [T]) + Sync>(self, body: F) {
        let Self { slice, chunk_length, numbers } = self;
        // SAFETY: - the loop runs each number once.
        numbers.run(|number| body(number, unsafe { slice.chunk(number, chunk_length) }));
    }

    /// What `map` gives for each chunk, in the order of the chunks.
    ///
    /// ```
    /// let mut x = [1, 2, 3, 4, 5];
    /// let sums = nanothreads::par_chunks_mut(&mut x, 2).map(|_, chunk| {
    ///     chunk.iter_mut().for_each(|x| *x *= 10);
    ///     chunk.iter().sum::<i32>()
    /// });
    /// assert_eq!(sums, [30, 70, 50]);
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::collect`].
    pub fn map<R: Send, F: Fn(usize, &mut [T]) -> R + Sync>(self, map: F) -> Vec<R> {
        let Self { slice, chunk_length, numbers } = self;
        // SAFETY: - the loop runs each number once.
        numbers.collect(|number| map(number, unsafe { slice.chunk(number, chunk_length) }))
    }

    /// Combines what `map` gives for each chunk: see [`ParFor::reduce`], also for the order. It is
    /// that of the chunks under [`Schedule::Static`].
    ///
    /// ```
    /// let mut x = [3.0, 4.0];
    /// let square = nanothreads::par_chunks_mut(&mut x, 1)
    ///     .reduce(0.0, |_, chunk| chunk.iter().map(|x| x * x).sum(), |a: f64, b| a + b);
    /// assert_eq!(square, 25.0);
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn reduce<R, M, C>(self, identity: R, map: M, combine: C) -> R
    where
        R: Send,
        M: Fn(usize, &mut [T]) -> R + Sync,
        C: Fn(R, R) -> R + Sync,
    {
        let Self { slice, chunk_length, numbers } = self;
        // SAFETY: - the loop runs each number once.
        let map = |number| map(number, unsafe { slice.chunk(number, chunk_length) });
        numbers.reduce(identity, map, combine)
    }

    /// A loop over the chunks of this slice and those of another one, which go together by their
    /// numbers.
    ///
    /// ```
    /// let (mut positions, mut speeds) = (vec![0.0; 1000], vec![1.0; 1000]);
    /// nanothreads::par_chunks_mut(&mut positions, 100).zip(&mut speeds, 100).run(|_, x, v| {
    ///     for (x, v) in x.iter_mut().zip(v) {
    ///         *v -= 0.5 * *x;
    ///         *x += *v;
    ///     }
    /// });
    /// assert_eq!(positions[999], 1.0);
    /// ```
    ///
    /// # Panics
    /// When `chunk_length` is 0, or the numbers of chunks differ.
    #[track_caller]
    pub fn zip<U: Send>(self, other: &'a mut [U], chunk_length: usize) -> ParChunksMut2<'a, T, U> {
        let second = par_chunks_mut(other, chunk_length);
        let (own, others) = (self.numbers.length(), second.numbers.length());
        assert!(
            own == others,
            "zip: {own} chunks beside {others}: give lengths that divide both slices into equally \
             many"
        );
        ParChunksMut2 { first: self, second }
    }
}

/// A loop over the chunks of two slices; made by [`ParChunksMut::zip`].
#[must_use = "a loop does nothing until it is run"]
#[derive(Debug)]
pub struct ParChunksMut2<'a, T, U> {
    first: ParChunksMut<'a, T>,
    second: ParChunksMut<'a, U>,
}

impl<T: Send, U: Send> ParChunksMut2<'_, T, U> {
    /// Deals the chunks by `schedule`.
    pub fn schedule(self, schedule: Schedule) -> Self {
        Self { first: self.first.schedule(schedule), ..self }
    }

    /// Runs `body` once for each number of a chunk, with both chunks.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn run<F: Fn(usize, &mut [T], &mut [U]) + Sync>(self, body: F) {
        self.reduce((), body, |(), ()| ());
    }

    /// Combines what `map` gives for each number of a chunk: see [`ParChunksMut::reduce`].
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn reduce<R, M, C>(self, identity: R, map: M, combine: C) -> R
    where
        R: Send,
        M: Fn(usize, &mut [T], &mut [U]) -> R + Sync,
        C: Fn(R, R) -> R + Sync,
    {
        // SAFETY: - the loop runs each number once.
        let map = |number| unsafe { self.call(number, &map) };
        self.first.numbers.clone().reduce(identity, map, combine)
    }

    /// What `map` gives for each number of a chunk, in their order.
    ///
    /// ```
    /// let (mut x, mut y) = ([1, 2, 3], [10, 20, 30]);
    /// let sums = nanothreads::par_chunks_mut(&mut x, 2).zip(&mut y, 2).map(|_, x, y| {
    ///     x.swap_with_slice(y);
    ///     x.iter().sum::<i32>()
    /// });
    /// assert_eq!((sums, x), (vec![30, 30], [10, 20, 30]));
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::collect`].
    pub fn map<R: Send, F: Fn(usize, &mut [T], &mut [U]) -> R + Sync>(self, map: F) -> Vec<R> {
        // SAFETY: - the loop runs each number once.
        let map = |number| unsafe { self.call(number, &map) };
        self.first.numbers.clone().collect(map)
    }

    /// # Safety
    /// - There are chunks of this number, and no other use of them at the same time.
    unsafe fn call<R>(&self, number: usize, body: impl Fn(usize, &mut [T], &mut [U]) -> R) -> R {
        let Self { first, second } = self;
        // SAFETY: - caller's contract.
        let a = unsafe { first.slice.chunk(number, first.chunk_length) };
        // SAFETY: - caller's contract.
        let b = unsafe { second.slice.chunk(number, second.chunk_length) };
        body(number, a, b)
    }
}

/// A mutable slice whose disjoint parts are handed to several threads.
struct Disjoint<'a, T> {
    first: *mut T,
    length: usize,
    /// To be told of each chunk.
    listener: Option<&'static Listener>,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: - what is reached through it are disjoint parts (`part`'s contract), each by one thread:
//           a move of `T`s to that thread and back, hence `T: Send`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}
// SAFETY: - as good as the exclusive borrow that it was made from.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    fn new(slice: &'a mut [T]) -> Self {
        let listener = touches::listener();
        Self { first: slice.as_mut_ptr(), length: slice.len(), listener, slice: PhantomData }
    }

    /// Chunk `number` of those of this length; the last one has the rest.
    ///
    /// # Safety
    /// - There is such a chunk, and no other use of it at the same time.
    #[expect(clippy::mut_from_ref, reason = "chunks are disjoint by contract")]
    unsafe fn chunk(&self, number: usize, chunk_length: usize) -> &mut [T] {
        let begin = number * chunk_length;
        let length = chunk_length.min(self.length - begin);
        // SAFETY: - begin + length <= self.length: the last number is that of the last element's
        //           chunk; chunks of different numbers do not overlap.
        let chunk = unsafe { self.part(begin, length) };
        if let Some(listener) = self.listener {
            let addresses = chunk.as_ptr_range();
            (listener.hear)(addresses.start.addr()..addresses.end.addr());
        }
        chunk
    }

    /// # Safety
    /// - `begin + length` is at most the slice's length.
    /// - No other part that overlaps this one is in use.
    #[expect(clippy::mut_from_ref, reason = "parts are disjoint by contract")]
    unsafe fn part(&self, begin: usize, length: usize) -> &mut [T] {
        // SAFETY: - in bounds (caller's contract).
        let first = unsafe { self.first.add(begin) };
        // SAFETY: - in bounds, and exclusive: the slice is borrowed for `'a` and the part is
        //           disjoint from all others in use (caller's contract).
        unsafe { std::slice::from_raw_parts_mut(first, length) }
    }
}
