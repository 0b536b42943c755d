//! Loops that make a vector: one element for each iteration, or as many as each gives.
//!
//! # Panics
//! An element that was made is dropped once, whatever happens: each member keeps the parts of the
//! result that it has filled in ([`Filled`]), and gives them up only where the whole is there. A
//! child that is forked in the loop has its own member's part only, and gets a panic.

use super::dealer::{Dealer, TeamLoop};
use super::{ParFor, Schedule, run_ahead};
use std::mem::{MaybeUninit, needs_drop};
use std::ops::{ControlFlow, Range};
use std::ptr;

/// Where the elements go: places `0..length`, each filled in once, by one member.
struct Destination<T> {
    first: *mut MaybeUninit<T>,
}

// SAFETY: - members write disjoint places, and what they write moves to the caller: `T: Send`.
unsafe impl<T: Send> Sync for Destination<T> {}
// SAFETY: - as above.
unsafe impl<T: Send> Send for Destination<T> {}

/// Parts of the result that are filled in; drops them unless it is kept.
struct Filled<'a, T> {
    destination: &'a Destination<T>,
    /// Merged where they follow each other; none where elements need no drop.
    parts: Vec<Range<usize>>,
    count: usize,
}

impl<'a, T> Filled<'a, T> {
    fn new(destination: &'a Destination<T>) -> Self {
        Self { destination, parts: Vec::new(), count: 0 }
    }

    /// Fills `part` in.
    ///
    /// # Safety
    /// - The part is in bounds, and no other call has it.
    unsafe fn fill(&mut self, part: Range<usize>, mut element: impl FnMut(usize) -> T) {
        // Keeps the count of this part right where `element` panics.
        struct Begun<'b, 'a, T> {
            filled: &'b mut Filled<'a, T>,
            part: Range<usize>,
        }
        impl<T> Drop for Begun<'_, '_, T> {
            fn drop(&mut self) {
                self.filled.note(self.part.clone());
            }
        }
        let first = self.destination.first;
        let mut begun = Begun { filled: self, part: part.start..part.start };
        for at in part {
            let value = element(at);
            // SAFETY: - in bounds, and ours (caller's contract).
            unsafe { first.add(at).write(MaybeUninit::new(value)) };
            begun.part.end = at + 1;
        }
    }

    fn note(&mut self, part: Range<usize>) {
        self.count += part.len();
        if !needs_drop::<T>() || part.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(last) if last.end == part.start => last.end = part.end,
            _ => self.parts.push(part),
        }
    }

    /// How many elements there are. They are the caller's now.
    fn keep(mut self) -> usize {
        self.parts.clear();
        self.count
    }
}

impl<T> Drop for Filled<'_, T> {
    fn drop(&mut self) {
        for part in &self.parts {
            let first = self.destination.first.wrapping_add(part.start).cast::<T>();
            // SAFETY: - filled in by this member, and not given up.
            unsafe { ptr::drop_in_place(ptr::slice_from_raw_parts_mut(first, part.len())) };
        }
    }
}

#[cold]
fn is_parents() -> ! {
    panic!(
        "a child that was forked in a loop that collects has its own thread's part of the result \
         only: it cannot go on with the loop's result"
    )
}

impl ParFor {
    /// What `map` gives for each number of the range, in the order of the range.
    ///
    /// ```
    /// let squares = nanothreads::par_for(0..1000).collect(|i| i * i);
    /// assert_eq!((squares.len(), squares[999]), (1000, 998_001));
    /// ```
    /// Cost: one allocation, and for elements that need a drop one for each member.
    ///
    /// # Panics
    /// As [`ParFor::run`]; elements that were made are dropped. Where memory for the elements is
    /// not to be had, as `Vec::with_capacity`.
    #[doc(alias = "map")]
    pub fn collect<T: Send, F: Fn(usize) -> T + Sync>(self, map: F) -> Vec<T> {
        let (range, schedule) = self.plan(Schedule::Static);
        let (start, length) = (range.start, range.len());
        let mut elements = Vec::with_capacity(length);
        let destination = Destination { first: elements.spare_capacity_mut().as_mut_ptr() };
        let element = |at: usize| map(start + at);
        let mut ahead = Filled::new(&destination);
        let rest = run_ahead(range, schedule, |chunk| {
            // SAFETY: - the beginning of the range, once.
            unsafe { ahead.fill(chunk.start - start..chunk.end - start, element) };
        });
        let mut whole = Vec::new();
        if let Some(team) = TeamLoop::reserve(rest, schedule) {
            let (destination, element) = (&destination, &element);
            let member = move |id, dealer: &Dealer| {
                let mut own = Filled::new(destination);
                dealer.deal(id, |chunk| {
                    // SAFETY: - each chunk is dealt once, within the range.
                    unsafe { own.fill(chunk.start - start..chunk.end - start, element) };
                    ControlFlow::Continue(())
                });
                Some(own)
            };
            whole = team.gather(member, || {}).collect();
        }
        whole.push(ahead);
        if whole.iter().map(|filled| filled.count).sum::<usize>() != length {
            is_parents();
        }
        whole.into_iter().for_each(|filled| _ = filled.keep());
        // SAFETY: - each of the places is filled in, and nothing else drops them any more.
        unsafe { elements.set_len(length) };
        elements
    }

    /// What `map` gives for the numbers of the range for which it gives anything, in the order of
    /// the range.
    ///
    /// ```
    /// let even = nanothreads::par_for(0..10).filter_map(|i| (i % 2 == 0).then_some(i * 10));
    /// assert_eq!(even, [0, 20, 40, 60, 80]);
    ///
    /// // The numbers themselves: a filter.
    /// let sevens = nanothreads::par_for(0..30).filter_map(|i| (i % 7 == 0).then_some(i));
    /// assert_eq!(sevens, [0, 7, 14, 21, 28]);
    /// ```
    /// Cost: a vector for each member, or for each chunk of schedules that deal in turns; then a
    /// copy of each element to its place.
    ///
    /// # Panics
    /// As [`ParFor::run`].
    #[doc(alias = "filter")]
    pub fn filter_map<T: Send, F: Fn(usize) -> Option<T> + Sync>(self, map: F) -> Vec<T> {
        self.flat_map(map)
    }

    /// All that `map` gives for the numbers of the range, in the order of the range.
    ///
    /// ```
    /// let words = ["one two", "", "three"];
    /// let words = nanothreads::par_for(0..3).flat_map(|i| words[i].split_whitespace());
    /// assert_eq!(words, ["one", "two", "three"]);
    /// ```
    /// Cost: as [`ParFor::filter_map`].
    ///
    /// # Panics
    /// As [`ParFor::run`].
    pub fn flat_map<T, I, F>(self, map: F) -> Vec<T>
    where
        T: Send,
        I: IntoIterator<Item = T>,
        F: Fn(usize) -> I + Sync,
    {
        let (range, schedule) = self.plan(Schedule::Static);
        let Some(team) = TeamLoop::reserve(range, schedule) else { return Vec::new() };
        let map = &map;
        let member = move |id, dealer: &Dealer| {
            let mut runs: Vec<Run<T>> = Vec::new();
            dealer.deal(id, |chunk| {
                match runs.last_mut() {
                    Some(last) if last.numbers.end == chunk.start => {
                        last.numbers.end = chunk.end;
                    }
                    _ => runs.push(Run { numbers: chunk.clone(), elements: Vec::new() }),
                }
                let run = runs.last_mut().expect("pushed just now");
                chunk.for_each(|i| run.elements.extend(map(i)));
                ControlFlow::Continue(())
            });
            Some(runs)
        };
        let mut runs: Vec<Run<T>> = team.gather(member, || {}).flatten().collect();
        runs.sort_by_key(|run| run.numbers.start);
        in_order(runs)
    }
}

/// Consecutive numbers of the range, and what they gave.
struct Run<T> {
    numbers: Range<usize>,
    elements: Vec<T>,
}

/// The elements of all, one after the other.
fn in_order<T>(runs: Vec<Run<T>>) -> Vec<T> {
    let length: usize = runs.iter().map(|run| run.elements.len()).sum();
    let mut runs = runs.into_iter();
    let Some(Run { elements: mut all, .. }) = runs.next() else { return Vec::new() };
    all.reserve_exact(length - all.len());
    runs.for_each(|mut run| all.append(&mut run.elements));
    all
}
