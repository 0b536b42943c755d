//! Loops whose body may end them.

use super::dealer::{Dealer, TeamLoop};
use super::{ParFor, Schedule};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

impl ParFor {
    /// Runs `body` for each number of the range until one breaks: then no further iteration is
    /// started on any member, and what that iteration broke with is returned. Of several that break
    /// at the same time the lowest one counts.
    ///
    /// ```
    /// use nanothreads::par_for;
    /// use std::ops::ControlFlow;
    ///
    /// let bytes = [3, 7, 250, 9];
    /// let checked = par_for(0..bytes.len()).try_run(|i| {
    ///     if bytes[i] < 128 { ControlFlow::Continue(()) } else { ControlFlow::Break(format!("byte {i} is {}", bytes[i])) }
    /// });
    /// assert_eq!(checked, ControlFlow::Break("byte 2 is 250".to_owned()));
    /// ```
    ///
    /// Cost: one load of an unchanging line for each iteration.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn try_run<B, F>(self, body: F) -> ControlFlow<B>
    where
        B: Send,
        F: Fn(usize) -> ControlFlow<B> + Sync,
    {
        let (range, schedule) = self.plan(Schedule::Static);
        let Some(team) = TeamLoop::reserve(range, schedule) else {
            return ControlFlow::Continue(());
        };
        let member = |id, dealer: &Dealer| {
            let (stop, mut broke) = (dealer.stop(), None);
            dealer.deal(id, |chunk| {
                for i in chunk {
                    if stop.is_raised() {
                        return ControlFlow::Break(());
                    }
                    if let ControlFlow::Break(value) = body(i) {
                        stop.raise();
                        broke = Some((i, value));
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            broke
        };
        lowest(team.gather(member, || {})).map_or(ControlFlow::Continue(()), ControlFlow::Break)
    }

    /// What `find` returns for the first number of the range for which it returns anything: the
    /// same as in a sequential loop. Numbers after the lowest one found so far are not looked at.
    ///
    /// ```
    /// let prime = |n: usize| (2..n).all(|d| n % d != 0).then_some(n);
    /// assert_eq!(nanothreads::par_for(1_000..2_000).find_first(prime), Some(1_009));
    /// ```
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn find_first<T, F>(self, find: F) -> Option<T>
    where
        T: Send,
        F: Fn(usize) -> Option<T> + Sync,
    {
        let (range, schedule) = self.plan(Schedule::Static);
        let team = TeamLoop::reserve(range, schedule)?;
        let lowest_found = AtomicUsize::new(usize::MAX);
        let member = |id, dealer: &Dealer| {
            let mut found = None;
            dealer.deal(id, |chunk| {
                for i in chunk {
                    // ORDERING: Relaxed - a bound that only falls: an older one lets needless
                    // iterations run. The values travel with the join.
                    if i > lowest_found.load(Relaxed) {
                        return ControlFlow::Break(());
                    }
                    if let Some(value) = find(i) {
                        lowest_found.fetch_min(i, Relaxed);
                        found = Some((i, value));
                    }
                }
                ControlFlow::Continue(())
            });
            found
        };
        lowest(team.gather(member, || {}))
    }
}

/// The value of the lowest iteration.
fn lowest<T>(gathered: impl Iterator<Item = (usize, T)>) -> Option<T> {
    gathered.min_by_key(|&(i, _)| i).map(|(_, value)| value)
}
