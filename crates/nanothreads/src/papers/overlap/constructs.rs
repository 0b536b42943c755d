//! How the open constructs of an overlap reach its workers, and how these report: rings of the
//! engine's own lines.
//!
//! # Protocol
//! Constructs are numbered 0, 1, 2, ...; number n has place n % [`OPEN`].
//! 1. `supply` (leader): by lines, writes place n of each worker's ring of [`Slot`]s; by broadcast,
//!    publishes work n + 1 in the [`Ring`].
//! 2. `look` (follower): takes the numbers in turn. By lines it polls the place of the next number
//!    and no other.
//! 3. `arrive` (follower): finishes the line, or adds one to its [`Arrival`].
//! 4. `has_arrived` (leader), about the oldest construct that it has not recorded: the line of that
//!    place is done, or the arrivals passed the last one recorded. `record_oldest` adds one: a
//!    worker may be further by then, with younger ones.
//!
//! # Invariants
//! Q1  At most [`OPEN`] constructs are supplied and not recorded, so place n is free when n is
//!     supplied (I1 and I2 of [`engine::slot`], I2 of [`engine::ring`]).
//!
//! Orderings: those of the lines. Models: `overlap/model.rs`.
//!
//! # Papers
//! P1 section 3.1.2 (F5): circular lists of descriptors per processor, searched in turn; here the
//! descriptor stands in the line, and the arrival beside it.

use engine::arrival::{Arrival, LastSeen};
use engine::ring::{self, Ring, Word};
use engine::slot::{Slot, Supplied};
use engine::work::Work;
use std::ptr;

/// Constructs that may be open at once: a power of two.
#[cfg(not(loom))]
pub(crate) const OPEN: usize = 4;
/// Fewer, so that models come to places that are used again.
#[cfg(loom)]
pub(crate) const OPEN: usize = 2;

/// What a worker has to do: a work and its data, as words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkWords([Word; 2]);

// SAFETY: - the data is handed to the thread that runs the work; the supplier answers for that.
unsafe impl Send for WorkWords {}

impl WorkWords {
    /// Nothing more comes.
    pub(crate) const END: Self = Self([ptr::null_mut(); 2]);

    /// `work` with `data`.
    pub(crate) fn new(work: Work, data: *const ()) -> Self {
        Self([work as Word, data.cast_mut()])
    }

    /// Work and data; `None` at the end.
    pub(crate) fn work(self) -> Option<(Work, *const ())> {
        let [work, data] = self.0;
        // SAFETY: - not null: a `Work` that `new` cast to a pointer.
        (!work.is_null())
            .then(|| (unsafe { std::mem::transmute::<Word, Work>(work) }, data.cast_const()))
    }
}

/// What leader and followers share.
#[derive(Debug)]
pub(crate) struct Constructs(Supply);

#[derive(Debug)]
enum Supply {
    /// A ring of lines for each worker (LWD).
    Lines(Box<[[Slot<WorkWords>; OPEN]]>),
    /// One ring for all (GWD), and an arrival line for each worker.
    Ring(Box<Ring<2, OPEN>>, Box<[Arrival<()>]>),
}

impl Constructs {
    /// For `workers`, by broadcast or by lines.
    pub(crate) fn new(workers: usize, is_broadcast: bool) -> Self {
        Self(if is_broadcast {
            Supply::Ring(Box::default(), (0..workers).map(|_| Arrival::new()).collect())
        } else {
            Supply::Lines(
                (0..workers).map(|_| std::array::from_fn(|_| Slot::new(WorkWords::END))).collect(),
            )
        })
    }
}

fn place(number: u64) -> usize {
    (number % OPEN as u64) as usize
}

/// The number of construct `number` in its line.
fn in_line(number: u64) -> u64 {
    number / OPEN as u64 + 1
}

/// The master's side.
#[derive(Debug)]
pub(crate) struct Leader {
    /// The number of the next construct, and of the oldest that is not recorded.
    next: u64,
    oldest: u64,
    workers: usize,
    /// By broadcast: the last arrival of each worker that was recorded (PJV).
    last: Vec<LastSeen>,
}

impl Leader {
    /// The leader of `constructs`, of which none has been supplied.
    pub(crate) fn new(constructs: &Constructs) -> Self {
        let (workers, last) = match &constructs.0 {
            Supply::Lines(lines) => (lines.len(), Vec::new()),
            Supply::Ring(_, arrivals) => {
                (arrivals.len(), arrivals.iter().map(LastSeen::of).collect())
            }
        };
        Self { next: 0, oldest: 0, workers, last }
    }

    /// How many follow.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// The number of the oldest construct that is not recorded, or of the next.
    pub(crate) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Step 1: supplies the next construct, and returns its number. The caller then wakes the
    /// workers that sleep.
    ///
    /// # Safety
    /// - Fewer than [`OPEN`] are supplied and not recorded (Q1); `constructs` are those of this
    ///   leader, their only one.
    /// - Each worker may run the part once; what it points to lives until it is recorded.
    pub(crate) unsafe fn supply(&mut self, constructs: &Constructs, part: WorkWords) -> u64 {
        let number = self.next;
        self.next += 1;
        match &constructs.0 {
            Supply::Lines(lines) => {
                for line in lines {
                    // SAFETY: - one leader; Q1: what stood in this place is recorded, hence done.
                    unsafe { line[place(number)].supply(part, false) };
                }
            }
            Supply::Ring(ring, _) => ring.publish(number + 1, part.0),
        }
        number
    }

    /// Step 4: true when `worker` is done with the oldest construct.
    #[inline]
    pub(crate) fn has_arrived(&self, constructs: &Constructs, worker: usize) -> bool {
        match &constructs.0 {
            Supply::Lines(lines) => lines[worker][place(self.oldest)].is_done(in_line(self.oldest)),
            Supply::Ring(_, arrivals) => self.last[worker].is_passed(&arrivals[worker]),
        }
    }

    /// Records the oldest construct, which all workers are done with ([`Self::has_arrived`]).
    pub(crate) fn record_oldest(&mut self) {
        self.last.iter().for_each(LastSeen::record_one);
        self.oldest += 1;
    }
}

/// A worker's side.
#[derive(Debug)]
pub(crate) struct Follower {
    worker: usize,
    /// The number of the next construct.
    next: u64,
    ring: ring::Follower,
}

impl Follower {
    /// Worker `worker`, before the first construct.
    pub(crate) fn new(worker: usize) -> Self {
        Self { worker, next: 0, ring: ring::Follower::new(1) }
    }

    /// Step 2: the next construct, if it is there. Cost when it is not: one load.
    ///
    /// # Safety
    /// - The caller is the worker of these constructs, and has arrived from what it found last.
    #[inline]
    pub(crate) unsafe fn look(&mut self, constructs: &Constructs) -> Option<WorkWords> {
        let part = match &constructs.0 {
            Supply::Lines(lines) => {
                let line = &lines[self.worker][place(self.next)];
                // SAFETY: - this is the line's worker, which finished the number before (caller's
                // contract).
                match unsafe { line.poll(in_line(self.next) - 1) } {
                    Supplied::Work(_, part) => part,
                    Supplied::TakenBack(_) | Supplied::Nothing => return None,
                }
            }
            Supply::Ring(ring, _) => WorkWords(self.ring.look(ring, |_| true)?),
        };
        self.next += 1;
        Some(part)
    }

    /// Step 3.
    ///
    /// # Safety
    /// - The caller is done with the construct that it found last, and arrives once for it.
    #[inline]
    pub(crate) unsafe fn arrive(&self, constructs: &Constructs) {
        let number = self.next - 1;
        match &constructs.0 {
            // SAFETY: - caller's contract.
            Supply::Lines(lines) => unsafe {
                lines[self.worker][place(number)].finish(in_line(number))
            },
            // SAFETY: - caller's contract.
            Supply::Ring(_, arrivals) => unsafe { arrivals[self.worker].arrive() },
        }
    }
}
