//! Counts by what loops say they touch: which bytes an iteration reads and writes, and on which
//! node it ran. Exact in bytes that are named; caches are not known to it.
//!
//! # Protocol
//! Workers call the [`Ledger`] for each chunk that they ran. While nothing is recorded such a call
//! is one load.
//!
//! # Which call
//! | the loop | its line |
//! |---|---|
//! | `par_chunks_mut` of `nanothreads` | none for the chunk, when the program said so once: `Builder::on_chunk` with [`Ledger::is_recording`] and [`Ledger::touched_here`] |
//! | over chunks of a slice | [`Ledger::elements`] of the chunk, and of each other slice that it reads |
//! | over numbers, of which each touches an element or a row | [`Pattern::elements`] or [`Pattern::rows`] outside, [`Ledger::ran_here`] with the numbers of a chunk |
//! | over columns of a matrix in rows | [`Ledger::columns`] |
//! | over anything else | [`Ledger::touched_here`], for each piece of memory |

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use platform::lock::Mutex;

use super::{Caps, CounterSource, Scope, SourceError};
use crate::area::Areas;
use crate::counters::Counters;
use crate::topology::{Node, Topology};

/// Bytes that one reference brings: a cache line.
const LINE: usize = 64;

/// What an iteration of a loop touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The address for iteration 0.
    pub base: usize,
    /// Bytes from one iteration to the next.
    pub stride: usize,
    /// Bytes that an iteration touches.
    pub bytes: usize,
    /// How often it touches them.
    pub times: u32,
}

impl Pattern {
    /// Iteration i touches element i of a slice, once.
    pub fn elements<T>(slice: &[T]) -> Self {
        Self::rows(slice, 1)
    }

    /// Iteration i touches row i of a matrix whose rows have `width` elements, once.
    pub fn rows<T>(matrix: &[T], width: usize) -> Self {
        let bytes = size_of::<T>().saturating_mul(width);
        Self { base: matrix.as_ptr().addr(), stride: bytes, bytes, times: 1 }
    }

    /// The same, so many times in each iteration.
    #[must_use]
    pub fn repeated(self, times: u32) -> Self {
        Self { times, ..self }
    }
}

#[derive(Debug)]
struct Book {
    areas: Areas,
    /// The operating system's number of each node.
    numbers: Vec<u32>,
    /// The node of each processor, where that is not what the system says.
    processors: Vec<Node>,
    counts: Vec<AtomicU64>,
    /// From the first area's begin to the last one's end.
    hull: Range<usize>,
}

/// What workers tell of their chunks.
#[derive(Debug, Default)]
pub struct Ledger {
    is_open: AtomicBool,
    book: Mutex<Option<Arc<Book>>>,
}

impl Ledger {
    /// The calling thread touched these elements once: the one line of a loop over chunks.
    ///
    /// ```
    /// # fn each_chunk(field: &mut [f64], work: impl Fn(&mut [f64])) { work(field) }
    /// # let ledger = upm::source::Ledger::default();
    /// # let mut field = vec![0.0; 100];
    /// each_chunk(&mut field, |chunk| {
    ///     ledger.elements(chunk);
    ///     chunk.iter_mut().for_each(|value| *value += 1.0);
    /// });
    /// ```
    #[inline]
    pub fn elements<T>(&self, elements: &[T]) {
        let bytes = elements.as_ptr_range();
        self.touched_here(bytes.start.addr()..bytes.end.addr());
    }

    /// The calling thread touched these columns of a matrix whose rows have `width` elements, in
    /// each row once. A last row that is shorter counts as far as it goes.
    pub fn columns<T>(&self, matrix: &[T], width: usize, columns: Range<usize>) {
        let Some(book) = self.open_book() else { return };
        let Some(node) = book.here() else { return };
        for row in matrix.chunks(width.max(1)) {
            let part = columns.start.min(row.len())..columns.end.min(row.len());
            let bytes = row.get(part).unwrap_or_default().as_ptr_range();
            book.count(node, bytes.start.addr()..bytes.end.addr(), 1);
        }
    }

    /// Iterations of a loop ran on a node (the operating system's number).
    pub fn ran(&self, node: u32, pattern: &Pattern, iterations: Range<usize>) {
        let Some(book) = self.open_book() else { return };
        if let Some(node) = book.node(node) {
            book.ran(node, pattern, iterations);
        }
    }

    /// Iterations of a loop ran on the calling thread.
    pub fn ran_here(&self, pattern: &Pattern, iterations: Range<usize>) {
        let Some(book) = self.open_book() else { return };
        if let Some(node) = book.here() {
            book.ran(node, pattern, iterations);
        }
    }

    /// Bytes were touched once from a node (the operating system's number).
    pub fn touched(&self, node: u32, bytes: Range<usize>) {
        let Some(book) = self.open_book() else { return };
        if let Some(node) = book.node(node) {
            book.count(node, bytes, 1);
        }
    }

    /// The calling thread touched bytes once.
    pub fn touched_here(&self, bytes: Range<usize>) {
        let Some(book) = self.open_book() else { return };
        if let Some(node) = book.here() {
            book.count(node, bytes, 1);
        }
    }

    /// Whether an iteration is recorded now. Cost: one load. For loops that are asked once, as they
    /// begin, whether they shall tell of each chunk (`nanothreads`: `Builder::on_chunk`).
    #[inline]
    pub fn is_recording(&self) -> bool {
        // ORDERING: Relaxed - a loop that sees it late leaves its chunks out.
        self.is_open.load(Relaxed)
    }

    #[inline]
    fn open_book(&self) -> Option<Arc<Book>> {
        // Only says whether it is worth taking the lock.
        if !self.is_recording() {
            return None;
        }
        self.book.lock().ok()?.clone()
    }
}

impl Book {
    fn node(&self, number: u32) -> Option<Node> {
        self.numbers.iter().position(|known| *known == number).map(Node::at)
    }

    /// Where the calling thread runs.
    fn here(&self) -> Option<Node> {
        if self.processors.is_empty() {
            return self.node(platform::numa::current_node());
        }
        let processor = usize::try_from(platform::affinity::current_cpu().0).ok()?;
        self.processors.get(processor).copied()
    }

    fn ran(&self, node: Node, pattern: &Pattern, iterations: Range<usize>) {
        let address = |iteration: usize| {
            iteration.checked_mul(pattern.stride).and_then(|far| far.checked_add(pattern.base))
        };
        let times = u64::from(pattern.times);
        if pattern.stride == 0 {
            // A table: each iteration touches the same.
            let iterations = u64::try_from(iterations.len()).unwrap_or(u64::MAX);
            let bytes = pattern.base..pattern.base.saturating_add(pattern.bytes);
            self.count(node, bytes, times.saturating_mul(iterations));
        } else if pattern.stride <= pattern.bytes {
            let (Some(begin), Some(last)) =
                (address(iterations.start), iterations.end.checked_sub(1).and_then(address))
            else {
                return;
            };
            if !iterations.is_empty() {
                self.count(node, begin..last.saturating_add(pattern.bytes), times);
            }
        } else {
            // What lies outside all areas is not gone through.
            let to = |address: usize| address.saturating_sub(pattern.base) / pattern.stride;
            let first = to(self.hull.start.saturating_sub(pattern.bytes)).max(iterations.start);
            let last = to(self.hull.end).saturating_add(1).min(iterations.end);
            for begin in (first..last).map_while(address) {
                self.count(node, begin..begin.saturating_add(pattern.bytes), times);
            }
        }
    }

    fn count(&self, node: Node, bytes: Range<usize>, times: u64) {
        let page = self.areas.page_bytes();
        let mut begin = bytes.start.max(self.hull.start);
        let bytes = begin..bytes.end.min(self.hull.end);
        while begin < bytes.end {
            let end = (begin / page + 1).saturating_mul(page).min(bytes.end);
            if let Some(index) = self.areas.page_at(begin) {
                let lines = u64::try_from((end - begin).div_ceil(LINE)).unwrap_or(u64::MAX);
                let count = &self.counts[index * self.numbers.len() + node.index()];
                // ORDERING: Relaxed - a counter; the region's end orders it before `snapshot`.
                count.fetch_add(lines.saturating_mul(times), Relaxed);
            }
            begin = end;
        }
    }
}

/// The source that reads a ledger.
#[derive(Debug, Default)]
pub struct LoopSchedule {
    ledger: Arc<Ledger>,
    book: Option<Arc<Book>>,
    /// An iteration was recorded, in which no loop named a page.
    is_silent: bool,
}

impl LoopSchedule {
    /// One with a ledger of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// One that reads this ledger.
    pub fn with_ledger(ledger: Arc<Ledger>) -> Self {
        Self { ledger, book: None, is_silent: false }
    }

    /// The ledger, for the workers.
    pub fn ledger(&self) -> Arc<Ledger> {
        self.ledger.clone()
    }

    fn publish(&self) {
        let mut book = self.ledger.book.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        book.clone_from(&self.book);
    }
}

impl CounterSource for LoopSchedule {
    fn name(&self) -> &'static str {
        "loop schedules"
    }

    fn caps(&self) -> Caps {
        Caps { is_exact: true, sees_reads: true, makes_faults: false }
    }

    unsafe fn attach(&mut self, areas: &Areas, topology: &dyn Topology) -> Result<(), SourceError> {
        let nodes = topology.nodes();
        let numbers = (0..nodes).map(|node| topology.number(Node::at(node))).collect();
        let counts = (0..areas.pages() * nodes).map(|_| AtomicU64::new(0)).collect();
        let processors = topology.processors().to_vec();
        let all = || areas.spans().iter().map(crate::area::Span::outer);
        let begin = all().map(|outer| outer.start).min().unwrap_or(0);
        let hull = begin..all().map(|outer| outer.end).max().unwrap_or(begin);
        let areas = areas.clone();
        self.book = Some(Arc::new(Book { areas, numbers, processors, counts, hull }));
        self.is_silent = false;
        self.publish();
        Ok(())
    }

    fn start(&mut self, _: Scope) -> Result<(), SourceError> {
        // ORDERING: Relaxed - a worker that sees it late leaves a chunk out.
        self.ledger.is_open.store(true, Relaxed);
        Ok(())
    }

    fn snapshot(&mut self, out: &mut Counters) {
        let Some(book) = &self.book else { return out.clear(0, 0) };
        let nodes = book.numbers.len();
        out.clear(book.areas.pages(), nodes);
        for (index, count) in book.counts.iter().enumerate() {
            // ORDERING: Relaxed - see `Book::count`.
            out.add(index / nodes, Node::at(index % nodes), count.load(Relaxed));
        }
    }

    fn failure(&self) -> Option<String> {
        let why = "no loop said that it touches a page of the areas while it was recorded";
        self.is_silent.then(|| why.to_owned())
    }

    fn stop(&mut self) {
        // ORDERING: Relaxed - as in `start`.
        if self.ledger.is_open.swap(false, Relaxed)
            && let Some(book) = &self.book
        {
            // ORDERING: Relaxed - see `Book::count`.
            self.is_silent = book.counts.iter().all(|count| count.load(Relaxed) == 0);
        }
    }
}

impl Drop for LoopSchedule {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::TableTopology;
    use proptest::prelude::*;

    /// A source that records areas at these addresses, on two nodes: every thread is on the first.
    fn recording(spans: &[(usize, usize)]) -> (LoopSchedule, Areas) {
        let mut source = LoopSchedule::new();
        let mut areas = Areas::new(4096);
        for (begin, length) in spans {
            // Those that overlap are left out.
            let _refused = areas.add(*begin, *length);
        }
        let topology = TableTopology::new(2, &[]).unwrap().with_processors(vec![Node(0); 4096]);
        // SAFETY: - this source touches no memory.
        unsafe { source.attach(&areas, &topology) }.unwrap();
        source.start(Scope::Iteration).unwrap();
        (source, areas)
    }

    fn rows(source: &mut LoopSchedule) -> Vec<[u64; 2]> {
        source.stop();
        let mut counters = Counters::default();
        source.snapshot(&mut counters);
        (0..counters.pages()).map(|page| counters.page(page).try_into().unwrap()).collect()
    }

    #[test]
    fn chunks_count_for_the_pages_that_they_touch_while_recorded() {
        let mut source = LoopSchedule::new();
        let mut areas = Areas::new(4096);
        areas.add(0x10_000, 4 * 4096).unwrap();
        let topology = TableTopology::new(2, &[]).unwrap();
        // SAFETY: - this source touches no memory.
        unsafe { source.attach(&areas, &topology) }.unwrap();
        let ledger = source.ledger();
        let dense = Pattern { base: 0x10_000, stride: 8, bytes: 8, times: 1 };
        ledger.ran(0, &dense, 0..512);
        source.start(Scope::Iteration).unwrap();
        ledger.ran(1, &dense, 256..768);
        // A column: one element of each page.
        let column = Pattern { base: 0x10_000, stride: 4096, bytes: 8, times: 3 };
        ledger.ran(0, &column, 1..9);
        ledger.touched(7, 0x10_000..0x11_000);
        // Far outside: nothing, at once.
        ledger.ran(0, &Pattern { base: 0x20_000, ..column }, 0..usize::MAX);
        ledger.touched(0, 0x14_000..usize::MAX);
        ledger.ran(0, &dense, 5..5);
        source.stop();
        ledger.ran(1, &dense, 0..512);
        let mut counters = Counters::default();
        source.snapshot(&mut counters);
        let rows: Vec<&[u64]> = (0..4).map(|page| counters.page(page)).collect();
        assert_eq!(rows, [&[0, 32][..], &[3, 32], &[3, 0], &[3, 0]]);
    }

    /// In whole pages: elements of a line, four rows of 16 on each page.
    #[repr(align(4096))]
    struct Matrix([[u64; 8]; 256]);

    #[test]
    fn elements_rows_and_columns_of_slices_count_for_the_pages_that_hold_them() {
        let matrix = &Matrix([[0; 8]; 256]).0[..];
        let (mut source, _) = recording(&[(matrix.as_ptr().addr(), 4 * 4096)]);
        let ledger = source.ledger();
        // 1 + 64 + 2 lines, then rows 3 and 4, twice, then two columns of each row.
        ledger.elements(&matrix[63..130]);
        ledger.elements(&matrix[5..5]);
        ledger.ran(1, &Pattern::rows(matrix, 16).repeated(2), 3..5);
        ledger.ran(1, &Pattern::elements(matrix), 255..256);
        ledger.columns(matrix, 16, 14..16);
        ledger.columns(&matrix[..24], 16, 14..99);
        let expected = [[1 + 8 + 2, 32], [64 + 8, 32], [2 + 8, 0], [8, 1]];
        assert_eq!(rows(&mut source), expected);
    }

    #[test]
    fn a_table_that_each_iteration_reads_counts_for_each() {
        let (mut source, _) = recording(&[(0x10_000, 4096)]);
        let table = Pattern { base: 0x10_000, stride: 0, bytes: 64, times: 3 };
        source.ledger().ran(1, &table, 10..17);
        source.ledger().ran(1, &table, 7..7);
        assert_eq!(rows(&mut source), [[0, 21]]);
    }

    proptest! {
        /// Against every byte of every iteration, one by one.
        #[test]
        fn a_page_has_references_if_and_only_if_an_iteration_touches_it(
            spans in proptest::collection::vec((0usize..30, 1usize..4 * 4096), 1..4),
            offset in 0usize..9000,
            stride in 0usize..9000,
            bytes in 0usize..9000,
            iterations in (0usize..12, 0usize..12),
        ) {
            const BEGIN: usize = 0x40_000;
            let spans: Vec<(usize, usize)> =
                spans.into_iter().map(|(page, length)| (BEGIN + page * 4096 + 100, length)).collect();
            let (mut source, areas) = recording(&spans);
            let pattern = Pattern { base: BEGIN + offset, stride, bytes, times: 1 };
            let iterations = iterations.0..iterations.1;
            source.ledger().ran(1, &pattern, iterations.clone());
            let mut touched = vec![false; areas.pages()];
            for iteration in iterations {
                let begin = pattern.base + iteration * stride;
                for page in (begin..begin + bytes).filter_map(|byte| areas.page_at(byte)) {
                    touched[page] = true;
                }
            }
            let counted = rows(&mut source);
            prop_assert!(counted.iter().all(|row| row[0] == 0));
            let counted: Vec<bool> = counted.iter().map(|row| row[1] > 0).collect();
            prop_assert_eq!(counted, touched);
        }
    }
}
