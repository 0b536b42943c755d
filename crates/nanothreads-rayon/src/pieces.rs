//! Cuts an indexed iterator into pieces and deals them to the caller's team.

use nanothreads::{Schedule, Team, par_for};
use rayon::iter::IndexedParallelIterator;
use rayon::iter::plumbing::{Producer, ProducerCallback};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// What is done with one piece.
pub(crate) trait Work<T>: Sync {
    /// What it gives.
    type Output: Send;

    fn run(&self, items: impl Iterator<Item = T>) -> Self::Output;

    /// As [`PlacedWork::merge`].
    fn merge(&self, left: Self::Output, right: Self::Output) -> Merged<Self::Output> {
        Merged::Apart(left, right)
    }
}

/// What neighbouring pieces gave.
pub(crate) enum Merged<O> {
    /// As one value.
    One(O),
    /// As two, in their order.
    Apart(O, O),
}

/// Pieces for each thread: a member that began late, or whose items take longer, leaves some to
/// others.
const PIECES_PER_THREAD: usize = 4;

/// Strips of pieces for each thread, where the program wants many pieces: enough for members whose
/// items differ, few enough to be made before the first one runs.
const STRIPS_PER_THREAD: usize = 64;

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

    /// Makes one value of those of two neighbours that one member ran, where that can be done: a
    /// program that wants pieces of one item has as many as items.
    fn merge(&self, left: Self::Output, right: Self::Output) -> Merged<Self::Output> {
        Merged::Apart(left, right)
    }
}

struct Each<'a, W>(&'a W);

impl<T, W: Work<T>> PlacedWork<T> for Each<'_, W> {
    type Output = W::Output;

    fn run_at(&self, _: usize, _: usize, items: impl Iterator<Item = T>) -> W::Output {
        self.0.run(items)
    }

    fn merge(&self, left: W::Output, right: W::Output) -> Merged<W::Output> {
        self.0.merge(left, right)
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
        let mut threads = 1;
        let count = count(self.length, producer.min_len(), producer.max_len(), || {
            threads = Team::available().size();
            threads
        });
        if count == 1 {
            return vec![self.run.run_at(0, self.length, producer.into_iter())];
        }
        let strips = cut(producer, self.length, count, count.min(threads * STRIPS_PER_THREAD));
        let results: Vec<Mutex<Vec<W::Output>>> = strips.iter().map(|_| Mutex::default()).collect();
        par_for(0..strips.len()).schedule(Schedule::PURE).run(|number| {
            let strip = strips[number].lock().unwrap_or_else(PoisonError::into_inner).take();
            let strip = strip.expect("the loop runs each number once");
            let result = strip.run(self.run);
            *results[number].lock().unwrap_or_else(PoisonError::into_inner) = result;
        });
        let taken = results
            .into_iter()
            .flat_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        taken.collect()
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

/// Consecutive pieces that one member runs: cut from each other when their turn comes, so that many
/// small pieces take no memory before.
struct Strip<P> {
    /// Where each piece ends: the borders of all pieces of the iterator are `length * number /
    /// count`.
    numbers: Range<usize>,
    length: usize,
    count: usize,
    producer: P,
}

impl<P: Producer> Strip<P> {
    fn border(length: usize, number: usize, count: usize) -> usize {
        (length as u128 * number as u128 / count as u128) as usize
    }

    fn run<W: PlacedWork<P::Item>>(self, work: &W) -> Vec<W::Output> {
        let Self { numbers, length, count, producer: mut rest } = self;
        let mut results = Vec::new();
        let last = numbers.end - 1;
        let border = |number| Self::border(length, number, count);
        for number in numbers.start..last {
            let (begin, end) = (border(number), border(number + 1));
            let (piece, after) = rest.split_at(end - begin);
            push(&mut results, work, work.run_at(begin, end - begin, piece.into_iter()));
            rest = after;
        }
        let (begin, end) = (border(last), border(last + 1));
        push(&mut results, work, work.run_at(begin, end - begin, rest.into_iter()));
        results
    }
}

/// Puts what a piece gave after what those before it gave, or into the last of these.
fn push<T, W: PlacedWork<T>>(results: &mut Vec<W::Output>, work: &W, result: W::Output) {
    let Some(last) = results.pop() else { return results.push(result) };
    match work.merge(last, result) {
        Merged::One(both) => results.push(both),
        Merged::Apart(left, right) => results.extend([left, right]),
    }
}

/// Cuts `producer` into strips of about equally many of `count` pieces, whose lengths differ by one
/// at most.
fn cut<P: Producer>(
    producer: P,
    length: usize,
    count: usize,
    strips: usize,
) -> Vec<Mutex<Option<Strip<P>>>> {
    let mut all = Vec::with_capacity(strips);
    let (mut rest, mut first) = (producer, 0);
    for strip in 1..=strips {
        let end = Strip::<P>::border(count, strip, strips);
        let border = |number| Strip::<P>::border(length, number, count);
        let (numbers, own) = (first..end, border(end) - border(first));
        let of = |producer| Mutex::new(Some(Strip { numbers, length, count, producer }));
        if strip == strips {
            all.push(of(rest));
            break;
        }
        let (piece, after) = rest.split_at(own);
        all.push(of(piece));
        (rest, first) = (after, end);
    }
    all
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
