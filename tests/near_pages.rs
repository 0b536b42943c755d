//! Loops of `nanothreads` whose chunks are told, by the loop itself and by a line in its body: the
//! ledger has each page's references on the node of the worker that made them.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use nanothreads::{Schedule, par_chunks_mut, par_for};
use platform::affinity::{CpuSet, affinity, current_cpu, set_affinity};
use upm::source::{LoopSchedule, Pattern, Scope};
use upm::{Areas, CounterSource, Counters, Machine, Settings};

/// Words of a page, and of a cache line.
const WORDS: usize = 512;
const LINE: usize = 8;
const PAGES: usize = 96;
const CHUNK: usize = 3 * WORDS / 2;

/// Runs a chunk on the processor where it is now; returns which of the two nodes that is.
fn pinned(work: impl FnOnce()) -> usize {
    let before = affinity(None).unwrap();
    let here = current_cpu();
    set_affinity(None, &CpuSet::single(here)).unwrap();
    work();
    set_affinity(None, &before).unwrap();
    usize::try_from(here.0).unwrap() % 2
}

/// For each page what is expected of each node.
struct Expected {
    begin: usize,
    lines: Vec<[AtomicU64; 2]>,
}

impl Expected {
    fn new(field: &[u64]) -> Self {
        let lines = (0..PAGES).map(|_| [const { AtomicU64::new(0) }; 2]).collect();
        Self { begin: field.as_ptr().addr(), lines }
    }

    fn add(&self, bytes: Range<usize>, node: usize) {
        for address in bytes.step_by(8 * LINE) {
            self.lines[(address - self.begin) / 4096][node].fetch_add(1, Relaxed);
        }
    }

    fn compare(&self, source: &mut LoopSchedule, passes: usize) {
        source.stop();
        let mut counters = Counters::default();
        source.snapshot(&mut counters);
        assert_eq!(counters.total(), (passes * PAGES * WORDS / LINE) as u64);
        for (page, expected) in self.lines.iter().enumerate() {
            let expected = expected.each_ref().map(|count| count.load(Relaxed));
            assert_eq!(counters.page(page), expected, "page {page}");
        }
    }
}

fn bytes_of(elements: &[u64]) -> Range<usize> {
    let range = elements.as_ptr_range();
    range.start.addr()..range.end.addr()
}

#[test]
fn each_pages_references_are_those_of_the_workers_that_ran_its_chunks() {
    let pretended = Settings { pretended: Some(2), ..Settings::default() };
    let machine = Machine::new(pretended).unwrap();
    let mut memory = vec![0u64; (PAGES + 1) * WORDS];
    let skipped = memory.as_ptr().align_offset(4096);
    let field = &mut memory[skipped..][..PAGES * WORDS];
    let mut areas = Areas::new(4096);
    areas.add(field.as_ptr().addr(), PAGES * 4096).unwrap();
    let attached = || {
        let mut source = LoopSchedule::new();
        // SAFETY: - the memory outlives the source, which touches none.
        unsafe { source.attach(&areas, machine.topology()) }.unwrap();
        source
    };
    let (mut source, mut heard) = (attached(), attached());
    let (ledger, told, asked) = (source.ledger(), heard.ledger(), heard.ledger());
    let expected = Expected::new(field);
    let expected_of_loops = Arc::new(Expected::new(field));
    let from_loops = expected_of_loops.clone();
    nanothreads::builder()
        .on_chunk(
            move || asked.is_recording(),
            move |bytes| {
                let node = pinned(|| told.touched_here(bytes.clone()));
                from_loops.add(bytes, node);
            },
        )
        .install()
        .unwrap();

    // Not recorded, so nothing is told.
    par_chunks_mut(field, CHUNK).run(|_, chunk| chunk.fill(2));
    source.start(Scope::Iteration).unwrap();
    heard.start(Scope::Iteration).unwrap();
    for schedule in [Schedule::Static, Schedule::Auto] {
        par_chunks_mut(field, CHUNK).schedule(schedule).run(|_, chunk| {
            let node = pinned(|| ledger.elements(chunk));
            expected.add(bytes_of(chunk), node);
            chunk.fill(1);
        });
    }
    expected_of_loops.compare(&mut heard, 2);
    let rows = Pattern::rows(field, 4 * LINE);
    par_for(0..field.len() / (4 * LINE)).schedule(Schedule::PURE).run_chunks(|numbers| {
        let node = pinned(|| ledger.ran_here(&rows, numbers.clone()));
        expected.add(bytes_of(&field[numbers.start * 4 * LINE..numbers.end * 4 * LINE]), node);
    });
    expected.compare(&mut source, 3);
}
