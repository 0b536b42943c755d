//! Questions to a range: how many, whether any, which is the least.

use super::ParFor;
use std::ops::ControlFlow;

impl ParFor {
    /// For how many numbers of the range `is` holds.
    ///
    /// ```
    /// assert_eq!(nanothreads::par_for(0..100).count(|i| i % 7 == 0), 15);
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn count<F: Fn(usize) -> bool + Sync>(self, is: F) -> usize {
        let count = |chunk: std::ops::Range<usize>| chunk.filter(|&i| is(i)).count();
        self.reduce_chunks(0, count, |a, b| a + b)
    }

    /// Whether `is` holds for some number of the range. None is asked about after the first one
    /// that was found, but for those that are being asked about.
    ///
    /// ```
    /// assert!(nanothreads::par_for(0..1_000_000).any(|i| i == 5));
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn any<F: Fn(usize) -> bool + Sync>(self, is: F) -> bool {
        let body = |i| if is(i) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        self.try_run(body).is_break()
    }

    /// Whether `is` holds for each number of the range; else as [`ParFor::any`].
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn all<F: Fn(usize) -> bool + Sync>(self, is: F) -> bool {
        !self.any(|i| !is(i))
    }

    /// The least of what `key` gives, of equal ones that of the lowest number; `None` for an empty
    /// range.
    ///
    /// ```
    /// let x = [3.5, -1.0, 2.0];
    /// let least = nanothreads::par_for(0..3).min(|i| (ordered(x[i]), i));
    /// assert_eq!(least.map(|(_, at)| at), Some(1));
    /// # fn ordered(x: f64) -> i64 { (x * 10.0) as i64 }
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn min<K: Ord + Send, F: Fn(usize) -> K + Sync>(self, key: F) -> Option<K> {
        self.best(key, |new, old| new < old)
    }

    /// The greatest of what `key` gives, of equal ones that of the highest number; `None` for an
    /// empty range.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn max<K: Ord + Send, F: Fn(usize) -> K + Sync>(self, key: F) -> Option<K> {
        self.best(key, |new, old| new >= old)
    }

    /// `is_better(new, old)`, where `new` is that of a higher number.
    fn best<K, F>(self, key: F, is_better: impl Fn(&K, &K) -> bool + Sync) -> Option<K>
    where
        K: Send,
        F: Fn(usize) -> K + Sync,
    {
        type Found<K> = Option<(usize, K)>;
        let better = |a: Found<K>, b: Found<K>| {
            let (a, b) = match (a, b) {
                (Some(a), Some(b)) => (a, b),
                (a, b) => return a.or(b),
            };
            let (low, high) = if a.0 <= b.0 { (a, b) } else { (b, a) };
            Some(if is_better(&high.1, &low.1) { high } else { low })
        };
        self.reduce(None, |i| Some((i, key(i))), better).map(|(_, key)| key)
    }

    /// Runs `body` for each number of the range until one gives an error: then no further iteration
    /// is started, and that error is returned. Of several at the same time that of the lowest
    /// number counts.
    ///
    /// ```
    /// let texts = ["1", "2", "x"];
    /// let checked = nanothreads::par_for(0..3).try_for_each(|i| texts[i].parse::<u32>().map(drop));
    /// assert!(checked.is_err());
    /// ```
    ///
    /// # Errors
    /// That of `body`.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn try_for_each<E, F>(self, body: F) -> Result<(), E>
    where
        E: Send,
        F: Fn(usize) -> Result<(), E> + Sync,
    {
        let body = |i| body(i).map_or_else(ControlFlow::Break, ControlFlow::Continue);
        match self.try_run(body) {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }
}
