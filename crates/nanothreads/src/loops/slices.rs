//! Loops over the chunks of a mutable slice.

use super::{ParFor, Schedule, par_for};
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
pub fn par_chunks_mut<T: Send>(slice: &mut [T], chunk_length: usize) -> ParChunksMut<'_, T> {
    assert!(
        chunk_length > 0,
        "par_chunks_mut: chunks of 0 elements cannot cover a slice: give a length of at least 1"
    );
    let numbers = par_for(0..slice.len().div_ceil(chunk_length));
    ParChunksMut { slice: Disjoint::new(slice), chunk_length, numbers }
}

impl<T: Send> ParChunksMut<'_, T> {
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
        numbers.run(|number| {
            let begin = number * chunk_length;
            let length = chunk_length.min(slice.length - begin);
            // SAFETY: - the loop runs each number once, and chunks of different numbers do not
            // overlap.
            //         - begin + length <= slice.length: the last number is that of the last
            //           element's chunk.
            let chunk = unsafe { slice.part(begin, length) };
            body(number, chunk);
        });
    }
}

/// A mutable slice whose disjoint parts are handed to several threads.
struct Disjoint<'a, T> {
    first: *mut T,
    length: usize,
    slice: PhantomData<&'a mut [T]>,
}

// SAFETY: - what is reached through it are disjoint parts (`part`'s contract), each by one thread:
//           a move of `T`s to that thread and back, hence `T: Send`.
unsafe impl<T: Send> Sync for Disjoint<'_, T> {}
// SAFETY: - as good as the exclusive borrow that it was made from.
unsafe impl<T: Send> Send for Disjoint<'_, T> {}

impl<'a, T> Disjoint<'a, T> {
    fn new(slice: &'a mut [T]) -> Self {
        Self { first: slice.as_mut_ptr(), length: slice.len(), slice: PhantomData }
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
