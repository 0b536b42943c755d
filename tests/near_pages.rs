//! Loops of `nanothreads` that say what they touch: the ledger has each page's references on the
//! node of the worker that made them.
#![allow(clippy::unwrap_used, reason = "a test that has no value fails")]

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

#[test]
fn each_pages_references_are_those_of_the_workers_that_ran_its_chunks() {
    let pretended = Settings { pretended: Some(2), ..Settings::default() };
    let machine = Machine::new(pretended).unwrap();
    let mut memory = vec![0u64; (PAGES + 1) * WORDS];
    let skipped = memory.as_ptr().align_offset(4096);
    let field = &mut memory[skipped..][..PAGES * WORDS];
    let mut areas = Areas::new(4096);
    areas.add(field.as_ptr().addr(), PAGES * 4096).unwrap();
    let mut source = LoopSchedule::new();
    let ledger = source.ledger();
    // SAFETY: - the memory outlives the source, which touches none.
    unsafe { source.attach(&areas, machine.topology()) }.unwrap();
    let expected: Vec<[AtomicU64; 2]> =
        (0..PAGES).map(|_| [const { AtomicU64::new(0) }; 2]).collect();
    let expect = |words: std::ops::Range<usize>, node: usize| {
        for word in words.step_by(LINE) {
            expected[word / WORDS][node].fetch_add(1, Relaxed);
        }
    };

    source.start(Scope::Iteration).unwrap();
    for schedule in [Schedule::Static, Schedule::Auto] {
        par_chunks_mut(field, CHUNK).schedule(schedule).run(|number, chunk| {
            let node = pinned(|| ledger.elements(chunk));
            chunk.fill(1);
            expect(number * CHUNK..number * CHUNK + chunk.len(), node);
        });
    }
    let rows = Pattern::rows(field, 4 * LINE);
    par_for(0..field.len() / (4 * LINE)).schedule(Schedule::PURE).run_chunks(|numbers| {
        let node = pinned(|| ledger.ran_here(&rows, numbers.clone()));
        expect(numbers.start * 4 * LINE..numbers.end * 4 * LINE, node);
    });
    source.stop();

    let mut counters = Counters::default();
    source.snapshot(&mut counters);
    assert_eq!(counters.total(), 3 * (PAGES * WORDS / LINE) as u64);
    for (page, expected) in expected.iter().enumerate() {
        let expected = expected.each_ref().map(|count| count.load(Relaxed));
        assert_eq!(counters.page(page), expected, "page {page}");
    }
}
