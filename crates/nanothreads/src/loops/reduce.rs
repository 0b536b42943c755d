//! Reductions: each member combines what its iterations give, the caller combines what the members
//! bring to the join.

use super::dealer::{Dealer, TeamLoop};
use super::{ParFor, Schedule};
use std::ops::{ControlFlow, Range};

impl ParFor {
    /// Combines what `map` gives for each number of the range, beginning with `identity`.
    ///
    /// Each member combines its own iterations in the order in which it gets them; then the caller
    /// combines the members' values in the order of the members. `combine` must be associative.
    /// Under [`Schedule::Static`] the whole is then in the order of the range, and the result of a
    /// team of a given size is always the same, floating point included; under other schedules
    /// `combine` must be commutative, too.
    ///
    /// ```
    /// use nanothreads::par_for;
    /// let x = [1.0, 2.0, 3.0];
    /// let y = [4.0, 5.0, 6.0];
    /// let dot = par_for(0..3).reduce(0.0, |i| x[i] * y[i], |a, b| a + b);
    /// assert_eq!(dot, 32.0);
    ///
    /// let text = par_for(0..10).reduce(String::new(), |i| i.to_string(), |a, b| a + &b);
    /// assert_eq!(text, "0123456789");
    /// ```
    /// Where nothing is an identity, `None` is one:
    /// ```
    /// let longer = |a: &'static str, b: &'static str| if b.len() > a.len() { b } else { a };
    /// let either = |a: Option<_>, b: Option<_>| match (a, b) {
    ///     (Some(a), Some(b)) => Some(longer(a, b)),
    ///     (a, b) => a.or(b),
    /// };
    /// let words = ["fork", "barrier", "join"];
    /// let longest = |n| nanothreads::par_for(0..n).reduce(None, |i| Some(words[i]), either);
    /// assert_eq!((longest(3), longest(0)), (Some("barrier"), None));
    /// ```
    ///
    /// # Panics
    /// With the payload of the first call that panics.
    #[doc(alias = "map_reduce")]
    #[doc(alias = "reduce_with")]
    #[doc(alias = "sum")]
    pub fn reduce<T, M, C>(self, identity: T, map: M, combine: C) -> T
    where
        T: Send,
        M: Fn(usize) -> T + Sync,
        C: Fn(T, T) -> T + Sync,
    {
        let map_chunk = |chunk: Range<usize>| chunk.map(&map).reduce(&combine);
        self.reduce_optional(identity, map_chunk, &combine)
    }

    /// As [`ParFor::reduce`], where `map` gives a value for a whole chunk (never an empty one): for
    /// inner loops of the program's own, and values that are costly to make.
    ///
    /// ```
    /// use nanothreads::par_for;
    /// let text = "the quick brown fox jumps over the lazy dog".as_bytes();
    /// let count = |chunk: std::ops::Range<usize>| {
    ///     let mut letters = vec![0; 256];
    ///     text[chunk].iter().for_each(|&letter| letters[usize::from(letter)] += 1);
    ///     letters
    /// };
    /// let add = |a: Vec<u32>, b: Vec<u32>| a.iter().zip(&b).map(|(a, b)| a + b).collect();
    /// let letters = par_for(0..text.len()).reduce_chunks(vec![0; 256], count, add);
    /// assert_eq!(letters[usize::from(b'o')], 4);
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::reduce`].
    #[doc(alias = "fold")]
    pub fn reduce_chunks<T, M, C>(self, identity: T, map: M, combine: C) -> T
    where
        T: Send,
        M: Fn(Range<usize>) -> T + Sync,
        C: Fn(T, T) -> T + Sync,
    {
        self.reduce_optional(identity, |chunk| Some(map(chunk)), combine)
    }

    /// As [`ParFor::reduce`], until `map` gives an error: then no further iteration is started, and
    /// that error is returned. Of several at the same time that of the lowest number counts.
    ///
    /// ```
    /// let texts = ["1", "2", "30"];
    /// let sum = nanothreads::par_for(0..3).try_reduce(0, |i| texts[i].parse::<u32>(), |a, b| a + b);
    /// assert_eq!(sum, Ok(33));
    /// ```
    ///
    /// # Errors
    /// That of `map`.
    ///
    /// # Panics
    /// As [`ParFor::reduce`].
    pub fn try_reduce<T, E, M, C>(self, identity: T, map: M, combine: C) -> Result<T, E>
    where
        T: Send,
        E: Send,
        M: Fn(usize) -> Result<T, E> + Sync,
        C: Fn(T, T) -> T + Sync,
    {
        let (range, schedule) = self.plan(Schedule::Static);
        let Some(team) = TeamLoop::reserve(range, schedule) else { return Ok(identity) };
        let (map, combine) = (&map, &combine);
        let member = move |id, dealer: &Dealer| {
            let (stop, mut own) = (dealer.stop(), Ok(None));
            dealer.deal(id, |chunk| {
                for i in chunk {
                    if stop.is_raised() {
                        return ControlFlow::Break(());
                    }
                    match (map(i), &mut own) {
                        (Ok(value), Ok(sum)) => {
                            *sum = Some(match sum.take() {
                                Some(sum) => combine(sum, value),
                                None => value,
                            });
                        }
                        (Err(error), _) => {
                            stop.raise();
                            own = Err((i, error));
                            return ControlFlow::Break(());
                        }
                        (Ok(_), Err(_)) => return ControlFlow::Break(()),
                    }
                }
                ControlFlow::Continue(())
            });
            Some(own)
        };
        let (mut sum, mut failed) = (identity, None);
        for own in team.gather(member, || {}) {
            match own {
                Ok(Some(own)) if failed.is_none() => sum = combine(sum, own),
                Ok(_) => {}
                Err((at, _)) if failed.as_ref().is_some_and(|(lowest, _)| *lowest < at) => {}
                Err(found) => failed = Some(found),
            }
        }
        failed.map_or(Ok(sum), |(_, error)| Err(error))
    }

    fn reduce_optional<T, M, C>(self, identity: T, map: M, combine: C) -> T
    where
        T: Send,
        M: Fn(Range<usize>) -> Option<T> + Sync,
        C: Fn(T, T) -> T + Sync,
    {
        let join = |left: Option<T>, right: Option<T>| match (left, right) {
            (Some(left), Some(right)) => Some(combine(left, right)),
            (left, right) => left.or(right),
        };
        let mut sum = Some(identity);
        let (range, schedule) = self.plan(Schedule::Static);
        let range = super::run_ahead(range, schedule, |chunk| sum = join(sum.take(), map(chunk)));
        if let Some(team) = TeamLoop::reserve(range, schedule) {
            let (join, map) = (&join, &map);
            let member = move |id, dealer: &Dealer| {
                let mut own = None;
                dealer.deal(id, |chunk| {
                    own = join(own.take(), map(chunk));
                    ControlFlow::Continue(())
                });
                own
            };
            sum = team.gather(member, || {}).fold(sum, |sum, own| join(sum, Some(own)));
        }
        sum.expect("it began with the identity, and joining never loses a value")
    }
}
