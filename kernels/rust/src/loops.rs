//! The parallel loops of the kernels, by nanothreads or by rayon. A kernel is compiled once for
//! each.
//!
//! Each body gets a whole piece of the loop, so that what is inside is plain sequential code:
//! - [`Nanothreads`]: one piece for each thread that the program has as the loop begins.
//! - [`Rayon`]: halves of halves, as rayon's own splitting decides (it cuts further what is
//!   stolen).

use std::ops::Range;
use std::thread::available_parallelism;

use nanothreads::{Schedule, Team, par_chunks_mut, par_for};
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use crate::parts::Parts;

/// Parallel loops.
pub trait Loops {
    /// Threads that a loop would have now.
    fn threads(&self) -> usize;

    /// Combines what `body` gives for the pieces of the range, in their order.
    fn reduce<R: Send + Sync + Clone>(
        &self,
        range: Range<usize>,
        zero: R,
        body: impl Fn(Range<usize>) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R;

    /// As [`Loops::reduce`], of pieces that `body` may write; it gets the number of a piece's
    /// first element, too.
    fn reduce_parts<P: Parts, R: Send + Sync + Clone>(
        &self,
        parts: P,
        zero: R,
        body: impl Fn(usize, P) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R;

    /// Runs `body` for the pieces.
    fn each<P: Parts>(&self, parts: P, body: impl Fn(usize, P) + Sync) {
        self.reduce_parts(parts, (), body, |(), ()| ());
    }

    /// Runs `body` once for each chunk of the slice, with its number; chunks may differ in work,
    /// and are handed out as threads come.
    fn unequal<T: Send>(
        &self,
        slice: &mut [T],
        chunk_length: usize,
        body: impl Fn(usize, &mut [T]) + Sync,
    );
}

/// Loops by nanothreads.
#[derive(Debug)]
pub struct Nanothreads {
    /// `None`: all processors that the program has.
    limit: Option<Team>,
}

impl Nanothreads {
    /// Loops of at most `threads` threads. As many as there are processors, or none given: all that
    /// the program has at that moment. More: exactly so many, whatever a manager grants.
    ///
    /// # Errors
    /// When no team can have so many threads.
    pub fn new(threads: Option<usize>) -> Result<Self, String> {
        let Some(threads) = threads else { return Ok(Self { limit: None }) };
        let processors = available_parallelism().map_or(1, usize::from);
        if threads > processors {
            nanothreads::builder().threads(threads).install().map_err(|error| error.to_string())?;
        }
        let limit = (threads < processors).then(|| Team::at_most(threads)).transpose();
        Ok(Self { limit: limit.map_err(|error| error.to_string())? })
    }

    /// Loops of as many threads as there are processors, or, where no manager runs, as the machine
    /// turns out to run.
    ///
    /// # Errors
    /// When a loop ran already.
    pub fn self_allocating() -> Result<Self, String> {
        let builder = nanothreads::builder().self_allocating(true);
        builder.install().map_err(|error| error.to_string())?;
        Ok(Self { limit: None })
    }

    /// Runs a loop with as many threads as were asked for.
    fn within<R>(&self, run: impl FnOnce() -> R) -> R {
        match &self.limit {
            Some(team) => team.install(run),
            None => run(),
        }
    }
}

impl Loops for Nanothreads {
    fn threads(&self) -> usize {
        self.within(|| Team::available().size())
    }

    fn reduce<R: Send + Sync + Clone>(
        &self,
        range: Range<usize>,
        zero: R,
        body: impl Fn(Range<usize>) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R {
        self.within(|| par_for(range).reduce_chunks(zero, body, add))
    }

    fn reduce_parts<P: Parts, R: Send + Sync + Clone>(
        &self,
        parts: P,
        zero: R,
        body: impl Fn(usize, P) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R {
        self.within(|| {
            let pieces = parts.deal(Team::available().size());
            let mut places: Vec<_> = pieces.into_iter().map(|piece| (Some(piece), None)).collect();
            par_chunks_mut(&mut places, 1).run(|_, place| {
                for (piece, result) in place {
                    *result = piece.take().map(|(first, part)| body(first, part));
                }
            });
            places.into_iter().filter_map(|(_, result)| result).fold(zero, add)
        })
    }

    fn unequal<T: Send>(
        &self,
        slice: &mut [T],
        chunk_length: usize,
        body: impl Fn(usize, &mut [T]) + Sync,
    ) {
        self.within(|| par_chunks_mut(slice, chunk_length).schedule(Schedule::PURE).run(body));
    }
}

/// Loops by rayon, on the pool that the caller runs in.
#[derive(Clone, Copy, Debug)]
pub struct Rayon;

/// A piece of a loop in halves, where there is anything to divide.
fn halve<P: Parts>((first, part): (usize, P)) -> ((usize, P), Option<(usize, P)>) {
    let half = part.count() / 2;
    if half == 0 {
        return ((first, part), None);
    }
    let (left, right) = part.cut(half);
    ((first, left), Some((first + half, right)))
}

impl Loops for Rayon {
    fn threads(&self) -> usize {
        rayon::current_num_threads()
    }

    fn reduce<R: Send + Sync + Clone>(
        &self,
        range: Range<usize>,
        zero: R,
        body: impl Fn(Range<usize>) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R {
        // By reference: what is shared may be sent.
        let (body, add) = (&body, &add);
        let halve = |range: Range<usize>| {
            let middle = range.start + range.len() / 2;
            if middle == range.start {
                return (range, None);
            }
            (range.start..middle, Some(middle..range.end))
        };
        rayon::iter::split(range, halve).map(body).reduce(|| zero.clone(), add)
    }

    fn reduce_parts<P: Parts, R: Send + Sync + Clone>(
        &self,
        parts: P,
        zero: R,
        body: impl Fn(usize, P) -> R + Sync,
        add: impl Fn(R, R) -> R + Sync,
    ) -> R {
        let (body, add) = (&body, &add);
        rayon::iter::split((0, parts), halve)
            .map(|(first, part)| body(first, part))
            .reduce(|| zero.clone(), add)
    }

    fn unequal<T: Send>(
        &self,
        slice: &mut [T],
        chunk_length: usize,
        body: impl Fn(usize, &mut [T]) + Sync,
    ) {
        slice
            .par_chunks_mut(chunk_length)
            .enumerate()
            .for_each(|(number, chunk)| body(number, chunk));
    }
}
