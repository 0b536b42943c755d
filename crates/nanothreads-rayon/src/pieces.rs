//! Cuts an indexed iterator into pieces and deals them to the caller's team.

use nanothreads::{Schedule, Team, par_for};
use rayon::iter::IndexedParallelIterator;
use rayon::iter::plumbing::{Producer, ProducerCallback};
use std::sync::{Mutex, PoisonError};

/// What is done with one piece.
pub(crate) trait Work<T>: Sync {
    /// What it gives.
    type Output: Send;

    fn run(&self, items: impl Iterator<Item = T>) -> Self::Output;
}

/// Pieces for each thread: a member that began late, or whose items take longer, leaves some to
/// others.
const PIECES_PER_THREAD: usize = 4;

/// Runs `work` on each piece of `iterator`; returns what it gives, in order. One piece at least.
pub(crate) fn in_pieces<I: IndexedParallelIterator, W: Work<I::Item>>(
    iterator: I,
    work: &W,
) -> Vec<W::Output> {
    let length = iterator.len();
    iterator.with_producer(Cut { length, run: &Each(work) })
}

/// What is done with one piece, told where it begins and how long it is.
pub(crate) trait PlacedWork<T>: Sync {
    type Output: Send;

    fn run_at(&self, begin: usize, length: usize, items: impl Iterator<Item = T>) -> Self::Output;
}

struct Each<'a, W>(&'a W);

impl<T, W: Work<T>> PlacedWork<T> for Each<'_, W> {
    type Output = W::Output;

    fn run_at(&self, _: usize, _: usize, items: impl Iterator<Item = T>) -> W::Output {
        self.0.run(items)
    }
}

/// As [`in_pieces`], for work that has to know its place.
pub(crate) fn in_placed_pieces<I: IndexedParallelIterator, W: PlacedWork<I::Item>>(
    iterator: I,
    work: &W,
) -> Vec<W::Output> {
    let length = iterator.len();
    iterator.with_producer(Cut { length, run: work })
}

/// Gets the producer from rayon's plumbing.
struct Cut<'a, W> {
    length: usize,
    run: &'a W,
}

impl<T: Send, W: PlacedWork<T>> ProducerCallback<T> for Cut<'_, W> {
    type Output = Vec<W::Output>;

    fn callback<P: Producer<Item = T>>(self, producer: P) -> Vec<W::Output> {
        let count =
            count(self.length, producer.min_len(), producer.max_len(), || Team::available().size());
        if count == 1 {
            return vec![self.run.run_at(0, self.length, producer.into_iter())];
        }
        let pieces = cut(producer, self.length, count);
        let results: Vec<Mutex<Option<W::Output>>> =
            pieces.iter().map(|_| Mutex::new(None)).collect();
        par_for(0..count).schedule(Schedule::PURE).run(|number| {
            let Piece { begin, length, producer } = &pieces[number];
            let producer = producer.lock().unwrap_or_else(PoisonError::into_inner).take();
            let producer = producer.expect("the loop runs each number once");
            let result = self.run.run_at(*begin, *length, producer.into_iter());
            *results[number].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        let taken = results
            .into_iter()
            .map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        taken.map(|result| result.expect("the loop ran each piece")).collect()
    }
}

/// How many pieces `length` items make for `threads()` threads.
fn count(length: usize, least: usize, most: usize, threads: impl FnOnce() -> usize) -> usize {
    let (least, most) = (least.max(1), most.max(1));
    let at_most = (length / least).max(1);
    let at_least = length.div_ceil(most).max(1);
    if at_most == 1 && at_least == 1 {
        return 1;
    }
    let threads = threads();
    let wanted = if threads == 1 { 1 } else { threads * PIECES_PER_THREAD };
    // A maximum that contradicts the minimum wins, as in rayon.
    wanted.min(at_most).max(at_least)
}

/// A piece until it is taken.
struct Piece<P> {
    begin: usize,
    length: usize,
    producer: Mutex<Option<P>>,
}

/// Cuts `producer` into `count` pieces, whose lengths differ by one at most.
fn cut<P: Producer>(producer: P, length: usize, count: usize) -> Vec<Piece<P>> {
    let mut pieces = Vec::with_capacity(count);
    let mut rest = producer;
    let mut begin = 0;
    for number in 1..count {
        let end = (length as u128 * number as u128 / count as u128) as usize;
        let (piece, behind) = rest.split_at(end - begin);
        pieces.push(Piece { begin, length: end - begin, producer: Mutex::new(Some(piece)) });
        (rest, begin) = (behind, end);
    }
    pieces.push(Piece { begin, length: length - begin, producer: Mutex::new(Some(rest)) });
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_follow_the_team_and_the_lengths_that_the_program_allows() {
        assert_eq!(count(0, 1, usize::MAX, || 4), 1);
        assert_eq!(count(1, 1, usize::MAX, || 4), 1);
        assert_eq!(count(10, 1, usize::MAX, || 4), 10);
        assert_eq!(count(1000, 1, usize::MAX, || 4), 16);
        assert_eq!(count(1000, 1, usize::MAX, || 1), 1);
        assert_eq!(count(1000, 400, usize::MAX, || 4), 2);
        assert_eq!(count(1000, 1, 10, || 1), 100);
        assert_eq!(count(1000, 5000, 10, || 4), 100);
    }
}
